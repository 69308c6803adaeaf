//! Interrupts of this program's host: the world delivers them with the turn, and the thread that
//! gets the turn calls their handlers.

use std::sync::OnceLock;

use ferroce_driver::bus::{BusError, InterruptHandler};
use ferroce_spec::register::VECTOR_COUNT;
use ferroce_timed_protocol::cm::INTERRUPT;
use parking_lot::RwLock;

use crate::library::Library;

type Handlers = [Option<InterruptHandler>; VECTOR_COUNT as usize];

/// The handlers of this process, which is on one host with one card.
static HANDLERS: RwLock<Handlers> = RwLock::new([const { None }; VECTOR_COUNT as usize]);

/// The function that is called when events of RDMA CM channels have arrived.
static ON_EVENTS: OnceLock<fn()> = OnceLock::new();

/// Makes the time library call the handlers of interrupts in this program.
pub(crate) fn call_handlers_of(library: Library) {
    library.on_interrupts(call_handlers);
}

/// Calls the handlers of the vectors whose bits are set.
extern "C" fn call_handlers(_context: *mut std::ffi::c_void, vectors: u64) {
    report_events(vectors);
    for vector in 0..usize::from(VECTOR_COUNT) {
        if vectors >> vector & 1 == 0 {
            continue;
        }
        // Called without the lock, because a handler may set handlers.
        let handler = HANDLERS.read()[vector].clone();
        if let Some(handler) = handler {
            handler();
        }
    }
}

/// Sets the handler of a vector, and returns the old one: its captures may take a lock when they
/// are dropped.
///
/// # Errors
/// [`BusError::NoSuchVector`].
pub(crate) fn set_handler(
    vector: u16,
    handler: Option<InterruptHandler>,
) -> Result<Option<InterruptHandler>, BusError> {
    match HANDLERS.write().get_mut(usize::from(vector)) {
        Some(place) => Ok(std::mem::replace(place, handler)),
        None => Err(BusError::NoSuchVector),
    }
}

/// Sets the function that is called when events of channels have arrived, unless one is set.
pub(crate) fn set_on_events(on_events: fn()) {
    ON_EVENTS.get_or_init(|| on_events);
}

/// Calls the function for events, if the interrupts contain its bit.
fn report_events(interrupts: u64) {
    if interrupts & INTERRUPT != 0
        && let Some(on_events) = ON_EVENTS.get()
    {
        on_events();
    }
}

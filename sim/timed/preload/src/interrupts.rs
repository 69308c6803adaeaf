//! Interrupts of the card: the function of the verbs library that handles them.
#![expect(unsafe_code, reason = "a function by its address")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use ferroce_timed_protocol::table::InterruptFunction;

/// Address of the interrupt function; zero: none.
static FUNCTION: AtomicUsize = AtomicUsize::new(0);
/// Its argument.
static CONTEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Sets the function of the verbs library that handles interrupts, and its argument.
pub extern "C" fn set(function: Option<InterruptFunction>, context: *mut c_void) {
    FUNCTION.store(0, Ordering::SeqCst);
    CONTEXT.store(context, Ordering::SeqCst);
    let address = function.map_or(0, |function| function as usize);
    FUNCTION.store(address, Ordering::SeqCst);
}

/// Calls the interrupt function.
pub fn handle(vectors: u64) {
    let address = FUNCTION.load(Ordering::SeqCst);
    // SAFETY: the address is zero, which is `None`, or `set` has stored an `InterruptFunction`
    // there.
    let function: Option<InterruptFunction> = unsafe { std::mem::transmute(address) };
    if let Some(function) = function {
        function(CONTEXT.load(Ordering::SeqCst), vectors);
    }
}

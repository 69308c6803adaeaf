//! Target `verbs`: calls of the C ABI with hostile arguments.
//!
//! A program creates and destroys objects of all kinds, with masks, sizes, counts and flags from
//! the input, and posts lists of requests. It does nothing that C forbids: a pointer is null, a
//! living object, or mapped memory of the length that the call may access. There must be no panic
//! (which the boundary would turn into EIO), no write outside of the given memory, and no object
//! that cannot be destroyed after its children.

mod connect;
mod create;
mod ffi;
mod objects;
mod work;

use std::ffi::c_void;
use std::mem::{offset_of, zeroed};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::Mutex;

use ferroce_provider::abi::{
    IBV_ACCESS_ON_DEMAND, IBV_QPT_RC, IBV_QPT_UD, ibv_context, verbs_context,
};
use ffi::*;
use objects::Objects;

use crate::input::Input;

/// Maximum number of calls of one input.
const STEPS: usize = 64;
/// Size of the registered memory: larger than the device's own memory.
const ARENA: usize = 1 << 20;
/// Size of the inaccessible memory on both sides of it.
const GUARD: usize = 1 << 20;

/// The program's device and memory; both live as long as the process.
#[derive(Clone, Copy)]
struct Program {
    context: *mut ibv_context,
    arena: *mut u8,
}

// SAFETY: verbs may be called by any thread, and the arena is only an address here.
unsafe impl Send for Program {}

static PROGRAM: Mutex<Option<Program>> = Mutex::new(None);

/// Runs one input.
pub fn fuzz(bytes: &[u8]) {
    let mut program = match PROGRAM.lock() {
        Ok(program) => program,
        Err(poisoned) => poisoned.into_inner(),
    };
    let program = *program.get_or_insert_with(Program::start);
    let mut session = Session {
        program,
        objects: Objects::default(),
    };
    let mut input = Input::new(bytes);
    session.begin();
    match input.below(4) {
        1 | 2 => session.connect(IBV_QPT_RC),
        3 => session.connect(IBV_QPT_UD),
        _ => {}
    }
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        session.step(&mut input);
    }
    session.drain_events();
    session.objects.destroy_all(program.context);
    session.drain_events();
}

/// Returns the function table of a context.
fn table(context: *mut ibv_context) -> &'static verbs_context {
    // SAFETY: the library's contexts stand inside such a table, as `abi_compat` says.
    unsafe {
        assert_eq!((*context).abi_compat as usize, usize::MAX);
        &*context
            .byte_sub(offset_of!(verbs_context, context))
            .cast::<verbs_context>()
    }
}

/// Returns the directory of a fabric without other processes.
fn fabric() -> PathBuf {
    std::env::temp_dir().join(format!("ferroce-fuzz-{}", std::process::id()))
}

extern "C" fn remove_fabric() {
    let _ = std::fs::remove_dir_all(fabric());
}

impl Program {
    fn start() -> Self {
        // SAFETY: no other thread of the process looks at its environment; the function stays.
        unsafe {
            std::env::set_var("FERROCE_DIR", fabric());
            libc::atexit(remove_fabric);
        }
        // SAFETY: a new mapping; its middle is made accessible.
        let arena = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let whole = ARENA + 2 * GUARD;
            let start = libc::mmap(null_mut(), whole, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let arena = start.byte_add(GUARD);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(arena, ARENA, access), 0);
            arena.cast()
        };
        let mut count = 0;
        // SAFETY: the list is freed once; its first device is opened before.
        let context = unsafe {
            let list = ibv_get_device_list(&mut count);
            assert!(count > 0, "there is a device");
            let context = ibv_open_device(*list);
            ibv_free_device_list(list);
            assert!(!context.is_null(), "it opens");
            let flags = libc::fcntl((*context).async_fd, libc::F_GETFL);
            let flags = flags | libc::O_NONBLOCK;
            assert_eq!(libc::fcntl((*context).async_fd, libc::F_SETFL, flags), 0);
            context
        };
        Self { context, arena }
    }

    /// Returns a place in the arena.
    fn place(&self, input: &mut Input<'_>) -> *mut u8 {
        // SAFETY: inside of the arena.
        unsafe { self.arena.add(usize::from(input.u16()) * 4) }
    }

    /// Returns a place in the arena and a length that is either inside of the arena, or so long
    /// that it must be refused.
    fn range(&self, input: &mut Input<'_>) -> (*mut c_void, usize) {
        let place = self.place(input);
        let room = ARENA - (place.addr() - self.arena.addr());
        let length = input.number() as usize;
        let fits = length <= room || length > room + GUARD / 2;
        (place.cast(), if fits { length } else { room })
    }

    /// Returns a length for a region at a place in the arena. On-demand regions may be longer than
    /// the memory that exists, and would give the device what lies beyond the arena.
    fn length(&self, address: *mut c_void, length: usize, is_on_demand: bool) -> usize {
        let room = ARENA - (address.addr() - self.arena.addr());
        if is_on_demand {
            length.min(room)
        } else {
            length
        }
    }
}

/// Returns true if a region with these access flags is not pinned.
fn is_on_demand(access: u64) -> bool {
    access & u64::from(IBV_ACCESS_ON_DEMAND) != 0
}

/// One run of the program.
struct Session {
    program: Program,
    objects: Objects,
}

impl Session {
    /// Creates the objects of nearly every program: a PD, a CQ and a region.
    fn begin(&mut self) {
        let Program { context, arena } = self.program;
        // SAFETY: the context is open and the arena mapped.
        unsafe {
            let pd = ibv_alloc_pd(context);
            self.objects.pds.keep(pd);
            let cq = ibv_create_cq(context, 16, null_mut(), null_mut(), 0);
            self.objects.cqs.keep(cq);
            let mr = ibv_reg_mr_iova2(pd, arena.cast(), ARENA, arena.addr() as u64, 0xf);
            assert!(!pd.is_null() && !cq.is_null() && !mr.is_null());
            self.objects.mrs.keep(mr);
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(24) {
            0..=9 => self.create(input),
            10 => self.objects.destroy_one(self.program.context, input),
            11..=13 => self.modify_qp(input),
            14..=16 => self.post_send(input),
            17 => self.post_receive(input),
            18 | 19 => self.post_extended(input),
            20 | 21 => self.poll(input),
            22 => self.change(input),
            _ => self.query(input),
        }
    }

    /// Takes the events that wait.
    fn drain_events(&self) {
        // SAFETY: the descriptor does not block; each event is acknowledged once.
        unsafe {
            let mut event = zeroed();
            while ibv_get_async_event(self.program.context, &mut event) == 0 {
                assert!(!ibv_event_type_str(event.event_type).is_null());
                ibv_ack_async_event(&mut event);
            }
        }
    }
}

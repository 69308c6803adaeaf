//! Single-stepping a thread that makes no calls.

#![expect(unsafe_code, reason = "signal handlers that read and change registers")]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use ferroce_timed_protocol::STUCK;
use ferroce_timed_protocol::page::{NEVER_PS, PAGE_SIZE, Turn};
use ferroce_timed_protocol::request::Wait;
use iced_x86::{Decoder, DecoderOptions, Instruction};
use libc::{mcontext_t, siginfo_t, ucontext_t};

use super::check::{MAX_LOOPS, end_if_lost, reserve, wait_for_first_change, watched};
use super::copy::{Copy, MAX_BYTES};
use super::cycle::{Cycle, Progress};
use super::place::Places;
use super::registers::Registers;
use crate::os::keeping_errno;
use crate::own::Own;
use crate::signals::PROBE_SIGNAL;
use crate::thread::state;
use crate::tsc::rewrite;
use crate::{joined, real, world_end};

/// Time that passes with each signal to a thread that computes for long.
const STUCK_STEP_PS: u64 = 1_000_000;
/// Makes the processor trap after each instruction.
const TRAP_FLAG: i64 = 0x100;
/// Bytes of a jump.
const JUMP_BYTES: usize = 5;
/// Maximum length of an instruction, in bytes.
const INSTRUCTION_BYTES: usize = 15;
/// Instructions after which the probe gives up.
const MAX_STEPS: u32 = 1000;

/// `POLL_IN` of the kernel: the world has sent something to another thread.
const INPUT: c_int = 1;

/// State of the probe of a thread.
#[derive(Debug)]
struct Probe {
    cycle: Cycle,
    steps: u32,
    /// Set when the loop is proven; the thread continues to this instruction of it.
    target: Option<usize>,
    /// The program's action for `SIGTRAP`.
    program_action: MaybeUninit<libc::sigaction>,
}

/// Not zero: the thread of this number is being probed, and it alone uses [`PROBE`].
static PROBED: AtomicI32 = AtomicI32::new(0);
static PROBE: Shared = Shared(UnsafeCell::new(Probe {
    cycle: Cycle::new(),
    steps: 0,
    target: None,
    program_action: MaybeUninit::uninit(),
}));

/// Addresses of loops that have been copied, or cannot be.
static TRIED: [AtomicUsize; MAX_LOOPS] = [const { AtomicUsize::new(0) }; MAX_LOOPS];
static TRIED_COUNT: AtomicUsize = AtomicUsize::new(0);

struct Shared(UnsafeCell<Probe>);

// SAFETY: only the thread that `PROBED` names uses it, in handlers that do not interrupt one
// another: the signals are blocked in them.
unsafe impl Sync for Shared {}

/// Prepares the program; called once, when it joins.
pub fn install() {
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
    if IS_INSTALLED.swap(true, Ordering::Relaxed) {
        return;
    }
    // Fills the decoder's tables now, because that allocates.
    let mut decoder = Decoder::with_ip(64, &[0x90], 0, DecoderOptions::NONE);
    let _ = decoder.decode();
    set_handler(PROBE_SIGNAL, on_probe, libc::SA_RESTART, null_mut());
}

type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

fn set_handler(signal: c_int, handler: Handler, flags: c_int, old: *mut libc::sigaction) {
    // SAFETY: zero is valid for all fields of a `sigaction`: integers, a set and an optional
    // function.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | flags;
    // SAFETY: the contract of `sigaction`: pointers to locals, and the handlers call only
    // async-signal-safe functions.
    unsafe {
        libc::sigaddset(&raw mut action.sa_mask, PROBE_SIGNAL);
        real::sigaction(signal, &raw const action, old);
    }
}

fn thread_number() -> c_int {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Handles the probe's signal: the world asks for the thread's state, or has ended.
extern "C" fn on_probe(_: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: `info` is the argument of the handler, which the kernel has filled.
    match unsafe { (*info).si_code } {
        INPUT => return,
        // From the kernel: the connection has ended.
        code if code > 0 => world_end::keep_asking(),
        _ => {}
    }
    let state = state();
    let has_turn = state.page().is_some_and(|page| page.turn() == Turn::Thread);
    // After the end of the world, a loop that waits for the world has to be proven, too.
    let is_asked = has_turn && joined::is_running() || joined::has_ended();
    if !is_asked || !state.is_outermost() {
        return;
    }
    if state
        .page()
        .is_some_and(|page| page.is_stuck.load(Ordering::Relaxed) != 0)
    {
        return keeping_errno(let_time_pass);
    }
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let own = thread_number();
    let begins = match PROBED.compare_exchange(0, own, success, failure) {
        Ok(_) => true,
        // A repeated request, or the program has left the probe by a jump out of a signal handler.
        Err(probed) if probed == own => false,
        Err(_) => return,
    };
    keeping_errno(|| {
        // SAFETY: the kernel passes a valid context, and `PROBED` gives this thread exclusive use
        // of the probe.
        let (context, probe) = unsafe { (&mut *context.cast::<ucontext_t>(), &mut *PROBE.0.get()) };
        probe.cycle.clear();
        probe.steps = 0;
        probe.target = None;
        if begins {
            let old = probe.program_action.as_mut_ptr();
            set_handler(libc::SIGTRAP, on_step, libc::SA_NODEFER, old);
        }
        probe.go_on(&mut context.uc_mcontext);
    });
}

/// Lets other threads run for a moment, in a loop that could not be proven to wait for memory.
fn let_time_pass() {
    if let Some(own) = Own::enter(STUCK) {
        let time_ps = own.now_ps().saturating_add(STUCK_STEP_PS);
        own.wait(&Wait::At { time_ps }, NEVER_PS);
    }
}

/// Handles the trap after an instruction of the thread.
extern "C" fn on_step(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    if PROBED.load(Ordering::Acquire) != thread_number() {
        return;
    }
    keeping_errno(|| {
        // SAFETY: the kernel passes a valid context, and `PROBED` gives this thread exclusive use
        // of the probe.
        let (context, probe) = unsafe { (&mut *context.cast::<ucontext_t>(), &mut *PROBE.0.get()) };
        probe.go_on(&mut context.uc_mcontext);
    });
}

fn instruction_pointer(context: &mcontext_t) -> u64 {
    context.gregs[libc::REG_RIP as usize] as u64
}

impl Probe {
    /// Handles the instruction that the thread is about to execute.
    fn go_on(&mut self, context: &mut mcontext_t) {
        self.steps += 1;
        let ip = instruction_pointer(context);
        let registers = Registers::of_context(context);
        if self.target.is_none() {
            let progress =
                instruction_at(ip).map(|found| self.cycle.add(found, &registers, memory_at));
            match progress {
                Some(Progress::More) => {}
                // A loop without a check waits only for a signal.
                Some(Progress::Proven) => self.target = self.choose(),
                Some(Progress::Failed) | None => return self.end(context),
            }
            if progress == Some(Progress::Proven) && self.target.is_none() {
                // A loop without a check waits only for a signal.
                return self.end(context);
            }
        }
        let step = self.target.and_then(|target| self.cycle.step(target));
        match step {
            Some(step) if step.instruction.ip() == ip => self.wait(context, &registers),
            _ if self.steps > MAX_STEPS => self.end(context),
            _ => context.gregs[libc::REG_EFL as usize] |= TRAP_FLAG,
        }
    }

    /// Returns the instruction at which checks will be counted: one that can be replaced by a jump
    /// to a copy, otherwise the best.
    fn choose(&self) -> Option<usize> {
        let fits = |place: &usize| self.jump_length(*place).is_some();
        self.cycle
            .checks()
            .find(fits)
            .or_else(|| self.cycle.checks().next())
    }

    /// Returns how many bytes a jump at this instruction replaces. `None`: the replaced bytes
    /// contain an exit target of the loop, or are not executed in this order.
    fn jump_length(&self, place: usize) -> Option<usize> {
        let at = self.cycle.step(place)?.instruction.ip();
        let mut length = 0;
        for next in place..place + self.cycle.length() {
            let step = self.cycle.step(next % self.cycle.length())?;
            if step.instruction.ip() != at + length as u64 {
                return None;
            }
            length += step.instruction.len();
            if length >= JUMP_BYTES {
                break;
            }
        }
        let replaced = at + 1..at + length as u64;
        let is_way_out = self.cycle.steps().any(|step| {
            let target = step.instruction.near_branch_target();
            replaced.contains(&target)
        });
        (length >= JUMP_BYTES && !is_way_out).then_some(length)
    }

    /// Waits, when the thread is at its check again with the same registers. A copy of the loop
    /// makes later checks, if it can be copied.
    fn wait(&mut self, context: &mut mcontext_t, registers: &Registers) {
        let Some(target) = self.target else {
            return self.end(context);
        };
        let places = Places::of(&self.cycle, target);
        if let Some(body) = self.move_loop(target, places) {
            context.gregs[libc::REG_RIP as usize] = body as i64;
        }
        let check = watched(places, registers);
        self.end(context);
        // From here on the probe may belong to another thread.
        match Own::enter_uncharged() {
            Some(own) => wait_for_first_change(&own, check),
            None => end_if_lost(),
        }
    }

    /// Makes a copy of the loop and redirects the program to it. Returns the address after its
    /// first check.
    fn move_loop(&self, target: usize, places: Option<Places>) -> Option<u64> {
        let length = self.jump_length(target)?;
        let at = usize::try_from(self.cycle.step(target)?.instruction.ip()).ok()?;
        let is_tried = |cell: &AtomicUsize| cell.load(Ordering::Relaxed) == at;
        if TRIED.iter().any(is_tried) {
            return None;
        }
        let tried = TRIED_COUNT.fetch_add(1, Ordering::Relaxed);
        TRIED.get(tried)?.store(at, Ordering::Relaxed);
        let (stub, number) = reserve(places)?;
        let room = rewrite::allocate(at, MAX_BYTES)?.expose_provenance();
        let copy = Copy::new(&self.cycle, target, room as u64, stub, number)?;
        let code = copy.code();
        // SAFETY: the memory was allocated for this copy, which is not longer.
        unsafe {
            with_exposed_provenance_mut::<u8>(room)
                .copy_from_nonoverlapping(code.as_ptr(), code.len());
        }
        rewrite::replace(at, length, room).then(|| copy.body())
    }

    /// Ends the probe.
    fn end(&mut self, context: &mut mcontext_t) {
        context.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG;
        // SAFETY: the contract of `sigaction`: the action was saved when the probe began.
        unsafe { real::sigaction(libc::SIGTRAP, self.program_action.as_ptr(), null_mut()) };
        PROBED.store(0, Ordering::Release);
    }
}

/// Returns the bytes that the next instruction loads.
fn memory_at(address: u64, size: usize) -> Option<u64> {
    let mut bytes = [0; 8];
    let address = usize::try_from(address).ok()?;
    let found = bytes.get_mut(..size).filter(|_| size > 0)?;
    let source = with_exposed_provenance::<u8>(address);
    // SAFETY: the processor is about to load the same bytes. Another thread may write them at the
    // same time: a mix of old and new bytes makes the proof fail in the next iteration.
    unsafe { found.as_mut_ptr().copy_from_nonoverlapping(source, size) };
    Some(u64::from_le_bytes(bytes))
}

/// Returns the instruction at an address that is about to be executed, and its bytes.
fn instruction_at(ip: u64) -> Option<(Instruction, [u8; INSTRUCTION_BYTES])> {
    let address = usize::try_from(ip).ok()?;
    let to_page_end = PAGE_SIZE - address % PAGE_SIZE;
    // The next page exists if the instruction continues there.
    [to_page_end.min(INSTRUCTION_BYTES), INSTRUCTION_BYTES]
        .into_iter()
        .find_map(|length| decode(address, length))
}

fn decode(address: usize, length: usize) -> Option<(Instruction, [u8; INSTRUCTION_BYTES])> {
    let mut bytes = [0; INSTRUCTION_BYTES];
    let code = with_exposed_provenance::<u8>(address);
    // SAFETY: the processor is about to execute the bytes of the instruction, so they are readable;
    // the rest is on the same page.
    unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(code, length) };
    let code = bytes.get(..length)?;
    let mut decoder = Decoder::with_ip(64, code, address as u64, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (!instruction.is_invalid()).then_some((instruction, bytes))
}

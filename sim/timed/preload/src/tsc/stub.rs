//! The code that replaces `rdtsc`.
//!
//! It may change `rax` and `rdx` and nothing else, flags included. The usual cases of
//! [`crate::clock::read_ps`], in which no signal is due and the world need not catch up, are
//! handled without a call; all others save the whole state of the processor.
#![expect(unsafe_code, reason = "assembly")]

use std::arch::global_asm;
use std::arch::x86_64::__cpuid_count;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_timed_protocol::PS_PER_CYCLE;
use ferroce_timed_protocol::page::ThreadPage;

use crate::clock::{FREE_READS, READ_PS};
use crate::session::IS_RUNNING;
use crate::thread::ThreadState;

/// Bytes of the state that `xsave` writes. Zero: the processor has no `xsave`.
pub static SAVE_BYTES: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    /// Only for trampolines: not callable from Rust.
    fn ferroce_tsc_stub();
}

// On entry the return address is below the red zone of the interrupted code.
global_asm!(
    ".pushsection .text.ferroce_tsc_stub,\"ax\",@progbits",
    ".balign 16",
    ".globl ferroce_tsc_stub",
    ".hidden ferroce_tsc_stub",
    ".type ferroce_tsc_stub,@function",
    "ferroce_tsc_stub:",
    // Save the flags in ah and al, which go to the stack.
    "lahf",
    "seto al",
    "push rax",
    "push rcx",
    "mov rdx, qword ptr [rip + ferroce_thread_state@GOTTPOFF]",
    "add rdx, qword ptr fs:[0]",
    "cmp dword ptr [rip + {is_running}], 0",
    "je 2f",
    "mov rcx, qword ptr [rdx + {page}]",
    "test rcx, rcx",
    "jz 2f",
    "cmp dword ptr [rdx + {depth}], 0",
    "jne 2f",
    "cmp dword ptr [rdx + {reads}], {free_reads}",
    "jae 4f",
    "inc dword ptr [rdx + {reads}]",
    "mov rax, qword ptr [rcx + {clock}]",
    "5:",
    "inc qword ptr [rcx + {calls}]",
    "xor edx, edx",
    "mov ecx, {ps_per_cycle}",
    "div rcx",
    "3:",
    "mov rdx, rax",
    "shr rdx, 32",
    "mov ecx, eax",
    "mov rax, qword ptr [rsp + 8]",
    "add al, 127",
    "sahf",
    "mov eax, ecx",
    "mov rcx, qword ptr [rsp]",
    "lea rsp, [rsp + 16]",
    "ret",
    // Many reads: time advances with each, until something has to be checked.
    "4:",
    "je 2f",
    "mov rax, qword ptr [rcx + {clock}]",
    "add rax, {read_ps}",
    "cmp rax, qword ptr [rcx + {deadline}]",
    "jae 2f",
    "cmp rax, qword ptr [rdx + {check}]",
    "jae 2f",
    // In one instruction: a handler that interrupts may move the clock, too.
    "add qword ptr [rcx + {clock}], {read_ps}",
    "mov rax, qword ptr [rcx + {clock}]",
    "jmp 5b",
    "2:",
    "push rbx",
    "push rbp",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "pushfq",
    "cld",
    "mov rbp, rsp",
    "sub rsp, qword ptr [rip + {save_bytes}]",
    "and rsp, -64",
    // xsave does not write all of its header, which has to be zero.
    "xor eax, eax",
    "mov qword ptr [rsp + 512], rax",
    "mov qword ptr [rsp + 520], rax",
    "mov qword ptr [rsp + 528], rax",
    "mov qword ptr [rsp + 536], rax",
    "mov qword ptr [rsp + 544], rax",
    "mov qword ptr [rsp + 552], rax",
    "mov qword ptr [rsp + 560], rax",
    "mov qword ptr [rsp + 568], rax",
    "mov eax, -1",
    "mov edx, -1",
    "xsave64 [rsp]",
    "call {slow}",
    "mov rbx, rax",
    "mov eax, -1",
    "mov edx, -1",
    "xrstor64 [rsp]",
    "mov rax, rbx",
    "mov rsp, rbp",
    "popfq",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rbp",
    "pop rbx",
    "jmp 3b",
    ".size ferroce_tsc_stub, . - ferroce_tsc_stub",
    ".popsection",
    is_running = sym IS_RUNNING,
    save_bytes = sym SAVE_BYTES,
    slow = sym read_counter,
    page = const ThreadState::PAGE_OFFSET,
    depth = const ThreadState::DEPTH_OFFSET,
    reads = const ThreadState::READS_OFFSET,
    check = const offset_of!(ThreadState, check_ps),
    free_reads = const FREE_READS,
    read_ps = const READ_PS,
    deadline = const offset_of!(ThreadPage, deadline_ps),
    calls = const offset_of!(ThreadPage, calls),
    clock = const offset_of!(ThreadPage, clock_ps),
    ps_per_cycle = const PS_PER_CYCLE,
);

/// Handles all cases but the usual one.
extern "C" fn read_counter() -> u64 {
    crate::os::keeping_errno(super::read_counter)
}

/// Asks the processor for the size of its state.
pub fn prepare() {
    #[allow(unused_unsafe, reason = "safe since Rust 1.94")]
    // SAFETY: every x86-64 processor has `cpuid`.
    let (features, sizes) = unsafe { (__cpuid_count(1, 0), __cpuid_count(13, 0)) };
    let has_xsave = features.ecx & 1 << 27 != 0;
    let bytes = if has_xsave { sizes.ebx } else { 0 };
    SAVE_BYTES.store(u64::from(bytes).next_multiple_of(64), Ordering::Relaxed);
}

/// Returns the address of the code. Zero: it cannot be used on this processor.
pub fn address() -> usize {
    match SAVE_BYTES.load(Ordering::Relaxed) {
        0 => 0,
        _ => ferroce_tsc_stub as *const () as usize,
    }
}

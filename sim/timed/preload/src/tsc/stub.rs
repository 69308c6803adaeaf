//! The code that replaces `rdtsc`.
//!
//! It may change only `rax` and `rdx`, not even flags. It handles the usual cases of
//! [`crate::clock::read_ps`], in which no signal is due and the world need not catch up, without a
//! call; all others save the whole state of the processor.
#![expect(unsafe_code, reason = "assembly")]

use std::arch::global_asm;
use std::mem::offset_of;

use ferroce_timed_protocol::PS_PER_CYCLE;
use ferroce_timed_protocol::page::ThreadPage;

use super::extended_state::{self, SAVE_BYTES, with_extended_state};
use crate::clock::{FREE_READS, READ_PS};
use crate::joined::IS_RUNNING;
use crate::thread::ThreadState;

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
    // Many reads: each advances the time, until something has to be checked.
    "4:",
    "je 2f",
    "mov rax, qword ptr [rcx + {clock}]",
    "add rax, {read_ps}",
    "cmp rax, qword ptr [rcx + {deadline}]",
    "jae 2f",
    "cmp rax, qword ptr [rdx + {check}]",
    "jae 2f",
    // In one instruction, because a handler that interrupts it may move the clock, too.
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
    with_extended_state!("call {slow}", "mov rbx, rax"),
    "mov rax, rbx",
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

/// Returns the address of the code. Zero: it cannot be used on this processor.
pub fn address() -> usize {
    if extended_state::can_be_saved() {
        ferroce_tsc_stub as *const () as usize
    } else {
        0
    }
}

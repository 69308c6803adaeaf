//! The guarded instructions of x86-64. After a fault of any of them the functions return 1: none of
//! them changes the stack pointer or a callee-saved register.

use std::arch::global_asm;
use std::sync::atomic::{AtomicU8, Ordering};

/// The widest registers that long copies use; set by [`prepare`].
static WIDEST: AtomicU8 = AtomicU8::new(BYTES_16);
const BYTES_16: u8 = 0;
const BYTES_32: u8 = 1;
const BYTES_64: u8 = 2;

// System V: destination in rdi, source in rsi, the lengths in rdx and rcx; the answer in eax.
//
// Up to 128 bytes: two moves, four or eight that overlap in the middle. More: a loop of whole
// registers that are aligned in the destination, between unaligned first and last ones.
global_asm!(
    ".text",
    ".p2align 6",
    ".globl ferroce_guarded_begin",
    ".hidden ferroce_guarded_begin",
    "ferroce_guarded_begin:",
    ".globl ferroce_guarded_copy",
    ".hidden ferroce_guarded_copy",
    ".type ferroce_guarded_copy, @function",
    "ferroce_guarded_copy:",
    "    lea r8, [rdi + rdx]",
    "    lea r9, [rsi + rdx]",
    "    cmp rdx, 16",
    "    jb 20f",
    "    cmp rdx, 32",
    "    ja 30f",
    "    movups xmm0, [rsi]",
    "    movups xmm1, [r9 - 16]",
    "    movups [rdi], xmm0",
    "    movups [r8 - 16], xmm1",
    // The last store, by its length.
    "10:",
    "    test ecx, ecx",
    "    jnz 11f",
    "    xor eax, eax",
    "    ret",
    "11:",
    "    cmp ecx, 4",
    "    je 14f",
    "    ja 18f",
    "    cmp ecx, 2",
    "    je 12f",
    "    movzx eax, byte ptr [r9]",
    "    mov [r8], al",
    "    xor eax, eax",
    "    ret",
    "12:",
    "    movzx eax, word ptr [r9]",
    "    mov [r8], ax",
    "    xor eax, eax",
    "    ret",
    "14:",
    "    mov eax, [r9]",
    "    mov [r8], eax",
    "    xor eax, eax",
    "    ret",
    "18:",
    "    mov rax, [r9]",
    "    mov [r8], rax",
    "    xor eax, eax",
    "    ret",
    // Less than 16 bytes.
    "20:",
    "    cmp edx, 8",
    "    jb 21f",
    "    mov r10, [rsi]",
    "    mov r11, [r9 - 8]",
    "    mov [rdi], r10",
    "    mov [r8 - 8], r11",
    "    jmp 10b",
    "21:",
    "    cmp edx, 4",
    "    jb 22f",
    "    mov r10d, [rsi]",
    "    mov r11d, [r9 - 4]",
    "    mov [rdi], r10d",
    "    mov [r8 - 4], r11d",
    "    jmp 10b",
    "22:",
    "    test edx, edx",
    "    jz 10b",
    "    movzx r10d, byte ptr [rsi]",
    "    cmp edx, 2",
    "    jb 23f",
    "    movzx r11d, word ptr [r9 - 2]",
    "    mov [r8 - 2], r11w",
    "23:",
    "    mov [rdi], r10b",
    "    jmp 10b",
    // 33 to 128 bytes.
    "30:",
    "    cmp rdx, 128",
    "    ja 40f",
    "    movups xmm0, [rsi]",
    "    movups xmm1, [rsi + 16]",
    "    movups xmm2, [r9 - 32]",
    "    movups xmm3, [r9 - 16]",
    "    cmp edx, 64",
    "    jbe 31f",
    "    movups xmm4, [rsi + 32]",
    "    movups xmm5, [rsi + 48]",
    "    movups xmm6, [r9 - 64]",
    "    movups xmm7, [r9 - 48]",
    "    movups [rdi + 32], xmm4",
    "    movups [rdi + 48], xmm5",
    "    movups [r8 - 64], xmm6",
    "    movups [r8 - 48], xmm7",
    "31:",
    "    movups [rdi], xmm0",
    "    movups [rdi + 16], xmm1",
    "    movups [r8 - 32], xmm2",
    "    movups [r8 - 16], xmm3",
    "    jmp 10b",
    // More, in registers of 32 bytes.
    "40:",
    "    cmp byte ptr [rip + {widest}], {bytes_32}",
    "    jb 50f",
    "    je 43f",
    "    cmp rdx, 512",
    "    jae 45f",
    "43:",
    "    vmovdqu ymm0, [rsi]",
    "    vmovdqu ymm4, [r9 - 128]",
    "    vmovdqu ymm5, [r9 - 96]",
    "    vmovdqu ymm6, [r9 - 64]",
    "    vmovdqu ymm7, [r9 - 32]",
    "    vmovdqu [rdi], ymm0",
    "    mov r10, rdi",
    "    and r10, 31",
    "    sub r10, 32",
    "    sub rdi, r10",
    "    sub rsi, r10",
    "    lea rdx, [r8 - 128]",
    "    cmp rdi, rdx",
    "    jae 42f",
    ".p2align 5",
    "41:",
    "    vmovdqu ymm0, [rsi]",
    "    vmovdqu ymm1, [rsi + 32]",
    "    vmovdqu ymm2, [rsi + 64]",
    "    vmovdqu ymm3, [rsi + 96]",
    "    sub rsi, -128",
    "    vmovdqa [rdi], ymm0",
    "    vmovdqa [rdi + 32], ymm1",
    "    vmovdqa [rdi + 64], ymm2",
    "    vmovdqa [rdi + 96], ymm3",
    "    sub rdi, -128",
    "    cmp rdi, rdx",
    "    jb 41b",
    "42:",
    "    vmovdqu [r8 - 128], ymm4",
    "    vmovdqu [r8 - 96], ymm5",
    "    vmovdqu [r8 - 64], ymm6",
    "    vmovdqu [r8 - 32], ymm7",
    "    vzeroupper",
    "    jmp 10b",
    // 512 bytes and more, in registers of 64 bytes.
    "45:",
    "    vmovdqu64 zmm0, [rsi]",
    "    vmovdqu64 zmm4, [r9 - 256]",
    "    vmovdqu64 zmm5, [r9 - 192]",
    "    vmovdqu64 zmm6, [r9 - 128]",
    "    vmovdqu64 zmm7, [r9 - 64]",
    "    vmovdqu64 [rdi], zmm0",
    "    mov r10, rdi",
    "    and r10, 63",
    "    sub r10, 64",
    "    sub rdi, r10",
    "    sub rsi, r10",
    "    lea rdx, [r8 - 256]",
    ".p2align 5",
    "46:",
    "    vmovdqu64 zmm0, [rsi]",
    "    vmovdqu64 zmm1, [rsi + 64]",
    "    vmovdqu64 zmm2, [rsi + 128]",
    "    vmovdqu64 zmm3, [rsi + 192]",
    "    add rsi, 256",
    "    vmovdqa64 [rdi], zmm0",
    "    vmovdqa64 [rdi + 64], zmm1",
    "    vmovdqa64 [rdi + 128], zmm2",
    "    vmovdqa64 [rdi + 192], zmm3",
    "    add rdi, 256",
    "    cmp rdi, rdx",
    "    jb 46b",
    "    vmovdqu64 [r8 - 256], zmm4",
    "    vmovdqu64 [r8 - 192], zmm5",
    "    vmovdqu64 [r8 - 128], zmm6",
    "    vmovdqu64 [r8 - 64], zmm7",
    "    vzeroupper",
    "    jmp 10b",
    // More, in registers of 16 bytes.
    "50:",
    "    movups xmm0, [rsi]",
    "    movups xmm4, [r9 - 64]",
    "    movups xmm5, [r9 - 48]",
    "    movups xmm6, [r9 - 32]",
    "    movups xmm7, [r9 - 16]",
    "    movups [rdi], xmm0",
    "    mov r10, rdi",
    "    and r10, 15",
    "    sub r10, 16",
    "    sub rdi, r10",
    "    sub rsi, r10",
    "    lea rdx, [r8 - 64]",
    ".p2align 5",
    "51:",
    "    movups xmm0, [rsi]",
    "    movups xmm1, [rsi + 16]",
    "    movups xmm2, [rsi + 32]",
    "    movups xmm3, [rsi + 48]",
    "    add rsi, 64",
    "    movaps [rdi], xmm0",
    "    movaps [rdi + 16], xmm1",
    "    movaps [rdi + 32], xmm2",
    "    movaps [rdi + 48], xmm3",
    "    add rdi, 64",
    "    cmp rdi, rdx",
    "    jb 51b",
    "    movups [r8 - 64], xmm4",
    "    movups [r8 - 48], xmm5",
    "    movups [r8 - 32], xmm6",
    "    movups [r8 - 16], xmm7",
    "    jmp 10b",
    ".size ferroce_guarded_copy, . - ferroce_guarded_copy",
    //
    ".globl ferroce_guarded_words",
    ".hidden ferroce_guarded_words",
    ".type ferroce_guarded_words, @function",
    "ferroce_guarded_words:",
    "    xor eax, eax",
    "    test rdx, rdx",
    "    jz 61f",
    "    lea r8, [rdi + 8 * rdx]",
    "60:",
    "    mov r10, [rsi]",
    "    add rsi, 8",
    "    mov [rdi], r10",
    "    add rdi, 8",
    "    cmp rdi, r8",
    "    jb 60b",
    "61:",
    "    ret",
    ".size ferroce_guarded_words, . - ferroce_guarded_words",
    //
    ".globl ferroce_guarded_add",
    ".hidden ferroce_guarded_add",
    ".type ferroce_guarded_add, @function",
    "ferroce_guarded_add:",
    "    lock xadd [rdi], rsi",
    "    mov [rdx], rsi",
    "    xor eax, eax",
    "    ret",
    ".size ferroce_guarded_add, . - ferroce_guarded_add",
    //
    ".globl ferroce_guarded_swap",
    ".hidden ferroce_guarded_swap",
    ".type ferroce_guarded_swap, @function",
    "ferroce_guarded_swap:",
    "    mov rax, rsi",
    "    lock cmpxchg [rdi], rdx",
    "    mov [rcx], rax",
    "    xor eax, eax",
    "    ret",
    ".size ferroce_guarded_swap, . - ferroce_guarded_swap",
    //
    ".globl ferroce_guarded_end",
    ".hidden ferroce_guarded_end",
    "ferroce_guarded_end:",
    // A fault continues here.
    ".globl ferroce_guarded_fault",
    ".hidden ferroce_guarded_fault",
    ".type ferroce_guarded_fault, @function",
    "ferroce_guarded_fault:",
    "    cmp byte ptr [rip + {widest}], {bytes_32}",
    "    jb 70f",
    "    vzeroupper",
    "70:",
    "    mov eax, 1",
    "    ret",
    ".size ferroce_guarded_fault, . - ferroce_guarded_fault",
    widest = sym WIDEST,
    bytes_32 = const BYTES_32,
);

unsafe extern "C" {
    #[link_name = "ferroce_guarded_copy"]
    pub(super) unsafe fn copy(
        destination: *mut u8,
        source: *const u8,
        head: usize,
        tail: usize,
    ) -> u32;
    #[link_name = "ferroce_guarded_words"]
    pub(super) unsafe fn store_words(
        destination: *mut u64,
        source: *const u64,
        words: usize,
    ) -> u32;
    #[link_name = "ferroce_guarded_add"]
    pub(super) unsafe fn fetch_add(address: *mut u64, add: u64, before: *mut u64) -> u32;
    #[link_name = "ferroce_guarded_swap"]
    pub(super) unsafe fn compare_swap(
        address: *mut u64,
        compare: u64,
        swap: u64,
        before: *mut u64,
    ) -> u32;
    #[link_name = "ferroce_guarded_begin"]
    fn begin();
    #[link_name = "ferroce_guarded_end"]
    fn end();
    #[link_name = "ferroce_guarded_fault"]
    fn fault();
}

/// Detects the processor's features for copies. Called before the handler is installed.
pub fn prepare() {
    // Processors that have AVX-512 without VBMI2 lower their clock for 64-byte registers.
    let widest = if std::arch::is_x86_feature_detected!("avx512vbmi2") {
        BYTES_64
    } else if std::arch::is_x86_feature_detected!("avx") {
        BYTES_32
    } else {
        BYTES_16
    };
    WIDEST.store(widest, Ordering::Relaxed);
}

/// Sets the widest registers to what this processor has less `steps`. Returns false if there is no
/// such.
#[cfg(test)]
pub fn prepare_narrower(steps: u8) -> bool {
    prepare();
    let widest = WIDEST.load(Ordering::Relaxed).checked_sub(steps);
    WIDEST.store(widest.unwrap_or(BYTES_16), Ordering::Relaxed);
    widest.is_some()
}

/// Returns the address at which a thread continues after a fault of this instruction. `None`: it is
/// not a guarded one.
pub fn landing(instruction: usize) -> Option<usize> {
    let guarded = begin as *const () as usize..end as *const () as usize;
    guarded
        .contains(&instruction)
        .then_some(fault as *const () as usize)
}

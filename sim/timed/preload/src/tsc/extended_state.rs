//! The vector registers of interrupted code, around a call from assembly.
#![expect(unsafe_code, reason = "asks the processor")]

use std::arch::x86_64::__cpuid_count;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the state that `xsave` writes. Zero: the processor has no `xsave`.
pub static SAVE_BYTES: AtomicU64 = AtomicU64::new(0);

/// Asks the processor for the size of its state.
pub fn prepare() {
    #[allow(unused_unsafe, reason = "safe since Rust 1.94")]
    // SAFETY: every x86-64 processor has `cpuid`.
    let (features, sizes) = unsafe { (__cpuid_count(1, 0), __cpuid_count(13, 0)) };
    let has_xsave = features.ecx & 1 << 27 != 0;
    let bytes = if has_xsave { sizes.ebx } else { 0 };
    SAVE_BYTES.store(u64::from(bytes).next_multiple_of(64), Ordering::Relaxed);
}

/// Returns true if [`with_extended_state`] can be executed on this processor.
pub fn can_be_saved() -> bool {
    SAVE_BYTES.load(Ordering::Relaxed) != 0
}

/// Wraps the given instructions, which make a call, in `xsave` and `xrstor`, for `global_asm!`. The
/// operand `save_bytes` is `sym SAVE_BYTES`.
///
/// Why interrupted code does not notice the call:
///
/// - The instructions before have pushed `rbp`, the flags and all general registers that a call may
///   change. The instructions after pop them, and `rsp` has its old value again.
/// - Meanwhile `rbp` holds that `rsp`: a function of the C ABI preserves it.
/// - The rest of the state, such as vector registers and their control words, is what `xsave` saves
///   with a mask of all ones: every component that the kernel has enabled. [`SAVE_BYTES`] is the
///   processor's own figure for their size.
/// - The area is aligned to 64 bytes, as `xsave` demands, which is enough for the call, too; the
///   direction flag is clear, as the ABI demands.
/// - `xrstor` faults unless the reserved bytes of the area's header (512 to 575) are zero, and
///   `xsave` does not write all of them: they are cleared before.
macro_rules! with_extended_state {
    ($($instruction:literal),+) => {
        concat!(
            "cld\n",
            "mov rbp, rsp\n",
            "sub rsp, qword ptr [rip + {save_bytes}]\n",
            "and rsp, -64\n",
            "xor eax, eax\n",
            "mov qword ptr [rsp + 512], rax\n",
            "mov qword ptr [rsp + 520], rax\n",
            "mov qword ptr [rsp + 528], rax\n",
            "mov qword ptr [rsp + 536], rax\n",
            "mov qword ptr [rsp + 544], rax\n",
            "mov qword ptr [rsp + 552], rax\n",
            "mov qword ptr [rsp + 560], rax\n",
            "mov qword ptr [rsp + 568], rax\n",
            "mov eax, -1\n",
            "mov edx, -1\n",
            "xsave64 [rsp]\n",
            $($instruction, "\n",)+
            "mov eax, -1\n",
            "mov edx, -1\n",
            "xrstor64 [rsp]\n",
            "mov rsp, rbp",
        )
    };
}
pub(crate) use with_extended_state;

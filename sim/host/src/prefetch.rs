//! Prefetches: memory that is needed soon comes into the processor's cache meanwhile.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the processor's instructions for it")
)]

/// Bytes of a line of the processor's cache.
pub const LINE_BYTES: usize = 64;

/// Prefetches all lines of `value`.
#[inline]
pub fn prefetch<T>(value: &T) {
    let address = std::ptr::from_ref(value).addr();
    for offset in (0..size_of::<T>()).step_by(LINE_BYTES) {
        line_to_read(address + offset);
    }
}

/// Prefetches the line at an address, to read it. Nothing need be mapped there.
#[inline]
pub fn line_to_read(address: usize) {
    line::<false>(address);
}

/// Prefetches the line at an address, to write it. Nothing need be mapped there.
#[inline]
pub fn line_to_write(address: usize) {
    line::<true>(address);
}

#[inline]
fn line<const TO_WRITE: bool>(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        let address = address as *const i8;
        // SAFETY: a prefetch has no effect that a program can see, at any address.
        unsafe {
            if TO_WRITE {
                _mm_prefetch::<_MM_HINT_ET0>(address);
            } else {
                _mm_prefetch::<_MM_HINT_T0>(address);
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

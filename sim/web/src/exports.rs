//! The functions that JavaScript sees. Requests and answers are UTF-8 in one buffer of this module.
//!
//! JavaScript calls [`reserve`], writes the request to the address that it returns, and calls
//! [`run`]; the answer then starts at [`address`].

#![expect(unsafe_code, reason = "names of exported functions; no unsafe block")]

use std::cell::RefCell;

thread_local! {
    /// The request, and then its answer.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for a request of `length` bytes, and returns its address.
// SAFETY: no other function of this program has the name.
#[unsafe(no_mangle)]
pub extern "C" fn reserve(length: usize) -> *mut u8 {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.resize(length, 0);
        buffer.as_mut_ptr()
    })
}

/// Answers the request, and returns the length of the answer in bytes.
// SAFETY: no other function of this program has the name.
#[unsafe(no_mangle)]
pub extern "C" fn run() -> usize {
    let request = BUFFER.take();
    let answer = crate::answer(&String::from_utf8_lossy(&request)).into_bytes();
    let length = answer.len();
    BUFFER.set(answer);
    length
}

/// Returns the address of the answer.
// SAFETY: no other function of this program has the name.
#[unsafe(no_mangle)]
pub extern "C" fn address() -> *const u8 {
    BUFFER.with_borrow(|buffer| buffer.as_ptr())
}

//! The C library's functions that this library overrides under the same name.
//!
//! The verbs library has its own macro for this (`provider/src/ffi/next.rs`): the two libraries
//! share only `ferroce-timed-protocol`, which calls no function of libc.
#![expect(unsafe_code, reason = "asks the dynamic linker")]

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function that is looked up on first use.
#[derive(Debug)]
pub struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    /// Creates the entry for the function of this name.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Returns its address. Null: there is none.
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: `dlsym` requires a NUL-terminated name; `name` is a `CStr`.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// The overridden function: `next!(c"usleep" as extern "C" fn(u32) -> i32)` is an `Option`.
macro_rules! next {
    ($name:literal as $type:ty) => {{
        static NEXT: crate::next::Next = crate::next::Next::new($name);
        // SAFETY: the C library's function of this name has this type, and a null address is
        // `None`.
        #[allow(unused_unsafe, reason = "some callers are in an unsafe block already")]
        unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, Option<$type>>(NEXT.address())
        }
    }};
}
pub(crate) use next;

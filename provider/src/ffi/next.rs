//! Functions in the libraries after this one, in the dynamic linker's order (`RTLD_NEXT`).

use libc::c_void;

/// Looks up a function in the libraries after this one.
macro_rules! next {
    ($name:ident as $type:ty) => {{
        use std::sync::atomic::{AtomicPtr, Ordering};
        static NEXT: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());
        let mut function = NEXT.load(Ordering::Relaxed);
        if function.is_null() {
            function = $crate::ffi::next::look_up(concat!(stringify!($name), "\0"));
            NEXT.store(function, Ordering::Relaxed);
        }
        let function: Option<$type> = match function.is_null() {
            true => None,
            // SAFETY: libc's function of this name has this type in its header.
            #[allow(unused_unsafe, reason = "some callers are in an unsafe block already")]
            false => Some(unsafe { std::mem::transmute::<*mut libc::c_void, $type>(function) }),
        };
        function
    }};
}

pub(super) use next;

/// Finds a function in the libraries after this one; `name` ends with a zero.
pub(super) fn look_up(name: &'static str) -> *mut c_void {
    debug_assert!(name.ends_with('\0'));
    // SAFETY: `name` ends with a zero, and `dlsym` only reads it.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) }
}

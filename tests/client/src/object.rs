//! Handles of verbs objects: destroyed once, children before their parents.

use std::any::Any;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A number of `<errno.h>`.
pub type Errno = i32;
/// The result of a verb.
pub type Outcome<T> = Result<T, Errno>;

/// Returns `errno`.
pub fn errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Converts the result of a verb that returns 0, or an errno, or -1 with `errno` set.
pub fn check(result: c_int) -> Outcome<()> {
    match result {
        0 => Ok(()),
        -1 => Err(errno()),
        code => Err(code),
    }
}

/// Converts the result of a verb that returns a pointer, or NULL with `errno` set.
pub fn check_pointer<T>(pointer: *mut T) -> Outcome<*mut T> {
    if pointer.is_null() {
        Err(errno())
    } else {
        Ok(pointer)
    }
}

/// The objects that have to outlive an object.
pub type Parent = Arc<dyn Any + Send + Sync>;

/// A verbs object and the verb that destroys it.
pub struct Object<T> {
    raw: *mut T,
    destroy: unsafe extern "C" fn(*mut T) -> c_int,
    alive: AtomicBool,
    _parents: Vec<Parent>,
}

// SAFETY: verbs are thread-safe (ibv_fork_init(3) aside), and the pointer is not used otherwise.
unsafe impl<T> Send for Object<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Object<T> {}

impl<T> Object<T> {
    /// Takes ownership of an object that a verb has created.
    pub fn new(
        raw: *mut T,
        destroy: unsafe extern "C" fn(*mut T) -> c_int,
        parents: Vec<Parent>,
    ) -> Arc<Self> {
        let alive = AtomicBool::new(true);
        Arc::new(Self {
            raw,
            destroy,
            alive,
            _parents: parents,
        })
    }

    /// Returns the C pointer.
    pub fn raw(&self) -> *mut T {
        assert!(
            self.alive.load(Ordering::Acquire),
            "used after its destruction"
        );
        self.raw
    }

    /// Destroys it, once.
    pub fn destroy(&self) -> Outcome<()> {
        // SAFETY: alive, so the verb has created it and it has not been destroyed.
        check(unsafe { (self.destroy)(self.raw()) })?;
        self.alive.store(false, Ordering::Release);
        Ok(())
    }
}

impl<T> Drop for Object<T> {
    fn drop(&mut self) {
        if self.alive.load(Ordering::Acquire) {
            // A failed test may leave children behind; the process ends soon.
            let _ = self.destroy();
        }
    }
}

/// Declares a handle type over [`Object`].
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $raw:ty) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name(pub(crate) std::sync::Arc<$crate::object::Object<$raw>>);

        impl $name {
            /// Returns the C pointer.
            pub fn raw(&self) -> *mut $raw {
                self.0.raw()
            }

            /// Destroys it; after an error it still exists.
            pub fn destroy(&self) -> $crate::object::Outcome<()> {
                self.0.destroy()
            }

            /// Returns a handle that keeps it alive, for its children.
            pub fn parent(&self) -> $crate::object::Parent {
                self.0.clone()
            }
        }
    };
}
pub(crate) use handle;

/// A function pointer of the library that must be there.
macro_rules! operation {
    ($object:expr, $name:ident) => {
        (*$object)
            .$name
            .expect(concat!("the library provides ", stringify!($name)))
    };
}
pub(crate) use operation;

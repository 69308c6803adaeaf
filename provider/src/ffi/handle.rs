//! Objects as the program holds them: the public struct first, ours behind it.

use crate::errno::Errno;

/// A verbs object on the heap. Its address is that of the public struct, and it never moves:
/// programs and their inline calls read the public part, and its mutex and condition are in place.
#[repr(C)]
pub(super) struct Handle<Public, Body> {
    pub(super) public: Public,
    pub(super) body: Body,
}

impl<Public, Body> Handle<Public, Body> {
    /// Puts an object on the heap and gives its address away.
    pub(super) fn give(public: Public, body: Body) -> *mut Self {
        Box::into_raw(Box::new(Self { public, body }))
    }

    /// The object behind a pointer from the program.
    ///
    /// # Safety `pointer` is null or was made by [`Handle::give`] of this very type and not taken
    /// back; it stays so for `'a`.
    #[inline]
    pub(super) unsafe fn borrow<'a, P>(pointer: *mut P) -> Result<&'a Body, Errno> {
        if pointer.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: `repr(C)` puts the public part at the start, so the addresses are equal. Only the
        // body is borrowed: the program writes to the public part.
        Ok(unsafe { &(*pointer.cast::<Self>()).body })
    }

    /// Takes an object back and drops it.
    ///
    /// # Safety
    /// As for [`Handle::borrow`], and nobody uses the object any more.
    pub(super) unsafe fn take<P>(pointer: *mut P) {
        // SAFETY: by the contract the pointer came from `Box::into_raw` of this type.
        drop(unsafe { Box::from_raw(pointer.cast::<Self>()) });
    }
}

/// A public struct of zeros, as `calloc` gives it.
///
/// # Safety
/// All-zero bytes are a valid `T`.
pub(super) unsafe fn zeroed<T>() -> T {
    // SAFETY: by the contract.
    unsafe { std::mem::zeroed() }
}

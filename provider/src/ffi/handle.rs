//! Objects as the program holds them: the public struct first, ours behind it.

use super::fork::ProcessLock;
use crate::errno::Errno;
use parking_lot::Mutex;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Deref;

/// A verbs object on the heap. Its address is that of the public struct, and it never moves:
/// programs and their inline calls read the public part, and its mutex and condition are in place.
#[repr(C)]
pub(super) struct Handle<Public, Body> {
    pub(super) public: Public,
    pub(super) body: Body,
}

/// What kind of object lives at an address: all that [`Handle::give`] gave and nobody has taken.
/// Looked at where objects are made and destroyed, never where they are used.
static LIVE: Mutex<BTreeMap<usize, TypeId>> = Mutex::new(BTreeMap::new());

/// Does something with the list of live objects. No other thread forks meanwhile: a child of it
/// would inherit the list locked.
fn with_live<R>(action: impl FnOnce(&mut BTreeMap<usize, TypeId>) -> R) -> R {
    let _no_fork = ProcessLock::enter();
    action(&mut LIVE.lock())
}

impl<Public, Body: 'static> Handle<Public, Body> {
    /// Puts an object on the heap and gives its address away.
    pub(super) fn give(public: Public, body: Body) -> *mut Self {
        let given = Box::into_raw(Box::new(Self { public, body }));
        with_live(|live| live.insert(given.addr(), TypeId::of::<Body>()));
        given
    }

    /// Claims an object to destroy it: no other thread can claim it meanwhile.
    ///
    /// # Errors
    /// `EINVAL`: no object of this kind is there. It was destroyed before, or never was one.
    ///
    /// # Safety
    /// Nobody destroys the object but through its claim.
    pub(super) unsafe fn claim<P>(pointer: *mut P) -> Result<Claim<Public, Body>, Errno> {
        let address = pointer.addr();
        let is_ours = with_live(|live| {
            let is_ours = live.get(&address) == Some(&TypeId::of::<Body>());
            is_ours.then(|| live.remove(&address))
        });
        is_ours.ok_or_else(|| {
            tracing::error!(
                address,
                kind = std::any::type_name::<Public>(),
                "a verb was to destroy an object that does not exist: destroyed twice, or never one"
            );
            Errno::INVALID
        })?;
        Ok(Claim {
            pointer: pointer.cast(),
            owned: PhantomData,
        })
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
}

/// An object that a verb is about to destroy. Dropped, it lives on.
pub(super) struct Claim<Public, Body: 'static> {
    pointer: *mut Handle<Public, Body>,
    owned: PhantomData<Handle<Public, Body>>,
}

impl<Public, Body> Claim<Public, Body> {
    /// Keeps the claim until [`Claim::resume`].
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }

    /// Goes on with a claim that was kept.
    ///
    /// # Safety
    /// This object was claimed, and the claim was kept.
    pub(super) unsafe fn resume<P>(pointer: *mut P) -> Self {
        Self {
            pointer: pointer.cast(),
            owned: PhantomData,
        }
    }

    /// Drops the object.
    ///
    /// # Safety
    /// Nobody uses it any more.
    pub(super) unsafe fn free(self) {
        // SAFETY: the object was in the list of live ones and this is its only claim, so the
        // pointer came from `Box::into_raw` of this type and was not freed.
        let object = unsafe { Box::from_raw(self.pointer) };
        std::mem::forget(self);
        drop(object);
    }
}

impl<Public, Body> Deref for Claim<Public, Body> {
    type Target = Body;

    fn deref(&self) -> &Body {
        // SAFETY: the object was in the list of live ones, and is freed by its claim only. Only the
        // body is borrowed: the program writes to the public part.
        unsafe { &(*self.pointer).body }
    }
}

impl<Public, Body> Drop for Claim<Public, Body> {
    fn drop(&mut self) {
        with_live(|live| live.insert(self.pointer.addr(), TypeId::of::<Body>()));
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

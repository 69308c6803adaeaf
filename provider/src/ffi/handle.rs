//! Objects in the form that the program holds: the public struct first, the body behind it.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Deref;

use parking_lot::Mutex;

use super::fork::ProcessLock;
use crate::errno::Errno;

/// A verbs object on the heap. Its address is that of the public struct, and it never moves:
/// programs and their inline calls read the public part, which contains the mutex and the condition
/// variable.
#[repr(C)]
pub(super) struct Handle<Public, Body> {
    pub(super) public: Public,
    pub(super) body: Body,
}

/// Type of the object at each address: all objects made by [`Handle::give`] and not yet destroyed.
/// Read where objects are made and destroyed, never where they are used.
static LIVE: Mutex<BTreeMap<usize, TypeId>> = Mutex::new(BTreeMap::new());

/// Runs `action` on the list of live objects. No other thread can fork meanwhile: its child would
/// inherit the list locked.
fn with_live<R>(action: impl FnOnce(&mut BTreeMap<usize, TypeId>) -> R) -> R {
    let _no_fork = ProcessLock::enter();
    action(&mut LIVE.lock())
}

impl<Public, Body: 'static> Handle<Public, Body> {
    /// Moves an object to the heap and returns its address for the program.
    pub(super) fn give(public: Public, body: Body) -> *mut Self {
        let given = Box::into_raw(Box::new(Self { public, body }));
        with_live(|live| live.insert(given.addr(), TypeId::of::<Body>()));
        given
    }

    /// Claims an object to destroy it: no other thread can claim it meanwhile.
    ///
    /// # Errors
    /// `EINVAL`: there is no object of this type at the address. It was destroyed before, or never
    /// existed.
    ///
    /// # Safety
    /// The object is destroyed only through its claim.
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
                "a verb tried to destroy an object that does not exist (destroyed twice?)"
            );
            Errno::INVALID.because("the object does not exist; it may have been destroyed before")
        })?;
        Ok(Claim {
            pointer: pointer.cast(),
            owned: PhantomData,
        })
    }

    /// Returns the object behind a pointer from the program.
    ///
    /// # Safety
    /// `pointer` is null, or [`Handle::give`] of this very type returned it and the object is not
    /// destroyed during `'a`.
    #[inline]
    pub(super) unsafe fn borrow<'a, P>(pointer: *mut P) -> Result<&'a Body, Errno> {
        if pointer.is_null() {
            return Err(Errno::null(kind_of::<Public>()));
        }
        // SAFETY: the pointer is not null, so by the contract of this function it is a live `Self`
        // (`# Safety`). `repr(C)` puts the public part at the start, so the addresses are equal.
        // Only the body is borrowed: the program writes to the public part.
        Ok(unsafe { &(*pointer.cast::<Self>()).body })
    }
}

/// An object that a verb is about to destroy. Dropping the claim leaves the object alive.
pub(super) struct Claim<Public, Body: 'static> {
    pointer: *mut Handle<Public, Body>,
    owned: PhantomData<Handle<Public, Body>>,
}

impl<Public, Body> Claim<Public, Body> {
    /// Keeps the claim until [`Claim::resume`].
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }

    /// Continues a claim that was kept.
    ///
    /// # Safety
    /// The object was claimed, and the claim was kept by [`Claim::keep`] and not resumed since.
    pub(super) unsafe fn resume<P>(pointer: *mut P) -> Self {
        Self {
            pointer: pointer.cast(),
            owned: PhantomData,
        }
    }

    /// Drops the object.
    ///
    /// # Safety
    /// No other thread uses the object any more.
    pub(super) unsafe fn free(self) {
        // SAFETY: [`Handle::claim`] took the object off the list of live ones, so this is its only
        // claim, and the pointer came from `Box::into_raw` of this type and was not freed. The
        // caller guarantees that nothing else uses the object.
        let object = unsafe { Box::from_raw(self.pointer) };
        std::mem::forget(self);
        drop(object);
    }
}

impl<Public, Body> Deref for Claim<Public, Body> {
    type Target = Body;

    fn deref(&self) -> &Body {
        // SAFETY: [`Handle::claim`] found the object in the list of live ones, and only its claim
        // frees it. Only the body is borrowed: the program writes to the public part.
        unsafe { &(*self.pointer).body }
    }
}

impl<Public, Body> Drop for Claim<Public, Body> {
    fn drop(&mut self) {
        with_live(|live| live.insert(self.pointer.addr(), TypeId::of::<Body>()));
    }
}

/// Returns the name of a public struct in verbs.h, for messages.
#[cold]
fn kind_of<Public>() -> &'static str {
    let name = std::any::type_name::<Public>();
    let name = name.rsplit("::").next().unwrap_or(name);
    match name {
        "ibv_cq_ex" => "the CQ (struct ibv_cq *)",
        "ibv_qp_ex" => "the QP (struct ibv_qp *)",
        "ibv_pd" => "the PD (struct ibv_pd *)",
        "ibv_srq" => "the SRQ (struct ibv_srq *)",
        "ibv_ah" => "the address handle (struct ibv_ah *)",
        "ibv_mw" => "the window (struct ibv_mw *)",
        "ibv_mr" => "the MR (struct ibv_mr *)",
        "ibv_comp_channel" => "the channel (struct ibv_comp_channel *)",
        "verbs_context" | "ibv_context" => "the context (struct ibv_context *)",
        "ibv_device" => "the device (struct ibv_device *)",
        _ => name,
    }
}

/// Returns a public struct of zeros, like one of `calloc`.
///
/// # Safety
/// All-zero bytes are a valid `T`.
pub(super) unsafe fn zeroed<T>() -> T {
    // SAFETY: the caller guarantees that zeros are a valid `T`.
    unsafe { std::mem::zeroed() }
}

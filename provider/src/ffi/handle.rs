//! Verbs objects as the program holds them: the public struct, followed by the body.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Deref;

use parking_lot::Mutex;

use crate::abi::*;
use crate::errno::Errno;
use crate::os::fork::ProcessLock;

/// A verbs object on the heap. It begins with the public struct and never moves: programs and their
/// inline calls read the public struct, which contains the mutex and the condition variable.
#[repr(C)]
pub(super) struct Handle<P, Body> {
    pub(super) public: P,
    pub(super) body: Body,
    /// Its name when it was given to the program.
    name: Name,
}

/// The key by which the kernel finds an object: the fields `context` and `handle` of its public
/// struct. Handles are numbered per context.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    context: *mut ibv_context,
    handle: u32,
}

impl Name {
    /// For objects that the kernel does not find by handle.
    const NONE: Self = Self {
        context: std::ptr::null_mut(),
        handle: 0,
    };
}

/// A struct of verbs.h that begins an object.
pub(super) trait Public {
    /// Returns the name of the object.
    ///
    /// # Safety
    /// `public` is alive. The program may write to it, so no reference is made.
    unsafe fn name(public: *const Self) -> Name;
}

macro_rules! public {
    ($($public:ident $(. $base:ident)?;)*) => {
        $(
            impl Public for $public {
                unsafe fn name(public: *const Self) -> Name {
                    // SAFETY: the caller guarantees that the struct is alive; the fields are a
                    // pointer and an integer, and no reference is made.
                    unsafe {
                        Name {
                            context: (&raw const (*public)$(.$base)?.context).read(),
                            handle: (&raw const (*public)$(.$base)?.handle).read(),
                        }
                    }
                }
            }
        )*
    };
}

macro_rules! without_name {
    ($($public:ident)*) => {
        $(
            impl Public for $public {
                unsafe fn name(_public: *const Self) -> Name {
                    Name::NONE
                }
            }
        )*
    };
}

public! {
    ibv_pd;
    ibv_mr;
    ibv_mw;
    ibv_ah;
    ibv_srq;
    ibv_cq_ex;
    ibv_qp_ex.qp_base;
    ibv_dm;
}

// The kernel finds a channel by its descriptor, which the program may duplicate.
without_name! { ibv_device verbs_context ibv_comp_channel ibv_td ibv_xrcd }

/// Why a control verb does not find an object.
const OVERWRITTEN: &str = "the `handle` or `context` field of the object was overwritten";

/// Type of the object at each address: all objects made by [`Handle::give`] and not yet destroyed.
/// Read where objects are made and destroyed, never where they are used.
static LIVE: Mutex<BTreeMap<usize, TypeId>> = Mutex::new(BTreeMap::new());

/// Runs `action` on the list of live objects. No other thread can fork meanwhile: its child would
/// inherit the list locked.
fn with_live<R>(action: impl FnOnce(&mut BTreeMap<usize, TypeId>) -> R) -> R {
    let _no_fork = ProcessLock::enter();
    action(&mut LIVE.lock())
}

impl<P: Public, Body: 'static> Handle<P, Body> {
    /// Moves an object to the heap and returns its address for the program.
    pub(super) fn give(public: P, body: Body) -> *mut Self {
        // SAFETY: `name` requires a live struct, and `public` is a local of this call.
        let name = unsafe { P::name(&raw const public) };
        let given = Box::into_raw(Box::new(Self { public, body, name }));
        with_live(|live| live.insert(given.addr(), TypeId::of::<Body>()));
        given
    }

    /// Claims an object to destroy it: no other thread can claim it meanwhile.
    ///
    /// # Errors
    /// `EINVAL`: there is no object of this type at the address. It was destroyed before, or never
    /// existed. `ENOENT`, as by the kernel's look-up: the program has overwritten its handle or
    /// context.
    ///
    /// # Safety
    /// The object is destroyed only through its claim.
    pub(super) unsafe fn claim<T>(pointer: *mut T) -> Result<Claim<P, Body>, Errno> {
        let address = pointer.addr();
        let found = with_live(|live| {
            let is_ours = live.get(&address) == Some(&TypeId::of::<Body>());
            // SAFETY: it is on the list of live objects, with this type; nothing is destroyed
            // while the list is locked.
            let is_found = is_ours && unsafe { Self::has_its_name(pointer.cast()) };
            if is_found {
                live.remove(&address);
            }
            (is_ours, is_found)
        });
        match found {
            (_, true) => {}
            (true, false) => return Err(Errno::NO_ENTRY.because(OVERWRITTEN)),
            (false, false) => {
                tracing::error!(
                    address,
                    kind = std::any::type_name::<P>(),
                    "a verb tried to destroy an object that does not exist (destroyed twice?)"
                );
                let why = "the object does not exist; it may have been destroyed before";
                return Err(Errno::INVALID.because(why));
            }
        }
        Ok(Claim {
            pointer: pointer.cast(),
            owned: PhantomData,
        })
    }

    /// Returns the object that a pointer from the program points to.
    ///
    /// # Safety
    /// `pointer` is null, or [`Handle::give`] of this very type returned it and the object is not
    /// destroyed during `'a`.
    #[inline]
    pub(super) unsafe fn borrow<'a, T>(pointer: *mut T) -> Result<&'a Body, Errno> {
        if pointer.is_null() {
            return Err(Errno::null(kind_of::<P>()));
        }
        // SAFETY: the pointer is not null, so by the contract of this function it is a live `Self`
        // (`# Safety`). `repr(C)` puts the public part at the start, so the addresses are equal.
        // Only the body is borrowed: the program writes to the public part.
        Ok(unsafe { &(*pointer.cast::<Self>()).body })
    }

    /// Returns the object that a pointer from the program points to, for a verb that the kernel
    /// would execute: the kernel looks the object up by its handle. Posting and polling do not.
    ///
    /// # Errors
    /// `EINVAL`: null, or the program has overwritten its handle or context.
    ///
    /// # Safety
    /// As for [`Handle::borrow`].
    pub(super) unsafe fn look_up<'a, T>(pointer: *mut T) -> Result<&'a Body, Errno> {
        // SAFETY: the caller keeps the contract of `borrow`, so the object is alive, as
        // `has_its_name` requires.
        unsafe {
            let body = Self::borrow(pointer)?;
            if Self::has_its_name(pointer.cast()) {
                Ok(body)
            } else {
                Err(Errno::INVALID.because(OVERWRITTEN))
            }
        }
    }

    /// Returns true if the program has left the public fields as they were.
    ///
    /// # Safety
    /// The object is alive.
    unsafe fn has_its_name(object: *const Self) -> bool {
        // SAFETY: the caller guarantees that the object is alive; `name` is never written.
        unsafe { P::name(&raw const (*object).public) == (*object).name }
    }
}

/// An object that a verb is about to destroy. Dropping the claim leaves the object alive.
pub(super) struct Claim<P, Body: 'static> {
    pointer: *mut Handle<P, Body>,
    owned: PhantomData<Handle<P, Body>>,
}

impl<P, Body> Claim<P, Body> {
    /// Keeps the claim until [`Claim::resume`].
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }

    /// Continues a claim that was kept.
    ///
    /// # Safety
    /// The object was claimed, and the claim was kept by [`Claim::keep`] and not resumed since.
    pub(super) unsafe fn resume<T>(pointer: *mut T) -> Self {
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

impl<P, Body> Deref for Claim<P, Body> {
    type Target = Body;

    fn deref(&self) -> &Body {
        // SAFETY: [`Handle::claim`] found the object in the list of live ones, and only its claim
        // frees it. Only the body is borrowed: the program writes to the public part.
        unsafe { &(*self.pointer).body }
    }
}

impl<P, Body> Drop for Claim<P, Body> {
    fn drop(&mut self) {
        with_live(|live| live.insert(self.pointer.addr(), TypeId::of::<Body>()));
    }
}

/// Returns the name of a public struct in verbs.h, for messages.
#[cold]
fn kind_of<P>() -> &'static str {
    let name = std::any::type_name::<P>();
    let name = name.rsplit("::").next().unwrap_or(name);
    match name {
        "ibv_cq_ex" => "the CQ (struct ibv_cq *)",
        "ibv_qp_ex" => "the QP (struct ibv_qp *)",
        "ibv_pd" => "the PD (struct ibv_pd *)",
        "ibv_srq" => "the SRQ (struct ibv_srq *)",
        "ibv_dm" => "the device memory (struct ibv_dm *)",
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

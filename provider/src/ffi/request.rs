//! Converts the program's arguments to a work request: lists, inline data, windows, destinations.
//! Both ways of posting use it.

use std::sync::Arc;

use ferroce_driver::{
    DataSegment, FlushKind, LKey, RKey, RemoteAddress, SendOperation, WindowAccess, WindowBinding,
};

use super::handle::Handle;
use super::objects::{Ah, Mw, Qp};
use crate::abi::*;
use crate::builder::Target;
use crate::errno::{Errno, within};
use crate::mr::Mr;

/// Maximum number of elements of an inline work request.
const MAX_INLINE_PIECES: usize = 16;
/// Maximum size of such an element: the largest `max_inline` of a device.
const MAX_PIECE: usize = u16::MAX as usize;
/// Maximum number of elements of a scatter list: the largest `max_data_segments` of a device.
const MAX_ELEMENTS: usize = u8::MAX as usize;
/// Bits of a key that software chooses.
const KEY_VARIANT: u32 = 0xff;

const _: () = {
    // Scatter lists are passed to the driver in place.
    assert!(size_of::<ibv_sge>() == size_of::<DataSegment>());
    assert!(std::mem::offset_of!(ibv_sge, addr) == std::mem::offset_of!(DataSegment, address));
    assert!(std::mem::offset_of!(ibv_sge, length) == std::mem::offset_of!(DataSegment, length));
    assert!(std::mem::offset_of!(ibv_sge, lkey) == std::mem::offset_of!(DataSegment, l_key));
};

/// Returns a scatter list of the program. A list longer than any device's limit is refused unread.
///
/// # Safety
/// `list` points to `count` elements that stay unchanged for `'a`, unless `count` is zero or larger
/// than [`MAX_ELEMENTS`].
#[inline]
pub(super) unsafe fn scatter_list<'a>(
    list: *const ibv_sge,
    count: usize,
) -> Result<&'a [DataSegment], Errno> {
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() || count > MAX_ELEMENTS {
        return Err(bad_list(list, count));
    }
    // SAFETY: the caller guarantees that `list` points to `count` elements that stay unchanged for
    // `'a`, unless `count` is zero or larger than [`MAX_ELEMENTS`]; the layouts are equal by the
    // assertions above, and both are plain integers.
    Ok(unsafe { std::slice::from_raw_parts(list.cast(), count) })
}

#[cold]
fn bad_list(list: *const ibv_sge, count: usize) -> Errno {
    if list.is_null() {
        Errno::null("wr->sg_list")
    } else {
        Errno::above("wr->num_sge", count, MAX_ELEMENTS as u64)
    }
}

/// Returns memory of the program that is copied now. More than any device's limit is refused
/// unread.
///
/// # Safety
/// `address` is readable for `length` bytes, which stay unchanged for `'a`, unless `length` is zero
/// or larger than [`MAX_PIECE`].
#[inline]
pub(super) unsafe fn piece<'a>(address: u64, length: usize) -> Result<&'a [u8], Errno> {
    match length {
        0 => return Ok(&[]),
        1..=MAX_PIECE => {}
        _ => {
            return Err(Errno::above(
                "inline data of one element",
                length,
                MAX_PIECE as u64,
            ));
        }
    }
    // SAFETY: the caller guarantees that `address` is readable for `length` bytes, which stay
    // unchanged for `'a`, unless `length` is zero or larger than [`MAX_PIECE`]; the address is one
    // of this process, with its provenance exposed by the program.
    Ok(unsafe {
        std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address as usize), length)
    })
}

/// Collects `count` pieces of inline data for `post`.
#[inline]
pub(super) fn with_pieces<'a, R>(
    count: usize,
    piece: impl Fn(usize) -> Result<&'a [u8], Errno>,
    post: impl FnOnce(&[&'a [u8]]) -> Result<R, Errno>,
) -> Result<R, Errno> {
    if count == 1 {
        return post(&[piece(0)?]);
    }
    if count > MAX_INLINE_PIECES {
        return Err(Errno::above(
            "elements of inline data",
            count,
            MAX_INLINE_PIECES as u64,
        ));
    }
    let mut pieces: [&[u8]; MAX_INLINE_PIECES] = [&[]; MAX_INLINE_PIECES];
    for (index, slot) in pieces.iter_mut().take(count).enumerate() {
        *slot = piece(index)?;
    }
    post(&pieces[..count])
}

/// Returns memory of the peer.
#[inline]
pub(super) fn remote(r_key: u32, virtual_address: u64) -> RemoteAddress {
    RemoteAddress {
        virtual_address,
        r_key: RKey(r_key),
    }
}

/// Returns the operation of `ibv_wr_flush`.
///
/// # Errors
/// `EINVAL` for a placement or a level that verbs.h does not have, and for a range of more than
/// 2^32 - 1 bytes, which the packet has no room for.
pub(super) fn flush(
    remote: RemoteAddress,
    length: usize,
    placement: u8,
    level: u8,
) -> Result<SendOperation, Errno> {
    const PLACEMENTS: u32 = (IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT) as u32;
    within(Errno::INVALID, "type", u32::from(placement), PLACEMENTS)?;
    if placement == 0 {
        let right = "IBV_FLUSH_GLOBAL, IBV_FLUSH_PERSISTENT or both";
        return Err(Errno::wrong("type", 0, right));
    }
    let whole_region = match level {
        IBV_FLUSH_RANGE => false,
        IBV_FLUSH_MR => true,
        other => {
            return Err(Errno::wrong(
                "level",
                u32::from(other),
                "IBV_FLUSH_RANGE or IBV_FLUSH_MR",
            ));
        }
    };
    let length = match u32::try_from(length) {
        Ok(length) => length,
        Err(_) if whole_region => 0,
        Err(_) => return Err(Errno::above("len", length, u64::from(u32::MAX))),
    };
    Ok(SendOperation::Flush {
        remote,
        length,
        kind: FlushKind {
            global: placement & IBV_FLUSH_GLOBAL != 0,
            persistent: placement & IBV_FLUSH_PERSISTENT != 0,
            whole_region,
        },
    })
}

/// Returns the destination of a datagram.
///
/// # Errors
/// `EINVAL` for a missing address handle, or one of another protection domain (IBTA vol 1,
/// 10.2.2.2).
///
/// # Safety
/// `ah` is null or an address handle of this library.
#[inline]
pub(super) unsafe fn datagram(
    qp: &Qp,
    ah: *mut ibv_ah,
    qpn: u32,
    q_key: u32,
) -> Result<Target, Errno> {
    // SAFETY: the caller guarantees that `ah` is null or an address handle of this library.
    let ah = unsafe { Handle::<ibv_ah, Ah>::borrow(ah)? };
    if !qp
        .pair
        .pd()
        .is_some_and(|pd| Arc::ptr_eq(pd, &ah.protection))
    {
        return Err(Errno::INVALID.because("the address handle is of another PD than the QP"));
    }
    Ok(Target::Datagram {
        path: ah.path,
        qpn,
        q_key,
    })
}

/// Returns the key of a window after a bind that requests `requested`: the window's index, and the
/// variant (low eight bits) of `requested`, as with mlx5 and soft-RoCE.
fn bound_key(window: &Mw, requested: u32) -> u32 {
    window.window.rkey().0 & !KEY_VARIANT | requested & KEY_VARIANT
}

/// Returns the operation that binds a window. The device checks whether region and rights allow it.
///
/// # Errors
/// `EINVAL` for a missing window, a missing region for a length above zero, rights that windows do
/// not have, and a window of type 1 that begins at zero.
///
/// # Safety
/// Window and region are null or objects of this library.
pub(super) unsafe fn binding(
    mw: *mut ibv_mw,
    r_key: u32,
    info: &ibv_mw_bind_info,
) -> Result<SendOperation, Errno> {
    const RIGHTS: u32 = IBV_ACCESS_LOCAL_WRITE
        | IBV_ACCESS_REMOTE_WRITE
        | IBV_ACCESS_REMOTE_READ
        | IBV_ACCESS_REMOTE_ATOMIC
        | IBV_ACCESS_ZERO_BASED;
    // SAFETY: the caller guarantees that window and region are null or objects of this library.
    let (window, region) = unsafe {
        let region = if info.mr.is_null() {
            None
        } else {
            Some(Handle::<ibv_mr, Mr>::borrow(info.mr)?)
        };
        (Handle::<ibv_mw, Mw>::borrow(mw)?, region)
    };
    let flags = info.mw_access_flags;
    let has = |bit: u32| flags & bit != 0;
    let no_region = region.is_none() && (info.length != 0 || info.addr != 0);
    let based = has(IBV_ACCESS_ZERO_BASED) && window.kind == IBV_MW_TYPE_1;
    within(Errno::INVALID, "mw_access_flags", flags, RIGHTS)?;
    if no_region {
        return Err(Errno::null("bind_info.mr"));
    }
    if based {
        let text = "a window of type 1 cannot have IBV_ACCESS_ZERO_BASED";
        return Err(Errno::INVALID.because(text));
    }
    Ok(SendOperation::BindWindow(WindowBinding {
        r_key: RKey(bound_key(window, r_key)),
        l_key: region.map_or(LKey(0), |region| region.region.lkey()),
        address: info.addr,
        length: info.length,
        access: WindowAccess {
            remote_write: has(IBV_ACCESS_REMOTE_WRITE),
            remote_read: has(IBV_ACCESS_REMOTE_READ),
            remote_atomic: has(IBV_ACCESS_REMOTE_ATOMIC),
            zero_based: has(IBV_ACCESS_ZERO_BASED),
        },
    }))
}

/// Like [`binding`], for a window of type 2 in a work request. Sets its `rkey` to the new key.
///
/// # Errors
/// As [`binding`], and for a window of type 1, which `ibv_bind_mw` binds.
///
/// # Safety
/// As for [`binding`]; no other thread uses the window meanwhile.
pub(super) unsafe fn binding_of_type_2(
    mw: *mut ibv_mw,
    r_key: u32,
    info: &ibv_mw_bind_info,
) -> Result<SendOperation, Errno> {
    // SAFETY: the caller guarantees that window and region are null or objects of this library; no
    // other thread uses the window meanwhile.
    let window = unsafe { Handle::<ibv_mw, Mw>::borrow(mw)? };
    if window.kind != IBV_MW_TYPE_2 {
        return Err(Errno::INVALID.because("the window is of type 1, which ibv_bind_mw binds"));
    }
    // SAFETY: the caller guarantees that window and region are null or objects of this library; no
    // other thread uses the window meanwhile.
    let operation = unsafe { binding(mw, r_key, info)? };
    // SAFETY: `borrow` has accepted the window, and the caller guarantees that no other thread uses
    // it meanwhile.
    unsafe { (*mw).rkey = bound_key(window, r_key) };
    Ok(operation)
}

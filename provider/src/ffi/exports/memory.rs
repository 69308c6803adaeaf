//! Memory regions and buffers.

use super::super::boundary::{guard, pointer, set_errno, status};
use super::super::handle::Handle;
use super::super::memory::Mapping;
use crate::domain::Domain;
use crate::errno::Errno;
use crate::ffi::abi::*;
use crate::mr::{Change, Mr};
use libc::{c_int, c_uint, c_void, size_t};

/// Gives a region to the program.
pub(super) fn give(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    region: Mr,
) -> *mut ibv_mr {
    let public = ibv_mr {
        // SAFETY: the program's PD is alive.
        context: unsafe { (*pd).context },
        pd,
        addr: address,
        length,
        handle: super::next_handle(),
        lkey: region.region.lkey().0,
        rkey: region.region.rkey().0,
    };
    Handle::give(public, region).cast()
}

/// Registers memory. `iova` is the address by which work requests and the peer name its start.
fn register(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    iova: u64,
    flags: c_uint,
) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: the program passes a PD of this library.
    let domain = unsafe { Handle::<ibv_pd, Domain>::borrow(pd)? };
    let region = Mr::register(domain, address.expose_provenance(), length, iova, flags)?;
    Ok(give(pd, address, length, region))
}

/// `ibv_reg_mr` as a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    access: c_int,
) -> *mut ibv_mr {
    pointer(|| register(pd, address, length, address.addr() as u64, access as c_uint))
}

/// `ibv_reg_mr_iova` as a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    pointer(|| register(pd, address, length, iova, access as c_uint))
}

/// `ibv_reg_mr_iova2`: what the macros of verbs.h call for optional access flags.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    pointer(|| register(pd, address, length, iova, access))
}

/// `ibv_reg_mr_ex`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_ex(
    pd: *mut ibv_pd,
    attr: *mut ibv_mr_init_attr,
) -> *mut ibv_mr {
    const KNOWN: u64 = (IBV_REG_MR_MASK_BUF << 1) - 1;
    pointer(|| {
        // SAFETY: the program's struct.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::INVALID)?;
        let has = |bit: u64| attr.comp_mask & bit != 0;
        if attr.comp_mask & !KNOWN != 0 || has(IBV_REG_MR_MASK_FD) == has(IBV_REG_MR_MASK_ADDR) {
            return Err(Errno::INVALID);
        }
        if has(IBV_REG_MR_MASK_FD) || has(IBV_REG_MR_MASK_FD_OFFSET) || has(IBV_REG_MR_MASK_DMAH) {
            return Err(Errno::NOT_SUPPORTED);
        }
        if has(IBV_REG_MR_MASK_BUF) {
            // SAFETY: the program passes a buffer of this library.
            unsafe { check_buffer(pd, attr.buf, attr.addr, attr.length)? };
        }
        let iova = if has(IBV_REG_MR_MASK_IOVA) {
            attr.iova
        } else {
            attr.addr.addr() as u64
        };
        register(pd, attr.addr, attr.length, iova, attr.access as c_uint)
    })
}

/// `ibv_dereg_mr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    status(|| {
        // SAFETY: the program passes an MR of this library and uses it no more if this succeeds.
        unsafe {
            let claim = Handle::<ibv_mr, Mr>::claim(mr)?;
            claim.deregister()?;
            claim.free();
        }
        Ok(())
    })
}

/// `ibv_alloc_null_mr`. It spans all addresses.
pub(in super::super) unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    pointer(|| {
        // SAFETY: the program passes a PD of this library.
        let region = Mr::null(unsafe { Handle::<ibv_pd, Domain>::borrow(pd)? })?;
        Ok(give(pd, std::ptr::null_mut(), size_t::MAX, region))
    })
}

/// Registers a region anew and shows what has become of it.
///
/// # Safety
/// `mr` and, when the flags name it, `pd` are null or objects of this library.
unsafe fn change(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    access: c_int,
) -> Result<(), Errno> {
    const KNOWN: c_int =
        IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
    let has = |bit: c_int| flags & bit != 0;
    let moves = has(IBV_REREG_MR_CHANGE_TRANSLATION);
    let empty = moves && (length == 0 || address.is_null());
    let stray_access = access != 0 && !has(IBV_REREG_MR_CHANGE_ACCESS);
    if flags == 0 || flags & !KNOWN != 0 || empty || stray_access {
        return Err(Errno::INVALID);
    }
    // SAFETY: by the contract.
    let (body, domain) = unsafe {
        let domain = match has(IBV_REREG_MR_CHANGE_PD) {
            true => Some(Handle::<ibv_pd, Domain>::borrow(pd)?),
            false => None,
        };
        (Handle::<ibv_mr, Mr>::borrow(mr)?, domain)
    };
    body.change(&Change {
        domain,
        range: moves.then(|| (address.expose_provenance(), length)),
        flags: has(IBV_REREG_MR_CHANGE_ACCESS).then_some(access as c_uint),
    })?;
    // SAFETY: the region and its new PD are alive.
    unsafe {
        if domain.is_some() {
            (*mr).pd = pd;
            (*mr).context = (*pd).context;
        }
        if moves {
            (*mr).addr = address;
            (*mr).length = length;
        }
        (*mr).lkey = body.region.lkey().0;
        (*mr).rkey = body.region.rkey().0;
    }
    Ok(())
}

/// `ibv_rereg_mr`. Every failure leaves the old region as it was, which is what
/// `IBV_REREG_MR_ERR_INPUT` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    access: c_int,
) -> c_int {
    // SAFETY: the program's objects.
    let changed = guard(|| unsafe { change(mr, flags, pd, address, length, access) });
    match changed {
        Ok(()) => 0,
        Err(errno) => {
            set_errno(errno);
            IBV_REREG_MR_ERR_INPUT
        }
    }
}

/// Behind the opaque `struct ibv_buf`.
struct Buffer {
    memory: Mapping,
    pd: *mut ibv_pd,
}

/// `ibv_alloc_buf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_buf(
    pd: *mut ibv_pd,
    size: size_t,
    buffer: *mut *mut c_void,
) -> *mut c_void {
    pointer(|| {
        // SAFETY: the program's PD and pointer.
        let buffer = unsafe {
            Handle::<ibv_pd, Domain>::borrow(pd)?.adapter.check()?;
            buffer.as_mut().ok_or(Errno::INVALID)?
        };
        let memory = Mapping::new(size)?;
        let address = memory.address();
        *buffer = Box::into_raw(Box::new(Buffer { memory, pd })).cast();
        Ok(address)
    })
}

/// `ibv_free_buf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_buf(buffer: *mut c_void) {
    if !buffer.is_null() {
        // SAFETY: the buffer came from `ibv_alloc_buf`.
        drop(unsafe { Box::from_raw(buffer.cast::<Buffer>()) });
    }
}

/// Checks that a range lies in a buffer of that PD.
///
/// # Safety
/// `buffer` is null or came from `ibv_alloc_buf`.
unsafe fn check_buffer(
    pd: *mut ibv_pd,
    buffer: *mut c_void,
    address: *mut c_void,
    length: size_t,
) -> Result<(), Errno> {
    // SAFETY: by the contract.
    match unsafe { buffer.cast::<Buffer>().as_ref() } {
        Some(buffer) if buffer.pd == pd && buffer.memory.contains(address, length) => Ok(()),
        _ => Err(Errno::INVALID),
    }
}

/// `ibv_reg_buf_mr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_buf_mr(
    pd: *mut ibv_pd,
    buffer: *mut c_void,
    address: *mut c_void,
    length: size_t,
    access: c_int,
) -> *mut ibv_mr {
    pointer(|| {
        // SAFETY: the program passes a buffer of this library.
        unsafe { check_buffer(pd, buffer, address, length)? };
        register(pd, address, length, address.addr() as u64, access as c_uint)
    })
}

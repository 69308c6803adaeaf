//! Memory regions and buffers.

use super::super::boundary::{pointer, set_errno, status};
use super::super::handle::Handle;
use super::super::memory::{Mapping, populate};
use super::super::objects::Mr;
use crate::domain::Domain;
use crate::errno::Errno;
use crate::ffi::abi::*;
use crate::mr;
use ferroce_driver::MemoryRegion;
use libc::{c_int, c_uint, c_void, size_t};

/// Registers memory. `iova` is the address by which work requests and the peer name its start.
fn register(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    iova: u64,
    flags: c_uint,
) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: the program passes a PD of this library.
    let body = unsafe { Handle::<ibv_pd, Domain>::borrow(pd)? };
    body.adapter.check()?;
    let access = mr::access(flags)?;
    let start = address.expose_provenance();
    mr::check_range(start as u64, length)?;
    let iova = if flags & IBV_ACCESS_ZERO_BASED == 0 {
        iova
    } else {
        0
    };
    mr::check_range(iova, length)?;
    populate(start, length, access.local_write)?;
    let region = MemoryRegion::register(&body.protection, start, length, iova, access)?;
    let public = ibv_mr {
        // SAFETY: the program's PD is alive.
        context: unsafe { (*pd).context },
        pd,
        addr: address,
        length,
        handle: super::next_handle(),
        lkey: region.lkey().0,
        rkey: region.rkey().0,
    };
    Ok(Handle::give(
        public,
        Mr {
            adapter: body.adapter.clone(),
            region,
        },
    )
    .cast())
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
            let body = Handle::<ibv_mr, Mr>::borrow(mr)?;
            body.adapter.check()?;
            body.region.deregister()?;
            Handle::<ibv_mr, Mr>::take(mr);
        }
        Ok(())
    })
}

/// `ibv_rereg_mr`: the code of what has happened to the old region, here always nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    _mr: *mut ibv_mr,
    flags: c_int,
    _pd: *mut ibv_pd,
    _address: *mut c_void,
    _length: size_t,
    _access: c_int,
) -> c_int {
    const KNOWN: c_int = 7;
    if flags == 0 || flags & !KNOWN != 0 {
        set_errno(Errno::INVALID);
        return IBV_REREG_MR_ERR_INPUT;
    }
    set_errno(Errno::NOT_SUPPORTED);
    IBV_REREG_MR_ERR_CMD
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

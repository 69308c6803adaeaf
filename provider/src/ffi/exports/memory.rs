//! Memory regions and buffers.

use libc::{c_int, c_uint, c_void, size_t};

use super::super::boundary::{guard, minus_one, pointer, refused, status};
use super::super::handle::Handle;
use crate::abi::*;
use crate::advice;
use crate::dma_buf::{self, Request};
use crate::domain::Domain;
use crate::errno::{Errno, Shown};
use crate::mr::{Change, Mr};
use crate::os::memory::Mapping;
use crate::os::set_errno;

/// Creates the program's handle of a region.
pub(super) fn give(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    region: Mr,
) -> *mut ibv_mr {
    let public = ibv_mr {
        // SAFETY: `look_up` has accepted the PD, which is alive during the call (contract of
        // `give`).
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

/// Registers memory. `iova` is the address of its start for work requests and the peer.
fn register(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    iova: u64,
    flags: c_uint,
) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: contract of `ibv_reg_mr`: the program passes null or a live PD of this library;
    // `look_up` refuses null.
    let domain = unsafe { Handle::<ibv_pd, Domain>::look_up(pd)? };
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
    pointer("ibv_reg_mr", || {
        register(pd, address, length, address.addr() as u64, access as c_uint)
    })
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
    pointer("ibv_reg_mr_iova", || {
        register(pd, address, length, iova, access as c_uint)
    })
}

/// `ibv_reg_mr_iova2`: called by the macros of verbs.h for optional access flags.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    pointer("ibv_reg_mr_iova2", || {
        register(pd, address, length, iova, access)
    })
}

/// Registers a dma-buf.
///
/// # Safety
/// `pd` is null or a live PD of this library.
unsafe fn register_dma_buf(pd: *mut ibv_pd, request: &Request) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: the caller's contract; `look_up` refuses null.
    let domain = unsafe { Handle::<ibv_pd, Domain>::look_up(pd)? };
    let region = dma_buf::register(domain, request)?;
    // As in rdma-core, whose regions of dma-bufs have no address.
    let offset = std::ptr::without_provenance_mut(request.offset as usize);
    Ok(give(pd, offset, request.length, region))
}

/// `ibv_reg_dmabuf_mr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: size_t,
    iova: u64,
    descriptor: c_int,
    access: c_int,
) -> *mut ibv_mr {
    let request = Request {
        descriptor,
        offset,
        length,
        iova,
        flags: access as c_uint,
    };
    pointer("ibv_reg_dmabuf_mr", || {
        // SAFETY: contract of `ibv_reg_dmabuf_mr`: the PD is null or a live one of this library.
        unsafe { register_dma_buf(pd, &request) }
    })
}

/// Reads the arguments of a registration by `IBV_REG_MR_MASK_FD`.
///
/// # Errors
/// `EINVAL` for a buffer, or without an offset.
fn request_of(attr: &ibv_mr_init_attr) -> Result<Request, Errno> {
    let has = |bit: u64| attr.comp_mask & bit != 0;
    if has(IBV_REG_MR_MASK_BUF) || !has(IBV_REG_MR_MASK_FD_OFFSET) {
        let right =
            "IBV_REG_MR_MASK_FD with IBV_REG_MR_MASK_FD_OFFSET, without IBV_REG_MR_MASK_BUF";
        let mask = Shown::Bits(attr.comp_mask);
        return Err(Errno::wrong("mr_init_attr->comp_mask", mask, right));
    }
    Ok(Request {
        descriptor: attr.fd,
        offset: attr.fd_offset,
        length: attr.length,
        iova: if has(IBV_REG_MR_MASK_IOVA) {
            attr.iova
        } else {
            0
        },
        flags: attr.access as c_uint,
    })
}

/// `ibv_reg_mr_ex`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_ex(
    pd: *mut ibv_pd,
    attr: *mut ibv_mr_init_attr,
) -> *mut ibv_mr {
    const KNOWN: u64 = (IBV_REG_MR_MASK_BUF << 1) - 1;
    pointer("ibv_reg_mr_ex", || {
        // SAFETY: contract of `ibv_reg_mr_ex`: the struct is null or valid; null is refused.
        let attr = unsafe { attr.as_ref() }.ok_or_else(|| Errno::null("attr"))?;
        let has = |bit: u64| attr.comp_mask & bit != 0;
        if attr.comp_mask & !KNOWN != 0 || has(IBV_REG_MR_MASK_FD) == has(IBV_REG_MR_MASK_ADDR) {
            let right = "IBV_REG_MR_MASK_ADDR or IBV_REG_MR_MASK_FD, and no unknown flag";
            let mask = Shown::Bits(attr.comp_mask);
            return Err(Errno::wrong("mr_init_attr->comp_mask", mask, right));
        }
        if has(IBV_REG_MR_MASK_DMAH) {
            return Err(Errno::NOT_SUPPORTED.because("DMA handles are not supported"));
        }
        if has(IBV_REG_MR_MASK_FD) {
            let request = request_of(attr)?;
            // SAFETY: contract of `ibv_reg_mr_ex`: the PD is null or a live one of this library.
            return unsafe { register_dma_buf(pd, &request) };
        }
        if has(IBV_REG_MR_MASK_FD_OFFSET) {
            let right = "IBV_REG_MR_MASK_FD_OFFSET with IBV_REG_MR_MASK_FD only";
            let mask = Shown::Bits(attr.comp_mask);
            return Err(Errno::wrong("mr_init_attr->comp_mask", mask, right));
        }
        if has(IBV_REG_MR_MASK_BUF) {
            // SAFETY: contract of `ibv_reg_mr_ex`: the program passes null or a live buffer of this
            // library; null is refused.
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
    status("ibv_dereg_mr", || {
        // SAFETY: contract of `ibv_dereg_mr`: the program passes null or a MR of this library, and
        // does not use it any more if this succeeds; `claim` refuses one that is not live.
        unsafe {
            let claim = Handle::<ibv_mr, Mr>::claim(mr)?;
            claim.deregister()?;
            claim.free();
        }
        Ok(())
    })
}

/// `ibv_alloc_null_mr`. It spans all addresses.
pub(super) unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    pointer("ibv_alloc_null_mr", || {
        // SAFETY: contract of `ibv_alloc_null_mr`: the program passes null or a live PD of this
        // library; `look_up` refuses null.
        let region = Mr::null(unsafe { Handle::<ibv_pd, Domain>::look_up(pd)? })?;
        Ok(give(pd, std::ptr::null_mut(), size_t::MAX, region))
    })
}

/// `ibv_advise_mr`.
pub(super) unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: c_int,
    flags: u32,
    list: *mut ibv_sge,
    count: u32,
) -> c_int {
    status("ibv_advise_mr", || {
        // SAFETY: contract of `ibv_advise_mr`: the program passes null or a live PD of this
        // library; `look_up` refuses null.
        let domain = unsafe { Handle::<ibv_pd, Domain>::look_up(pd)? };
        let list = match (list.is_null(), count) {
            (_, 0) => &[],
            (true, _) => return Err(Errno::null("sg_list")),
            // SAFETY: contract of `ibv_advise_mr`: the list has `count` elements, which do not
            // change during the call.
            (false, _) => unsafe { std::slice::from_raw_parts(list, count as usize) },
        };
        advice::advise(domain, advice, flags, list)
    })
}

/// Describes why the arguments of `ibv_rereg_mr` contradict each other.
#[cold]
fn bad_change(flags: c_int, empty: bool, stray_access: bool) -> Errno {
    if empty {
        return Errno::INVALID.because("addr is null or length zero");
    }
    if stray_access {
        return Errno::INVALID.because("access without IBV_REREG_MR_CHANGE_ACCESS");
    }
    let right = "one or more of enum ibv_rereg_mr_flags";
    Errno::wrong("flags", Shown::Bits(flags as u64), right)
}

/// Reregisters a region and updates its public struct.
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
        return Err(bad_change(flags, empty, stray_access));
    }
    // SAFETY: the caller guarantees that `mr` and, when the flags name it, `pd` are null or objects
    // of this library.
    let (body, domain) = unsafe {
        let domain = if has(IBV_REREG_MR_CHANGE_PD) {
            Some(Handle::<ibv_pd, Domain>::look_up(pd)?)
        } else {
            None
        };
        let body = Handle::<ibv_mr, Mr>::look_up(mr)?;
        if domain.is_some() && (*pd).context != (*mr).context {
            return Err(Errno::INVALID.because("the PD is of another context than the MR"));
        }
        (body, domain)
    };
    body.change(&Change {
        domain,
        range: moves.then(|| (address.expose_provenance(), length)),
        flags: has(IBV_REREG_MR_CHANGE_ACCESS).then_some(access as c_uint),
    })?;
    // SAFETY: `look_up` has accepted the region and the new PD, which are alive during the call.
    unsafe {
        if domain.is_some() {
            (*mr).pd = pd;
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

/// `ibv_rereg_mr`. Every failure leaves the old region unchanged, as `IBV_REREG_MR_ERR_INPUT`
/// states.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    access: c_int,
) -> c_int {
    // SAFETY: contract of `ibv_rereg_mr`: the program's objects are null or live objects of this
    // library; null is refused where an object is required.
    let changed = guard(|| unsafe { change(mr, flags, pd, address, length, access) });
    match changed {
        Ok(()) => 0,
        Err(errno) => {
            refused("ibv_rereg_mr", errno);
            set_errno(errno);
            IBV_REREG_MR_ERR_INPUT
        }
    }
}

/// Body of the opaque `struct ibv_buf`.
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
    pointer("ibv_alloc_buf", || {
        // SAFETY: contract of `ibv_alloc_buf`: `pd` is null or a live domain of this library, and
        // the pointer null or valid; null is refused.
        let buffer = unsafe {
            Handle::<ibv_pd, Domain>::look_up(pd)?.adapter.check()?;
            buffer.as_mut().ok_or_else(|| Errno::null("buffer"))?
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
        // SAFETY: contract of `ibv_free_buf`: `ibv_alloc_buf` returned the buffer, which is a box
        // of this type, and the program frees it once.
        drop(unsafe { Box::from_raw(buffer.cast::<Buffer>()) });
    }
}

/// `ibv_export_buf_dmabuf_fd`: fails, because no buffer has a dma-buf; rdma-core reports it like
/// this.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_export_buf_dmabuf_fd(_buffer: *mut c_void) -> c_int {
    minus_one("ibv_export_buf_dmabuf_fd", || {
        Err(Errno::NO_DATA.because("the buffer has no dma-buf"))
    })
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
    // SAFETY: the caller guarantees that `buffer` is null or came from `ibv_alloc_buf`.
    match unsafe { buffer.cast::<Buffer>().as_ref() } {
        Some(buffer) if buffer.pd == pd && buffer.memory.contains(address, length) => Ok(()),
        _ => Err(Errno::INVALID.because("the range is not in the buffer, or of another PD")),
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
    pointer("ibv_reg_buf_mr", || {
        // SAFETY: contract of `ibv_reg_buf_mr`: the program passes null or a live buffer of this
        // library; null is refused.
        unsafe { check_buffer(pd, buffer, address, length)? };
        register(pd, address, length, address.addr() as u64, access as c_uint)
    })
}

//! Device memory.

use libc::{c_int, c_uint, c_void, size_t};

use super::super::boundary::{minus_one, pointer, status};
use super::super::handle::Handle;
use super::super::objects::Context;
use crate::abi::*;
use crate::dm::Dm;
use crate::domain::Domain;
use crate::errno::Errno;
use crate::mr::Mr;

/// `ibv_alloc_dm`.
pub(super) unsafe extern "C" fn alloc_dm(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    pointer("ibv_alloc_dm", || {
        // SAFETY: contract of `ibv_alloc_dm`: the context is null or an open context of this
        // library, and the struct null or valid; null is refused.
        let (body, attr) = unsafe { (Context::borrow(context)?, attr.as_ref()) };
        let memory = Dm::allocate(&body.adapter, attr.ok_or_else(|| Errno::null("attr"))?)?;
        let public = ibv_dm {
            context,
            memcpy_to_dm: Some(memcpy_to_dm),
            memcpy_from_dm: Some(memcpy_from_dm),
            comp_mask: 0,
            handle: super::next_handle(),
        };
        Ok(Handle::give(public, memory).cast())
    })
}

/// `ibv_free_dm`.
pub(super) unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    status("ibv_free_dm", || {
        // SAFETY: contract of `ibv_free_dm`: the program passes null or a memory of this library,
        // and does not use it any more if this succeeds; `claim` refuses one that is not live.
        unsafe {
            let claim = Handle::<ibv_dm, Dm>::claim(dm)?;
            Dm::free(&claim)?;
            claim.free();
        }
        Ok(())
    })
}

/// `ibv_dm_export_dmabuf_fd`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dm_export_dmabuf_fd(dm: *mut ibv_dm) -> c_int {
    minus_one("ibv_dm_export_dmabuf_fd", || {
        // SAFETY: contract of `ibv_dm_export_dmabuf_fd`: `dm` is null or a live memory of this
        // library; `look_up` refuses null.
        unsafe { Handle::<ibv_dm, Dm>::look_up(dm)? }.export()
    })
}

/// `ibv_memcpy_to_dm`.
unsafe extern "C" fn memcpy_to_dm(
    dm: *mut ibv_dm,
    offset: u64,
    source: *const c_void,
    length: size_t,
) -> c_int {
    status("ibv_memcpy_to_dm", || {
        // SAFETY: contract of `ibv_memcpy_to_dm`: `dm` is null or a live memory of this library;
        // `borrow` refuses null.
        let memory = unsafe { Handle::<ibv_dm, Dm>::borrow(dm)? };
        memory.check_copy(offset, length)?;
        if length == 0 {
            return Ok(());
        }
        if source.is_null() {
            return Err(Errno::null("host_addr"));
        }
        // SAFETY: contract of `ibv_memcpy_to_dm`: the program has `length` readable bytes at
        // `source`, unchanged during the call.
        let source = unsafe { std::slice::from_raw_parts(source.cast(), length) };
        memory.copy_in(offset, source)
    })
}

/// `ibv_memcpy_from_dm`.
unsafe extern "C" fn memcpy_from_dm(
    destination: *mut c_void,
    dm: *mut ibv_dm,
    offset: u64,
    length: size_t,
) -> c_int {
    status("ibv_memcpy_from_dm", || {
        // SAFETY: contract of `ibv_memcpy_from_dm`: `dm` is null or a live memory of this library;
        // `borrow` refuses null.
        let memory = unsafe { Handle::<ibv_dm, Dm>::borrow(dm)? };
        memory.check_copy(offset, length)?;
        if length == 0 {
            return Ok(());
        }
        if destination.is_null() {
            return Err(Errno::null("host_addr"));
        }
        let destination: *mut u8 = destination.cast();
        // SAFETY: contract of `ibv_memcpy_from_dm`: the program has `length` writable bytes at
        // `destination`. They need not be initialised, so they are zeroed first.
        let destination = unsafe {
            destination.write_bytes(0, length);
            std::slice::from_raw_parts_mut(destination, length)
        };
        memory.copy_out(offset, destination)
    })
}

/// `ibv_reg_dm_mr`.
pub(super) unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: size_t,
    access: c_uint,
) -> *mut ibv_mr {
    pointer("ibv_reg_dm_mr", || {
        // SAFETY: contract of `ibv_reg_dm_mr`: the program's objects are null or live objects of
        // this library; null is refused where an object is required.
        let (domain, memory) = unsafe {
            (
                Handle::<ibv_pd, Domain>::look_up(pd)?,
                Handle::<ibv_dm, Dm>::look_up(dm)?,
            )
        };
        let region = Mr::of_device_memory(domain, memory, offset, length, access)?;
        Ok(super::memory::give(
            pd,
            std::ptr::null_mut(),
            length,
            region,
        ))
    })
}

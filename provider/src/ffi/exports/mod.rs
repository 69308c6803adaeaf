//! The exported verbs, by object: check, convert, call, return.

mod address;
mod completion;
mod device;
mod device_memory;
mod direct_verbs;
mod domain;
mod memory;
mod port;
mod queue_pair;
mod shared_receive;
mod text;
mod unsupported;
mod window;
mod xrc;

pub(super) use completion::{create_cq_ex, modify_cq, release_channel};
pub(super) use device::{ibv_query_device, query_device_ex, query_rt_values};
pub(super) use device_memory::{alloc_dm, free_dm, reg_dm_mr};
pub(super) use domain::{alloc_parent_domain, alloc_td, dealloc_td};
pub(super) use memory::{alloc_null_mr, ibv_alloc_buf, ibv_free_buf, ibv_reg_mr_ex};
pub(super) use port::{ibv_query_port, query_port};
pub(super) use queue_pair::{create_qp_ex, open_qp};
pub(super) use shared_receive::{create_srq_ex, get_srq_num};
pub(super) use window::{alloc_mw, bind_mw, dealloc_mw};
pub(super) use xrc::{close_xrcd, open_xrcd};

use crate::errno::Errno;

/// Returns a number for the `handle` fields, which is only unique in the process.
fn next_handle() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Copies a struct to a program whose version of it may be shorter or longer: the common part, then
/// zeros.
///
/// # Safety
/// `destination` has `size` writable bytes; `T` is plain data without padding that matters.
unsafe fn copy_sized<T: Copy>(destination: *mut T, value: &T, size: usize) -> Result<(), Errno> {
    if destination.is_null() {
        return Err(Errno::INVALID);
    }
    let known = size.min(size_of::<T>());
    let destination: *mut u8 = destination.cast();
    // SAFETY: the caller guarantees that `destination` has `size` writable bytes; `T` is plain data
    // without padding that matters.
    unsafe {
        destination.copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), known);
        destination.add(known).write_bytes(0, size - known);
    }
    Ok(())
}

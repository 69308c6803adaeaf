//! The exported verbs, by object: check, convert, call, answer.

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

/// Numbers for the `handle` fields: unique in the process, and nothing more.
fn next_handle() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Copies a struct to a program that may know a shorter or a longer one: what we have and it knows,
/// then zeros.
///
/// # Safety
/// `destination` has `size` writable bytes; `T` is plain data without padding that matters.
unsafe fn copy_sized<T: Copy>(destination: *mut T, value: &T, size: usize) -> Result<(), Errno> {
    if destination.is_null() {
        return Err(Errno::INVALID);
    }
    let known = size.min(size_of::<T>());
    let destination: *mut u8 = destination.cast();
    // SAFETY: by the contract.
    unsafe {
        destination.copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), known);
        destination.add(known).write_bytes(0, size - known);
    }
    Ok(())
}

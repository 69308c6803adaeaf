//! What of libmlx5's own interface (direct verbs, `mlx5dv`) is answered here, by interposition.
//!
//! perftest since release 24 asks `mlx5dv_query_device` whenever it posts by `ibv_wr_*`, which it
//! does by `vendor_part_id`; libmlx5 refuses on a device that is not its own, and perftest gives up.
//! So a device that reports a part of libmlx5's answers that it can do nothing of all this. Every
//! other call of direct verbs stays libmlx5's own, which refuses it.

use super::super::boundary::status;
use super::super::objects::Context;
use crate::errno::Errno;
use crate::ffi::abi::ibv_context;
use crate::identity;
use libc::c_int;

/// The head of `struct mlx5dv_context`. What stands behind it is announced by `comp_mask`.
#[repr(C)]
pub struct mlx5dv_context {
    version: u8,
    flags: u64,
    comp_mask: u64,
}

/// `mlx5dv_query_device`: nothing is claimed, neither by `flags` nor by `comp_mask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_query_device(
    context: *mut ibv_context,
    answer: *mut mlx5dv_context,
) -> c_int {
    status(|| {
        // SAFETY: the program's context; every context of this process is ours.
        let context = unsafe { Context::borrow(context)? };
        if !identity::is_mlx5_part(context.adapter.part_id()) {
            return Err(Errno::NOT_SUPPORTED);
        }
        // SAFETY: the program's struct, which has at least this head.
        let answer = unsafe { answer.as_mut() };
        *answer.ok_or(Errno::INVALID)? = mlx5dv_context {
            version: 0,
            flags: 0,
            comp_mask: 0,
        };
        Ok(())
    })
}

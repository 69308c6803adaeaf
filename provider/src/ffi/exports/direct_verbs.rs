//! The part of libmlx5's own interface (direct verbs, `mlx5dv`) that this library answers by
//! interposition.
//!
//! perftest since release 24 calls `mlx5dv_query_device` whenever it posts by `ibv_wr_*`, which
//! depends on `vendor_part_id`; libmlx5 refuses on a device that is not its own, and perftest
//! stops. So a device that reports a part ID of libmlx5 answers that it has no such capability. All
//! other calls of direct verbs go to libmlx5, which refuses them.

use libc::c_int;

use super::super::boundary::status;
use super::super::objects::Context;
use crate::errno::Errno;
use crate::ffi::abi::ibv_context;
use crate::identity;

/// The head of `struct mlx5dv_context`. `comp_mask` announces the fields behind it.
#[repr(C)]
pub struct mlx5dv_context {
    version: u8,
    flags: u64,
    comp_mask: u64,
}

/// `mlx5dv_query_device`: reports no capability, neither in `flags` nor in `comp_mask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_query_device(
    context: *mut ibv_context,
    answer: *mut mlx5dv_context,
) -> c_int {
    status("mlx5dv_query_device", || {
        // SAFETY: contract of `mlx5dv_query_device`: `context` is null or an open context, and
        // every context of this process is one of this library; null is refused.
        let context = unsafe { Context::borrow(context)? };
        if !identity::is_mlx5_part(context.adapter.part_id()) {
            let text = "direct verbs of libmlx5 are not there; this is no ConnectX";
            return Err(Errno::NOT_SUPPORTED.because(text));
        }
        // SAFETY: contract of `mlx5dv_query_device`: the struct is null or has at least this head;
        // null is refused.
        let answer = unsafe { answer.as_mut() };
        *answer.ok_or_else(|| Errno::null("answer"))? = mlx5dv_context {
            version: 0,
            flags: 0,
            comp_mask: 0,
        };
        Ok(())
    })
}

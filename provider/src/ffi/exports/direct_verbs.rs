//! The part of libmlx5's own interface (direct verbs, `mlx5dv`) that this library answers by
//! interposition.
//!
//! perftest since release 24 calls `mlx5dv_query_device` whenever it posts by `ibv_wr_*`, which it
//! chooses by `vendor_part_id`. libmlx5 refuses the call on a foreign device, and perftest stops.
//! So a device with a part ID of libmlx5 reports here that it has no such capability. The other
//! calls on a device, a context or an object of this library are refused with a message, where
//! libmlx5 would refuse them silently. `mlx5dv_is_supported` stays libmlx5's own: it returns false.

use libc::{c_int, c_void};

use super::super::boundary::{pointer, status};
use super::super::objects::Context;
use crate::abi::ibv_context;
use crate::errno::Errno;
use crate::identity;

/// The error of all other calls.
const NOT_THERE: Errno =
    Errno::NOT_SUPPORTED.because("direct verbs of libmlx5 are not there; this is no ConnectX");

/// The head of `struct mlx5dv_context`. `comp_mask` announces the fields after it.
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
            return Err(NOT_THERE);
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

/// Declares calls that return null, whatever their arguments are.
macro_rules! null {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: null and `EOPNOTSUPP`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> *mut c_void {
            pointer(stringify!($name), || Err(NOT_THERE))
        }
    )*};
}
null! {
    mlx5dv_create_cq
    mlx5dv_create_qp
    mlx5dv_create_wq
    mlx5dv_create_flow_action_esp
    mlx5dv_create_flow_matcher
    mlx5dv_create_flow_action_modify_header
    mlx5dv_create_flow_action_packet_reformat
    mlx5dv_devx_alloc_uar
    mlx5dv_devx_obj_create
    mlx5dv_devx_umem_reg
    mlx5dv_open_device
    mlx5dv_devx_create_cmd_comp
    mlx5dv_alloc_dm
    mlx5dv_create_mkey
    mlx5dv_dr_action_create_dest_ibv_qp
    mlx5dv_dr_domain_create
    mlx5dv_qp_ex_from_ibv_qp_ex
    mlx5dv_devx_create_event_channel
    mlx5dv_alloc_var
    mlx5dv_pp_alloc
    mlx5dv_sched_leaf_create
    mlx5dv_sched_node_create
    mlx5dv_devx_umem_reg_ex
    mlx5dv_dm_map_op_addr
    mlx5dv_dek_create
    mlx5dv_devx_alloc_msi_vector
    mlx5dv_devx_create_eq
    mlx5dv_create_steering_anchor
    mlx5dv_crypto_login_create
}

/// Declares calls that return the errno, whatever their arguments are.
macro_rules! errno {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: `EOPNOTSUPP`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            status(stringify!($name), || Err(NOT_THERE))
        }
    )*};
}
errno! {
    mlx5dv_init_obj
    mlx5dv_set_context_attr
    mlx5dv_get_clock_info
    mlx5dv_devx_general_cmd
    mlx5dv_devx_query_eqn
    mlx5dv_devx_cq_modify
    mlx5dv_devx_cq_query
    mlx5dv_devx_ind_tbl_modify
    mlx5dv_devx_ind_tbl_query
    mlx5dv_devx_qp_modify
    mlx5dv_devx_qp_query
    mlx5dv_devx_srq_modify
    mlx5dv_devx_srq_query
    mlx5dv_devx_wq_modify
    mlx5dv_devx_wq_query
    mlx5dv_modify_qp_lag_port
    mlx5dv_query_qp_lag_port
    mlx5dv_modify_qp_sched_elem
    mlx5dv_modify_qp_udp_sport
    mlx5dv_reserved_qpn_alloc
    mlx5dv_map_ah_to_qp
    mlx5dv_crypto_login
    mlx5dv_crypto_login_query_state
    mlx5dv_crypto_logout
    mlx5dv_dci_stream_id_reset
}

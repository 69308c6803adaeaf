//! The context with its two tables, through which the inline calls of verbs.h reach the library.

use libc::{c_int, c_uint, c_void, pthread_mutex_t, size_t};

use super::{
    ibv_alloc_dm_attr, ibv_async_event, ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_device,
    ibv_device_attr, ibv_device_attr_ex, ibv_dm, ibv_modify_cq_attr, ibv_mr, ibv_mr_init_attr,
    ibv_mw, ibv_mw_bind, ibv_parent_domain_init_attr, ibv_pd, ibv_port_attr, ibv_qp,
    ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_query_device_ex_input, ibv_recv_wr, ibv_send_wr,
    ibv_sge, ibv_srq, ibv_srq_init_attr_ex, ibv_td, ibv_td_init_attr, ibv_values_ex, ibv_wc,
    ibv_xrcd, ibv_xrcd_init_attr, mirror,
};

/// An entry that inline calls no longer use.
pub type Unused = *mut c_void;

mirror! {
    struct ibv_context_ops {
        _compat_query_device: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int,
        >;
        _compat_query_port: Option<
            unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int,
        >;
        _compat_alloc_pd: Unused;
        _compat_dealloc_pd: Unused;
        _compat_reg_mr: Unused;
        _compat_rereg_mr: Unused;
        _compat_dereg_mr: Unused;
        alloc_mw: Option<unsafe extern "C" fn(*mut ibv_pd, c_int) -> *mut ibv_mw>;
        bind_mw: Option<
            unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int,
        >;
        dealloc_mw: Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>;
        _compat_create_cq: Unused;
        poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>;
        req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>;
        _compat_cq_event: Unused;
        _compat_resize_cq: Unused;
        _compat_destroy_cq: Unused;
        _compat_create_srq: Unused;
        _compat_modify_srq: Unused;
        _compat_query_srq: Unused;
        _compat_destroy_srq: Unused;
        post_srq_recv: Option<
            unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
        >;
        _compat_create_qp: Unused;
        _compat_query_qp: Unused;
        _compat_modify_qp: Unused;
        _compat_destroy_qp: Unused;
        post_send: Option<
            unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
        >;
        post_recv: Option<
            unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
        >;
        _compat_create_ah: Unused;
        _compat_destroy_ah: Unused;
        _compat_attach_mcast: Unused;
        _compat_detach_mcast: Unused;
        _compat_async_event: Option<unsafe extern "C" fn(*mut ibv_async_event)>;
    }

    struct ibv_context {
        device: *mut ibv_device;
        ops: ibv_context_ops;
        cmd_fd: c_int;
        async_fd: c_int;
        num_comp_vectors: c_int;
        mutex: pthread_mutex_t;
        abi_compat: *mut c_void;
    }

    struct verbs_context, grows_up {
        free_buf: Option<unsafe extern "C" fn(*mut c_void)>, since 64;
        alloc_buf: Option<
            unsafe extern "C" fn(*mut ibv_pd, size_t, *mut *mut c_void) -> *mut c_void,
        >, since 64;
        dm_export_dmabuf_fd: Option<unsafe extern "C" fn(*mut c_void) -> c_int>, since 62;
        reg_mr_ex: Option<
            unsafe extern "C" fn(*mut ibv_pd, *mut ibv_mr_init_attr) -> *mut ibv_mr,
        >, since 59;
        dealloc_dmah: Option<unsafe extern "C" fn(*mut c_void) -> c_int>, since 59;
        alloc_dmah: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut c_void) -> *mut c_void,
        >, since 59;
        query_port: Option<
            unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, size_t) -> c_int,
        >;
        advise_mr: Option<
            unsafe extern "C" fn(*mut ibv_pd, c_int, u32, *mut ibv_sge, u32) -> c_int,
        >;
        alloc_null_mr: Option<unsafe extern "C" fn(*mut ibv_pd) -> *mut ibv_mr>;
        read_counters: Option<unsafe extern "C" fn(*mut c_void, *mut u64, u32, u32) -> c_int>;
        attach_counters_point_flow: Option<
            unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> c_int,
        >;
        create_counters: Option<unsafe extern "C" fn(*mut ibv_context, *mut c_void) -> *mut c_void>;
        destroy_counters: Option<unsafe extern "C" fn(*mut c_void) -> c_int>;
        reg_dm_mr: Option<
            unsafe extern "C" fn(*mut ibv_pd, *mut ibv_dm, u64, size_t, c_uint) -> *mut ibv_mr,
        >;
        alloc_dm: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm,
        >;
        free_dm: Option<unsafe extern "C" fn(*mut ibv_dm) -> c_int>;
        modify_flow_action_esp: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>;
        destroy_flow_action: Option<unsafe extern "C" fn(*mut c_void) -> c_int>;
        create_flow_action_esp: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut c_void) -> *mut c_void,
        >;
        modify_qp_rate_limit: Option<unsafe extern "C" fn(*mut ibv_qp, *mut c_void) -> c_int>;
        alloc_parent_domain: Option<
            unsafe extern "C" fn(
                *mut ibv_context,
                *mut ibv_parent_domain_init_attr,
            ) -> *mut ibv_pd,
        >;
        dealloc_td: Option<unsafe extern "C" fn(*mut ibv_td) -> c_int>;
        alloc_td: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td,
        >;
        modify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, *mut ibv_modify_cq_attr) -> c_int>;
        post_srq_ops: Option<
            unsafe extern "C" fn(*mut ibv_srq, *mut c_void, *mut *mut c_void) -> c_int,
        >;
        destroy_rwq_ind_table: Option<unsafe extern "C" fn(*mut c_void) -> c_int>;
        create_rwq_ind_table: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut c_void) -> *mut c_void,
        >;
        destroy_wq: Option<unsafe extern "C" fn(*mut c_void) -> c_int>;
        modify_wq: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>;
        create_wq: Option<unsafe extern "C" fn(*mut ibv_context, *mut c_void) -> *mut c_void>;
        query_rt_values: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int,
        >;
        create_cq_ex: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex,
        >;
        r#priv: *mut c_void;
        query_device_ex: Option<unsafe extern "C" fn(
            *mut ibv_context,
            *const ibv_query_device_ex_input,
            *mut ibv_device_attr_ex,
            size_t,
        ) -> c_int>;
        ibv_destroy_flow: Option<unsafe extern "C" fn(*mut c_void) -> c_int>;
        ABI_placeholder2: Unused;
        ibv_create_flow: Option<unsafe extern "C" fn(*mut ibv_qp, *mut c_void) -> *mut c_void>;
        ABI_placeholder1: Unused;
        open_qp: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp,
        >;
        create_qp_ex: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp,
        >;
        get_srq_num: Option<unsafe extern "C" fn(*mut ibv_srq, *mut u32) -> c_int>;
        create_srq_ex: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq,
        >;
        open_xrcd: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd,
        >;
        close_xrcd: Option<unsafe extern "C" fn(*mut ibv_xrcd) -> c_int>;
        _ABI_placeholder3: u64;
        sz: size_t;
        context: ibv_context;
    }
}

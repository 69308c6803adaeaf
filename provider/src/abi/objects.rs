//! Objects that a program has pointers to, and the attributes that create, change and describe
//! them.

use libc::{c_int, c_uint, c_void, pthread_cond_t, pthread_mutex_t, size_t};

use super::{ibv_context, ibv_gid, ibv_send_flags, mirror};

mirror! {
    union ibv_async_element {
        cq: *mut ibv_cq;
        qp: *mut ibv_qp;
        srq: *mut ibv_srq;
        wq: *mut c_void;
        port_num: c_int;
    }

    struct ibv_async_event {
        element: ibv_async_element;
        event_type: c_int;
    }

    struct ibv_pd {
        context: *mut ibv_context;
        handle: u32;
    }

    struct ibv_mr {
        context: *mut ibv_context;
        pd: *mut ibv_pd;
        addr: *mut c_void;
        length: size_t;
        handle: u32;
        lkey: u32;
        rkey: u32;
    }

    struct ibv_mr_init_attr since 59 {
        length: size_t;
        access: c_int;
        comp_mask: u64;
        iova: u64;
        addr: *mut c_void;
        fd: c_int;
        fd_offset: u64;
        dmah: *mut c_void;
        buf: *mut c_void, since 64;
    }

    struct ibv_mw {
        context: *mut ibv_context;
        pd: *mut ibv_pd;
        rkey: u32;
        handle: u32;
        r#type: c_int;
    }

    struct ibv_global_route {
        dgid: ibv_gid;
        flow_label: u32;
        sgid_index: u8;
        hop_limit: u8;
        traffic_class: u8;
    }

    struct ibv_grh {
        version_tclass_flow: u32;
        paylen: u16;
        next_hdr: u8;
        hop_limit: u8;
        sgid: ibv_gid;
        dgid: ibv_gid;
    }

    struct ibv_ah_attr {
        grh: ibv_global_route;
        dlid: u16;
        sl: u8;
        src_path_bits: u8;
        static_rate: u8;
        is_global: u8;
        port_num: u8;
    }

    struct ibv_ah {
        context: *mut ibv_context;
        pd: *mut ibv_pd;
        handle: u32;
    }

    struct ibv_srq_attr {
        max_wr: u32;
        max_sge: u32;
        srq_limit: u32;
    }

    struct ibv_srq_init_attr {
        srq_context: *mut c_void;
        attr: ibv_srq_attr;
    }

    struct ibv_srq {
        context: *mut ibv_context;
        srq_context: *mut c_void;
        pd: *mut ibv_pd;
        handle: u32;
        mutex: pthread_mutex_t;
        cond: pthread_cond_t;
        events_completed: u32;
    }

    struct ibv_comp_channel {
        context: *mut ibv_context;
        fd: c_int;
        refcnt: c_int;
    }

    struct ibv_cq {
        context: *mut ibv_context;
        channel: *mut ibv_comp_channel;
        cq_context: *mut c_void;
        handle: u32;
        cqe: c_int;
        mutex: pthread_mutex_t;
        cond: pthread_cond_t;
        comp_events_completed: u32;
        async_events_completed: u32;
    }

    struct ibv_poll_cq_attr {
        comp_mask: u32;
    }

    struct ibv_wc_tm_info {
        tag: u64;
        r#priv: u32;
    }

    struct ibv_cq_ex {
        context: *mut ibv_context;
        channel: *mut ibv_comp_channel;
        cq_context: *mut c_void;
        handle: u32;
        cqe: c_int;
        mutex: pthread_mutex_t;
        cond: pthread_cond_t;
        comp_events_completed: u32;
        async_events_completed: u32;
        comp_mask: u32;
        status: c_int;
        wr_id: u64;
        start_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int>;
        next_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int>;
        end_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex)>;
        read_opcode: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int>;
        read_vendor_err: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>;
        read_byte_len: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>;
        read_imm_data: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>;
        read_qp_num: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>;
        read_src_qp: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>;
        read_wc_flags: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_uint>;
        read_slid: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>;
        read_sl: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u8>;
        read_dlid_path_bits: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u8>;
        read_completion_ts: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u64>;
        read_cvlan: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u16>;
        read_flow_tag: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>;
        read_tm_info: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_wc_tm_info)>;
        read_completion_wallclock_ns: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u64>;
    }

    struct ibv_cq_init_attr_ex {
        cqe: u32;
        cq_context: *mut c_void;
        channel: *mut ibv_comp_channel;
        comp_vector: u32;
        wc_flags: u64;
        comp_mask: u32;
        flags: u32;
        parent_domain: *mut ibv_pd;
    }

    struct ibv_wc {
        wr_id: u64;
        status: c_int;
        opcode: c_int;
        vendor_err: u32;
        byte_len: u32;
        imm_data: u32;
        qp_num: u32;
        src_qp: u32;
        wc_flags: c_uint;
        pkey_index: u16;
        slid: u16;
        sl: u8;
        dlid_path_bits: u8;
    }

    #[derive(Debug, PartialEq, Eq)]
    struct ibv_qp_cap {
        max_send_wr: u32;
        max_recv_wr: u32;
        max_send_sge: u32;
        max_recv_sge: u32;
        max_inline_data: u32;
    }

    struct ibv_qp_init_attr {
        qp_context: *mut c_void;
        send_cq: *mut ibv_cq;
        recv_cq: *mut ibv_cq;
        srq: *mut ibv_srq;
        cap: ibv_qp_cap;
        qp_type: c_int;
        sq_sig_all: c_int;
    }

    struct ibv_rx_hash_conf {
        rx_hash_function: u8;
        rx_hash_key_len: u8;
        rx_hash_key: *mut u8;
        rx_hash_fields_mask: u64;
    }

    struct ibv_qp_init_attr_ex {
        qp_context: *mut c_void;
        send_cq: *mut ibv_cq;
        recv_cq: *mut ibv_cq;
        srq: *mut ibv_srq;
        cap: ibv_qp_cap;
        qp_type: c_int;
        sq_sig_all: c_int;
        comp_mask: u32;
        pd: *mut ibv_pd;
        xrcd: *mut super::ibv_xrcd;
        create_flags: u32;
        max_tso_header: u16;
        rwq_ind_tbl: *mut c_void;
        rx_hash_conf: ibv_rx_hash_conf;
        source_qpn: u32;
        send_ops_flags: u64;
    }

    struct ibv_qp_attr {
        qp_state: c_int;
        cur_qp_state: c_int;
        path_mtu: c_int;
        path_mig_state: c_int;
        qkey: u32;
        rq_psn: u32;
        sq_psn: u32;
        dest_qp_num: u32;
        qp_access_flags: c_uint;
        cap: ibv_qp_cap;
        ah_attr: ibv_ah_attr;
        alt_ah_attr: ibv_ah_attr;
        pkey_index: u16;
        alt_pkey_index: u16;
        en_sqd_async_notify: u8;
        sq_draining: u8;
        max_rd_atomic: u8;
        max_dest_rd_atomic: u8;
        min_rnr_timer: u8;
        port_num: u8;
        timeout: u8;
        retry_cnt: u8;
        rnr_retry: u8;
        alt_port_num: u8;
        alt_timeout: u8;
        rate_limit: u32;
    }

    struct ibv_qp {
        context: *mut ibv_context;
        qp_context: *mut c_void;
        pd: *mut ibv_pd;
        send_cq: *mut ibv_cq;
        recv_cq: *mut ibv_cq;
        srq: *mut ibv_srq;
        handle: u32;
        qp_num: u32;
        state: c_int;
        qp_type: c_int;
        mutex: pthread_mutex_t;
        cond: pthread_cond_t;
        events_completed: u32;
    }

    struct ibv_ece {
        vendor_id: u32;
        options: u32;
        comp_mask: u32;
    }

    struct ibv_data_buf {
        addr: *mut c_void;
        length: size_t;
    }

    struct ibv_qp_ex {
        qp_base: ibv_qp;
        comp_mask: u64;
        wr_id: u64;
        wr_flags: ibv_send_flags;
        wr_atomic_cmp_swp: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u64, u64)>;
        wr_atomic_fetch_add: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u64)>;
        wr_bind_mw: Option<
            unsafe extern "C" fn(*mut ibv_qp_ex, *mut ibv_mw, u32, *const super::ibv_mw_bind_info),
        >;
        wr_local_inv: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32)>;
        wr_rdma_read: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64)>;
        wr_rdma_write: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64)>;
        wr_rdma_write_imm: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u32)>;
        wr_send: Option<unsafe extern "C" fn(*mut ibv_qp_ex)>;
        wr_send_imm: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32)>;
        wr_send_inv: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32)>;
        wr_send_tso: Option<unsafe extern "C" fn(*mut ibv_qp_ex, *mut c_void, u16, u16)>;
        wr_set_ud_addr: Option<unsafe extern "C" fn(*mut ibv_qp_ex, *mut ibv_ah, u32, u32)>;
        wr_set_xrc_srqn: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32)>;
        wr_set_inline_data: Option<unsafe extern "C" fn(*mut ibv_qp_ex, *mut c_void, size_t)>;
        wr_set_inline_data_list:
            Option<unsafe extern "C" fn(*mut ibv_qp_ex, size_t, *const ibv_data_buf)>;
        wr_set_sge: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u32)>;
        wr_set_sge_list: Option<
            unsafe extern "C" fn(*mut ibv_qp_ex, size_t, *const super::ibv_sge),
        >;
        wr_start: Option<unsafe extern "C" fn(*mut ibv_qp_ex)>;
        wr_complete: Option<unsafe extern "C" fn(*mut ibv_qp_ex) -> c_int>;
        wr_abort: Option<unsafe extern "C" fn(*mut ibv_qp_ex)>;
        wr_atomic_write: Option<
            unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, *const c_void),
        >, since 44;
        wr_flush: Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, size_t, u8, u8)>, since 45;
    }
}

/// Returns attributes of zeros.
pub fn zeroed_qp_attr() -> ibv_qp_attr {
    // SAFETY: the struct consists of integers and arrays of them, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

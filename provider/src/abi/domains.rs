//! Thread and parent domains, XRC domains, device memory, CQ moderation.

use libc::{c_int, c_void, size_t};

use super::{ibv_context, ibv_cq, ibv_pd, ibv_srq_attr, mirror};

mirror! {
    struct ibv_td_init_attr {
        comp_mask: u32;
    }

    struct ibv_td {
        context: *mut ibv_context;
    }

    struct ibv_parent_domain_init_attr {
        pd: *mut ibv_pd;
        td: *mut ibv_td;
        comp_mask: u32;
        alloc: Option<
            unsafe extern "C" fn(*mut ibv_pd, *mut c_void, size_t, size_t, u64) -> *mut c_void,
        >;
        free: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, *mut c_void, u64)>;
        pd_context: *mut c_void;
    }

    struct ibv_xrcd_init_attr {
        comp_mask: u32;
        fd: c_int;
        oflags: c_int;
    }

    struct ibv_xrcd {
        context: *mut ibv_context;
    }

    struct ibv_qp_open_attr {
        comp_mask: u32;
        qp_num: u32;
        xrcd: *mut ibv_xrcd;
        qp_context: *mut c_void;
        qp_type: c_int;
    }

    struct ibv_tm_cap {
        max_num_tags: u32;
        max_ops: u32;
    }

    struct ibv_srq_init_attr_ex {
        srq_context: *mut c_void;
        attr: ibv_srq_attr;
        comp_mask: u32;
        srq_type: c_int;
        pd: *mut ibv_pd;
        xrcd: *mut ibv_xrcd;
        cq: *mut ibv_cq;
        tm_cap: ibv_tm_cap;
    }

    struct ibv_alloc_dm_attr {
        length: size_t;
        log_align_req: u32;
        comp_mask: u32;
    }

    struct ibv_dm {
        context: *mut ibv_context;
        memcpy_to_dm: Option<
            unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, size_t) -> c_int,
        >;
        memcpy_from_dm: Option<
            unsafe extern "C" fn(*mut c_void, *mut ibv_dm, u64, size_t) -> c_int,
        >;
        comp_mask: u32;
        handle: u32;
    }

    struct ibv_moderate_cq {
        cq_count: u16;
        cq_period: u16;
    }

    struct ibv_modify_cq_attr {
        attr_mask: u32;
        moderate: ibv_moderate_cq;
    }
}

//! Work requests.

use libc::{c_int, c_uint};

use super::{ibv_ah, ibv_mr, ibv_mw, mirror};

mirror! {
    #[derive(Debug, PartialEq, Eq)]
    struct ibv_sge {
        addr: u64;
        length: u32;
        lkey: u32;
    }

    struct ibv_wr_rdma {
        remote_addr: u64;
        rkey: u32;
    }

    struct ibv_wr_atomic {
        remote_addr: u64;
        compare_add: u64;
        swap: u64;
        rkey: u32;
    }

    struct ibv_wr_ud {
        ah: *mut ibv_ah;
        remote_qpn: u32;
        remote_qkey: u32;
    }

    union ibv_wr_operation {
        rdma: ibv_wr_rdma;
        atomic: ibv_wr_atomic;
        ud: ibv_wr_ud;
    }

    struct ibv_mw_bind_info {
        mr: *mut ibv_mr;
        addr: u64;
        length: u64;
        mw_access_flags: c_uint;
    }

    struct ibv_wr_bind_mw {
        mw: *mut ibv_mw;
        rkey: u32;
        bind_info: ibv_mw_bind_info;
    }

    struct ibv_send_wr {
        wr_id: u64;
        next: *mut ibv_send_wr;
        sg_list: *mut ibv_sge;
        num_sge: c_int;
        opcode: c_int;
        send_flags: c_uint;
        imm_data: u32;
        wr: ibv_wr_operation;
        qp_type: u32;
        bind_mw: ibv_wr_bind_mw;
    }

    struct ibv_mw_bind {
        wr_id: u64;
        send_flags: c_uint;
        bind_info: ibv_mw_bind_info;
    }

    struct ibv_recv_wr {
        wr_id: u64;
        next: *mut ibv_recv_wr;
        sg_list: *mut ibv_sge;
        num_sge: c_int;
    }
}

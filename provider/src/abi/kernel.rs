//! Structs of the kernel's uverbs interface that librdmacm passes to the library for translation.

use libc::c_int;

use super::{ibv_gid, mirror};

mirror! {
    struct ib_uverbs_global_route in "rdma/ib_user_verbs.h" {
        dgid: [u8; 16];
        flow_label: u32;
        sgid_index: u8;
        hop_limit: u8;
        traffic_class: u8;
        reserved: u8;
    }

    struct ib_uverbs_ah_attr in "rdma/ib_user_verbs.h" {
        grh: ib_uverbs_global_route;
        dlid: u16;
        sl: u8;
        src_path_bits: u8;
        static_rate: u8;
        is_global: u8;
        port_num: u8;
        reserved: u8;
    }

    struct ib_uverbs_qp_attr in "rdma/ib_user_verbs.h" {
        qp_attr_mask: u32;
        qp_state: u32;
        cur_qp_state: u32;
        path_mtu: u32;
        path_mig_state: u32;
        qkey: u32;
        rq_psn: u32;
        sq_psn: u32;
        dest_qp_num: u32;
        qp_access_flags: u32;
        ah_attr: ib_uverbs_ah_attr;
        alt_ah_attr: ib_uverbs_ah_attr;
        max_send_wr: u32;
        max_recv_wr: u32;
        max_send_sge: u32;
        max_recv_sge: u32;
        max_inline_data: u32;
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
        reserved: [u8; 5];
    }

    struct ib_user_path_rec in "rdma/ib_user_sa.h" {
        dgid: [u8; 16];
        sgid: [u8; 16];
        dlid: u16;
        slid: u16;
        raw_traffic: u32;
        flow_label: u32;
        reversible: u32;
        mtu: u32;
        pkey: u16;
        hop_limit: u8;
        traffic_class: u8;
        numb_path: u8;
        sl: u8;
        mtu_selector: u8;
        rate_selector: u8;
        rate: u8;
        packet_life_time_selector: u8;
        packet_life_time: u8;
        preference: u8;
    }

    struct ibv_sa_path_rec in "infiniband/sa.h" {
        dgid: ibv_gid;
        sgid: ibv_gid;
        dlid: u16;
        slid: u16;
        raw_traffic: c_int;
        flow_label: u32;
        hop_limit: u8;
        traffic_class: u8;
        reversible: c_int;
        numb_path: u8;
        pkey: u16;
        sl: u8;
        mtu_selector: u8;
        mtu: u8;
        rate_selector: u8;
        rate: u8;
        packet_life_time_selector: u8;
        packet_life_time: u8;
        preference: u8;
    }
}

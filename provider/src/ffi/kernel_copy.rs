//! Translates between the kernel's structs and the structs of verbs.h, for librdmacm.

use crate::abi::*;

fn ah_attr(source: &ib_uverbs_ah_attr) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid {
                raw: source.grh.dgid,
            },
            flow_label: source.grh.flow_label,
            sgid_index: source.grh.sgid_index,
            hop_limit: source.grh.hop_limit,
            traffic_class: source.grh.traffic_class,
        },
        dlid: source.dlid,
        sl: source.sl,
        src_path_bits: source.src_path_bits,
        static_rate: source.static_rate,
        is_global: source.is_global,
        port_num: source.port_num,
    }
}

fn qp_attr(source: &ib_uverbs_qp_attr) -> ibv_qp_attr {
    let mut attr = zeroed_qp_attr();
    attr.qp_state = source.qp_state as i32;
    attr.cur_qp_state = source.cur_qp_state as i32;
    attr.path_mtu = source.path_mtu as i32;
    attr.path_mig_state = source.path_mig_state as i32;
    attr.qkey = source.qkey;
    attr.rq_psn = source.rq_psn;
    attr.sq_psn = source.sq_psn;
    attr.dest_qp_num = source.dest_qp_num;
    attr.qp_access_flags = source.qp_access_flags;
    attr.cap = ibv_qp_cap {
        max_send_wr: source.max_send_wr,
        max_recv_wr: source.max_recv_wr,
        max_send_sge: source.max_send_sge,
        max_recv_sge: source.max_recv_sge,
        max_inline_data: source.max_inline_data,
    };
    attr.ah_attr = ah_attr(&source.ah_attr);
    attr.alt_ah_attr = ah_attr(&source.alt_ah_attr);
    attr.pkey_index = source.pkey_index;
    attr.alt_pkey_index = source.alt_pkey_index;
    attr.en_sqd_async_notify = source.en_sqd_async_notify;
    attr.sq_draining = source.sq_draining;
    attr.max_rd_atomic = source.max_rd_atomic;
    attr.max_dest_rd_atomic = source.max_dest_rd_atomic;
    attr.min_rnr_timer = source.min_rnr_timer;
    attr.port_num = source.port_num;
    attr.timeout = source.timeout;
    attr.retry_cnt = source.retry_cnt;
    attr.rnr_retry = source.rnr_retry;
    attr.alt_port_num = source.alt_port_num;
    attr.alt_timeout = source.alt_timeout;
    attr
}

fn path_from_kernel(source: &ib_user_path_rec) -> ibv_sa_path_rec {
    ibv_sa_path_rec {
        dgid: ibv_gid { raw: source.dgid },
        sgid: ibv_gid { raw: source.sgid },
        dlid: source.dlid,
        slid: source.slid,
        raw_traffic: source.raw_traffic as i32,
        flow_label: source.flow_label,
        hop_limit: source.hop_limit,
        traffic_class: source.traffic_class,
        reversible: source.reversible as i32,
        numb_path: source.numb_path,
        pkey: source.pkey,
        sl: source.sl,
        mtu_selector: source.mtu_selector,
        mtu: source.mtu as u8,
        rate_selector: source.rate_selector,
        rate: source.rate,
        packet_life_time_selector: source.packet_life_time_selector,
        packet_life_time: source.packet_life_time,
        preference: source.preference,
    }
}

fn path_to_kernel(source: &ibv_sa_path_rec) -> ib_user_path_rec {
    ib_user_path_rec {
        dgid: source.dgid.raw,
        sgid: source.sgid.raw,
        dlid: source.dlid,
        slid: source.slid,
        raw_traffic: source.raw_traffic as u32,
        flow_label: source.flow_label,
        reversible: source.reversible as u32,
        mtu: u32::from(source.mtu),
        pkey: source.pkey,
        hop_limit: source.hop_limit,
        traffic_class: source.traffic_class,
        numb_path: source.numb_path,
        sl: source.sl,
        mtu_selector: source.mtu_selector,
        rate_selector: source.rate_selector,
        rate: source.rate,
        packet_life_time_selector: source.packet_life_time_selector,
        packet_life_time: source.packet_life_time,
        preference: source.preference,
    }
}

/// Translates the struct at `source`.
///
/// # Safety
/// Both are null or valid structs.
unsafe fn copy<S, D>(destination: *mut D, source: *const S, translate: impl FnOnce(&S) -> D) {
    // SAFETY: the caller guarantees that both are null or valid structs.
    if let (Some(destination), Some(source)) = unsafe { (destination.as_mut(), source.as_ref()) } {
        *destination = translate(source);
    }
}

/// `ibv_copy_ah_attr_from_kern`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_ah_attr_from_kern(
    destination: *mut ibv_ah_attr,
    source: *const ib_uverbs_ah_attr,
) {
    // SAFETY: contract of `ibv_copy_ah_attr_from_kern`: the pointers are null or valid structs.
    unsafe { copy(destination, source, ah_attr) }
}

/// `ibv_copy_qp_attr_from_kern`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_qp_attr_from_kern(
    destination: *mut ibv_qp_attr,
    source: *const ib_uverbs_qp_attr,
) {
    // SAFETY: contract of `ibv_copy_qp_attr_from_kern`: the pointers are null or valid structs.
    unsafe { copy(destination, source, qp_attr) }
}

/// `ibv_copy_path_rec_from_kern`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_path_rec_from_kern(
    destination: *mut ibv_sa_path_rec,
    source: *const ib_user_path_rec,
) {
    // SAFETY: contract of `ibv_copy_path_rec_from_kern`: the pointers are null or valid structs.
    unsafe { copy(destination, source, path_from_kernel) }
}

/// `ibv_copy_path_rec_to_kern`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_path_rec_to_kern(
    destination: *mut ib_user_path_rec,
    source: *const ibv_sa_path_rec,
) {
    // SAFETY: contract of `ibv_copy_path_rec_to_kern`: the pointers are null or valid structs.
    unsafe { copy(destination, source, path_to_kernel) }
}

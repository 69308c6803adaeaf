//! Sets up queue pairs like a correct program, so that later calls find working ones.

use std::mem::zeroed;

use ferroce_provider::abi::*;
use libc::c_int;

use super::create::ALL_OPERATIONS;
use super::ffi::*;
use super::objects::call;
use super::work::MASKS;
use super::{Session, table};
use crate::input::Input;

/// Q_Key of datagrams.
const Q_KEY: u32 = 1;

impl Session {
    /// Creates two queue pairs of `kind` that send to each other.
    pub(super) fn connect(&mut self, kind: c_int) {
        let qps = [self.plain_qp(kind), self.plain_qp(kind)];
        // SAFETY: both have just been made.
        let numbers = qps.map(|qp| unsafe { (*qp).qp_num });
        for (qp, peer) in [(qps[0], numbers[1]), (qps[1], numbers[0])] {
            let steps = match kind {
                IBV_QPT_UD => [MASKS[1], MASKS[3], MASKS[5]],
                _ => [MASKS[0], MASKS[2], MASKS[4]],
            };
            for (state, mask) in steps {
                let mut attr = self.attributes(peer);
                attr.qp_state = state;
                // SAFETY: the queue pair is alive.
                assert_eq!(unsafe { ibv_modify_qp(qp, &mut attr, mask) }, 0);
            }
        }
    }

    fn plain_qp(&mut self, kind: c_int) -> *mut ibv_qp {
        let mut nothing = Input::new(&[]);
        let table = table(self.program.context);
        // SAFETY: zeros are a valid attribute; PD and CQ are those that each session begins with.
        let qp = unsafe {
            let mut attr: ibv_qp_init_attr_ex = zeroed();
            attr.qp_type = kind;
            attr.pd = self.objects.pds.pick(&mut nothing);
            attr.send_cq = self.objects.cqs.pick(&mut nothing);
            attr.recv_cq = attr.send_cq;
            attr.cap = ibv_qp_cap {
                max_send_wr: 8,
                max_recv_wr: 8,
                max_send_sge: 3,
                max_recv_sge: 3,
                max_inline_data: 64,
            };
            attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            attr.send_ops_flags = match kind {
                IBV_QPT_RC => ALL_OPERATIONS,
                _ => IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
            };
            call!(table.create_qp_ex)(self.program.context, &mut attr)
        };
        assert!(!qp.is_null(), "a plain queue pair");
        self.objects.qps.keep(qp);
        qp
    }

    fn attributes(&self, peer: u32) -> ibv_qp_attr {
        // SAFETY: zeros are a valid attribute; the context is open.
        unsafe {
            let mut attr: ibv_qp_attr = zeroed();
            attr.path_mtu = IBV_MTU_256;
            (attr.qkey, attr.dest_qp_num, attr.port_num) = (Q_KEY, peer, 1);
            attr.qp_access_flags = 0x10f;
            (attr.max_rd_atomic, attr.max_dest_rd_atomic) = (4, 4);
            (attr.timeout, attr.retry_cnt, attr.rnr_retry) = (1, 1, 1);
            attr.min_rnr_timer = 1;
            ibv_query_gid(self.program.context, 1, 0, &mut attr.ah_attr.grh.dgid);
            (attr.ah_attr.is_global, attr.ah_attr.port_num) = (1, 1);
            attr.ah_attr.grh.hop_limit = 64;
            attr
        }
    }
}

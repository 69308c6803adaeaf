//! Generates flush completions for work requests that a dead device will not complete.
//!
//! The kernel's mlx5 driver makes such completions for its own users after a fatal error
//! (`mlx5_ib_poll_sw_comp`); here all programs get such completions.

use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus, CqeWord};

use crate::rings::demux::{Demux, ReceiveShadows};

impl Demux {
    /// Returns the CQE that flushes the oldest outstanding work request of a QP; `None` when there
    /// is none. Work requests of a shared receive queue belong to no QP and are not flushed: they
    /// stay in the queue, as when a QP goes to ERR.
    pub(crate) fn flush_oldest(&self) -> Option<Cqe> {
        self.queues().find_map(|queue| {
            let sends = queue.send.as_ref();
            let receives = match &queue.receive {
                Some(ReceiveShadows::Own(receives)) => Some(receives),
                Some(ReceiveShadows::Shared(_)) | None => None,
            };
            let send = sends.and_then(|sends| sends.oldest());
            let receive = || receives.and_then(|receives| receives.oldest());
            // The opcode only distinguishes receives from sends; the shadow has the rest.
            let send = send.map(|index| flushed(queue.qpn, index, CqeOpcode::SEND));
            send.or_else(|| receive().map(|index| flushed(queue.qpn, index, CqeOpcode::RECEIVE)))
        })
    }
}

fn flushed(qpn: u32, wqe_index: u32, opcode: CqeOpcode) -> Cqe {
    let mut word = CqeWord::default();
    word.set_opcode(opcode.0);
    word.set_status(CqeStatus::WR_FLUSH.0);
    Cqe {
        qpn,
        wqe_index,
        word,
        ..Cqe::default()
    }
}

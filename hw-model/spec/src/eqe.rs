//! Event queue entries. The ring, its laps and its owner bit work as for a CQ.

use crate::layout::{layout, word};

crate::open_enum::open_enum! {
    /// What has happened.
    pub enum EventType: u8 {
        /// A CQ that was armed has a new CQE. Number: CQN.
        COMPLETION = 0x01,
        /// A CQ has overrun or could not be written. Number: CQN.
        CQ_ERROR = 0x02,
        /// A QP went to the error state for a local reason. Number: QPN.
        QP_FATAL = 0x08,
        /// A QP went to the error state because of an invalid request. Number: QPN.
        QP_REQUEST_ERROR = 0x09,
        /// A QP went to the error state because of a protection error. Number: QPN.
        QP_ACCESS_ERROR = 0x0a,
        /// The first packet arrived while the QP was in RTR. Number: QPN.
        COMMUNICATION_ESTABLISHED = 0x0b,
        /// The send queue has drained in SQD. Number: QPN.
        SEND_QUEUE_DRAINED = 0x0c,
        /// The last WQE of the shared receive queue was taken by an errored QP. Number: QPN.
        LAST_WQE_REACHED = 0x0d,
        /// A shared receive queue fell below its limit. Number: SRQN.
        SRQ_LIMIT = 0x10,
        /// A shared receive queue failed. Number: SRQN.
        SRQ_ERROR = 0x11,
        /// The port came up.
        PORT_ACTIVE = 0x18,
        /// The port went down.
        PORT_ERROR = 0x19,
        /// The host has set or cleared a GID table entry (contract 1.13). Number: its index.
        GID_CHANGE = 0x1a,
        /// An on-demand region lacks a page that is needed (contract 1.15). Number: its key.
        PAGE_FAULT = 0x1b,
        /// The function has stopped.
        DEVICE_FATAL = 0x1f,
    }
}

word! {
    /// Last word of an EQE.
    pub struct EqeWord: u32 {
        [7:0] event, set_event: u8, "An EventType.";
        flag [31] owner, set_owner, "One on even laps of the ring.";
    }
}

layout! {
    /// Event queue entry.
    pub struct Eqe: 16 {
        0x0 number: u32, "CQN, QPN, SRQN, key or index.";
        0x4 sequence: u32, "Index of this event, modulo 2^32.";
        0x8 page: u32, "PAGE_FAULT: index of the page in the region. Otherwise zero.";
        0xc word: EqeWord, "What, and who owns the entry.";
    }
}

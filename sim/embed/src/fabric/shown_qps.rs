//! The queue pairs of this process, shown to `ferroce top`.

use ferroce_driver::{QpState, Service};
use ferroce_wire::{Psn, Qpn};

pub use super::registry::QpChange;
use super::registry::{Registry, ShownQp};

/// The list in which a function on the fabric shows its queue pairs.
#[derive(Debug)]
pub struct ShownQps {
    registry: &'static Registry,
    place: u8,
}

impl ShownQps {
    pub(crate) fn new((registry, place): (&'static Registry, u8)) -> Self {
        Self { registry, place }
    }

    /// Shows a new queue pair.
    pub fn add(&self, qpn: u32, service: Service) {
        let qp = ShownQp {
            qpn: Qpn::new(qpn),
            service,
            state: QpState::Reset,
            peer: Qpn::new(0),
            sq_psn: Psn::new(0),
            rq_psn: Psn::new(0),
        };
        self.registry.add_qp(self.place, qp);
    }

    /// Shows the new state of a queue pair and the attributes that change with it.
    pub fn change(&self, qpn: u32, state: QpState, change: QpChange) {
        self.registry
            .change_qp(self.place, Qpn::new(qpn), state, change);
    }

    /// Removes a queue pair from the list.
    pub fn remove(&self, qpn: u32) {
        self.registry.forget_qp(self.place, Qpn::new(qpn));
    }
}

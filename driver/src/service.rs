//! Operations and addressing of each transport service.

use ferroce_qp::Service;
use ferroce_spec::command::DeviceFeatures;
use ferroce_spec::wqe::SendOpcode;

/// Way in which send work requests name their destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// By the connection.
    Connected,
    /// By an address handle, a QPN and a Q_Key (UD, GSI).
    Datagram,
    /// By the connection for the host, and an SRQN for the queue (XRC).
    Xrc,
}

impl Addressing {
    /// Returns how the send work requests of a service name their destination.
    pub fn of(service: Service) -> Self {
        match service {
            Service::UnreliableDatagram | Service::Gsi => Self::Datagram,
            Service::XrcInitiator => Self::Xrc,
            _ => Self::Connected,
        }
    }
}

/// A set of send operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Operations(u64);

impl Operations {
    /// Returns the operations of a service (IBTA vol 1, table 86: transport services and
    /// operations) that the device implements.
    pub(crate) fn of(service: Service, features: DeviceFeatures) -> Self {
        let mut operations = Self::default();
        let mut add = |opcodes: &[SendOpcode]| {
            for opcode in opcodes {
                operations.0 |= 1 << opcode.0;
            }
        };
        if service == Service::XrcTarget {
            return operations;
        }
        add(&[SendOpcode::SEND, SendOpcode::SEND_IMMEDIATE]);
        if service.is_datagram() {
            return operations;
        }
        add(&[SendOpcode::RDMA_WRITE, SendOpcode::RDMA_WRITE_IMMEDIATE]);
        if features.memory_windows() {
            add(&[SendOpcode::BIND_WINDOW, SendOpcode::LOCAL_INVALIDATE]);
        }
        if service == Service::UnreliableConnected {
            return operations;
        }
        add(&[SendOpcode::RDMA_READ, SendOpcode::SEND_INVALIDATE]);
        if features.atomics() {
            add(&[SendOpcode::COMPARE_SWAP, SendOpcode::FETCH_ADD]);
        }
        operations
    }

    /// Returns true if the set contains an operation.
    #[inline]
    pub(crate) fn contains(self, opcode: SendOpcode) -> bool {
        self.0.checked_shr(opcode.0.into()).unwrap_or(0) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_their_operations() {
        let none = DeviceFeatures::default();
        let all = DeviceFeatures::from_bits(!0);
        let has = |service, features, opcode| Operations::of(service, features).contains(opcode);
        let ud = Service::UnreliableDatagram;
        assert!(has(ud, none, SendOpcode::SEND) && has(ud, none, SendOpcode::SEND_IMMEDIATE));
        assert!(!has(ud, all, SendOpcode::RDMA_WRITE) && !has(ud, all, SendOpcode::BIND_WINDOW));
        assert_eq!(Operations::of(Service::Gsi, all), Operations::of(ud, all));
        let uc = Service::UnreliableConnected;
        assert!(has(uc, none, SendOpcode::RDMA_WRITE) && has(uc, all, SendOpcode::BIND_WINDOW));
        assert!(!has(uc, all, SendOpcode::RDMA_READ) && !has(uc, all, SendOpcode::SEND_INVALIDATE));
        for service in [Service::ReliableConnected, Service::XrcInitiator] {
            assert!(has(service, none, SendOpcode::RDMA_READ));
            assert!(!has(service, none, SendOpcode::FETCH_ADD));
            assert!(has(service, all, SendOpcode::COMPARE_SWAP));
        }
        assert_eq!(
            Operations::of(Service::XrcTarget, all),
            Operations::default()
        );
        assert!(!has(ud, all, SendOpcode(0xff)));
    }
}

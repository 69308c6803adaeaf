//! Send operations and addressing of each transport service.

use ferroce_qp::Service;
use ferroce_spec::wqe::SendOpcode;

use crate::capabilities::Capabilities;

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
pub struct SendOperations(u64);

impl Capabilities {
    /// Returns the operations that a send queue of a service takes.
    pub fn send_operations(&self, service: Service) -> SendOperations {
        SendOperations::of(service, self)
    }
}

impl SendOperations {
    /// Returns the operations of a service (IBTA vol 1, table 86: transport services and
    /// operations) that a device with these capabilities implements.
    fn of(service: Service, capabilities: &Capabilities) -> Self {
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
        if capabilities.memory_windows {
            add(&[SendOpcode::BIND_WINDOW, SendOpcode::LOCAL_INVALIDATE]);
        }
        if service == Service::UnreliableConnected {
            return operations;
        }
        add(&[SendOpcode::RDMA_READ, SendOpcode::SEND_INVALIDATE]);
        if capabilities.atomics {
            add(&[SendOpcode::COMPARE_SWAP, SendOpcode::FETCH_ADD]);
        }
        if capabilities.flush || capabilities.persistent_flush {
            add(&[SendOpcode::FLUSH]);
        }
        if capabilities.atomic_write {
            add(&[SendOpcode::ATOMIC_WRITE]);
        }
        operations
    }

    /// Returns true if the set contains an operation.
    #[inline]
    pub fn contains(self, opcode: SendOpcode) -> bool {
        self.0.checked_shr(opcode.0.into()).unwrap_or(0) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_their_operations() {
        let none = &Capabilities::default();
        let all = &Capabilities {
            atomics: true,
            memory_windows: true,
            flush: true,
            atomic_write: true,
            ..Capabilities::default()
        };
        let has = |service, device, opcode| SendOperations::of(service, device).contains(opcode);
        let ud = Service::UnreliableDatagram;
        assert!(has(ud, none, SendOpcode::SEND) && has(ud, none, SendOpcode::SEND_IMMEDIATE));
        assert!(!has(ud, all, SendOpcode::RDMA_WRITE) && !has(ud, all, SendOpcode::BIND_WINDOW));
        assert_eq!(
            SendOperations::of(Service::Gsi, all),
            SendOperations::of(ud, all)
        );
        let uc = Service::UnreliableConnected;
        assert!(has(uc, none, SendOpcode::RDMA_WRITE) && has(uc, all, SendOpcode::BIND_WINDOW));
        assert!(!has(uc, all, SendOpcode::RDMA_READ) && !has(uc, all, SendOpcode::SEND_INVALIDATE));
        for service in [Service::ReliableConnected, Service::XrcInitiator] {
            assert!(has(service, none, SendOpcode::RDMA_READ));
            assert!(!has(service, none, SendOpcode::FETCH_ADD));
            assert!(!has(service, none, SendOpcode::FLUSH));
            assert!(has(service, all, SendOpcode::FLUSH));
            assert!(has(service, all, SendOpcode::ATOMIC_WRITE));
            assert!(has(service, all, SendOpcode::COMPARE_SWAP));
        }
        assert_eq!(
            SendOperations::of(Service::XrcTarget, all),
            SendOperations::default()
        );
        assert!(!has(ud, all, SendOpcode(0xff)));
    }
}

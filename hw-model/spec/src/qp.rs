//! The codes of the contract for the states, services, path MTUs and attributes of a QP
//! (`ferroce_qp`).

use ferroce_qp::{Attribute, AttributeSet, PathMtu, QpState, Service};

use crate::command::{DeviceFeatures, QpAttributeMask};
use crate::context::{PathMtuCode, QpStateCode, ServiceCode};

/// Converts an enum to its codes and back. The error of the way back is the unknown code.
macro_rules! codes {
    ( $kind:ident, $code:ident: $( $value:ident = $name:ident, )* ) => {
        impl From<$kind> for $code {
            fn from(value: $kind) -> Self {
                match value {
                    $( $kind::$value => Self::$name, )*
                }
            }
        }

        impl TryFrom<$code> for $kind {
            type Error = $code;

            fn try_from(code: $code) -> Result<Self, $code> {
                match code {
                    $( $code::$name => Ok(Self::$value), )*
                    unknown => Err(unknown),
                }
            }
        }
    };
}

codes! {
    QpState, QpStateCode:
    Reset = RESET,
    Init = INIT,
    Rtr = RTR,
    Rts = RTS,
    Sqd = SQD,
    Sqe = SQE,
    Err = ERR,
}

codes! {
    Service, ServiceCode:
    ReliableConnected = RELIABLE_CONNECTED,
    UnreliableConnected = UNRELIABLE_CONNECTED,
    UnreliableDatagram = UNRELIABLE_DATAGRAM,
    XrcInitiator = XRC_INITIATOR,
    XrcTarget = XRC_TARGET,
    Gsi = GSI,
}

codes! {
    PathMtu, PathMtuCode:
    Mtu256 = MTU_256,
    Mtu512 = MTU_512,
    Mtu1024 = MTU_1024,
    Mtu2048 = MTU_2048,
    Mtu4096 = MTU_4096,
}

impl From<QpAttributeMask> for AttributeSet {
    fn from(mask: QpAttributeMask) -> Self {
        let bits = [
            (mask.access(), Attribute::Access),
            (mask.p_key(), Attribute::PKey),
            (mask.port(), Attribute::Port),
            (mask.q_key(), Attribute::QKey),
            (mask.path(), Attribute::Path),
            (mask.path_mtu(), Attribute::PathMtu),
            (mask.timeout(), Attribute::Timeout),
            (mask.retry_count(), Attribute::RetryCount),
            (mask.rnr_retry(), Attribute::RnrRetry),
            (mask.receive_psn(), Attribute::ReceivePsn),
            (mask.max_rd_atomic(), Attribute::MaxRdAtomic),
            (mask.min_rnr_timer(), Attribute::MinRnrTimer),
            (mask.send_psn(), Attribute::SendPsn),
            (mask.max_dest_rd_atomic(), Attribute::MaxDestRdAtomic),
            (mask.dest_qpn(), Attribute::DestQp),
            (mask.drained_event(), Attribute::DrainNotification),
        ];
        let given = bits.into_iter().filter(|(is_given, _)| *is_given);
        given.map(|(_, attribute)| attribute).collect()
    }
}

impl DeviceFeatures {
    /// Returns true if the device implements `service`.
    #[must_use]
    pub fn has(self, service: Service) -> bool {
        match service {
            Service::ReliableConnected => self.reliable_connected(),
            Service::UnreliableConnected => self.unreliable_connected(),
            Service::UnreliableDatagram => self.unreliable_datagram(),
            Service::XrcInitiator | Service::XrcTarget => self.extended_reliable_connected(),
            Service::Gsi => self.general_service_interface(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every named code has a value, every other code has none, and both ways agree.
    #[test]
    fn codes_are_those_of_the_contract() {
        for code in 0..=u8::MAX {
            let state = QpStateCode(code);
            assert_eq!(QpState::try_from(state).is_ok(), state.name().is_some());
            if let Ok(value) = QpState::try_from(state) {
                assert_eq!(QpStateCode::from(value), state);
            }
            let service = ServiceCode(code);
            assert_eq!(Service::try_from(service).is_ok(), service.name().is_some());
            if let Ok(value) = Service::try_from(service) {
                assert_eq!(ServiceCode::from(value), service);
            }
            let mtu = PathMtuCode(code);
            assert_eq!(PathMtu::try_from(mtu).is_ok(), mtu.name().is_some());
            if let Ok(value) = PathMtu::try_from(mtu) {
                assert_eq!(PathMtuCode::from(value), mtu);
            }
        }
    }

    /// Goal: each bit of the mask names one attribute, and no two bits the same.
    #[test]
    fn each_bit_of_the_mask_is_one_attribute() {
        let mut all = AttributeSet::NONE;
        for bit in QpAttributeMask::TABLE.bits {
            let one = AttributeSet::from(QpAttributeMask::from_bits(1 << bit.low));
            assert_eq!(one, AttributeSet::from_iter(one.first()), "{}", bit.name);
            assert_ne!(one.without(all), AttributeSet::NONE, "{}", bit.name);
            all = all.with(one);
        }
    }
}

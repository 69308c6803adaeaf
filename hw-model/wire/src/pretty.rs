//! One line of text for a frame.

use core::fmt;

use crate::flush::{Feth, FlushRange};
use crate::frame::{Frame, FrameKind, classify};
use crate::headers::{Extension, RequestExtension, TransportHeaders};
use crate::recovery::RecoveryBits;

/// Displays any frame as one line.
///
/// ```text
/// 10.0.0.1 > 10.0.0.2 RC_SEND_ONLY qp 0x000011 psn 0xfffffa A payload 9 icrc 0x1a2b3c4d
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Pretty<'a>(pub &'a [u8]);

impl fmt::Display for Pretty<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match classify(self.0) {
            FrameKind::Roce(frame) => write!(f, "{frame}"),
            FrameKind::Other(other) => write!(f, "not RoCEv2: {other}, {} bytes", self.0.len()),
            FrameKind::Malformed(error) => write!(f, "malformed: {error}, {} bytes", self.0.len()),
        }
    }
}

impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_address(f, self.ip.source_gid())?;
        f.write_str(" > ")?;
        write_address(f, self.ip.destination_gid())?;
        write!(f, " {} payload {}", self.headers, self.payload_length())?;
        write!(f, " icrc {:#010x}", self.icrc)
    }
}

fn write_address(f: &mut fmt::Formatter<'_>, gid: crate::Gid) -> fmt::Result {
    match gid.to_ipv4() {
        Some(v4) => write!(f, "{v4}"),
        None => write!(f, "{gid}"),
    }
}

impl fmt::Display for TransportHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bth = &self.bth;
        let recovery = RecoveryBits::of(bth);
        write!(f, "{} qp {} psn {}", bth.opcode, bth.dest_qp, bth.psn)?;
        let flags = [
            (bth.ack_request, " A"),
            (bth.solicited, " SE"),
            (bth.migration, " M"),
            (bth.fecn, " FECN"),
            (bth.becn, " BECN"),
            (recovery.selective, " selective"),
            (recovery.out_of_order, " out-of-order"),
            (recovery.more, " more"),
        ];
        for (_, name) in flags.into_iter().filter(|(set, _)| *set) {
            f.write_str(name)?;
        }
        write!(f, "{}", self.extension)
    }
}

impl fmt::Display for Extension {
    /// Writes each header with a space before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None | Self::Cnp(_) => Ok(()),
            Self::Reth(reth) => write!(
                f,
                " va {:#x} rkey {:#x} dma {}",
                reth.virtual_address, reth.r_key.0, reth.dma_length
            ),
            Self::RethImmediate(reth, immediate) => {
                write!(f, "{}{}", Self::Reth(*reth), Self::Immediate(*immediate))
            }
            Self::Immediate(immediate) => {
                write!(f, " imm {:#010x}", u32::from_be_bytes(immediate.0))
            }
            Self::Aeth(aeth) => write!(f, " {} msn {}", aeth.syndrome, aeth.msn),
            Self::AtomicEth(atomic) => write!(
                f,
                " va {:#x} rkey {:#x} swap_or_add {:#x} compare {:#x}",
                atomic.virtual_address, atomic.r_key.0, atomic.swap_or_add, atomic.compare
            ),
            Self::AtomicAck(aeth, ack) => {
                write!(f, "{} original {:#x}", Self::Aeth(*aeth), ack.original)
            }
            Self::Deth(deth) => write!(f, " qkey {:#x} from {}", deth.q_key.0, deth.source_qp),
            Self::DethImmediate(deth, immediate) => {
                write!(f, "{}{}", Self::Deth(*deth), Self::Immediate(*immediate))
            }
            Self::Invalidate(ieth) => write!(f, " invalidate {:#x}", ieth.r_key.0),
            Self::Flush(feth, reth) => {
                let placements = [(Feth::GLOBAL, " global"), (Feth::PERSISTENT, " persistent")];
                for (_, name) in placements.into_iter().filter(|(bit, _)| feth.has(*bit)) {
                    f.write_str(name)?;
                }
                match feth.range() {
                    Some(FlushRange::Range) => write!(f, "{}", Self::Reth(*reth)),
                    Some(FlushRange::Region) => write!(f, " region rkey {:#x}", reth.r_key.0),
                    None => write!(f, " reserved{}", Self::Reth(*reth)),
                }
            }
            Self::Xrc(xrc, RequestExtension::None) => write!(f, " srq {:#x}", xrc.srq_number),
            Self::Xrc(xrc, request) => {
                write!(f, " srq {:#x}{}", xrc.srq_number, Self::from(*request))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Aeth, Bth, Connected, IcrcMode, Immediate, Mac, Msn, NakCode, NetworkPath, Opcode, Psn,
        Qpn, RKey, Reth, Station, Syndrome, UdpHeader, WritePart, emit_frame,
    };

    fn show(headers: &TransportHeaders, payload: &[u8]) -> String {
        let station = |mac, gid: &str| Station {
            mac: Mac([mac; 6]),
            gid: gid.parse().expect("well formed"),
        };
        let path = NetworkPath::new(
            station(2, "10.0.0.1"),
            station(4, "10.0.0.2"),
            UdpHeader {
                source_port: 0xc000,
                checksum: 0,
            },
        );
        let mut buffer = [0; 256];
        Pretty(emit_frame(
            &path,
            headers,
            payload,
            IcrcMode::Zero,
            &mut buffer,
        ))
        .to_string()
    }

    #[test]
    fn one_line_per_frame() {
        let mut bth = Bth::new(Opcode(0), Qpn::new(0x11), Psn::new(0xff_fffa));
        bth.ack_request = true;
        let reth = Reth {
            virtual_address: 0x7f00,
            r_key: RKey(0x1b),
            dma_length: 9,
        };
        let part = WritePart::OnlyImmediate(reth, Immediate([0xfe, 0xed, 0xf0, 0x0d]));
        assert_eq!(
            show(
                &TransportHeaders::write(bth, Connected::Reliable, part),
                &[0; 9]
            ),
            "10.0.0.1 > 10.0.0.2 RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE qp 0x000011 psn 0xfffffa A \
             va 0x7f00 rkey 0x1b dma 9 imm 0xfeedf00d payload 9 icrc 0x00000000"
        );
        bth.ack_request = false;
        let syndrome = Syndrome::Nak(NakCode::PsnSequenceError);
        assert_eq!(
            show(
                &TransportHeaders::acknowledge(
                    bth,
                    Aeth {
                        syndrome,
                        msn: Msn::new(3)
                    }
                ),
                &[]
            ),
            "10.0.0.1 > 10.0.0.2 RC_ACKNOWLEDGE qp 0x000011 psn 0xfffffa \
             NAK PSN sequence error msn 3 payload 0 icrc 0x00000000"
        );
    }

    #[test]
    fn other_frames_and_broken_ones_have_a_line_too() {
        let mut arp = [0; 60];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(
            Pretty(&arp).to_string(),
            "not RoCEv2: EtherType 0x0806, 60 bytes"
        );
        let broken = "malformed: Ethernet header needs 14 bytes, 3 are left, 3 bytes";
        assert_eq!(Pretty(&arp[..3]).to_string(), broken);
    }
}

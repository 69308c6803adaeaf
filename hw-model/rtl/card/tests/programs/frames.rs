//! The content of the frames of one QP in one direction, without the details that the contract
//! leaves to the card:
//!
//! - *Repeats*: a request or response with a repeated PSN is omitted, but must equal the first one.
//!   Timers determine when a requester repeats.
//! - *AckReq* is compared only in the newest request of a window (chapter 14 says where it is
//!   optional).
//! - *ACKs*: the set of acknowledged PSNs is omitted, since an ACK covers all earlier PSNs (IBTA
//!   vol 1, 9.7.5.1.2). The newest PSN is compared, and the MSN of each PSN.
//! - *MSN of responses of READs and atomics*, and of NAK 2, which may answer a READ: it must not
//!   decrease. It is the MSN of the READ or of a later message (chapter 14).
//! - *Credits*: a card may disable flow control (IBTA vol 1, 9.7.7.2).
//! - *UDP source port, IPv4 identification*: the first comes from the context, the second is
//!   arbitrary.

use std::collections::{BTreeMap, BTreeSet};

use ferroce_wire::{Extension, Frame, NakCode, Psn, Reth, Syndrome};

use crate::wqes::Regions;

/// Opcode of a READ request, in bits 4:0.
const READ_REQUEST: u8 = 0x0c;

/// A request packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPacket {
    pub psn: u32,
    pub opcode: u8,
    pub solicited: bool,
    /// Address, region and length.
    pub reth: Option<(u64, &'static str, u32)>,
    /// Operands of an atomic, whose RETH has the bytes of the result.
    pub operands: Option<(u64, u64)>,
    pub immediate: Option<[u8; 4]>,
    pub payload: Payload,
}

/// A packet of a READ response, or the response to an atomic, whose payload is its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponsePacket {
    pub psn: u32,
    pub opcode: u8,
    pub has_aeth: bool,
    pub payload: Payload,
}

/// Length and FNV-1a hash of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload(pub usize, pub u64);

impl Payload {
    fn of(bytes: &[u8]) -> Self {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        Self(bytes.len(), hash)
    }
}

/// The packets that one end of a QP has sent in a window.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    pub requests: Vec<RequestPacket>,
    pub responses: Vec<ResponsePacket>,
    /// MSN of each acknowledged PSN, from its first ACK.
    pub acks: BTreeMap<u32, u32>,
    /// The newest PSN that an ACK or a response has acknowledged.
    pub newest_ack: Option<u32>,
    /// Syndrome, PSN, MSN (but see the rules).
    pub naks: BTreeSet<(u8, u32, Option<u32>)>,
    /// True if the newest request requires an answer of the peer.
    pub asks: bool,
    /// The newest MSN.
    msn: Option<u32>,
    /// PSN after the newest PSN of requests.
    next: Option<u32>,
}

/// Returns by how many PSNs `later` follows `earlier`; negative: it precedes it.
fn distance(later: u32, earlier: u32) -> i32 {
    Psn::new(later).distance_from(Psn::new(earlier))
}

impl Stream {
    /// Adds a frame. `regions`: the regions of the other end; `mtu`: the path MTU in bytes.
    ///
    /// # Errors
    /// If a card must not send it.
    pub fn add(&mut self, frame: &Frame<'_>, regions: &Regions, mtu: u32) -> Result<(), String> {
        let opcode = frame.headers.bth.opcode;
        let properties = opcode.parse().ok_or(format!("opcode {opcode:?}"))?;
        if properties.is_request() {
            return self.add_request(frame, regions, mtu);
        }
        let psn = frame.headers.bth.psn.value();
        let aeth = match frame.headers.extension {
            Extension::Aeth(aeth) | Extension::AtomicAck(aeth, _) => Some(aeth),
            Extension::None => None,
            _ => {
                return Err(format!(
                    "{:?} of opcode {opcode:?}",
                    frame.headers.extension
                ));
            }
        };
        let msn = aeth.map(|aeth| aeth.msn.value());
        self.check_sequence(msn)?;
        let result = match frame.headers.extension {
            Extension::AtomicAck(_, result) => Some(result.original.to_be_bytes().to_vec()),
            _ => properties.has_payload().then(|| frame.payload().to_vec()),
        };
        if let Some(payload) = result {
            self.add_response(ResponsePacket {
                psn,
                opcode: opcode.0,
                has_aeth: aeth.is_some(),
                payload: Payload::of(&payload),
            });
            return Ok(());
        }
        let (Some(aeth), Some(msn)) = (aeth, msn) else {
            return Err(format!("an answer of opcode {opcode:?} without AETH"));
        };
        match aeth.syndrome {
            Syndrome::Ack { .. } => self.add_ack(psn, msn),
            syndrome => {
                let may_be_of_read = syndrome == Syndrome::Nak(NakCode::RemoteAccessError);
                let msn = (!may_be_of_read).then_some(msn);
                self.naks.insert((syndrome.to_byte(), psn, msn));
            }
        }
        Ok(())
    }

    fn add_request(
        &mut self,
        frame: &Frame<'_>,
        regions: &Regions,
        mtu: u32,
    ) -> Result<(), String> {
        let bth = &frame.headers.bth;
        let (reth, immediate) = match frame.headers.extension {
            Extension::None => (None, None),
            Extension::Reth(reth) => (Some(reth), None),
            Extension::RethImmediate(reth, immediate) => (Some(reth), Some(immediate.0)),
            Extension::Immediate(immediate) => (None, Some(immediate.0)),
            Extension::Invalidate(ieth) => (None, Some(ieth.r_key.0.to_be_bytes())),
            Extension::AtomicEth(atomic) => (
                Some(Reth {
                    virtual_address: atomic.virtual_address,
                    r_key: atomic.r_key,
                    dma_length: 8,
                }),
                None,
            ),
            other => return Err(format!("{other:?} in a request")),
        };
        let is_read = bth.opcode.0 & 0x1f == READ_REQUEST;
        let packet = RequestPacket {
            psn: bth.psn.value(),
            opcode: bth.opcode.0,
            solicited: bth.solicited,
            reth: reth.map(|reth| {
                let region = regions.name_of(reth.r_key.0);
                (reth.virtual_address, region, reth.dma_length)
            }),
            operands: match frame.headers.extension {
                Extension::AtomicEth(atomic) => Some((atomic.swap_or_add, atomic.compare)),
                _ => None,
            },
            immediate,
            payload: Payload::of(frame.payload()),
        };
        let count = match reth {
            Some(reth) if is_read => reth.dma_length.div_ceil(mtu).max(1),
            _ => 1,
        };
        let next = *self.next.get_or_insert(packet.psn);
        match distance(packet.psn, next) {
            0 => {
                self.next = Some(bth.psn.add(count).value());
                self.asks = is_read || bth.ack_request;
                self.requests.push(packet);
                Ok(())
            }
            ahead if ahead > 0 => Err(format!("request {packet:?} leaves out {ahead} PSNs")),
            _ => self.check_repeat(&packet, is_read, mtu),
        }
    }

    /// Checks that a packet repeats an earlier one, or requests the rest of a READ.
    fn check_repeat(&self, packet: &RequestPacket, is_read: bool, mtu: u32) -> Result<(), String> {
        let before = self
            .requests
            .iter()
            .rev()
            .find(|first| distance(packet.psn, first.psn) >= 0);
        let is_right = before.is_some_and(|first| {
            let ahead = distance(packet.psn, first.psn) as u32;
            match (first.reth, packet.reth) {
                (Some(all), Some(rest)) if is_read => {
                    let done = ahead * mtu;
                    let is_rest = rest.0 == all.0 + u64::from(done) && rest.2 + done == all.2;
                    first.opcode == packet.opcode && is_rest && rest.1 == all.1
                }
                _ => ahead == 0 && first == packet,
            }
        });
        if is_right {
            Ok(())
        } else {
            Err(format!("{packet:?} is no repeat of {before:?}"))
        }
    }

    /// Checks that the MSN does not decrease.
    fn check_sequence(&mut self, msn: Option<u32>) -> Result<(), String> {
        let Some(msn) = msn else {
            return Ok(());
        };
        match self.msn.replace(msn) {
            Some(before) if distance(msn, before) < 0 => {
                Err(format!("MSN {msn:#x} behind {before:#x}"))
            }
            _ => Ok(()),
        }
    }

    fn add_response(&mut self, packet: ResponsePacket) {
        let is_repeat = self
            .responses
            .last()
            .is_some_and(|last| distance(packet.psn, last.psn) <= 0);
        if !is_repeat {
            self.note_newest(packet.psn);
            self.responses.push(packet);
        }
    }

    fn note_newest(&mut self, psn: u32) {
        let is_newer = self
            .newest_ack
            .is_none_or(|newest| distance(psn, newest) > 0);
        self.newest_ack = if is_newer { Some(psn) } else { self.newest_ack };
    }

    fn add_ack(&mut self, psn: u32, msn: u32) {
        self.note_newest(psn);
        self.acks.entry(psn).or_insert(msn);
    }
}

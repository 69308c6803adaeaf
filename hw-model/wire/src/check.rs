//! Checks this crate against frames of other implementations: every RoCEv2 frame is parsed, emitted
//! again from its values and compared byte for byte, and its ICRC is recomputed. The same applies
//! to a message of communication management in it.

use std::collections::BTreeMap;

use crate::cm::{Mad, MessageKind};
use crate::error::{Error, NotRoce};
use crate::frame::{Frame, FrameKind, classify};
use crate::headers::Extension;
use crate::identifiers::Qpn;
use crate::opcode::Opcode;

/// The first byte at which a re-emitted frame differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// Number of the frame, counted from 1 as in capture tools
    pub frame: u64,
    /// Byte of the frame, counted from 0
    pub offset: usize,
    /// The byte of the frame; None if the frame is shorter
    pub expected: Option<u8>,
    /// The emitted byte; None if the output is shorter
    pub actual: Option<u8>,
}

/// A frame whose ICRC does not match its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcrcFailure {
    /// Number of the frame, counted from 1
    pub frame: u64,
    /// Computed over the frame's bytes
    pub expected: u32,
    /// Found in the frame
    pub actual: u32,
}

/// Counts of the frames fed so far, and the first failure of each kind.
#[derive(Debug, Clone, Default)]
pub struct Checker {
    frames: u64,
    roce_frames: u64,
    opcodes: BTreeMap<Opcode, u64>,
    messages: BTreeMap<MessageKind, u64>,
    others: BTreeMap<NotRoce, u64>,
    differences: u64,
    first_difference: Option<Difference>,
    icrc_failures: u64,
    first_icrc_failure: Option<IcrcFailure>,
    malformed: u64,
    first_malformed: Option<(u64, Error)>,
    scratch: Vec<u8>,
}

impl Checker {
    /// Returns an empty checker.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks the next frame: its bytes from the Ethernet header on, without FCS.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.frames += 1;
        match classify(bytes) {
            FrameKind::Roce(frame) => self.check(&frame),
            FrameKind::Other(other) => *self.others.entry(other).or_default() += 1,
            FrameKind::Malformed(error) => {
                self.malformed += 1;
                self.first_malformed.get_or_insert((self.frames, error));
            }
        }
    }

    fn check(&mut self, frame: &Frame<'_>) {
        self.roce_frames += 1;
        *self.opcodes.entry(frame.headers.bth.opcode).or_default() += 1;

        self.scratch.clear();
        self.scratch.resize(frame.bytes().len(), 0);
        let emitted = frame.emit(&mut self.scratch);
        if let Some(mad) = mad(frame) {
            *self.messages.entry(mad.message.kind()).or_default() += 1;
            emitted[frame.layout().payload()].copy_from_slice(&mad.to_bytes());
        }
        if let Some((offset, expected, actual)) = first_difference(frame.bytes(), emitted) {
            let difference = Difference {
                frame: self.frames,
                offset,
                expected,
                actual,
            };
            self.differences += 1;
            self.first_difference.get_or_insert(difference);
        }
        let expected = frame.computed_icrc();
        if expected != frame.icrc {
            let failure = IcrcFailure {
                frame: self.frames,
                expected,
                actual: frame.icrc,
            };
            self.icrc_failures += 1;
            self.first_icrc_failure.get_or_insert(failure);
        }
    }

    /// Returns the number of frames fed.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the number of accepted RoCEv2 frames.
    pub fn roce_frames(&self) -> u64 {
        self.roce_frames
    }

    /// Returns the number of RoCEv2 frames per opcode, by ascending opcode.
    pub fn opcodes(&self) -> impl Iterator<Item = (Opcode, u64)> + '_ {
        self.opcodes.iter().map(|(opcode, count)| (*opcode, *count))
    }

    /// Returns the number of messages of communication management, by ascending attribute.
    pub fn messages(&self) -> impl Iterator<Item = (MessageKind, u64)> + '_ {
        self.messages.iter().map(|(kind, count)| (*kind, *count))
    }

    /// Returns the number of other frames, by kind.
    pub fn others(&self) -> impl Iterator<Item = (NotRoce, u64)> + '_ {
        self.others.iter().map(|(other, count)| (*other, *count))
    }

    /// Returns the number of frames that differ when they are emitted again.
    pub fn differences(&self) -> u64 {
        self.differences
    }

    /// Returns the first of them.
    pub fn first_difference(&self) -> Option<Difference> {
        self.first_difference
    }

    /// Returns the number of frames with a wrong ICRC.
    pub fn icrc_failures(&self) -> u64 {
        self.icrc_failures
    }

    /// Returns the first of them.
    pub fn first_icrc_failure(&self) -> Option<IcrcFailure> {
        self.first_icrc_failure
    }

    /// Returns the number of refused frames.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Returns the number (from 1) of the first of them, and the reason.
    pub fn first_malformed(&self) -> Option<(u64, Error)> {
        self.first_malformed
    }

    /// Returns true if nothing was refused, differed or had a wrong ICRC.
    pub fn is_clean(&self) -> bool {
        self.malformed == 0 && self.differences == 0 && self.icrc_failures == 0
    }
}

/// Returns the message of communication management in a frame.
fn mad(frame: &Frame<'_>) -> Option<Mad> {
    let is_to_gsi = frame.headers.bth.dest_qp == Qpn::GSI;
    if !is_to_gsi || !matches!(frame.headers.extension, Extension::Deth(_)) {
        return None;
    }
    Mad::parse(frame.payload()).ok()
}

fn first_difference(expected: &[u8], actual: &[u8]) -> Option<(usize, Option<u8>, Option<u8>)> {
    (0..expected.len().max(actual.len()))
        .map(|offset| {
            (
                offset,
                expected.get(offset).copied(),
                actual.get(offset).copied(),
            )
        })
        .find(|(_, expected, actual)| expected != actual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_names_byte_and_place() {
        assert_eq!(first_difference(b"abcd", b"abcd"), None);
        assert_eq!(
            first_difference(b"abcd", b"abxd"),
            Some((2, Some(b'c'), Some(b'x')))
        );
        assert_eq!(first_difference(b"abc", b"ab"), Some((2, Some(b'c'), None)));
        assert_eq!(first_difference(b"ab", b"abc"), Some((2, None, Some(b'c'))));
    }

    #[test]
    fn others_are_counted_by_kind() {
        let mut arp = [0; 60];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        let mut checker = Checker::new();
        checker.feed(&arp);
        checker.feed(&arp);
        assert_eq!(
            checker.others().collect::<Vec<_>>(),
            [(NotRoce::EtherType(0x0806), 2)]
        );
        assert_eq!((checker.frames(), checker.roce_frames()), (2, 0));
        assert!(checker.is_clean());
    }
}

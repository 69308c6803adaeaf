//! The two ports of memory_unit.

use std::collections::VecDeque;

use ferroce_units::random::SplitMix64;

use crate::bits::{pack, unpack};
use crate::memory::{Piece, Request, translate};

/// A client of memory_unit: one request at a time.
#[derive(Debug, Default)]
pub struct MemoryPort {
    pub answers: VecDeque<(Piece, bool, u8)>,
    offered: bool,
}

impl MemoryPort {
    pub fn take(&mut self, words: &[u32; 6]) {
        let [key, pd, qpn, rights, address, length, check] =
            unpack(words, [32, 24, 24, 4, 64, 32, 1]);
        let request = Request {
            key: key as u32,
            pd: pd as u32,
            qpn: qpn as u32,
            rights: rights as u8,
            address: address as u64,
            length: length as u32,
            check_only: check == 1,
        };
        assert!(self.answers.is_empty() && request.length > 0 && request.qpn < 0x200);
        let (pieces, fault) = translate(&request);
        let last = pieces.len();
        for (i, piece) in pieces.into_iter().enumerate() {
            let is_last = fault.is_none() && i + 1 == last;
            self.answers.push_back((piece, is_last, 0));
        }
        self.answers
            .extend(fault.map(|fault| ((0, 0), true, fault)));
    }

    pub fn offer(&mut self, random: &mut SplitMix64) -> Option<([u32; 3], u8)> {
        self.offered |= random.below(3) == 0;
        let &((iova, bytes), last, fault) = self.answers.front().filter(|_| self.offered)?;
        Some((pack_piece(iova, bytes, last), fault))
    }

    pub fn pop(&mut self) {
        self.answers.pop_front();
        self.offered = false;
    }
}

pub fn pack_piece(iova: u64, bytes: u16, last: bool) -> [u32; 3] {
    pack(&[(iova.into(), 64), (bytes.into(), 13), (last.into(), 1)])
}

pub fn unpack_piece(words: &[u32]) -> (Piece, bool) {
    let [iova, bytes, last] = unpack(words, [64, 13, 1]);
    ((iova as u64, bytes as u16), last == 1)
}

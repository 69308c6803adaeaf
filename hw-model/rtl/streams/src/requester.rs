//! RQ to requests, and completions to RC.

use std::collections::VecDeque;

use crate::{Beat, LINE, bits};

/// A second TLP of a beat of RQ begins here.
const RQ_HALF: usize = 32;
/// TLPs of RC begin at multiples of this.
const RC_PLACE: usize = 16;

/// A request as it comes from RQ.
#[derive(Debug, Default)]
pub struct Request {
    /// Descriptor and payload.
    pub bytes: Vec<u8>,
    /// Byte enables of the first and of the last dword.
    pub enables: [u8; 2],
    /// Its sequence number.
    pub sequence: u8,
}

/// The receiving side of RQ.
#[derive(Debug, Default)]
pub struct RequestSink {
    open: Option<Request>,
}

impl RequestSink {
    /// Returns true inside of a TLP, where `valid` must not fall.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes a beat with its `tuser`; returns the TLPs that end in it.
    ///
    /// # Panics
    /// If the beat is against the rules of PG213.
    pub fn take(&mut self, data: &Beat, user: &[u32; 5]) -> Vec<Request> {
        let user: [u8; 20] = core::array::from_fn(|at| user[at / 4].to_le_bytes()[at % 4]);
        let field = |at, count| bits(&user, at, count) as usize;
        let starts: Vec<usize> = (0..2)
            .filter(|n| field(20 + n, 1) != 0)
            .map(|n| RC_PLACE * field(22 + 2 * n, 2))
            .collect();
        let ends: Vec<usize> = (0..2)
            .filter(|n| field(26 + n, 1) != 0)
            .map(|n| 4 * field(28 + 4 * n, 4) + 4)
            .collect();
        assert!(starts.len() == 2 || field(21, 1) == 0, "starts in order");
        assert!(ends.len() == 2 || field(27, 1) == 0, "ends in order");
        let (mut at, mut done) = (0, Vec::new());
        let mut next_start = 0;
        for end in ends.iter().copied().chain([LINE]) {
            if self.open.is_none() {
                let Some(&start) = starts.get(next_start) else {
                    break;
                };
                assert!(
                    start == 0 && at == 0 || start == RQ_HALF && at > 0,
                    "{start} {at}"
                );
                self.open = Some(Request {
                    bytes: Vec::new(),
                    enables: [field(4 * next_start, 4), field(8 + 4 * next_start, 4)]
                        .map(|enables| enables as u8),
                    sequence: field(61 + 6 * next_start, 6) as u8,
                });
                (at, next_start) = (start, next_start + 1);
            }
            let request = self.open.as_mut().expect("it is open");
            assert!(end > at, "an end before its start");
            request.bytes.extend(&data[at..end]);
            at = end;
            if done.len() < ends.len() {
                done.extend(self.open.take());
            }
            if end > RQ_HALF {
                break;
            }
        }
        assert_eq!((next_start, done.len()), (starts.len(), ends.len()));
        done
    }
}

/// A beat of RC and its `tuser`.
pub type CompletionBeat = (Beat, [u32; 6]);

/// Beats of completions, with their `tuser`.
#[derive(Debug)]
pub struct CompletionSource {
    straddles: bool,
    beats: VecDeque<CompletionBeat>,
    /// Bytes of the newest beat that are in use.
    used: usize,
}

impl CompletionSource {
    /// Returns a source with or without the straddle option.
    pub fn new(straddles: bool) -> Self {
        Self {
            straddles,
            beats: VecDeque::new(),
            used: LINE,
        }
    }

    /// Returns true if no beat is waiting.
    pub fn is_empty(&self) -> bool {
        self.beats.is_empty()
    }

    /// Number of beats that are waiting.
    pub fn len(&self) -> usize {
        self.beats.len()
    }

    /// Returns the beat that is on the port.
    pub fn first(&self) -> Option<&CompletionBeat> {
        self.beats.front()
    }

    /// The first beat was taken. A TLP begins in a beat that is not yet on the port.
    pub fn pop(&mut self) {
        self.beats.pop_front();
    }

    fn newest(&mut self) -> &mut CompletionBeat {
        if self.used >= LINE {
            self.beats.push_back(([0xa5; LINE], [0; 6]));
            self.used = 0;
        }
        self.beats.back_mut().expect("it was pushed")
    }

    /// Adds a TLP: its descriptor and payload.
    pub fn send(&mut self, tlp: &[u8], discontinue: bool) {
        self.used = self.used.next_multiple_of(RC_PLACE);
        // A beat that is on the port does not change any more.
        if !self.straddles || self.beats.len() < 2 {
            self.used = LINE;
        }
        let mut rest = tlp;
        while !rest.is_empty() {
            let begins = rest.len() == tlp.len();
            self.newest();
            let (at, count) = (self.used, rest.len().min(LINE - self.used));
            let (data, user) = self.newest();
            data[at..at + count].copy_from_slice(&rest[..count]);
            if begins {
                let number = (user[2] & 0xf).count_ones();
                user[2] |= 1 << number | ((at / RC_PLACE) as u32) << (4 + 2 * number);
            }
            if count == rest.len() {
                let number = (user[2] >> 12 & 0xf).count_ones();
                let last = (at + count - 4) / 4;
                user[2] |= 1 << (12 + number);
                let place = 80 + 4 * number as usize;
                user[place / 32] |= (last as u32) << (place % 32);
                user[3] |= u32::from(discontinue);
            }
            rest = &rest[count..];
            self.used += count;
        }
    }
}

//! The AXI4-Streams of PG213 with 512 bits, dword-aligned, with and without the straddle option: RQ
//! to requests, and completions to RC.

use ferroce_rtl::LINE;

pub type Beat = [u8; LINE];

/// Bytes of a descriptor on RQ.
pub const DESCRIPTOR: usize = 16;
/// A second TLP of a beat of RQ begins here.
const RQ_HALF: usize = 32;
/// TLPs of RC begin at multiples of this.
const RC_PLACE: usize = 16;

/// Returns `count` bits of little-endian bytes.
pub fn bits(bytes: &[u8], at: usize, count: usize) -> u64 {
    (0..count)
        .map(|bit| u64::from(bytes[(at + bit) / 8] >> ((at + bit) % 8) & 1) << bit)
        .sum()
}

/// A request as it comes from RQ.
#[derive(Default)]
pub struct Request {
    pub bytes: Vec<u8>,
    /// Byte enables of the first and of the last dword.
    pub enables: [u8; 2],
    pub sequence: u8,
}

/// The receiving side of RQ.
#[derive(Default)]
pub struct RequestSink {
    open: Option<Request>,
}

impl RequestSink {
    /// Returns true inside of a TLP, where `valid` must not fall.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes a beat with its `tuser`; returns the TLPs that end in it.
    pub fn take(&mut self, data: &Beat, user: &[u32; 5]) -> Vec<Request> {
        let user: Vec<u8> = user.iter().flat_map(|word| word.to_le_bytes()).collect();
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

/// Beats of completions, with their `tuser`.
pub struct CompletionSource {
    pub straddles: bool,
    beats: std::collections::VecDeque<(Beat, [u32; 6])>,
    /// Bytes of the newest beat that are in use.
    used: usize,
}

impl CompletionSource {
    pub fn new(straddles: bool) -> Self {
        Self {
            straddles,
            beats: std::collections::VecDeque::new(),
            used: LINE,
        }
    }

    /// Number of beats that are waiting.
    pub fn len(&self) -> usize {
        self.beats.len()
    }

    pub fn first(&self) -> Option<&(Beat, [u32; 6])> {
        self.beats.front()
    }

    /// The first beat was taken. A TLP begins in a beat that is not yet on the port.
    pub fn pop(&mut self) {
        self.beats.pop_front();
    }

    fn newest(&mut self) -> &mut (Beat, [u32; 6]) {
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

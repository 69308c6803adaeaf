//! Stores of a thread during its turn: to its card, and to streams.
//!
//! A store is a head (kind, number of words, slot), the time at which it was made, and words. The
//! list has room for [`WORDS`]; a thread whose list is full passes its turn first.
//!
//! A second list of the same kind records what a thread spent time on, if a trace is recorded.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words of the list.
pub const WORDS: usize = 384;
/// Words before the payload of a store.
const HEAD_WORDS: usize = 2;
/// Maximum number of words of a store: a push of eight blocks.
pub const MAX_STORE_WORDS: usize = 64;

/// Kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum StoreKind {
    /// A doorbell: slot, and a word with its value.
    Doorbell,
    /// A push from `slot` on: its words.
    Push,
    /// A register of BAR0 at offset `slot`: its value.
    Register,
    /// The thread listens on port `slot`.
    Listen,
    /// It connects to port `slot`; the word is the stream that it will write.
    Connect,
    /// The thread has accepted a connection on port `slot`; the word is the stream that the other
    /// end writes. The answer is 1 if a program of the world has announced this connection.
    Accept,
    /// The thread has sent: the stream, and the number of bytes.
    Send,
    /// The thread has received: the stream, and the number of bytes.
    Receive,
    /// The thread has shut down its side of a stream, or closed it.
    Close,
    /// The thread has checked memory that the card writes, at a time at which it could see only
    /// what was visible when its turn began.
    Check,
    /// The thread has written to a descriptor of its program: threads of the program that wait for
    /// events check again.
    Notify,
    /// The thread began to spend time: `slot` is a [`Work`], the word is the time in picoseconds.
    Work,
    /// The thread wakes up to `slot` threads of its program that wait for an address; the words are
    /// the address, and the bits of which a waiting thread needs one. The answer is their number.
    Wake,
}

/// Work on which a thread spends time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Work {
    /// It posts a work request.
    Post,
    /// It posts a receive.
    PostReceive,
    /// It rings a doorbell, or pushes a WQE.
    Doorbell,
    /// It takes completions.
    Poll,
    /// It was woken by an interrupt.
    WakeUp,
}

impl Work {
    const ALL: [Self; 5] = [
        Self::Post,
        Self::PostReceive,
        Self::Doorbell,
        Self::Poll,
        Self::WakeUp,
    ];

    /// Returns the work with this code.
    pub fn of_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

const KINDS: [StoreKind; 13] = [
    StoreKind::Doorbell,
    StoreKind::Push,
    StoreKind::Register,
    StoreKind::Listen,
    StoreKind::Connect,
    StoreKind::Accept,
    StoreKind::Send,
    StoreKind::Receive,
    StoreKind::Close,
    StoreKind::Check,
    StoreKind::Notify,
    StoreKind::Work,
    StoreKind::Wake,
];

/// A decoded store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// Its kind.
    pub kind: StoreKind,
    /// Doorbell slot, register or port.
    pub slot: u32,
    /// The time at which it was made.
    pub at_ps: u64,
    /// Number of words.
    pub length: usize,
    /// The words.
    pub words: [u64; MAX_STORE_WORDS],
}

impl Store {
    /// Returns the words.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.length]
    }
}

/// A list of stores.
#[derive(Debug)]
#[repr(C)]
pub struct Stores {
    length: AtomicU32,
    words: [AtomicU64; WORDS],
}

impl Stores {
    /// Returns true if the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }

    /// Empties the list.
    #[inline]
    pub fn clear(&self) {
        self.length.store(0, Ordering::Relaxed);
    }

    /// Appends a store. Returns false if there is no room, or if the store has more than
    /// [`MAX_STORE_WORDS`].
    #[inline]
    pub fn add(&self, kind: StoreKind, slot: u32, at_ps: u64, words: &[u64]) -> bool {
        let start = self.length.load(Ordering::Relaxed) as usize;
        let end = start + HEAD_WORDS + words.len();
        if end > WORDS || words.len() > MAX_STORE_WORDS {
            return false;
        }
        let head = (kind as u64) << 48 | (words.len() as u64) << 32 | u64::from(slot);
        self.words[start].store(head, Ordering::Relaxed);
        self.words[start + 1].store(at_ps, Ordering::Relaxed);
        for (cell, word) in self.words[start + HEAD_WORDS..].iter().zip(words) {
            cell.store(*word, Ordering::Relaxed);
        }
        self.length.store(end as u32, Ordering::Relaxed);
        true
    }

    /// Returns the stores, oldest first. The list ends at the first invalid entry.
    pub fn iter(&self) -> impl Iterator<Item = Store> {
        let mut place = 0;
        std::iter::from_fn(move || {
            let (store, next) = self.get(place)?;
            place = next;
            Some(store)
        })
    }

    /// Returns the store at a place (the first is at zero), and the place of the next one. `None`
    /// at the end of the list and at an invalid store.
    pub fn get(&self, place: usize) -> Option<(Store, usize)> {
        let length = (self.length.load(Ordering::Relaxed) as usize).min(WORDS);
        let head = self.word(place, length)?;
        let at_ps = self.word(place + 1, length)?;
        let count = (head >> 32) as usize & 0xffff;
        let kind = *KINDS.get((head >> 48) as usize)?;
        if count > MAX_STORE_WORDS {
            return None;
        }
        let mut words = [0; MAX_STORE_WORDS];
        let start = place + HEAD_WORDS;
        for (offset, word) in words[..count].iter_mut().enumerate() {
            *word = self.word(start + offset, length)?;
        }
        let store = Store {
            kind,
            slot: head as u32,
            at_ps,
            length: count,
            words,
        };
        Some((store, start + count))
    }

    fn word(&self, place: usize, length: usize) -> Option<u64> {
        (place < length).then(|| self.words[place].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Stores {
        Stores {
            length: AtomicU32::new(0),
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    #[test]
    fn stores_come_out_as_they_went_in() {
        let stores = list();
        assert!(stores.add(StoreKind::Doorbell, 17, 1000, &[5]));
        assert!(stores.add(StoreKind::Push, 4096, 2000, &[1; 64]));
        assert!(stores.add(StoreKind::Listen, 18515, 3000, &[]));
        assert!(stores.add(StoreKind::Work, Work::Poll as u32, 4000, &[60]));
        let read: Vec<Store> = stores.iter().collect();
        let kinds: Vec<_> = read.iter().map(|s| (s.kind, s.slot, s.at_ps)).collect();
        assert_eq!(
            kinds,
            [
                (StoreKind::Doorbell, 17, 1000),
                (StoreKind::Push, 4096, 2000),
                (StoreKind::Listen, 18515, 3000),
                (StoreKind::Work, 3, 4000),
            ]
        );
        assert_eq!(Work::of_code(read[3].slot), Some(Work::Poll));
        assert_eq!(Work::of_code(5), None);
        assert_eq!(read[0].words(), [5]);
        assert_eq!(read[1].words(), [1; 64]);
        assert!(read[2].words().is_empty());
    }

    #[test]
    fn a_full_list_takes_no_more_and_keeps_what_it_has() {
        let stores = list();
        let count = (0..).take_while(|_| stores.add(StoreKind::Doorbell, 1, 1, &[1]));
        let count = count.count();
        assert_eq!(count, WORDS / 3);
        assert_eq!(stores.iter().count(), count);
        assert!(!stores.add(StoreKind::Push, 0, 0, &[0; MAX_STORE_WORDS + 1]));
    }

    #[test]
    fn invalid_store_ends_the_list() {
        let stores = list();
        assert!(stores.add(StoreKind::Doorbell, 1, 1, &[1]));
        stores.length.store(u32::MAX, Ordering::Relaxed);
        stores.words[3].store(99 << 48, Ordering::Relaxed);
        assert_eq!(stores.iter().count(), 1);
        stores.words[3].store(0xffff << 32, Ordering::Relaxed);
        assert_eq!(stores.iter().count(), 1);
    }
}

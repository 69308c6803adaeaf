//! Queue pairs that a program shows to `ferroce top` and `rdma resource`: two words each.
//!
//! State and PSNs are the values of the last ibv_modify_qp(); the state is ERR after a completion
//! in error.

use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_driver::{QpState, Service};
use ferroce_spec::context::{QpStateCode, ServiceCode};
use ferroce_wire::{Psn, Qpn};

use super::Registry;
use super::layout::{MAX_QPS, field, place_offset};

/// A queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownQp {
    /// Its number.
    pub qpn: Qpn,
    /// Its transport service.
    pub service: Service,
    /// Its state.
    pub state: QpState,
    /// The connected QP; 0: not connected.
    pub peer: Qpn,
    /// PSN of its first request.
    pub sq_psn: Psn,
    /// PSN of the first request that it expects to receive.
    pub rq_psn: Psn,
}

/// A change of a queue pair, in addition to its state.
#[derive(Debug, Clone, Copy, Default)]
pub struct QpChange {
    /// The newly connected QP.
    pub peer: Option<Qpn>,
    /// The new PSN of its first request.
    pub sq_psn: Option<Psn>,
    /// The new PSN of the first request that it expects.
    pub rq_psn: Option<Psn>,
}

/// Marks a word in use.
const USED: u64 = 1 << 63;
const STATE_SHIFT: u32 = 56;
const SERVICE_SHIFT: u32 = 48;
const PEER_SHIFT: u32 = 24;
/// In the second word.
const RQ_PSN_SHIFT: u32 = 24;
const NUMBER_MASK: u64 = 0xff_ffff;

impl ShownQp {
    fn to_word(self) -> u64 {
        USED | u64::from(QpStateCode::from(self.state).0) << STATE_SHIFT
            | u64::from(ServiceCode::from(self.service).0) << SERVICE_SHIFT
            | u64::from(self.peer.value()) << PEER_SHIFT
            | u64::from(self.qpn.value())
    }

    /// Returns the second word.
    fn psns(self) -> u64 {
        u64::from(self.rq_psn.value()) << RQ_PSN_SHIFT | u64::from(self.sq_psn.value())
    }

    /// Decodes a queue pair. `None`: the words are free or invalid.
    fn of_words([word, psns]: [u64; 2]) -> Option<Self> {
        if word & USED == 0 {
            return None;
        }
        let number = |shift: u32| Qpn::new((word >> shift & NUMBER_MASK) as u32);
        let psn = |shift: u32| Psn::new((psns >> shift & NUMBER_MASK) as u32);
        Some(Self {
            qpn: number(0),
            service: Service::try_from(ServiceCode((word >> SERVICE_SHIFT) as u8)).ok()?,
            state: QpState::try_from(QpStateCode((word >> STATE_SHIFT) as u8 & 0x7f)).ok()?,
            peer: number(PEER_SHIFT),
            sq_psn: psn(0),
            rq_psn: psn(RQ_PSN_SHIFT),
        })
    }
}

impl Registry {
    /// Shows a new queue pair of a place. The first [`MAX_QPS`] have words; all are counted.
    pub fn add_qp(&self, place: u8, qp: ShownQp) {
        self.qp_counter(place).fetch_add(1, Ordering::Relaxed);
        let new = qp.to_word();
        let take = |[word, _]: &[&AtomicU64; 2]| {
            word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        // Without free words the queue pair is only counted.
        if let Some([_, psns]) = self.qp_words(place).find(take) {
            psns.store(qp.psns(), Ordering::Relaxed);
        }
    }

    /// Shows the new state of a queue pair and the attributes that change with it.
    pub fn change_qp(&self, place: u8, qpn: Qpn, state: QpState, change: QpChange) {
        let Some(words) = self.words_of(place, qpn) else {
            return;
        };
        if let Some(old) = ShownQp::of_words(words.map(loaded)) {
            let new = ShownQp {
                state,
                peer: change.peer.unwrap_or(old.peer),
                sq_psn: change.sq_psn.unwrap_or(old.sq_psn),
                rq_psn: change.rq_psn.unwrap_or(old.rq_psn),
                ..old
            };
            words[0].store(new.to_word(), Ordering::Relaxed);
            words[1].store(new.psns(), Ordering::Relaxed);
        }
    }

    /// Removes a queue pair of a place from the list.
    pub fn forget_qp(&self, place: u8, qpn: Qpn) {
        self.qp_counter(place).fetch_sub(1, Ordering::Relaxed);
        if let Some([word, _]) = self.words_of(place, qpn) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Returns the number of queue pairs of a place, and the listed ones.
    pub fn qps(&self, place: u8) -> (u64, Vec<ShownQp>) {
        let words = self.qp_words(place);
        let shown = words.filter_map(|words| ShownQp::of_words(words.map(loaded)));
        let count = self.qp_counter(place).load(Ordering::Relaxed);
        (count, shown.collect())
    }

    fn qp_counter(&self, place: u8) -> &AtomicU64 {
        self.memory.word(place_offset(place) + field::QP_COUNT)
    }

    fn qp_words(&self, place: u8) -> impl Iterator<Item = [&AtomicU64; 2]> {
        let word = move |field, index| self.memory.word(place_offset(place) + field + 8 * index);
        (0..MAX_QPS).map(move |index| [field::QPS, field::QP_PSNS].map(|field| word(field, index)))
    }

    fn words_of(&self, place: u8, qpn: Qpn) -> Option<[&AtomicU64; 2]> {
        let is_it = |[word, _]: &[&AtomicU64; 2]| {
            let word = loaded(word);
            word & USED != 0 && word & NUMBER_MASK == u64::from(qpn.value())
        };
        self.qp_words(place).find(is_it)
    }
}

fn loaded(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use ferroce_test_support::temporary_directory;
    use ferroce_wire::Mac;

    use super::super::Identity;
    use super::*;

    #[test]
    fn queue_pairs_are_shown_from_their_creation_to_their_end() {
        let directory = temporary_directory("qps");
        let registry = Registry::open(directory.path()).expect("new");
        let identity = Identity {
            host: "a".to_owned(),
            device: 0,
            mac: Mac([2; 6]),
            gids: Vec::new(),
            capture: 0,
        };
        let owner = registry.claim(&identity).expect("a place is free");
        let place = owner.number();
        let qp = |number| ShownQp {
            qpn: Qpn::new(number),
            service: Service::XrcTarget,
            state: QpState::Reset,
            peer: Qpn::new(0),
            sq_psn: Psn::new(0),
            rq_psn: Psn::new(0),
        };
        let all = MAX_QPS as u32 + 3;
        for number in 0..all {
            registry.add_qp(place, qp(number));
        }
        let (count, shown) = registry.qps(place);
        assert_eq!((count, shown.len()), (u64::from(all), MAX_QPS));
        let peer = Qpn::new(0xff_fffe);
        let (sq_psn, rq_psn) = (Psn::new(0xff_ffff), Psn::new(0x12_3456));
        let connected = QpChange {
            peer: Some(peer),
            rq_psn: Some(rq_psn),
            ..QpChange::default()
        };
        let sends = QpChange {
            sq_psn: Some(sq_psn),
            ..QpChange::default()
        };
        registry.change_qp(place, Qpn::new(5), QpState::Rtr, connected);
        registry.change_qp(place, Qpn::new(5), QpState::Rts, sends);
        registry.change_qp(place, Qpn::new(5), QpState::Err, QpChange::default());
        let found = registry.qps(place).1[5];
        let expected = ShownQp {
            state: QpState::Err,
            peer,
            sq_psn,
            rq_psn,
            ..qp(5)
        };
        assert_eq!(found, expected);
        for number in 0..all {
            registry.forget_qp(place, Qpn::new(number));
        }
        assert_eq!(registry.qps(place), (0, Vec::new()));
    }
}

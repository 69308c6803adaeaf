//! Compares the card's and the model's counters after the same traffic.

mod pair_support;

use std::sync::{Arc, Mutex};

use ferroce_driver::{
    CompletionQueue, CompletionStatus, Device, MemoryRegion, QueuePair, RKey, SendOperation,
};
use ferroce_model::{Counters, Nic};
use ferroce_rtl_card::RtlNic;
use ferroce_spec::counter::{COUNTERS, Counter, is_implementation_defined};
use ferroce_test_verbs as verbs;
use ferroce_wire::Frame;
use pair_support::{CableEnd, Card, Pair};
use verbs::Memory;

const MEMORY_BYTES: usize = 1 << 16;
/// Cycles in which a request has to end, with all of its retries.
const CYCLES_MAX: u64 = 400_000;
/// Bytes of a message of three packets.
const LONG: usize = 2 * 4096 + 100;
/// Bytes of an ACK on the wire: Ethernet, IPv6, UDP, BTH, AETH, ICRC.
const ACK_BYTES: u64 = 14 + 40 + 8 + 12 + 4 + 4;

struct Side {
    cq: Arc<CompletionQueue>,
    region: Arc<MemoryRegion>,
    qp: Arc<QueuePair>,
    _memory: Memory,
}

impl Side {
    fn new(device: &Arc<Device>, side: usize) -> Self {
        let (gid, mac) = pair_support::address(side);
        verbs::set_gids(device, [([0; 16], mac), (gid, mac)]);
        let pd = device.alloc_pd().expect("one of many");
        let cq = verbs::new_cq(device, 64);
        let memory = Memory::new(MEMORY_BYTES);
        Self {
            region: verbs::register(&pd, &memory),
            qp: verbs::new_qp(&pd, &verbs::qp_config(&cq, 16)),
            cq,
            _memory: memory,
        }
    }

    fn connect(&self, peer: &Self, peer_side: usize) {
        let (gid, mac) = pair_support::address(peer_side);
        let mut rtr = verbs::rtr(peer.qp.number(), verbs::path_to(gid, mac));
        // 10 us, and 4.096 us * 2^3: longer than the cable, and than 400 cycles of memory.
        rtr.min_rnr_timer = 1;
        let mut rts = verbs::rts();
        rts.timeout = 3;
        verbs::connect(&self.qp, rtr, rts);
    }
}

/// Two cards, connected.
struct Bench<C> {
    pair: Arc<Mutex<Pair<C>>>,
    sides: [Side; 2],
}

impl<C: Card> Bench<C> {
    fn new() -> Self {
        let (pair, devices) = pair_support::open::<C>(20);
        let sides = [0, 1].map(|side| Side::new(&devices[side], side));
        sides[1].connect(&sides[0], 0);
        sides[0].connect(&sides[1], 1);
        Self { pair, sides }
    }

    fn pair(&self) -> std::sync::MutexGuard<'_, Pair<C>> {
        self.pair.lock().expect("no panic")
    }

    fn remote(&self) -> ferroce_driver::RemoteAddress {
        verbs::remote(&self.sides[1].region, 0)
    }

    /// Posts a request of side 0, and returns its status.
    fn execute(&self, operation: SendOperation, bytes: usize) -> CompletionStatus {
        self.post(operation, bytes);
        self.completion(0)
    }

    fn post(&self, operation: SendOperation, bytes: usize) {
        let segment = verbs::segment(&self.sides[0].region, 0, bytes);
        verbs::post(&self.sides[0].qp, 1, operation, segment);
    }

    fn post_receive(&self) {
        let side = &self.sides[1];
        verbs::post_receive(&side.qp, 1, verbs::segment(&side.region, 0, LONG));
    }

    fn completion(&self, side: usize) -> CompletionStatus {
        let limit = self.pair().cycles() + CYCLES_MAX;
        while self.pair().cycles() < limit {
            if let Some(completion) = verbs::poll(&self.sides[side].cq).first() {
                return completion.status;
            }
        }
        panic!("no completion");
    }

    /// Runs until all traffic, including ACKs, has ended.
    fn settle(&self) {
        self.pair().run(20_000);
    }

    /// Each kind of packet, each kind of loss, and each kind of NAK.
    fn run(&self) -> [Counters; 2] {
        use CompletionStatus::{RemoteAccessError, Success};
        let write = SendOperation::RdmaWrite(self.remote());
        let read = SendOperation::RdmaRead(self.remote());
        for bytes in [0, 1, 4096, LONG] {
            assert_eq!(self.execute(write, bytes), Success);
            assert_eq!(self.execute(read, bytes), Success);
            self.post_receive();
            assert_eq!(self.execute(SendOperation::Send, bytes), Success);
            assert_eq!(self.completion(1), Success);
        }
        // The only packet is lost: the local ACK timeout.
        self.pair().lose(0, 1);
        assert_eq!(self.execute(write, 64), Success);
        // The first of three packets is lost: a NAK for its PSN.
        self.pair().lose(0, 1);
        assert_eq!(self.execute(write, LONG), Success);
        // The ACK is lost: the request is retransmitted.
        self.settle();
        self.pair().lose(1, 1);
        assert_eq!(self.execute(write, 64), Success);
        // The first response of a READ is lost: an implied NAK.
        self.settle();
        self.pair().lose(1, 1);
        assert_eq!(self.execute(read, LONG), Success);
        // No receive: an RNR NAK.
        self.settle();
        self.post(SendOperation::Send, 64);
        self.pair().run(1000);
        self.post_receive();
        assert_eq!(self.completion(0), Success);
        assert_eq!(self.completion(1), Success);
        // The first of three packets goes to another address: it is dropped without an answer, and
        // the next one is out of order.
        self.settle();
        self.pair().change(0, to_another_gid);
        assert_eq!(self.execute(write, LONG), Success);
        // A key that names no region: a NAK, and both QPs fail.
        let mut wrong = self.remote();
        wrong.r_key = RKey(wrong.r_key.0 ^ 1);
        let status = self.execute(SendOperation::RdmaWrite(wrong), 64);
        assert_eq!(status, RemoteAccessError);
        self.settle();
        [0, 1].map(|side| self.pair().counters(side))
    }
}

/// Changes the last octet of the destination address, and the ICRC, which covers it.
fn to_another_gid(bytes: &mut [u8]) {
    let frame = Frame::parse(bytes).expect("the card sends it");
    let (ip, icrc) = (frame.layout().ip(), frame.layout().icrc());
    bytes[ip + 39] ^= 0x80;
    let frame = Frame::parse(bytes).expect("any address is right");
    let value = frame.computed_icrc().to_le_bytes();
    bytes[icrc].copy_from_slice(&value);
}

fn to_another_mac(bytes: &mut [u8]) {
    bytes[5] ^= 0x80;
}

/// Returns all counters except ACKs, whose number depends on the implementation.
fn without_acks(counters: &Counters, peer: &Counters) -> Vec<u64> {
    let mut values = counters.values().to_vec();
    for (frames, bytes, of) in [
        (Counter::tx_frames, Counter::tx_bytes, counters),
        (Counter::rx_frames, Counter::rx_bytes, peer),
    ] {
        let acks = of.value(Counter::acks_sent);
        values[frames as usize] -= acks;
        values[bytes as usize] -= acks * ACK_BYTES;
    }
    values
}

/// Goal: the contract's counters have the same values on the card and on the model. Method: the
/// same traffic on both; counters with implementation-defined units only have to change, if the
/// card supports what they count.
#[test]
fn counters_are_those_of_the_model() {
    let model = Bench::<Nic<CableEnd>>::new().run();
    let card = Bench::<RtlNic<CableEnd>>::new().run();
    let mut differences = Vec::new();
    for side in [0, 1] {
        let of = |counters: &[Counters; 2]| without_acks(&counters[side], &counters[1 - side]);
        let (expected, seen) = (of(&model), of(&card));
        for (index, row) in COUNTERS.iter().enumerate() {
            let (expected, seen) = (expected[index], seen[index]);
            println!("{side} {:24} {expected:8} {seen:8}", row.name);
            if expected != seen && !is_implementation_defined(index) {
                differences.push((side, row.name, expected, seen));
            }
        }
    }
    assert!(differences.is_empty(), "model, card: {differences:?}");
    let sender = &card[0];
    for counter in [
        Counter::wqe_fetches,
        Counter::wqe_blocks,
        Counter::dma_reads,
    ] {
        assert!(sender.value(counter) > 0, "{counter:?} has not moved");
    }
}

/// Goal: the card drops a frame for another station, which a switch has flooded, without an answer.
/// Method: the first packet of a WRITE goes to another MAC address: the sender must repeat it. The
/// ports of the model deliver no such frame.
#[test]
fn a_frame_for_another_mac_address_is_dropped() {
    let bench = Bench::<RtlNic<CableEnd>>::new();
    let write = SendOperation::RdmaWrite(bench.remote());
    bench.pair().change(0, to_another_mac);
    assert_eq!(bench.execute(write, 64), CompletionStatus::Success);
    let counters = bench.pair().counters(1);
    assert_eq!(counters.value(Counter::rx_wrong_path), 1);
    assert_eq!(counters.value(Counter::acks_sent), 1);
}

/// Goal: a frame that the MAC has found damaged has no effect, even if its ICRC is right. Method:
/// the first of three packets of a WRITE.
#[test]
fn a_frame_with_a_wrong_fcs_is_dropped() {
    let bench = Bench::<RtlNic<CableEnd>>::new();
    let write = SendOperation::RdmaWrite(bench.remote());
    bench.pair().card(1).damage_received(1);
    assert_eq!(bench.execute(write, LONG), CompletionStatus::Success);
    let [sender, receiver] = [0, 1].map(|side| bench.pair().counters(side));
    assert_eq!(receiver.value(Counter::rx_icrc_errors), 1);
    assert!(sender.value(Counter::packets_retransmitted) > 0);
}

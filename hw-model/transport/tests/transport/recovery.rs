//! Selective repeat, step by step: the retransmissions after each loss, and their times.

use crate::pair::link::{Faults, Packet};
use crate::pair::{BASE, Node, Pair, R_KEY, Receive, Setup, destination};
use ferroce_transport::{
    AckTimeouts, AdaptiveTimer, CompletionStatus, Payload, QpState, Recovery, RecoveryMode, Remote,
    SendOperation, SendRequest, Transmit,
};
use ferroce_units::{Duration, Instant};
use ferroce_wire::{Extension, Operation, Psn, RecoveryBits, Syndrome};

const MTU: u32 = 256;

fn setup(mode: RecoveryMode) -> Setup {
    let recovery = Recovery {
        mode,
        ..Recovery::default()
    };
    Setup {
        psn: [Psn::new(0xff_fffe); 2],
        recovery: [recovery; 2],
        ..Setup::default()
    }
}

/// Two sides and no link: the test carries each packet.
struct Bench {
    nodes: [Node; 2],
    now: Instant,
    setup: Setup,
}

impl Bench {
    /// Returns two sides that have shown each other that they support selective repeat.
    fn new(setup: Setup) -> Bench {
        let pair = Pair::new(&setup, Faults::NONE, 1 << 16, 0);
        let mut bench = Bench {
            nodes: pair.nodes,
            now: Instant::ZERO,
            setup,
        };
        bench.write(1000, 1);
        bench.carry(&[]);
        assert_eq!(bench.nodes[0].completions.len(), 1);
        bench
    }

    fn post(&mut self, id: u32, operation: SendOperation, length: u32) {
        let request = SendRequest {
            id,
            operation,
            length,
            signaled: true,
            solicited: false,
            fence: false,
            destination: destination(&self.setup, 0),
        };
        self.nodes[0].post(self.now, 0x100, request);
    }

    fn write(&mut self, id: u32, length: u32) {
        let remote = Remote {
            virtual_address: BASE + 0x8000,
            r_key: R_KEY,
        };
        self.post(id, SendOperation::RdmaWrite { remote }, length);
    }

    fn read(&mut self, id: u32, length: u32) {
        let remote = Remote {
            virtual_address: BASE + 0x8000,
            r_key: R_KEY,
        };
        self.post(id, SendOperation::RdmaRead { remote }, length);
    }

    fn post_receive(&mut self, id: u32) {
        self.nodes[1].post_receive(Receive {
            id,
            address: 0x4000 * id as usize,
            capacity: 0x2000,
        });
    }

    /// Takes the packets that a side sends now.
    fn sent(&mut self, side: usize) -> Vec<Transmit> {
        let poll = || self.nodes[side].qp.poll_transmit(self.now);
        std::iter::from_fn(poll).collect()
    }

    fn deliver(&mut self, side: usize, transmit: &Transmit) {
        let payload = self.nodes[side].gather(transmit.payload);
        let packet = Packet {
            to: 1 - side,
            headers: transmit.headers,
            payload: payload.expect("memory is there"),
        };
        self.nodes[1 - side].receive(self.now, &packet);
    }

    /// Delivers the requester's packets except those with these numbers, then the answers until
    /// none is left.
    fn carry(&mut self, lost: &[usize]) {
        for (number, transmit) in self.sent(0).iter().enumerate() {
            if !lost.contains(&number) {
                self.deliver(0, transmit);
            }
        }
        self.settle();
    }

    fn settle(&mut self) {
        for side in [1, 0].into_iter().cycle().take(20) {
            for transmit in self.sent(side) {
                self.deliver(side, &transmit);
            }
        }
    }

    fn completed(&self) -> usize {
        self.nodes[0].completions.len() - 1
    }
}

/// Returns the PSNs of packets, relative to the one after the PSN of `Bench::new`.
fn psns(packets: &[Transmit]) -> Vec<u32> {
    let first = Psn::new(0xff_ffff);
    let place = |packet: &Transmit| packet.headers.bth.psn.sub(first.value()).value();
    packets.iter().map(place).collect()
}

fn operation(packet: &Transmit) -> Operation {
    let known = packet.headers.bth.opcode.parse();
    known.expect("a known opcode").operation
}

#[test]
fn only_missing_packets_are_sent_again() {
    let mut bench = Bench::new(setup(RecoveryMode::SelectiveRepeat));
    bench.write(0, 8 * MTU);
    for (number, transmit) in bench.sent(0).iter().enumerate() {
        if ![2, 5].contains(&number) {
            bench.deliver(0, transmit);
        }
    }
    let naks = bench.sent(1);
    let last = naks.last().expect("a NAK");
    assert_eq!(psns(&naks), [2], "one NAK for the first that is missing");
    assert!(RecoveryBits::of(&last.headers.bth).selective);
    let Payload::Arrivals { length, .. } = last.payload else {
        panic!("a bitmap: {last:?}");
    };
    assert_eq!(length, 4);
    bench.deliver(1, last);
    let again = bench.sent(0);
    assert_eq!(psns(&again), [2, 5]);
    assert_eq!(bench.nodes[1].holds, 4, "packets 3, 4, 6 and 7");
    again.iter().for_each(|packet| bench.deliver(0, packet));
    bench.settle();
    assert_eq!(bench.completed(), 1);
}

/// Goal: a network that reorders does not use up the retries. Method: all transmissions of one
/// packet are overtaken, more often than there are retries.
#[test]
fn a_packet_may_be_overtaken_more_often_than_it_may_be_retried() {
    let mut setup = setup(RecoveryMode::SelectiveRepeat);
    setup.retry_count = 2;
    let mut bench = Bench::new(setup);
    bench.write(0, MTU);
    for id in 1..20 {
        bench.write(id, MTU);
        let sent = bench.sent(0);
        assert_eq!(psns(&sent), [0, id], "the first one again");
        bench.deliver(0, &sent[1]);
        for nak in bench.sent(1) {
            bench.deliver(1, &nak);
        }
    }
    bench.settle();
    assert_eq!(bench.completed(), 20);
}

#[test]
fn a_read_asks_for_what_is_missing_of_its_response() {
    let mut bench = Bench::new(setup(RecoveryMode::SelectiveRepeat));
    let source: Vec<u8> = (0..8 * MTU).map(|byte| (byte / 7) as u8).collect();
    bench.nodes[1].memory[0x8000..][..source.len()].copy_from_slice(&source);
    bench.read(0, 8 * MTU);
    for request in bench.sent(0) {
        bench.deliver(0, &request);
    }
    for (number, response) in bench.sent(1).iter().enumerate() {
        if ![1, 2, 5].contains(&number) {
            bench.deliver(1, response);
        }
    }
    let again = bench.sent(0);
    assert_eq!(psns(&again), [1, 5], "two ranges");
    let lengths = again.iter().map(|packet| match packet.headers.extension {
        Extension::Reth(reth) => (reth.virtual_address - BASE, reth.dma_length),
        _ => panic!("a READ request"),
    });
    let mtu = u64::from(MTU);
    let expected = [(0x8000 + mtu, 2 * MTU), (0x8000 + 5 * mtu, MTU)];
    assert_eq!(lengths.collect::<Vec<_>>(), expected);
    again.iter().for_each(|request| bench.deliver(0, request));
    assert_eq!(psns(&bench.sent(1)[..]), [1, 2, 5]);
    // They are lost; the timer requests them again, and only them.
    bench.now += Duration::from_us(70_000);
    bench.nodes[0].qp.handle_timeout(bench.now);
    bench.settle();
    assert_eq!(bench.completed(), 1);
    assert!(bench.nodes[0].memory[0x100..][..source.len()] == source[..]);
}

#[test]
fn a_receiver_that_is_not_ready_keeps_what_is_behind() {
    let mut bench = Bench::new(setup(RecoveryMode::SelectiveRepeat));
    bench.post(0, SendOperation::Send, MTU);
    bench.write(1, 3 * MTU);
    let packets = bench.sent(0);
    packets.iter().for_each(|packet| bench.deliver(0, packet));
    let refusals = bench.sent(1);
    assert_eq!(psns(&refusals), [0], "an RNR NAK, and no other");
    assert!(matches!(refusals[0].headers.extension,
        Extension::Aeth(aeth) if matches!(aeth.syndrome, Syndrome::RnrNak { .. })));
    bench.deliver(1, &refusals[0]);
    assert!(bench.sent(0).is_empty(), "it waits");
    bench.post_receive(1);
    bench.now = bench.nodes[0].qp.next_timeout().expect("the RNR timer");
    bench.nodes[0].qp.handle_timeout(bench.now);
    let again = bench.sent(0);
    assert_eq!(psns(&again), [0], "the SEND alone");
    bench.deliver(0, &again[0]);
    bench.settle();
    assert_eq!(bench.completed(), 2);
}

#[test]
fn writes_are_placed_out_of_order_and_complete_in_order() {
    let mut bench = Bench::new(setup(RecoveryMode::AdaptiveRouting));
    bench.nodes[0].memory[0x100..0x100 + 4 * MTU as usize].fill(7);
    bench.write(0, 4 * MTU);
    let packets = bench.sent(0);
    let mores = packets
        .iter()
        .map(|p| RecoveryBits::of(&p.headers.bth).more);
    assert_eq!(mores.collect::<Vec<_>>(), [true, true, true, false]);
    let msn = bench.nodes[1].qp.msn().value();
    for packet in packets.iter().rev() {
        assert_eq!(operation(packet), Operation::RdmaWrite);
        assert_eq!(bench.nodes[1].qp.msn().value(), msn);
        bench.deliver(0, packet);
    }
    assert_eq!(bench.nodes[1].holds, 0);
    assert_eq!(bench.nodes[1].qp.msn().value(), msn + 1, "one message");
    let end = 0x8000 + 4 * MTU as usize;
    assert!(
        bench.nodes[1].memory[0x8000..end]
            .iter()
            .all(|byte| *byte == 7)
    );
    bench.settle();
    assert_eq!(bench.completed(), 1);
}

/// A card retransmits after 2, 4, 8 and 16 ms, whatever the local ACK timeout (perftest, issue 251)
/// and whatever its multiple.
#[test]
fn the_adaptive_timer_takes_the_place_of_the_local_ack_timeout() {
    for (mode, timeout) in [
        (RecoveryMode::GoBackN, 1),
        (RecoveryMode::GoBackN, 14),
        (RecoveryMode::SelectiveRepeat, 20),
    ] {
        let mut setup = setup(mode);
        setup.timeout = timeout;
        setup.config.local_ack_timeout_multiple = 4;
        setup.retry_count = 4;
        setup.config.local_ack_timeout_multiple = 4;
        setup.recovery[0].ack_timeouts = AckTimeouts::Adaptive(AdaptiveTimer::DEFAULT);
        let mut bench = Bench::new(setup);
        bench.write(0, 1);
        let mut times = Vec::new();
        while bench.nodes[0].qp.state() == QpState::Rts {
            let sent = bench.sent(0).len();
            assert_eq!(sent, 1, "lost each time");
            let next = bench.nodes[0].qp.next_timeout().expect("a timer");
            times.push((next - bench.now).as_ps() / 1_000_000);
            bench.now = next;
            bench.nodes[0].qp.handle_timeout(next);
        }
        assert_eq!(times, [2048, 4096, 8192, 16384, 16384], "microseconds");
        bench.nodes[0].collect();
        let failed = bench.nodes[0].completions.last().expect("it failed");
        assert_eq!(failed.status(), CompletionStatus::RetryExceeded);
    }
}

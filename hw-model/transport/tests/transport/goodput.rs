//! The cost of loss and reordering in each mode: WRITEs over a 100 Gb/s link with a round trip of
//! 10 us, against the analytic curves of go-back-N and selective repeat under independent loss.

use std::collections::BTreeMap;

use crate::pair::link::{Faults, Packet};
use crate::pair::rng::Rng;
use crate::pair::{BASE, Node, Pair, R_KEY, Setup, destination};
use ferroce_transport::{
    Config, PathMtu, Recovery, RecoveryMode, Remote, SendOperation, SendRequest, Transmit,
};
use ferroce_units::{Duration, Instant};

/// Payload of a packet, and its total bytes on the wire.
const PAYLOAD: u64 = 1024;
const OVERHEAD: u64 = 82;
/// Picoseconds per byte at 100 Gb/s.
const BYTE_PS: u64 = 80;
const ONE_WAY: Duration = Duration::from_us(5);
/// Packets of a message.
const MESSAGE: u32 = 64;

/// Faults of the path.
#[derive(Clone, Copy)]
struct Path {
    /// Lost packets of the requester per million.
    loss: u64,
    /// Maximum additional delay of each packet, independent of others: spraying over equal paths.
    spread: Duration,
}

/// The result.
#[derive(Debug)]
struct Outcome {
    /// Fraction of the time in which the wire would have carried the data without loss.
    goodput: f64,
    sent: u64,
    retransmitted: u64,
}

/// Sends `messages` messages.
struct Run {
    nodes: [Node; 2],
    now: Instant,
    rng: Rng,
    path: Path,
    /// The time at which the wire of each side is free.
    free_at: [Instant; 2],
    arrivals: BTreeMap<(Instant, u64), Packet>,
    sequence: u64,
    posted: u32,
}

fn setup(mode: RecoveryMode, reorder_time: Duration) -> Setup {
    let recovery = Recovery {
        mode,
        reorder_time,
        ..Recovery::default()
    };
    Setup {
        mtu: PathMtu::Mtu1024,
        config: Config {
            max_unacknowledged_packets: 512,
            ack_coalesce: 16,
            ..Config::default()
        },
        timeout: 5,
        recovery: [recovery; 2],
        ..Setup::default()
    }
}

fn run(setup: &Setup, path: Path, messages: u32) -> Outcome {
    let pair = Pair::new(setup, Faults::NONE, (MESSAGE as usize) << 10, 0);
    let mut run = Run {
        nodes: pair.nodes,
        now: Instant::ZERO,
        rng: Rng::new(path.loss ^ 0x600d),
        path,
        free_at: [Instant::ZERO; 2],
        arrivals: BTreeMap::new(),
        sequence: 0,
        posted: 0,
    };
    while run.nodes[0].completions.len() < messages as usize {
        run.post(setup, messages);
        (0..2).for_each(|side| run.send(side));
        run.wait();
    }
    let sender = &run.nodes[0];
    assert_eq!(sender.qp.outstanding_sends(), 0);
    let counted = sender.statistics.iter();
    let packets = u64::from(messages) * u64::from(MESSAGE);
    Outcome {
        goodput: (packets * (PAYLOAD + OVERHEAD) * BYTE_PS) as f64
            / (run.now - Instant::ZERO).as_ps() as f64,
        sent: packets,
        retransmitted: counted
            .map(|one| u64::from(one.packets_retransmitted))
            .sum(),
    }
}

impl Run {
    fn post(&mut self, setup: &Setup, messages: u32) {
        let node = &mut self.nodes[0];
        while self.posted < messages && node.qp.outstanding_sends() < 32 {
            let remote = Remote {
                virtual_address: BASE,
                r_key: R_KEY,
            };
            let request = SendRequest {
                id: self.posted % 64,
                operation: SendOperation::RdmaWrite { remote },
                length: MESSAGE << 10,
                signaled: true,
                solicited: false,
                fence: false,
                destination: destination(setup, 0),
            };
            node.post(self.now, 0, request);
            self.posted += 1;
        }
    }

    /// Puts the next packet on the wire when the wire is free.
    fn send(&mut self, side: usize) {
        while self.free_at[side] <= self.now {
            let Some(transmit) = self.nodes[side].qp.poll_transmit(self.now) else {
                break;
            };
            self.transmit(side, &transmit);
        }
    }

    fn transmit(&mut self, side: usize, transmit: &Transmit) {
        let node = &mut self.nodes[side];
        let payload = node.gather(transmit.payload).expect("memory is there");
        let bytes = payload.len() as u64 + OVERHEAD;
        self.free_at[side] = self.now + Duration::from_ps(bytes * BYTE_PS);
        let mut arrival = self.free_at[side] + ONE_WAY;
        if side == 0 {
            if self.rng.chance(self.path.loss, 1_000_000) {
                return;
            }
            arrival += Duration::from_ps(self.rng.below(self.path.spread.as_ps() + 1));
        }
        self.sequence += 1;
        let (to, headers) = (1 - side, transmit.headers);
        let packet = Packet {
            to,
            headers,
            payload,
        };
        self.arrivals.insert((arrival, self.sequence), packet);
    }

    /// Advances to the next event and handles it.
    fn wait(&mut self) {
        let timeouts = self.nodes.iter().filter_map(|node| node.qp.next_timeout());
        let wires = (0..2).filter(|side| self.nodes[*side].qp.has_transmit());
        let next = timeouts
            .chain(wires.map(|side| self.free_at[side]))
            .chain(self.arrivals.keys().next().map(|(at, _)| *at))
            .min();
        self.now = self.now.max(next.expect("something is on the way"));
        while let Some(entry) = self.arrivals.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let packet = entry.remove();
            self.nodes[packet.to].receive(self.now, &packet);
        }
        for node in &mut self.nodes {
            node.qp.handle_timeout(self.now);
            node.collect();
        }
    }
}

const MODES: [(&str, RecoveryMode, Duration); 3] = [
    ("go-back-N", RecoveryMode::GoBackN, Duration::ZERO),
    (
        "selective repeat",
        RecoveryMode::SelectiveRepeat,
        Duration::ZERO,
    ),
    (
        "adaptive routing",
        RecoveryMode::AdaptiveRouting,
        Duration::from_us(5),
    ),
];

/// Goal: go-back-N loses about a window per loss, the other modes one packet. Method: the analytic
/// fractions are (1-p)/(1-p+pW) with W = 114 packets in flight, and 1-p; losses of retransmissions
/// and of the last packets cost more.
#[test]
fn loss_costs_a_window_or_a_packet() {
    const IN_FLIGHT: f64 = 114.0;
    println!("loss      go-back-N (analytic)   selective repeat   adaptive routing   (analytic)");
    for loss in [1, 10, 100, 1_000, 10_000, 100_000] {
        let path = Path {
            loss,
            spread: Duration::ZERO,
        };
        let messages = if loss == 100_000 { 100 } else { 400 };
        let [gbn, sr, ar] = MODES
            .map(|(_, mode, reorder_time)| run(&setup(mode, reorder_time), path, messages).goodput);
        let p = loss as f64 / 1e6;
        let (gbn_known, sr_known) = ((1.0 - p) / (1.0 - p + p * IN_FLIGHT), 1.0 - p);
        println!(
            "{p:<9} {gbn:.3} ({gbn_known:.3})          {sr:.3}              {ar:.3}              \
             ({sr_known:.3})"
        );
        assert!(sr >= gbn - 0.01 && ar >= gbn - 0.01, "the order is right");
        // Go-back-N waits for its timer when the packet to which it goes back is lost again.
        assert!(gbn > 0.4 * gbn_known && gbn < 1.25 * gbn_known + 0.02);
        assert!(sr <= sr_known + 0.01 && sr > 0.80 * sr_known, "{sr}");
        assert!(ar <= sr_known + 0.01 && ar > 0.70 * sr_known, "{ar}");
    }
}

/// Goal: a sender that treats reordering as loss retransmits packets that are not lost (DCP,
/// SIGCOMM 2025). Method: spraying without loss, with and without the reorder time.
#[test]
fn reordering_is_no_loss_with_a_reorder_time() {
    let path = Path {
        loss: 0,
        spread: Duration::from_us(3),
    };
    let patient = Duration::from_us(8);
    let cases = [
        (RecoveryMode::GoBackN, Duration::ZERO),
        (RecoveryMode::SelectiveRepeat, Duration::ZERO),
        (RecoveryMode::SelectiveRepeat, patient),
        (RecoveryMode::AdaptiveRouting, patient),
    ];
    let [gbn, hasty, slow, ar] = cases.map(|(mode, time)| run(&setup(mode, time), path, 100));
    println!("go-back-N {gbn:?}");
    println!("selective repeat, reorder time 0: {hasty:?}");
    println!("selective repeat, reorder time 8 us: {slow:?}");
    println!("adaptive routing, reorder time 8 us: {ar:?}");
    assert!(hasty.retransmitted > hasty.sent / 4, "{hasty:?}");
    assert!(gbn.goodput < 0.5 * ar.goodput, "{gbn:?}");
    for kept in [slow, ar] {
        assert_eq!(kept.retransmitted, 0, "{kept:?}");
        assert!(kept.goodput > 0.9, "{kept:?}");
    }
}

/// Goal: the sender has no more in flight than the receiver keeps after a gap; later packets would
/// be retransmitted. Method: a reorder time in which twice as many packets could leave.
#[test]
fn packets_in_flight_fit_into_the_window_of_a_gap() {
    let mut setup = setup(RecoveryMode::AdaptiveRouting, Duration::from_us(100));
    setup.config.max_unacknowledged_packets = 1024;
    let path = Path {
        loss: 1_000,
        spread: Duration::ZERO,
    };
    let outcome = run(&setup, path, 400);
    assert!(outcome.retransmitted < outcome.sent / 100, "{outcome:?}");
}

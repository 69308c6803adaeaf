//! A send of an unreliable service completes when its last packet has left the card: not faster
//! than the wire takes the packets, and not before its buffer was read. All presets with times, UC
//! and UD.

use crate::common::objects::{Q_KEY, Request, TestQp};
use crate::common::{Cable, Machine, cable};
use ferroce_model::Nic;
use ferroce_model::preset::Preset;
use ferroce_model::time::timing::Timed;
use ferroce_spec::context::ServiceCode;
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{Cqe, CqeStatus};
use ferroce_spec::wqe::SendOpcode;
use ferroce_units::{Duration, Instant};

/// The preset without times: nothing leaves later than it was made.
const UNTIMED: &str = "functional";
/// Messages of a run.
const MESSAGES: u64 = 12;
/// Bytes from one buffer to the next.
const SPACE: u64 = 1 << 14;
/// Where receive buffers begin.
const LANDING: u64 = 1 << 20;
/// Bytes of the global route header in front of a datagram.
const GRH: u64 = 40;
/// Payload of a packet.
const MTU: u32 = 1024;
/// Bytes of a packet on the wire beside its payload: Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4,
/// and preamble, frame check sequence and gap 24 (IEEE 802.3).
const OVERHEAD: u32 = 14 + 20 + 8 + 12 + 4 + 24;
/// More of a datagram: DETH.
const DATAGRAM_OVERHEAD: u32 = 8;
/// The shortest frame, with preamble, frame check sequence and gap.
const SHORTEST: u32 = 84;
/// Completions are made at the edges of a clock: what that can be early by.
const CLOCK_NS: f64 = 8.0;
/// More events than any run here needs.
const MAX_EVENTS: usize = 100_000;

type TimedMachine = Machine<Timed>;

struct Scene {
    machines: [TimedMachine; 2],
    qps: [TestQp; 2],
    service: ServiceCode,
    /// Completions of the sender, with the time at which each is written.
    completions: Vec<(Cqe, Instant)>,
}

fn machine(number: u8, port: Cable, preset: &Preset) -> TimedMachine {
    let config = preset.nic_config(u32::from(number) << 16, [2, 0, 0, 0, 0, number]);
    Machine::around(number, port, Nic::with_timing(config, Timed::new(preset)))
}

/// Two cards with a queue pair each, a cable of 100 ns and host memory that takes 400 ns.
fn scene(preset: &Preset, service: ServiceCode) -> Scene {
    let (left, right) = cable();
    let mut machines = [machine(1, left, preset), machine(2, right, preset)];
    let qps = machines.each_mut().map(|m| m.create_qp(service, |_| ()));
    let gids = machines.each_ref().map(Machine::gid);
    machines[0].bring_to_rts(&qps[0], gids[1], qps[1].qpn);
    machines[1].bring_to_rts(&qps[1], gids[0], qps[0].qpn);
    for machine in &mut machines {
        machine.port.delay = Some(Duration::from_ns(100));
        machine.host.read_latency = Duration::from_ns(400);
        machine.now = Instant::from_us(200);
    }
    Scene {
        machines,
        qps,
        service,
        completions: Vec::new(),
    }
}

impl Scene {
    /// Content of message `number`.
    fn pattern(number: u64, length: u32) -> Vec<u8> {
        (0..u64::from(length))
            .map(|i| (i * 7 + number * 31 + 1) as u8)
            .collect()
    }

    fn post(&mut self, length: u32) {
        let [a, b] = &mut self.machines;
        for number in 0..MESSAGES {
            let room = b.segment(LANDING + number * SPACE, length + GRH as u32);
            b.receive(&mut self.qps[1], room);
        }
        b.now = Instant::from_us(300);
        a.now = b.now;
        a.host.descriptors.clear();
        a.port.departures.clear();
        for number in 0..MESSAGES {
            let at = number * SPACE;
            a.data(at, length as usize)
                .copy_from_slice(&Self::pattern(number, length));
            let is_datagram = self.service == ServiceCode::UNRELIABLE_DATAGRAM;
            let datagram = a.datagram(b.gid(), self.qps[1].qpn, Q_KEY);
            let request = Request {
                data: &[a.segment(at, length)],
                datagram: datagram.filter(|_| is_datagram),
                ..Request::default()
            };
            a.send(&mut self.qps[0], SendOpcode::SEND, request);
        }
    }

    /// Runs both from event to event until neither has one. As soon as a send has completed, its
    /// buffer is overwritten.
    fn run_to_the_end(&mut self, length: u32) {
        let mut now = self.machines[0].now;
        for _ in 0..MAX_EVENTS {
            for machine in &mut self.machines {
                machine.now = now;
                machine.run(0);
            }
            self.take_completions(length);
            let [a, b] = &self.machines;
            let on_cable = !a.port.into.borrow().is_empty() || !b.port.into.borrow().is_empty();
            let next = [a, b].map(|machine| machine.nic.next_timeout(now));
            match next.into_iter().flatten().min() {
                _ if on_cable => {}
                Some(next) => now = now.max(next),
                None => return,
            }
        }
        panic!("the cards never come to rest");
    }

    fn take_completions(&mut self, length: u32) {
        let a = &mut self.machines[0];
        while let Some(cqe) = a.poll() {
            let number = self.completions.len();
            a.data(number as u64 * SPACE, length as usize).fill(0xff);
            self.completions.push((cqe, a.host.descriptors[number]));
        }
    }

    /// Bytes of a message on the wire.
    fn wire_bytes(&self, length: u32) -> u32 {
        let more = match self.service {
            ServiceCode::UNRELIABLE_DATAGRAM => DATAGRAM_OVERHEAD,
            _ => 0,
        };
        let packets = length.div_ceil(MTU).max(1);
        (length + packets * (OVERHEAD + more)).max(SHORTEST)
    }

    fn check(&mut self, length: u32, rate_gbps: f64, what: &str) {
        assert_eq!(self.completions.len() as u64, MESSAGES, "{what}: no stall");
        let packets = length.div_ceil(MTU).max(1) as usize;
        let departures = &self.machines[0].port.departures;
        assert_eq!(departures.len(), MESSAGES as usize * packets, "{what}");
        for (number, (cqe, at)) in self.completions.iter().enumerate() {
            assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS, "{what}");
            let left = departures[(number + 1) * packets - 1];
            assert!(
                *at >= left,
                "{what}: {number} at {at:?}, leaves at {left:?}"
            );
        }
        let (first, last) = (
            self.completions[0].1,
            self.completions[MESSAGES as usize - 1].1,
        );
        let bits = f64::from(self.wire_bytes(length)) * 8.0 * (MESSAGES - 1) as f64;
        let (span, least) = ((last - first).as_ns() as f64, bits / rate_gbps);
        let what_was_seen = format!("{what}: {span} ns, the wire takes {least} ns");
        assert!(span + CLOCK_NS >= least, "{what_was_seen}");
        self.check_arrivals(length, what);
    }

    fn check_arrivals(&mut self, length: u32, what: &str) {
        let b = &mut self.machines[1];
        let skip = match self.service {
            ServiceCode::UNRELIABLE_DATAGRAM => GRH,
            _ => 0,
        };
        for number in 0..MESSAGES {
            let cqe = b
                .poll()
                .unwrap_or_else(|| panic!("{what}: {number} is lost"));
            assert_eq!(CqeStatus(cqe.word.status()), CqeStatus::SUCCESS, "{what}");
            let bytes = b.data(LANDING + number * SPACE + skip, length as usize);
            let expected = Self::pattern(number, length);
            assert!(bytes == expected, "{what}: {number} is not what was sent");
        }
        assert_eq!(b.nic.counters().value(Counter::rx_no_receive), 0, "{what}");
    }
}

#[test]
fn a_send_completes_when_its_last_packet_has_left() {
    let services = [
        (
            ServiceCode::UNRELIABLE_CONNECTED,
            &[1, 64, 1024, 3000, 9000][..],
        ),
        (ServiceCode::UNRELIABLE_DATAGRAM, &[1, 64, 1024][..]),
    ];
    for name in Preset::names().filter(|name| *name != UNTIMED) {
        let preset = Preset::load(name).expect("built in");
        for (service, lengths) in services {
            for length in lengths.iter().copied() {
                let mut scene = scene(&preset, service);
                scene.post(length);
                scene.run_to_the_end(length);
                let what = format!("{name} {service:?} {length} B");
                scene.check(length, preset.mac.rate_gbps, &what);
            }
        }
    }
}

//! The fabric of a world with switches: frames of hosts go through the network.

use ferroce_model::time::timing::PLANNING_HORIZON;
use ferroce_units::{Duration, Instant};

use super::channel::{Channel, Packet, QueueSample};
use super::network::{HostPort, Network, Output};
use super::report::FabricReport;
use super::{Fabric, Transit, Woken};
use crate::config::WorldConfig;
use crate::fabric_plan::FabricError;
use crate::frame::Frame;
use crate::pause_frame::PauseFrame;
use crate::rate::Rate;
use crate::recorder::{FaultSeen, Received, SharedRecorder};

/// Builds the network of a world that has one.
pub(super) fn network(config: &WorldConfig) -> Result<Option<Box<Network<Frame>>>, FabricError> {
    let Some(plan) = &config.fabric else {
        return Ok(None);
    };
    let ports = (0..config.hosts).map(|host| {
        let preset = config.preset_of(host).ok_or(FabricError::Functional)?;
        let ns = |ns: f64| Duration::from_ps((ns * 1000.0).round() as u64);
        Ok(HostPort {
            rate: Rate::from_gbps(preset.mac.rate_gbps),
            cable: ns(preset.link.cable_ns),
            switch: ns(preset.link.switch_ns),
            // A card plans ahead; planned frames leave in spite of a pause.
            response: PLANNING_HORIZON + ns(preset.mac.transmit_ns),
        })
    });
    let ports = ports.collect::<Result<Vec<_>, _>>()?;
    Network::new(plan, &ports, config.seed).map(|network| Some(Box::new(network)))
}

/// Reports the ports of switches to a recorder.
#[cold]
fn observe(network: &Network<Frame>, now: Instant, recorder: &SharedRecorder) {
    let mut recorder = recorder.lock();
    if recorder.observes() {
        let ports: Vec<_> = network.switch_ports().map(Channel::observation).collect();
        recorder.observe_ports(now, &ports);
    }
}

fn transit_of(packet: &Packet<Frame>, arrival: Instant) -> Transit {
    Transit {
        from: packet.from,
        to: packet.to,
        sent: packet.sent,
        arrival,
    }
}

impl Fabric {
    /// Returns the time of the next event of the network.
    #[inline]
    pub fn next_network_event(&self) -> Option<Instant> {
        let network = self
            .network
            .as_ref()
            .and_then(|network| network.next_event());
        match (network, self.next_step()) {
            (Some(network), Some(step)) => Some(network.min(step)),
            (network, step) => network.or(step),
        }
    }

    /// Handles the events of the network up to `now`.
    pub fn step_network(&mut self, now: Instant) {
        let Some(mut network) = self.network.take() else {
            return;
        };
        network.step(now);
        while let Some(output) = network.next_output() {
            match output {
                Output::Delivered(arrival, packet) => {
                    let idle = network.idle_latency(packet.from, packet.to, packet.bytes);
                    self.take_delivered(arrival, packet, idle);
                }
                Output::Dropped(at, packet) => self.take_dropped(at, packet),
                Output::Paused(at, frame) => self.take_pause(at, frame),
                Output::GoesOn(at, host) => self.wake(host, at),
            }
        }
        if let Some(recorder) = &self.recorder {
            observe(&network, now, recorder);
        }
        self.network = Some(network);
    }

    /// Puts a frame of the current host to another host on its cable.
    pub(super) fn send_through_network(&mut self, at: Instant, to: usize, frame: Frame) {
        if let Some(network) = &mut self.network {
            network.send(self.now, at, self.current, to, frame);
        }
    }

    fn take_delivered(&mut self, arrival: Instant, packet: Packet<Frame>, idle: Duration) {
        let transit = transit_of(&packet, arrival);
        let Packet { frame, to, .. } = packet;
        let counters = &mut self.ends[to].counters;
        let waited = arrival.saturating_since(transit.sent + idle);
        counters.waited = counters.waited + waited;
        if self.faults.is_some() {
            return self.arrive_with_faults(transit, frame);
        }
        self.note_arrival(transit, frame.qpn(), frame.as_ref());
        self.put(arrival, to, frame);
    }

    #[cold]
    fn take_dropped(&mut self, at: Instant, packet: Packet<Frame>) {
        let transit = transit_of(&packet, at);
        let Packet { frame, to, .. } = packet;
        self.ends[to].counters.dropped_frames += 1;
        let fault = FaultSeen {
            comment: "dropped by a switch: its buffer was full",
            received: Received::Lost,
        };
        self.record_frame(transit, frame.qpn(), frame.as_ref(), Some(fault));
        self.pool.give_back(frame);
    }

    /// Wakes a host whose card may send again.
    fn wake(&mut self, host: usize, at: Instant) {
        let qpn = None;
        self.woken.push(Woken { host, at, qpn });
    }

    /// Handles a pause frame at a card. At the end of a pause the card resumes.
    fn take_pause(&mut self, at: Instant, frame: PauseFrame) {
        if !frame.is_pause {
            self.wake(frame.host, at);
        }
        if let Some(recorder) = &self.recorder {
            recorder.lock().pause(at, &frame);
        }
    }

    /// Returns when a frame of a host's kernel arrives at another host through an idle network: it
    /// is not in the queues.
    pub(super) fn arrival_aside(&mut self, at: Instant, to: usize, bytes: u32) -> Instant {
        let from = self.current;
        match &self.network {
            Some(network) if from != to => at + network.idle_latency(from, to, bytes),
            _ => self.travel(at, to, bytes),
        }
    }

    /// Samples the queues of the ports of switches.
    pub fn sample(&mut self, now: Instant) -> Option<Vec<QueueSample>> {
        let network = self.network.as_mut()?;
        Some(network.sample(now))
    }

    /// Returns a report of the network; `None`: there is none.
    pub fn report(&self, now: Instant) -> Option<FabricReport> {
        self.network
            .as_ref()
            .map(|network| FabricReport::new(network, now))
    }
}

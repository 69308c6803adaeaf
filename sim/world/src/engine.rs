//! The world as a trait that hides the timing of its cards.

use std::sync::Arc;

use ferroce_driver::bus::Bus;
use ferroce_host::memory::MapChange;
use ferroce_model::pcie::machine::Target;
use ferroce_model::time::timing::Timing;
use ferroce_units::{Duration, Instant};

use super::bus::WorldBus;
use super::counters::HostCounters;
use super::event_loop::{DeviceStop, Stop};
use super::fabric::Arrivals;
use super::fabric::channel::QueueSample;
use super::fabric::report::FabricReport;
use super::recorder::SharedRecorder;
use super::schedule::Owner;
use super::served::ServedCard;
use super::shared::Shared;
use super::thread::{Next, ThreadId};
use super::usage::HostUsage;

/// A world with any timing of its cards.
pub(super) trait Engine: Send + Sync {
    /// Ends the step of a thread, and handles events until something stops it.
    fn advance(&self, stepped: Option<(ThreadId, Next)>, until: Instant) -> Stop;
    /// Ends the step of a thread.
    fn finish(&self, thread: ThreadId, next: Next);
    fn bus(self: Arc<Self>, host: usize) -> Arc<dyn Bus>;
    fn served(self: Arc<Self>, host: usize) -> Arc<dyn ServedCard>;
    /// As [`super::World::place_memory`].
    fn place_memory(&self, host: usize, target: Target);
    fn add_thread(&self, host: usize, owner: Owner);
    fn end_thread(&self, thread: ThreadId);
    /// As [`super::World::take_killed`].
    fn take_killed(&self) -> Vec<usize>;
    /// Wakes a thread that is parked.
    fn wake(&self, thread: ThreadId, at: Instant);
    /// Wakes a thread that waits for an interrupt.
    fn wake_sleeper(&self, thread: ThreadId, at: Instant);
    /// Lets a polling thread poll again.
    fn look_again(&self, thread: ThreadId, at: Instant);
    /// As [`super::Wire::send`].
    fn carry_aside(&self, at: Instant, from: usize, to: usize, qpn: u32, frame: &[u8]) -> Arrivals;
    /// As [`super::World::order_by_host`].
    fn order_by_host(&self);
    fn next_event(&self) -> Option<Instant>;
    fn has_only_rechecks(&self) -> bool;
    /// As [`super::event_loop::EventLoop::hidden_until`].
    fn hidden_until(&self, thread: ThreadId) -> (Instant, Duration);
    fn now(&self) -> Instant;
    fn counters(&self, host: usize) -> HostCounters;
    /// As [`super::World::fabric`].
    fn fabric(&self) -> Option<FabricReport>;
    /// As [`super::World::sample_fabric`].
    fn sample_fabric(&self) -> Option<Vec<QueueSample>>;
    /// As [`super::World::usage`].
    fn usage(&self, host: usize) -> HostUsage;
    fn events(&self) -> u64;
    fn record(&self, recorder: Option<SharedRecorder>);
    fn dump(&self) -> String;
}

impl<T: Timing + Send + 'static> Engine for Shared<T> {
    fn advance(&self, stepped: Option<(ThreadId, Next)>, until: Instant) -> Stop {
        let mut event_loop = self.event_loop.lock();
        if let Some((thread, next)) = stepped {
            event_loop.finish(thread, next, self.clock.now(), self.clock.deadlines());
        }
        loop {
            match event_loop.advance(until) {
                DeviceStop::Thread(thread) => return event_loop.begin(thread),
                DeviceStop::Until => return event_loop.pause(Stop::Until),
                DeviceStop::Idle => return event_loop.pause(Stop::Idle),
                DeviceStop::Stalled => return event_loop.pause(Stop::Stalled),
                DeviceStop::Interrupts(host) => {
                    let vectors = event_loop.take_interrupts(host);
                    let now = event_loop.now;
                    drop(event_loop);
                    self.deliver(now, host, vectors);
                    event_loop = self.event_loop.lock();
                }
            }
        }
    }

    fn finish(&self, thread: ThreadId, next: Next) {
        let mut event_loop = self.event_loop.lock();
        event_loop.finish(thread, next, self.clock.now(), self.clock.deadlines());
        event_loop.pause(Stop::Idle);
    }

    fn bus(self: Arc<Self>, host: usize) -> Arc<dyn Bus> {
        Arc::new(WorldBus::new(self, host))
    }

    fn served(self: Arc<Self>, host: usize) -> Arc<dyn ServedCard> {
        Arc::new(WorldBus::new(self, host).into_served())
    }

    fn place_memory(&self, host: usize, target: Target) {
        let mut event_loop = self.event_loop.lock();
        let host = &mut event_loop.devices.nodes[host].host;
        let mappings = host.mappings(MapChange::Addition);
        mappings.set_target(target.bits());
    }

    fn add_thread(&self, host: usize, owner: Owner) {
        self.event_loop.lock().add_thread(host, owner);
    }

    fn take_killed(&self) -> Vec<usize> {
        self.event_loop.lock().take_killed()
    }

    fn end_thread(&self, thread: ThreadId) {
        let mut event_loop = self.event_loop.lock();
        let host = event_loop.schedule.entries[thread.0].host;
        let node = &mut event_loop.devices.nodes[host];
        node.host.watchers.remove(thread.0);
        node.sleepers.retain(|(sleeper, _)| *sleeper != thread.0);
        event_loop.schedule.end(thread.0);
    }

    fn wake(&self, thread: ThreadId, at: Instant) {
        self.event_loop.lock().wake(thread, at);
    }

    fn wake_sleeper(&self, thread: ThreadId, at: Instant) {
        self.event_loop.lock().wake_sleeper(thread, at);
    }

    fn look_again(&self, thread: ThreadId, at: Instant) {
        self.event_loop.lock().look_again(thread, at);
    }

    fn has_only_rechecks(&self) -> bool {
        self.event_loop.lock().has_only_rechecks()
    }

    fn carry_aside(&self, at: Instant, from: usize, to: usize, qpn: u32, frame: &[u8]) -> Arrivals {
        let mut event_loop = self.event_loop.lock();
        event_loop.devices.carry_aside(at, from, to, qpn, frame)
    }

    fn order_by_host(&self) {
        self.event_loop.lock().order_by_host();
    }

    fn next_event(&self) -> Option<Instant> {
        self.event_loop.lock().next_event()
    }

    fn hidden_until(&self, thread: ThreadId) -> (Instant, Duration) {
        self.event_loop.lock().hidden_until(thread.0)
    }

    fn now(&self) -> Instant {
        self.event_loop.lock().now
    }

    fn counters(&self, host: usize) -> HostCounters {
        let event_loop = self.event_loop.lock();
        let node = &event_loop.devices.nodes[host];
        HostCounters {
            nic: node.nic.counters().clone(),
            controls_congestion: node.nic.controls_congestion(),
            pcie: node.host.pcie.as_ref().map(|pcie| pcie.counters()),
            link: event_loop.devices.fabric.counters(host),
        }
    }

    fn fabric(&self) -> Option<FabricReport> {
        let event_loop = self.event_loop.lock();
        let now = event_loop.devices.device_time(event_loop.now);
        event_loop.devices.fabric.report(now)
    }

    fn sample_fabric(&self) -> Option<Vec<QueueSample>> {
        let mut event_loop = self.event_loop.lock();
        let now = event_loop.devices.device_time(event_loop.now);
        event_loop.devices.fabric.sample(now)
    }

    fn usage(&self, host: usize) -> HostUsage {
        let event_loop = self.event_loop.lock();
        let now = event_loop.devices.device_time(event_loop.now);
        let node = &event_loop.devices.nodes[host];
        let slot = node.host.pcie.as_ref().map(|pcie| pcie.usage());
        let received = event_loop.devices.fabric.counters(host).received_busy;
        HostUsage::new(now, node.nic.usage(now), slot, received)
    }

    fn events(&self) -> u64 {
        self.event_loop.lock().events
    }

    fn record(&self, recorder: Option<SharedRecorder>) {
        let mut event_loop = self.event_loop.lock();
        let now = event_loop.now;
        event_loop.devices.record(now, recorder);
    }

    fn dump(&self) -> String {
        self.event_loop.lock().dump()
    }
}

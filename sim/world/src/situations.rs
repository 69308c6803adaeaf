//! Situations of a plan of faults: what happens to the hosts of a world.

use ferroce_faults::{DueStep, Step};
use ferroce_host::numbered_hosts;
use ferroce_model::SoftwareFault;
use ferroce_model::time::timing::Timing;
use ferroce_units::Instant;
use ferroce_wire::Gid;

use super::devices::Devices;
use super::event_heap::Sequence;
use super::event_loop::EventLoop;
use super::schedule::State;

impl<T: Timing> Devices<T> {
    /// Executes a step of a situation.
    #[cold]
    pub fn suffer(&mut self, now: Instant, step: DueStep, sequence: &mut Sequence) {
        for host in 0..self.nodes.len() {
            if step.host.is_none_or(|address| has_address(host, address)) {
                self.suffer_at(now, host, step.step);
                self.events.lower(host, sequence.moment(now));
            }
        }
    }

    fn kill(&mut self, now: Instant, host: usize) {
        let node = &mut self.nodes[host];
        node.is_stopped = true;
        self.fabric.select(now, host);
        node.nic.power_off(now, &mut self.fabric);
        self.fates.killed.push(host);
    }

    fn suffer_at(&mut self, now: Instant, host: usize, step: Step) {
        let node = &mut self.nodes[host];
        match step {
            Step::FailQueuePairs => node.nic.suffer(SoftwareFault::FailQueuePairs),
            Step::RevokeRegions => node.nic.suffer(SoftwareFault::RevokeRegions),
            Step::WithholdReceives => node.nic.suffer(SoftwareFault::WithholdReceives),
            Step::ReturnReceives => node.nic.suffer(SoftwareFault::ReturnReceives),
            Step::LinkDown => self.fabric.set_link_down(host),
            Step::LinkUp => self.fabric.set_link_up(host),
            Step::AddressGone => node.nic.suffer(SoftwareFault::RemoveAddresses),
            Step::AddressBack => node.nic.suffer(SoftwareFault::ReturnAddresses),
            Step::Stop => node.is_stopped = true,
            Step::Continue => {
                node.is_stopped = false;
                self.fates.continued.push(host);
            }
            Step::Kill => self.kill(now, host),
            Step::PowerFailure => {
                self.fabric.mute(true);
                self.kill(now, host);
                self.fabric.mute(false);
                // Frames that the card has begun to send still leave it. Writes that are visible by
                // then are kept, because the peer may learn of them from these frames.
                let until = now.max(self.fabric.last_sent(host));
                self.nodes[host].host.lose_power(until);
            }
        }
    }
}

fn has_address(host: usize, address: Gid) -> bool {
    let identity = numbered_hosts::of_host(host);
    identity.gids.iter().any(|entry| entry.gid == address.0)
}

impl<T: Timing> EventLoop<T> {
    /// Returns true if a thread does not get its turn, because its program is stopped or dead.
    pub(super) fn holds(&mut self, thread: usize) -> bool {
        let entry = &self.schedule.entries[thread];
        let node = &mut self.devices.nodes[entry.host];
        let is_held = node.is_stopped && !entry.is_of_kernel;
        if is_held && !node.held.contains(&thread) {
            node.held.push(thread);
        }
        is_held
    }

    /// Gives a turn to the threads of programs that continue. Returns true if a program was killed:
    /// then the caller of the world ends its process.
    pub(super) fn follow_fates(&mut self) -> bool {
        for host in std::mem::take(&mut self.devices.fates.continued) {
            for thread in std::mem::take(&mut self.devices.nodes[host].held) {
                self.resume(host, thread);
            }
        }
        !self.devices.fates.killed.is_empty()
    }

    fn resume(&mut self, host: usize, thread: usize) {
        let entry = &self.schedule.entries[thread];
        let time = self.now.max(entry.clock);
        let watchers = &self.devices.nodes[host].host.watchers;
        let turns = watchers.turns_of(thread);
        let time = match (entry.state, turns) {
            (State::Polling, Some(turns)) => turns.first_from(time),
            _ => time,
        };
        self.wake_thread(thread, time);
    }

    /// Takes the hosts whose program was killed. Threads that are started on them afterwards run.
    pub(super) fn take_killed(&mut self) -> Vec<usize> {
        let killed = std::mem::take(&mut self.devices.fates.killed);
        for host in &killed {
            let node = &mut self.devices.nodes[*host];
            node.is_stopped = false;
            node.held.clear();
        }
        killed
    }
}

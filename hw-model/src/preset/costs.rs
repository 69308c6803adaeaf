//! Costs of the application's thread: the `host` section of a preset.
//!
//! A call of the driver has the mean cost given by the preset, with a symmetric spread, so that
//! rates follow from the mean. Parts of a call:
//!
//! | call | cost |
//! |---|---|
//! | post of a send | `post_ns`, `inline_ns` per 64 B of inline payload, then the doorbell |
//! | doorbell | `doorbell_ns`, or `push_ns` per 64 B when the WQE goes with it |
//! | post of a receive | `post_receive_ns`, with its doorbell |
//! | poll | `poll_hit_ns` per completion, or `poll_miss_ns` |
//! | poll of memory | `memory_poll_ns` |
//! | arming a CQ for an event | `doorbell_ns` |
//! | sleep until an event | `interrupt_ns` after the MSI-X message; 0 if the event is there |
//! | a system call that does not wait, of a program in simulated time | `syscall_ns` |
//! | a page fault or prefetch of on-demand memory, in simulated time | `page_fault_ns` |
//! | a command of RDMA CM, of a program in simulated time | `cm_command_ns` |
//! | a received datagram of RDMA CM, of a host in simulated time | `cm_mad_ns` |
//! | a contended lock | a queue of the threads that wait for it |

use ferroce_units::Duration;
use ferroce_units::random::Random;

use crate::preset::Preset;

/// Hardware threads of a core if [`Preset::host`] says that they share it.
const THREADS_PER_CORE: u32 = 2;
/// Unit of inline copies and pushes, in bytes.
const BLOCK: u64 = 64;

/// Mean costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Post of one work request, without its doorbell.
    pub post: Duration,
    /// Doorbell.
    pub doorbell: Duration,
    /// Push of one block.
    pub push_block: Duration,
    /// Copy of one block of inline payload.
    pub inline_block: Duration,
    /// Post of one receive.
    pub post_receive: Duration,
    /// Poll, per completion.
    pub poll_hit: Duration,
    /// Poll that finds no completion.
    pub poll_miss: Duration,
    /// One iteration of a loop that polls memory.
    pub memory_poll: Duration,
    /// From the MSI-X message until the sleeping thread runs.
    pub wake_up: Duration,
    /// System call that does not wait.
    pub system_call: Duration,
    /// Page fault of an on-demand region.
    pub page_fault: Duration,
    /// Command of RDMA CM.
    pub cm_command: Duration,
    /// Received datagram of RDMA CM.
    pub cm_mad: Duration,
    /// Uncontended lock.
    pub lock: Duration,
    /// Hand-over of a lock, per waiting thread.
    pub handoff: Duration,
    /// Half width of the spread.
    pub jitter: Duration,
}

/// Converts nanoseconds of a preset to a duration.
pub fn duration(ns: f64) -> Duration {
    Duration::from_ps((ns * 1000.0).round() as u64)
}

impl Costs {
    /// Returns the costs of a preset.
    pub fn new(preset: &Preset) -> Self {
        let host = &preset.host;
        Self {
            post: duration(host.post_ns),
            doorbell: duration(host.doorbell_ns),
            push_block: duration(host.push_ns),
            inline_block: duration(host.inline_ns),
            post_receive: duration(host.post_receive_ns),
            poll_hit: duration(host.poll_hit_ns),
            poll_miss: duration(host.poll_miss_ns),
            memory_poll: duration(host.memory_poll_ns),
            wake_up: duration(host.interrupt_ns),
            system_call: duration(host.syscall_ns),
            page_fault: duration(host.page_fault_ns),
            cm_command: duration(host.cm_command_ns),
            cm_mad: duration(host.cm_mad_ns),
            lock: duration(host.lock_ns),
            handoff: duration(host.lock_handoff_ns),
            jitter: duration(host.jitter_ns),
        }
    }

    /// Returns the costs of thread `number` of `threads` on a host that binds threads to processors
    /// in order, first one to each core.
    pub fn of_thread(preset: &Preset, number: u32, threads: u32) -> Self {
        let costs = Self::new(preset);
        let cores = preset.host.cpus.div_ceil(THREADS_PER_CORE);
        if number >= cores || number + cores < threads {
            costs.scaled(preset.host.shared_core_factor)
        } else {
            costs
        }
    }

    /// Returns the costs with all processor work multiplied by `factor`.
    fn scaled(self, factor: f64) -> Self {
        let scale = |cost: Duration| Duration::from_ps((cost.as_ps() as f64 * factor) as u64);
        Self {
            post: scale(self.post),
            doorbell: scale(self.doorbell),
            push_block: scale(self.push_block),
            inline_block: scale(self.inline_block),
            post_receive: scale(self.post_receive),
            poll_hit: scale(self.poll_hit),
            poll_miss: scale(self.poll_miss),
            memory_poll: scale(self.memory_poll),
            system_call: scale(self.system_call),
            cm_command: scale(self.cm_command),
            lock: scale(self.lock),
            ..self
        }
    }

    /// Returns the cost of posting a work request with `inline` bytes of inline payload.
    pub fn post_of(&self, inline: u64) -> Duration {
        self.post + times(self.inline_block, inline.div_ceil(BLOCK))
    }

    /// Returns the cost of a doorbell, or of a push of `blocks` blocks.
    pub fn doorbell_of(&self, blocks: u64) -> Duration {
        match blocks {
            0 => self.doorbell,
            _ => times(self.push_block, blocks),
        }
    }

    /// Returns the cost of a poll that finds `count` completions.
    pub fn poll_of(&self, count: u64) -> Duration {
        match count {
            0 => self.poll_miss,
            _ => times(self.poll_hit, count),
        }
    }

    /// Returns a random cost, uniform between `mean - jitter` and `mean + jitter`, and never below
    /// zero.
    #[inline]
    pub fn spread(&self, mean: Duration, random: &Random) -> Duration {
        let half = self.jitter.as_ps().min(mean.as_ps());
        if half == 0 {
            return mean;
        }
        Duration::from_ps(mean.as_ps() - half + random.below(2 * half + 1))
    }
}

/// Returns `count` times `each`.
pub fn times(each: Duration, count: u64) -> Duration {
    Duration::from_ps(each.as_ps().saturating_mul(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> Costs {
        let ns = Duration::from_ns;
        Costs {
            post: ns(40),
            doorbell: ns(100),
            push_block: ns(60),
            inline_block: ns(5),
            post_receive: ns(30),
            poll_hit: ns(20),
            poll_miss: ns(10),
            memory_poll: ns(2),
            wake_up: ns(4000),
            system_call: ns(100),
            page_fault: ns(200_000),
            cm_command: ns(2000),
            cm_mad: ns(10_000),
            lock: ns(15),
            handoff: ns(100),
            jitter: ns(8),
        }
    }

    #[test]
    fn costs_of_calls() {
        let costs = costs();
        assert_eq!(costs.post_of(0), Duration::from_ns(40));
        assert_eq!(costs.post_of(64), Duration::from_ns(45));
        assert_eq!(costs.post_of(65), Duration::from_ns(50));
        assert_eq!(costs.doorbell_of(0), Duration::from_ns(100));
        assert_eq!(costs.doorbell_of(3), Duration::from_ns(180));
        assert_eq!(costs.poll_of(0), Duration::from_ns(10));
        assert_eq!(costs.poll_of(16), Duration::from_ns(320));
    }

    /// Goal: threads share cores only if there are more threads than cores, and then in pairs.
    #[test]
    fn threads_beyond_the_cores_share_them() {
        let mut preset = Preset::load("functional").expect("built in");
        for (key, value) in [
            ("host.cpus", "8"),
            ("host.shared_core_factor", "2.5"),
            ("host.post_ns", "40"),
        ] {
            preset.set(key, value).expect("a parameter");
        }
        let posts = |threads: u32| -> Vec<u64> {
            let of = |number| Costs::of_thread(&preset, number, threads).post.as_ns();
            (0..threads).map(of).collect()
        };
        assert_eq!(posts(4), [40; 4]);
        assert_eq!(posts(6), [100, 100, 40, 40, 100, 100]);
        assert_eq!(posts(8), [100; 8]);
    }

    #[test]
    fn spread_keeps_the_mean() {
        let (costs, random) = (costs(), Random::new(1, 1));
        for mean in [Duration::from_ns(40), Duration::from_ns(2)] {
            let half = costs.jitter.as_ps().min(mean.as_ps());
            let samples: Vec<u64> = (0..10_000)
                .map(|_| costs.spread(mean, &random).as_ps())
                .collect();
            let (least, most) = (samples.iter().min(), samples.iter().max());
            assert!(*least.expect("samples") >= mean.as_ps() - half);
            assert!(*most.expect("samples") <= mean.as_ps() + half);
            let average = samples.iter().sum::<u64>() / 10_000;
            assert!(average.abs_diff(mean.as_ps()) < half / 20);
        }
        assert_eq!(costs.spread(Duration::ZERO, &random), Duration::ZERO);
    }
}

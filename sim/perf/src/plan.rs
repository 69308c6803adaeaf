//! One message size, with perftest 4.5's choice for everything that is not specified.

mod check;

use check::{check, invalid};
use ferroce_driver::PathMtu;

use crate::error::Error;
use crate::spec::{Iterations, Operation, PerfSpec, Service, Test, Topology, Workload};

/// Send queue of bandwidth tests (`DEF_TX_BW`), receive queue (`DEF_RX_SEND`), and receive queue of
/// UC and UD, where a message that finds none is lost (`UC_MAX_RX`).
const SEND_DEPTH: u32 = 128;
const RECEIVE_DEPTH: u32 = 512;
const UNRELIABLE_RECEIVE_DEPTH: u32 = 16_000;
/// CQ moderation: one signaled work request in this many (`DEF_CQ_MOD`). Larger messages have none,
/// unless all sizes are run (`MSG_SIZE_CQ_MOD_LIMIT`).
const SIGNAL_EVERY: u32 = 100;
const SIGNAL_LIMIT: u32 = 8192;
/// Local ACK timeout 67 ms (`DEF_QP_TIME`).
const LOCAL_ACK_TIMEOUT: u8 = 14;
/// perftest's `retry_cnt`.
const RETRIES: u8 = 7;
/// Inline payload of latency tests.
const INLINE_WRITE: u32 = 220;
const INLINE_SEND: u32 = 236;
const INLINE_SEND_UD: u32 = 188;
/// With more iterations than this, perftest does not search for the peak.
const MOST_FOR_PEAK: u64 = 20_000;

/// One message size, completely specified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The verb.
    pub operation: Operation,
    /// Bandwidth or latency.
    pub test: Test,
    /// Transport service.
    pub service: Service,
    /// Bytes of a message.
    pub size: u32,
    /// Messages of each QP, at most.
    pub iterations: u64,
    /// True if a bandwidth test ends when the rate is steady.
    pub until_steady: bool,
    /// Threads of a client host.
    pub threads: u32,
    /// QPs of each of them.
    pub qps_per_thread: u32,
    /// Memory regions of each of them.
    pub regions_per_thread: u32,
    /// Send work requests outstanding of a QP (`Batch`, `Window`: of a thread).
    pub depth: u32,
    /// Receive work requests of a QP.
    pub receive_depth: u32,
    /// CQ moderation: one signaled work request in this many.
    pub signal_every: u32,
    /// The longest inline payload.
    pub inline_limit: u32,
    /// Segments of a message's gather list.
    pub segments: u32,
    /// Path MTU.
    pub mtu: PathMtu,
    /// Outstanding READs and atomics of a QP.
    pub outstanding_reads: u8,
    /// Request packets of a QP that may be unacknowledged.
    pub unacknowledged_packets: u32,
    /// Local ACK timeout of a QP: 4.096 us times two to the power of it.
    pub local_ack_timeout: u8,
    /// Retries of a QP after time-outs.
    pub retry_count: u8,
    /// True if threads sleep until there is an event of their CQ.
    pub events: bool,
    /// True if both sides send.
    pub bidirectional: bool,
    /// True if all messages have one target address.
    pub one_address: bool,
    /// True if the peak is computed.
    pub with_peak: bool,
}

impl Plan {
    /// Returns the plan for messages of `size` bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn new(spec: &PerfSpec, size: u32) -> Result<Self, Error> {
        check(spec, size)?;
        let (iterations, until_steady) = match spec.iterations {
            Iterations::Exactly(count) => (count, false),
            Iterations::UntilSteady(count) => (count, spec.test == Test::Bandwidth),
        };
        let least = u32::try_from(iterations).unwrap_or(u32::MAX);
        let depth = spec.depth.unwrap_or(match spec.test {
            Test::Bandwidth => SEND_DEPTH,
            Test::Latency => 1,
        });
        let depth = match spec.workload {
            Workload::Perftest => depth.min(least),
            Workload::Batch | Workload::Window => depth,
        };
        let qps = spec.qps.max(spec.threads);
        Ok(Self {
            operation: spec.operation,
            test: spec.test,
            service: spec.service,
            size,
            iterations,
            until_steady,
            threads: spec.threads,
            qps_per_thread: qps_per_thread(spec, qps),
            regions_per_thread: (spec.memory_regions / spec.threads).max(1),
            depth,
            receive_depth: receive_depth(spec, least),
            signal_every: signal_every(spec, size).min(depth),
            inline_limit: inline_limit(spec),
            segments: spec.segments,
            mtu: mtu(spec)?,
            outstanding_reads: outstanding_reads(spec)?,
            unacknowledged_packets: spec.preset.transport.max_unacknowledged_packets,
            local_ack_timeout: spec.local_ack_timeout.unwrap_or(LOCAL_ACK_TIMEOUT),
            retry_count: spec.retry_count.unwrap_or(RETRIES),
            events: spec.events,
            bidirectional: spec.bidirectional,
            one_address: is_atomic(spec.operation) && spec.atomics.one_address,
            with_peak: iterations <= MOST_FOR_PEAK && spec.threads == 1,
        })
    }

    /// Returns true if post number `index` of `count`, from 0, is signaled.
    #[inline]
    pub fn is_signaled(&self, index: u64, count: u64) -> bool {
        let every = u64::from(self.signal_every);
        index % every == every - 1 || index + 1 == count
    }

    /// Returns true if the payload goes into the WQE.
    pub fn is_inline(&self) -> bool {
        self.segments == 1 && self.size <= self.inline_limit
    }

    /// Returns true if receives are posted.
    pub fn has_receives(&self) -> bool {
        self.operation == Operation::Send
    }

    /// Returns true if half of the measured time is reported.
    pub fn rounds(&self) -> u32 {
        match self.operation {
            Operation::Write | Operation::Send => 2,
            Operation::Read | Operation::FetchAdd | Operation::CompareSwap => 1,
        }
    }

    /// Returns true for atomics.
    pub fn is_atomic(&self) -> bool {
        is_atomic(self.operation)
    }
}

fn is_atomic(operation: Operation) -> bool {
    matches!(operation, Operation::FetchAdd | Operation::CompareSwap)
}

fn qps_per_thread(spec: &PerfSpec, qps: u32) -> u32 {
    match spec.topology {
        Topology::AllToAll {
            hosts,
            virtual_machines,
        } => hosts * virtual_machines,
        _ => qps / spec.threads,
    }
}

fn receive_depth(spec: &PerfSpec, iterations: u32) -> u32 {
    let default = match spec.service {
        Service::Rc => RECEIVE_DEPTH,
        Service::Uc | Service::Ud => UNRELIABLE_RECEIVE_DEPTH,
    };
    spec.receive_depth.unwrap_or(default).min(iterations).max(1)
}

fn signal_every(spec: &PerfSpec, size: u32) -> u32 {
    let is_large = size > SIGNAL_LIMIT && !spec.all_sizes && spec.service != Service::Ud;
    match (spec.signal_every, spec.test, spec.workload) {
        (Some(every), ..) => every,
        (None, Test::Bandwidth, Workload::Perftest) if !is_large => SIGNAL_EVERY,
        _ => 1,
    }
}

fn inline_limit(spec: &PerfSpec) -> u32 {
    if spec.segments > 1 {
        return 0;
    }
    let default = match (spec.test, spec.operation, spec.service) {
        (Test::Latency, Operation::Write, _) => INLINE_WRITE,
        (Test::Latency, Operation::Send, Service::Ud) => INLINE_SEND_UD,
        (Test::Latency, Operation::Send, _) => INLINE_SEND,
        _ => 0,
    };
    match spec.operation {
        Operation::Write | Operation::Send => {
            let wanted = spec.inline_bytes.unwrap_or(default);
            wanted.min(spec.preset.host.max_inline_bytes)
        }
        _ => 0,
    }
}

fn mtu(spec: &PerfSpec) -> Result<PathMtu, Error> {
    let bytes = spec
        .mtu_bytes
        .unwrap_or(spec.preset.transport.path_mtu_bytes);
    PathMtu::ALL
        .into_iter()
        .find(|mtu| mtu.bytes() == bytes)
        .ok_or_else(|| invalid("--mtu", bytes, "256, 512, 1024, 2048 or 4096"))
}

fn outstanding_reads(spec: &PerfSpec) -> Result<u8, Error> {
    let reads = spec.preset.transport.max_outstanding_reads;
    let reads = spec.outstanding_reads.unwrap_or(reads);
    u8::try_from(reads)
        .ok()
        .filter(|reads| *reads > 0)
        .ok_or_else(|| invalid("--outstanding-reads", reads, "1 to 255"))
}

#[cfg(test)]
mod tests {
    use ferroce_model::preset::Preset;

    use super::*;

    fn spec(operation: Operation, test: Test) -> PerfSpec {
        let mut preset = Preset::load("functional").expect("built in");
        preset
            .set("host.max_inline_bytes", "512")
            .expect("a parameter");
        preset.set("host.cpus", "8").expect("a parameter");
        PerfSpec::new(preset, operation, test)
    }

    fn plan(spec: &PerfSpec) -> Plan {
        Plan::new(spec, spec.sizes[0]).expect("legal")
    }

    #[test]
    fn defaults_are_those_of_perftest() {
        let write = plan(&spec(Operation::Write, Test::Bandwidth));
        assert_eq!(
            (write.size, write.iterations, write.depth),
            (65_536, 5000, 128)
        );
        assert_eq!(
            (write.signal_every, write.inline_limit),
            (1, 0),
            "large: each"
        );
        let all = spec(Operation::Write, Test::Bandwidth).all_sizes();
        assert_eq!((all.sizes.len(), all.sizes[22]), (23, 8 << 20));
        assert_eq!(Plan::new(&all, 8 << 20).expect("legal").signal_every, 100);
        let read = plan(&spec(Operation::Read, Test::Bandwidth));
        assert_eq!((read.iterations, read.rounds()), (1000, 1));
        let send = plan(&spec(Operation::Send, Test::Latency));
        assert_eq!((send.size, send.depth, send.signal_every), (2, 1, 1));
        assert_eq!((send.inline_limit, send.receive_depth), (236, 512));
        let latency = plan(&spec(Operation::Write, Test::Latency));
        assert_eq!((latency.inline_limit, latency.iterations), (220, 1000));
    }

    #[test]
    fn queues_are_not_longer_than_the_test() {
        let mut short = spec(Operation::Send, Test::Bandwidth);
        short.iterations = Iterations::Exactly(50);
        let short = plan(&short);
        assert_eq!(
            (short.depth, short.receive_depth, short.signal_every),
            (50, 50, 1)
        );
    }

    #[test]
    fn inline_is_bounded_by_the_preset() {
        let mut small = spec(Operation::Write, Test::Latency);
        small
            .preset
            .set("host.max_inline_bytes", "60")
            .expect("a parameter");
        assert_eq!(plan(&small).inline_limit, 60);
        small.inline_bytes = Some(10);
        assert_eq!(plan(&small).inline_limit, 10);
    }

    #[test]
    fn completions_are_asked_for_as_perftest_does() {
        let mut small = spec(Operation::Write, Test::Bandwidth);
        small.sizes = vec![8];
        let plan = plan(&small);
        let signaled: Vec<u64> = (0..450).filter(|&i| plan.is_signaled(i, 450)).collect();
        assert_eq!(signaled, [99, 199, 299, 399, 449]);
    }

    #[test]
    fn invalid_parts_are_refused_by_name() {
        let refused = |change: &dyn Fn(&mut PerfSpec), what: &str| {
            let mut bad = spec(Operation::Write, Test::Bandwidth);
            change(&mut bad);
            let error = Plan::new(&bad, bad.sizes[0]).expect_err(what).to_string();
            assert!(error.starts_with(what), "{error}");
        };
        refused(&|s| s.sizes = vec![0], "--size 0");
        refused(&|s| s.qps = 0, "--qps 0");
        refused(&|s| s.local_ack_timeout = Some(32), "--qp-timeout 32");
        refused(&|s| s.retry_count = Some(8), "--retry-count 8");
        refused(
            &|s| s.threads = 9,
            "--threads 9: the host of the preset has 8",
        );
        refused(&|s| s.mtu_bytes = Some(1500), "--mtu 1500: 256, 512");
        refused(
            &|s| s.service = Service::Ud,
            "--connection UD: this operation has RC, UC",
        );
        refused(
            &|s| (s.qps, s.threads) = (3, 2),
            "--qps 3: a multiple of the 2",
        );
        refused(
            &|s| s.operation = Operation::FetchAdd,
            "--size 65536: an atomic",
        );
        refused(&|s| s.iterations = Iterations::Exactly(1), "--iterations 1");
        refused(
            &|s| s.sharing.threads_per_qp = 2,
            "--share qp: needs --loop batch",
        );
        refused(&|s| s.topology = Topology::Clients(0), "--hosts 1");
        refused(&|s| s.segments = 0, "--sge 0: 1 to 16");
        refused(&|s| s.segments = 17, "--sge 17: 1 to 16");
        refused(
            &|s| (s.segments, s.sizes) = (4, vec![3]),
            "--sge 4: a message of 3 B",
        );
        refused(
            &|s| (s.segments, s.inline_bytes) = (2, Some(64)),
            "--inline 64: a gather list",
        );
        refused(
            &|s| (s.operation, s.sizes, s.segments) = (Operation::FetchAdd, vec![8], 2),
            "--sge 2: an atomic has one",
        );
        refused(&|s| s.offset_bytes = 4096, "--align 4096: below 4096");
        refused(
            &|s| (s.operation, s.sizes, s.offset_bytes) = (Operation::FetchAdd, vec![8], 4),
            "--align 4: a multiple of 8",
        );
        refused(
            &|s| (s.events, s.test) = (true, Test::Latency),
            "--events of write_lat: it polls memory",
        );
    }
}

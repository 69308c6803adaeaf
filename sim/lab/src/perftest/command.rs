//! A specification as command lines of perftest.

use ferroce_perf::{
    Atomics, Iterations, Operation, PageSize, PerfSpec, Placement, Service, Sharing, Test,
    Topology, Workload,
};

/// Base-2 logarithm of the largest size of perftest's `-a`.
const LOG_LAST_SIZE: u32 = 23;
/// The same over UD.
const LOG_LAST_DATAGRAM: u32 = 12;

/// One run of a pair of programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The program: `ib_write_bw`.
    pub program: String,
    /// Options of both sides.
    pub arguments: Vec<String>,
}

/// Returns the runs that measure `spec`: one with `-a`, or one for each size.
///
/// # Errors
/// The part of `spec` that perftest does not support.
pub fn runs(spec: &PerfSpec) -> Result<Vec<Run>, String> {
    check(spec)?;
    let program = program(spec);
    let run = |sizes: &[String]| Run {
        program: program.clone(),
        arguments: [&options(spec)[..], sizes].concat(),
    };
    if spec.all_sizes && is_all(spec) {
        return Ok(vec![run(&["-a".to_owned()])]);
    }
    let sizes = spec.sizes.iter();
    Ok(if is_atomic(spec) {
        vec![run(&[])]
    } else {
        sizes
            .map(|size| run(&["-s".to_owned(), size.to_string()]))
            .collect()
    })
}

fn check(spec: &PerfSpec) -> Result<(), String> {
    let refused = |what: &str| Err(format!("perftest has no {what}; `ferroce perf` has"));
    if spec.workload != Workload::Perftest || spec.sharing != Sharing::default() {
        return refused("other loop than its own, and shares nothing between threads");
    }
    if spec.threads != 1 || spec.topology != Topology::Pair {
        return refused("threads, and no more than two hosts");
    }
    if spec.memory_regions != 1 || spec.page_size != PageSize::Small {
        return refused("choice of memory regions and their pages");
    }
    if spec.segments != 1 || spec.offset_bytes != 0 {
        return refused("--sge and --align");
    }
    if spec.placement != Placement::default() {
        return refused("choice of the memory of a topology");
    }
    if spec.atomics != Atomics::default() || spec.region_bytes.is_some() {
        return refused("choice of where atomics go");
    }
    match spec.iterations {
        Iterations::UntilSteady(_) => refused("`-n auto`: give a number"),
        Iterations::Exactly(_) => Ok(()),
    }
}

fn is_all(spec: &PerfSpec) -> bool {
    let last = match spec.service {
        Service::Ud => LOG_LAST_DATAGRAM,
        _ => LOG_LAST_SIZE,
    };
    spec.sizes
        .iter()
        .copied()
        .eq((1..=last).map(|log| 1 << log))
}

fn is_atomic(spec: &PerfSpec) -> bool {
    matches!(spec.operation, Operation::FetchAdd | Operation::CompareSwap)
}

fn program(spec: &PerfSpec) -> String {
    let verb = match spec.operation {
        Operation::Write => "write",
        Operation::Read => "read",
        Operation::Send => "send",
        Operation::FetchAdd | Operation::CompareSwap => "atomic",
    };
    let test = match spec.test {
        Test::Bandwidth => "bw",
        Test::Latency => "lat",
    };
    format!("ib_{verb}_{test}")
}

/// Returns the messages of each QP.
pub fn iterations(spec: &PerfSpec) -> u64 {
    let (Iterations::Exactly(count) | Iterations::UntilSteady(count)) = spec.iterations;
    count
}

/// Returns all options but the sizes.
fn options(spec: &PerfSpec) -> Vec<String> {
    let mut options = vec!["-F".to_owned()];
    let mut option = |name: &str, value: Option<u64>| {
        options.extend(
            value
                .map(|value| [name.to_owned(), value.to_string()])
                .into_iter()
                .flatten(),
        );
    };
    option("-n", Some(iterations(spec)));
    option("-q", (spec.qps > 1).then_some(spec.qps.into()));
    option("-t", spec.depth.map(u64::from));
    option("-r", spec.receive_depth.map(u64::from));
    option("-I", spec.inline_bytes.map(u64::from));
    option("-Q", spec.signal_every.map(u64::from));
    option("-m", spec.mtu_bytes.map(u64::from));
    option("-o", spec.outstanding_reads.map(u64::from));
    option("-u", spec.local_ack_timeout.map(u64::from));
    let service = match spec.service {
        Service::Rc => None,
        other => Some(other.name()),
    };
    options.extend(
        service
            .map(|name| ["-c".to_owned(), name.to_owned()])
            .into_iter()
            .flatten(),
    );
    if spec.operation == Operation::CompareSwap {
        options.extend(["-A", "CMP_AND_SWAP"].map(str::to_owned));
    }
    if spec.events {
        options.push("-e".to_owned());
    }
    if spec.bidirectional {
        options.push("-b".to_owned());
    }
    options
}

#[cfg(test)]
mod tests {
    use ferroce_model::preset::Preset;

    use super::*;

    fn spec(operation: Operation, test: Test) -> PerfSpec {
        PerfSpec::new(
            Preset::load("functional").expect("built in"),
            operation,
            test,
        )
    }

    fn lines(spec: &PerfSpec) -> Vec<String> {
        let line = |run: Run| format!("{} {}", run.program, run.arguments.join(" "));
        runs(spec)
            .expect("perftest has it")
            .into_iter()
            .map(line)
            .collect()
    }

    #[test]
    fn a_specification_becomes_a_command() {
        let plain = spec(Operation::Write, Test::Bandwidth);
        assert_eq!(lines(&plain), ["ib_write_bw -F -n 5000 -s 65536"]);
        let all = spec(Operation::Send, Test::Latency).all_sizes();
        assert_eq!(lines(&all), ["ib_send_lat -F -n 1000 -a"]);
        let mut more = spec(Operation::Read, Test::Bandwidth);
        more.sizes = vec![64, 4096];
        more.all_sizes = true;
        (more.qps, more.depth, more.outstanding_reads) = (8, Some(16), Some(4));
        (more.events, more.bidirectional, more.mtu_bytes) = (true, true, Some(1024));
        more.local_ack_timeout = Some(10);
        let options = "ib_read_bw -F -n 1000 -q 8 -t 16 -m 1024 -o 4 -u 10 -e -b -s";
        assert_eq!(
            lines(&more),
            [format!("{options} 64"), format!("{options} 4096")]
        );
        let atomic = spec(Operation::CompareSwap, Test::Latency);
        assert_eq!(lines(&atomic), ["ib_atomic_lat -F -n 1000 -A CMP_AND_SWAP"]);
    }

    #[test]
    fn what_perftest_has_not_is_refused_by_name() {
        let refused = |change: &dyn Fn(&mut PerfSpec), what: &str| {
            let mut spec = spec(Operation::Write, Test::Bandwidth);
            change(&mut spec);
            let error = runs(&spec).expect_err(what);
            assert!(error.contains(what), "{error}");
        };
        refused(&|spec| spec.threads = 2, "threads");
        refused(&|spec| spec.workload = Workload::Batch, "loop");
        refused(&|spec| spec.page_size = PageSize::Huge2M, "pages");
        refused(&|spec| spec.segments = 2, "--sge");
        refused(&|spec| spec.atomics.one_address = true, "atomics");
        refused(
            &|spec| spec.iterations = Iterations::UntilSteady(5000),
            "-n auto",
        );
    }
}

//! Everything that went in and came out, as JSON: keys always in the same order, times in whole
//! picoseconds, the same bytes for the same preset and seed on every machine.

use ferroce_model::preset::Value;
use ferroce_world::trace::explain::Explanation;

use crate::perf::plan::Plan;
use crate::perf::result::{BandwidthRow, LatencyRow, PerfRow};
use crate::perf::spec::{Iterations, Operation, PageSize, PerfSpec, Test, Topology};
use crate::report::json::Json;

/// A measured row, and its specification.
pub struct Measured<'a> {
    /// The specification.
    pub spec: &'a PerfSpec,
    /// The swept parameters: names and values.
    pub point: &'a [(String, String)],
    /// The result.
    pub row: &'a PerfRow,
}

/// Returns the document of a run.
pub fn document(rows: &[Measured<'_>]) -> Json {
    Json::Object(vec![
        ("program", "ferroce perf".into()),
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("rows", Json::list(rows.iter().map(measured))),
    ])
}

/// Returns the document of one measurement, with where the time of its last message went.
pub fn explained(row: &Measured<'_>, explanation: &Explanation) -> Json {
    let parts = explanation.rows.iter().map(|part| {
        Json::Object(vec![
            ("start_ps", (part.start - explanation.start).as_ps().into()),
            ("time_ps", part.time.as_ps().into()),
            ("host", (part.host as u64).into()),
            ("what", part.what.as_str().into()),
            ("bound_by", part.bound.into()),
            ("count", part.count.into()),
        ])
    });
    let Json::Object(mut pairs) = document(std::slice::from_ref(row)) else {
        return Json::Null;
    };
    pairs.push((
        "explanation",
        Json::Object(vec![
            ("total_ps", explanation.total().as_ps().into()),
            ("parts", Json::list(parts)),
        ]),
    ));
    Json::Object(pairs)
}

fn measured(measured: &Measured<'_>) -> Json {
    let point = measured
        .point
        .iter()
        .map(|(key, value)| (key.clone(), value.as_str().into()));
    let row = measured.row;
    Json::Object(vec![
        ("point", Json::Map(point.collect())),
        ("specification", specification(measured.spec, row.size)),
        ("preset", preset(measured.spec)),
        ("result", result(row)),
        (
            "counters",
            Json::list(row.counters.iter().map(|host| counters(host))),
        ),
    ])
}

fn specification(spec: &PerfSpec, size: u32) -> Json {
    let mut pairs = vec![
        ("operation", operation(spec.operation).into()),
        ("test", test(spec.test).into()),
        ("workload", spec.workload.name().into()),
        ("seed", spec.seed.into()),
        ("hosts", topology(spec.topology)),
        ("page_size", page_size(spec.page_size).into()),
        (
            "until_steady",
            Json::Bool(matches!(spec.iterations, Iterations::UntilSteady(_))),
        ),
        (
            "switched",
            Json::Bool(spec.switched.unwrap_or(spec.preset.link.switched)),
        ),
        ("threads_per_qp", number(spec.sharing.threads_per_qp)),
        (
            "doorbells",
            number(spec.sharing.doorbells.unwrap_or(spec.preset.host.doorbells)),
        ),
        (
            "region_bytes",
            spec.region_bytes.map_or(Json::Null, Json::Whole),
        ),
        ("one_address", Json::Bool(spec.atomics.one_address)),
        ("device_memory", Json::Bool(spec.atomics.device_memory)),
    ];
    // A row exists, so that there is a plan.
    if let Ok(plan) = Plan::new(spec, size) {
        pairs.extend(planned(&plan));
    }
    Json::Object(pairs)
}

fn planned(plan: &Plan) -> Vec<(&'static str, Json)> {
    vec![
        ("size", number(plan.size)),
        ("service", plan.service.name().into()),
        ("iterations", plan.iterations.into()),
        ("threads", number(plan.threads)),
        ("qps_per_thread", number(plan.qps_per_thread)),
        ("memory_regions_per_thread", number(plan.regions_per_thread)),
        ("depth", number(plan.depth)),
        ("receive_depth", number(plan.receive_depth)),
        ("signal_every", number(plan.signal_every)),
        ("inline_limit", number(plan.inline_limit)),
        ("mtu", number(plan.mtu.bytes())),
        ("outstanding_reads", number(plan.outstanding_reads)),
        ("bidirectional", Json::Bool(plan.bidirectional)),
        ("events", Json::Bool(plan.events)),
    ]
}

fn preset(spec: &PerfSpec) -> Json {
    let parameters = spec.preset.parameters().map(|parameter| {
        let value = match parameter.value {
            Value::Real(value) => Json::Number(value),
            Value::Count(value) => number(value),
            Value::Flag(value) => Json::Bool(value),
        };
        (parameter.key, value)
    });
    Json::Object(vec![
        ("name", spec.preset.name().into()),
        ("hash", Json::Text(format!("{:016x}", spec.preset.hash()))),
        ("parameters", Json::Map(parameters.collect())),
    ])
}

fn result(row: &PerfRow) -> Json {
    Json::Object(vec![
        ("iterations", row.iterations.into()),
        ("ended_early", Json::Bool(row.ended_early)),
        (
            "bandwidth",
            row.bandwidth.as_ref().map_or(Json::Null, bandwidth),
        ),
        ("latency", row.latency.as_ref().map_or(Json::Null, latency)),
        ("simulated_ps", row.simulated_ps.into()),
        ("events", row.events.into()),
    ])
}

fn bandwidth(row: &BandwidthRow) -> Json {
    Json::Object(vec![
        ("messages", row.messages.into()),
        ("elapsed_ps", row.elapsed_ps.into()),
        ("peak_mib_per_s", row.peak_mib_per_s.into()),
        ("average_mib_per_s", row.average_mib_per_s.into()),
        ("average_gbps", row.average_gbps().into()),
        ("message_rate_mpps", row.message_rate_mpps.into()),
    ])
}

fn latency(row: &LatencyRow) -> Json {
    Json::Object(vec![
        ("min_us", row.min_us.into()),
        ("max_us", row.max_us.into()),
        ("typical_us", row.typical_us.into()),
        ("average_us", row.average_us.into()),
        ("stdev_us", row.stdev_us.into()),
        ("p99_us", row.p99_us.into()),
        ("p999_us", row.p999_us.into()),
        (
            "round_trips_ps",
            Json::list(row.samples_ps.iter().map(|&sample| sample.into())),
        ),
    ])
}

fn counters(host: &[(&'static str, u64)]) -> Json {
    Json::Object(
        host.iter()
            .map(|&(name, value)| (name, value.into()))
            .collect(),
    )
}

fn number(value: impl Into<u64>) -> Json {
    Json::Whole(value.into())
}

fn operation(operation: Operation) -> &'static str {
    match operation {
        Operation::Write => "write",
        Operation::Read => "read",
        Operation::Send => "send",
        Operation::FetchAdd => "fetch_add",
        Operation::CompareSwap => "compare_swap",
    }
}

fn test(test: Test) -> &'static str {
    match test {
        Test::Bandwidth => "bandwidth",
        Test::Latency => "latency",
    }
}

fn page_size(page_size: PageSize) -> &'static str {
    match page_size {
        PageSize::Small => "4K",
        PageSize::Huge2M => "2M",
        PageSize::Huge1G => "1G",
        PageSize::Physical => "physical",
    }
}

fn topology(topology: Topology) -> Json {
    let (kind, hosts) = match topology {
        Topology::Pair => ("pair", 2),
        Topology::Clients(clients) => ("clients", clients + 1),
        Topology::AllToAll { hosts, .. } => ("all to all", hosts),
        Topology::Loopback => ("loopback", 1),
    };
    Json::Object(vec![("kind", kind.into()), ("count", number(hosts))])
}

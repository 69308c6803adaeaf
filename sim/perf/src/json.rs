//! Parameters and results as JSON: keys always in the same order, times in whole picoseconds, the
//! same bytes for the same preset and seed on every machine.

mod traffic_json;

use ferroce_model::preset;
use ferroce_world::trace::explain::Explanation;
use serde_json::{Map, Value, json};

use crate::plan::Plan;
use crate::result::{BandwidthRow, LatencyRow, PerfRow};
use crate::spec::{Iterations, Operation, PageSize, PerfSpec, Placement, Test, Topology};
use crate::utilisation::{Bottleneck, Part};

/// A measured row, and its specification.
pub struct Measured<'a> {
    /// The specification.
    pub spec: &'a PerfSpec,
    /// The swept parameters: names and values.
    pub point: &'a [(String, String)],
    /// The result.
    pub row: &'a PerfRow,
}

/// Returns the rows of a run.
pub fn rows(rows: &[Measured<'_>]) -> Value {
    rows.iter().map(row).collect()
}

/// Returns the steps of the last message with their times.
pub fn explanation(explanation: &Explanation) -> Value {
    let parts = explanation.rows.iter().map(|part| {
        json!({
            "start_ps": (part.start - explanation.start).as_ps(),
            "time_ps": part.time.as_ps(),
            "host": part.host,
            "what": part.what,
            "bound_by": part.bound,
            "count": part.count,
        })
    });
    json!({
        "total_ps": explanation.total().as_ps(),
        "parts": parts.collect::<Value>(),
    })
}

/// Returns a row with its specification.
pub fn row(measured: &Measured<'_>) -> Value {
    let row = measured.row;
    let mut value = json!({
        "point": measured.point.iter().cloned().collect::<Value>(),
        "specification": specification(measured.spec, row.size),
        "preset": preset(measured.spec),
        "result": result(row),
        "bottleneck": row.utilisation.as_ref().map(|it| bottleneck(&it.bottleneck)),
        "utilisation": row.utilisation.as_ref().map(|it| utilisation(&it.parts)),
        "counters": row.counters.iter().map(|host| counters(host)).collect::<Value>(),
    });
    if let Some(traffic) = &row.traffic {
        value["traffic"] = traffic_json::value(traffic);
    }
    value
}

fn specification(spec: &PerfSpec, size: u32) -> Value {
    let mut specification = json!({
        "operation": operation(spec.operation),
        "test": test(spec.test),
        "workload": spec.workload.name(),
        "seed": spec.seed,
        "hosts": topology(spec.topology),
        "page_size": page_size(spec.page_size),
        "until_steady": matches!(spec.iterations, Iterations::UntilSteady(_)),
        "switched": spec.switched.unwrap_or(spec.preset.link.switched),
        "threads_per_qp": spec.sharing.threads_per_qp,
        "doorbells": spec.sharing.doorbells.unwrap_or(spec.preset.host.doorbells),
        "region_bytes": spec.region_bytes,
        "align": spec.offset_bytes,
        "one_address": spec.atomics.one_address,
        "device_memory": spec.atomics.device_memory,
    });
    if let Some(timeout) = spec.local_ack_timeout {
        specification["local_ack_timeout"] = timeout.into();
    }
    if let Some(retries) = spec.retry_count {
        specification["retry_count"] = retries.into();
    }
    let placement = &spec.placement;
    if *placement != Placement::default() {
        let memory = placement.named();
        let memory = memory.map(|(what, memory)| (what.to_owned(), memory.into()));
        specification["memory"] = Value::Object(memory.collect());
        specification["relaxed_order"] = placement.relaxed_order.into();
        specification["cards"] = placement.cards.max(1).into();
    }
    if let Some(faults) = &spec.faults {
        specification["faults"] = faults.to_string().into();
    }
    if let Some(fabric) = &spec.fabric {
        specification["fabric"] = json!({
            "switches": fabric.switches.len(),
            "links": fabric.links.len(),
            "congestion_control": fabric.congestion.is_some(),
        });
    }
    // A row exists, so `Plan::new` has succeeded for this size.
    if let Ok(plan) = Plan::new(spec, size) {
        for (key, value) in planned(&plan) {
            specification[key] = value;
        }
    }
    specification
}

fn planned(plan: &Plan) -> [(&'static str, Value); 15] {
    [
        ("size", plan.size.into()),
        ("service", plan.service.name().into()),
        ("iterations", plan.iterations.into()),
        ("threads", plan.threads.into()),
        ("qps_per_thread", plan.qps_per_thread.into()),
        ("memory_regions_per_thread", plan.regions_per_thread.into()),
        ("depth", plan.depth.into()),
        ("receive_depth", plan.receive_depth.into()),
        ("signal_every", plan.signal_every.into()),
        ("inline_limit", plan.inline_limit.into()),
        ("sge", plan.segments.into()),
        ("mtu", plan.mtu.bytes().into()),
        ("outstanding_reads", plan.outstanding_reads.into()),
        ("bidirectional", plan.bidirectional.into()),
        ("events", plan.events.into()),
    ]
}

/// Returns the value of a parameter as JSON.
pub fn parameter_value(value: preset::Value) -> Value {
    match value {
        preset::Value::Real(real) => real.into(),
        preset::Value::Count(count) => count.into(),
        preset::Value::Flag(flag) => flag.into(),
        preset::Value::Name(name) => name.into(),
    }
}

fn preset(spec: &PerfSpec) -> Value {
    let parameters = spec
        .preset
        .parameters()
        .map(|parameter| (parameter.key, parameter_value(parameter.value)));
    json!({
        "name": spec.preset.name(),
        "hash": format!("{:016x}", spec.preset.hash()),
        "parameters": parameters.collect::<Map<_, _>>(),
    })
}

fn result(row: &PerfRow) -> Value {
    json!({
        "iterations": row.iterations,
        "ended_early": row.ended_early,
        "bandwidth": row.bandwidth.as_ref().map(bandwidth),
        "latency": row.latency.as_ref().map(latency),
        "simulated_ps": row.simulated_ps,
        "events": row.events,
    })
}

/// Returns the bottleneck: a part, or the time of a request.
fn bottleneck(bottleneck: &Bottleneck) -> Value {
    let mut value = part(bottleneck.busiest());
    value["text"] = bottleneck.to_string().into();
    if let Bottleneck::Latency { window, .. } = bottleneck {
        value["limit"] = "latency".into();
        value["outstanding"] = window.count.into();
        value["outstanding_of"] = window.of.into();
        value["outstanding_by"] = window.by.into();
    } else {
        value["limit"] = "part".into();
    }
    value
}

/// Returns the use of the parts.
fn utilisation(parts: &[Part]) -> Value {
    let used = parts.iter().filter(|part| part.share > 0.0);
    used.map(part).collect()
}

fn part(part: &Part) -> Value {
    let mut value = json!({
        "host": part.host,
        "part": part.name,
        "kind": part.kind.name(),
        "share": part.share,
    });
    if let Some(unit) = part.unit {
        value["unit"] = unit.into();
    }
    value
}

fn bandwidth(row: &BandwidthRow) -> Value {
    json!({
        "messages": row.messages,
        "elapsed_ps": row.elapsed_ps,
        "peak_mib_per_s": row.peak_mib_per_s,
        "average_mib_per_s": row.average_mib_per_s,
        "average_gbps": row.average_gbps(),
        "message_rate_mpps": row.message_rate_mpps,
    })
}

fn latency(row: &LatencyRow) -> Value {
    json!({
        "min_us": row.min_us,
        "max_us": row.max_us,
        "typical_us": row.typical_us,
        "average_us": row.average_us,
        "stdev_us": row.stdev_us,
        "p99_us": row.p99_us,
        "p999_us": row.p999_us,
        "round_trips_ps": row.samples_ps,
    })
}

fn counters(host: &[(&'static str, u64)]) -> Value {
    host.iter().copied().collect()
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

fn topology(topology: Topology) -> Value {
    let (kind, hosts) = match topology {
        Topology::Pair => ("pair", 2),
        Topology::Clients(clients) => ("clients", clients + 1),
        Topology::AllToAll { hosts, .. } => ("all to all", hosts),
        Topology::Flows { hosts, pattern } => (pattern.name(), hosts),
        Topology::Loopback => ("loopback", 1),
    };
    json!({ "kind": kind, "count": hosts })
}

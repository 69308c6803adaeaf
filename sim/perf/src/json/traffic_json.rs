//! Flows and the fabric between them as JSON.

use ferroce_world::{FabricNode, FabricReport, PortReport};
use serde_json::{Value, json};

use crate::traffic::{Flow, Queue, Traffic};

/// Returns rates, fairness and queues of the flows.
pub fn value(traffic: &Traffic) -> Value {
    json!({
        "flows": traffic.flows.iter().map(flow).collect::<Value>(),
        "window_start_ps": traffic.window_ps.0,
        "window_end_ps": traffic.window_ps.1,
        "utilisation": traffic.utilisation,
        "jain": traffic.jain,
        "least_of_most": traffic.least_of_most,
        "completion_p50_ps": traffic.completion_ps.0,
        "completion_p99_ps": traffic.completion_ps.1,
        "queue": traffic.queue.as_ref().map(queue),
        "fabric": traffic.fabric.as_ref().map(fabric),
        "course": {
            "start_ps": traffic.course.start_ps,
            "interval_ps": traffic.course.interval_ps,
            "flows_gbps": traffic.course.flows_gbps,
            "queue_bytes": traffic.course.queue_bytes,
        },
    })
}

fn flow(flow: &Flow) -> Value {
    json!({
        "from": flow.from,
        "to": flow.to,
        "gbps": flow.gbps,
        "completion_ps": flow.completion_ps,
    })
}

fn queue(queue: &Queue) -> Value {
    json!({
        "from": node(queue.port.0),
        "to": node(queue.port.1),
        "most_bytes": queue.most_bytes,
        "mean_bytes": queue.mean_bytes,
    })
}

fn fabric(fabric: &FabricReport) -> Value {
    json!({
        "sent_frames": fabric.sent,
        "delivered_frames": fabric.delivered,
        "dropped_frames": fabric.dropped,
        "frames_inside": fabric.inside,
        "ports": fabric.ports.iter().map(port).collect::<Value>(),
    })
}

fn port(port: &PortReport) -> Value {
    json!({
        "from": node(port.from),
        "to": node(port.to),
        "rate_gbps": port.rate_gbps,
        "frames": port.frames,
        "bytes": port.bytes,
        "marked_frames": port.marked,
        "queue_drops": port.queue_drops,
        "headroom_drops": port.headroom_drops,
        "pause_frames": port.pauses,
        "paused_ps": port.paused.as_ps(),
        "queue_most_bytes": port.queue_most_bytes,
        "headroom_most_bytes": port.headroom_most_bytes,
    })
}

/// Returns the name of a node: a host as in `--host`, a switch by its index in the file.
fn node(node: FabricNode) -> String {
    match node {
        FabricNode::Host(host) => format!("n{host}"),
        FabricNode::Switch(switch) => format!("switch {switch}"),
    }
}

//! Checks of a specification; an error lists the permitted values.

use ferroce_spec::wqe::MAX_DATA_SEGMENTS;

use crate::error::Error;
use crate::plan::{SEND_DEPTH, is_atomic, mtu};
use crate::region::{BATCH_REGION, LINE, PAGE, WINDOW_REGION};
use crate::spec::{Iterations, Operation, PerfSpec, Service, Sharing, Test, Topology, Workload};

/// Longest message (IBTA: 2^31; half of it leaves room for both halves of a buffer).
const LONGEST_MESSAGE: u32 = 1 << 30;
/// Maximum number of work requests of a queue in a plan.
const DEEPEST: u32 = 1 << 15;

/// Maximum number of segments of a gather list.
const MOST_SEGMENTS: u32 = MAX_DATA_SEGMENTS as u32;
/// Alignment of atomics: they access eight bytes at a multiple of eight.
const ATOMIC_ALIGNMENT: u32 = 8;
/// The largest local ACK timeout: a field of five bits.
const LONGEST_TIMEOUT: u8 = 31;
/// Maximum `retry_cnt`: three bits.
const MOST_RETRIES: u8 = 7;

/// Returns an error that names a part of a specification.
pub(super) fn invalid(
    what: &'static str,
    value: impl ToString,
    reason: impl Into<String>,
) -> Error {
    Error::Invalid {
        what,
        value: value.to_string(),
        reason: reason.into(),
    }
}

/// Refuses specifications that cannot be measured.
pub(super) fn check(spec: &PerfSpec, size: u32) -> Result<(), Error> {
    check_service(spec)?;
    check_size(spec, size)?;
    check_counts(spec)?;
    check_memory(spec, size)?;
    check_events(spec)?;
    check_topology(spec)?;
    check_region(spec, size)
}

/// Checks that each thread finds room in the region that `Batch` and `Window` access.
fn check_region(spec: &PerfSpec, size: u32) -> Result<(), Error> {
    let (size, depth) = (u64::from(size), u64::from(spec.depth.unwrap_or(SEND_DEPTH)));
    let threads = u64::from(spec.threads);
    let (region, needed, reason) = match spec.workload {
        Workload::Perftest => return Ok(()),
        Workload::Batch if spec.atomics.one_address => return Ok(()),
        Workload::Batch => {
            let region = if spec.atomics.device_memory {
                PAGE
            } else {
                spec.region_bytes.unwrap_or(BATCH_REGION)
            };
            let reason = format!("each of the {threads} threads has a part of it");
            (region, threads * size, reason)
        }
        Workload::Window => {
            let head = (depth * size).next_multiple_of(LINE);
            let reason = format!("a thread has --depth {depth} own messages in front");
            (
                spec.region_bytes.unwrap_or(WINDOW_REGION),
                head + size,
                reason,
            )
        }
    };
    if region < needed {
        let reason = format!("{reason}; {size} B need at least {needed} bytes");
        Err(invalid("--region", region, reason))
    } else {
        Ok(())
    }
}

fn check_size(spec: &PerfSpec, size: u32) -> Result<(), Error> {
    if is_atomic(spec.operation) && size != 8 {
        return Err(invalid("--size", size, "an atomic has 8 bytes"));
    }
    if size == 0 || size > LONGEST_MESSAGE {
        let reason = format!("1 to {LONGEST_MESSAGE} bytes");
        return Err(invalid("--size", size, reason));
    }
    let mtu = mtu(spec)?.bytes();
    if spec.service == Service::Ud && size > mtu {
        let reason = format!("a datagram has no more than the MTU of {mtu} bytes");
        return Err(invalid("--size", size, reason));
    }
    Ok(())
}

fn check_service(spec: &PerfSpec) -> Result<(), Error> {
    let permitted: &[Service] = match spec.operation {
        Operation::Write => &[Service::Rc, Service::Uc],
        Operation::Send => &[Service::Rc, Service::Uc, Service::Ud],
        _ => &[Service::Rc],
    };
    if permitted.contains(&spec.service) {
        return Ok(());
    }
    let names: Vec<&str> = permitted.iter().map(|service| service.name()).collect();
    let reason = format!("this operation has {}", names.join(", "));
    Err(invalid("--connection", spec.service.name(), reason))
}

fn check_counts(spec: &PerfSpec) -> Result<(), Error> {
    let Sharing { threads_per_qp, .. } = spec.sharing;
    let counts = [
        ("--qps", spec.qps),
        ("--mrs", spec.memory_regions),
        ("--threads", spec.threads),
        ("--depth", spec.depth.unwrap_or(1)),
        ("--rx-depth", spec.receive_depth.unwrap_or(1)),
        ("--signal-every", spec.signal_every.unwrap_or(1)),
        ("--share", threads_per_qp),
    ];
    if let Some((what, _)) = counts.iter().find(|(_, count)| *count == 0) {
        return Err(invalid(what, 0, "at least 1"));
    }
    if let Some(depth) = spec.depth.filter(|depth| *depth > DEEPEST) {
        return Err(invalid("--depth", depth, format!("at most {DEEPEST}")));
    }
    let (Iterations::Exactly(iterations) | Iterations::UntilSteady(iterations)) = spec.iterations;
    if iterations < 5 {
        return Err(invalid("--iterations", iterations, "at least 5"));
    }
    let timeout = spec.local_ack_timeout.filter(|it| *it > LONGEST_TIMEOUT);
    if let Some(timeout) = timeout {
        return Err(invalid("--qp-timeout", timeout, "at most 31"));
    }
    let retries = spec.retry_count.filter(|count| *count > MOST_RETRIES);
    if let Some(retries) = retries {
        return Err(invalid("--retry-count", retries, "at most 7"));
    }
    let (threads, cpus) = (spec.threads, spec.preset.host.cpus);
    if threads > cpus {
        let reason = format!("the host of the preset has {cpus} processors (host.cpus)");
        return Err(invalid("--threads", threads, reason));
    }
    if spec.qps > threads && spec.qps % threads != 0 {
        let reason = format!("a multiple of the {threads} threads");
        return Err(invalid("--qps", spec.qps, reason));
    }
    if spec.test == Test::Latency && (threads > 1 || spec.qps > 1) {
        return Err(invalid("--threads, --qps", "of a latency test", "1"));
    }
    Ok(())
}

/// Checks the gather list and the offsets of the regions.
fn check_memory(spec: &PerfSpec, size: u32) -> Result<(), Error> {
    let (segments, offset) = (spec.segments, spec.offset_bytes);
    if segments == 0 || segments > MOST_SEGMENTS {
        return Err(invalid("--sge", segments, format!("1 to {MOST_SEGMENTS}")));
    }
    if segments > 1 && is_atomic(spec.operation) {
        return Err(invalid("--sge", segments, "an atomic has one segment"));
    }
    if segments > size {
        let reason = format!("a message of {size} B has no more segments than bytes");
        return Err(invalid("--sge", segments, reason));
    }
    if let Some(inline) = spec.inline_bytes.filter(|bytes| segments > 1 && *bytes > 0) {
        let reason = "a gather list of several segments is not inline: without --sge, or 0";
        return Err(invalid("--inline", inline, reason));
    }
    let page = spec.page_size.bytes();
    if u64::from(offset) >= page {
        let reason = format!("below {page}, the page of the regions (--page-size)");
        return Err(invalid("--align", offset, reason));
    }
    if offset % ATOMIC_ALIGNMENT != 0 && is_atomic(spec.operation) {
        return Err(invalid("--align", offset, "a multiple of 8 for atomics"));
    }
    if offset > 0 && spec.atomics.device_memory {
        let reason = "the card's memory has no pages of the host: without --device-memory";
        return Err(invalid("--align", offset, reason));
    }
    Ok(())
}

fn check_events(spec: &PerfSpec) -> Result<(), Error> {
    if !spec.events {
        return Ok(());
    }
    if (spec.test, spec.operation) == (Test::Latency, Operation::Write) {
        let reason = "it polls memory, because a WRITE raises no event; send_lat, read_lat and \
            atomic_lat sleep";
        return Err(invalid("--events", "of write_lat", reason));
    }
    match spec.workload {
        Workload::Perftest => Ok(()),
        other => Err(invalid(
            "--loop",
            other.name(),
            "polls; --events needs --loop perftest",
        )),
    }
}

fn check_topology(spec: &PerfSpec) -> Result<(), Error> {
    let workload = spec.workload;
    if workload != Workload::Perftest {
        let one_sided = !matches!(spec.operation, Operation::Send);
        if spec.test == Test::Latency || !one_sided || spec.bidirectional {
            let reason = "for bandwidth of WRITE, READ and atomics, not bidirectional";
            return Err(invalid("--loop", workload.name(), reason));
        }
    }
    if spec.sharing.threads_per_qp > 1 {
        if workload != Workload::Batch {
            return Err(invalid("--share", "qp", "needs --loop batch"));
        }
        if spec.qps > 1 {
            return Err(invalid("--qps", spec.qps, "1 with --share qp"));
        }
    }
    match spec.topology {
        Topology::AllToAll {
            hosts,
            virtual_machines,
        } => {
            if workload != Workload::Window {
                return Err(invalid("--hosts", "all", "needs --loop window"));
            }
            if hosts < 2 || virtual_machines == 0 {
                return Err(invalid("--hosts", hosts, "at least 2, and 1 QP to each"));
            }
            Ok(())
        }
        Topology::Flows { hosts, .. } if hosts < 2 => Err(invalid("--hosts", hosts, "at least 2")),
        Topology::Flows { pattern, .. }
            if spec.test == Test::Latency
                || spec.bidirectional
                || workload != Workload::Perftest =>
        {
            let reason = "for bandwidth with perftest's loop, not bidirectional";
            Err(invalid("--pattern", pattern.name(), reason))
        }
        Topology::Clients(0) => Err(invalid("--hosts", 1, "at least 2")),
        Topology::Clients(_) if spec.test == Test::Latency || spec.bidirectional => {
            let reason = "2 for a latency or bidirectional test";
            Err(invalid("--hosts", "several clients", reason))
        }
        _ => Ok(()),
    }
}

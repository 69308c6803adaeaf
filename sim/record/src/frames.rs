//! Frames as named fields, and the queue pair to which a frame belongs.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroce_spec::context::{QpContext, ServiceCode};
use ferroce_wire::{Extension, Frame, Gid, Ip, Operation, Psn, RequestExtension, Syndrome};

use crate::format::flags;
use crate::reader::Record;
use crate::streams::{Class, Entry, Field, Key, Rule, Subject, Value};

/// Direction of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The function sends it.
    Sent,
    /// The function receives it.
    Received,
}

/// A queue pair; it may have been destroyed.
#[derive(Debug, Clone)]
pub(crate) struct Qp {
    pub(crate) section: Arc<str>,
    pub(crate) ordinal: u32,
    pub(crate) qpn: u32,
    pub(crate) is_alive: bool,
    pub(crate) context: QpContext,
    pub(crate) newest: BTreeMap<Subject, Psn>,
}

/// Returns the entry of a frame, its stream, and the number of the queue pair. `None` for frames of
/// other protocols, and of queue pairs that no command has created.
pub(crate) fn entry(
    qps: &mut [Qp],
    record: &Record,
    direction: Direction,
) -> Option<(Key, u32, Entry)> {
    let frame = Frame::parse(&record.data).ok()?;
    let properties = frame.headers.bth.opcode.parse()?;
    let subject = match (direction, properties.operation.is_response()) {
        (Direction::Sent, false) => Subject::RequestsSent,
        (Direction::Sent, true) => Subject::ResponsesSent,
        (Direction::Received, false) => Subject::RequestsReceived,
        (Direction::Received, true) => Subject::ResponsesReceived,
    };
    let qp = queue_pair(qps, &frame, direction)?;
    let is_connected = is_connected(qp);
    let has_icrc = record.flags & flags::NO_ICRC == 0;
    let entry = Entry {
        at: record.position,
        rule: rule_of(qp, subject, &frame, is_connected),
        fields: fields_of(&frame, has_icrc, is_connected),
    };
    let key = Key {
        section: qp.section.clone(),
        subject,
        object: qp.ordinal,
    };
    Some((key, qp.qpn, entry))
}

/// Returns the directions of a captured frame, by the MAC addresses of the function.
pub(crate) fn directions(macs: &[[u8; 6]], bytes: &[u8]) -> Vec<Direction> {
    let Ok(frame) = Frame::parse(bytes) else {
        return Vec::new();
    };
    let ours = |mac: [u8; 6]| macs.contains(&mac);
    let mut found = Vec::new();
    if ours(frame.ethernet.source.0) {
        found.push(Direction::Sent);
    }
    if ours(frame.ethernet.destination.0) {
        found.push(Direction::Received);
    }
    found
}

fn is_connected(qp: &Qp) -> bool {
    !matches!(
        qp.context.service,
        ServiceCode::UNRELIABLE_DATAGRAM | ServiceCode::GSI
    )
}

/// Returns the newest queue pair to which a frame may belong: the destination of a received frame,
/// or the one connected to the destination of a sent frame.
fn queue_pair<'a>(
    qps: &'a mut [Qp],
    frame: &Frame<'_>,
    direction: Direction,
) -> Option<&'a mut Qp> {
    let dest_qp = frame.headers.bth.dest_qp.value();
    let source_qp = match frame.headers.extension {
        Extension::Deth(deth) | Extension::DethImmediate(deth, _) => Some(deth.source_qp.value()),
        _ => None,
    };
    let dest_gid = frame.ip.destination_gid();
    let is_it = |qp: &Qp| match (direction, source_qp) {
        (Direction::Received, _) => qp.qpn == dest_qp,
        (Direction::Sent, Some(source)) => qp.qpn == source,
        (Direction::Sent, None) => {
            is_connected(qp)
                && qp.context.dest_qpn == dest_qp
                && Gid(qp.context.path.dest_gid) == dest_gid
        }
    };
    let found = qps.iter().rposition(is_it)?;
    qps.get_mut(found)
}

/// Returns the rule that excludes a frame from the comparison.
fn rule_of(qp: &mut Qp, subject: Subject, frame: &Frame<'_>, is_connected: bool) -> Option<Rule> {
    if !is_connected {
        return None;
    }
    let properties = frame.headers.bth.opcode.parse()?;
    if properties.operation == Operation::Acknowledge {
        let Extension::Aeth(aeth) = frame.headers.extension else {
            return None;
        };
        let is_ack = matches!(aeth.syndrome, Syndrome::Ack { .. });
        return is_ack.then_some(Rule::Acknowledges);
    }
    let psn = frame.headers.bth.psn;
    match qp.newest.get(&subject) {
        Some(newest) if !newest.is_before(psn) => Some(Rule::Retransmissions),
        _ => {
            qp.newest.insert(subject, psn);
            None
        }
    }
}

fn fields_of(frame: &Frame<'_>, has_icrc: bool, is_connected: bool) -> Vec<Field> {
    let bth = &frame.headers.bth;
    let number = Value::Number;
    let opcode = Value::Text(bth.opcode.to_string());
    let psn_class = if is_connected {
        Class::Psn
    } else {
        Class::FirstPsn
    };
    let mut fields = vec![
        Field::new("opcode", opcode, Class::Exact),
        Field::new("psn", number(bth.psn.value().into()), psn_class),
        Field::new("dest_qp", number(bth.dest_qp.value().into()), Class::Number),
        Field::new(
            "ack_request",
            number(bth.ack_request.into()),
            Class::Acknowledge,
        ),
        Field::exact("solicited", bth.solicited.into()),
        Field::exact("migration", bth.migration.into()),
        Field::exact("pad_count", bth.pad_count.into()),
        Field::exact("header_version", bth.header_version.into()),
        Field::exact("p_key", bth.p_key.0.into()),
        Field::exact("fecn", bth.fecn.into()),
        Field::exact("becn", bth.becn.into()),
    ];
    add_extension(&mut fields, &frame.headers.extension);
    fields.push(Field::exact("payload_bytes", frame.payload_length() as u64));
    let payload = Value::Bytes(frame.payload().to_vec());
    fields.push(Field::new("payload", payload, Class::Payload));
    add_path(&mut fields, frame);
    if has_icrc {
        let validity = if frame.icrc_is_valid() {
            "right"
        } else {
            "wrong"
        };
        fields.push(Field::new(
            "icrc",
            Value::Text(validity.to_owned()),
            Class::Exact,
        ));
    }
    fields
}

fn add_path(fields: &mut Vec<Field>, frame: &Frame<'_>) {
    let path = |name, text: String| Field::new(name, Value::Text(text), Class::Path);
    let version = match frame.ip {
        Ip::V4(_) => 4,
        Ip::V6(_) => 6,
    };
    fields.extend([
        Field::exact("ip_version", version),
        Field::exact("traffic_class", frame.ip.traffic_class().into()),
        Field::exact("hop_limit", frame.ip.hop_limit().into()),
        path("source_gid", frame.ip.source_gid().to_string()),
        path("dest_gid", frame.ip.destination_gid().to_string()),
        path("source_mac", frame.ethernet.source.to_string()),
        path("dest_mac", frame.ethernet.destination.to_string()),
        path("udp_source_port", frame.udp.source_port.to_string()),
    ]);
    if let Ip::V4(header) = frame.ip {
        let identification = Value::Number(header.identification.into());
        fields.push(Field::new("identification", identification, Class::Detail));
    }
}

fn add_extension(fields: &mut Vec<Field>, extension: &Extension) {
    let number = |name, value: u64, class| Field::new(name, Value::Number(value), class);
    match extension {
        Extension::None | Extension::Cnp(_) => {}
        Extension::Reth(reth) => fields.extend([
            number("rkey", reth.r_key.0.into(), Class::Number),
            number(
                "virtual_address",
                reth.virtual_address,
                Class::Address(reth.r_key.0.into()),
            ),
            number("dma_length", reth.dma_length.into(), Class::Exact),
        ]),
        Extension::RethImmediate(reth, immediate) => {
            add_extension(fields, &Extension::Reth(*reth));
            add_extension(fields, &Extension::Immediate(*immediate));
        }
        Extension::Immediate(immediate) => {
            let bytes = Value::Bytes(immediate.0.to_vec());
            fields.push(Field::new("immediate", bytes, Class::Exact));
        }
        Extension::Aeth(aeth) => add_aeth(fields, aeth),
        Extension::AtomicEth(atomic) => fields.extend([
            number("rkey", atomic.r_key.0.into(), Class::Number),
            number(
                "virtual_address",
                atomic.virtual_address,
                Class::Address(atomic.r_key.0.into()),
            ),
            number("swap_or_add", atomic.swap_or_add, Class::Exact),
            number("compare", atomic.compare, Class::Exact),
        ]),
        Extension::AtomicAck(aeth, answer) => {
            add_aeth(fields, aeth);
            fields.push(number("original", answer.original, Class::Exact));
        }
        Extension::Deth(deth) => fields.extend([
            number("q_key", deth.q_key.0.into(), Class::Exact),
            number("source_qp", deth.source_qp.value().into(), Class::Number),
        ]),
        Extension::DethImmediate(deth, immediate) => {
            add_extension(fields, &Extension::Deth(*deth));
            add_extension(fields, &Extension::Immediate(*immediate));
        }
        Extension::Invalidate(ieth) => {
            fields.push(number("invalidate", ieth.r_key.0.into(), Class::Number));
        }
        Extension::Flush(feth, reth) => {
            fields.push(number("flush", feth.bits().into(), Class::Exact));
            add_extension(fields, &Extension::Reth(*reth));
        }
        Extension::Xrc(xrc, request) => {
            fields.push(number("srqn", xrc.srq_number.into(), Class::Number));
            if *request != RequestExtension::None {
                add_extension(fields, &Extension::from(*request));
            }
        }
    }
}

fn add_aeth(fields: &mut Vec<Field>, aeth: &ferroce_wire::Aeth) {
    let (syndrome, credits) = match aeth.syndrome {
        Syndrome::Ack { credits } => ("ACK".to_owned(), Some(credits)),
        other => (other.to_string(), None),
    };
    fields.push(Field::new("syndrome", Value::Text(syndrome), Class::Exact));
    fields.push(Field::exact("msn", aeth.msn.value().into()));
    if let Some(credits) = credits {
        let code = Value::Number(credits.code().into());
        fields.push(Field::new("credits", code, Class::Detail));
    }
}

/// Returns the distance of two PSNs, modulo 2^24.
pub(crate) fn psn_distance(a: u64, b: u64) -> u64 {
    Psn::new(a as u32).sub(b as u32).value().into()
}

//! Registers, commands, CQEs, EQEs and lines of memory as entries of streams.

use ferroce_spec::command::{CommandCompletion, CommandEntry, CommandOpcode, CommandStatus};
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus};
use ferroce_spec::eqe::{Eqe, EventType};
use ferroce_spec::register::{MSIX_PENDING_OFFSET, MSIX_TABLE_OFFSET, offset};

use crate::fields::{self, number};
use crate::reader::{Position, Record};
use crate::streams::{Class, Entry, Field, Rule, Value};

/// Returns a field for a condition of the contract that must hold.
pub(crate) fn flag(name: &'static str, holds: bool) -> Field {
    Field::new(name, Value::Text(holds.to_string()), Class::Exact)
}

/// Returns the entry of a CQE.
pub(crate) fn completion(bytes: &[u8], at: Position) -> Entry {
    let status = bytes[Cqe::SIZE - 3];
    let is_good = status == CqeStatus::SUCCESS.0;
    let mut fields = fields::of_layout(&Cqe::TABLE, bytes);
    fields.retain(|field| match field.name {
        "owner" => false,
        // Undefined if the status is an error, except bit 7 of the opcode, which is added below.
        "opcode" | "byte_count" | "with_immediate" | "with_invalidate" => is_good,
        _ => true,
    });
    let word = &bytes[Cqe::SIZE - 4..];
    fields.push(Field::exact("is_receive", u64::from(word[0] >> 7)));
    for field in &mut fields {
        match (field.name, &field.value) {
            ("opcode", Value::Number(code)) => {
                let name = CqeOpcode(*code as u8).name();
                field.value = Value::Code(*code, name);
            }
            ("status", Value::Number(code)) => {
                field.value = Value::Code(*code, CqeStatus(*code as u8).name());
            }
            // Only valid with its flags.
            ("immediate", _) if !is_good || word[3] & 3 == 0 => field.class = Class::Detail,
            ("immediate", _) if word[3] & 2 != 0 => {
                field.value = Value::Number(number(&bytes[0x0c..0x10]));
                field.class = Class::Number;
            }
            _ => {}
        }
    }
    Entry {
        at,
        fields,
        rule: None,
    }
}

/// Returns the entry of an EQE. `last`: the previous sequence number.
pub(crate) fn event(last: Option<u32>, bytes: &[u8], at: Position) -> Entry {
    let mut fields = fields::of_layout(&Eqe::TABLE, bytes);
    fields.retain(|field| !matches!(field.name, "owner" | "sequence"));
    let sequence = number(&bytes[4..8]) as u32;
    let is_next = last.is_none_or(|last| sequence == last.wrapping_add(1));
    fields.push(flag("sequence_is_next", is_next));
    let event = bytes[Eqe::SIZE - 4];
    for field in &mut fields {
        if field.name == "event" {
            field.value = Value::Code(event.into(), EventType(event).name());
        }
    }
    let is_completion = event == EventType::COMPLETION.0;
    Entry {
        at,
        fields,
        rule: is_completion.then_some(Rule::Events),
    }
}

/// Returns the entry of a register write.
pub(crate) fn register(record: &Record, register: u32, value: u64) -> Entry {
    let name = Value::Text(fields::register_name(register));
    let class = match register {
        offset::command_queue_base => Class::Place,
        at if at == offset::command_queue_base + 4 => Class::Place,
        // A number of commands since the last reset.
        offset::command_queue_doorbell => Class::Address(0),
        // The self-test writes the value that it has read.
        at if fields::is_read_only(at) => Class::Capability,
        _ => Class::Exact,
    };
    let events = offset::event_queue_doorbell..offset::event_queue_doorbell + 64;
    // On a card the kernel writes the MSI-X table.
    let is_msix = (MSIX_TABLE_OFFSET..MSIX_PENDING_OFFSET).contains(&register);
    let rule = match register {
        // The commands themselves are compared.
        offset::command_queue_doorbell => Some(Rule::Queries),
        offset::wake => Some(Rule::Events),
        at if events.contains(&at) || is_msix => Some(Rule::Events),
        _ => None,
    };
    Entry {
        at: record.position,
        fields: vec![
            Field::new("register", name, Class::Exact),
            Field::new("value", Value::Number(value), class),
        ],
        rule,
    }
}

/// Removes the attributes that the mask of a MODIFY_QP does not name.
fn keep_masked(fields: &mut Vec<Field>) {
    let is_set = |field: &&Field| field.prefix.is_empty() && field.value == Value::Number(1);
    let mask: Vec<_> = fields
        .iter()
        .filter(is_set)
        .map(|field| field.name)
        .collect();
    fields.retain(|field| match (field.prefix, field.name) {
        ("path", _) => mask.contains(&"path"),
        ("context", "p_key_index") => mask.contains(&"p_key"),
        ("context", name) => mask.contains(&name),
        _ => true,
    });
}

/// Returns the kind of the object that a command creates or uses. An event queue has the number
/// chosen by software.
fn object_of(opcode: CommandOpcode) -> Option<&'static str> {
    use CommandOpcode as C;
    Some(match opcode {
        C::CREATE_CQ | C::MODIFY_CQ | C::QUERY_CQ | C::DESTROY_CQ => "cqn",
        C::CREATE_QP | C::MODIFY_QP | C::QUERY_QP | C::DESTROY_QP => "qpn",
        C::ATTACH_MULTICAST | C::DETACH_MULTICAST => "qpn",
        C::CREATE_SRQ | C::MODIFY_SRQ | C::QUERY_SRQ | C::DESTROY_SRQ => "srqn",
        C::CREATE_MR | C::MODIFY_MR | C::QUERY_MR | C::DESTROY_MR => "key",
        _ => return None,
    })
}

/// Returns true if a command creates an object.
pub(crate) fn creates(opcode: CommandOpcode) -> bool {
    use CommandOpcode as C;
    matches!(
        opcode,
        C::CREATE_CQ | C::CREATE_QP | C::CREATE_SRQ | C::CREATE_MR
    )
}

/// Returns true if a command has succeeded.
pub(crate) fn is_success(completion: CommandCompletion) -> bool {
    completion.status() == CommandStatus::SUCCESS.0
}

/// Returns the entry of a command, with its input and output.
pub(crate) fn command(
    entry: &CommandEntry,
    input: &[u8],
    output: Option<&[u8]>,
    at: Position,
) -> Entry {
    use CommandOpcode as C;
    let opcode = entry.opcode;
    let completion = entry.completion;
    let status = completion.status();
    let name = Value::Code(opcode.0.into(), opcode.name());
    let argument = match object_of(opcode) {
        // The number that software chooses, if the card permits it; the result contains it.
        _ if creates(opcode) => {
            Field::new("argument", Value::Number(entry.argument), Class::Detail)
        }
        Some(object) => Field::new(object, Value::Number(entry.argument), Class::Number),
        _ => Field::exact("argument", entry.argument),
    };
    let mut fields = vec![
        Field::new("opcode", name, Class::Exact),
        argument,
        Field::new(
            "status",
            Value::Code(status.into(), CommandStatus(status).name()),
            Class::Exact,
        ),
        Field::exact("syndrome", completion.syndrome().into()),
    ];
    if is_success(completion) {
        fields.push(match object_of(opcode) {
            Some(object) if creates(opcode) => {
                Field::new(object, Value::Number(entry.result), Class::Number)
            }
            // A new key of the same region.
            _ if opcode == C::MODIFY_MR => {
                Field::new("result", Value::Number(entry.result), Class::Peer)
            }
            _ if opcode == C::NOP => Field::exact("result", entry.result),
            // Undefined.
            _ => Field::new("result", Value::Number(entry.result), Class::Detail),
        });
    }
    if let Some(table) = fields::input_of(opcode, input.len()) {
        let mut of_input = fields::of_layout(table, input);
        if opcode == C::MODIFY_QP {
            keep_masked(&mut of_input);
        }
        fields.extend(of_input);
    }
    if let (Some(table), Some(output)) = (fields::output_of(opcode), output) {
        fields.extend(fields::of_layout(table, output));
    }
    let is_query = matches!(
        opcode,
        C::QUERY_EQ | C::QUERY_CQ | C::QUERY_QP | C::QUERY_SRQ
    );
    Entry {
        at,
        fields,
        rule: is_query.then_some(Rule::Queries),
    }
}

/// Returns the fields of a line of a region.
pub(crate) fn memory(offset: u64, bytes: Vec<u8>, mask: &[bool]) -> Vec<Field> {
    let written = mask.iter().filter(|is_written| **is_written).count() as u64;
    vec![
        Field::exact("offset", offset),
        Field::exact("bytes_written", written),
        Field::new("content", Value::Bytes(bytes), Class::Payload),
    ]
}

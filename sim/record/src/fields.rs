//! Structures of the contract as named fields, from its own tables.

use ferroce_spec::command::{self, CommandOpcode};
use ferroce_spec::context;
use ferroce_spec::contract::Kind;
use ferroce_spec::layout::{LayoutTable, WordTable};
use ferroce_spec::register::{
    COUNTERS_OFFSET, MSIX_ENTRY_SIZE, MSIX_TABLE_OFFSET, REGISTERS, Register, RegisterAccess,
    VECTOR_COUNT,
};

use crate::streams::{Class, Field, Value};

/// Returns the fields of a structure, including the fields of nested words and structures.
pub fn of_layout(table: &'static LayoutTable, bytes: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    add_layout(&mut fields, "", table, bytes);
    fields
}

fn add_layout(
    fields: &mut Vec<Field>,
    prefix: &'static str,
    table: &'static LayoutTable,
    bytes: &[u8],
) {
    for field in table.fields {
        let Some(bytes) = bytes.get(field.offset..field.offset + field.size) else {
            return;
        };
        let value = match Kind::of(field.kind) {
            Some(Kind::Layout(inner)) => {
                add_layout(fields, field.name, inner, bytes);
                continue;
            }
            Some(Kind::Word(word)) => {
                add_word(fields, prefix, word, number(bytes));
                continue;
            }
            Some(Kind::Enum(table)) => {
                let code = number(bytes);
                let named = table.values.iter().find(|named| named.value == code);
                Value::Code(code, named.map(|named| named.name))
            }
            Some(Kind::Integer(_)) => Value::Number(number(bytes)),
            Some(Kind::Array(..)) | None => Value::Bytes(bytes.to_vec()),
        };
        fields.push(Field {
            prefix,
            name: field.name,
            value,
            class: class_of(table.name, field.name),
        });
    }
}

/// Adds the bit fields of a word.
pub fn add_word(
    fields: &mut Vec<Field>,
    prefix: &'static str,
    table: &'static WordTable,
    value: u64,
) {
    for bits in table.bits {
        let width = bits.high - bits.low + 1;
        let mask = u64::MAX >> (64 - width);
        fields.push(Field {
            prefix,
            name: bits.name,
            value: Value::Number(value >> bits.low & mask),
            class: class_of(table.name, bits.name),
        });
    }
}

/// Returns a little-endian integer of up to 8 bytes.
pub fn number(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    let length = bytes.len().min(whole.len());
    whole[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(whole)
}

/// Returns how a field of the contract is compared.
fn class_of(table: &str, field: &str) -> Class {
    match (table, field) {
        ("DeviceCapabilities" | "DeviceFeatures", _) => Class::Capability,
        ("ContextTables", name) if name.starts_with("log_") => Class::Capability,
        (_, name) if name == "base" || name.ends_with("_base") => Class::Place,
        (_, "consumer_record" | "start" | "translation" | "first_page_offset") => Class::Place,
        (_, name) if name.ends_with("doorbell_slot") => Class::Capability,
        (_, "qpn" | "source_qpn" | "cqn" | "send_cqn" | "receive_cqn" | "srqn") => Class::Number,
        ("Eqe", "number") => Class::Number,
        ("MemoryEntry", "key" | "region_key") | (_, "dest_qpn") => Class::Peer,
        (_, "send_psn" | "receive_psn" | "unacknowledged_psn") => Class::FirstPsn,
        (_, "dest_gid" | "gid" | "dest_mac" | "mac" | "udp_source_port" | "flow_label") => {
            Class::Path
        }
        ("Cqe", "timestamp") => Class::Time,
        ("CqeWord", "vendor_error") => Class::Detail,
        ("QpContext", "processing_unit") => Class::Detail,
        _ => Class::Exact,
    }
}

/// Returns the input structure of a command.
pub fn input_of(opcode: CommandOpcode, length: usize) -> Option<&'static LayoutTable> {
    use CommandOpcode as C;
    Some(match opcode {
        C::SET_CONTEXT_TABLES => &command::ContextTables::TABLE,
        C::SET_ADDRESS => &context::AddressEntry::TABLE,
        C::CREATE_EQ | C::MODIFY_EQ => &context::EqContext::TABLE,
        C::CREATE_CQ | C::MODIFY_CQ => &context::CqContext::TABLE,
        C::CREATE_QP => &context::QpContext::TABLE,
        C::MODIFY_QP if length == command::ShortModifyQp::SIZE => &command::ShortModifyQp::TABLE,
        C::MODIFY_QP => &command::ModifyQp::TABLE,
        C::CREATE_SRQ | C::MODIFY_SRQ => &context::SrqContext::TABLE,
        C::CREATE_MR | C::MODIFY_MR => &context::MemoryEntry::TABLE,
        C::ATTACH_MULTICAST | C::DETACH_MULTICAST => &command::MulticastGroup::TABLE,
        _ => return None,
    })
}

/// Returns the output structure of a command.
pub fn output_of(opcode: CommandOpcode) -> Option<&'static LayoutTable> {
    use CommandOpcode as C;
    Some(match opcode {
        C::QUERY_DEVICE => &command::DeviceCapabilities::TABLE,
        C::QUERY_ADDRESS => &context::AddressEntry::TABLE,
        C::QUERY_EQ => &context::EqContext::TABLE,
        C::QUERY_CQ => &context::CqContext::TABLE,
        C::QUERY_QP => &context::QpContext::TABLE,
        C::QUERY_SRQ => &context::SrqContext::TABLE,
        C::QUERY_MR => &context::MemoryEntry::TABLE,
        _ => return None,
    })
}

fn register_at(offset: u32) -> Option<&'static Register> {
    REGISTERS.iter().find(|register| {
        let end = register.offset + register.width * register.count;
        (register.offset..end).contains(&offset)
    })
}

/// Returns true if software can only read a register.
pub fn is_read_only(offset: u32) -> bool {
    register_at(offset).is_some_and(|register| register.access == RegisterAccess::ReadOnly)
}

/// Returns the name of a register of BAR0.
pub fn register_name(offset: u32) -> String {
    if let Some(register) = register_at(offset) {
        let index = (offset - register.offset) / register.width;
        let half = match (offset - register.offset) % register.width {
            0 => "",
            _ => " (high half)",
        };
        return match register.count {
            1 => format!("{}{half}", register.name),
            _ => format!("{}[{index}]{half}", register.name),
        };
    }
    let msix_end = MSIX_TABLE_OFFSET + u32::from(VECTOR_COUNT) * MSIX_ENTRY_SIZE;
    if (MSIX_TABLE_OFFSET..msix_end).contains(&offset) {
        let place = offset - MSIX_TABLE_OFFSET;
        let words = ["address", "address (high half)", "data", "control"];
        let word = words[(place % MSIX_ENTRY_SIZE / 4) as usize];
        return format!("msix[{}].{word}", place / MSIX_ENTRY_SIZE);
    }
    let counter = offset
        .checked_sub(COUNTERS_OFFSET)
        .map(|at| at as usize / 8);
    let counters = ferroce_spec::counter::COUNTERS;
    match counter.and_then(|index| counters.get(index)) {
        Some(counter) => counter.name.to_owned(),
        None => format!("{offset:#x}"),
    }
}

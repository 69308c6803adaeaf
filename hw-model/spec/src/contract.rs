//! The catalogue: every table that the other modules declare, in the order of the reference.

use crate::layout::{Constant, LayoutTable, WordTable};
use crate::open_enum::EnumTable;
use crate::{command, context, cqe, doorbell, eqe, personality, push, register, wqe};

/// Every word made of bit fields.
pub const WORDS: &[WordTable] = &[
    register::ContractVersion::TABLE,
    register::Capability::TABLE,
    register::Control::TABLE,
    register::Status::TABLE,
    register::PageFaultAnswer::TABLE,
    register::EventQueueDoorbell::TABLE,
    register::RoceAcclSelect::TABLE,
    register::RoceAccl::TABLE,
    register::RoceAcclLimits::TABLE,
    register::AdpRetxProfile::TABLE,
    register::AdpRetxProfileStart::TABLE,
    register::AdpRetxRange::TABLE,
    doorbell::DoorbellValue::TABLE,
    command::NewNumber::TABLE,
    command::CommandCompletion::TABLE,
    command::QpAttributeMask::TABLE,
    command::DeviceFeatures::TABLE,
    wqe::ControlWord::TABLE,
    cqe::CqeWord::TABLE,
    eqe::EqeWord::TABLE,
    context::AccessRights::TABLE,
    context::QpShape::TABLE,
    context::RetryAttributes::TABLE,
    context::MemoryEntryWord::TABLE,
    context::TranslationEntry::TABLE,
];

/// Every structure in memory, in order of dependence: a structure comes after the structures that
/// it contains.
pub const LAYOUTS: &[LayoutTable] = &[
    command::CommandEntry::TABLE,
    command::ContextTables::TABLE,
    command::MulticastGroup::TABLE,
    command::DeviceCapabilities::TABLE,
    push::PushBlock::TABLE,
    wqe::ControlSegment::TABLE,
    wqe::RemoteAddressSegment::TABLE,
    wqe::AtomicSegment::TABLE,
    wqe::FlushSegment::TABLE,
    wqe::BindSegment::TABLE,
    wqe::SharedReceiveSegment::TABLE,
    wqe::AddressPath::TABLE,
    wqe::DatagramSegment::TABLE,
    wqe::DataSegment::TABLE,
    wqe::InlineHeader::TABLE,
    cqe::Cqe::TABLE,
    eqe::Eqe::TABLE,
    context::QpContext::TABLE,
    command::ModifyQp::TABLE,
    command::ShortModifyQp::TABLE,
    context::CqContext::TABLE,
    context::SrqContext::TABLE,
    context::EqContext::TABLE,
    context::AddressEntry::TABLE,
    context::MemoryEntry::TABLE,
];

/// Every set of named values.
pub const ENUMS: &[EnumTable] = &[
    register::FatalSyndrome::TABLE,
    personality::Personality::TABLE,
    doorbell::DoorbellKind::TABLE,
    command::CommandOpcode::TABLE,
    command::CommandStatus::TABLE,
    wqe::SendOpcode::TABLE,
    cqe::CqeOpcode::TABLE,
    cqe::CqeStatus::TABLE,
    cqe::VendorError::TABLE,
    eqe::EventType::TABLE,
    context::QpStateCode::TABLE,
    context::ServiceCode::TABLE,
    context::PathMtuCode::TABLE,
];

/// The constants of each module, with the module's name. Constants of `register` need no prefix.
pub const CONSTANTS: &[(&str, &[Constant])] = &[
    ("", register::CONSTANTS),
    ("doorbell", doorbell::CONSTANTS),
    ("push", push::CONSTANTS),
    ("command", command::CONSTANTS),
    ("wqe", wqe::CONSTANTS),
    ("context", context::CONSTANTS),
];

/// What a field of a structure holds.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// An integer of this many bytes.
    Integer(usize),
    /// An array of integers: bytes of one, and their number.
    Array(usize, usize),
    /// A word made of bit fields.
    Word(&'static WordTable),
    /// One of some named values.
    Enum(&'static EnumTable),
    /// A structure.
    Layout(&'static LayoutTable),
}

impl Kind {
    /// Returns what a type that a table names means. `None`: the catalogue has no such type.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        if let Some(inside) = name.strip_prefix('[') {
            let (element, count) = inside.strip_suffix(']')?.split_once(';')?;
            return Some(Self::Array(integer(element)?, count.trim().parse().ok()?));
        }
        let word = WORDS.iter().find(|t| t.name == name).map(Self::Word);
        let named = ENUMS.iter().find(|t| t.name == name).map(Self::Enum);
        let layout = LAYOUTS.iter().find(|t| t.name == name).map(Self::Layout);
        word.or(named)
            .or(layout)
            .or_else(|| integer(name).map(Self::Integer))
    }

    /// Returns the word that a register of cell type `cell` holds, if its bits have names.
    #[must_use]
    pub fn word_of_register(cell: &str) -> Option<&'static WordTable> {
        let (_, inside) = cell.split_once('<')?;
        let (name, _) = inside.split_once('>')?;
        WORDS.iter().find(|t| t.name == name)
    }
}

/// Bytes of an unsigned integer type.
fn integer(name: &str) -> Option<usize> {
    match name {
        "u8" => Some(1),
        "u16" => Some(2),
        "u32" => Some(4),
        "u64" => Some(8),
        _ => None,
    }
}

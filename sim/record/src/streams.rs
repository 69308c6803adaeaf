//! Streams of entries for comparison, each with named fields.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::reader::Position;

/// The subject of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Writes to registers.
    Registers,
    /// Commands, with their input and output.
    Commands,
    /// CQEs of a CQ.
    Completions,
    /// EQEs of an event queue.
    Events,
    /// Requests that a QP sends.
    RequestsSent,
    /// Responses that a QP sends.
    ResponsesSent,
    /// Requests that a QP receives.
    RequestsReceived,
    /// Responses that a QP receives.
    ResponsesReceived,
    /// The function's writes to a memory region.
    Memory,
}

impl Subject {
    /// Returns the name of its objects.
    pub const fn object(self) -> &'static str {
        match self {
            Self::Registers | Self::Commands => "",
            Self::Completions => "CQ",
            Self::Events => "EQ",
            Self::Memory => "region",
            _ => "QP",
        }
    }

    /// Returns the name of its entries.
    pub const fn entry(self) -> &'static str {
        match self {
            Self::Registers => "register write",
            Self::Commands => "command",
            Self::Completions => "CQE",
            Self::Events => "EQE",
            Self::RequestsSent => "request sent",
            Self::ResponsesSent => "response sent",
            Self::RequestsReceived => "request received",
            Self::ResponsesReceived => "response received",
            Self::Memory => "line",
        }
    }

    /// Returns true if it consists of frames.
    pub const fn is_frames(self) -> bool {
        matches!(
            self,
            Self::RequestsSent
                | Self::ResponsesSent
                | Self::RequestsReceived
                | Self::ResponsesReceived
        )
    }
}

/// The name of a stream. Objects are numbered in the order of their creation, per section.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The section in which the object was created.
    pub section: Arc<str>,
    /// Its subject.
    pub subject: Subject,
    /// The object, counted from 1.
    pub object: u32,
}

impl fmt::Display for Key {
    /// Writes "CQ 3", or with a section "CQ 3 of loopback".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subject.object() {
            "" => write!(f, "{}s", self.subject.entry())?,
            name => write!(f, "{name} {}", self.object)?,
        }
        match &*self.section {
            "" => Ok(()),
            section => write!(f, " in section {section}"),
        }
    }
}

/// The meaning of a field's value, which determines how it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Equal in both records.
    Exact,
    /// An object of the record: the same object, whatever its number.
    Object,
    /// A number or key of the peer, or of an object that is not followed: throughout the stream,
    /// each value of A corresponds to one value of B.
    Number,
    /// A number that the other side chooses in each run.
    Peer,
    /// A virtual address of the program, in the space with this number: the distance is constant.
    Address(u64),
    /// An IOVA or address that is chosen in each run.
    Place,
    /// A PSN: the distance is constant within the stream.
    Psn,
    /// A first PSN, which the program chooses.
    FirstPsn,
    /// MAC and IP addresses, UDP source ports: compared like numbers.
    Path,
    /// Time.
    Time,
    /// A value that depends on the size of the card.
    Capability,
    /// A value that the contract leaves to the card.
    Detail,
    /// Requests for acknowledges.
    Acknowledge,
    /// A value that depends on when software arms a queue.
    Event,
    /// Data of the program.
    Payload,
}

/// Reason why an entry is only compared on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A positive acknowledge, because acknowledges may be coalesced.
    Acknowledges,
    /// A retransmitted packet.
    Retransmissions,
    /// An event of a CQ, or a doorbell of an event queue: both depend on when software arms the
    /// queue.
    Events,
    /// A command that queries an object, because the result depends on the time; and a doorbell of
    /// the command queue, because queries ring it as well.
    Queries,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A number, and its name if it has one.
    Code(u64, Option<&'static str>),
    /// An object: its number and name.
    Object(u64, String),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// Maximum bytes of a value that are shown.
const SHOWN_BYTES: usize = 16;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) if *number < 0x1_0000 => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number:#x}"),
            Self::Code(_, Some(name)) => f.write_str(name),
            Self::Code(number, None) => write!(f, "{number:#x}"),
            Self::Object(number, name) => write!(f, "{name} ({number:#x})"),
            Self::Text(text) => f.write_str(text),
            Self::Bytes(bytes) => {
                for byte in bytes.iter().take(SHOWN_BYTES) {
                    write!(f, "{byte:02x}")?;
                }
                if bytes.len() > SHOWN_BYTES {
                    write!(f, "… ({} bytes)", bytes.len())
                } else {
                    Ok(())
                }
            }
        }
    }
}

/// A field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The structure that contains it; empty: none.
    pub prefix: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
    /// The kind of its comparison.
    pub class: Class,
}

impl Field {
    /// Returns a field outside of a structure.
    pub const fn new(name: &'static str, value: Value, class: Class) -> Self {
        Self {
            prefix: "",
            name,
            value,
            class,
        }
    }

    /// Returns a number that must be equal.
    pub const fn exact(name: &'static str, number: u64) -> Self {
        Self::new(name, Value::Number(number), Class::Exact)
    }

    /// Returns its name with the name of its structure.
    pub fn full_name(&self) -> String {
        match self.prefix {
            "" => self.name.to_owned(),
            prefix => format!("{prefix}.{}", self.name),
        }
    }
}

/// An entry of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its position.
    pub at: Position,
    /// Its fields.
    pub fields: Vec<Field>,
    /// The rule that excludes it from the comparison.
    pub rule: Option<Rule>,
}

/// A stream.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    /// The card's number of its object. `None`: it has no entries.
    pub number: Option<u32>,
    /// Its entries, in order.
    pub entries: Vec<Entry>,
}

/// Receives the entries of a record.
pub trait Sink {
    /// Receives an entry of a stream whose object has this number.
    fn entry(&mut self, key: Key, number: u32, entry: Entry);
}

/// Ignores everything.
impl Sink for () {
    fn entry(&mut self, _key: Key, _number: u32, _entry: Entry) {}
}

/// All streams of a record.
#[derive(Debug, Default)]
pub struct Streams {
    /// The streams.
    pub streams: BTreeMap<Key, Stream>,
    /// The sections, in order.
    pub sections: Vec<Arc<str>>,
}

impl Sink for Streams {
    fn entry(&mut self, key: Key, number: u32, entry: Entry) {
        let stream = self.streams.entry(key).or_default();
        stream.number = Some(number);
        stream.entries.push(entry);
    }
}

//! What is compared: streams of entries, each with named fields.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::reader::Position;

/// What a stream is about.
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
    /// What the function has written to a memory region.
    Memory,
}

impl Subject {
    /// Returns what its objects are called.
    pub const fn object(self) -> &'static str {
        match self {
            Self::Registers | Self::Commands => "",
            Self::Completions => "CQ",
            Self::Events => "EQ",
            Self::Memory => "region",
            _ => "QP",
        }
    }

    /// Returns what its entries are called.
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

/// The name of a stream. Objects are counted in the order of their creation, in each section.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The section in which the object was created.
    pub section: Arc<str>,
    /// What it is about.
    pub subject: Subject,
    /// The object: 1 is the first one.
    pub object: u32,
}

impl fmt::Display for Key {
    /// "CQ 3"; of a section, "CQ 3 of loopback".
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

/// What the value of a field means, and so how it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The same in both.
    Exact,
    /// An object of the record: the same object, whatever its number.
    Object,
    /// A number or key of the peer, or of an object that is not followed: one in A is the same one
    /// in B, in all of the stream.
    Number,
    /// A number that the other side chooses anew in each run.
    Peer,
    /// A virtual address of the program, in the space that this number names: with a constant
    /// distance.
    Address(u64),
    /// An IOVA or address that is chosen anew in each run.
    Place,
    /// A PSN: with a constant distance in the stream.
    Psn,
    /// A first PSN, which the program chooses.
    FirstPsn,
    /// MAC and IP addresses, UDP source ports: as numbers.
    Path,
    /// Time.
    Time,
    /// What follows from the size of the card.
    Capability,
    /// What the contract leaves to the card.
    Detail,
    /// When acknowledges are requested.
    Acknowledge,
    /// What follows from the moment at which software arms a queue.
    Event,
    /// Data of the program.
    Payload,
}

/// Why an entry is not compared, unless that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A positive acknowledge: they may be coalesced.
    Acknowledges,
    /// A packet that was sent before.
    Retransmissions,
    /// An event of a CQ, a doorbell of an event queue: they follow from the moment of arming.
    Events,
    /// A command that asks for the state of an object, which follows from the moment; a doorbell of
    /// the command queue, because queries ring it too.
    Queries,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A number, and its name if it has one.
    Code(u64, Option<&'static str>),
    /// An object: its number, and what it is called.
    Object(u64, String),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// Bytes of a value that are shown.
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
                match bytes.len() > SHOWN_BYTES {
                    true => write!(f, "… ({} bytes)", bytes.len()),
                    false => Ok(()),
                }
            }
        }
    }
}

/// A field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The structure inside of which it is; empty: none.
    pub prefix: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
    /// How it is compared.
    pub class: Class,
}

impl Field {
    /// Returns a field that is no part of a structure.
    pub const fn new(name: &'static str, value: Value, class: Class) -> Self {
        Self {
            prefix: "",
            name,
            value,
            class,
        }
    }

    /// Returns a number that has to be the same.
    pub const fn exact(name: &'static str, number: u64) -> Self {
        Self::new(name, Value::Number(number), Class::Exact)
    }

    /// Returns its name with that of its structure.
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
    /// Where it stands.
    pub at: Position,
    /// Its fields.
    pub fields: Vec<Field>,
    /// The rule by which it is not compared.
    pub rule: Option<Rule>,
}

/// A stream.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    /// The number of its object, as the card knows it. `None`: it has no entries.
    pub number: Option<u32>,
    /// Its entries, in order.
    pub entries: Vec<Entry>,
}

/// Takes what is found in a record.
pub trait Sink {
    /// Takes an entry of a stream, whose object has this number.
    fn entry(&mut self, key: Key, number: u32, entry: Entry);
}

/// Takes nothing.
impl Sink for () {
    fn entry(&mut self, _key: Key, _number: u32, _entry: Entry) {}
}

/// All streams of a record.
#[derive(Debug, Default)]
pub struct Streams {
    /// Them.
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

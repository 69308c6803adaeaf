//! Management datagrams (IBTA vol 1, chapter 13.4) of the communication management class.

use core::fmt;

use super::alternate::{Apr, Lap};
use super::connect::{Rep, Req, Rtu};
use super::disconnect::{Drep, Dreq};
use super::layout::layout;
use super::reject::{Mra, Rej};
use super::service::{SidrRep, SidrReq};
use crate::error::Error;

layout! {
    /// The common MAD header (13.4.3).
    pub struct MadHeader of 192 bits {
        /// BaseVersion: 1
        pub base_version: u8 = 8,
        /// MgmtClass: what the datagram is about
        pub mgmt_class: u8 = 8,
        /// ClassVersion: version of the class's own format
        pub class_version: u8 = 8,
        /// R: the datagram is a response
        pub response: bool = 1,
        /// Method
        pub method: u8 = 7,
        /// Status
        pub status: u16 = 16,
        /// ClassSpecific
        pub class_specific: u16 = 16,
        /// TransactionID: the same in all messages of one exchange
        pub transaction_id: u64 = 64,
        /// AttributeID: which message follows
        pub attribute_id: u16 = 16,
        /// Sent as zero, kept when received
        pub reserved: u16 = 16,
        /// AttributeModifier
        pub attribute_modifier: u32 = 32,
    }
}

impl MadHeader {
    /// Version of the common header.
    pub const BASE_VERSION: u8 = 1;
    /// The communication management class.
    pub const CLASS_COMMUNICATION_MANAGEMENT: u8 = 0x07;
    /// Version of the messages of communication management (IBTA vol 1, 16.7.1).
    pub const CM_CLASS_VERSION: u8 = 2;
    /// ComMgtSend(), the only method of communication management.
    pub const METHOD_SEND: u8 = 0x03;

    /// Returns the header of a message of communication management.
    #[must_use]
    pub const fn of_message(kind: MessageKind, transaction_id: u64) -> Self {
        Self {
            base_version: Self::BASE_VERSION,
            mgmt_class: Self::CLASS_COMMUNICATION_MANAGEMENT,
            class_version: Self::CM_CLASS_VERSION,
            response: false,
            method: Self::METHOD_SEND,
            status: 0,
            class_specific: 0,
            transaction_id,
            attribute_id: kind as u16,
            reserved: 0,
            attribute_modifier: 0,
        }
    }
}

/// Declares the messages: attribute, name and type of each.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident($type:ty) = $attribute:literal, $text:literal;)*) => {
        /// The kind of a message: its AttributeID (IBTA vol 1, 16.7.3).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum MessageKind {
            $($(#[$doc])* $name = $attribute,)*
        }

        impl MessageKind {
            /// All messages, by ascending attribute.
            pub const ALL: &'static [MessageKind] = &[$(Self::$name,)*];

            /// Returns the name of the message in the IBTA specification.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }

        /// A message of communication management.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Message {
            $($(#[$doc])* $name($type),)*
        }

        impl Message {
            /// Returns the kind of the message.
            #[must_use]
            pub const fn kind(&self) -> MessageKind {
                match self {
                    $(Self::$name(_) => MessageKind::$name,)*
                }
            }

            fn parse(kind: MessageKind, bytes: &[u8]) -> Result<Self, Error> {
                match kind {
                    $(MessageKind::$name => <$type>::parse(bytes).map(Self::$name),)*
                }
            }

            fn emit(&self, buffer: &mut [u8]) {
                match self {
                    $(Self::$name(message) => message.emit(buffer),)*
                }
            }
        }

        $(impl From<$type> for Message {
            fn from(message: $type) -> Self {
                Self::$name(message)
            }
        }

        const _: () = assert!(<$type>::LENGTH == Mad::LENGTH - MadHeader::LENGTH);)*
    };
}

messages! {
    /// Request for communication
    Req(Req) = 0x0010, "REQ";
    /// Message receipt acknowledgment
    Mra(Mra) = 0x0011, "MRA";
    /// Reject
    Rej(Rej) = 0x0012, "REJ";
    /// Reply to request for communication
    Rep(Rep) = 0x0013, "REP";
    /// Ready to use
    Rtu(Rtu) = 0x0014, "RTU";
    /// Request for communication release
    Dreq(Dreq) = 0x0015, "DREQ";
    /// Reply to request for communication release
    Drep(Drep) = 0x0016, "DREP";
    /// Service ID resolution request
    SidrReq(SidrReq) = 0x0017, "SIDR_REQ";
    /// Service ID resolution response
    SidrRep(SidrRep) = 0x0018, "SIDR_REP";
    /// Load alternate path
    Lap(Lap) = 0x0019, "LAP";
    /// Alternate path response
    Apr(Apr) = 0x001a, "APR";
}

impl MessageKind {
    /// Returns the message with this attribute.
    #[must_use]
    pub fn from_attribute(attribute_id: u16) -> Option<Self> {
        let is_it = |kind: &&Self| **kind as u16 == attribute_id;
        Self::ALL.iter().find(is_it).copied()
    }
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reason why a datagram is not a message of communication management.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MadError {
    /// Not 256 bytes
    #[error("a management datagram has 256 bytes, not {0}")]
    Length(usize),
    /// Another version of the common header
    #[error("base version {0}")]
    BaseVersion(u8),
    /// Another management class
    #[error("management class {0:#04x}")]
    Class(u8),
    /// Another version of communication management
    #[error("class version {0} of communication management")]
    ClassVersion(u8),
    /// A method other than ComMgtSend()
    #[error("method {0:#04x} of communication management")]
    Method(u8),
    /// An unknown message
    #[error("attribute {0:#06x} of communication management")]
    Attribute(u16),
}

/// A management datagram with a message of communication management.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mad {
    /// The common header
    pub header: MadHeader,
    /// The message
    pub message: Message,
}

impl Mad {
    /// Bytes of every management datagram.
    pub const LENGTH: usize = 256;

    /// Returns a message with the matching header.
    pub fn new(transaction_id: u64, message: impl Into<Message>) -> Self {
        let message = message.into();
        let header = MadHeader::of_message(message.kind(), transaction_id);
        Self { header, message }
    }

    /// Parses a datagram. An accepted datagram is emitted again byte for byte.
    ///
    /// # Errors
    ///
    /// [`MadError`] names the first field that does not match communication management.
    pub fn parse(bytes: &[u8]) -> Result<Self, MadError> {
        let wrong_length = |_| MadError::Length(bytes.len());
        if bytes.len() != Self::LENGTH {
            return Err(MadError::Length(bytes.len()));
        }
        let header = MadHeader::parse(bytes).map_err(wrong_length)?;
        if header.base_version != MadHeader::BASE_VERSION {
            return Err(MadError::BaseVersion(header.base_version));
        }
        if header.mgmt_class != MadHeader::CLASS_COMMUNICATION_MANAGEMENT {
            return Err(MadError::Class(header.mgmt_class));
        }
        if header.class_version != MadHeader::CM_CLASS_VERSION {
            return Err(MadError::ClassVersion(header.class_version));
        }
        if header.response || header.method != MadHeader::METHOD_SEND {
            let response = u8::from(header.response) << 7;
            return Err(MadError::Method(response | header.method));
        }
        let kind = MessageKind::from_attribute(header.attribute_id);
        let kind = kind.ok_or(MadError::Attribute(header.attribute_id))?;
        let message = Message::parse(kind, &bytes[MadHeader::LENGTH..]).map_err(wrong_length)?;
        Ok(Self { header, message })
    }

    /// Returns the datagram as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        self.header.emit(&mut bytes);
        self.message.emit(&mut bytes[MadHeader::LENGTH..]);
        bytes
    }
}

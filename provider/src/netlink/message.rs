//! Messages and attributes of netlink: `<linux/netlink.h>`. Numbers are in the order of the
//! processor.

/// Bytes of a message's header: length, type, flags, sequence number, port.
const HEADER_LENGTH: usize = 16;
/// Bytes of an attribute's header: length and type.
const ATTRIBUTE_LENGTH: usize = 4;
/// Messages and attributes begin at multiples of this.
const ALIGNMENT: usize = 4;

/// Type of a message with an errno.
const ERROR: u16 = 2;
/// Type of the last message of a list.
const DONE: u16 = 3;
/// Flag of each message of a list.
const MULTI: u16 = 2;
/// Flag of a request whose success is to be acknowledged.
const WANTS_ACK: u16 = 4;
/// Flags of a request for a list.
const DUMP: u16 = 0x300;
/// Flag of an attribute with attributes in it.
const NESTED: u16 = 1 << 15;
/// The bits of an attribute's type without its flags.
const ATTRIBUTE_TYPE: u16 = 0x3fff;

/// A message from the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub kind: u16,
    flags: u16,
    sequence: u32,
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Request<'a> {
    /// Splits the first message off. `None`: there is none, or it is cut off.
    pub fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let length = word(bytes, 0)? as usize;
        let message = bytes.get(..length)?;
        let (header, payload) = message.split_at_checked(HEADER_LENGTH)?;
        let request = Self {
            kind: half(header, 4)?,
            flags: half(header, 6)?,
            sequence: word(header, 8)?,
            header,
            payload,
        };
        let rest = bytes.get(length.next_multiple_of(ALIGNMENT)..);
        Some((request, rest.unwrap_or_default()))
    }

    /// Returns true if the program asks for a list.
    pub fn is_dump(&self) -> bool {
        self.flags & DUMP == DUMP
    }

    /// Returns true if the program wants an acknowledgement of a success without an answer.
    pub fn wants_ack(&self) -> bool {
        self.flags & WANTS_ACK != 0
    }

    /// Returns the number in an attribute.
    pub fn number(&self, kind: u16) -> Option<u32> {
        let mut rest = self.payload;
        loop {
            let length = usize::from(half(rest, 0)?);
            let attribute = rest.get(..length)?;
            if half(attribute, 2)? & ATTRIBUTE_TYPE == kind {
                return word(attribute, ATTRIBUTE_LENGTH);
            }
            rest = rest.get(length.max(ATTRIBUTE_LENGTH).next_multiple_of(ALIGNMENT)..)?;
        }
    }
}

fn half(bytes: &[u8], offset: usize) -> Option<u16> {
    let bytes = bytes.get(offset..offset + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Attributes of an answer.
#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    fn add(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        // Values are names and numbers, and lists that `Answers` keeps short.
        let length = (ATTRIBUTE_LENGTH + value.len()) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT), 0);
        self
    }

    pub fn u8(&mut self, kind: u16, value: u8) -> &mut Self {
        self.add(kind, &[value])
    }

    pub fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.add(kind, &value.to_ne_bytes())
    }

    pub fn u64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.add(kind, &value.to_ne_bytes())
    }

    pub fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.add(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub fn nested(&mut self, kind: u16, attributes: &Self) -> &mut Self {
        self.add(kind | NESTED, &attributes.0)
    }
}

/// Bytes of a datagram: programs that use libmnl receive into a buffer of this size.
const DATAGRAM_LENGTH: usize = 4096;

/// Answers to the requests of a program, in the datagrams that it receives.
#[derive(Debug)]
pub(super) struct Answers {
    /// The program's port.
    port: u32,
    datagrams: Vec<Vec<u8>>,
}

impl Answers {
    pub fn to(port: u32) -> Self {
        let datagrams = Vec::new();
        Self { port, datagrams }
    }

    /// Returns the datagrams.
    pub fn finish(self) -> Vec<Vec<u8>> {
        self.datagrams
    }

    fn add(&mut self, request: &Request<'_>, kind: u16, flags: u16, payload: &[u8]) {
        let length = (HEADER_LENGTH + payload.len()) as u32;
        let is_full = |datagram: &mut Vec<u8>| datagram.len() + length as usize > DATAGRAM_LENGTH;
        if self.datagrams.last_mut().is_none_or(is_full) {
            self.datagrams.push(Vec::with_capacity(DATAGRAM_LENGTH));
        }
        // The line before leaves one.
        let Some(message) = self.datagrams.last_mut() else {
            return;
        };
        message.extend(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(request.sequence.to_ne_bytes());
        message.extend(self.port.to_ne_bytes());
        message.extend(payload);
    }

    /// Adds what was asked for: one message, or a list.
    pub fn found(&mut self, request: &Request<'_>, messages: &[Attributes]) {
        let flags = if request.is_dump() { MULTI } else { 0 };
        for message in messages {
            self.add(request, request.kind, flags, &message.0);
        }
        if request.is_dump() {
            self.add(request, DONE, MULTI, &0_i32.to_ne_bytes());
        } else if request.wants_ack() {
            self.result(request, 0);
        }
    }

    /// Adds the errno of a refusal; 0: success.
    pub fn result(&mut self, request: &Request<'_>, errno: i32) {
        let mut payload = (-errno).to_ne_bytes().to_vec();
        // A success carries the header only, a failure the whole request.
        payload.extend(request.header);
        if errno != 0 {
            payload.extend(request.payload);
        }
        self.add(request, ERROR, 0, &payload);
    }
}

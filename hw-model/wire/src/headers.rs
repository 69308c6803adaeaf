//! The BTH and the extension headers of its opcode.
//!
//! The constructors of [`TransportHeaders`] set the opcode themselves, from arguments that only
//! permit what the IBTA defines: a READ request with immediate data cannot be built.

use crate::aeth::Aeth;
use crate::atomic::{AtomicAckEth, AtomicEth};
use crate::bth::Bth;
use crate::deth::Deth;
use crate::error::Error;
use crate::flush::Feth;
use crate::header_set::{CNP_LENGTH, HeaderSet};
use crate::immediate::{Ieth, Immediate};
use crate::opcode::Opcode;
use crate::operation::{Operation, Position, Transport};
use crate::reth::Reth;
use crate::xrc::XrcEth;

/// The headers between BTH and payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// None: SEND, middle and last WRITE, middle READ response
    None,
    /// First or only WRITE, READ request, ATOMIC WRITE
    Reth(Reth),
    /// Only WRITE with immediate
    RethImmediate(Reth, Immediate),
    /// Last or only SEND with immediate, last WRITE with immediate
    Immediate(Immediate),
    /// Acknowledge; first, last or only READ response
    Aeth(Aeth),
    /// Compare and swap, fetch and add
    AtomicEth(AtomicEth),
    /// Atomic acknowledge
    AtomicAck(Aeth, AtomicAckEth),
    /// UD SEND
    Deth(Deth),
    /// UD SEND with immediate
    DethImmediate(Deth, Immediate),
    /// SEND with invalidate
    Invalidate(Ieth),
    /// FLUSH
    Flush(Feth, Reth),
    /// An XRC request: the shared receive queue, and the headers of the same request in RC
    Xrc(XrcEth, RequestExtension),
    /// Congestion notification: 16 reserved bytes, sent as zero, kept when received
    Cnp([u8; CNP_LENGTH]),
}

/// The headers of a connected request, which follow the XRCETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestExtension {
    /// None: SEND, middle and last WRITE
    None,
    /// First or only WRITE, READ request, ATOMIC WRITE
    Reth(Reth),
    /// Only WRITE with immediate
    RethImmediate(Reth, Immediate),
    /// Last or only SEND with immediate, last WRITE with immediate
    Immediate(Immediate),
    /// Compare and swap, fetch and add
    AtomicEth(AtomicEth),
    /// SEND with invalidate
    Invalidate(Ieth),
    /// FLUSH
    Flush(Feth, Reth),
}

impl From<RequestExtension> for Extension {
    #[inline]
    fn from(request: RequestExtension) -> Self {
        match request {
            RequestExtension::None => Self::None,
            RequestExtension::Reth(reth) => Self::Reth(reth),
            RequestExtension::RethImmediate(reth, imm) => Self::RethImmediate(reth, imm),
            RequestExtension::Immediate(imm) => Self::Immediate(imm),
            RequestExtension::AtomicEth(atomic) => Self::AtomicEth(atomic),
            RequestExtension::Invalidate(ieth) => Self::Invalidate(ieth),
            RequestExtension::Flush(feth, reth) => Self::Flush(feth, reth),
        }
    }
}

impl Extension {
    /// Returns the headers of this extension.
    #[inline]
    pub fn headers(&self) -> HeaderSet {
        match self {
            Self::None => HeaderSet::NONE,
            Self::Reth(_) => HeaderSet::RETH,
            Self::RethImmediate(..) => HeaderSet::RETH.with(HeaderSet::IMMEDIATE),
            Self::Immediate(_) => HeaderSet::IMMEDIATE,
            Self::Aeth(_) => HeaderSet::AETH,
            Self::AtomicEth(_) => HeaderSet::ATOMIC_ETH,
            Self::AtomicAck(..) => HeaderSet::AETH.with(HeaderSet::ATOMIC_ACK_ETH),
            Self::Deth(_) => HeaderSet::DETH,
            Self::DethImmediate(..) => HeaderSet::DETH.with(HeaderSet::IMMEDIATE),
            Self::Invalidate(_) => HeaderSet::IETH,
            Self::Flush(..) => FLUSH,
            Self::Xrc(_, request) => HeaderSet::XRCETH.with(Self::from(*request).headers()),
            Self::Cnp(_) => HeaderSet::CNP,
        }
    }

    /// Returns the bytes on the wire.
    #[inline]
    pub fn length(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Reth(_) => Reth::LENGTH,
            Self::RethImmediate(..) => Reth::LENGTH + Immediate::LENGTH,
            Self::Immediate(_) => Immediate::LENGTH,
            Self::Aeth(_) => Aeth::LENGTH,
            Self::AtomicEth(_) => AtomicEth::LENGTH,
            Self::AtomicAck(..) => Aeth::LENGTH + AtomicAckEth::LENGTH,
            Self::Deth(_) => Deth::LENGTH,
            Self::DethImmediate(..) => Deth::LENGTH + Immediate::LENGTH,
            Self::Invalidate(_) => Ieth::LENGTH,
            Self::Flush(..) => Feth::LENGTH + Reth::LENGTH,
            Self::Xrc(_, request) => XrcEth::LENGTH + Self::from(*request).length(),
            Self::Cnp(reserved) => reserved.len(),
        }
    }

    /// Parses the headers of `opcode` at the start of `bytes`.
    #[inline]
    fn parse(opcode: Opcode, bytes: &[u8]) -> Result<Self, Error> {
        let unknown = Error::UnknownOpcode(opcode);
        let headers = opcode.headers().ok_or(unknown)?;
        if headers.contains(HeaderSet::XRCETH) {
            let xrc = XrcEth::parse(bytes)?;
            let request = headers.without(HeaderSet::XRCETH);
            let request = RequestExtension::parse(request, &bytes[XrcEth::LENGTH..])?;
            return Ok(Self::Xrc(xrc, request.ok_or(unknown)?));
        }
        if let Some(request) = RequestExtension::parse(headers, bytes)? {
            return Ok(request.into());
        }
        Ok(match headers {
            HeaderSet::AETH => Self::Aeth(Aeth::parse(bytes)?),
            ATOMIC_ACK => Self::AtomicAck(
                Aeth::parse(bytes)?,
                AtomicAckEth::parse(&bytes[Aeth::LENGTH..])?,
            ),
            HeaderSet::DETH => Self::Deth(Deth::parse(bytes)?),
            DETH_IMMEDIATE => Self::DethImmediate(
                Deth::parse(bytes)?,
                Immediate::parse(&bytes[Deth::LENGTH..])?,
            ),
            HeaderSet::CNP => Self::Cnp(*crate::codec::view(bytes, "CNP")?),
            _ => return Err(unknown), // Reliable Datagram
        })
    }

    /// Writes the headers to the start of `buffer`.
    #[inline]
    pub(crate) fn emit(&self, buffer: &mut [u8]) {
        match self {
            Self::None => {}
            Self::Reth(reth) => reth.emit(buffer),
            Self::RethImmediate(reth, immediate) => {
                reth.emit(buffer);
                immediate.emit(&mut buffer[Reth::LENGTH..]);
            }
            Self::Immediate(immediate) => immediate.emit(buffer),
            Self::Aeth(aeth) => aeth.emit(buffer),
            Self::AtomicEth(atomic) => atomic.emit(buffer),
            Self::AtomicAck(aeth, atomic) => {
                aeth.emit(buffer);
                atomic.emit(&mut buffer[Aeth::LENGTH..]);
            }
            Self::Deth(deth) => deth.emit(buffer),
            Self::DethImmediate(deth, immediate) => {
                deth.emit(buffer);
                immediate.emit(&mut buffer[Deth::LENGTH..]);
            }
            Self::Invalidate(ieth) => ieth.emit(buffer),
            Self::Flush(feth, reth) => {
                feth.emit(buffer);
                reth.emit(&mut buffer[Feth::LENGTH..]);
            }
            Self::Xrc(xrc, request) => {
                xrc.emit(buffer);
                Self::from(*request).emit(&mut buffer[XrcEth::LENGTH..]);
            }
            Self::Cnp(reserved) => buffer[..CNP_LENGTH].copy_from_slice(reserved),
        }
    }
}

const RETH_IMMEDIATE: HeaderSet = HeaderSet::RETH.with(HeaderSet::IMMEDIATE);
const ATOMIC_ACK: HeaderSet = HeaderSet::AETH.with(HeaderSet::ATOMIC_ACK_ETH);
const FLUSH: HeaderSet = HeaderSet::FETH.with(HeaderSet::RETH);
const DETH_IMMEDIATE: HeaderSet = HeaderSet::DETH.with(HeaderSet::IMMEDIATE);

impl RequestExtension {
    /// Parses `headers` at the start of `bytes`; `None` if no connected request has them.
    #[inline]
    fn parse(headers: HeaderSet, bytes: &[u8]) -> Result<Option<Self>, Error> {
        Ok(Some(match headers {
            HeaderSet::NONE => Self::None,
            HeaderSet::RETH => Self::Reth(Reth::parse(bytes)?),
            RETH_IMMEDIATE => Self::RethImmediate(
                Reth::parse(bytes)?,
                Immediate::parse(&bytes[Reth::LENGTH..])?,
            ),
            HeaderSet::IMMEDIATE => Self::Immediate(Immediate::parse(bytes)?),
            HeaderSet::ATOMIC_ETH => Self::AtomicEth(AtomicEth::parse(bytes)?),
            HeaderSet::IETH => Self::Invalidate(Ieth::parse(bytes)?),
            FLUSH => Self::Flush(Feth::parse(bytes)?, Reth::parse(&bytes[Feth::LENGTH..])?),
            _ => return Ok(None),
        }))
    }
}

/// BTH and extension: all parts of a packet that the transport sets.
///
/// The constructors build only legal pairs. Code that changes fields afterwards (PSN, flags) must
/// keep the opcode and the kind of extension; [`TransportHeaders::is_legal`] checks that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportHeaders {
    /// Base transport header
    pub bth: Bth,
    /// The headers after it
    pub extension: Extension,
}

/// The connected services, which share their operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Connected {
    /// RC
    Reliable,
    /// UC
    Unreliable,
}

impl From<Connected> for Transport {
    #[inline]
    fn from(service: Connected) -> Self {
        match service {
            Connected::Reliable => Self::ReliableConnected,
            Connected::Unreliable => Self::UnreliableConnected,
        }
    }
}

/// A packet that ends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageEnd {
    /// The last of several
    Last,
    /// The only one
    Only,
}

/// A packet of a SEND.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendPart {
    /// First of several
    First,
    /// Neither first nor last
    Middle,
    /// Last of several
    Last,
    /// The whole message
    Only,
    /// Last of several, with immediate data
    LastImmediate(Immediate),
    /// The whole message, with immediate data
    OnlyImmediate(Immediate),
}

/// A packet of an RDMA WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WritePart {
    /// First of several
    First(Reth),
    /// Neither first nor last
    Middle,
    /// Last of several
    Last,
    /// The whole message
    Only(Reth),
    /// Last of several, with immediate data
    LastImmediate(Immediate),
    /// The whole message, with immediate data
    OnlyImmediate(Reth, Immediate),
}

/// A packet of an RDMA READ response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPart {
    /// First of several
    First(Aeth),
    /// Neither first nor last
    Middle,
    /// Last of several
    Last(Aeth),
    /// The whole message
    Only(Aeth),
}

/// Each constructor takes a BTH, replaces its opcode and keeps the rest.
impl TransportHeaders {
    /// Returns a pair that was built by hand.
    ///
    /// # Errors
    ///
    /// [`Error::IllegalExtension`] or [`Error::UnknownOpcode`]
    pub fn new(bth: Bth, extension: Extension) -> Result<Self, Error> {
        let headers = bth
            .opcode
            .headers()
            .ok_or(Error::UnknownOpcode(bth.opcode))?;
        if headers == extension.headers() {
            Ok(Self { bth, extension })
        } else {
            Err(Error::IllegalExtension(bth.opcode))
        }
    }

    /// Returns a packet of a SEND.
    #[inline]
    pub fn send(bth: Bth, service: Connected, part: SendPart) -> Self {
        use Operation::{Send, SendImmediate};
        let (operation, position, extension) = match part {
            SendPart::First => (Send, Position::First, Extension::None),
            SendPart::Middle => (Send, Position::Middle, Extension::None),
            SendPart::Last => (Send, Position::Last, Extension::None),
            SendPart::Only => (Send, Position::Only, Extension::None),
            SendPart::LastImmediate(immediate) => (
                SendImmediate,
                Position::Last,
                Extension::Immediate(immediate),
            ),
            SendPart::OnlyImmediate(immediate) => (
                SendImmediate,
                Position::Only,
                Extension::Immediate(immediate),
            ),
        };
        Self::legal(bth, service.into(), operation, position, extension)
    }

    /// Returns the packet of an RC SEND that carries the key to invalidate.
    #[inline]
    pub fn send_invalidate(bth: Bth, end: MessageEnd, ieth: Ieth) -> Self {
        let position = match end {
            MessageEnd::Last => Position::Last,
            MessageEnd::Only => Position::Only,
        };
        Self::rc(
            bth,
            Operation::SendInvalidate,
            position,
            Extension::Invalidate(ieth),
        )
    }

    /// Returns a packet of an RDMA WRITE.
    #[inline]
    pub fn write(bth: Bth, service: Connected, part: WritePart) -> Self {
        use Operation::{RdmaWrite, RdmaWriteImmediate};
        let (operation, position, extension) = match part {
            WritePart::First(reth) => (RdmaWrite, Position::First, Extension::Reth(reth)),
            WritePart::Middle => (RdmaWrite, Position::Middle, Extension::None),
            WritePart::Last => (RdmaWrite, Position::Last, Extension::None),
            WritePart::Only(reth) => (RdmaWrite, Position::Only, Extension::Reth(reth)),
            WritePart::LastImmediate(immediate) => (
                RdmaWriteImmediate,
                Position::Last,
                Extension::Immediate(immediate),
            ),
            WritePart::OnlyImmediate(reth, immediate) => (
                RdmaWriteImmediate,
                Position::Only,
                Extension::RethImmediate(reth, immediate),
            ),
        };
        Self::legal(bth, service.into(), operation, position, extension)
    }

    /// Returns an RDMA READ request.
    #[inline]
    pub fn read_request(bth: Bth, reth: Reth) -> Self {
        Self::rc(
            bth,
            Operation::RdmaReadRequest,
            Position::Only,
            Extension::Reth(reth),
        )
    }

    /// Returns a packet of an RDMA READ response.
    #[inline]
    pub fn read_response(bth: Bth, part: ReadPart) -> Self {
        let (position, extension) = match part {
            ReadPart::First(aeth) => (Position::First, Extension::Aeth(aeth)),
            ReadPart::Middle => (Position::Middle, Extension::None),
            ReadPart::Last(aeth) => (Position::Last, Extension::Aeth(aeth)),
            ReadPart::Only(aeth) => (Position::Only, Extension::Aeth(aeth)),
        };
        Self::rc(bth, Operation::RdmaReadResponse, position, extension)
    }

    /// Returns an ACK, NAK or RNR NAK.
    #[inline]
    pub fn acknowledge(bth: Bth, aeth: Aeth) -> Self {
        Self::rc(
            bth,
            Operation::Acknowledge,
            Position::Only,
            Extension::Aeth(aeth),
        )
    }

    /// Returns the response to an atomic operation.
    #[inline]
    pub fn atomic_acknowledge(bth: Bth, aeth: Aeth, atomic: AtomicAckEth) -> Self {
        let extension = Extension::AtomicAck(aeth, atomic);
        Self::rc(bth, Operation::AtomicAcknowledge, Position::Only, extension)
    }

    /// Returns an ATOMIC compare and swap.
    #[inline]
    pub fn compare_swap(bth: Bth, atomic: AtomicEth) -> Self {
        Self::rc(
            bth,
            Operation::CompareSwap,
            Position::Only,
            Extension::AtomicEth(atomic),
        )
    }

    /// Returns an ATOMIC fetch and add.
    #[inline]
    pub fn fetch_add(bth: Bth, atomic: AtomicEth) -> Self {
        Self::rc(
            bth,
            Operation::FetchAdd,
            Position::Only,
            Extension::AtomicEth(atomic),
        )
    }

    /// Returns a FLUSH.
    #[inline]
    pub fn flush(bth: Bth, feth: Feth, reth: Reth) -> Self {
        let extension = Extension::Flush(feth, reth);
        Self::rc(bth, Operation::Flush, Position::Only, extension)
    }

    /// Returns an ATOMIC WRITE, whose payload are the eight bytes.
    #[inline]
    pub fn atomic_write(bth: Bth, reth: Reth) -> Self {
        let extension = Extension::Reth(reth);
        Self::rc(bth, Operation::AtomicWrite, Position::Only, extension)
    }

    /// Returns a UD SEND, with or without immediate data.
    #[inline]
    pub fn datagram(bth: Bth, deth: Deth, immediate: Option<Immediate>) -> Self {
        let (operation, extension) = match immediate {
            None => (Operation::Send, Extension::Deth(deth)),
            Some(immediate) => (
                Operation::SendImmediate,
                Extension::DethImmediate(deth, immediate),
            ),
        };
        let service = Transport::UnreliableDatagram;
        Self::legal(bth, service, operation, Position::Only, extension)
    }

    /// Returns a congestion notification packet.
    #[inline]
    pub fn congestion_notification(bth: Bth) -> Self {
        let bth = Bth {
            opcode: Opcode::CNP,
            ..bth
        };
        Self {
            bth,
            extension: Extension::Cnp([0; CNP_LENGTH]),
        }
    }

    /// Converts the packet to the XRC service: requests get the XRCETH, responses only the opcode.
    ///
    /// # Errors
    ///
    /// [`Error::IllegalExtension`] if it is not an RC packet.
    pub fn into_xrc(self, xrc: XrcEth) -> Result<Self, Error> {
        let illegal = Error::IllegalExtension(self.bth.opcode);
        let properties = self.bth.opcode.parse().ok_or(illegal)?;
        let service = Transport::ExtendedReliableConnected;
        let opcode = match properties.transport {
            Transport::ReliableConnected => {
                Opcode::new(service, properties.operation, properties.position).ok_or(illegal)?
            }
            _ => return Err(illegal),
        };
        let extension = match self.extension {
            response if properties.is_response() => response,
            Extension::None => Extension::Xrc(xrc, RequestExtension::None),
            Extension::Reth(reth) => Extension::Xrc(xrc, RequestExtension::Reth(reth)),
            Extension::RethImmediate(reth, immediate) => {
                Extension::Xrc(xrc, RequestExtension::RethImmediate(reth, immediate))
            }
            Extension::Immediate(immediate) => {
                Extension::Xrc(xrc, RequestExtension::Immediate(immediate))
            }
            Extension::AtomicEth(atomic) => {
                Extension::Xrc(xrc, RequestExtension::AtomicEth(atomic))
            }
            Extension::Invalidate(ieth) => Extension::Xrc(xrc, RequestExtension::Invalidate(ieth)),
            Extension::Flush(feth, reth) => {
                Extension::Xrc(xrc, RequestExtension::Flush(feth, reth))
            }
            _ => return Err(illegal),
        };
        Self::new(Bth { opcode, ..self.bth }, extension)
    }

    #[inline]
    fn rc(bth: Bth, operation: Operation, position: Position, extension: Extension) -> Self {
        Self::legal(
            bth,
            Transport::ReliableConnected,
            operation,
            position,
            extension,
        )
    }

    /// Returns headers for a triple. The callers above pass only triples that exist, with the
    /// matching extension; the tests check all of them.
    #[inline]
    fn legal(
        bth: Bth,
        service: Transport,
        operation: Operation,
        position: Position,
        extension: Extension,
    ) -> Self {
        let opcode = Opcode::new(service, operation, position);
        debug_assert!(
            opcode.is_some(),
            "no opcode for {service:?} {operation:?} {position:?}"
        );
        let headers = Self {
            bth: Bth {
                opcode: opcode.unwrap_or(bth.opcode),
                ..bth
            },
            extension,
        };
        debug_assert!(headers.is_legal(), "{headers:?}");
        headers
    }
}

impl TransportHeaders {
    /// Returns true if the extension matches the opcode.
    pub fn is_legal(&self) -> bool {
        Self::new(self.bth, self.extension).is_ok()
    }

    /// Returns the bytes on the wire.
    #[inline]
    pub fn length(&self) -> usize {
        Bth::LENGTH + self.extension.length()
    }

    /// Parses the headers at the start of `bytes`; also returns their length in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] or [`Error::UnknownOpcode`]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), Error> {
        let bth = Bth::parse(bytes)?;
        let extension = Extension::parse(bth.opcode, &bytes[Bth::LENGTH..])?;
        let headers = Self { bth, extension };
        Ok((headers, headers.length()))
    }

    /// Writes the headers to the start of `buffer`; returns their length in bytes.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than [`TransportHeaders::length`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        self.bth.emit(buffer);
        self.extension.emit(&mut buffer[Bth::LENGTH..]);
        self.length()
    }
}

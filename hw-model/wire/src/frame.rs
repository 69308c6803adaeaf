//! A whole RoCEv2 frame: parse and emit.

use crate::bth::Bth;
use crate::error::{Error, NotRoce};
use crate::ethernet::EthernetHeader;
use crate::headers::TransportHeaders;
use crate::icrc;
use crate::layout::FrameLayout;
use crate::network_path::{Ip, NetworkPath};
use crate::path::PathTemplate;
use crate::udp::UdpHeader;

/// An accepted RoCEv2 frame. All layers are consistent with each other; the ICRC is checked
/// separately ([`Frame::icrc_is_valid`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Ethernet
    pub ethernet: EthernetHeader,
    /// IP
    pub ip: Ip,
    /// UDP
    pub udp: UdpHeader,
    /// BTH and extension
    pub headers: TransportHeaders,
    /// The ICRC that the frame carries
    pub icrc: u32,
    layout: FrameLayout,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Parses a frame from the first byte of its Ethernet header, without FCS. Bytes beyond the
    /// length in the IP header are ignored, because Ethernet pads short frames.
    ///
    /// # Errors
    ///
    /// [`Error::NotRoce`] for a frame of another protocol, otherwise the error that names the
    /// fault.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (ethernet, ether_type) = EthernetHeader::parse(bytes)?;
        let ip_start = ethernet.length();
        let (ip, ip_payload_length) = Ip::parse(ether_type, &bytes[ip_start..])?;
        let udp_start = ip_start + ip.length();
        let length = udp_start + ip_payload_length;
        let udp = UdpHeader::parse(&bytes[udp_start..length])?;
        let transport = &bytes[udp_start + UdpHeader::LENGTH..length];
        let (headers, header_length) = TransportHeaders::parse(transport)?;
        let payload_length = payload_length(&headers.bth, &transport[header_length..])?;
        let layout = FrameLayout::new(ip.version(), ip_start, header_length, payload_length);
        let icrc = icrc::read(bytes, &layout);
        Ok(Self {
            ethernet,
            ip,
            udp,
            headers,
            icrc,
            layout,
            bytes,
        })
    }

    /// Returns the layout of the frame.
    #[inline]
    pub const fn layout(&self) -> &FrameLayout {
        &self.layout
    }

    /// Returns the payload without pad.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.layout.payload()]
    }

    /// Returns the bytes of payload without pad.
    #[inline]
    pub const fn payload_length(&self) -> usize {
        self.layout.payload_length()
    }

    /// Returns the bytes of the frame, without Ethernet padding.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[..self.layout.length()]
    }

    /// Returns the headers below the transport.
    #[inline]
    pub const fn path(&self) -> NetworkPath {
        NetworkPath {
            ethernet: self.ethernet,
            ip: self.ip,
            udp: self.udp,
        }
    }

    /// Computes the ICRC of the bytes.
    #[inline]
    pub fn computed_icrc(&self) -> u32 {
        icrc::compute(self.bytes, &self.layout)
    }

    /// Returns true if the ICRC of the frame matches its bytes.
    #[inline]
    pub fn icrc_is_valid(&self) -> bool {
        self.icrc == self.computed_icrc()
    }

    /// Writes the frame again from its values, with its payload, pad and ICRC; returns the bytes
    /// written.
    ///
    /// # Panics
    ///
    /// If `buffer` is shorter than [`Frame::bytes`].
    pub fn emit<'b>(&self, buffer: &'b mut [u8]) -> &'b mut [u8] {
        let path = self.path();
        let template = PathTemplate::new(&path);
        let identification = match self.ip {
            Ip::V4(v4) => v4.identification,
            Ip::V6(_) => 0,
        };
        let length = self.layout.payload_length();
        let layout = template.emit(&self.headers, length, identification, buffer);
        buffer[layout.payload()].copy_from_slice(self.payload());
        buffer[layout.pad()].copy_from_slice(&self.bytes[self.layout.pad()]);
        icrc::write(buffer, &layout, self.icrc);
        &mut buffer[..layout.length()]
    }
}

/// Returns the length of the payload from the bytes after the last header: payload, pad and ICRC.
#[inline]
fn payload_length(bth: &Bth, rest: &[u8]) -> Result<usize, Error> {
    let Some(length) = rest.len().checked_sub(icrc::LENGTH) else {
        let (needed, available) = (icrc::LENGTH, rest.len());
        return Err(Error::Truncated {
            header: "ICRC",
            needed,
            available,
        });
    };
    match length.checked_sub(usize::from(bth.pad_count)) {
        Some(payload_length) if length % 4 == 0 => Ok(payload_length),
        _ => Err(Error::Pad {
            length,
            pad_count: bth.pad_count,
        }),
    }
}

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind<'a> {
    /// A RoCEv2 frame
    Roce(Frame<'a>),
    /// Another protocol, which is not an error
    Other(NotRoce),
    /// A frame that contradicts itself, or a RoCEv2 frame that this crate cannot represent
    Malformed(Error),
}

/// Classifies a frame: RoCEv2, another protocol, or malformed.
pub fn classify(bytes: &[u8]) -> FrameKind<'_> {
    match Frame::parse(bytes) {
        Ok(frame) => FrameKind::Roce(frame),
        Err(Error::NotRoce(other)) => FrameKind::Other(other),
        Err(error) => FrameKind::Malformed(error),
    }
}

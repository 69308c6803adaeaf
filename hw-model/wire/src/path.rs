//! Emitting frames: the headers of a connection are built once and then patched per packet.
//!
//! A packet is built in three steps: [`PathTemplate::emit`] writes all headers into the frame
//! buffer, the caller writes the payload at the position given by the returned [`FrameLayout`], and
//! [`finish`] writes pad and ICRC.

use crate::bth::{Bth, pad_count};
use crate::ethernet::EthernetHeader;
use crate::headers::TransportHeaders;
use crate::icrc;
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::layout::FrameLayout;
use crate::network_path::{Ip, IpVersion, NetworkPath};
use crate::udp::UdpHeader;

/// Maximum length before a BTH: tagged Ethernet, IPv6, UDP.
const MAX_LENGTH: usize = EthernetHeader::MAX_LENGTH + Ipv6Header::LENGTH + UdpHeader::LENGTH;

/// Ethernet, IP and UDP headers of a connection as bytes, ready to be copied into each frame.
#[derive(Debug, Clone, Copy)]
pub struct PathTemplate {
    bytes: [u8; MAX_LENGTH],
    version: IpVersion,
    ip: u8,
    length: u8,
    /// IPv4: the part of the header checksum that is the same for all packets
    checksum_base: u32,
}

/// Whether a frame carries an ICRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcrcMode {
    /// Computed over the frame
    Computed,
    /// Four bytes of zero: only on a wire inside one machine that is not captured
    Zero,
}

impl PathTemplate {
    /// Builds the headers of `path`.
    pub fn new(path: &NetworkPath) -> Self {
        let mut bytes = [0; MAX_LENGTH];
        let ip = path.ethernet.emit(path.ip.ether_type(), &mut bytes);
        let checksum_base = match &path.ip {
            Ip::V4(v4) => {
                v4.emit(0, &mut bytes[ip..]);
                v4.checksum_base()
            }
            Ip::V6(v6) => {
                v6.emit(0, &mut bytes[ip..]);
                0
            }
        };
        path.udp.emit(0, &mut bytes[ip + path.ip.length()..]);
        let length = path.length();
        debug_assert!(length <= MAX_LENGTH);
        Self {
            bytes,
            version: path.ip.version(),
            ip: ip as u8,
            length: length as u8,
            checksum_base,
        }
    }

    /// Returns the bytes of a whole frame with these transport headers and `payload_length` bytes
    /// of payload.
    #[inline]
    pub fn frame_length(&self, headers: &TransportHeaders, payload_length: usize) -> usize {
        self.layout(headers, payload_length).length()
    }

    #[inline]
    fn layout(&self, headers: &TransportHeaders, payload_length: usize) -> FrameLayout {
        let ip = usize::from(self.ip);
        FrameLayout::new(self.version, ip, headers.length(), payload_length)
    }

    /// Writes all headers of a packet to the start of `frame`; returns the positions of the other
    /// parts.
    ///
    /// The pad count follows from `payload_length`, whatever the BTH contains. `identification`
    /// goes into the IPv4 header; IPv6 has none.
    ///
    /// # Panics
    ///
    /// If `frame` is shorter than [`PathTemplate::frame_length`], or the IP packet would be longer
    /// than 65,535 bytes.
    #[inline]
    pub fn emit(
        &self,
        headers: &TransportHeaders,
        payload_length: usize,
        identification: u16,
        frame: &mut [u8],
    ) -> FrameLayout {
        let layout = self.layout(headers, payload_length);
        let frame = &mut frame[..layout.length()];
        let length = usize::from(self.length);
        let (network, transport) = frame.split_at_mut(length);
        network.copy_from_slice(&self.bytes[..length]);

        let udp_payload_length = transport.len();
        let udp_length = UdpHeader::LENGTH + udp_payload_length;
        let ip_header = &mut network[layout.ip()..];
        match self.version {
            IpVersion::V4 => {
                Ipv4Header::patch(ip_header, self.checksum_base, udp_length, identification);
            }
            IpVersion::V6 => Ipv6Header::patch(ip_header, udp_length),
        }
        UdpHeader::patch(
            &mut network[length - UdpHeader::LENGTH..],
            udp_payload_length,
        );

        Bth {
            pad_count: pad_count(payload_length),
            ..headers.bth
        }
        .emit(transport);
        headers.extension.emit(&mut transport[Bth::LENGTH..]);
        layout
    }
}

/// Completes a frame that has headers and payload: writes zeros as pad, then the ICRC.
///
/// # Panics
///
/// If `frame` is shorter than the layout.
#[inline]
pub fn finish(frame: &mut [u8], layout: &FrameLayout, mode: IcrcMode) {
    frame[layout.pad()].fill(0);
    let icrc = match mode {
        IcrcMode::Computed => icrc::compute(frame, layout),
        IcrcMode::Zero => 0,
    };
    icrc::write(frame, layout, icrc);
}

/// Writes a whole frame to the start of `buffer` and returns its bytes, for single packets without
/// a template. The identification of IPv4 is taken from `path`.
///
/// # Panics
///
/// If `buffer` is too short, or the IP packet would be longer than 65,535 bytes.
pub fn emit_frame<'a>(
    path: &NetworkPath,
    headers: &TransportHeaders,
    payload: &[u8],
    mode: IcrcMode,
    buffer: &'a mut [u8],
) -> &'a mut [u8] {
    let identification = match path.ip {
        Ip::V4(v4) => v4.identification,
        Ip::V6(_) => 0,
    };
    let template = PathTemplate::new(path);
    let layout = template.emit(headers, payload.len(), identification, buffer);
    buffer[layout.payload()].copy_from_slice(payload);
    finish(buffer, &layout, mode);
    &mut buffer[..layout.length()]
}

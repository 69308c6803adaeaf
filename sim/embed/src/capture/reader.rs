//! Reads captures of any program: pcap and pcapng.

use std::io::{self, Read};
use std::ops::ControlFlow;

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError};

/// First bytes of a pcapng file, in either byte order.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Reason why a capture cannot be read completely.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is shorter than the shortest capture.
    #[error("is too short for a capture")]
    Short,
    /// It does not begin like a capture.
    #[error("is no capture, neither pcap nor pcapng: {0}")]
    NoCapture(PcapError),
    /// Invalid data after a frame.
    #[error("is damaged after frame {frames}: {error}")]
    Damaged {
        /// Frames before it.
        frames: u64,
        /// The error.
        error: PcapError,
    },
}

/// A frame of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Its bytes, possibly cut.
    pub bytes: &'a [u8],
    /// Its length on the wire.
    pub original_length: u32,
    /// Its link type; `None` if the capture does not say.
    pub link: Option<DataLink>,
}

impl Captured<'_> {
    /// Returns true if it is an Ethernet frame.
    pub fn is_ethernet(&self) -> bool {
        self.link == Some(DataLink::ETHERNET)
    }

    /// Returns true if the capture holds only the start of it.
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < self.original_length as usize
    }
}

/// Calls `action` with each frame of a capture until it breaks.
///
/// # Errors
/// [`ReadError`] if it is no capture or is damaged; frames before the damage are passed to `action`
/// first.
pub fn for_each_frame(
    mut file: impl Read,
    action: &mut dyn FnMut(Captured<'_>) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    let mut magic = [0; PCAPNG_MAGIC.len()];
    file.read_exact(&mut magic)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::Short,
            _ => ReadError::Io(error),
        })?;
    let whole = magic.as_slice().chain(file);
    let mut frames = 0;
    let mut count = |captured: Captured<'_>| {
        frames += 1;
        action(captured)
    };
    let read = if magic == PCAPNG_MAGIC {
        read_pcapng(whole, &mut count)?
    } else {
        read_pcap(whole, &mut count)?
    };
    read.map_err(|error| ReadError::Damaged { frames, error })
}

type Action<'a> = &'a mut dyn FnMut(Captured<'_>) -> ControlFlow<()>;

/// Reads a pcap file. The outer error: it is no capture. The inner one: it is damaged.
fn read_pcap(file: impl Read, action: Action<'_>) -> Result<Result<(), PcapError>, ReadError> {
    let mut reader = PcapReader::new(file).map_err(ReadError::NoCapture)?;
    let link = Some(reader.header().datalink);
    while let Some(packet) = reader.next_packet() {
        let packet = match packet {
            Ok(packet) => packet,
            Err(error) => return Ok(Err(error)),
        };
        let captured = Captured {
            bytes: &packet.data,
            original_length: packet.orig_len,
            link,
        };
        if action(captured).is_break() {
            break;
        }
    }
    Ok(Ok(()))
}

/// Reads a pcapng file, like [`read_pcap`].
fn read_pcapng(file: impl Read, action: Action<'_>) -> Result<Result<(), PcapError>, ReadError> {
    let mut reader = PcapNgReader::new(file).map_err(ReadError::NoCapture)?;
    let mut links: Vec<DataLink> = Vec::new();
    while let Some(block) = reader.next_block() {
        let captured = match block {
            Err(error) => return Ok(Err(error)),
            Ok(Block::EnhancedPacket(packet)) => action(Captured {
                bytes: &packet.data,
                original_length: packet.original_len,
                link: links.get(packet.interface_id as usize).copied(),
            }),
            Ok(Block::SimplePacket(packet)) => action(Captured {
                bytes: &packet.data,
                original_length: packet.original_len,
                link: links.first().copied(),
            }),
            Ok(Block::SectionHeader(_)) => {
                links.clear();
                continue;
            }
            Ok(Block::InterfaceDescription(interface)) => {
                links.push(interface.linktype);
                continue;
            }
            Ok(_) => continue,
        };
        if captured.is_break() {
            break;
        }
    }
    Ok(Ok(()))
}

//! `ferroce wire check`: holds captures against our own idea of RoCEv2.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ferroce_wire::check::Checker;
use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};

use super::{EXIT_FAILURE, complain};

/// First bytes of a pcapng file, in either byte order.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Look at frames on the wire.
#[derive(Debug, Subcommand)]
pub enum Wire {
    Check(Check),
}

/// Parse each RoCEv2 frame of captures, emit it anew, compare bytes and ICRC.
///
/// Reads pcap and pcapng, from whatever source. Prints the frames per opcode and the first
/// difference. The exit code is 1 if there is any.
#[derive(Debug, Args)]
pub struct Check {
    /// Captures
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Wire {
    /// Does what was asked for.
    pub fn execute(self) -> ExitCode {
        let Self::Check(Check { files }) = self;
        let mut is_clean = true;
        for path in files {
            match check(&path) {
                Ok(found) => is_clean &= report(&path, &found),
                Err(error) => {
                    let message = format!("{}: {error}", path.display());
                    return complain(&message, EXIT_FAILURE);
                }
            }
        }
        if is_clean {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        }
    }
}

/// What was found in one file.
#[derive(Debug, Default)]
struct Found {
    checker: Checker,
    /// Frames of which the capture holds only the start.
    cut: u64,
}

impl Found {
    fn feed(&mut self, data: &[u8], original_length: u32) {
        if data.len() < original_length as usize {
            self.cut += 1;
        } else {
            self.checker.feed(data);
        }
    }
}

fn check(path: &Path) -> Result<Found, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut file = File::open(path).map_err(text)?;
    let mut magic = [0; 4];
    file.read_exact(&mut magic)
        .map_err(|_| "is too short for a capture".to_owned())?;
    file.rewind().map_err(text)?;
    let file = BufReader::new(file);
    if magic == PCAPNG_MAGIC {
        check_pcapng(file)
    } else {
        check_pcap(file)
    }
}

fn check_pcap(file: impl Read) -> Result<Found, String> {
    let mut reader = PcapReader::new(file).map_err(|error| format!("no capture: {error}"))?;
    if reader.header().datalink != DataLink::ETHERNET {
        return Err(format!(
            "frames of {:?}, not of Ethernet",
            reader.header().datalink
        ));
    }
    let mut found = Found::default();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.map_err(|error| broken(&found, &error.to_string()))?;
        found.feed(&packet.data, packet.orig_len);
    }
    Ok(found)
}

fn check_pcapng(file: impl Read) -> Result<Found, String> {
    let mut reader = PcapNgReader::new(file).map_err(|error| format!("no capture: {error}"))?;
    let mut found = Found::default();
    let mut links: Vec<DataLink> = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.map_err(|error| broken(&found, &error.to_string()))? {
            Block::SectionHeader(_) => links.clear(),
            Block::InterfaceDescription(interface) => links.push(interface.linktype),
            Block::EnhancedPacket(packet)
                if links.get(packet.interface_id as usize) == Some(&DataLink::ETHERNET) =>
            {
                found.feed(&packet.data, packet.original_len);
            }
            Block::SimplePacket(packet) if links.first() == Some(&DataLink::ETHERNET) => {
                found.feed(&packet.data, packet.original_len);
            }
            _ => {}
        }
    }
    Ok(found)
}

fn broken(found: &Found, error: &str) -> String {
    format!(
        "is damaged behind frame {}: {error}",
        found.checker.frames()
    )
}

/// Prints what was found. Whether all was well.
fn report(path: &Path, found: &Found) -> bool {
    let Found { checker, cut } = found;
    let (frames, roce) = (checker.frames(), checker.roce_frames());
    println!("{}: {frames} frames, {roce} of RoCEv2", path.display());
    for (opcode, count) in checker.opcodes() {
        println!("  {opcode:36} {count:>10}");
    }
    for (other, count) in checker.others() {
        println!("  not RoCEv2: {:24} {count:>10}", other.to_string());
    }
    if *cut > 0 {
        println!("  cut short by the capture, not checked {cut:>8}");
    }
    if let Some((frame, error)) = checker.first_malformed() {
        println!(
            "  MALFORMED: {} frames, first frame {frame}: {error}",
            checker.malformed()
        );
    }
    if let Some(first) = checker.first_difference() {
        let byte = |byte: Option<u8>| byte.map_or("nothing".to_owned(), |b| format!("{b:#04x}"));
        println!(
            "  DIFFERENT: {} frames, first frame {} at byte {}: {} in the file, {} emitted",
            checker.differences(),
            first.frame,
            first.offset,
            byte(first.expected),
            byte(first.actual),
        );
    }
    if let Some(first) = checker.first_icrc_failure() {
        println!(
            "  BAD ICRC: {} frames, first frame {}: {:#010x} in the file, {:#010x} computed",
            checker.icrc_failures(),
            first.frame,
            first.actual,
            first.expected,
        );
    }
    checker.is_clean()
}

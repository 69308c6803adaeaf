//! Captures in pcapng, with nanoseconds and always with a valid ICRC.
//!
//! Several processes may append to one file. Blocks of pcapng are self-contained, so each process
//! writes whole blocks under a lock of the file, and the sections that they start are equal.

pub mod reader;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ferroce_platform::pcapng::{
    NANOSECONDS, PRIVATE, SECTION_HEADER, begin_packet, comment_options, preamble, write_icrc,
};
use ferroce_platform::{fork, os};

use crate::error::Error;

/// Pending bytes at which they are written to the file.
const FLUSH_BYTES: usize = 256 * 1024;

/// A capture file that this process appends to.
#[derive(Debug)]
pub struct Capture {
    path: PathBuf,
    file: File,
    identity: u64,
    waiting: Vec<u8>,
    has_failed: bool,
    fork_generation: u32,
}

impl Capture {
    /// Opens a capture for appending; starts it if it is new or empty.
    ///
    /// # Errors
    /// [`Error::Capture`] if it cannot be opened or is a file of another kind.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let refuse = |reason: String| Error::Capture {
            path: path.to_owned(),
            reason,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(PRIVATE)
            .open(path)
            .map_err(|error| refuse(error.to_string()))?;
        os::lock_file(&file).map_err(|error| refuse(error.to_string()))?;
        let begun = begin(&mut file);
        os::unlock_file(&file);
        begun.map_err(|error| refuse(error.to_string()))?;
        let metadata = file.metadata().map_err(|error| refuse(error.to_string()))?;
        // Lets two processes with the same file detect that it is the same. Never 0.
        let identity = (metadata.ino() << 16 ^ metadata.dev()).max(1);
        let waiting = Vec::with_capacity(FLUSH_BYTES);
        let fork_generation = fork::generation();
        let path = path.to_owned();
        Ok(Self {
            path,
            file,
            identity,
            waiting,
            has_failed: false,
            fork_generation,
        })
    }

    /// Returns a number that only this file has on this machine; not 0.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Records a frame with the current time. `carries_icrc`: its last four bytes are already
    /// valid.
    pub fn record(&mut self, frame: &[u8], carries_icrc: bool) {
        self.record_with(frame, carries_icrc, &[]);
    }

    /// Records a frame with a comment.
    pub fn record_commented(&mut self, frame: &[u8], carries_icrc: bool, comment: &str) {
        self.record_with(frame, carries_icrc, &comment_options(comment));
    }

    fn record_with(&mut self, frame: &[u8], carries_icrc: bool, options: &[u8]) {
        let time_ns = os::realtime_ns();
        let length = begin_packet(&mut self.waiting, 0, time_ns, frame, options.len());
        let data = self.waiting.len() - frame.len().next_multiple_of(4);
        if !carries_icrc {
            write_icrc(&mut self.waiting[data..data + frame.len()]);
        }
        self.waiting.extend(options);
        self.waiting.extend(length.to_le_bytes());
        if self.waiting.len() >= FLUSH_BYTES {
            self.flush();
        }
    }

    /// Writes pending blocks to the file. An error ends the capture, not the traffic.
    pub fn flush(&mut self) {
        // Blocks pending in a child made by fork belong to the parent.
        if self.waiting.is_empty() || self.fork_generation != fork::generation() {
            return;
        }
        if !self.has_failed {
            if let Err(error) = append(&mut self.file, &self.waiting) {
                let path = self.path.display();
                tracing::error!(%error, %path, "the capture ends here");
                self.has_failed = true;
            }
        }
        self.waiting.clear();
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.flush();
    }
}

fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    os::lock_file(file)?;
    let written = file.write_all(bytes);
    os::unlock_file(file);
    written
}

/// Ensures that appended blocks belong to a section with our interface.
fn begin(file: &mut File) -> io::Result<()> {
    let ours = preamble(&["ferroce0"], NANOSECONDS);
    if file.metadata()?.len() == 0 {
        return file.write_all(&ours);
    }
    let mut found = vec![0; ours.len()];
    let length = read_up_to(file, &mut found)?;
    if found == ours {
        return Ok(());
    }
    if length >= 12 && found[..4] == SECTION_HEADER.to_le_bytes() {
        // A pcapng of another program: append a new section.
        return file.write_all(&ours);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "exists, and is not a pcapng file",
    ))
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..])? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use ferroce_platform::pcapng::create_private;
    use ferroce_test_support::{temporary_directory, write_frame};
    use ferroce_wire::Frame;
    use pcap_file::pcapng::{Block, PcapNgReader};

    use super::*;

    fn packets(path: &Path) -> Vec<Vec<u8>> {
        let mut reader = PcapNgReader::new(File::open(path).expect("written")).expect("pcapng");
        let mut packets = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.expect("well formed") {
                assert_eq!(packet.original_len as usize, packet.data.len());
                packets.push(packet.data.to_vec());
            }
        }
        packets
    }

    #[test]
    fn two_writers_share_a_file_and_every_icrc_is_valid() {
        let directory = temporary_directory("capture");
        let path = directory.path().join("c.pcapng");
        let mut one = Capture::open(&path).expect("new");
        let mut two = Capture::open(&path).expect("there");
        assert_eq!(one.identity(), two.identity());
        let frame = write_frame(b"payload");
        one.record(&frame, false);
        two.record(&frame, false);
        two.flush();
        one.record(b"no RoCE", false);
        drop(one);
        let packets = packets(&path);
        assert_eq!(packets.len(), 3);
        for packet in &packets[..2] {
            assert!(Frame::parse(packet).expect("RoCEv2").icrc_is_valid());
            assert_eq!(packet[..packet.len() - 4], frame[..frame.len() - 4]);
        }
        assert_eq!(packets[2], b"no RoCE");
    }

    #[test]
    fn frames_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = temporary_directory("capture-mode");
        let mode = |path: &Path| {
            let metadata = std::fs::metadata(path).expect("there");
            metadata.permissions().mode() & 0o777
        };
        let appended = directory.path().join("appended");
        drop(Capture::open(&appended).expect("new"));
        assert_eq!(mode(&appended), 0o600);
        let created = directory.path().join("created");
        drop(create_private(&created).expect("new"));
        assert_eq!(mode(&created), 0o600);
    }

    #[test]
    fn a_file_of_another_kind_is_left_alone() {
        let directory = temporary_directory("no-capture");
        let path = directory.path().join("letter.txt");
        std::fs::write(&path, "Dear reader,").expect("new");
        let refused = Capture::open(&path).expect_err("no capture");
        assert!(
            refused.to_string().contains("not a pcapng file"),
            "{refused}"
        );
        assert_eq!(std::fs::read(&path).expect("there"), b"Dear reader,");
    }
}

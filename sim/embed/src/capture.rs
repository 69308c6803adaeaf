//! Captures in pcapng, with nanoseconds and always with a valid ICRC.
//!
//! Several processes may append to one file. pcapng blocks are self-contained: each process writes
//! whole blocks while it holds a lock on the file, and is one interface of the shared section.

pub mod reader;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ferroce_platform::capture_file::{PRIVATE, refuse_of_others};
use ferroce_platform::host::{HostIdentity, device_name};
use ferroce_platform::{fork, os};
use ferroce_wire::pcapng::{
    Direction, INTERFACE_DESCRIPTION, Interface, NANOSECONDS, SECTION_HEADER, begin_packet,
    interface_description, packet_options, section_header, write_icrc,
};

use crate::error::Error;

/// The capture is written to the file when this many bytes are pending.
const FLUSH_BYTES: usize = 256 * 1024;

/// Returns the interface of a function of this process.
pub fn interface(host: &HostIdentity) -> Interface {
    let program = fs::read_to_string("/proc/self/comm").unwrap_or_default();
    Interface {
        name: format!("{} pid {}", device_name(host.device), std::process::id()),
        about: Some(format!("{} on host {}", program.trim_end(), host.name)),
        resolution: NANOSECONDS,
    }
}

/// A capture file that this process appends to.
#[derive(Debug)]
pub struct Capture {
    path: PathBuf,
    file: File,
    identity: u64,
    /// Number of this process's interface in its section.
    interface: u32,
    waiting: Vec<u8>,
    has_failed: bool,
    fork_generation: u32,
}

impl Capture {
    /// Opens a capture for appending, and adds an interface to it; starts it if it is new or empty.
    ///
    /// # Errors
    /// [`Error::Capture`] if it cannot be opened or is a file of another kind.
    pub fn open(path: &Path, interface: &Interface) -> Result<Self, Error> {
        let (file, interface) = open_locked(path, |file| begin(file, interface))?;
        let refuse = |error: io::Error| refusal(path, &error);
        let metadata = file.metadata().map_err(refuse)?;
        // Lets two processes detect that they capture into the same file. Never 0.
        let identity = (metadata.ino() << 16 ^ metadata.dev()).max(1);
        let waiting = Vec::with_capacity(FLUSH_BYTES);
        let fork_generation = fork::generation();
        let path = path.to_owned();
        Ok(Self {
            path,
            file,
            identity,
            interface,
            waiting,
            has_failed: false,
            fork_generation,
        })
    }

    /// Checks that a capture can be opened for appending; begins one without packets if there is
    /// none.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn check(path: &Path) -> Result<(), Error> {
        let read = |file: &mut File| match file.metadata()?.len() {
            0 => file.write_all(&section_header()),
            _ => last_section(file).map(drop),
        };
        open_locked(path, read).map(drop)
    }

    /// Returns a number that only this file has on this machine; not 0.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Records a frame with the current time. Its ICRC is valid.
    pub fn record(&mut self, direction: Direction, frame: &[u8]) {
        self.record_with(frame, &packet_options(direction, None), |_| {});
    }

    /// Records a frame with the current time, and with its ICRC, which its sender has not computed.
    pub fn record_without_icrc(&mut self, direction: Direction, frame: &[u8]) {
        self.record_with(frame, &packet_options(direction, None), write_icrc);
    }

    /// Records a frame with a comment. Its ICRC is valid, or deliberately invalid.
    pub fn record_commented(&mut self, direction: Direction, frame: &[u8], comment: &str) {
        self.record_with(frame, &packet_options(direction, Some(comment)), |_| {});
    }

    /// Records a frame after `finish` has changed its copy.
    fn record_with(&mut self, frame: &[u8], options: &[u8], finish: impl FnOnce(&mut [u8])) {
        let time_ns = os::realtime_ns();
        let waiting = &mut self.waiting;
        let length = begin_packet(waiting, self.interface, time_ns, frame, options.len());
        let data = self.waiting.len() - frame.len().next_multiple_of(4);
        finish(&mut self.waiting[data..data + frame.len()]);
        self.waiting.extend(options);
        self.waiting.extend(length.to_le_bytes());
        if self.waiting.len() >= FLUSH_BYTES {
            self.flush();
        }
    }

    /// Writes pending blocks to the file. An error ends the capture, not the traffic.
    pub fn flush(&mut self) {
        // After a fork, the pending blocks belong to the parent.
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

fn refusal(path: &Path, error: &io::Error) -> Error {
    let reason = match error.kind() {
        ErrorKind::InvalidData => "exists, and is not a pcapng file".to_owned(),
        _ => error.to_string(),
    };
    Error::Capture {
        path: path.to_owned(),
        reason,
    }
}

/// Opens a file for appending and runs an action on it under the file's lock.
fn open_locked<R>(
    path: &Path,
    work: impl FnOnce(&mut File) -> io::Result<R>,
) -> Result<(File, R), Error> {
    let open = || -> io::Result<(File, R)> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(PRIVATE);
        let mut file = options.open(path)?;
        refuse_of_others(&file)?;
        os::lock_file(&file)?;
        let result = work(&mut file);
        os::unlock_file(&file);
        Ok((file, result?))
    };
    open().map_err(|error| refusal(path, &error))
}

fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    os::lock_file(file)?;
    let written = file.write_all(bytes);
    os::unlock_file(file);
    written
}

/// Ensures that appended blocks belong to a section with our interface. Returns its number.
fn begin(file: &mut File, interface: &Interface) -> io::Result<u32> {
    let description = interface_description(interface);
    let (is_ours, interfaces) = match file.metadata()?.len() {
        0 => (false, 0),
        _ => last_section(file)?,
    };
    if is_ours {
        file.write_all(&description)?;
        return Ok(interfaces);
    }
    file.write_all(&[section_header(), description].concat())?;
    Ok(0)
}

/// Reads a capture. Returns true if Ferroce began its last section, and the number of interfaces in
/// that section.
fn last_section(file: &mut File) -> io::Result<(bool, u32)> {
    const HEADER: usize = 8;
    let ours = section_header();
    let end = file.metadata()?.len();
    let mut reader = BufReader::new(file);
    let (mut at, mut is_ours, mut interfaces) = (0, false, 0);
    let mut start = vec![0; ours.len()];
    while at < end {
        let read = read_up_to(&mut reader, &mut start)?;
        let word = |place: usize| -> u32 {
            let bytes = start
                .get(place..place + 4)
                .and_then(|it| it.try_into().ok());
            bytes.map_or(0, u32::from_le_bytes)
        };
        let (kind, length) = (word(0), u64::from(word(4)));
        if at == 0 && (read < HEADER || kind != SECTION_HEADER) {
            return Err(ErrorKind::InvalidData.into());
        }
        if kind == SECTION_HEADER {
            (is_ours, interfaces) = (read == ours.len() && start == ours, 0);
        }
        interfaces += u32::from(kind == INTERFACE_DESCRIPTION);
        // A writer was killed, or the byte order differs: no interface can be added to this
        // section.
        if length < HEADER as u64 || at + length > end {
            return Ok((false, 0));
        }
        at += length;
        reader.seek_relative(length as i64 - read as i64)?;
    }
    Ok((is_ours, interfaces))
}

fn read_up_to(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
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
    use ferroce_platform::capture_file::create_private;
    use ferroce_test_support::{temporary_directory, write_frame};
    use ferroce_wire::Frame;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
    use pcap_file::pcapng::{Block, PcapNgReader};

    use super::*;

    fn named(name: &str) -> Interface {
        Interface {
            name: name.to_owned(),
            about: None,
            resolution: NANOSECONDS,
        }
    }

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
        let mut one = Capture::open(&path, &named("one")).expect("new");
        let mut two = Capture::open(&path, &named("two")).expect("there");
        assert_eq!(one.identity(), two.identity());
        let frame = write_frame(b"payload");
        one.record_without_icrc(Direction::Outbound, &frame);
        two.record_without_icrc(Direction::Inbound, &frame);
        two.flush();
        one.record_without_icrc(Direction::Outbound, b"no RoCE");
        drop(one);
        let packets = packets(&path);
        assert_eq!(packets.len(), 3);
        for packet in &packets[..2] {
            assert!(Frame::parse(packet).expect("RoCEv2").icrc_is_valid());
            assert_eq!(packet[..packet.len() - 4], frame[..frame.len() - 4]);
        }
        assert_eq!(packets[2], b"no RoCE");
    }

    /// Returns the numbers of the interfaces of all frames, and the names of the interfaces.
    fn interfaces(path: &Path) -> (Vec<u32>, Vec<String>) {
        let mut reader = PcapNgReader::new(File::open(path).expect("written")).expect("pcapng");
        let (mut numbers, mut names) = (Vec::new(), Vec::new());
        while let Some(block) = reader.next_block() {
            match block.expect("well formed") {
                Block::EnhancedPacket(packet) => numbers.push(packet.interface_id),
                Block::InterfaceDescription(found) => {
                    names.extend(found.options.iter().filter_map(|option| match option {
                        InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                        _ => None,
                    }));
                }
                _ => {}
            }
        }
        (numbers, names)
    }

    #[test]
    fn each_writer_is_an_interface() {
        let directory = temporary_directory("interfaces");
        let path = directory.path().join("c.pcapng");
        let frame = write_frame(b"payload");
        for name in ["one", "two", "three"] {
            let mut capture = Capture::open(&path, &named(name)).expect("a capture");
            capture.record_without_icrc(Direction::Outbound, &frame);
            capture.record_commented(Direction::Inbound, &frame, "lost");
        }
        let (numbers, names) = interfaces(&path);
        assert_eq!(numbers, [0, 0, 1, 1, 2, 2]);
        assert_eq!(names, ["one", "two", "three"]);
    }

    /// Goal: after the remains of a killed writer, and after a section of another program, frames
    /// begin a new section.
    #[test]
    fn a_section_is_not_joined_blindly() {
        let directory = temporary_directory("sections");
        let ours = || [section_header(), interface_description(&named("first"))].concat();
        let cut = [ours(), vec![6, 0, 0, 0, 64, 0, 0, 0, 1]].concat();
        let mut foreign = ours();
        let name = foreign.windows(7).position(|it| it == b"Ferroce");
        foreign[name.expect("the application")] = b'X';
        for bytes in [cut, foreign] {
            let path = directory.path().join("c.pcapng");
            fs::write(&path, &bytes).expect("new");
            let capture = Capture::open(&path, &named("second")).expect("a capture");
            assert_eq!(capture.interface, 0);
            let grown = fs::read(&path).expect("there");
            assert!(grown[bytes.len()..].starts_with(&section_header()));
        }
    }

    #[test]
    fn frames_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = temporary_directory("capture-mode");
        let mode = |path: &Path| {
            let metadata = fs::metadata(path).expect("there");
            metadata.permissions().mode() & 0o777
        };
        let appended = directory.path().join("appended");
        drop(Capture::open(&appended, &named("a")).expect("new"));
        assert_eq!(mode(&appended), 0o600);
        let created = directory.path().join("created");
        drop(create_private(&created).expect("new"));
        assert_eq!(mode(&created), 0o600);
    }

    /// Goal: if another user prepares a file that anyone may write, no frames are captured into it.
    #[test]
    fn a_file_of_another_user_is_refused_and_left_alone() {
        use std::os::unix::fs::{PermissionsExt, chown};
        const OTHER_USER: u32 = 65534;
        let directory = temporary_directory("capture-owner");
        let path = directory.path().join("c.pcapng");
        fs::write(&path, "theirs").expect("new");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("ours");
        if chown(&path, Some(OTHER_USER), None).is_err() {
            eprintln!("NOT TESTED: only root can create files of another user");
            return;
        }
        let appended = Capture::open(&path, &named("a")).expect_err("not ours");
        assert!(appended.to_string().contains("user 65534"), "{appended}");
        let created = create_private(&path).expect_err("not ours");
        assert_eq!(created.kind(), ErrorKind::PermissionDenied);
        assert_eq!(fs::read(&path).expect("there"), b"theirs");
    }

    #[test]
    fn a_file_of_another_kind_is_left_alone() {
        let directory = temporary_directory("no-capture");
        let path = directory.path().join("letter.txt");
        fs::write(&path, "Dear reader,").expect("new");
        let refused = Capture::open(&path, &named("a")).expect_err("no capture");
        assert!(
            refused.to_string().contains("not a pcapng file"),
            "{refused}"
        );
        assert_eq!(fs::read(&path).expect("there"), b"Dear reader,");
    }
}

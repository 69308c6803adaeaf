//! The register of functions on this machine: one small file that every process maps.
//!
//! It has 255 *places*, one page each. Place `n` owns the QPNs `n << 16 .. (n + 1) << 16`. A
//! process holds its place by a record lock on byte `n` of the file, which the kernel frees when
//! the process ends, however it ends. All words are read and written atomically, and whatever
//! another process may have written is checked before use.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ferroce_wire::{Gid, Mac, Qpn};
use parking_lot::Mutex;

use super::ring::RingName;
use crate::clock::Ticks;
use crate::error::Error;
use crate::fork;
use crate::os;
use crate::shared_memory::Mapping;

/// Places, counting place 0, which nobody gets: its QPNs include the special QPs 0 and 1.
pub const PLACES: usize = 256;
/// GIDs that a place has room for.
pub const MAX_GIDS: usize = 32;
/// Bytes of a host name, in UTF-8; longer ones are cut.
pub const MAX_HOST_NAME: usize = 64;
/// Counters that a place has room for.
pub const MAX_COUNTERS: usize = 256;
/// Words of the bitmap of places that announced a ring.
pub const ANNOUNCE_WORDS: usize = PLACES / 64;

const FILE_NAME: &str = "registry";
const MAGIC: u64 = u64::from_le_bytes(*b"Ferroce\n");
/// Changes with every change of this file's or of the rings' layout.
const LAYOUT_VERSION: u64 = 1;
const PLACE_SIZE: usize = 4096;
const FILE_SIZE: usize = PLACE_SIZE * PLACES;
/// How long a process waits for another one that is just claiming a place.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The lock of byte 0 guards the header and the act of claiming.
const HEADER_LOCK: u64 = 0;

/// The header takes the page of place 0.
mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const GENERATION: usize = 16;
    pub const NEXT_PLACE: usize = 24;
}

/// A place's page. What different processors write lies on different cache lines.
mod field {
    pub const GENERATION: usize = 0;
    pub const PID: usize = 8;
    pub const MAC: usize = 16;
    pub const GID_COUNT: usize = 24;
    pub const CAPTURE: usize = 32;
    pub const NAME: usize = 64;
    pub const GIDS: usize = 128;
    pub const HEARTBEAT: usize = 1024;
    pub const ARMED: usize = 1088;
    pub const DOZING: usize = 1092;
    pub const WOKEN_AT: usize = 1096;
    pub const ANNOUNCED: usize = 1152;
    pub const ANNOUNCE_EPOCH: usize = 1184;
    pub const COUNTERS: usize = 2048;
}

const _: () = assert!(field::GIDS + 16 * MAX_GIDS <= field::HEARTBEAT);
const _: () = assert!(field::COUNTERS + 8 * MAX_COUNTERS <= PLACE_SIZE);

/// What a process tells the others about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the host that it plays.
    pub host: String,
    /// MAC address of that host.
    pub mac: Mac,
    /// The host's addresses.
    pub gids: Vec<Gid>,
    /// Identifies the file that it captures to; 0: none.
    pub capture: u64,
}

/// What a place says: whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupant {
    /// The place.
    pub place: u8,
    /// Process id, as the process itself sees it.
    pub pid: u32,
    /// Number of the claim; no two claims have the same.
    pub generation: u64,
    /// What it told.
    pub identity: Identity,
}

/// The mapped register.
#[derive(Debug)]
pub struct Registry {
    directory: PathBuf,
    /// Kept open for ever: closing any descriptor of the file would free this process's locks.
    file: File,
    memory: Mapping,
    /// 1 + the fork generation in which this process claimed the place; 0: never did.
    ours: Box<[AtomicU32]>,
}

/// The place of one process; freed when dropped.
#[derive(Debug)]
pub struct Place {
    registry: &'static Registry,
    number: u8,
    generation: u64,
    fork_generation: u32,
}

impl Registry {
    /// The register in a directory. A process opens it once and keeps it.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Layout`], or [`Error::OpeningInterrupted`] after an unlucky fork.
    pub fn open(directory: &Path) -> Result<&'static Registry, Error> {
        static OPENED: Mutex<Vec<&'static Registry>> = Mutex::new(Vec::new());
        let mut opened = OPENED
            .try_lock_for(LOCK_TIMEOUT)
            .ok_or(Error::OpeningInterrupted)?;
        if let Some(registry) = opened
            .iter()
            .find(|registry| registry.directory == directory)
        {
            return Ok(registry);
        }
        let registry: &'static Registry = Box::leak(Box::new(Self::map(directory)?));
        opened.push(registry);
        Ok(registry)
    }

    fn map(directory: &Path) -> Result<Registry, Error> {
        let path = directory.join(FILE_NAME);
        let failed = |action| {
            let path = path.clone();
            move |source| Error::File {
                path,
                action,
                source,
            }
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(failed("open"))?;
        lock_header(&file).map_err(failed("lock"))?;
        let memory = prepare(&file, &path);
        os::unlock_byte(&file, HEADER_LOCK);
        let ours = (0..PLACES).map(|_| AtomicU32::new(0)).collect();
        Ok(Registry {
            directory: directory.to_owned(),
            file,
            memory: memory?,
            ours,
        })
    }

    /// The directory in which the rings lie, too.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Takes a free place and says who is there.
    ///
    /// # Errors
    /// [`Error::Full`] if no place is free, [`Error::File`] if locking fails.
    pub fn claim(&'static self, identity: &Identity) -> Result<Place, Error> {
        let failed = |source| Error::File {
            path: self.directory.join(FILE_NAME),
            action: "lock",
            source,
        };
        lock_header(&self.file).map_err(failed)?;
        let claimed = self.claim_locked(identity).map_err(failed);
        os::unlock_byte(&self.file, HEADER_LOCK);
        claimed?.ok_or(Error::Full(PLACES - 1))
    }

    fn claim_locked(&'static self, identity: &Identity) -> io::Result<Option<Place>> {
        // Places are used in turn, so that a late frame for a dead process's QPN meets nobody.
        let first = self.memory.word(header::NEXT_PLACE).load(Ordering::Relaxed) as usize;
        for offset in 0..PLACES - 1 {
            let number = ((first + offset) % (PLACES - 1) + 1) as u8;
            if !self.lock_place(number)? {
                continue;
            }
            let next = u64::from(number) % (PLACES as u64 - 1);
            self.memory
                .word(header::NEXT_PLACE)
                .store(next, Ordering::Relaxed);
            let generations = self.memory.word(header::GENERATION);
            let generation = generations
                .fetch_add(1, Ordering::Relaxed)
                .wrapping_add(1)
                .max(1);
            self.write_identity(number, generation, identity);
            self.sweep();
            let fork_generation = fork::generation();
            return Ok(Some(Place {
                registry: self,
                number,
                generation,
                fork_generation,
            }));
        }
        Ok(None)
    }

    /// Takes the record lock of a place that no thread of this process has either.
    fn lock_place(&self, number: u8) -> io::Result<bool> {
        let mark = fork::generation() + 1;
        let ours = &self.ours[usize::from(number)];
        let seen = ours.load(Ordering::Relaxed);
        if seen == mark
            || ours
                .compare_exchange(seen, mark, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            return Ok(false);
        }
        let locked = os::try_lock_byte(&self.file, u64::from(number));
        if !matches!(locked, Ok(true)) {
            ours.store(0, Ordering::Release);
        }
        locked
    }

    fn write_identity(&self, number: u8, generation: u64, identity: &Identity) {
        let word = |offset| self.memory.word(place_offset(number) + offset);
        word(field::GENERATION).store(0, Ordering::SeqCst);
        word(field::PID).store(u64::from(std::process::id()), Ordering::Relaxed);
        word(field::MAC).store(mac_to_word(identity.mac), Ordering::Relaxed);
        word(field::CAPTURE).store(identity.capture, Ordering::Relaxed);
        let gids = &identity.gids[..identity.gids.len().min(MAX_GIDS)];
        word(field::GID_COUNT).store(gids.len() as u64, Ordering::Relaxed);
        for (index, gid) in gids.iter().enumerate() {
            let (high, low) = gid_to_words(*gid);
            word(field::GIDS + 16 * index).store(high, Ordering::Relaxed);
            word(field::GIDS + 16 * index + 8).store(low, Ordering::Relaxed);
        }
        let mut name = [0; MAX_HOST_NAME];
        let length = (0..=identity.host.len().min(MAX_HOST_NAME))
            .rfind(|length| identity.host.is_char_boundary(*length))
            .unwrap_or(0);
        name[..length].copy_from_slice(&identity.host.as_bytes()[..length]);
        for (index, bytes) in name.chunks_exact(8).enumerate() {
            let value = bytes
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u64::from(*byte));
            word(field::NAME + 8 * index).store(value, Ordering::Relaxed);
        }
        for offset in [
            field::HEARTBEAT,
            field::ARMED,
            field::WOKEN_AT,
            field::ANNOUNCE_EPOCH,
        ] {
            word(offset).store(0, Ordering::Relaxed);
        }
        for index in 0..ANNOUNCE_WORDS {
            word(field::ANNOUNCED + 8 * index).store(0, Ordering::Relaxed);
        }
        for index in 0..MAX_COUNTERS {
            word(field::COUNTERS + 8 * index).store(0, Ordering::Relaxed);
        }
        word(field::GENERATION).store(generation, Ordering::Release);
    }

    /// Removes the rings that nobody will attach to any more.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(ring) = name.to_str().and_then(RingName::parse) else {
                continue;
            };
            if self.generation(ring.to) != ring.generation || !self.is_alive(ring.to) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Number of the claim under which a place is held; 0 if it was given back.
    ///
    /// A process that died without giving its place back still has its number.
    #[inline]
    pub fn generation(&self, place: u8) -> u64 {
        self.memory
            .word(place_offset(place) + field::GENERATION)
            .load(Ordering::Acquire)
    }

    /// Whether the process that claimed the place lives. Costs a system call.
    pub fn is_alive(&self, place: u8) -> bool {
        place != 0
            && self.generation(place) != 0
            && (self.is_ours(place)
                || matches!(
                    os::byte_locked_by(&self.file, u64::from(place)),
                    Ok(Some(_))
                ))
    }

    fn is_ours(&self, place: u8) -> bool {
        self.ours[usize::from(place)].load(Ordering::Relaxed) == fork::generation() + 1
    }

    /// Who is at a place; None if nobody, or if it changed while it was read.
    pub fn occupant(&self, place: u8) -> Option<Occupant> {
        let generation = self.generation(place);
        if generation == 0 || place == 0 {
            return None;
        }
        let word = |offset| {
            self.memory
                .word(place_offset(place) + offset)
                .load(Ordering::Relaxed)
        };
        let gids = (0..self.gid_count(place))
            .map(|index| self.gid(place, index))
            .collect();
        let name: Vec<u8> = (0..MAX_HOST_NAME / 8)
            .flat_map(|index| word(field::NAME + 8 * index).to_le_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        let identity = Identity {
            host: String::from_utf8_lossy(&name).into_owned(),
            mac: word_to_mac(word(field::MAC)),
            gids,
            capture: word(field::CAPTURE),
        };
        let pid = word(field::PID) as u32;
        (self.generation(place) == generation).then_some(Occupant {
            place,
            pid,
            generation,
            identity,
        })
    }

    /// Everybody who is alive, by place.
    pub fn occupants(&self) -> Vec<Occupant> {
        (1..=u8::MAX)
            .filter(|place| self.is_alive(*place))
            .filter_map(|place| self.occupant(place))
            .collect()
    }

    fn gid_count(&self, place: u8) -> usize {
        let offset = place_offset(place) + field::GID_COUNT;
        (self.memory.word(offset).load(Ordering::Relaxed) as usize).min(MAX_GIDS)
    }

    fn gid(&self, place: u8, index: usize) -> Gid {
        let offset = place_offset(place) + field::GIDS + 16 * index;
        let high = self.memory.word(offset).load(Ordering::Relaxed);
        let low = self.memory.word(offset + 8).load(Ordering::Relaxed);
        words_to_gid(high, low)
    }

    /// Whether the host of a place owns an address.
    pub fn owns_gid(&self, place: u8, gid: Gid) -> bool {
        (0..self.gid_count(place)).any(|index| self.gid(place, index) == gid)
    }

    /// The file to which the process at a place captures; 0: none.
    pub fn capture(&self, place: u8) -> u64 {
        self.memory
            .word(place_offset(place) + field::CAPTURE)
            .load(Ordering::Relaxed)
    }

    /// When the application at a place last polled, in ticks of the machine's counter.
    #[inline]
    pub fn heartbeat(&self, place: u8) -> &AtomicU64 {
        self.memory.word(place_offset(place) + field::HEARTBEAT)
    }

    /// The word on which the background thread at a place sleeps: 1 while it does.
    #[inline]
    pub fn armed(&self, place: u8) -> &AtomicU32 {
        self.memory.half_word(place_offset(place) + field::ARMED)
    }

    /// Counts up when somebody announces a ring to a place.
    #[inline]
    pub fn announce_epoch(&self, place: u8) -> &AtomicU32 {
        self.memory
            .half_word(place_offset(place) + field::ANNOUNCE_EPOCH)
    }

    /// Tells place `to` that the ring from place `from` is there.
    pub fn announce(&self, from: u8, to: u8) {
        let offset = place_offset(to) + field::ANNOUNCED + 8 * usize::from(from / 64);
        self.memory
            .word(offset)
            .fetch_or(1 << (from % 64), Ordering::SeqCst);
        self.announce_epoch(to).fetch_add(1, Ordering::SeqCst);
    }

    /// Takes the announcements for a place: one bit per place that has a new ring for it.
    pub fn take_announced(&self, place: u8) -> [u64; ANNOUNCE_WORDS] {
        std::array::from_fn(|index| {
            let offset = place_offset(place) + field::ANNOUNCED + 8 * index;
            self.memory.word(offset).swap(0, Ordering::SeqCst)
        })
    }

    /// One published counter of a place.
    pub fn counter(&self, place: u8, index: usize) -> &AtomicU64 {
        assert!(index < MAX_COUNTERS);
        self.memory
            .word(place_offset(place) + field::COUNTERS + 8 * index)
    }

    /// When the background thread at a place was last woken, in ticks.
    pub fn woken_at(&self, place: u8) -> &AtomicU64 {
        self.memory.word(place_offset(place) + field::WOKEN_AT)
    }

    /// The word on which polling threads of the application at a place doze: 1 while one does.
    #[inline]
    pub fn dozing(&self, place: u8) -> &AtomicU32 {
        self.memory.half_word(place_offset(place) + field::DOZING)
    }

    /// Wakes the application's dozing threads at a place, or if there is none the background
    /// thread if it sleeps. Returns whether somebody was woken.
    pub fn wake(&self, place: u8, now: Ticks) -> bool {
        self.wake_dozing(place) || self.wake_background(place, now)
    }

    /// Wakes the application's dozing threads at a place.
    #[inline]
    pub fn wake_dozing(&self, place: u8) -> bool {
        let dozing = self.dozing(place);
        let is_asleep = dozing.load(Ordering::SeqCst) == 1 && dozing.swap(0, Ordering::SeqCst) == 1;
        if is_asleep {
            os::futex_wake_all(dozing);
        }
        is_asleep
    }

    /// Wakes the background thread at a place if it sleeps. Returns whether it did.
    pub fn wake_background(&self, place: u8, now: Ticks) -> bool {
        let armed = self.armed(place);
        if armed.load(Ordering::SeqCst) != 1 {
            return false;
        }
        self.woken_at(place).store(now.0, Ordering::Relaxed);
        let is_asleep = armed.swap(0, Ordering::SeqCst) == 1;
        if is_asleep {
            os::futex_wake_all(armed);
        }
        is_asleep
    }
}

impl Place {
    /// Its number, 1 to 255: the upper 8 bits of its QPNs.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Number of the claim.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The lowest of its 65,536 QPNs.
    pub fn first_qpn(&self) -> Qpn {
        Qpn::new(u32::from(self.number) << 16)
    }

    /// The register that it is a place of.
    pub fn registry(&self) -> &'static Registry {
        self.registry
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // In a child made by fork the place still is the parent's.
        if self.fork_generation != fork::generation() {
            return;
        }
        let offset = place_offset(self.number) + field::GENERATION;
        self.registry.memory.word(offset).store(0, Ordering::SeqCst);
        self.registry.remove_rings_to(self.number);
        os::unlock_byte(&self.registry.file, u64::from(self.number));
        self.registry.ours[usize::from(self.number)].store(0, Ordering::Release);
    }
}

impl Registry {
    /// Removes what others made for a place and it did not attach to. What it made for others
    /// stays: it may hold its last words.
    fn remove_rings_to(&self, place: u8) {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name
                .to_str()
                .and_then(RingName::parse)
                .is_some_and(|ring| ring.to == place)
            {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn place_offset(place: u8) -> usize {
    usize::from(place) * PLACE_SIZE
}

fn lock_header(file: &File) -> io::Result<()> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    while !os::try_lock_byte(file, HEADER_LOCK)? {
        if Instant::now() > deadline {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "another process holds it",
            ));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Maps the file; writes the header first if the file is new or left over from another version.
fn prepare(file: &File, path: &Path) -> Result<Mapping, Error> {
    let failed = |action| {
        let path = path.to_owned();
        move |source| Error::File {
            path,
            action,
            source,
        }
    };
    let metadata = file.metadata().map_err(failed("look at"))?;
    if metadata.uid() != os::user_id() {
        let source = io::Error::from(io::ErrorKind::PermissionDenied);
        return Err(failed("use another user's file")(source));
    }
    if metadata.len() >= FILE_SIZE as u64 {
        let memory = Mapping::new(file, FILE_SIZE).map_err(failed("map"))?;
        let found = version(&memory);
        if found == LAYOUT_VERSION {
            return Ok(memory);
        }
        refuse_if_used(file, path, found)?;
    } else if metadata.len() > 0 {
        refuse_if_used(file, path, 0)?;
    }
    file.set_len(0).map_err(failed("clear"))?;
    os::allocate_file(file, FILE_SIZE as u64)
        .inspect_err(|_| drop(file.set_len(0)))
        .map_err(failed("allocate 1 MiB for"))?;
    let memory = Mapping::new(file, FILE_SIZE).map_err(failed("map"))?;
    memory
        .word(header::VERSION)
        .store(LAYOUT_VERSION, Ordering::Relaxed);
    memory.word(header::MAGIC).store(MAGIC, Ordering::Release);
    Ok(memory)
}

fn version(memory: &Mapping) -> u64 {
    let is_registry = memory.word(header::MAGIC).load(Ordering::Acquire) == MAGIC;
    if is_registry {
        memory.word(header::VERSION).load(Ordering::Relaxed)
    } else {
        0
    }
}

/// A file of another version may only be overwritten when no process holds a place in it.
fn refuse_if_used(file: &File, path: &Path, found: u64) -> Result<(), Error> {
    let used = (1..PLACES as u64).any(|byte| !matches!(os::byte_locked_by(file, byte), Ok(None)));
    if used {
        let path = path.to_owned();
        return Err(Error::Layout {
            path,
            found,
            expected: LAYOUT_VERSION,
        });
    }
    Ok(())
}

fn mac_to_word(mac: Mac) -> u64 {
    mac.0
        .iter()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn word_to_mac(word: u64) -> Mac {
    let [_, _, bytes @ ..] = word.to_be_bytes();
    Mac(bytes)
}

fn gid_to_words(gid: Gid) -> (u64, u64) {
    let value = u128::from_be_bytes(gid.0);
    ((value >> 64) as u64, value as u64)
}

fn words_to_gid(high: u64, low: u64) -> Gid {
    Gid((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::temporary_directory;

    fn identity(host: &str) -> Identity {
        let mac = Mac([2, 0, 0, 0, 0, 7]);
        Identity {
            host: host.to_owned(),
            mac,
            gids: vec![
                Gid::link_local(mac),
                "127.0.0.1".parse().expect("an address"),
            ],
            capture: 0,
        }
    }

    #[test]
    fn claims_are_read_back_and_places_used_in_turn() {
        let directory = temporary_directory("registry");
        let registry = Registry::open(directory.path()).expect("new");
        let first = registry.claim(&identity("a")).expect("free");
        let second = registry.claim(&identity("b")).expect("free");
        assert_eq!((first.number(), second.number()), (1, 2));
        assert_eq!(second.first_qpn(), Qpn::new(0x2_0000));
        let found = registry.occupant(1).expect("claimed");
        assert_eq!(found.identity, identity("a"));
        assert_eq!(found.pid, std::process::id());
        assert!(registry.owns_gid(1, "127.0.0.1".parse().expect("an address")));
        assert!(!registry.owns_gid(1, "127.0.0.2".parse().expect("an address")));
        drop(first);
        assert_eq!(registry.occupants().len(), 1);
        let third = registry.claim(&identity("c")).expect("free");
        assert_eq!(third.number(), 3);
        assert!(third.generation() > second.generation());
    }

    #[test]
    fn opening_twice_gives_the_same_one() {
        let directory = temporary_directory("twice");
        let one = Registry::open(directory.path()).expect("new");
        let two = Registry::open(directory.path()).expect("there");
        assert!(std::ptr::eq(one, two));
    }

    #[test]
    fn a_left_over_file_of_another_version_is_replaced() {
        let directory = temporary_directory("version");
        fs::write(directory.path().join(FILE_NAME), vec![0x55; FILE_SIZE]).expect("new");
        let registry = Registry::open(directory.path()).expect("nobody holds it");
        assert_eq!(version(&registry.memory), LAYOUT_VERSION);
    }

    #[test]
    fn full_after_255() {
        let directory = temporary_directory("full");
        let registry = Registry::open(directory.path()).expect("new");
        let places: Vec<Place> = (1..PLACES)
            .map(|_| registry.claim(&identity("x")).expect("free"))
            .collect();
        assert!(matches!(
            registry.claim(&identity("x")),
            Err(Error::Full(255))
        ));
        drop(places);
        registry.claim(&identity("x")).expect("free again");
    }

    #[test]
    fn rings_to_the_dead_are_swept() {
        let directory = temporary_directory("sweep");
        let registry = Registry::open(directory.path()).expect("new");
        let stale = RingName {
            from: 9,
            to: 8,
            generation: 77,
        }
        .to_string();
        let path = directory.path().join(&stale);
        fs::write(&path, b"").expect("new");
        let place = registry.claim(&identity("x")).expect("free");
        assert!(!path.exists());
        let to = place.number();
        let name = RingName {
            from: 9,
            to,
            generation: place.generation(),
        };
        assert_eq!(RingName::parse(&name.to_string()), Some(name));
        let path = directory.path().join(name.to_string());
        fs::write(&path, b"").expect("new");
        let other = registry.claim(&identity("y")).expect("free");
        assert!(path.exists(), "its receiver lives");
        drop(place);
        assert!(!path.exists());
        drop(other);
    }

    #[test]
    fn announcements_are_taken_once() {
        let directory = temporary_directory("announce");
        let registry = Registry::open(directory.path()).expect("new");
        registry.announce(130, 4);
        assert_eq!(registry.announce_epoch(4).load(Ordering::Relaxed), 1);
        assert_eq!(registry.take_announced(4), [0, 0, 1 << 2, 0]);
        assert_eq!(registry.take_announced(4), [0; ANNOUNCE_WORDS]);
    }
}

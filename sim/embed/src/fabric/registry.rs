//! The registry of functions on this machine: one small file that every process maps.
//!
//! It has 254 *places* of two pages each. Place `n` owns the QPNs `n << 16 .. (n + 1) << 16`. A
//! function holds its place with a record lock on byte `n` of the file; the kernel releases the
//! lock when the process ends, even after a crash. All words are accessed atomically, and values
//! that another process may have written are checked before use.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ferroce_platform::fork;
use ferroce_platform::os;
use ferroce_platform::shared_memory::Mapping;
use ferroce_wire::Qpn;
use layout::{FILE_SIZE, LAYOUT_VERSION, MAGIC, field, header, place_offset};
use parking_lot::Mutex;

use super::ring::RingName;
use super::spare::Spare;
use crate::error::Error;

mod counters;
mod device_faults;
mod faults;
mod groups;
mod gsi;
mod identity;
mod injection;
mod layout;
mod qps;
pub(super) mod report;
mod service_ports;
mod signals;
mod situations;
mod totals;
mod uplink_counters;

pub use device_faults::{DeviceFault, DeviceFaults};
pub use groups::{PlaceSet, places};
pub use identity::{Identity, Occupant};
pub use injection::{Injected, Injection};
pub use layout::{ANNOUNCE_WORDS, MAX_COUNTERS, MAX_GROUPS, MAX_QPS, PLACES};
pub use qps::{QpChange, ShownQp};
pub use service_ports::{PortAddress, PortError, ServicePort};
pub use uplink_counters::UplinkCounter;

pub(super) const FILE_NAME: &str = "registry";
/// Time limit for a process that is claiming a place.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The lock on byte 0 protects the header and serialises claims.
const HEADER_LOCK: u64 = 0;

/// The mapped registry.
#[derive(Debug)]
pub struct Registry {
    directory: PathBuf,
    /// Kept open: closing any descriptor of the file would release this process's locks.
    file: File,
    memory: Mapping,
    /// `None`: the file cannot be opened. Only processes that change their user ID need it.
    spare: Option<Spare>,
    /// 1 + the fork generation in which this process claimed the place; 0: it has not.
    ours: Box<[AtomicU32]>,
}

/// The place of one process; released when dropped.
#[derive(Debug)]
pub struct Place {
    registry: &'static Registry,
    number: u8,
    generation: u64,
    fork_generation: u32,
}

impl Registry {
    /// Opens the registry in a directory. A process opens it once and keeps it.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Layout`], or [`Error::OpeningInterrupted`] if a fork happened
    /// while it was opened.
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
            spare: Spare::open(directory)
                .inspect_err(|error| tracing::debug!(%error, "no spare room for rings"))
                .ok(),
            ours,
        })
    }

    /// Returns the directory, which also holds the rings.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the spare room for rings of processes that can no longer use the directory.
    pub fn spare(&self) -> Option<&Spare> {
        self.spare.as_ref()
    }

    /// Returns true if this process can still use the directory. It cannot after it drops its user
    /// ID.
    pub fn is_within_reach(&self) -> bool {
        fs::symlink_metadata(self.directory.join(FILE_NAME)).is_ok()
    }

    /// Returns true if the function at a place can no longer open files: rings to it must be in
    /// spare room.
    pub fn opens_no_files(&self, place: u8) -> bool {
        let offset = place_offset(place) + field::OPENS_NO_FILES;
        self.memory.word(offset).load(Ordering::Acquire) != 0
    }

    /// Records whether the function at a place can no longer open files.
    pub fn set_opens_no_files(&self, place: u8, opens_none: bool) {
        let offset = place_offset(place) + field::OPENS_NO_FILES;
        let value = u64::from(opens_none);
        self.memory.word(offset).store(value, Ordering::Release);
    }

    /// Returns true if the file was truncated; this process has used a private registry since then.
    pub fn is_lost(&self) -> bool {
        self.memory.is_lost()
    }

    /// Claims a free place and publishes the identity.
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
        // Places are used in rotation, so that a late frame to a QPN of a dead process finds an
        // unused place.
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
            self.keep_counters(number);
            self.set_opens_no_files(number, false);
            self.write_identity(number, generation, identity);
            self.groups_changed();
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

    /// Takes the record lock of a place, unless a thread of this process has it.
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

    /// Removes rings whose receiver no longer exists, and the reports of processes that have ended.
    fn sweep(&self) {
        if let Some(spare) = self.spare().filter(|spare| !spare.is_unused()) {
            let places = 1..PLACES as u8;
            let dead = places.filter(|place| !self.is_alive(*place));
            dead.for_each(|place| spare.forget(place));
        }
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| self.is_stale(name)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Returns true if a file of the directory belongs to a process that has ended.
    fn is_stale(&self, name: &str) -> bool {
        if let Some(ring) = RingName::parse(name) {
            return self.generation(ring.to) != ring.generation || !self.is_alive(ring.to);
        }
        report::place_of(name).is_some_and(|place| !self.is_alive(place))
    }

    /// Returns the number of the claim that holds a place; 0 if it was released.
    ///
    /// A process that died without releasing its place keeps its number.
    #[inline]
    pub fn generation(&self, place: u8) -> u64 {
        self.memory
            .word(place_offset(place) + field::GENERATION)
            .load(Ordering::Acquire)
    }

    /// Returns true if the process that claimed the place is alive. It takes a system call.
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

    /// Returns all live functions, by place.
    pub fn occupants(&self) -> Vec<Occupant> {
        (1..PLACES as u8)
            .filter(|place| self.is_alive(*place))
            .filter_map(|place| self.occupant(place))
            .collect()
    }
}

impl Place {
    /// Returns the number of the place, 1 to 254: the upper 8 bits of its QPNs.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Returns the number of the claim.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the lowest of its 65,536 QPNs.
    pub fn first_qpn(&self) -> Qpn {
        Qpn::new(u32::from(self.number) << 16)
    }

    /// Returns the registry of the place.
    pub fn registry(&self) -> &'static Registry {
        self.registry
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // In a child made by fork the place belongs to the parent.
        if self.fork_generation != fork::generation() {
            return;
        }
        let offset = place_offset(self.number) + field::GENERATION;
        self.registry.memory.word(offset).store(0, Ordering::SeqCst);
        self.registry.groups_changed();
        self.registry.remove_rings_to(self.number);
        if let Some(spare) = self.registry.spare() {
            spare.forget(self.number);
        }
        os::unlock_byte(&self.registry.file, u64::from(self.number));
        self.registry.ours[usize::from(self.number)].store(0, Ordering::Release);
    }
}

impl Registry {
    /// Removes rings to a place that it has not attached to. Rings from that place stay: they may
    /// hold its last frames.
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

fn lock_header(file: &File) -> io::Result<()> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    while !os::try_lock_byte(file, HEADER_LOCK)? {
        if Instant::now() > deadline {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "another process holds it",
            ));
        }
        // F_SETLKW has no time limit without a signal.
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Maps the file; writes the header first if the file is new or of another version.
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
        let memory = Mapping::sparse(file, FILE_SIZE).map_err(failed("map"))?;
        let found = version(&memory);
        if found == LAYOUT_VERSION {
            return Ok(memory);
        }
        refuse_if_used(file, path, found)?;
    } else if metadata.len() > 0 && !begins_as_ours(file) {
        refuse_if_used(file, path, 0)?;
    }
    file.set_len(0).map_err(failed("clear"))?;
    os::allocate_file(file, FILE_SIZE as u64)
        .inspect_err(|_| drop(file.set_len(0)))
        .map_err(failed("allocate 2 MiB for"))?;
    let memory = Mapping::sparse(file, FILE_SIZE).map_err(failed("map"))?;
    memory
        .word(header::VERSION)
        .store(LAYOUT_VERSION, Ordering::Relaxed);
    memory.word(header::MAGIC).store(MAGIC, Ordering::Release);
    Ok(memory)
}

/// Returns true if a file that is too short begins like a file of this version: it was truncated.
/// Processes that still map it have lost it, and must not prevent others from starting again.
fn begins_as_ours(file: &File) -> bool {
    let word_at = |offset: usize| {
        let mut bytes = [0; 8];
        let read = file.read_exact_at(&mut bytes, offset as u64);
        read.is_ok().then(|| u64::from_ne_bytes(bytes))
    };
    word_at(header::MAGIC) == Some(MAGIC) && word_at(header::VERSION) == Some(LAYOUT_VERSION)
}

fn version(memory: &Mapping) -> u64 {
    let is_registry = memory.word(header::MAGIC).load(Ordering::Acquire) == MAGIC;
    if is_registry {
        memory.word(header::VERSION).load(Ordering::Relaxed)
    } else {
        0
    }
}

/// Refuses a file of another version while a process holds a place in it.
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ferroce_test_support::temporary_directory;
    use ferroce_wire::{Gid, Mac};

    use super::*;
    use crate::clock::Ticks;

    fn identity(host: &str) -> Identity {
        let mac = Mac([2, 0, 0, 0, 0, 7]);
        Identity {
            host: host.to_owned(),
            device: 0,
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
        let registry = Registry::open(directory.path()).expect("it is free");
        assert_eq!(version(&registry.memory), LAYOUT_VERSION);
    }

    #[test]
    fn full_after_254() {
        let directory = temporary_directory("full");
        let registry = Registry::open(directory.path()).expect("new");
        let places: Vec<Place> = (1..PLACES)
            .map(|_| registry.claim(&identity("x")).expect("free"))
            .collect();
        assert!(matches!(
            registry.claim(&identity("x")),
            Err(Error::Full(254))
        ));
        drop(places);
        registry.claim(&identity("x")).expect("free again");
    }

    #[test]
    fn reports_of_ended_processes_are_swept() {
        let directory = temporary_directory("reports");
        let registry = Registry::open(directory.path()).expect("new");
        let place = registry.claim(&identity("x")).expect("free");
        let [live, ended] =
            [place.number(), 200].map(|place| report::path(directory.path(), place));
        let unfinished = report::unfinished(&ended);
        for path in [&live, &ended, &unfinished] {
            fs::write(path, "").expect("new");
        }
        let _other = registry.claim(&identity("y")).expect("free");
        assert!(live.exists());
        assert!(!ended.exists() && !unfinished.exists());
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

    /// Claims places until this one is free again, as it is after its owner has died.
    fn claim_again(registry: &'static Registry, number: u8) -> Place {
        let mut others = Vec::new();
        loop {
            let place = registry.claim(&identity("x")).expect("free");
            if place.number() == number {
                return place;
            }
            others.push(place);
        }
    }

    #[test]
    fn a_new_owner_finds_nothing_of_the_last_one() {
        let directory = temporary_directory("reuse");
        let registry = Registry::open(directory.path()).expect("new");
        let place = registry.claim(&identity("x")).expect("free");
        let number = place.number();
        // The state that a process leaves if it dies while its threads sleep.
        registry.words(number).dozing.announce();
        registry.words(number).background.announce();
        registry.late_wakeups(number).store(3, Ordering::SeqCst);
        registry.counter(number, 5).store(7, Ordering::SeqCst);
        registry.inject(number, Injection::DeviceFatal, Ticks(1));
        registry.words(number).dozing.announce();
        assert!(place.join_group(group(1)));
        drop(place);
        let _again = claim_again(registry, number);
        assert!(!registry.words(number).wake(Ticks(2)), "no thread sleeps");
        assert_eq!(registry.late_wakeups(number).load(Ordering::SeqCst), 0);
        assert_eq!(registry.counter(number, 5).load(Ordering::SeqCst), 0);
        assert_eq!(registry.injected(number), Injected::default());
        assert_eq!(registry.group_members(group(1)), PlaceSet::default());
    }

    #[test]
    fn faults_are_injected_once_and_wake_sleeping_threads() {
        let directory = temporary_directory("inject");
        let registry = Registry::open(directory.path()).expect("new");
        let place = registry.claim(&identity("x")).expect("free").number();
        assert!(!registry.inject(place, Injection::PortUp, Ticks(1)));
        registry.words(place).background.announce();
        assert!(registry.inject(place, Injection::PortDown, Ticks(2)));
        assert!(!registry.words(place).background.is_announced());
        assert!(!registry.inject(place, Injection::PortDown, Ticks(3)));
        assert!(registry.injected(place).is_port_down());
        assert!(!registry.injected(place).is_device_fatal());
        assert!(registry.inject(place, Injection::DeviceFatal, Ticks(4)));
        assert!(registry.inject(place, Injection::PortUp, Ticks(5)));
        assert!(!registry.injected(place).is_port_down());
        assert!(registry.injected(place).is_device_fatal());
    }

    fn group(number: u8) -> Gid {
        Gid::from_ipv4(Ipv4Addr::new(239, 0, 0, number))
    }

    #[test]
    fn groups_have_members_until_they_leave() {
        let directory = temporary_directory("groups");
        let registry = Registry::open(directory.path()).expect("new");
        let places: Vec<_> = (0..3)
            .map(|_| registry.claim(&identity("x")).expect("free"))
            .collect();
        let all = [0b1110, 0, 0, 0];
        for place in &places {
            for number in 1..=3 {
                assert!(place.join_group(group(number)));
            }
        }
        let epoch = registry.group_epoch();
        assert!(places[0].join_group(group(2)), "again");
        assert_eq!(registry.group_epoch(), epoch);
        assert_eq!(registry.group_members(group(1)), all);
        places[1].leave_group(group(1));
        places[1].leave_group(group(1));
        assert_ne!(registry.group_epoch(), epoch);
        assert_eq!(registry.group_members(group(1)), [0b1010, 0, 0, 0]);
        assert_eq!(registry.group_members(group(2)), all);
        assert_eq!(registry.group_members(group(3)), all);
        drop(places);
        assert_eq!(registry.group_members(group(3)), PlaceSet::default());
    }

    #[test]
    fn gsis_are_open_until_they_are_closed_or_their_place_is_released() {
        let directory = temporary_directory("gsis");
        let registry = Registry::open(directory.path()).expect("new");
        let address: Gid = "127.0.0.1".parse().expect("an address");
        let members = || registry.gsi_members(address);
        assert_eq!(members(), None, "no place has the address");
        let places: Vec<_> = (0..3)
            .map(|_| registry.claim(&identity("x")).expect("free"))
            .collect();
        assert_eq!(members(), Some(PlaceSet::default()));
        places.iter().for_each(|place| place.set_gsi(true));
        assert_eq!(members(), Some([0b1110, 0, 0, 0]));
        places[1].set_gsi(false);
        assert_eq!(members(), Some([0b1010, 0, 0, 0]));
        let other = "127.0.0.2".parse().expect("an address");
        assert_eq!(registry.gsi_members(other), None);
        drop(places);
        assert_eq!(members(), None);
        // A new owner of the place starts without a plan.
        let again = registry.claim(&identity("x")).expect("free");
        registry
            .memory
            .word(place_offset(again.number()) + field::GSI)
            .store(1, Ordering::Relaxed);
        drop(again);
        let number = |place: &Place| place.number();
        let others: Vec<_> = (0..PLACES - 1)
            .map(|_| registry.claim(&identity("x")).expect("free"))
            .collect();
        assert!(others.iter().map(number).any(|place| place == 4));
        assert_eq!(members(), Some(PlaceSet::default()));
    }

    #[test]
    fn a_place_has_room_for_so_many_groups() {
        let directory = temporary_directory("many-groups");
        let registry = Registry::open(directory.path()).expect("new");
        let place = registry.claim(&identity("x")).expect("free");
        let group = |number: usize| Gid::from_ipv4(Ipv4Addr::from(0xef00_0000 + number as u32));
        assert!((0..MAX_GROUPS).all(|number| place.join_group(group(number))));
        assert!(!place.join_group(group(MAX_GROUPS)));
        assert!(place.join_group(group(0)), "it is there");
        place.leave_group(group(0));
        assert!(place.join_group(group(MAX_GROUPS)));
        assert_eq!(registry.group_members(group(MAX_GROUPS)), [0b10, 0, 0, 0]);
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

//! A wire in one direction: a ring of frame slots in memory that two processes share.
//!
//! The sender creates the file; the receiver attaches to it and removes its name. A slot starts
//! with a control word: the number of its frame, flags and length. The sender stores that word with
//! release semantics to pass the slot to the receiver. The receiver returns slots by incrementing
//! one word in the header, many at a time, so that in a stream neither side waits for the other's
//! cache lines. Numbers start at 1 and wrap, so that zeroed memory holds no frame.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering;

use ferroce_platform::os;
#[cfg(not(all(test, loom)))]
use {
    ferroce_platform::shared_memory::{Buffer, Mapping},
    std::sync::atomic::AtomicU32,
};
#[cfg(all(test, loom))]
use {
    ferroce_test_support::loom_memory::{Buffer, Mapping},
    loom::sync::atomic::AtomicU32,
};

use super::spare::{self, Spare};

mod staging;

pub use staging::Staging;

/// Longest frame: Ethernet, VLAN, IPv6, UDP, BTH, the longest extension, 4096 bytes, ICRC.
pub const MAX_FRAME: usize = 4214;

/// Slots of a new ring. If there is no room for them, the number is halved until it fits.
const SLOTS: u32 = 128;
/// Fewer slots than this cannot keep a stream going.
const MIN_SLOTS: u32 = 16;
/// The file system must have room for this many rings when the first one is created.
const LEAST_RINGS: u64 = 16;
/// A ring with more slots is invalid.
const MAX_SLOTS: u32 = 1024;
/// Distance between slots in bytes: whole cache lines, but not a power of two, so that the first
/// lines of the slots spread over the sets of a cache.
const STRIDE: usize = 4224;
const HEADER_SIZE: usize = 4096;
/// The sender prefetches the lines of the slot this far ahead.
const PREFETCH_AHEAD: u32 = 4;
/// The payload of a middle packet over IPv4 then starts on a cache line:
/// 10 + 14 Ethernet + 20 IPv4 + 8 UDP + 12 BTH = 64.
const DATA_OFFSET: usize = 10;
const MAGIC: u64 = u64::from_le_bytes(*b"RoCEring");

const _: () = assert!(DATA_OFFSET + MAX_FRAME <= STRIDE && STRIDE % 64 == 0);
const _: () = assert!(HEADER_SIZE + SLOTS as usize * STRIDE <= spare::ROOM);
const _: () = assert!(SLOTS.is_power_of_two() && MIN_SLOTS.is_power_of_two());

/// Offsets in the ring's header.
mod header {
    pub const MAGIC: usize = 0;
    pub const SLOTS: usize = 8;
    pub const STRIDE: usize = 12;
    pub const SENDER_GENERATION: usize = 16;
    /// Distinguishes the ring from an earlier ring in the same spare room.
    pub const RECEIVER_GENERATION: usize = 24;
    /// Written by the receiver; on its own cache line.
    pub const CONSUMED: usize = 128;
}

const LENGTH_MASK: u64 = 0xffff;
const WITHOUT_ICRC: u64 = 1 << 31;
const RECORDED: u64 = 1 << 30;

/// A frame in a slot of a ring, owned.
#[derive(Debug)]
pub struct Frame {
    buffer: Buffer,
    /// Index of the frame, counted from 0.
    index: u32,
    place: u8,
    carries_icrc: bool,
    is_recorded: bool,
}

impl Frame {
    /// Returns the place at the other end of the ring.
    #[inline]
    pub fn place(&self) -> u8 {
        self.place
    }

    /// Returns true if its sender computed the ICRC.
    #[inline]
    pub fn carries_icrc(&self) -> bool {
        self.carries_icrc
    }

    /// Returns true if its sender recorded it in a capture.
    pub fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Marks it as recorded in a capture of its sender.
    pub fn set_recorded(&mut self) {
        self.is_recorded = true;
    }
}

impl AsRef<[u8]> for Frame {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref()
    }
}

impl AsMut<[u8]> for Frame {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut()
    }
}

/// The sending end.
#[derive(Debug)]
pub struct Sender {
    memory: Mapping,
    slots: u32,
    place: u8,
    /// Slots reserved so far.
    produced: u32,
    /// Slots that the receiver had returned at the last check.
    consumed: u32,
    is_spare: bool,
}

impl Sender {
    /// Creates the ring in its own file, or in `spare` if this process cannot create files. The
    /// receiver does not know the ring until it is announced.
    ///
    /// # Errors
    /// `StorageFull` if there is no room even for a small ring, or the error of the system.
    pub fn create(
        directory: &Path,
        spare: Option<&Spare>,
        name: RingName,
        sender_generation: u64,
    ) -> io::Result<Self> {
        match (Self::in_file(directory, name, sender_generation), spare) {
            (Err(error), Some(spare)) if is_out_of_reach(&error) => {
                Self::in_spare(spare, name, sender_generation)
            }
            (made, _) => made,
        }
    }

    fn in_file(directory: &Path, name: RingName, sender_generation: u64) -> io::Result<Self> {
        let path = directory.join(name.to_string());
        let unfinished = directory.join(format!("{name}.new"));
        for stale in [&unfinished, &path] {
            let _ = fs::remove_file(stale);
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)?;
        let made = allocate(&file, 0)
            .and_then(|slots| Ok((slots, Mapping::new(&file, ring_size(slots))?)))
            .map(|(slots, memory)| Self::initialise(memory, slots, name, sender_generation))
            .and_then(|sender| fs::rename(&unfinished, &path).map(|()| sender));
        if made.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        made
    }

    /// Creates the ring in `spare`, because its receiver cannot open files.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn in_spare(spare: &Spare, name: RingName, sender_generation: u64) -> io::Result<Self> {
        let offset = Spare::offset(name.from, name.to);
        let slots = allocate(spare.file(), offset)?;
        let memory = cleared(spare, name, slots)?;
        let ring = Self::initialise(memory, slots, name, sender_generation);
        Ok(Self {
            is_spare: true,
            ..ring
        })
    }

    fn initialise(memory: Mapping, slots: u32, name: RingName, sender_generation: u64) -> Self {
        memory
            .half_word(header::SLOTS)
            .store(slots, Ordering::Relaxed);
        memory
            .half_word(header::STRIDE)
            .store(STRIDE as u32, Ordering::Relaxed);
        memory
            .word(header::SENDER_GENERATION)
            .store(sender_generation, Ordering::Relaxed);
        memory
            .word(header::RECEIVER_GENERATION)
            .store(name.generation, Ordering::Relaxed);
        memory.word(header::MAGIC).store(MAGIC, Ordering::Release);
        Self {
            memory,
            slots,
            place: name.to,
            produced: 0,
            consumed: 0,
            is_spare: false,
        }
    }

    /// Returns true if it is in spare room.
    pub fn is_spare(&self) -> bool {
        self.is_spare
    }

    /// Moves a ring into spare room, with its frames, because its receiver could not attach. On
    /// failure the ring is unchanged.
    ///
    /// # Errors
    /// As [`Self::create`]; `ResourceBusy` while a frame is being written.
    pub fn move_to_spare(
        &mut self,
        directory: &Path,
        spare: &Spare,
        name: RingName,
    ) -> io::Result<()> {
        if self.memory.has_outstanding() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let length = ring_size(self.slots);
        let offset = Spare::offset(name.from, name.to);
        spare.allocate(offset..offset + length as u64)?;
        let mut memory = cleared(spare, name, self.slots)?;
        let (from, mut to) = (
            self.memory.take_buffer(0, length),
            memory.take_buffer(0, length),
        );
        to.as_mut().copy_from_slice(from.as_ref());
        self.memory.give_back(from);
        memory.give_back(to);
        self.memory = memory;
        self.is_spare = true;
        let _ = fs::remove_file(directory.join(name.to_string()));
        Ok(())
    }

    /// Reserves the next slot for a frame of `length` bytes (at most [`MAX_FRAME`]). `None` if the
    /// ring is full.
    #[inline]
    pub fn reserve(&mut self, length: usize) -> Option<Frame> {
        assert!(length <= MAX_FRAME);
        if self.produced.wrapping_sub(self.consumed) >= self.slots && !self.update_consumed() {
            return None;
        }
        let index = self.produced;
        self.produced = index.wrapping_add(1);
        let ahead = slot_offset(self.slots, self.produced.wrapping_add(PREFETCH_AHEAD));
        self.memory.prefetch_for_write(ahead);
        self.memory.prefetch_for_write(ahead + 64);
        let offset = slot_offset(self.slots, index) + DATA_OFFSET;
        let buffer = self.memory.take_buffer(offset, length);
        Some(Frame {
            buffer,
            index,
            place: self.place,
            carries_icrc: false,
            is_recorded: false,
        })
    }

    /// Returns true if `frames` more frames can be reserved now.
    pub fn has_room_for(&mut self, frames: u32) -> bool {
        self.update_consumed();
        self.produced
            .wrapping_sub(self.consumed)
            .saturating_add(frames)
            <= self.slots
    }

    /// Returns true if the file was truncated: the receiver does not see sent frames.
    pub fn is_lost(&self) -> bool {
        self.memory.is_lost()
    }

    /// Reads the receiver's count. Returns true if there is room.
    fn update_consumed(&mut self) -> bool {
        let consumed = self.consumed_word().load(Ordering::Acquire);
        // An invalid count is ignored; the ring then looks full.
        if self.produced.wrapping_sub(consumed) <= self.slots {
            self.consumed = consumed;
        }
        self.produced.wrapping_sub(self.consumed) < self.slots
    }

    /// Passes the frame to the receiver.
    #[inline]
    pub fn transmit(&mut self, frame: Frame, carries_icrc: bool) {
        // A frame reserved in an earlier ring, to the place's last owner, is lost with that ring.
        if !self.memory.owns(&frame.buffer) {
            return;
        }
        let length = frame.buffer.as_ref().len() as u64;
        let flags = if carries_icrc { 0 } else { WITHOUT_ICRC }
            | if frame.is_recorded { RECORDED } else { 0 };
        let number = u64::from(frame.index.wrapping_add(1));
        let offset = slot_offset(self.slots, frame.index);
        self.memory
            .word(offset)
            .store(number << 32 | flags | length, Ordering::Release);
        self.memory.give_back(frame.buffer);
    }

    /// Returns the newest reserved slot without sending it.
    pub fn cancel(&mut self, frame: Frame) {
        if self.memory.owns(&frame.buffer) && frame.index.wrapping_add(1) == self.produced {
            self.produced = frame.index;
        }
        self.memory.give_back(frame.buffer);
    }

    /// Returns true if the receiver has taken every frame. It reads a cache line that the receiver
    /// writes.
    pub fn is_drained(&self) -> bool {
        self.consumed_word().load(Ordering::Acquire) == self.produced
    }

    /// Returns the number of slots that the receiver has returned. The count wraps: only changes
    /// are meaningful.
    pub fn consumed(&self) -> u32 {
        self.consumed_word().load(Ordering::Acquire)
    }

    fn consumed_word(&self) -> &AtomicU32 {
        self.memory.half_word(header::CONSUMED)
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver {
    memory: Mapping,
    slots: u32,
    place: u8,
    sender_generation: u64,
    /// Frames taken so far.
    received: u32,
    /// Slots returned so far, without a gap.
    released: u32,
    /// Value of `released` that the sender knows.
    returned: u32,
    /// Slots after `released` that were returned out of order, by slot.
    early: Box<[bool]>,
}

impl Receiver {
    /// Attaches to a ring and removes its name, so that no other process can attach and no file
    /// remains when both ends die. If there is no such file, attaches to the ring in `spare`.
    ///
    /// # Errors
    /// The error of the system, [`is_out_of_reach`] among them; `InvalidData` if the file is not a
    /// ring of this version.
    pub fn attach(directory: &Path, spare: Option<&Spare>, name: RingName) -> io::Result<Self> {
        match (Self::of_file(directory, name), spare) {
            (Err(error), Some(spare)) if is_out_of_reach(&error) => {
                let part = |length| {
                    let offset = Spare::offset(name.from, name.to);
                    Mapping::part(spare.file(), offset, length)
                };
                Self::of_memory(part, name).map_err(|_| error)
            }
            (found, _) => found,
        }
    }

    fn of_file(directory: &Path, name: RingName) -> io::Result<Self> {
        let path = directory.join(name.to_string());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)?;
        let _ = fs::remove_file(&path);
        if file.metadata()?.uid() != os::user_id() {
            return Err(invalid("the ring belongs to another user"));
        }
        Self::of_memory(|length| Mapping::new(&file, length), name)
    }

    fn of_memory(map: impl Fn(usize) -> io::Result<Mapping>, name: RingName) -> io::Result<Self> {
        let head = map(HEADER_SIZE)?;
        let slots = head.half_word(header::SLOTS).load(Ordering::Relaxed);
        let stride = head.half_word(header::STRIDE).load(Ordering::Relaxed);
        let is_ring = head.word(header::MAGIC).load(Ordering::Acquire) == MAGIC;
        if !is_ring || stride as usize != STRIDE || !slots.is_power_of_two() || slots > MAX_SLOTS {
            return Err(invalid("not a ring, or one of another version"));
        }
        let receiver = head.word(header::RECEIVER_GENERATION);
        if receiver.load(Ordering::Relaxed) != name.generation {
            return Err(invalid("a ring to an earlier owner of this place"));
        }
        let memory = map(ring_size(slots))?;
        // Spare room has no name to remove, so its magic number is cleared.
        memory.word(header::MAGIC).store(0, Ordering::Relaxed);
        Ok(Self {
            sender_generation: memory
                .word(header::SENDER_GENERATION)
                .load(Ordering::Relaxed),
            memory,
            slots,
            place: name.from,
            received: 0,
            released: 0,
            returned: 0,
            early: vec![false; slots as usize].into(),
        })
    }

    /// Returns true if the file was truncated: no more frames arrive.
    pub fn is_lost(&self) -> bool {
        self.memory.is_lost()
    }

    /// Returns the place of the sender.
    pub fn place(&self) -> u8 {
        self.place
    }

    /// Returns the claim with which the sender created the ring.
    pub fn sender_generation(&self) -> u64 {
        self.sender_generation
    }

    /// Returns true if the frame belongs to this ring.
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        self.memory.owns(&frame.buffer)
    }

    /// Returns true if no frame is pending in the ring and none is in use.
    pub fn is_idle(&self) -> bool {
        !self.has_frame() && !self.memory.has_outstanding()
    }

    /// Returns true if a frame is pending.
    #[inline]
    pub fn has_frame(&self) -> bool {
        let control = self.memory.word(slot_offset(self.slots, self.received));
        (control.load(Ordering::Acquire) >> 32) as u32 == self.received.wrapping_add(1)
    }

    /// Takes the next frame.
    #[inline]
    pub fn receive(&mut self) -> Option<Frame> {
        let index = self.received;
        // A sender that ignores the credits must not cause one slot to be owned twice.
        if index.wrapping_sub(self.released) >= self.slots {
            return None;
        }
        let offset = slot_offset(self.slots, index);
        // The length is read once, together with the number.
        let control = self.memory.word(offset).load(Ordering::Acquire);
        if (control >> 32) as u32 != index.wrapping_add(1) {
            return None;
        }
        self.received = index.wrapping_add(1);
        let next = slot_offset(self.slots, self.received);
        self.memory.prefetch(next);
        self.memory.prefetch(next + 64);
        let length = ((control & LENGTH_MASK) as usize).min(MAX_FRAME);
        let buffer = self.memory.take_buffer(offset + DATA_OFFSET, length);
        let carries_icrc = control & WITHOUT_ICRC == 0;
        Some(Frame {
            buffer,
            index,
            place: self.place,
            carries_icrc,
            is_recorded: control & RECORDED != 0,
        })
    }

    /// Returns a frame's slot; the sender is notified in batches.
    #[inline]
    pub fn release(&mut self, frame: Frame) {
        if !self.owns(&frame) {
            return;
        }
        let index = frame.index;
        self.memory.give_back(frame.buffer);
        if index == self.released {
            self.released = index.wrapping_add(1);
            self.skip_early();
        } else if index.wrapping_sub(self.released) < self.slots {
            self.early[(index & (self.slots - 1)) as usize] = true;
        }
        if self.released.wrapping_sub(self.returned) >= self.slots / 4 {
            self.return_credits();
        }
    }

    #[inline]
    fn skip_early(&mut self) {
        // Runs for one lap of the ring at most.
        while std::mem::take(&mut self.early[(self.released & (self.slots - 1)) as usize]) {
            self.released = self.released.wrapping_add(1);
        }
    }

    /// Publishes all returned slots to the sender. The caller does this when it has no work left.
    #[inline]
    pub fn return_credits(&mut self) {
        if self.returned != self.released {
            self.returned = self.released;
            self.memory
                .half_word(header::CONSUMED)
                .store(self.released, Ordering::Release);
        }
    }
}

/// Name of a ring's file until its receiver attaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingName {
    /// Place of the sender.
    pub from: u8,
    /// Place of the receiver.
    pub to: u8,
    /// Number of the receiver's claim.
    pub generation: u64,
}

impl RingName {
    /// Parses a file name. `None` if it is not the name of a ring.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("ring-")?.split('-');
        let from = parts.next()?.parse().ok()?;
        let to = parts.next()?.parse().ok()?;
        // The name of an unfinished ring has a suffix.
        let generation = parts.next()?.trim_end_matches(".new").parse().ok()?;
        Some(Self {
            from,
            to,
            generation,
        })
    }
}

impl fmt::Display for RingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ring-{}-{}-{}", self.from, self.to, self.generation)
    }
}

#[inline]
fn slot_offset(slots: u32, index: u32) -> usize {
    HEADER_SIZE + (index & (slots - 1)) as usize * STRIDE
}

fn ring_size(slots: u32) -> usize {
    HEADER_SIZE + slots as usize * STRIDE
}

/// Returns the slots of a new ring if this many bytes are free: other peers need room too.
fn slots_for(free: u64) -> u32 {
    let mut slots = SLOTS;
    while slots > MIN_SLOTS && ring_size(slots) as u64 > free / LEAST_RINGS {
        slots /= 2;
    }
    slots
}

/// Allocates memory for a ring at `offset` in a file. Returns the number of slots.
fn allocate(file: &File, offset: u64) -> io::Result<u32> {
    let mut slots = slots_for(os::free_space(file).unwrap_or(u64::MAX));
    loop {
        let end = offset + ring_size(slots) as u64;
        match os::allocate_part(file, offset..end) {
            Ok(()) => return Ok(slots),
            Err(error) if slots == MIN_SLOTS => return Err(error),
            Err(_) => {
                slots /= 2;
                // Spare room is freed together with its place.
                if offset == 0 {
                    file.set_len(0)?;
                }
            }
        }
    }
}

/// Maps allocated spare room for a ring and zeroes it: it may hold an earlier ring.
fn cleared(spare: &Spare, name: RingName, slots: u32) -> io::Result<Mapping> {
    let length = ring_size(slots);
    let offset = Spare::offset(name.from, name.to);
    let mut memory = Mapping::part(spare.file(), offset, length)?;
    let mut bytes = memory.take_buffer(0, length);
    bytes.as_mut().fill(0);
    memory.give_back(bytes);
    Ok(memory)
}

/// Returns true for the errors of a process that has changed its user ID or root directory since it
/// opened the rendezvous directory.
pub fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotFound
            | io::ErrorKind::ReadOnlyFilesystem
    )
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use ferroce_test_support::{TemporaryDirectory, temporary_directory};

    use super::*;

    const NAME: RingName = RingName {
        from: 3,
        to: 4,
        generation: 9,
    };

    fn pair(test: &str) -> (TemporaryDirectory, Sender, Receiver) {
        let directory = temporary_directory(test);
        let sender = Sender::create(directory.path(), None, NAME, 8).expect("room");
        let receiver = Receiver::attach(directory.path(), None, NAME).expect("just made");
        (directory, sender, receiver)
    }

    fn send(sender: &mut Sender, bytes: &[u8]) -> bool {
        let Some(mut frame) = sender.reserve(bytes.len()) else {
            return false;
        };
        frame.as_mut().copy_from_slice(bytes);
        sender.transmit(frame, true);
        true
    }

    #[test]
    fn a_frame_arrives_as_it_was_sent() {
        let (directory, mut sender, mut receiver) = pair("frame");
        assert!(
            !directory.path().join(NAME.to_string()).exists(),
            "the name is gone"
        );
        assert!(receiver.receive().is_none());
        assert!(send(&mut sender, b"hello") && send(&mut sender, &[7; MAX_FRAME]));
        let first = receiver.receive().expect("sent");
        assert_eq!((first.as_ref(), first.place()), (b"hello".as_slice(), 3));
        let second = receiver.receive().expect("sent");
        assert_eq!(second.as_ref(), [7; MAX_FRAME]);
        assert!(receiver.receive().is_none() && !sender.is_drained());
        receiver.release(second);
        receiver.return_credits();
        assert_eq!(sender.consumed(), 0, "the first one is still out");
        receiver.release(first);
        receiver.return_credits();
        assert!(sender.is_drained());
    }

    #[test]
    fn full_until_slots_come_back_and_cancel_undoes() {
        let (_directory, mut sender, mut receiver) = pair("full");
        let slots = (0..2 * SLOTS)
            .take_while(|_| send(&mut sender, b"x"))
            .count();
        assert_eq!(slots, SLOTS as usize);
        for _ in 0..SLOTS / 4 {
            let frame = receiver.receive().expect("sent");
            receiver.release(frame);
        }
        let frame = sender.reserve(1).expect("a quarter came back");
        sender.cancel(frame);
        assert_eq!(
            (0..SLOTS).take_while(|_| send(&mut sender, b"y")).count(),
            32
        );
    }

    #[test]
    fn the_first_ring_leaves_room_for_others() {
        const MIB: u64 = 1 << 20;
        assert_eq!(slots_for(u64::MAX), SLOTS);
        assert_eq!(slots_for(64 * MIB), SLOTS, "a container's /dev/shm");
        assert_eq!(slots_for(4 * MIB), SLOTS / 4);
        assert_eq!(slots_for(0), MIN_SLOTS, "less is no use");
    }

    #[test]
    fn numbers_wrap() {
        let (_directory, mut sender, mut receiver) = pair("wrap");
        let start = u32::MAX - 5;
        (sender.produced, sender.consumed) = (start, start);
        (receiver.received, receiver.released, receiver.returned) = (start, start, start);
        for round in 0..300u32 {
            assert!(send(&mut sender, &round.to_le_bytes()), "round {round}");
            let frame = receiver.receive().expect("sent");
            assert_eq!(frame.as_ref(), round.to_le_bytes());
            receiver.release(frame);
        }
    }

    #[test]
    fn a_hostile_peer_changes_nothing_but_content() {
        let (_directory, mut sender, mut receiver) = pair("hostile");
        // An impossible count of consumed slots.
        receiver
            .memory
            .half_word(header::CONSUMED)
            .store(12_345, Ordering::Relaxed);
        while send(&mut sender, b"x") {}
        // A length far beyond the slot, and numbers that run ahead without credits.
        for index in 0..2 * SLOTS {
            let word = sender.memory.word(slot_offset(SLOTS, index));
            word.store(u64::from(index + 1) << 32 | 0xffff, Ordering::Release);
            let frame = receiver.receive();
            match frame {
                Some(frame) => assert_eq!(frame.as_ref().len(), MAX_FRAME),
                None => assert!(index >= SLOTS),
            }
        }
    }

    #[test]
    fn a_file_that_is_no_ring_is_refused() {
        let directory = temporary_directory("no-ring");
        let path = directory.path().join(NAME.to_string());
        for content in [vec![], vec![0; HEADER_SIZE], vec![0xff; 3 * HEADER_SIZE]] {
            fs::write(&path, content).expect("writable");
            let refused = Receiver::attach(directory.path(), None, NAME).expect_err("no ring");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn a_buffer_may_outlive_its_ring() {
        let (_directory, mut sender, _receiver) = pair("outlive");
        let mut frame = sender.reserve(64).expect("room");
        drop(sender);
        frame.as_mut().fill(1);
        assert_eq!(frame.as_ref(), [1; 64]);
    }

    #[test]
    fn two_threads_keep_order_and_content() {
        const FRAMES: u32 = 200_000;
        let (_directory, mut sender, mut receiver) = pair("threads");
        let sending = std::thread::spawn(move || {
            for number in 0..FRAMES {
                let length = 8 + (number as usize * 37) % 600;
                let mut bytes = vec![number as u8; length];
                bytes[..4].copy_from_slice(&number.to_le_bytes());
                while !send(&mut sender, &bytes) {
                    os::yield_processor();
                }
            }
        });
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let mut number = 0u32;
        while number < FRAMES {
            let Some(frame) = receiver.receive() else {
                receiver.return_credits();
                assert!(std::time::Instant::now() < deadline, "stuck at {number}");
                os::yield_processor();
                continue;
            };
            let bytes = frame.as_ref();
            assert_eq!(bytes.len(), 8 + (number as usize * 37) % 600);
            assert_eq!(bytes[..4], number.to_le_bytes());
            assert!(bytes[4..].iter().all(|byte| *byte == number as u8));
            receiver.release(frame);
            number += 1;
        }
        sending.join().expect("the sender ends");
    }
}

/// Every order of the accesses of two processes: tests/scripts/loom.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::thread;

    use super::*;

    /// Both ends of a ring of two slots.
    fn pair() -> (Sender, Receiver) {
        const SLOTS: u32 = 2;
        let words = [slot_offset(SLOTS, 0), slot_offset(SLOTS, 1)];
        let buffers = words.map(|offset| offset + DATA_OFFSET);
        let memory = Mapping::with(&words, &[header::CONSUMED], &buffers);
        let sender = Sender {
            memory: memory.clone(),
            slots: SLOTS,
            place: 0,
            produced: 0,
            consumed: 0,
            is_spare: false,
        };
        let receiver = Receiver {
            memory,
            slots: SLOTS,
            place: 0,
            sender_generation: 0,
            received: 0,
            released: 0,
            returned: 0,
            early: vec![false; SLOTS as usize].into(),
        };
        (sender, receiver)
    }

    /// Sends the frames `first..=last` while there is room. Returns the next frame.
    fn send(sender: &mut Sender, first: u64, last: u64) -> u64 {
        for number in first..=last {
            let Some(mut frame) = sender.reserve(8) else {
                return number;
            };
            frame.as_mut().copy_from_slice(&number.to_le_bytes());
            sender.transmit(frame, false);
        }
        last + 1
    }

    #[test]
    fn frames_come_in_order_with_their_bytes() {
        loom::model(|| {
            let (mut sender, mut receiver) = pair();
            let sending = thread::spawn(move || send(&mut sender, 1, 2));
            let mut expected = 1_u64;
            for _ in 0..3 {
                if let Some(frame) = receiver.receive() {
                    assert_eq!(frame.as_ref(), expected.to_le_bytes());
                    receiver.release(frame);
                    expected += 1;
                }
            }
            assert_eq!(sending.join().expect("the sender ends"), 3);
        });
    }

    #[test]
    fn a_slot_is_written_again_only_after_it_was_given_back() {
        loom::model(|| {
            let (mut sender, mut receiver) = pair();
            assert_eq!(send(&mut sender, 1, 2), 3);
            let sending = thread::spawn(move || send(&mut sender, 3, 3));
            for expected in [1_u64, 2] {
                let frame = receiver.receive().expect("it was sent before");
                assert_eq!(frame.as_ref(), expected.to_le_bytes());
                receiver.release(frame);
            }
            let next = sending.join().expect("the sender ends");
            let third = receiver.receive().map(|frame| frame.as_ref().to_vec());
            assert_eq!(third.is_some(), next == 4, "sent, and not lost");
            assert!(third.is_none_or(|bytes| bytes == 3_u64.to_le_bytes()));
        });
    }

    #[test]
    fn a_drained_ring_has_no_frame_left() {
        loom::model(|| {
            let (mut sender, mut receiver) = pair();
            assert_eq!(send(&mut sender, 1, 1), 2);
            let taken = std::sync::Arc::new(AtomicU32::new(0));
            let mark = taken.clone();
            let receiving = thread::spawn(move || {
                let frame = receiver.receive().expect("it was sent before");
                mark.store(1, Ordering::Relaxed);
                receiver.release(frame);
            });
            if sender.is_drained() {
                assert_eq!(taken.load(Ordering::Relaxed), 1);
            }
            receiving.join().expect("the receiver ends");
        });
    }
}

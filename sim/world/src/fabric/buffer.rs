//! The packet buffer of a switch, which all its ports share.
//!
//! Nothing is set aside for a queue. Instead a queue may grow to `alpha` times what is free of the
//! shared part (dynamic thresholds: Choudhury and Hahne, ToN 1998): alone it takes much, among many
//! it takes its share, and there is always room for a new one.
//!
//! What is counted differs with the priority. Where packets may be lost, the *egress* queue is held
//! to the threshold, and a packet too many is dropped. Where PFC protects a priority, the *ingress*
//! is: what came in by one cable and is still here. Above the threshold its sender is paused; what
//! is already on its way then goes to the headroom, which is set aside for each cable and priority
//! with PFC, and is lost only if that is too small.

use crate::fabric_plan::PRIORITIES;

/// Thresholds are `alpha` in units of 2^-16 of the free bytes.
const ALPHA_BITS: u32 = 16;

/// Share of the free bytes that one queue may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alpha(u32);

impl Alpha {
    /// Returns the nearest share that a switch can compute with.
    pub fn new(alpha: f64) -> Self {
        Self((alpha * f64::from(1 << ALPHA_BITS)).round() as u32)
    }

    #[inline]
    fn of(self, bytes: u64) -> u64 {
        ((u128::from(bytes) * u128::from(self.0)) >> ALPHA_BITS) as u64
    }
}

/// The part of the buffer in which a packet lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The shared part.
    Shared,
    /// The headroom of its cable and priority.
    Headroom,
}

/// Why a packet is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// Its queue is longer than its share of the buffer.
    Queue,
    /// The headroom of its cable is full: it is too small for the cable.
    Headroom,
}

/// The shared part of a switch's buffer.
#[derive(Debug, Clone)]
pub struct Buffer {
    shared_bytes: u64,
    used_bytes: u64,
}

impl Buffer {
    /// Returns an empty buffer whose ports share `shared_bytes`.
    pub fn new(shared_bytes: u64) -> Self {
        Self {
            shared_bytes,
            used_bytes: 0,
        }
    }

    /// Returns the bytes of the shared part in use.
    #[cfg(test)]
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Returns the bytes that a queue may hold now.
    #[inline]
    fn threshold(&self, alpha: Alpha) -> u64 {
        alpha.of(self.shared_bytes - self.used_bytes)
    }

    /// Takes room for `bytes` in the shared part, if a queue of `held` bytes may grow by them.
    #[inline]
    fn take(&mut self, held: u64, bytes: u64, limit: u64) -> bool {
        let fits = held + bytes <= limit && self.used_bytes + bytes <= self.shared_bytes;
        if fits {
            self.used_bytes += bytes;
        }
        fits
    }

    /// Takes room for a packet that may be lost, of an egress queue of `queued` bytes.
    #[inline]
    pub fn admit_lossy(
        &mut self,
        alpha: Alpha,
        queued: u64,
        bytes: u64,
    ) -> Result<Part, DropReason> {
        match self.take(queued, bytes, self.threshold(alpha)) {
            true => Ok(Part::Shared),
            false => Err(DropReason::Queue),
        }
    }

    /// Gives back the room of a packet that may be lost.
    #[inline]
    pub fn release_lossy(&mut self, bytes: u64) {
        self.used_bytes -= bytes;
    }
}

/// Up to how many bytes one cable and priority may fill the shared part before PFC stops it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseAt {
    /// So many.
    Bytes(u64),
    /// A share of what is free.
    Share(Alpha),
}

/// PFC at the receiving end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pfc {
    /// The priorities that it protects, a bit each.
    pub priorities: u8,
    /// When the sender is paused.
    pub pause_at: PauseAt,
    /// The sender goes on when so many bytes less are here.
    pub resume_below_bytes: u64,
    /// Room for what is on its way when the sender is paused, for each priority.
    pub headroom_bytes: u64,
}

impl Pfc {
    /// Returns true if it protects a priority.
    #[inline]
    pub fn protects(&self, priority: u8) -> bool {
        self.priorities & 1 << priority != 0
    }

    #[inline]
    fn limit(&self, buffer: &Buffer) -> u64 {
        match self.pause_at {
            PauseAt::Bytes(bytes) => bytes,
            PauseAt::Share(alpha) => buffer.threshold(alpha),
        }
    }
}

/// What has come in by one cable, of one priority, and is still in the switch.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    shared: u64,
    headroom: u64,
    /// True if the sender was paused, and may not go on yet.
    is_paused: bool,
}

/// What has come in by one cable and is still in the switch, by priority.
#[derive(Debug, Clone, Default)]
pub struct Ingress {
    held: [Held; PRIORITIES],
    most_headroom_bytes: u64,
}

impl Ingress {
    /// Returns the most bytes of headroom of one priority that were in use at once.
    pub fn most_headroom_bytes(&self) -> u64 {
        self.most_headroom_bytes
    }

    /// Takes room for a packet of a priority that PFC protects.
    #[inline]
    pub fn admit(
        &mut self,
        pfc: &Pfc,
        buffer: &mut Buffer,
        priority: u8,
        bytes: u64,
    ) -> Result<Part, DropReason> {
        let limit = pfc.limit(buffer);
        let held = &mut self.held[usize::from(priority)];
        if buffer.take(held.shared, bytes, limit) {
            held.shared += bytes;
            return Ok(Part::Shared);
        }
        if held.headroom + bytes > pfc.headroom_bytes {
            return Err(DropReason::Headroom);
        }
        held.headroom += bytes;
        self.most_headroom_bytes = self.most_headroom_bytes.max(held.headroom);
        Ok(Part::Headroom)
    }

    /// Gives back the room of a packet.
    #[inline]
    pub fn release(&mut self, buffer: &mut Buffer, priority: u8, part: Part, bytes: u64) {
        let held = &mut self.held[usize::from(priority)];
        match part {
            Part::Headroom => held.headroom -= bytes,
            Part::Shared => {
                held.shared -= bytes;
                buffer.used_bytes -= bytes;
            }
        }
    }

    /// Returns true, once, if the sender is to be paused: something lies in the headroom.
    #[inline]
    pub fn take_pause(&mut self, priority: u8) -> bool {
        let held = &mut self.held[usize::from(priority)];
        let pauses = !held.is_paused && held.headroom > 0;
        held.is_paused |= pauses;
        pauses
    }

    /// Returns true, once, if the sender may go on: little enough of what it sent is still here.
    #[inline]
    pub fn take_resume(&mut self, pfc: &Pfc, buffer: &Buffer, priority: u8) -> bool {
        let held = &mut self.held[usize::from(priority)];
        let is_low = held.shared + pfc.resume_below_bytes <= pfc.limit(buffer);
        let resumes = held.is_paused && held.headroom == 0 && (is_low || held.shared == 0);
        held.is_paused &= !resumes;
        resumes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: fn() -> Alpha = || Alpha::new(0.5);

    #[test]
    fn one_queue_takes_a_share_and_leaves_room_for_others() {
        let mut buffer = Buffer::new(9000);
        let mut queued = 0;
        while buffer.admit_lossy(HALF(), queued, 100).is_ok() {
            queued += 100;
        }
        // With alpha 1/2 one queue gets a third, and n queues leave 2 / (n + 2).
        assert_eq!(queued, 3000);
        assert!(buffer.admit_lossy(HALF(), 0, 100).is_ok());
        assert_eq!(
            buffer.admit_lossy(HALF(), queued, 100),
            Err(DropReason::Queue)
        );
        for _ in 0..31 {
            buffer.release_lossy(100);
        }
        assert_eq!(buffer.used_bytes(), 0);
    }

    #[test]
    fn a_sender_is_paused_above_its_share_and_goes_on_below() {
        let mut buffer = Buffer::new(10_000);
        let mut ingress = Ingress::default();
        let pfc = Pfc {
            priorities: 1 << 3,
            pause_at: PauseAt::Bytes(1000),
            resume_below_bytes: 300,
            headroom_bytes: 500,
        };
        let mut parts = Vec::new();
        for _ in 0..15 {
            parts.push(ingress.admit(&pfc, &mut buffer, 3, 100).expect("room"));
        }
        assert_eq!(parts.iter().filter(|p| **p == Part::Shared).count(), 10);
        assert!(ingress.take_pause(3) && !ingress.take_pause(3));
        let refused = ingress.admit(&pfc, &mut buffer, 3, 100);
        assert_eq!(refused, Err(DropReason::Headroom));
        let mut left = 0;
        for part in parts {
            ingress.release(&mut buffer, 3, part, 100);
            left += 1;
            if ingress.take_resume(&pfc, &buffer, 3) {
                break;
            }
        }
        // The ten of the shared part leave first; then what is in the headroom.
        assert_eq!(left, 15);
        assert_eq!(
            (buffer.used_bytes(), ingress.most_headroom_bytes()),
            (0, 500)
        );
    }
}

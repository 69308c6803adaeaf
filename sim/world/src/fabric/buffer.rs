//! The packet buffer of a switch, shared by all of its ports.
//!
//! No room is reserved for a queue. A queue may grow to `alpha` times the free bytes of the shared
//! part (dynamic thresholds: Choudhury and Hahne, ToN 1998): a single queue takes much, several
//! queues take equal shares, and there is always room for a new one.
//!
//! The threshold applies differently by priority. If packets of a priority may be lost, it limits
//! the *egress* queue, and packets above it are dropped. If PFC protects the priority, it limits
//! the *ingress*: the packets that came in on one cable and are still in the switch. Above the
//! threshold the sender is paused; packets in flight then go to the headroom, which is reserved for
//! each cable and priority with PFC, and are lost only if the headroom is too small.

use crate::fabric_plan::PRIORITIES;

/// `alpha` is stored in units of 2^-16 of the free bytes.
const ALPHA_BITS: u32 = 16;

/// Share of the free bytes that one queue may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alpha(u32);

impl Alpha {
    /// Returns the nearest representable share.
    pub fn new(alpha: f64) -> Self {
        Self((alpha * f64::from(1 << ALPHA_BITS)).round() as u32)
    }

    #[inline]
    fn of(self, bytes: u64) -> u64 {
        ((u128::from(bytes) * u128::from(self.0)) >> ALPHA_BITS) as u64
    }
}

/// The part of the buffer that holds a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The shared part.
    Shared,
    /// The headroom of its cable and priority.
    Headroom,
}

/// Reason why a packet is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// Its queue is longer than its share of the buffer.
    Queue,
    /// The headroom of its cable is full: the headroom is too small for the cable.
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

    /// Allocates `bytes` in the shared part, if a queue of `held` bytes may grow by them.
    #[inline]
    fn take(&mut self, held: u64, bytes: u64, limit: u64) -> bool {
        let fits = held + bytes <= limit && self.used_bytes + bytes <= self.shared_bytes;
        if fits {
            self.used_bytes += bytes;
        }
        fits
    }

    /// Allocates room for a packet that may be lost, for an egress queue of `queued` bytes.
    #[inline]
    pub fn admit_lossy(
        &mut self,
        alpha: Alpha,
        queued: u64,
        bytes: u64,
    ) -> Result<Part, DropReason> {
        if self.take(queued, bytes, self.threshold(alpha)) {
            Ok(Part::Shared)
        } else {
            Err(DropReason::Queue)
        }
    }

    /// Frees the room of a packet that may be lost.
    #[inline]
    pub fn release_lossy(&mut self, bytes: u64) {
        self.used_bytes -= bytes;
    }
}

/// Limit of one cable and priority in the shared part, above which PFC pauses the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseAt {
    /// This number of bytes.
    Bytes(u64),
    /// A share of the free bytes.
    Share(Alpha),
}

/// PFC at the receiving end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pfc {
    /// Bitmap of protected priorities.
    pub priorities: u8,
    /// The threshold at which the sender is paused.
    pub pause_at: PauseAt,
    /// The sender resumes when the switch holds this many bytes less.
    pub resume_below_bytes: u64,
    /// Room for each priority for the bytes in flight when the sender is paused.
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

/// The packets of one priority that came in on one cable and are still in the switch.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    shared: u64,
    headroom: u64,
    /// True if the sender is paused.
    is_paused: bool,
}

/// The packets that came in on one cable and are still in the switch, by priority.
#[derive(Debug, Clone, Default)]
pub struct Ingress {
    held: [Held; PRIORITIES],
    most_headroom_bytes: u64,
}

impl Ingress {
    /// Returns the maximum bytes of headroom in use for one priority.
    pub fn most_headroom_bytes(&self) -> u64 {
        self.most_headroom_bytes
    }

    /// Allocates room for a packet of a priority that PFC protects.
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

    /// Frees the room of a packet.
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

    /// Returns true, once, if the sender must be paused: the headroom is in use.
    #[inline]
    pub fn take_pause(&mut self, priority: u8) -> bool {
        let held = &mut self.held[usize::from(priority)];
        let pauses = !held.is_paused && held.headroom > 0;
        held.is_paused |= pauses;
        pauses
    }

    /// Returns true, once, if the sender may resume: few enough of its bytes are still in the
    /// switch.
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
        // The ten bytes in the shared part leave first, then the ones in the headroom.
        assert_eq!(left, 15);
        assert_eq!(
            (buffer.used_bytes(), ingress.most_headroom_bytes()),
            (0, 500)
        );
    }
}

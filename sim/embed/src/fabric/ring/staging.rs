//! Frames to multicast groups and GSIs, which are built before the destination rings are known.

use std::io;

use ferroce_wire::Gid;

use super::Mapping;
use super::{DATA_OFFSET, Frame, STRIDE};

/// Maximum number of frames in flight from the NIC; more than its pipeline holds.
const SLOTS: usize = 64;

/// Private memory for frames that will be copied to every receiver of one address.
#[derive(Debug)]
pub struct Staging {
    memory: Mapping,
    free: Vec<u32>,
    addresses: [Gid; SLOTS],
}

impl Staging {
    /// Allocates the memory.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            memory: Mapping::anonymous(SLOTS * STRIDE)?,
            free: (0..SLOTS as u32).rev().collect(),
            addresses: [Gid::UNSPECIFIED; SLOTS],
        })
    }

    /// Reserves a frame of `length` bytes (at most [`super::MAX_FRAME`]) for an address. `None`:
    /// all are in use. The frame's place is 0, which no function has.
    pub fn reserve(&mut self, address: Gid, length: usize) -> Option<Frame> {
        assert!(length <= super::MAX_FRAME);
        let index = self.free.pop()?;
        self.addresses[index as usize] = address;
        let offset = index as usize * STRIDE + DATA_OFFSET;
        Some(Frame {
            buffer: self.memory.take_buffer(offset, length),
            index,
            place: 0,
            carries_icrc: false,
            is_recorded: false,
        })
    }

    /// Returns the number of frames in use.
    pub fn taken(&self) -> u32 {
        (SLOTS - self.free.len()) as u32
    }

    /// Returns the address for which a frame was reserved.
    pub fn address(&self, frame: &Frame) -> Gid {
        self.addresses[frame.index as usize % SLOTS]
    }

    /// Releases a frame.
    pub fn release(&mut self, frame: Frame) {
        if self.memory.owns(&frame.buffer) {
            self.free.push(frame.index);
            self.memory.give_back(frame.buffer);
        }
    }
}

//! The wire of a function out of this machine: it carries frames without a local destination.

use std::sync::Arc;

use ferroce_model::ports::port::Reservation;
use ferroce_wire::{Gid, Qpn};

use super::FabricPort;
use super::faults::Captured;
use super::frame::Frame;
use crate::uplink::{Buffer, Uplink, station};

/// The uplink end that the model's threads use.
#[derive(Debug)]
pub(super) struct UplinkEnd {
    uplink: Arc<Uplink>,
    /// True if it was up when the last run of the model began.
    is_up: bool,
}

impl UplinkEnd {
    #[inline]
    pub(super) fn begin(&mut self) {
        self.is_up = self.uplink.is_up();
    }

    /// Returns true if a frame is pending, or the link state has changed since the last run of the
    /// model.
    pub(super) fn has_work(&self) -> bool {
        self.uplink.has_frame() || self.uplink.is_up() != self.is_up
    }

    pub(super) fn queue_pair_ready(&self, qpn: Qpn) {
        self.uplink.queue_pair_ready(qpn);
    }

    #[inline]
    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }
}

impl FabricPort {
    /// Adds an uplink to the port.
    #[must_use]
    pub fn with_uplink(mut self, uplink: Option<Arc<Uplink>>) -> Self {
        // Frames may be damaged outside of this machine.
        self.computes_icrc |= uplink.is_some();
        self.uplink = uplink.map(|uplink| {
            let is_up = uplink.is_up();
            Box::new(UplinkEnd { uplink, is_up })
        });
        self
    }

    /// Reserves a frame to an address that no function of this machine has.
    pub(super) fn reserve_on_uplink(&self, gid: Gid, length: usize) -> Reservation<Frame> {
        match &self.uplink {
            Some(end) if leaves(gid) => match end.uplink.reserve(length) {
                Reservation::Ready(buffer) => Reservation::Ready(Frame::Buffer(buffer)),
                Reservation::Full => Reservation::Full,
                Reservation::NoRoute => Reservation::NoRoute,
            },
            _ => Reservation::NoRoute,
        }
    }

    /// Returns true if the uplink has no room for another frame now.
    pub(super) fn uplink_is_full(&self) -> bool {
        self.uplink.as_ref().is_some_and(|end| end.uplink.is_full())
    }

    /// Copies a frame to a group, for its members on other machines.
    pub(super) fn copy_to_uplink(&mut self, group: Gid, bytes: &[u8]) {
        let Some(end) = self.uplink.as_ref().filter(|_| leaves(group)) else {
            return;
        };
        if let Reservation::Ready(mut buffer) = end.uplink.reserve(bytes.len()) {
            buffer.bytes_mut().copy_from_slice(bytes);
            match self.faults {
                Some(_) => self.transmit_with_faults(buffer, Captured::Already),
                None => self.transmit_on_uplink(buffer),
            }
        }
    }

    pub(super) fn transmit_on_uplink(&self, buffer: Box<Buffer>) {
        if let Some(end) = &self.uplink {
            end.uplink.transmit(buffer);
        }
    }

    /// Returns true if a frame is pending on the uplink.
    #[inline]
    pub(super) fn uplink_has_frame(&self) -> bool {
        let uplink = self.uplink.as_ref();
        uplink.is_some_and(|end| end.uplink.has_frame())
    }

    /// Takes the next frame received on the uplink.
    #[inline]
    pub(super) fn receive_from_uplink(&self) -> Option<Box<Buffer>> {
        self.uplink.as_ref()?.uplink.receive()
    }

    /// Releases a buffer of the uplink or of a delayed frame.
    pub(super) fn release_buffer(&self, buffer: Box<Buffer>) {
        if let Some(end) = &self.uplink {
            end.uplink.release(buffer);
        } else if let Some(faults) = &self.faults {
            faults.release(buffer);
        }
    }
}

/// Returns true if frames to an address may leave this machine.
fn leaves(gid: Gid) -> bool {
    gid.is_multicast() || station::is_on_wire(gid)
}

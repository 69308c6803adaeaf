//! Selects the frames that a function writes to its capture and to its record.

use ferroce_record::{Kind, Recorder, flags};
use ferroce_wire::pcapng::Direction;

use super::FabricPort;
use super::frame::Frame;
use crate::capture::Capture;

impl FabricPort {
    /// Records what the function sends and receives.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Option<Recorder>) -> Self {
        self.computes_icrc |= recorder.is_some();
        self.recorder = recorder;
        self
    }

    /// Returns the recorder.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    #[inline]
    pub(super) fn receive_without_faults(&mut self) -> Option<Frame> {
        let frame = self.take_frame()?;
        if self.capture.is_some() {
            self.record_received(&frame);
        }
        Some(frame)
    }

    /// Records a received frame, unless its sender has recorded it in the same file.
    #[cold]
    pub(super) fn record_received(&mut self, frame: &Frame) {
        let is_recorded = self.is_recorded(frame);
        match self.capture.as_mut().filter(|_| !is_recorded) {
            Some(capture) if carries_icrc(frame) => {
                capture.record(Direction::Inbound, frame.as_ref());
            }
            Some(capture) => capture.record_without_icrc(Direction::Inbound, frame.as_ref()),
            None => {}
        }
    }

    /// Writes a frame to the function's record.
    #[cold]
    pub(super) fn note_frame(&self, kind: Kind, frame: &Frame, has_icrc: bool) {
        if let Some(recorder) = &self.recorder {
            let flags = if has_icrc { 0 } else { flags::NO_ICRC };
            recorder.record_with(kind, flags, 0, 0, frame.as_ref());
        }
    }

    /// Returns true if the sender of a received frame has recorded it in this function's file.
    fn is_recorded(&self, frame: &Frame) -> bool {
        let capture = self.capture.as_ref().map(Capture::identity);
        match frame {
            Frame::Ring(frame) => {
                frame.is_recorded() && capture == Some(self.registry.capture(frame.place()))
            }
            Frame::Buffer(_) => false,
        }
    }

    /// Records a sent frame together with the faults that affect it, unless its receiver records it
    /// in the same file.
    #[cold]
    pub(super) fn record_sent(&mut self, frame: &mut Frame) {
        let Some(capture) = &mut self.capture else {
            return;
        };
        match frame {
            Frame::Ring(frame) => {
                let to = frame.place();
                let is_left = to != 0
                    && self.registry.capture(to) == capture.identity()
                    && self.registry.are_faults_active(to);
                if !is_left {
                    capture.record(Direction::Outbound, frame.as_ref());
                    frame.set_recorded();
                }
            }
            // It is recorded later, with its faults.
            Frame::Buffer(_) if self.faults.is_some() => {}
            Frame::Buffer(buffer) => capture.record(Direction::Outbound, buffer.bytes()),
        }
    }
}

/// Returns true if the sender of a received frame has computed its ICRC.
#[inline]
pub(super) fn carries_icrc(frame: &Frame) -> bool {
    match frame {
        Frame::Ring(frame) => frame.carries_icrc(),
        Frame::Buffer(_) => true,
    }
}

//! The streams of a file.

use std::path::Path;

use crate::follow::Follower;
use crate::format::{Kind, Source};
use crate::frames;
use crate::reader::{Ending, Position, ReadError, Reader, Record};
use crate::streams::Streams;

/// A record that was read.
#[derive(Debug)]
pub struct Loaded {
    /// Its source.
    pub source: Source,
    /// Its ending.
    pub ending: Ending,
    /// Its streams.
    pub streams: Streams,
    follower: Follower,
    captured: u64,
}

impl Loaded {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::read(path, true)
    }

    /// Reads a file as one section, for comparison with a file without sections.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open_whole(path: &Path) -> Result<Self, ReadError> {
        Self::read(path, false)
    }

    fn read(path: &Path, has_sections: bool) -> Result<Self, ReadError> {
        let mut reader = Reader::open(path)?;
        let mut follower = Follower::default();
        let mut streams = Streams::default();
        let mut last = Position::default();
        while let Some(record) = reader.next_record()? {
            if record.kind == Kind::SECTION && !has_sections {
                continue;
            }
            if record.kind == Kind::SECTION {
                let name = String::from_utf8_lossy(&record.data);
                streams.sections.push(name.as_ref().into());
            }
            follower.feed(&record, &mut streams);
            last = record.position;
        }
        follower.finish(last, &mut streams);
        Ok(Self {
            source: reader.source(),
            ending: reader.ending().unwrap_or(Ending::Cut),
            streams,
            follower,
            captured: 0,
        })
    }

    /// Adds a frame that was captured on the wire; the commands in the record identify its queue
    /// pair. A frame of the function to itself counts as sent and as received.
    pub fn add_frame(&mut self, bytes: &[u8]) {
        for direction in frames::directions(&self.follower.macs, bytes) {
            let record = Record {
                position: Position {
                    sequence: self.captured,
                    is_captured: true,
                    ..Position::default()
                },
                kind: match direction {
                    frames::Direction::Sent => Kind::FRAME_SENT,
                    frames::Direction::Received => Kind::FRAME_RECEIVED,
                },
                flags: 0,
                detail: 0,
                address: 0,
                data: bytes.to_vec(),
            };
            self.follower.feed(&record, &mut self.streams);
        }
        self.captured += 1;
    }

    /// Returns the number of added frames.
    pub fn captured(&self) -> u64 {
        self.captured
    }
}

//! Frames of a world as pcapng, in simulated time.
//!
//! Each NIC is an interface. A frame is recorded twice: outbound on its sender's interface when its
//! last bit has left the card, and inbound on its receiver's when its last bit has arrived. Time
//! stamps are picoseconds since the start of the simulation; the ICRC is valid even if the world's
//! cards compute none. A comment describes the effect of faults: on the outbound frame if it was
//! lost, otherwise on the inbound one. Pause frames of switches are only inbound.

use std::fmt;
use std::io::{self, BufWriter, Write};

use ferroce_units::Instant;
use ferroce_wire::pcapng::{
    Direction, Interface, interface_description, packet_block, section_header, write_icrc,
};

use super::agenda::Agenda;
use crate::pause_frame::PauseFrame;
use crate::{FrameSeen, Received};

/// Time stamps count units of 10^-12 s.
const PICOSECONDS: u8 = 12;

/// A frame at an interface.
#[derive(Debug)]
struct Sighting {
    interface: usize,
    direction: Direction,
    frame: Vec<u8>,
    comment: Option<String>,
}

/// A capture of all NICs of a world.
pub struct Packets {
    output: BufWriter<Box<dyn Write + Send>>,
    agenda: Agenda<Sighting>,
    frames: u64,
    failed: Option<io::Error>,
}

impl fmt::Debug for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frames = self.frames;
        f.debug_struct("Packets")
            .field("frames", &frames)
            .finish_non_exhaustive()
    }
}

impl Packets {
    /// Creates a capture of the NICs of `hosts` hosts.
    ///
    /// # Errors
    /// The error of the output.
    pub fn new(output: Box<dyn Write + Send>, hosts: usize) -> io::Result<Self> {
        let mut output = BufWriter::new(output);
        output.write_all(&section_header())?;
        for host in 0..hosts {
            let interface = Interface {
                name: format!("host{host}"),
                about: None,
                resolution: PICOSECONDS,
            };
            output.write_all(&interface_description(&interface))?;
        }
        Ok(Self {
            output,
            agenda: Agenda::default(),
            frames: 0,
            failed: None,
        })
    }

    /// Adds a frame.
    pub fn add_frame(&mut self, seen: &FrameSeen<'_>) {
        let mut frame = seen.bytes.to_vec();
        write_icrc(&mut frame);
        let comment = seen.fault.map(|fault| fault.comment.to_owned());
        let received = match seen.fault.map(|fault| fault.received) {
            None | Some(Received::Intact) => Some(frame.clone()),
            Some(Received::Damaged(bytes)) => Some(bytes.to_vec()),
            Some(Received::Lost) => None,
        };
        let (on_sent, on_received) = match received {
            None => (comment, None),
            Some(_) => (None, comment),
        };
        let sent = Sighting {
            interface: seen.from,
            direction: Direction::Outbound,
            frame,
            comment: on_sent,
        };
        self.agenda.add(seen.sent, sent);
        if let Some(frame) = received {
            let received = Sighting {
                interface: seen.to,
                direction: Direction::Inbound,
                frame,
                comment: on_received,
            };
            self.agenda.add(seen.arrival, received);
        }
    }

    /// Adds a pause frame at its receiver only, because switches have no interface.
    pub fn add_pause(&mut self, at: Instant, pause: &PauseFrame) {
        let received = Sighting {
            interface: pause.host,
            direction: Direction::Inbound,
            frame: pause.bytes().to_vec(),
            comment: None,
        };
        self.agenda.add(at, received);
    }

    /// Writes the frames before `now`; all of them must be known.
    pub fn write_until(&mut self, now: Instant) {
        while let Some((time, sighting)) = self.agenda.next_before(now) {
            self.write(time, &sighting);
        }
    }

    /// Writes the rest; returns the number of captured frames, counting both interfaces.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish(mut self) -> io::Result<u64> {
        while let Some((time, sighting)) = self.agenda.take_next() {
            self.write(time, &sighting);
        }
        match self.failed {
            Some(error) => Err(error),
            None => self.output.flush().map(|()| self.frames),
        }
    }

    fn write(&mut self, time: Instant, sighting: &Sighting) {
        let block = packet_block(
            sighting.interface as u32,
            time.as_ps(),
            sighting.direction,
            &sighting.frame,
            sighting.comment.as_deref(),
        );
        match self.output.write_all(&block) {
            Ok(()) => self.frames += 1,
            Err(error) => {
                self.failed.get_or_insert(error);
            }
        }
    }
}

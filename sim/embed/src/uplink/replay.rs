//! Replays the frames of a capture in order, as fast as the model takes them.
//!
//! Only frames to this function are delivered: to its MAC address, to one of its GIDs, or to a
//! group. The first frame waits until a queue pair can receive; each later frame waits briefly for
//! its own queue pair. Sent frames are dropped and counted as lost.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferroce_wire::{Frame, Gid, Mac, Qpn};
use parking_lot::{Condvar, Mutex};
use pcap_file::DataLink;

use super::{NearEnd, Shared, reader};
use crate::capture;
use crate::capture::reader::ReadError;
use crate::fabric::registry::UplinkCounter;
use crate::fabric::ring::MAX_FRAME;

/// How long a frame waits for its queue pair if another queue pair can receive.
const MAX_HOLD: Duration = Duration::from_millis(500);
/// Period at which a waiting replay checks whether it must end.
const WAIT: Duration = Duration::from_millis(50);
/// Maximum number of queue pairs that are remembered as able to receive.
const MAX_READY: usize = 65_536;
/// Maximum number of stations of the capture that are remembered.
const MAX_STATIONS: usize = 256;

/// Holds frames until a queue pair can receive them.
#[derive(Debug, Default)]
pub struct Gate {
    ready: Mutex<Vec<Qpn>>,
    opened: Condvar,
}

impl Gate {
    /// Records that a queue pair can receive.
    pub fn open_for(&self, qpn: Qpn) {
        let mut ready = self.ready.lock();
        if ready.len() < MAX_READY && !ready.contains(&qpn) {
            ready.push(qpn);
        }
        self.opened.notify_all();
    }

    /// Waits. Returns whether `qpn` can receive, and whether any queue pair can.
    fn wait(&self, qpn: Qpn, time: Duration) -> (bool, bool) {
        let mut ready = self.ready.lock();
        if !ready.contains(&qpn) {
            self.opened.wait_for(&mut ready, time);
        }
        (ready.contains(&qpn), !ready.is_empty())
    }
}

/// A capture to replay.
#[derive(Debug)]
pub struct Replay {
    path: PathBuf,
}

impl Replay {
    /// Reads the capture once to validate it; its stations become neighbours.
    ///
    /// # Errors
    /// `InvalidData` if it is no capture of Ethernet, or has no frame for this function.
    pub fn open(path: &Path, shared: &Shared) -> io::Result<Self> {
        let mut stations: Vec<(Gid, Mac)> = Vec::new();
        let (mut frames, mut ours) = (0u64, 0u64);
        for_each_frame(path, &mut |bytes| {
            frames += 1;
            if let Some(frame) = for_us(&shared.end, bytes) {
                ours += 1;
                let station = (frame.ip.source_gid(), frame.ethernet.source);
                if stations.len() < MAX_STATIONS && !stations.contains(&station) {
                    stations.push(station);
                }
            }
            true
        })?;
        if ours == 0 {
            let reason = format!(
                "none of its {frames} frames is RoCE for {} or one of our addresses; give us the \
                 captured ones with --address",
                shared.end.mac
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        for (gid, mac) in stations {
            shared.neighbours.learn(gid, mac);
        }
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Delivers the frames.
    pub fn run(self, shared: &Shared) {
        let replayed = for_each_frame(&self.path, &mut |bytes| {
            if let Some(frame) = for_us(&shared.end, bytes) {
                hold(shared, frame.headers.bth.dest_qp);
                deliver(shared, bytes);
            }
            !shared.is_stopping()
        });
        match replayed {
            Ok(()) => tracing::info!("the capture has been replayed"),
            Err(error) => tracing::warn!(%error, "the replay ends here"),
        }
    }
}

/// Waits until the queue pair of a frame can receive.
fn hold(shared: &Shared, qpn: Qpn) {
    let mut since = Instant::now();
    while !shared.is_stopping() {
        match shared.gate.wait(qpn, WAIT) {
            (true, _) => return,
            // A multicast frame, or a frame to a missing queue pair, which the model counts.
            (false, true) if since.elapsed() > MAX_HOLD || qpn == Qpn::MULTICAST => return,
            (false, true) => {}
            (false, false) => since = Instant::now(),
        }
    }
}

/// Delivers a frame as soon as the model has room.
fn deliver(shared: &Shared, bytes: &[u8]) {
    while shared.incoming.is_full() && !shared.is_stopping() {
        shared.end.wake();
        shared.incoming.wait_for_room(WAIT);
    }
    let mut frame = shared.pool.take(bytes.len());
    frame.bytes_mut().copy_from_slice(bytes);
    if shared.incoming.push(frame).is_ok() {
        shared.end.count(UplinkCounter::Received, 1);
        shared.end.wake();
    }
}

/// Returns the frame if it is RoCE to this function.
fn for_us<'a>(end: &NearEnd, bytes: &'a [u8]) -> Option<Frame<'a>> {
    if bytes.len() > MAX_FRAME || !reader::is_roce(bytes) {
        return None;
    }
    let frame = Frame::parse(bytes).ok()?;
    let to = frame.ethernet.destination;
    let gid = frame.ip.destination_gid();
    let is_ours = to == end.mac || end.owns(gid) || gid.is_multicast();
    let is_own = frame.ethernet.source == end.mac || end.owns(frame.ip.source_gid());
    (is_ours && !is_own).then_some(frame)
}

/// Calls `action` with each Ethernet frame of a capture until it returns false.
fn for_each_frame(path: &Path, action: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<()> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut foreign = None;
    let file = io::BufReader::new(File::open(path)?);
    let read = capture::reader::for_each_frame(file, &mut |captured| {
        let goes_on = match captured.link {
            Some(DataLink::ETHERNET) => action(captured.bytes),
            Some(link) => {
                foreign = Some(link);
                false
            }
            None => true,
        };
        if goes_on {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    match (read, foreign) {
        (Err(ReadError::Io(error)), _) => Err(error),
        (Err(error), _) => Err(invalid(error.to_string())),
        (Ok(()), Some(link)) => Err(invalid(format!("a capture of {link:?}, not of Ethernet"))),
        (Ok(()), None) => Ok(()),
    }
}

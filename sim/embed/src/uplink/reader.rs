//! The thread of a wire: receives frames, answers ARP and the like, and repairs the wire.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ferroce_platform::os::network;
use ferroce_wire::{EtherType, EthernetHeader};

use super::Shared;
use super::buffer::Buffer;
use super::opener::Opener;
use super::wire::{Attempt, Receive, Wire, WireError};
use crate::fabric::registry::UplinkCounter;
use crate::fabric::ring::MAX_FRAME;

/// Period of checks of the wire, and of attempts to open it again.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The period while frames are pending, or while a polling application may stop polling.
const SHORT_WAIT_MS: i32 = 1;
/// How long frames stay in the wire while the model takes none. Then they are dropped, as in a
/// switch, so that they do not block ARP.
const MAX_PAUSE: Duration = Duration::from_millis(100);
/// Frames received between two checks of everything else.
const BURST: u32 = 64;
/// UDP's number in an IP header.
const PROTOCOL_UDP: u8 = 17;
/// The UDP port of RoCEv2.
const ROCE_PORT: [u8; 2] = 4791u16.to_be_bytes();

/// Serves a wire until the function ends, and reopens it whenever it breaks.
pub fn run(
    shared: &Shared,
    mut opener: Opener,
    mut receive: Option<Box<dyn Receive>>,
    kicked: &UnixStream,
) {
    while !shared.is_stopping() {
        match receive.take() {
            Some(receive) => {
                shared.announce();
                serve(shared, receive, kicked);
            }
            None => {
                wait(shared, &opener, kicked);
                receive = reopen(shared, &mut opener);
            }
        }
    }
}

/// Opens a wire that broke, or that no peer has connected to.
fn reopen(shared: &Shared, opener: &mut Opener) -> Option<Box<dyn Receive>> {
    match opener.open(Attempt::Again) {
        Ok(Some(Wire { transmit, receive })) => {
            shared.outgoing.lock().open(transmit);
            shared.set_up();
            Some(receive)
        }
        Ok(None) => None,
        Err(error) => {
            tracing::debug!(%error, "the wire cannot be opened yet");
            None
        }
    }
}

/// Waits before the next attempt; a connecting peer is accepted immediately.
fn wait(shared: &Shared, opener: &Opener, kicked: &UnixStream) {
    drain_wake_ups(kicked);
    if shared.is_stopping() {
        return;
    }
    let caller = match opener {
        Opener::Listening(listener) => listener.as_fd(),
        Opener::Direct(_) => kicked.as_fd(),
    };
    network::wait_readable(caller, kicked.as_fd(), CHECK_INTERVAL.as_millis() as i32);
}

/// Takes the bytes that woke the thread.
fn drain_wake_ups(mut kicked: &UnixStream) {
    let mut bytes = [0; 64];
    // Remaining bytes only cause another check.
    let _ = kicked.read(&mut bytes);
}

/// Receives until the wire breaks or the function ends.
fn serve(shared: &Shared, mut receive: Box<dyn Receive>, kicked: &UnixStream) {
    let mut check_at = Instant::now() + CHECK_INTERVAL;
    let mut must_wake = false;
    while !shared.is_stopping() {
        let mut received = 0;
        let failed = loop {
            match receive_one(shared, &mut *receive) {
                Ok(is_for_model) => must_wake |= is_for_model,
                Err(error) => break Some(error),
            }
            received += 1;
            if received == BURST {
                break None;
            }
        };
        if received > 0 {
            shared.outgoing.lock().note_peer(shared);
        }
        if must_wake {
            must_wake = !shared.end.wake() && !shared.incoming.is_empty();
        }
        match failed {
            None | Some(WireError::Busy | WireError::Lost) => {}
            Some(WireError::Absent(error)) => {
                shared
                    .outgoing
                    .lock()
                    .note_absent_peer(shared, &error.to_string());
            }
            Some(WireError::Broken(error)) => {
                return shared.outgoing.lock().close(shared, &error.to_string());
            }
        }
        if Instant::now() >= check_at {
            check_at = Instant::now() + CHECK_INTERVAL;
            let must_announce = shared.outgoing.lock().check(shared);
            if must_announce {
                shared.announce();
            }
        }
        if received < BURST && !pause(shared, &*receive, kicked, must_wake, check_at) {
            return;
        }
    }
}

/// Waits for frames, at most until the next check. Returns false if the wire broke.
fn pause(
    shared: &Shared,
    receive: &dyn Receive,
    kicked: &UnixStream,
    must_wake: bool,
    check_at: Instant,
) -> bool {
    let (is_closed, has_backlog) = {
        let mut outgoing = shared.outgoing.lock();
        outgoing.drain(shared);
        (outgoing.is_closed(), outgoing.has_backlog())
    };
    if is_closed {
        return false;
    }
    let timeout_ms = if must_wake || has_backlog {
        SHORT_WAIT_MS
    } else {
        let left = check_at.saturating_duration_since(Instant::now());
        left.as_millis() as i32 + 1
    };
    network::wait_readable(receive.descriptor(), kicked.as_fd(), timeout_ms);
    drain_wake_ups(kicked);
    true
}

/// Receives a frame and handles it. Returns true if it is for the model.
fn receive_one(shared: &Shared, receive: &mut dyn Receive) -> Result<bool, WireError> {
    let mut frame = shared.pool.take(0);
    match receive.receive(frame.whole()) {
        Ok(length) => {
            frame.set_length(length);
            Ok(sort(shared, frame))
        }
        Err(error) => {
            shared.pool.give_back(frame);
            Err(error)
        }
    }
}

/// Passes a frame to the model, answers it, or ignores it.
fn sort(shared: &Shared, frame: Box<Buffer>) -> bool {
    let (bytes, end) = (frame.bytes(), &shared.end);
    let is_ours = EthernetHeader::parse(bytes).is_ok_and(|(ethernet, _)| {
        let to = ethernet.destination;
        (to == end.mac || to.is_multicast()) && ethernet.source != end.mac
    });
    if is_ours && bytes.len() <= MAX_FRAME {
        if is_roce(bytes) {
            return deliver(shared, frame);
        }
        let heard = end.as_station(|us| us.receive(bytes));
        if let Some((gid, mac)) = heard.neighbour {
            shared.neighbours.learn(gid, mac);
        }
        if let Some(answer) = heard.answer {
            end.count(UplinkCounter::Answered, 1);
            shared.send(&answer);
        }
    } else {
        end.count(UplinkCounter::Ignored, 1);
    }
    shared.pool.give_back(frame);
    false
}

/// Passes a frame to the model, if there is room.
fn deliver(shared: &Shared, frame: Box<Buffer>) -> bool {
    if shared.incoming.is_full() {
        shared.end.wake();
        shared.incoming.wait_for_room(MAX_PAUSE);
    }
    match shared.incoming.push(frame) {
        Ok(()) => {
            shared.end.count(UplinkCounter::Received, 1);
            true
        }
        Err(frame) => {
            shared.end.count(UplinkCounter::ReceivedLost, 1);
            shared.pool.give_back(frame);
            // The thread that should have taken it may be asleep.
            true
        }
    }
}

/// Returns true if a frame is for the model: UDP to the port of RoCEv2.
pub fn is_roce(bytes: &[u8]) -> bool {
    let Ok((ethernet, ether_type)) = EthernetHeader::parse(bytes) else {
        return false;
    };
    let ip = &bytes[ethernet.length()..];
    let (protocol, udp) = match ether_type {
        EtherType::IPV4 => {
            let Some(first) = ip.first() else {
                return false;
            };
            (ip.get(9), usize::from(first & 0xf) * 4)
        }
        EtherType::IPV6 => (ip.get(6), 40),
        _ => return false,
    };
    protocol == Some(&PROTOCOL_UDP) && ip.get(udp + 2..udp + 4) == Some(&ROCE_PORT[..])
}

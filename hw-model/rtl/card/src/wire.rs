//! The port's side of the card: frames, beat by beat.

use std::collections::VecDeque;

use ferroce_model::ports::port::{Port, Reservation, Route};
use ferroce_rtl_harness::{LINE, bytes, words};
use ferroce_units::{Duration, Instant};
use ferroce_wire::Frame;

use crate::edge::Edge;

/// The longest frame: 4096 bytes of payload with all headers.
const MAX_FRAME: usize = 4096 + 256;
/// Delay before the next attempt while a frame waits for room on the wire.
const STALL_RETRY: Duration = Duration::from_us(5);
/// Number of recent destinations that determine the pace of the timers.
const MAX_PEERS: usize = 16;

/// Frames between the card and the port.
#[derive(Debug)]
pub struct Wire<P: Port> {
    /// The frame that is being received, and the number of its bytes that the card has taken.
    received: Option<(Vec<u8>, usize)>,
    /// A frame that arrives later.
    coming: Option<(Instant, P::Frame)>,
    /// Bytes of the frame that the card is sending.
    sending: Vec<u8>,
    /// A whole frame for which the wire has no room.
    waiting: Option<Vec<u8>>,
    peers: VecDeque<Route>,
    /// Number of the next received frames that the MAC finds damaged.
    to_damage: u64,
    sent: Sent,
}

/// Frames that the card has sent, and their bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Frames.
    pub frames: u64,
    /// Bytes of these frames.
    pub bytes: u64,
}

impl<P: Port> Default for Wire<P> {
    fn default() -> Self {
        Self {
            received: None,
            coming: None,
            sending: Vec::with_capacity(MAX_FRAME),
            waiting: None,
            peers: VecDeque::with_capacity(MAX_PEERS),
            to_damage: 0,
            sent: Sent::default(),
        }
    }
}

impl<P: Port> Wire<P> {
    /// Drops the frame that the card was sending, and the list of peers. Received frames continue:
    /// the card drops them.
    pub fn reset(&mut self) {
        self.sending.clear();
        self.waiting = None;
        self.peers.clear();
    }

    /// The MAC finds the next received frames damaged: their FCS is wrong.
    pub fn damage(&mut self, frames: u64) {
        self.to_damage = frames;
    }

    /// Returns the frames that the card has sent.
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// Returns true if no frame is in flight.
    pub fn is_empty(&self) -> bool {
        self.received.is_none() && self.sending.is_empty()
    }

    /// Returns true if a frame is being received.
    pub fn is_receiving(&self) -> bool {
        self.received.is_some()
    }

    /// Returns true if a frame waits for room on the wire.
    pub fn is_stalled(&self) -> bool {
        self.waiting.is_some()
    }

    /// Returns when the card has to run for an arriving or a waiting frame.
    pub fn next_attempt(&self, now: Instant) -> Option<Instant> {
        let retry = self.waiting.as_ref().map(|_| now + STALL_RETRY);
        let arrival = self.coming.as_ref().map(|(at, _)| *at);
        retry.into_iter().chain(arrival).min()
    }

    /// Returns true if a peer has not received all frames that were sent to it.
    pub fn peer_is_behind(&self, port: &mut P) -> bool {
        self.peers.iter().any(|route| port.is_behind(route))
    }

    /// Offers the next beat to the card. Returns true if there is one.
    pub fn offer(&mut self, rtl: &mut Edge, now: Instant, port: &mut P) -> bool {
        if self.received.is_none() && rtl.rx_room() != 0 {
            self.received = self.next_frame(now, port).map(|frame| (frame, 0));
        }
        self.send_waiting(now, port);
        rtl.set_tx_ready(u8::from(self.waiting.is_none()));
        rtl.set_rx_valid(u8::from(self.received.is_some()));
        if let Some((frame, begin)) = &self.received {
            let rest = &frame[*begin..];
            let count = rest.len().min(LINE);
            rtl.set_rx_data(words(&rest[..count], 0));
            rtl.set_rx_bytes(count as u8);
            rtl.set_rx_last(u8::from(count == rest.len()));
            rtl.set_rx_error(u8::from(self.to_damage > 0));
        }
        self.received.is_some()
    }

    /// Takes the beat that the card sends in this cycle; the card has taken the offered one.
    pub fn take(&mut self, rtl: &mut Edge, now: Instant, port: &mut P) {
        self.received = self.received.take().and_then(|(frame, begin)| {
            let end = begin + LINE;
            if end >= frame.len() {
                self.to_damage = self.to_damage.saturating_sub(1);
                return None;
            }
            Some((frame, end))
        });
        if rtl.tx_valid() == 0 || self.waiting.is_some() {
            return;
        }
        let count = usize::from(rtl.tx_bytes()).min(LINE);
        self.sending
            .extend_from_slice(&bytes(rtl.tx_data())[..count]);
        if rtl.tx_last() != 0 {
            self.sent.frames += 1;
            self.sent.bytes += self.sending.len() as u64;
            self.waiting = Some(std::mem::take(&mut self.sending));
            self.send_waiting(now, port);
        }
    }

    /// Receives a frame, with its ICRC. On a trusted wire inside one machine, frames may lack it.
    fn next_frame(&mut self, now: Instant, port: &mut P) -> Option<Vec<u8>> {
        let (at, frame) = self.coming.take().or_else(|| port.receive(now))?;
        if at > now {
            self.coming = Some((at, frame));
            return None;
        }
        let mut received = frame.as_ref().to_vec();
        if !port.carries_icrc(&frame) {
            insert_icrc(&mut received);
        }
        port.release(frame);
        (!received.is_empty()).then_some(received)
    }

    /// Sends the waiting frame to the port, if there is room.
    fn send_waiting(&mut self, now: Instant, port: &mut P) {
        let Some(waiting) = &self.waiting else {
            return;
        };
        let Some(route) = route_of(waiting) else {
            debug_assert!(false, "the card sends RoCEv2 alone");
            self.waiting = None;
            return;
        };
        match port.reserve(&route, waiting.len()) {
            Reservation::Full => return,
            Reservation::NoRoute => {}
            Reservation::Ready(mut frame) => {
                frame.as_mut().copy_from_slice(waiting);
                port.transmit(now, frame);
                self.note_peer(route);
            }
        }
        self.waiting = None;
    }

    fn note_peer(&mut self, route: Route) {
        if self.peers.contains(&route) {
            return;
        }
        if self.peers.len() == MAX_PEERS {
            self.peers.pop_front();
        }
        self.peers.push_back(route);
    }
}

/// Returns the destination of a frame.
fn route_of(frame: &[u8]) -> Option<Route> {
    let frame = Frame::parse(frame).ok()?;
    Some(Route {
        mac: frame.ethernet.destination,
        gid: frame.ip.destination_gid(),
        qpn: frame.headers.bth.dest_qp,
    })
}

/// Computes the ICRC of a valid frame.
fn insert_icrc(bytes: &mut [u8]) {
    let Ok(frame) = Frame::parse(bytes) else {
        return;
    };
    let (icrc, place) = (frame.computed_icrc(), frame.layout().icrc());
    bytes[place].copy_from_slice(&icrc.to_le_bytes());
}

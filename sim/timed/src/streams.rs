//! Streams between programs: when written data can be read.
//!
//! The bytes go through the machine's sockets; this module only records how many arrive at which
//! time. A stream is one direction of a connection; both programs use the same number for it.

use std::collections::{HashMap, HashSet, VecDeque};

use ferroce_timed_protocol::STREAM_LATENCY_PS;
use ferroce_units::{Duration, Instant};
use ferroce_world::ThreadId;

/// Most streams, and most connections that wait at a port.
const MAX_STREAMS: usize = 1 << 16;
/// Arrivals that are recorded separately; later ones share the time of the last one.
const MAX_ARRIVALS: usize = 1 << 12;
/// Time from a write until the other program can read the data.
const LATENCY: Duration = Duration(STREAM_LATENCY_PS);

/// Result of an attempt to read or to accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readable {
    /// This many bytes (zero: the stream has ended), or a connection.
    Bytes(u64),
    /// Nothing before this time.
    At(Instant),
    /// Unknown.
    Unknown,
}

/// Error: more streams than a world has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has more than {MAX_STREAMS} streams or connections")]
pub struct TooMany;

#[derive(Debug, Default)]
struct Stream {
    /// Arrival times and byte counts, in order.
    arrivals: VecDeque<(Instant, u64)>,
    /// Bytes read that have not been removed from `arrivals`.
    read: u64,
    end: Option<Instant>,
    sender: Option<u64>,
    reader: Option<u64>,
    waiter: Option<ThreadId>,
}

impl Stream {
    /// Removes what has been read from `arrivals`.
    fn settle(&mut self) {
        while let Some((_, count)) = self.arrivals.front_mut() {
            let taken = self.read.min(*count);
            self.read -= taken;
            *count -= taken;
            if *count > 0 {
                return;
            }
            self.arrivals.pop_front();
        }
        // More than had arrived: an invalid count of the program.
        self.read = 0;
    }

    fn readable(&self, now: Instant) -> Readable {
        let there = self.arrivals.iter().take_while(|(at, _)| *at <= now);
        let bytes = there.fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        if bytes > 0 {
            return Readable::Bytes(bytes);
        }
        let next = self.arrivals.front().map(|(at, _)| *at).or(self.end);
        match next {
            Some(at) if at <= now => Readable::Bytes(0),
            Some(at) => Readable::At(at),
            None => Readable::Unknown,
        }
    }
}

/// A port with a listener.
#[derive(Debug, Default)]
struct Port {
    /// The program that listens.
    listener: Option<u64>,
    /// Arrival times of connections that have not been accepted.
    arrivals: VecDeque<Instant>,
    /// Names of connections that programs of the world have made and no thread has accepted.
    names: HashSet<u64>,
    waiter: Option<ThreadId>,
}

/// The streams of a world. If a function returns a thread and a time, the caller wakes it at that
/// time.
#[derive(Debug, Default)]
pub struct Streams {
    streams: HashMap<u64, Stream>,
    ports: HashMap<u16, Port>,
}

impl Streams {
    /// Records that program `listener` listens. Earlier connections to the port belonged to another
    /// listener.
    pub fn listen(&mut self, port: u16, listener: u64) {
        let port = self.ports.entry(port).or_default();
        if port.listener.replace(listener) != Some(listener) {
            port.arrivals.clear();
            port.names.clear();
        }
    }

    /// Returns true if a program listens on the port.
    pub fn listens(&self, port: u16) -> bool {
        let port = self.ports.get(&port);
        port.is_some_and(|port| port.listener.is_some())
    }

    /// Records that a program connects. If no program of the world listens, nothing arrives.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn connect(
        &mut self,
        port: u16,
        name: Option<u64>,
        now: Instant,
    ) -> Result<Option<(ThreadId, Instant)>, TooMany> {
        let port = self.ports.get_mut(&port);
        let Some(port) = port.filter(|port| port.listener.is_some()) else {
            return Ok(None);
        };
        if port.arrivals.len().max(port.names.len()) >= MAX_STREAMS {
            return Err(TooMany);
        }
        port.names.extend(name);
        let arrival = now + LATENCY;
        let place = port.arrivals.partition_point(|at| *at <= arrival);
        port.arrivals.insert(place, arrival);
        Ok(port.waiter.take().map(|waiter| (waiter, arrival)))
    }

    /// Returns true if a program of the world has made a connection with this name to the port, and
    /// forgets the name.
    pub fn take_name(&mut self, port: u16, name: u64) -> bool {
        let port = self.ports.get_mut(&port);
        port.is_some_and(|port| port.names.remove(&name))
    }

    /// Accepts a connection that has arrived.
    pub fn accept(&mut self, port: u16, now: Instant) -> Readable {
        let arrivals = &mut self.ports.entry(port).or_default().arrivals;
        match arrivals.front().copied() {
            Some(at) if at <= now => {
                arrivals.pop_front();
                Readable::Bytes(1)
            }
            Some(at) => Readable::At(at),
            None => Readable::Unknown,
        }
    }

    /// Sets or clears the thread that waits for a connection.
    pub fn await_connection(&mut self, port: u16, thread: Option<ThreadId>) {
        self.ports.entry(port).or_default().waiter = thread;
    }

    /// Returns true if a thread waits for a connection.
    pub fn has_acceptor(&self) -> bool {
        self.ports.values().any(|port| port.waiter.is_some())
    }

    fn stream(&mut self, number: u64) -> Result<&mut Stream, TooMany> {
        if self.streams.len() >= MAX_STREAMS && !self.streams.contains_key(&number) {
            return Err(TooMany);
        }
        Ok(self.streams.entry(number).or_default())
    }

    /// Records that program `sender` has written.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn send(
        &mut self,
        number: u64,
        sender: u64,
        bytes: u64,
        now: Instant,
    ) -> Result<Option<(ThreadId, Instant)>, TooMany> {
        let stream = self.stream(number)?;
        if stream.end.is_some() {
            // A new connection uses the number again.
            *stream = Stream::default();
        }
        stream.sender = Some(sender);
        if bytes == 0 {
            return Ok(None);
        }
        let last = stream.arrivals.back().map_or(Instant::ZERO, |(at, _)| *at);
        let arrival = (now + LATENCY).max(last);
        if stream.arrivals.len() < MAX_ARRIVALS {
            stream.arrivals.push_back((arrival, bytes));
        } else if let Some((at, count)) = stream.arrivals.back_mut() {
            *at = arrival;
            *count = count.saturating_add(bytes);
        }
        Ok(stream.waiter.take().map(|waiter| (waiter, arrival)))
    }

    /// Records that program `reader` has read.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn receive(&mut self, number: u64, reader: u64, bytes: u64) -> Result<(), TooMany> {
        let stream = self.stream(number)?;
        stream.reader = Some(reader);
        stream.read = stream.read.saturating_add(bytes);
        stream.settle();
        Ok(())
    }

    /// Records that program `closer` writes no more, or reads no more.
    pub fn close(&mut self, number: u64, closer: u64, now: Instant) -> Option<(ThreadId, Instant)> {
        let stream = self.streams.get_mut(&number)?;
        if stream.sender != Some(closer) {
            self.streams.remove(&number);
            return None;
        }
        let last = stream.arrivals.back().map_or(Instant::ZERO, |(at, _)| *at);
        let end = *stream.end.get_or_insert((now + LATENCY).max(last));
        stream.waiter.take().map(|waiter| (waiter, end))
    }

    /// Returns what `reader` finds on a stream.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn readable(
        &mut self,
        number: u64,
        reader: u64,
        now: Instant,
    ) -> Result<Readable, TooMany> {
        let stream = self.stream(number)?;
        stream.reader = Some(reader);
        Ok(stream.readable(now))
    }

    /// Sets or clears the thread that waits for data.
    pub fn await_bytes(&mut self, number: u64, thread: Option<ThreadId>) {
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.waiter = thread;
        }
    }

    /// Removes a program: its written streams end, its read streams have no reader, and its ports
    /// have no listener.
    pub fn forget(&mut self, program: u64, now: Instant) -> Vec<(ThreadId, Instant)> {
        self.ports.retain(|_, port| port.listener != Some(program));
        let numbers: Vec<u64> = self.streams.keys().copied().collect();
        let mut woken = Vec::new();
        for number in numbers {
            let Some(stream) = self.streams.get_mut(&number) else {
                continue;
            };
            if stream.sender == Some(program) {
                woken.extend(self.close(number, program, now));
                let stream = self.streams.get(&number);
                if stream.is_some_and(|stream| stream.reader.is_none()) {
                    self.streams.remove(&number);
                }
            } else if stream.reader == Some(program) {
                if stream.end.is_some() || stream.sender.is_none() {
                    self.streams.remove(&number);
                } else {
                    stream.reader = None;
                }
            }
        }
        woken.sort_unstable();
        woken
    }
}

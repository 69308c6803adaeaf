//! The connections whose other end is in the world.
//!
//! They are identified by their addresses, not by descriptors, because descriptors can be copied,
//! passed on and closed in more ways than can be observed. The table may be read and written in
//! signal handlers.

use std::sync::atomic::{AtomicU64, Ordering};

use super::name::{Connection, Stream};
use crate::descriptor::Descriptor;
use crate::joined;

/// Maximum number of connections at a time. Further ones are treated like connections to programs
/// outside of the world.
const MAX_CONNECTIONS: usize = 4096;
/// Places that are probed for one name.
const MAX_PROBES: usize = 64;

const FREE: u64 = 0;

/// A set of outgoing directions.
#[derive(Debug)]
pub struct Known {
    places: [AtomicU64; MAX_CONNECTIONS],
}

/// The connections of this program.
pub static KNOWN: Known = Known::new();

/// Returns the connection of a descriptor, if it is within the world.
#[inline]
pub fn connection(descriptor: Descriptor) -> Option<Connection> {
    if !joined::is_joined() {
        return None;
    }
    let connection = Connection::of(descriptor)?;
    KNOWN.contains(connection.outgoing).then_some(connection)
}

impl Known {
    const fn new() -> Self {
        Self {
            places: [const { AtomicU64::new(FREE) }; MAX_CONNECTIONS],
        }
    }

    fn places_of(&self, stream: Stream) -> impl Iterator<Item = &AtomicU64> {
        let first = (stream.0 >> 32) as usize;
        (0..MAX_PROBES).map(move |check| &self.places[(first + check) % MAX_CONNECTIONS])
    }

    /// Adds a connection. Returns false if there is no room.
    pub fn add(&self, stream: Stream) -> bool {
        self.contains(stream)
            || self.places_of(stream).any(|place| {
                let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
                place
                    .compare_exchange(FREE, stream.0, success, failure)
                    .is_ok()
            })
    }

    /// Returns true if the connection is in the set.
    pub fn contains(&self, stream: Stream) -> bool {
        self.places_of(stream)
            .any(|place| place.load(Ordering::Acquire) == stream.0)
    }

    /// Removes a connection. Returns false if it was not there.
    pub fn remove(&self, stream: Stream) -> bool {
        let found = self
            .places_of(stream)
            .find(|place| place.load(Ordering::Acquire) == stream.0);
        found.is_some_and(|place| {
            place.store(FREE, Ordering::Release);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_there_until_it_is_removed() {
        let known = Known::new();
        // All hash to the same place.
        let streams: Vec<_> = (1..=MAX_PROBES as u64).map(Stream).collect();
        assert!(streams.iter().all(|stream| known.add(*stream)));
        assert!(!known.add(Stream(1000)), "there is no room");
        assert!(known.add(streams[7]), "it is there already");
        assert!(known.remove(streams[7]));
        assert!(!known.contains(streams[7]));
        assert!(!known.remove(streams[7]));
        assert!(known.contains(streams[8]), "holes hide nothing");
        assert!(known.add(Stream(1000)));
    }
}

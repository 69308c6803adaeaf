//! Limited resources: tags, completion buffer, credits.

use std::collections::VecDeque;

use ferroce_units::{Duration, Instant};

/// An amount of the two resources of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Units {
    /// Tags or header credits.
    pub headers: u32,
    /// Bytes of the completion buffer or data credits.
    pub data: u32,
}

/// The exhausted resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// [`Units::headers`].
    Headers,
    /// [`Units::data`].
    Data,
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    until: Instant,
    units: Units,
}

/// A pool that serves requests in order and knows when each lease ends.
///
/// Leases are sorted by their end. Ends are nearly in order, so inserting a lease is cheap, and a
/// late lease delays other requests only by its own units.
#[derive(Debug)]
pub struct Pool {
    capacity: Units,
    free: Units,
    granted: Instant,
    leases: VecDeque<Lease>,
    /// Sum over the leases of units held times duration, in picoseconds.
    held: [u128; 2],
}

impl Pool {
    /// Returns a pool of `capacity`, at least one of each resource.
    pub fn new(capacity: Units) -> Self {
        let capacity = Units {
            headers: capacity.headers.max(1),
            data: capacity.data.max(1),
        };
        Self {
            capacity,
            free: capacity,
            granted: Instant::ZERO,
            // It allocates memory on demand: a ring with room for all credits but few leases would
            // sweep the processor's cache.
            leases: VecDeque::new(),
            held: [0; 2],
        }
    }

    /// Takes `units` from `now` on, or the capacity if that is less. Returns when they are
    /// available, the units, which must be passed to [`Pool::give_back`], and the resource that it
    /// waited for.
    #[inline]
    pub fn take(&mut self, now: Instant, units: Units) -> (Instant, Units, Option<Shortage>) {
        let units = Units {
            headers: units.headers.min(self.capacity.headers),
            data: units.data.min(self.capacity.data),
        };
        self.take_back(now);
        let mut start = self.granted.max(now);
        let mut shortage = None;
        while self.free.headers < units.headers || self.free.data < units.data {
            let Some(lease) = self.leases.pop_front() else {
                break;
            };
            if lease.until > now && shortage.is_none() {
                shortage = Some(if self.free.headers < units.headers {
                    Shortage::Headers
                } else {
                    Shortage::Data
                });
            }
            start = start.max(lease.until);
            self.free.headers += lease.units.headers;
            self.free.data += lease.units.data;
        }
        self.free.headers -= units.headers;
        self.free.data -= units.data;
        self.granted = start;
        (start, units, shortage)
    }

    /// Takes back units that are free at `now`. So few leases remain, in few lines of the
    /// processor's cache.
    #[inline]
    fn take_back(&mut self, now: Instant) {
        while let Some(lease) = self.leases.pop_front_if(|lease| lease.until <= now) {
            self.free.headers += lease.units.headers;
            self.free.data += lease.units.data;
        }
    }

    /// Sets the time at which units from [`Pool::take`] are returned.
    #[inline]
    pub fn give_back(&mut self, until: Instant, units: Units) {
        let time = u128::from(until.saturating_since(self.granted).as_ps());
        self.held[0] += time * u128::from(units.headers);
        self.held[1] += time * u128::from(units.data);
        let mut place = self.leases.len();
        self.leases.push_back(Lease { until, units });
        while place > 0 && self.leases[place - 1].until > until {
            self.leases.swap(place - 1, place);
            place -= 1;
        }
    }

    /// Returns the time for which all of the headers would have been in use if they had been used
    /// together, and the same for the data.
    pub fn busy(&self) -> [Duration; 2] {
        let Units { headers, data } = self.capacity;
        let [of_headers, of_data] = self.held;
        [(of_headers, headers), (of_data, data)]
            .map(|(held, capacity)| Duration::from_ps((held / u128::from(capacity)) as u64))
    }

    /// Returns when the newest units were, or will be, available.
    pub fn granted(&self) -> Instant {
        self.granted
    }

    /// Returns the units in use at `now`.
    pub fn in_use(&self, now: Instant) -> Units {
        let running = self.leases.iter().filter(|lease| lease.until > now);
        running.fold(Units::default(), |sum, lease| Units {
            headers: sum.headers + lease.units.headers,
            data: sum.data + lease.units.data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Units = Units {
        headers: 1,
        data: 64,
    };

    fn pool(headers: u32, data: u32) -> Pool {
        Pool::new(Units { headers, data })
    }

    #[test]
    fn a_late_lease_keeps_only_its_own_unit() {
        let mut pool = pool(2, 1000);
        let now = Instant::ZERO;
        pool.take(now, ONE);
        pool.give_back(Instant::from_us(10), ONE);
        for turn in 0..5 {
            let (start, units, shortage) = pool.take(now, ONE);
            assert_eq!(start, Instant::from_ns(100 * turn));
            assert_eq!(shortage.is_some(), turn > 0);
            pool.give_back(start + Duration::from_ns(100), units);
        }
        assert_eq!(pool.in_use(Instant::from_ns(450)).headers, 2);
        assert_eq!(pool.in_use(Instant::from_us(1)).headers, 1);
        let [headers, data] = pool.busy();
        assert_eq!(headers, Duration::from_ns((10_000 + 5 * 100) / 2));
        assert_eq!(data, Duration::from_ns(64 * (10_000 + 5 * 100) / 1000));
    }

    #[test]
    fn shortage_names_what_was_missing() {
        let mut pool = pool(4, 100);
        pool.take(Instant::ZERO, ONE);
        pool.give_back(Instant::from_ns(7), ONE);
        let (start, _, shortage) = pool.take(Instant::ZERO, ONE);
        assert_eq!(start, Instant::from_ns(7));
        assert_eq!(shortage, Some(Shortage::Data));
    }

    #[test]
    fn more_than_there_is_takes_all() {
        let mut pool = pool(4, 100);
        let much = Units {
            headers: 9,
            data: 5000,
        };
        let (start, units, _) = pool.take(Instant::ZERO, much);
        assert_eq!((start, units), (Instant::ZERO, pool.capacity));
        pool.give_back(Instant::from_ns(3), units);
        assert_eq!(pool.take(Instant::ZERO, much).0, Instant::from_ns(3));
    }
}

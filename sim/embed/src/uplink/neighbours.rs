//! MAC addresses of stations on the wire by GID, learned from ARP and IPv6 neighbour discovery.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ferroce_wire::{Gid, Mac};
use parking_lot::{Condvar, Mutex};

/// Maximum number of stations.
const MAX_STATIONS: usize = 256;
/// Lifetime of an entry: another station may get the address later.
const LIFETIME: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
struct Entry {
    mac: Mac,
    learnt: Instant,
}

/// The entries, and the threads that wait for an entry.
#[derive(Debug, Default)]
pub struct Neighbours {
    entries: Mutex<HashMap<Gid, Entry>>,
    changed: Condvar,
}

impl Neighbours {
    /// Records the MAC address of a GID.
    pub fn learn(&self, gid: Gid, mac: Mac) {
        let mut entries = self.entries.lock();
        if entries.len() >= MAX_STATIONS && !entries.contains_key(&gid) {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.learnt);
            if let Some(oldest) = oldest.map(|(gid, _)| *gid) {
                entries.remove(&oldest);
            }
        }
        let learnt = Instant::now();
        entries.insert(gid, Entry { mac, learnt });
        self.changed.notify_all();
    }

    /// Returns the MAC address of a GID, if it is known.
    pub fn find(&self, gid: Gid) -> Option<Mac> {
        fresh(&self.entries.lock(), gid)
    }

    /// Waits until the MAC address of a GID is known, at most for `time`.
    pub fn wait(&self, gid: Gid, time: Duration) -> Option<Mac> {
        let until = Instant::now() + time;
        let mut entries = self.entries.lock();
        loop {
            let found = fresh(&entries, gid);
            if found.is_some() || self.changed.wait_until(&mut entries, until).timed_out() {
                return found;
            }
        }
    }

    /// Removes all entries: another station may be at the other end now.
    pub fn clear(&self) {
        self.entries.lock().clear();
    }
}

fn fresh(entries: &HashMap<Gid, Entry>, gid: Gid) -> Option<Mac> {
    let entry = entries.get(&gid)?;
    (entry.learnt.elapsed() < LIFETIME).then_some(entry.mac)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn gid(number: usize) -> Gid {
        Gid::from_ipv4(Ipv4Addr::from(0x0a00_0000 + number as u32))
    }

    #[test]
    fn the_oldest_makes_room() {
        let neighbours = Neighbours::default();
        for number in 0..=MAX_STATIONS {
            neighbours.learn(gid(number), Mac([2, 0, 0, 0, 0, number as u8]));
        }
        assert_eq!(neighbours.entries.lock().len(), MAX_STATIONS);
        assert_eq!(neighbours.find(gid(0)), None);
        assert_eq!(neighbours.find(gid(1)), Some(Mac([2, 0, 0, 0, 0, 1])));
        let mut entries = neighbours.entries.lock();
        let entry = entries.get_mut(&gid(1)).expect("there");
        let Some(long_ago) = entry.learnt.checked_sub(LIFETIME) else {
            return; // the machine was started less than a minute ago
        };
        entry.learnt = long_ago;
        drop(entries);
        assert_eq!(neighbours.find(gid(1)), None);
    }

    #[test]
    fn a_waiting_thread_is_notified() {
        let neighbours = Neighbours::default();
        assert_eq!(neighbours.wait(gid(1), Duration::from_millis(1)), None);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| neighbours.wait(gid(1), Duration::from_secs(60)));
            neighbours.learn(gid(2), Mac::default());
            neighbours.learn(gid(1), Mac([2; 6]));
            assert_eq!(waiting.join().expect("no panic"), Some(Mac([2; 6])));
        });
    }
}

//! Counters of a device: the sums over all functions that it has had, as a kernel counts them.
//!
//! The counters of a function that has ended stay in its place until the place is claimed again;
//! then they are added to the device's row.

use std::sync::atomic::Ordering;

use ferroce_spec::counter::COUNTER_COUNT;

use super::Registry;
use super::identity::NAME_WORDS;
use super::layout::{
    MAX_TOTALS, PLACES, TOTALS, TOTALS_SIZE, field, header, place_offset, text_to_words,
};

/// Attempts to read while no counters move. A process that was killed while it moved counters must
/// not block readers.
const READS: usize = 1000;

/// Identifies a device of a host; not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DeviceKey(u64);

impl DeviceKey {
    /// Returns the FNV-1a hash of name and number.
    fn new(name: [u64; NAME_WORDS], device: u64) -> Self {
        let bytes = name.into_iter().chain([device]).flat_map(u64::to_le_bytes);
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hash.max(1))
    }
}

impl Registry {
    /// Returns the sums of the counters over all functions of a device of a host.
    pub fn device_counters(&self, host: &str, device: u8) -> [u64; COUNTER_COUNT] {
        let key = DeviceKey::new(text_to_words(host), device.into());
        let epoch = || {
            self.memory
                .word(header::TOTALS_EPOCH)
                .load(Ordering::SeqCst)
        };
        let mut sums = [0; COUNTER_COUNT];
        for _ in 0..READS {
            let before = epoch();
            sums = self.sums(key);
            if before % 2 == 0 && epoch() == before {
                break;
            }
            std::hint::spin_loop();
        }
        sums
    }

    fn sums(&self, key: DeviceKey) -> [u64; COUNTER_COUNT] {
        let mut sums = [0_u64; COUNTER_COUNT];
        let of_places = (1..PLACES as u8).filter(|place| self.device_key(*place) == Some(key));
        for place in of_places {
            for (index, sum) in sums.iter_mut().enumerate() {
                let value = self.counter(place, index).load(Ordering::Relaxed);
                *sum = sum.wrapping_add(value);
            }
        }
        if let Some(row) = self.row(key.0) {
            for (index, sum) in sums.iter_mut().enumerate() {
                let value = self.memory.word(row + 8 + 8 * index);
                *sum = sum.wrapping_add(value.load(Ordering::Relaxed));
            }
        }
        sums
    }

    /// Adds the counters of a place's last function to the totals of its device; the next owner
    /// clears the place. The caller holds the header lock.
    pub(super) fn keep_counters(&self, place: u8) {
        let Some(key) = self.device_key(place) else {
            return;
        };
        let epoch = self.memory.word(header::TOTALS_EPOCH);
        let moving = epoch.load(Ordering::Relaxed) | 1;
        epoch.store(moving, Ordering::SeqCst);
        let row = self.row(key.0).unwrap_or_else(|| self.new_row(key));
        for index in 0..COUNTER_COUNT {
            let value = self.counter(place, index).swap(0, Ordering::Relaxed);
            let total = self.memory.word(row + 8 + 8 * index);
            total.fetch_add(value, Ordering::Relaxed);
        }
        epoch.store(moving.wrapping_add(1), Ordering::SeqCst);
    }

    /// Returns the device of the place's owner or last owner. `None`: the place was never claimed.
    fn device_key(&self, place: u8) -> Option<DeviceKey> {
        let word = |offset: usize| {
            let word = self.memory.word(place_offset(place) + offset);
            word.load(Ordering::Relaxed)
        };
        let mut name = [0; NAME_WORDS];
        for (index, value) in name.iter_mut().enumerate() {
            *value = word(field::NAME + 8 * index);
        }
        (name[0] != 0).then(|| DeviceKey::new(name, word(field::DEVICE)))
    }

    /// Returns the offset of a device's row.
    fn row(&self, key: u64) -> Option<usize> {
        let mut rows = (0..MAX_TOTALS).map(|row| TOTALS + row * TOTALS_SIZE);
        rows.find(|row| self.memory.word(*row).load(Ordering::Relaxed) == key)
    }

    /// Allocates a row for a device. If all rows are used, it replaces the oldest one.
    fn new_row(&self, key: DeviceKey) -> usize {
        let row = self.row(0).unwrap_or_else(|| {
            let next = self.memory.word(header::NEXT_TOTALS);
            let number = next.fetch_add(1, Ordering::Relaxed) as usize % MAX_TOTALS;
            TOTALS + number * TOTALS_SIZE
        });
        for index in 0..COUNTER_COUNT {
            self.memory
                .word(row + 8 + 8 * index)
                .store(0, Ordering::Relaxed);
        }
        self.memory.word(row).store(key.0, Ordering::Relaxed);
        row
    }
}

#[cfg(test)]
mod tests {
    use ferroce_test_support::temporary_directory;
    use ferroce_wire::Mac;

    use super::super::{Identity, Place};
    use super::*;

    fn claim(registry: &'static Registry, host: &str, device: u8, counted: u64) -> Place {
        let identity = Identity {
            host: host.to_owned(),
            device,
            mac: Mac([2; 6]),
            gids: Vec::new(),
            capture: 0,
        };
        let place = registry.claim(&identity).expect("a place is free");
        registry
            .counter(place.number(), 3)
            .store(counted, Ordering::Relaxed);
        place
    }

    /// Goal: a device's counters never decrease. Method: functions of three devices open and close
    /// until each place has been used several times.
    #[test]
    fn counters_of_ended_functions_stay_with_their_device() {
        let directory = temporary_directory("totals");
        let registry = Registry::open(directory.path()).expect("new");
        let devices = [("a", 0), ("a", 1), ("b", 0)];
        for _ in 0..2 * PLACES {
            for (host, device) in devices {
                drop(claim(registry, host, device, 1 + u64::from(device)));
            }
        }
        let _alive = claim(registry, "a", 0, 1000);
        let functions = 2 * PLACES as u64;
        let counted = |host, device| registry.device_counters(host, device)[3];
        assert_eq!(counted("a", 0), functions + 1000);
        assert_eq!(counted("a", 1), 2 * functions);
        assert_eq!(counted("b", 0), functions);
        assert_eq!(counted("c", 0), 0);
    }

    #[test]
    fn more_devices_than_rows_forget_the_oldest() {
        let directory = temporary_directory("total-rows");
        let registry = Registry::open(directory.path()).expect("new");
        let hosts = MAX_TOTALS + PLACES;
        for host in 0..hosts {
            drop(claim(registry, &format!("h{host}"), 0, 7));
        }
        let counted = |host: usize| registry.device_counters(&format!("h{host}"), 0)[3];
        assert_eq!(counted(hosts - 1), 7, "still in its place");
        assert_eq!(counted(MAX_TOTALS), 7, "in a row");
        assert_eq!(counted(0), 0, "forgotten");
    }

    #[test]
    fn functions_of_a_run_are_found_after_their_end() {
        let directory = temporary_directory("runs");
        let registry = Registry::open(directory.path()).expect("new");
        let ended = claim(registry, "a", 0, 5);
        registry.describe(ended.number(), "a name that is too long", 77);
        let other = claim(registry, "a", 0, 5);
        registry.describe(other.number(), "other", 78);
        let place = ended.number();
        drop(ended);
        let found = registry.of_run(77);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, place);
        assert_eq!(found[0].identity.host, "a");
        assert_eq!(registry.program(place), "a name that is t");
        assert_eq!(registry.of_run(0), []);
    }
}

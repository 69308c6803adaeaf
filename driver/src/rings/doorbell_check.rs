//! Detects lost doorbells. A doorbell is a posted write, so its arrival is not acknowledged. If a
//! queue has been idle since its doorbell was rung, its index is compared with its context in the
//! device.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::bus::HEALTH_PERIOD;
use crate::control::command::COMMAND_TIMEOUT;
use crate::error::Error;
use crate::rings::batch::QueueDoorbell;

/// After a doorbell was lost this many times, once in each check, the device counts as dead.
/// Together the checks take as long as the time limit of a command.
const MAX_LOST_RINGS: u32 = (COMMAND_TIMEOUT.as_millis() / HEALTH_PERIOD.as_millis()) as u32;
/// Maximum number of queries in one check.
const MAX_QUERIES: usize = 64;

/// Outcome of the check of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doorbell {
    /// The device was not queried: it has seen the last index, or the doorbell was rung just now.
    NotAsked,
    /// The device has seen the index.
    Known,
    /// The doorbell was lost, and was rung again.
    Lost,
    /// The doorbell was lost repeatedly.
    Stuck,
}

/// An object whose doorbells are checked.
pub(crate) trait CheckDoorbells: Send + Sync {
    /// Checks the doorbells, once in each period.
    fn check_doorbells(&self) -> Result<Doorbell, Error>;
}

/// State of the doorbell of one queue in the check.
#[derive(Debug, Default)]
pub(crate) struct DoorbellMark {
    /// The last index that was rung, at the time of the last check.
    seen: u32,
    /// The last index that the device has reported.
    known: u32,
    lost_rings: u32,
}

impl DoorbellMark {
    /// Returns true if the device must be queried: `rung` has not changed since the last check, and
    /// the device has not reported it.
    pub(crate) fn is_due(&mut self, rung: u32) -> bool {
        let rests = self.seen == rung;
        if !rests {
            self.seen = rung;
            self.lost_rings = 0;
        }
        rests && self.known != rung
    }

    /// Returns the number of checks since the device last had the index.
    pub(crate) fn lost_rings(&self) -> u32 {
        self.lost_rings
    }

    /// Compares the index that was rung with the one in the device.
    pub(crate) fn compare(&mut self, rung: u32, in_device: u32) -> Doorbell {
        if rung == in_device {
            self.known = rung;
            self.lost_rings = 0;
            return Doorbell::Known;
        }
        self.lost_rings += 1;
        if self.lost_rings > MAX_LOST_RINGS {
            Doorbell::Stuck
        } else {
            Doorbell::Lost
        }
    }
}

/// The doorbell's part of a work queue's state.
pub(crate) trait RungState {
    /// Returns the doorbell, the last index that was rung, and its mark.
    fn rung(&mut self) -> (&QueueDoorbell, u32, &mut DoorbellMark);
}

/// Returns the last index that was rung, if the device must be queried for it.
pub(crate) fn due<S: RungState>(state: &Mutex<S>) -> Option<u32> {
    let mut state = state.lock();
    let (_, rung, mark) = state.rung();
    mark.is_due(rung).then_some(rung)
}

/// Compares the index `due` of a queue with the device's, and rings the doorbell again if it was
/// lost.
pub(crate) fn compare<S: RungState>(state: &Mutex<S>, due: u32, in_device: u32) -> Doorbell {
    let mut state = state.lock();
    let (doorbell, rung, mark) = state.rung();
    if rung != due {
        return Doorbell::NotAsked;
    }
    let outcome = mark.compare(rung, in_device);
    if outcome == Doorbell::Lost {
        tracing::warn!(rung, in_device, "a doorbell was lost; it is rung again");
        doorbell.ring(rung);
    }
    outcome
}

/// All objects of a device whose doorbells are checked.
#[derive(Default)]
pub(crate) struct DoorbellChecks(Mutex<Vec<Weak<dyn CheckDoorbells>>>);

impl DoorbellChecks {
    pub(crate) fn add(&self, object: &Arc<impl CheckDoorbells + 'static>) {
        let object: Weak<dyn CheckDoorbells> = Arc::downgrade(object) as _;
        let mut objects = self.0.lock();
        // Limits the list to twice the number of existing objects, even where no check runs.
        if objects.len() == objects.capacity() {
            objects.retain(|object| object.strong_count() > 0);
        }
        objects.push(object);
    }

    /// Checks the doorbells. Returns true if one is stuck.
    pub(crate) fn run(&self) -> bool {
        // The list is not locked meanwhile: the last reference to an object may be dropped here.
        let mut objects = std::mem::take(&mut *self.0.lock());
        let (mut queries, mut is_stuck, mut checked) = (0, false, 0);
        objects.retain(|object| {
            if queries == MAX_QUERIES {
                return true;
            }
            checked += 1;
            let Some(object) = object.upgrade() else {
                return false;
            };
            // An object that is being destroyed has an error.
            let outcome = object.check_doorbells().unwrap_or(Doorbell::Known);
            queries += usize::from(outcome != Doorbell::NotAsked);
            is_stuck |= outcome == Doorbell::Stuck;
            true
        });
        // The next check begins after the last object of this one.
        let behind = checked.min(objects.len());
        objects.rotate_left(behind);
        self.0.lock().append(&mut objects);
        is_stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_compared_once_it_rests() {
        let mut mark = DoorbellMark::default();
        assert!(!mark.is_due(0), "nothing was rung");
        assert!(!mark.is_due(5), "it was rung just now");
        assert!(mark.is_due(5));
        assert_eq!(mark.compare(5, 5), Doorbell::Known);
        assert!(!mark.is_due(5), "the device knows it");
        assert!(!mark.is_due(9) && !mark.is_due(12), "it does not rest");
        assert!(mark.is_due(12));
    }

    struct Quiet;

    impl CheckDoorbells for Quiet {
        fn check_doorbells(&self) -> Result<Doorbell, Error> {
            Ok(Doorbell::NotAsked)
        }
    }

    #[test]
    fn objects_that_are_gone_take_no_room() {
        let checks = DoorbellChecks::default();
        let kept = Arc::new(Quiet);
        checks.add(&kept);
        for _ in 0..1000 {
            checks.add(&Arc::new(Quiet));
        }
        assert!(checks.0.lock().len() < 10);
        assert!(!checks.run());
        assert_eq!(checks.0.lock().len(), 1);
    }

    #[test]
    fn a_doorbell_that_is_lost_again_and_again_is_stuck() {
        let mut mark = DoorbellMark::default();
        mark.is_due(1);
        for _ in 0..MAX_LOST_RINGS {
            assert!(mark.is_due(1));
            assert_eq!(mark.compare(1, 0), Doorbell::Lost);
        }
        assert_eq!(mark.compare(1, 0), Doorbell::Stuck);
        assert!(!mark.is_due(2), "a newer index brings the older one");
        assert!(mark.is_due(2));
        assert_eq!(mark.compare(2, 0), Doorbell::Lost);
    }
}

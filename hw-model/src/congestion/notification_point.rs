//! The notification point: sends CNPs for marked packets, at a limited rate.

use ferroce_units::Instant;

use super::NotificationConfig;

/// The time of the last CNP of each queue pair.
#[derive(Debug)]
pub(crate) struct NotificationPoint {
    config: NotificationConfig,
    /// By index in the QP context table; as long as the highest index that has sent a CNP.
    last: Vec<Option<Instant>>,
}

impl NotificationPoint {
    pub fn new(config: NotificationConfig) -> Self {
        Self {
            config,
            last: Vec::new(),
        }
    }

    /// Returns the traffic class of CNPs: their DSCP, not ECN-capable.
    pub fn traffic_class(&self) -> u8 {
        self.config.cnp_dscp << 2
    }

    /// Handles a marked packet of the queue pair at `index`. Returns true if a CNP is due.
    pub fn take_turn(&mut self, now: Instant, index: u32) -> bool {
        let index = index as usize;
        if index >= self.last.len() {
            self.last.resize(index + 1, None);
        }
        let last = &mut self.last[index];
        let gap = self.config.min_time_between_cnps;
        let is_due = last.is_none_or(|last| now >= last + gap);
        if is_due {
            *last = Some(now);
        }
        is_due
    }

    pub fn forget(&mut self, index: u32) {
        if let Some(last) = self.last.get_mut(index as usize) {
            *last = None;
        }
    }

    pub fn reset(&mut self) {
        self.last.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_pair_keeps_the_gap() {
        let mut point = NotificationPoint::new(NotificationConfig::CONNECTX);
        let at = Instant::from_ns;
        assert!(point.take_turn(at(100), 5));
        assert!(!point.take_turn(at(2099), 5));
        assert!(point.take_turn(at(2099), 7), "another one");
        assert!(point.take_turn(at(2100), 5));
        point.forget(5);
        assert!(point.take_turn(at(2101), 5));
        assert_eq!(point.traffic_class(), 192);
    }
}

//! Retry counts of the requester.

use crate::attributes::{Attributes, RetryCount};

/// Retries left since the last progress.
#[derive(Debug, Clone)]
pub(crate) struct Retry {
    left: u8,
    rnr_left: u8,
    /// True if a missing READ response was already treated as a NAK. Stale responses after the gap
    /// must not each cause another retry.
    implied_nak: bool,
}

impl Retry {
    pub(crate) const fn new() -> Retry {
        Retry {
            left: 0,
            rnr_left: 0,
            implied_nak: false,
        }
    }

    /// Restores all retries after an acknowledgement or a change of attributes.
    #[inline]
    pub(crate) fn reset(&mut self, attributes: &Attributes) {
        self.left = attributes.retry_count.value();
        self.rnr_left = attributes.rnr_retry.value();
        self.implied_nak = false;
    }

    /// Uses up a retry after a timeout or a sequence error; returns false if none is left.
    pub(crate) fn spend(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Uses up a retry after an RNR NAK; returns false if none is left.
    pub(crate) fn spend_rnr(&mut self, attributes: &Attributes) -> bool {
        if attributes.rnr_retry == RetryCount::RNR_FOREVER {
            return true;
        }
        match self.rnr_left.checked_sub(1) {
            Some(left) => {
                self.rnr_left = left;
                true
            }
            None => false,
        }
    }

    /// Returns true if a gap in READ responses counts as a NAK; at most once without progress.
    pub(crate) fn take_implied_nak(&mut self) -> bool {
        !std::mem::replace(&mut self.implied_nak, true)
    }

    /// Rearms the implied NAK after a timeout.
    pub(crate) fn rearm_implied_nak(&mut self) {
        self.implied_nak = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_rnr_retries_are_endless_and_other_counts_end() {
        let mut attributes = Attributes::new();
        attributes.retry_count = RetryCount::new(2);
        attributes.rnr_retry = RetryCount::new(1);
        let mut retry = Retry::new();
        retry.reset(&attributes);
        assert!(retry.spend() && retry.spend() && !retry.spend());
        assert!(retry.spend_rnr(&attributes) && !retry.spend_rnr(&attributes));
        attributes.rnr_retry = RetryCount::RNR_FOREVER;
        assert!((0..100).all(|_| retry.spend_rnr(&attributes)));
        assert!(retry.take_implied_nak() && !retry.take_implied_nak());
        retry.reset(&attributes);
        assert!(retry.take_implied_nak() && retry.spend());
    }
}

//! Page faults of on-demand regions that software has not answered.

use std::collections::VecDeque;

use ferroce_spec::context::MemoryEntry;
use ferroce_spec::register::PageFaultAnswer;

use crate::limits::MAX_PAGE_FAULTS;

/// A page of an on-demand region that an access needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbsentPage {
    /// Key of the region.
    pub key: u32,
    /// Index of the page in the region.
    pub page: u32,
    /// Its entry in the memory translation table.
    pub entry: u64,
}

impl AbsentPage {
    /// Returns the page of `address`, which is inside of `region`: a translated region, or a window
    /// that is bound to it.
    pub fn of(region: &MemoryEntry, address: u64) -> Self {
        let position = region
            .first_page_offset
            .wrapping_add(address - region.start);
        let page = position >> (region.word.log_page_size() & 63);
        let key = match region.word.window() {
            true => region.region_key,
            false => region.key,
        };
        Self {
            key,
            page: page as u32,
            entry: region.translation.wrapping_add(page),
        }
    }
}

/// State of a page that was found absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its event has not been raised yet.
    New,
    /// Software works on it.
    Raised,
    /// Software cannot bring it in: the next access fails.
    Refused,
}

/// The page faults.
#[derive(Debug, Default)]
pub struct PageFaults {
    /// In the order of their events: refused ones, raised ones, new ones.
    faults: VecDeque<(AbsentPage, State)>,
    /// Events that software has answered.
    answered: u32,
}

/// What an access to an absent page does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is put off.
    Wait,
    /// It fails.
    Fail,
}

impl PageFaults {
    /// Returns true if the page waits for software.
    #[inline]
    pub fn awaits(&self, region: &MemoryEntry, address: u64) -> bool {
        if self.faults.is_empty() {
            return false;
        }
        let wanted = AbsentPage::of(region, address);
        let awaits =
            |(page, state): &(AbsentPage, State)| *page == wanted && *state != State::Refused;
        self.faults.iter().any(awaits)
    }

    /// Notes an access to an absent page.
    pub fn note(&mut self, page: AbsentPage) -> Verdict {
        let known = self.faults.iter().position(|(other, _)| *other == page);
        if let Some(position) = known {
            if self.faults[position].1 != State::Refused {
                return Verdict::Wait;
            }
            self.faults.remove(position);
            return Verdict::Fail;
        }
        if self.faults.len() >= MAX_PAGE_FAULTS {
            self.forget_refused();
        }
        if self.faults.len() < MAX_PAGE_FAULTS {
            self.faults.push_back((page, State::New));
        }
        Verdict::Wait
    }

    /// Drops the oldest refused page, whose access may never come again.
    fn forget_refused(&mut self) {
        if let Some((_, State::Refused)) = self.faults.front() {
            self.faults.pop_front();
        }
    }

    /// Returns the next page whose event has to be raised, and counts it as raised.
    pub fn take_new(&mut self) -> Option<AbsentPage> {
        let new = self
            .faults
            .iter_mut()
            .find(|(_, state)| *state == State::New);
        let (page, state) = new?;
        *state = State::Raised;
        Some(*page)
    }

    /// Returns true if an event has to be raised.
    #[inline]
    pub fn has_new(&self) -> bool {
        matches!(self.faults.back(), Some((_, State::New)))
    }

    /// Handles an answer; returns the pages that it answers. An answer to more events than were
    /// raised is ignored.
    pub fn answer(&mut self, answer: PageFaultAnswer) -> Vec<AbsentPage> {
        let count = answer.count().wrapping_sub(self.answered) & PageFaultAnswer::COUNT_MASK;
        let raised = |(_, state): &&(AbsentPage, State)| *state == State::Raised;
        if count as usize > self.faults.iter().filter(raised).count() {
            return Vec::new();
        }
        self.answered = answer.count();
        let refused = self
            .faults
            .iter()
            .take_while(|(_, state)| *state == State::Refused);
        let first = refused.count();
        let pages: Vec<_> = self.faults.drain(first..first + count as usize).collect();
        if let (true, Some((page, _))) = (answer.refused(), pages.last()) {
            self.faults.insert(first, (*page, State::Refused));
        }
        pages.into_iter().map(|(page, _)| page).collect()
    }

    /// Drops refusals of a region's pages: software has changed the region.
    pub fn forget_refusals(&mut self, key: u32) {
        let stays =
            |(page, state): &(AbsentPage, State)| page.key != key || *state != State::Refused;
        self.faults.retain(stays);
    }

    /// Drops everything (reset).
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(page: u32) -> AbsentPage {
        AbsentPage {
            key: 0x700,
            page,
            entry: 64 + u64::from(page),
        }
    }

    fn answer(count: u32, refused: bool) -> PageFaultAnswer {
        let mut answer = PageFaultAnswer::default();
        answer.set_count(count);
        answer.set_refused(refused);
        answer
    }

    #[test]
    fn a_page_is_reported_once_until_it_is_answered() {
        let mut faults = PageFaults::default();
        assert_eq!(faults.note(page(1)), Verdict::Wait);
        assert_eq!(faults.note(page(2)), Verdict::Wait);
        assert_eq!(faults.note(page(1)), Verdict::Wait);
        assert_eq!(faults.answer(answer(1, false)), [], "it was not raised");
        assert_eq!(faults.take_new(), Some(page(1)));
        assert_eq!(faults.take_new(), Some(page(2)));
        assert_eq!((faults.take_new(), faults.has_new()), (None, false));
        assert_eq!(faults.answer(answer(3, false)), []);
        assert_eq!(faults.answer(answer(2, false)), [page(1), page(2)]);
        faults.note(page(1));
        assert_eq!(faults.take_new(), Some(page(1)));
    }

    #[test]
    fn a_refused_page_fails_one_access() {
        let mut faults = PageFaults::default();
        faults.note(page(1));
        faults.note(page(2));
        while faults.take_new().is_some() {}
        assert_eq!(faults.answer(answer(1, true)), [page(1)]);
        assert_eq!(faults.note(page(2)), Verdict::Wait);
        assert_eq!(faults.note(page(1)), Verdict::Fail);
        assert_eq!(faults.note(page(1)), Verdict::Wait);
        assert_eq!(faults.take_new(), Some(page(1)));
        assert_eq!(faults.answer(answer(3, true)), [page(2), page(1)]);
        faults.forget_refusals(0x700);
        assert_eq!(faults.note(page(1)), Verdict::Wait);
    }

    #[test]
    fn more_pages_wait_without_an_event() {
        let mut faults = PageFaults::default();
        for number in 0..MAX_PAGE_FAULTS as u32 + 9 {
            assert_eq!(faults.note(page(number)), Verdict::Wait);
        }
        let raised = std::iter::from_fn(|| faults.take_new()).count() as u32;
        assert_eq!(raised as usize, MAX_PAGE_FAULTS);
        assert_eq!(faults.answer(answer(raised, true)).len(), MAX_PAGE_FAULTS);
        // One refused page is left, and gives way to new ones.
        for number in 100..100 + MAX_PAGE_FAULTS as u32 {
            faults.note(page(number));
        }
        let raised = std::iter::from_fn(|| faults.take_new()).count();
        assert_eq!(raised, MAX_PAGE_FAULTS);
    }
}

//! Allocates the numbers of CQs, QPs, shared receive queues and memory keys, if the device lets the
//! driver choose them.
//!
//! Two devices that run the same program then have the same numbers, so that records of them can be
//! compared field by field.

use std::collections::VecDeque;
use std::ops::Range;

use ferroce_spec::command::{CommandStatus, DeviceCapabilities, NewNumber};
use ferroce_spec::context::KEY_VARIANT_BITS;

use crate::capabilities::Limits;
use crate::error::Error;

/// Entries of the QP context table that are used last. Entries 0 and 1 are QP0 and the GSI on
/// devices that have them; all devices then begin with the same number.
const LAST_QPS: u32 = 2;

/// Order in which freed numbers are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    /// The last freed number first, and before any unused number: its context is likely to be in a
    /// cache.
    Newest,
    /// All unused numbers first, then the number that was freed first: a late packet for an old QP
    /// then finds no QP.
    Oldest,
}

/// The numbers of one kind of object.
#[derive(Debug)]
pub(crate) struct NumberPool {
    table: Range<u32>,
    /// Numbers at the start of the table that are used last.
    last: u32,
    /// Number of entries that were ever used.
    used: u32,
    free: VecDeque<u32>,
    reuse: Reuse,
    /// Bits below the number in the result of a create command.
    shift: u32,
}

impl NumberPool {
    fn new(table: Range<u32>, reuse: Reuse) -> Self {
        Self {
            table,
            last: 0,
            used: 0,
            free: VecDeque::new(),
            reuse,
            shift: 0,
        }
    }

    /// Returns the next unused number.
    fn fresh(&self) -> Option<u32> {
        let length = self.table.end.saturating_sub(self.table.start);
        let last = self.last.min(length);
        let place = match self.used.checked_sub(length - last) {
            None => last + self.used,
            Some(place) => place,
        };
        (self.used < length).then(|| self.table.start + place)
    }

    /// Returns the number of the next object; `None`: all are in use.
    fn next(&self) -> Option<u32> {
        let again = self.free.front().copied();
        match self.reuse {
            Reuse::Newest => again.or_else(|| self.fresh()),
            Reuse::Oldest => self.fresh().or(again),
        }
    }

    /// Allocates the number that [`NumberPool::next`] has returned.
    fn take(&mut self, number: u32) {
        if self.free.front() == Some(&number) {
            self.free.pop_front();
        } else if self.fresh() == Some(number) {
            self.used += 1;
        }
    }

    /// Frees `number`. The GSI's number is not in the table.
    fn give_back(&mut self, number: u32) {
        if !self.table.contains(&number) {
            return;
        }
        match self.reuse {
            Reuse::Newest => self.free.push_front(number),
            Reuse::Oldest => self.free.push_back(number),
        }
    }
}

/// Numbers of one kind of object; `None` where the device chooses them.
#[derive(Debug)]
pub(crate) struct Numbers(Option<NumberPool>);

impl Numbers {
    /// Creates an object: `create` executes the command with its argument, and returns the
    /// command's result.
    ///
    /// A number that the device reports as in use is not tried again. When the driver has no free
    /// number, it lets the device choose, because only the device knows whether all are in use.
    ///
    /// # Errors
    ///
    /// Errors of `create`; [`Error::BadAnswer`] if the device has chosen another number.
    pub(crate) fn create(
        &mut self,
        create: impl FnOnce(NewNumber) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        let Some(pool) = &mut self.0 else {
            return create(NewNumber::ANY);
        };
        let Some(number) = pool.next() else {
            return create(NewNumber::ANY);
        };
        let result = create(NewNumber::of(number));
        match &result {
            Ok(result) if result >> pool.shift != u64::from(number) => {
                let what = "another number than was chosen";
                return Err(Error::BadAnswer { what });
            }
            Ok(_) => pool.take(number),
            Err(Error::Command { status, .. }) if *status == CommandStatus::BUSY => {
                pool.take(number);
            }
            Err(_) => {}
        }
        result
    }

    /// Frees the number in this result of a create command; the object was destroyed.
    pub(crate) fn give_back(&mut self, result: u32) {
        if let Some(pool) = &mut self.0 {
            pool.give_back(result >> pool.shift);
        }
    }
}

/// Numbers of all kinds of objects.
#[derive(Debug)]
pub(crate) struct AllNumbers {
    pub(crate) cqs: Numbers,
    pub(crate) qps: Numbers,
    pub(crate) srqs: Numbers,
    pub(crate) keys: Numbers,
}

impl AllNumbers {
    /// Returns the allocator for a device with these limits; it is empty if the device chooses the
    /// numbers.
    pub(crate) fn new(limits: &Limits, answer: &DeviceCapabilities) -> Self {
        let offers = limits.features.chosen_numbers();
        let numbers = |pool| Numbers(offers.then_some(pool));
        let tables = &limits.tables;
        let (base, reserved) = (answer.qpn_base, answer.reserved_qps);
        let qps = NumberPool {
            last: LAST_QPS.saturating_sub(reserved),
            ..NumberPool::new(base + reserved..base + (1 << tables.log_qps), Reuse::Oldest)
        };
        let keys = NumberPool {
            shift: KEY_VARIANT_BITS,
            ..NumberPool::new(1..1 << tables.log_mrs, Reuse::Newest)
        };
        Self {
            cqs: numbers(NumberPool::new(0..1 << tables.log_cqs, Reuse::Newest)),
            qps: numbers(qps),
            srqs: numbers(NumberPool::new(1..1 << tables.log_srqs, Reuse::Newest)),
            keys: numbers(keys),
        }
    }
}

#[cfg(test)]
mod tests {
    use ferroce_spec::command::CommandOpcode;

    use super::*;

    /// Creates an object on a device that uses the chosen number.
    fn create(numbers: &mut Numbers) -> Option<u32> {
        let mut asked = None;
        let result = numbers.create(|argument| {
            asked = argument.choice();
            Ok(u64::from(argument.number()))
        });
        result.expect("a device that obeys");
        asked
    }

    fn refused(numbers: &mut Numbers, status: CommandStatus) {
        let refuse = |_| {
            Err(Error::Command {
                opcode: CommandOpcode::CREATE_CQ,
                status,
                syndrome: 0,
            })
        };
        numbers.create(refuse).expect_err("the device refuses");
    }

    #[test]
    fn qpns_are_used_again_as_late_as_possible() {
        let mut numbers = Numbers(Some(NumberPool {
            last: 2,
            ..NumberPool::new(0x100..0x105, Reuse::Oldest)
        }));
        assert_eq!(
            [(); 2].map(|_| create(&mut numbers)),
            [Some(0x102), Some(0x103)]
        );
        numbers.give_back(0x103);
        numbers.give_back(0x102);
        numbers.give_back(1); // the GSI
        let next = [0x104, 0x100, 0x101, 0x103, 0x102];
        assert_eq!(next.map(|_| create(&mut numbers)), next.map(Some));
        assert_eq!(create(&mut numbers), None);
    }

    #[test]
    fn other_numbers_are_used_again_at_once() {
        let mut numbers = Numbers(Some(NumberPool::new(1..5, Reuse::Newest)));
        assert_eq!([1, 2, 3].map(|_| create(&mut numbers)), [1, 2, 3].map(Some));
        numbers.give_back(1);
        numbers.give_back(3);
        assert_eq!([3, 1, 4].map(|_| create(&mut numbers)), [3, 1, 4].map(Some));
        assert_eq!(create(&mut numbers), None);
    }

    #[test]
    fn a_number_that_is_in_use_is_passed_over() {
        for reuse in [Reuse::Newest, Reuse::Oldest] {
            let mut numbers = Numbers(Some(NumberPool::new(0..4, reuse)));
            refused(&mut numbers, CommandStatus::DMA_ERROR);
            assert_eq!(create(&mut numbers), Some(0));
            refused(&mut numbers, CommandStatus::BUSY);
            assert_eq!(create(&mut numbers), Some(2));
        }
    }

    #[test]
    fn a_device_that_disobeys_is_found_out() {
        let mut numbers = Numbers(Some(NumberPool::new(0..4, Reuse::Newest)));
        let result = numbers.create(|_| Ok(3));
        assert!(matches!(result, Err(Error::BadAnswer { .. })), "{result:?}");
    }

    #[test]
    fn a_key_is_known_by_its_index() {
        let mut numbers = Numbers(Some(NumberPool {
            shift: KEY_VARIANT_BITS,
            ..NumberPool::new(1..4, Reuse::Newest)
        }));
        let mut key = |variant: u64| {
            let key = |argument: NewNumber| Ok(u64::from(argument.number()) << 8 | variant);
            numbers.create(key).expect("a key")
        };
        assert_eq!([key(7), key(9)], [0x107, 0x209]);
        numbers.give_back(0x1ff);
        assert_eq!(create(&mut Numbers(None)), None);
        let pool = numbers.0.as_ref().expect("numbers");
        assert_eq!(pool.next(), Some(1));
    }

    #[test]
    fn a_device_that_chooses_is_left_to_it() {
        let mut numbers = Numbers(None);
        assert_eq!(create(&mut numbers), None);
        numbers.give_back(7);
        assert_eq!(create(&mut numbers), None);
    }
}

//! Interrupts: their description, and the client's actions on them.

use std::os::fd::OwnedFd;

use crate::error::Errno;
use crate::message::{IrqSet, split};

/// Index of the legacy interrupt.
pub const INTX: u32 = 0;
/// Index of the MSI vectors.
pub const MSI: u32 = 1;
/// Index of the MSI-X vectors.
pub const MSIX: u32 = 2;
/// Index of the error interrupt.
pub const ERROR: u32 = 3;
/// Index of the interrupt by which the device requests its release.
pub const REQUEST: u32 = 4;
/// Kinds of interrupts of a PCI device.
pub const COUNT: u32 = 5;

/// `VFIO_IRQ_INFO_EVENTFD`: an eventfd can be connected.
pub const FLAG_EVENTFD: u32 = 1;
/// `VFIO_IRQ_INFO_MASKABLE`: the vectors can be masked.
pub const FLAG_MASKABLE: u32 = 1 << 1;
/// `VFIO_IRQ_INFO_AUTOMASKED`: a vector masks itself when it is sent.
pub const FLAG_AUTOMASKED: u32 = 1 << 2;
/// `VFIO_IRQ_INFO_NORESIZE`: vectors cannot be added while others are connected.
pub const FLAG_NORESIZE: u32 = 1 << 3;

/// Interrupts of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IrqInfo {
    /// `FLAG_…` of this module.
    pub flags: u32,
    /// Vectors.
    pub count: u32,
}

/// Action of the client on the interrupts of one kind.
#[derive(Debug)]
pub enum IrqAction {
    /// Disconnects all eventfds of this kind.
    Disable,
    /// Sends these vectors, as if the device had (a loopback test).
    Trigger(Vec<u32>),
    /// Connects vectors from `start` on to these eventfds; `None` disconnects the vector's eventfd.
    /// Other vectors are unchanged.
    Connect {
        /// The vector of the first eventfd.
        start: u32,
        /// One eventfd for each vector.
        events: Vec<Option<OwnedFd>>,
    },
    /// Keeps these vectors pending.
    Mask(Vec<u32>),
    /// Unmasks these vectors, and sends pending ones.
    Unmask(Vec<u32>),
}

/// `VFIO_IRQ_SET_DATA_NONE`: the action is for all vectors of the range.
pub(crate) const DATA_NONE: u32 = 1;
/// `VFIO_IRQ_SET_DATA_BOOL`: the action is for those vectors whose byte is not zero.
pub(crate) const DATA_BOOL: u32 = 1 << 1;
/// `VFIO_IRQ_SET_DATA_EVENTFD`: the action is for the file descriptors of the message.
pub(crate) const DATA_EVENTFD: u32 = 1 << 2;
/// `VFIO_IRQ_SET_ACTION_MASK`.
pub(crate) const ACTION_MASK: u32 = 1 << 3;
/// `VFIO_IRQ_SET_ACTION_UNMASK`.
pub(crate) const ACTION_UNMASK: u32 = 1 << 4;
/// `VFIO_IRQ_SET_ACTION_TRIGGER`.
pub(crate) const ACTION_TRIGGER: u32 = 1 << 5;

const DATA_MASK: u32 = DATA_NONE | DATA_BOOL | DATA_EVENTFD;
const ACTION_TYPES: u32 = ACTION_MASK | ACTION_UNMASK | ACTION_TRIGGER;

impl IrqAction {
    /// Parses a `DEVICE_SET_IRQS` message; `vectors` is the number of vectors of its kind.
    pub(crate) fn decode(
        set: &IrqSet,
        data: &[u8],
        fds: Vec<OwnedFd>,
        vectors: u32,
    ) -> Result<Self, Errno> {
        let flags = set.flags.get();
        let (start, count) = (set.start.get(), set.count.get());
        let end = start.checked_add(count);
        // Also for zero vectors, like the kernel (`vfio_set_irqs_validate_and_prepare`).
        let end = end.filter(|&end| start < vectors && end <= vectors);
        let range = start..end.ok_or(Errno::INVAL)?;
        if flags & !(DATA_MASK | ACTION_TYPES) != 0 {
            return Err(Errno::INVAL);
        }
        let data_kind = flags & DATA_MASK;
        let is_eventfd = data_kind == DATA_EVENTFD;
        let fds_fit = is_eventfd && fds.len() == count as usize;
        if !fds.is_empty() && !fds_fit {
            return Err(Errno::INVAL);
        }
        if count == 0 {
            let disables = flags == DATA_NONE | ACTION_TRIGGER && start == 0;
            return if disables {
                Ok(Self::Disable)
            } else {
                Err(Errno::INVAL)
            };
        }
        let listed: Vec<u32> = match data_kind {
            DATA_NONE => range.collect(),
            DATA_BOOL if data.len() == count as usize => {
                let chosen = range.zip(data).filter(|&(_, &chosen)| chosen != 0);
                chosen.map(|(vector, _)| vector).collect()
            }
            DATA_EVENTFD => Vec::new(),
            _ => return Err(Errno::INVAL),
        };
        match flags & ACTION_TYPES {
            ACTION_TRIGGER if is_eventfd => Ok(Self::Connect {
                start,
                events: if fds.is_empty() {
                    (0..count).map(|_| None).collect()
                } else {
                    fds.into_iter().map(Some).collect()
                },
            }),
            ACTION_TRIGGER => Ok(Self::Trigger(listed)),
            // An eventfd that signals masking is not supported.
            ACTION_MASK | ACTION_UNMASK if is_eventfd => Err(Errno::NOTSUP),
            ACTION_MASK => Ok(Self::Mask(listed)),
            ACTION_UNMASK => Ok(Self::Unmask(listed)),
            _ => Err(Errno::INVAL),
        }
    }
}

/// Returns the fixed part of a `DEVICE_SET_IRQS` message, and its data.
pub(crate) fn decode_set(body: &[u8]) -> Result<(IrqSet, &[u8]), Errno> {
    split::<IrqSet>(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTORS: u32 = 8;

    fn decode(
        flags: u32,
        start: u32,
        count: u32,
        data: &[u8],
        fd_count: usize,
    ) -> Result<IrqAction, Errno> {
        let set = IrqSet {
            argsz: 20.into(),
            flags: flags.into(),
            index: MSIX.into(),
            start: start.into(),
            count: count.into(),
        };
        let fds = (0..fd_count).map(|_| {
            rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("eventfd")
        });
        IrqAction::decode(&set, data, fds.collect(), VECTORS)
    }

    #[test]
    fn the_shapes_that_qemu_sends() {
        let action = decode(0x24, 0, 1, &[], 0).expect("takes vector 0 away");
        assert!(
            matches!(action, IrqAction::Connect { start: 0, events } if events.len() == 1 && events[0].is_none())
        );
        let action = decode(0x24, 3, 1, &[], 1).expect("connects vector 3");
        assert!(matches!(action, IrqAction::Connect { start: 3, events } if events[0].is_some()));
        let action = decode(0x24, 0, 8, &[], 8).expect("connects all");
        assert!(matches!(action, IrqAction::Connect { start: 0, events } if events.len() == 8));
        assert!(matches!(decode(0x21, 0, 0, &[], 0), Ok(IrqAction::Disable)));
    }

    #[test]
    fn the_other_shapes_of_vfio() {
        let trigger = decode(0x21, 2, 3, &[], 0);
        assert!(matches!(trigger, Ok(IrqAction::Trigger(v)) if v == [2, 3, 4]));
        let trigger = decode(0x22, 2, 3, &[1, 0, 1], 0);
        assert!(matches!(trigger, Ok(IrqAction::Trigger(v)) if v == [2, 4]));
        assert!(matches!(decode(0x09, 7, 1, &[], 0), Ok(IrqAction::Mask(v)) if v == [7]));
        assert!(matches!(decode(0x12, 0, 1, &[1], 0), Ok(IrqAction::Unmask(v)) if v == [0]));
    }

    #[test]
    fn what_is_not_there_cannot_be_disabled() {
        let set = IrqSet {
            argsz: 20.into(),
            flags: 0x21.into(),
            index: INTX.into(),
            start: 0.into(),
            count: 0.into(),
        };
        let refused = IrqAction::decode(&set, &[], Vec::new(), 0);
        assert_eq!(refused.err(), Some(Errno::INVAL));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (flags, start, count, data, fds, why) in [
            (0x21, 8, 1, &[][..], 0, "vector that is not there"),
            (0x21, 1, u32::MAX, &[], 0, "wraps around"),
            (0x21, 1, 0, &[], 0, "nothing, from 1 on"),
            (0x24, 0, 0, &[], 0, "nothing"),
            (0x24, 0, 2, &[], 1, "too few file descriptors"),
            (0x21, 0, 1, &[], 1, "file descriptor that is not needed"),
            (0x22, 0, 2, &[1], 0, "too few booleans"),
            (0x23, 0, 1, &[1], 0, "two kinds of data"),
            (0x20, 0, 1, &[], 0, "no kind of data"),
            (0x31, 0, 1, &[], 0, "two actions"),
            (0x01, 0, 1, &[], 0, "no action"),
            (0x61, 0, 1, &[], 0, "unknown flag"),
        ] {
            let refused = decode(flags, start, count, data, fds);
            assert_eq!(refused.err(), Some(Errno::INVAL), "{why}");
        }
        assert_eq!(decode(0x0c, 0, 1, &[], 1).err(), Some(Errno::NOTSUP));
        assert_eq!(decode(0x14, 0, 1, &[], 0).err(), Some(Errno::NOTSUP));
    }
}

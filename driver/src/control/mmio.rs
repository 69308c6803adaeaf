//! Typed access to the registers of BAR0.
//!
//! [`Bar0`] is only a map: its cells give the type of a value and whether it may be read or
//! written, [`Register`] converts a cell to an offset, and the bus performs the access. Writing a
//! read-only register does not compile.

use std::marker::PhantomData;

use ferroce_spec::register::{
    Bar0, COUNTERS_OFFSET, Capability, ContractVersion, Control, EventQueueDoorbell,
    PageFaultAnswer, Status, offset,
};
use volatile_register::{RO, RW, WO};

use crate::bus::Bus;

/// A register: its offset, and its cell type.
pub(crate) struct Register<C> {
    offset: u32,
    cell: PhantomData<fn() -> C>,
}

/// Returns the register at `offset`; `cell` selects the field of the map that has its type.
const fn register<C>(offset: u32, _cell: fn(&Bar0) -> &C) -> Register<C> {
    Register {
        offset,
        cell: PhantomData,
    }
}

pub(crate) const MAGIC: Register<RO<u32>> = register(offset::magic, |b| &b.magic);
pub(crate) const CONTRACT_VERSION: Register<RO<ContractVersion>> =
    register(offset::contract_version, |b| &b.contract_version);
pub(crate) const DEVICE_ID: Register<RO<u32>> = register(offset::device_id, |b| &b.device_id);
pub(crate) const HARDWARE_REVISION: Register<RO<u32>> =
    register(offset::hardware_revision, |b| &b.hardware_revision);
pub(crate) const CAPABILITY: Register<RO<Capability>> =
    register(offset::capability, |b| &b.capability);
pub(crate) const PORT_MAC: Register<RO<u64>> = register(offset::port_mac, |b| &b.port_mac);
pub(crate) const CONTROL: Register<RW<Control>> = register(offset::control, |b| &b.control);
pub(crate) const STATUS: Register<RO<Status>> = register(offset::status, |b| &b.status);
pub(crate) const FATAL_SYNDROME: Register<RO<u32>> =
    register(offset::fatal_syndrome, |b| &b.fatal_syndrome);
pub(crate) const CLOCK: Register<RO<u64>> = register(offset::clock, |b| &b.clock);
pub(crate) const COMMAND_QUEUE_BASE: Register<RW<u64>> =
    register(offset::command_queue_base, |b| &b.command_queue_base);
pub(crate) const COMMAND_QUEUE_LOG_SIZE: Register<RW<u32>> =
    register(offset::command_queue_log_size, |b| {
        &b.command_queue_log_size
    });
pub(crate) const COMMAND_QUEUE_DOORBELL: Register<WO<u32>> =
    register(offset::command_queue_doorbell, |b| {
        &b.command_queue_doorbell
    });
pub(crate) const PAGE_FAULT_ANSWER: Register<WO<PageFaultAnswer>> =
    register(offset::page_fault_answer, |b| &b.page_fault_answer);
pub(crate) const EVENT_QUEUE_DOORBELL: Register<[WO<EventQueueDoorbell>; 16]> =
    register(offset::event_queue_doorbell, |b| &b.event_queue_doorbell);

impl<C, const N: usize> Register<[C; N]> {
    /// Returns register `index` of an array, if the array has it.
    pub(crate) fn element(&self, index: u16) -> Option<Register<C>> {
        (usize::from(index) < N).then(|| Register {
            offset: self.offset + u32::from(index) * size_of::<C>() as u32,
            cell: PhantomData,
        })
    }
}

/// A value that fits one register.
pub(crate) trait RegisterValue: Copy {
    fn load(bus: &dyn Bus, offset: u32) -> Self;
    fn store(self, bus: &dyn Bus, offset: u32);
}

macro_rules! register_value {
    ($read:ident, $write:ident: $( $kind:ty, $from:path, $to:path; )*) => { $(
        impl RegisterValue for $kind {
            fn load(bus: &dyn Bus, offset: u32) -> Self {
                $from(bus.$read(offset))
            }
            fn store(self, bus: &dyn Bus, offset: u32) {
                bus.$write(offset, $to(self));
            }
        }
    )* };
}

register_value! { read32, write32:
    u32, std::convert::identity, std::convert::identity;
    ContractVersion, ContractVersion::from_bits, ContractVersion::bits;
    Control, Control::from_bits, Control::bits;
    Status, Status::from_bits, Status::bits;
    EventQueueDoorbell, EventQueueDoorbell::from_bits, EventQueueDoorbell::bits;
    PageFaultAnswer, PageFaultAnswer::from_bits, PageFaultAnswer::bits;
}
register_value! { read64, write64:
    u64, std::convert::identity, std::convert::identity;
    Capability, Capability::from_bits, Capability::bits;
}

/// A cell that may be read.
pub(crate) trait Readable {
    type Value: RegisterValue;
}
/// A cell that may be written.
pub(crate) trait Writable {
    type Value: RegisterValue;
}
impl<T: RegisterValue> Readable for RO<T> {
    type Value = T;
}
impl<T: RegisterValue> Readable for RW<T> {
    type Value = T;
}
impl<T: RegisterValue> Writable for RW<T> {
    type Value = T;
}
impl<T: RegisterValue> Writable for WO<T> {
    type Value = T;
}

impl<C: Readable> Register<C> {
    pub(crate) fn read(&self, bus: &dyn Bus) -> C::Value {
        C::Value::load(bus, self.offset)
    }
}

impl<C: Writable> Register<C> {
    pub(crate) fn write(&self, bus: &dyn Bus, value: C::Value) {
        value.store(bus, self.offset);
    }
}

/// Reads counter `index`.
pub(crate) fn read_counter(bus: &dyn Bus, index: u32) -> u64 {
    bus.read64(COUNTERS_OFFSET + 8 * index)
}

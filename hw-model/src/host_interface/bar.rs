//! BAR0: register decode. Actions that need the host are recorded here and done when the NIC runs.

use std::cell::Cell;

use ferroce_spec::command::LOG_MAX_MAILBOX;
use ferroce_spec::counter::COUNTER_COUNT;
use ferroce_spec::doorbell::LOG_PAGES;
use ferroce_spec::personality::Personality;
use ferroce_spec::register::{
    BAR0_SIZE, COMMAND_QUEUE_LOG_SIZE_MAX, COUNTERS_OFFSET, Capability, ContractVersion, Control,
    DEVICE_ID, EventQueueDoorbell, FatalSyndrome, MAGIC, MSIX_ENTRY_SIZE, MSIX_PENDING_OFFSET,
    MSIX_TABLE_OFFSET, PageFaultAnswer, Status, UNMAPPED_READ, VECTOR_COUNT, VENDOR_ID, offset,
};
use ferroce_units::Instant;

use crate::config::NicConfig;
use crate::counters::Counters;
use crate::host_interface::msix::MsixTable;
use crate::host_interface::recovery::RecoveryRegisters;
use crate::limits::MAX_PAGE_FAULTS;

/// Revision that the model reports.
const HARDWARE_REVISION: u32 = 1;

/// The command queue as its registers have set it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandQueueRegisters {
    /// IOVA of the ring.
    pub base: u64,
    /// Base-2 logarithm of its entries.
    pub log_size: u32,
    /// Number of commands posted, from the last doorbell.
    pub producer: u32,
    /// Commands completed.
    pub consumer: u32,
}

impl CommandQueueRegisters {
    /// Handles a doorbell. One that counts more entries than the ring has is ignored.
    fn ring(&mut self, posted: u32) {
        let ahead = posted.wrapping_sub(self.consumer);
        if ahead <= 1 << self.log_size {
            self.producer = posted;
        }
    }
}

/// The registers of BAR0 that have state.
#[derive(Debug)]
pub struct Bar {
    capability: Capability,
    mac: u64,
    /// Control register as written.
    pub control: Control,
    /// Why the function stopped.
    pub fatal: FatalSyndrome,
    /// Command queue.
    pub commands: CommandQueueRegisters,
    /// Event queue doorbells that have arrived and are not yet handled.
    pub event_queue_doorbells: [Option<EventQueueDoorbell>; VECTOR_COUNT as usize],
    /// True if any of them has arrived.
    pub has_event_queue_doorbells: bool,
    /// Vectors with a pending interrupt that have been unmasked.
    pub unmasked_vectors: u64,
    /// Answers to page faults that have arrived and are not yet handled.
    pub page_fault_answers: Vec<PageFaultAnswer>,
    /// Recovery settings of queue pairs.
    pub recovery: RecoveryRegisters,
    /// MSI-X table.
    pub msix: MsixTable,
    /// True if the port had a link when the NIC last checked.
    pub link_up: bool,
    /// Offset and value of the high half of the 64-bit register whose low half was read last. One
    /// read takes it.
    latch: Cell<Option<(u32, u32)>>,
}

impl Bar {
    /// Returns the registers after power-on.
    pub fn new(config: &NicConfig) -> Self {
        let mut capability = Capability::default();
        capability.set_log_doorbell_pages(LOG_PAGES);
        capability.set_vectors(VECTOR_COUNT as u8);
        capability.set_log_max_mailbox(LOG_MAX_MAILBOX);
        capability.set_ports(1);
        capability.set_counters(COUNTER_COUNT as u8);
        capability.set_push_blocks(config.push_blocks);
        capability.set_personality(config.personality.0);
        capability.set_roce_accl(true);
        capability.set_polled_doorbells(config.polled_doorbells);
        capability.set_present(true);
        let mac = config
            .mac
            .iter()
            .fold(0, |value, octet| value << 8 | u64::from(*octet));
        Self {
            capability,
            mac,
            control: Control::default(),
            fatal: FatalSyndrome::NONE,
            commands: CommandQueueRegisters::default(),
            event_queue_doorbells: [None; VECTOR_COUNT as usize],
            has_event_queue_doorbells: false,
            unmasked_vectors: 0,
            page_fault_answers: Vec::new(),
            recovery: RecoveryRegisters::new(config.recovery, config.personality),
            msix: MsixTable::new(),
            link_up: true,
            latch: Cell::new(None),
        }
    }

    /// Resets the registers; the MSI-X table is unchanged.
    pub fn reset(&mut self) {
        self.control = Control::default();
        self.fatal = FatalSyndrome::NONE;
        self.commands = CommandQueueRegisters::default();
        self.event_queue_doorbells = [None; VECTOR_COUNT as usize];
        self.page_fault_answers.clear();
        self.recovery.reset();
        self.latch.set(None);
    }

    /// Stops the function; it needs a reset.
    pub fn stop(&mut self, syndrome: FatalSyndrome) {
        self.fatal = syndrome;
        self.control.set_enable(false);
    }

    /// Returns whose failures the function shows.
    pub fn personality(&self) -> Personality {
        Personality(self.capability.personality())
    }

    /// Returns true if the command queue runs.
    pub fn is_enabled(&self) -> bool {
        self.control.enable() && !self.control.reset() && self.fatal == FatalSyndrome::NONE
    }

    /// Reads 4 bytes. Every offset returns a value.
    pub fn read32(&self, at: u32, now: Instant, counters: &Counters) -> u32 {
        let word = self.read64(at & !7, now, counters);
        let (low, high) = (word as u32, (word >> 32) as u32);
        if !counts(at) {
            return if at & 4 == 0 { low } else { high };
        }
        if at & 4 == 0 {
            self.latch.set(Some((at + 4, high)));
            return low;
        }
        match self.latch.take() {
            Some((latched_at, latched)) if latched_at == at => latched,
            _ => high,
        }
    }

    /// Reads 8 bytes at a multiple of 8; 4-byte registers are read in pairs.
    pub fn read64(&self, at: u32, now: Instant, counters: &Counters) -> u64 {
        if (COUNTERS_OFFSET..MSIX_TABLE_OFFSET).contains(&at) {
            let index = ((at - COUNTERS_OFFSET) / 8) as usize;
            return counters.values().get(index).copied().unwrap_or(u64::MAX);
        }
        if (MSIX_TABLE_OFFSET..MSIX_PENDING_OFFSET).contains(&at) {
            let word = |at: u32| {
                self.msix
                    .read(at - MSIX_TABLE_OFFSET)
                    .unwrap_or(UNMAPPED_READ)
            };
            return pair(word(at), word(at + 4));
        }
        match at {
            MSIX_PENDING_OFFSET => self.msix.pending(),
            offset::capability => self.capability.bits(),
            offset::port_mac => self.mac,
            offset::clock => now.as_ns(),
            offset::command_queue_base => self.commands.base,
            _ if at < BAR0_SIZE => pair(self.register32(at), self.register32(at + 4)),
            _ => u64::MAX,
        }
    }

    fn register32(&self, at: u32) -> u32 {
        match at {
            offset::magic => MAGIC,
            offset::contract_version => ContractVersion::OURS.bits(),
            offset::device_id => u32::from(DEVICE_ID) << 16 | u32::from(VENDOR_ID),
            offset::hardware_revision => HARDWARE_REVISION,
            offset::control => self.control.bits(),
            offset::status => self.status().bits(),
            offset::fatal_syndrome => self.fatal.0,
            offset::command_queue_log_size => self.commands.log_size,
            offset::command_queue_consumer => self.commands.consumer,
            // Write-only registers read as zero.
            offset::command_queue_doorbell | offset::wake | offset::page_fault_answer => 0,
            _ if event_queue_of(at).is_some() => 0,
            _ => self.recovery.read32(at).unwrap_or(UNMAPPED_READ),
        }
    }

    fn status(&self) -> Status {
        let mut status = Status::default();
        status.set_ready(!self.control.reset());
        status.set_enabled(self.is_enabled());
        status.set_fatal(self.fatal != FatalSyndrome::NONE);
        status.set_link_up(self.link_up);
        status
    }

    /// Writes 4 bytes. A write to a read-only or missing register is ignored.
    pub fn write32(&mut self, at: u32, value: u32) {
        if (MSIX_TABLE_OFFSET..MSIX_TABLE_OFFSET + u32::from(VECTOR_COUNT) * MSIX_ENTRY_SIZE)
            .contains(&at)
        {
            if let Some(vector) = self.msix.write(at - MSIX_TABLE_OFFSET, value) {
                self.unmasked_vectors |= 1 << vector;
            }
            return;
        }
        if let Some(eqn) = event_queue_of(at) {
            let doorbell = EventQueueDoorbell::from_bits(value);
            self.event_queue_doorbells[eqn as usize] = Some(doorbell);
            self.has_event_queue_doorbells = true;
            return;
        }
        let disabled = !self.control.enable();
        match at {
            offset::control => self.write_control(Control::from_bits(value)),
            offset::command_queue_doorbell => self.commands.ring(value),
            // Each answers at least one page fault; a wrong one more is dropped.
            offset::page_fault_answer if self.page_fault_answers.len() < MAX_PAGE_FAULTS => {
                let answer = PageFaultAnswer::from_bits(value);
                self.page_fault_answers.push(answer);
            }
            offset::command_queue_log_size if disabled => {
                self.commands.log_size = value.min(COMMAND_QUEUE_LOG_SIZE_MAX);
            }
            offset::command_queue_base if disabled => {
                self.commands.base = self.commands.base & !0xffff_ffff | u64::from(value & !0x3f);
            }
            _ if at == offset::command_queue_base + 4 && disabled => {
                self.commands.base = self.commands.base & 0xffff_ffff | u64::from(value) << 32;
            }
            _ => self.recovery.write32(at, value),
        }
    }

    /// Writes 8 bytes at a multiple of 8.
    pub fn write64(&mut self, at: u32, value: u64) {
        self.write32(at, value as u32);
        self.write32(at + 4, (value >> 32) as u32);
    }

    fn write_control(&mut self, value: Control) {
        if value.reset() {
            self.control.set_reset(true);
            self.control.set_enable(false);
        } else if self.fatal == FatalSyndrome::NONE && !self.control.reset() {
            self.control.set_enable(value.enable());
        }
    }
}

/// Returns true if `at` is in a 64-bit register that counts.
fn counts(at: u32) -> bool {
    at & !7 == offset::clock || (COUNTERS_OFFSET..MSIX_TABLE_OFFSET).contains(&at)
}

fn event_queue_of(at: u32) -> Option<u32> {
    let first = offset::event_queue_doorbell;
    let end = first + 4 * u32::from(VECTOR_COUNT);
    (first..end).contains(&at).then(|| (at - first) / 4)
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

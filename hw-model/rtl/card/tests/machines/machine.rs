//! A machine: function, memory, one end of a cable; bring-up, commands and regions.

use ferroce_model::{Doorbell, NicConfig};
use ferroce_spec::command::{
    ANY_STATE, CommandCompletion, CommandEntry, CommandOpcode, CommandStatus, ContextTables,
    DeviceCapabilities, ModifyQp, NewNumber, QpAttributeMask, input_size, output_size,
};
use ferroce_spec::context::{
    AccessRights, AddressEntry, EqContext, MemoryEntry, MemoryEntryWord, QpContext, QpStateCode,
    TranslationEntry,
};
use ferroce_spec::cqe::owner_at;
use ferroce_spec::doorbell::DoorbellValue;
use ferroce_spec::eqe::{Eqe, EventType};
use ferroce_spec::register::{Control, EventQueueDoorbell, offset};
use ferroce_spec::wqe::VLAN_NONE;
use ferroce_units::Instant;
use ferroce_wire::Gid;
use zerocopy::{Immutable, IntoBytes};

use super::cable::Cable;
use super::device::{Device, Kind};
use super::host::TestHost;

/// Addresses in memory.
pub mod place {
    pub const COMMANDS: u64 = 0x1000;
    pub const INPUT: u64 = 0x2000;
    pub const OUTPUT: u64 = 0x3000;
    pub const EQ: u64 = 0x4000;
    /// Send and receive ring of a QP.
    pub const RINGS: u64 = 0x1_0000;
    pub const RING_SIZE: u64 = 0x1000;
    pub const CQ: u64 = 0x3_0000;
    pub const CQ_SIZE: u64 = 0x1000;
    pub const CONSUMER_RECORDS: u64 = 0x3_8000;
    pub const QPC: u64 = 0x4_0000;
    pub const CQC: u64 = 0x4_4000;
    pub const SRQC: u64 = 0x4_5000;
    pub const MPT: u64 = 0x4_6000;
    pub const MTT: u64 = 0x4_8000;
    pub const DATA: u64 = 0x8_0000;
    pub const DATA_SIZE: u64 = 0x8_0000;
}

pub const PAGE: u64 = 4096;
/// Pages of the data.
pub const PAGES: u64 = place::DATA_SIZE / PAGE;
const LOG_COMMANDS: u32 = 2;
const LOG_EQES: u32 = 7;
pub const LOG_QPS: u8 = 5;
pub const LOG_CQS: u8 = 4;
pub const LOG_MRS: u8 = 6;
const LOG_MTTS: u8 = 8;
/// Maximum number of calls of `advance` until a command has completed.
pub const COMMAND_CALLS_MAX: usize = 64;

/// A region: `start` is the address of its first byte, which is at `data_offset` of the data.
#[derive(Debug, Clone, Copy)]
pub struct RegionPlan {
    pub start: u64,
    pub data_offset: u64,
    pub length: u64,
    pub pd: u32,
    pub access: AccessRights,
    pub is_direct: bool,
}

/// A machine.
pub struct Machine {
    pub device: Box<dyn Device>,
    pub host: TestHost,
    pub port: Cable,
    pub now: Instant,
    pub mac: [u8; 6],
    pub gid: Gid,
    /// QPN of the first entry of the QP context table.
    pub qpn_base: u32,
    commands: u32,
    events: u32,
    /// Number of keys that were chosen.
    keys: u32,
}

impl Machine {
    /// Returns a machine whose function is up; `pages` maps each page of the data to a page of
    /// memory.
    pub fn new(kind: Kind, number: u8, gid: Gid, pages: &[u64]) -> Self {
        let mac = [2, 0, 0, 0, 0, number];
        let config = NicConfig {
            // Like the card: atomics are reads and writes.
            global_atomics: false,
            ..NicConfig::functional(u32::from(number) << 16, mac)
        };
        let mut machine = Self {
            device: kind.device(config),
            host: TestHost::new(),
            port: Cable::default(),
            now: Instant::from_us(1),
            mac,
            gid,
            qpn_base: 0,
            commands: 0,
            events: 0,
            keys: 0,
        };
        machine.host.writable = vec![
            place::COMMANDS..place::INPUT,
            place::OUTPUT..place::EQ + (16 << LOG_EQES),
            place::CQ..place::CONSUMER_RECORDS,
            place::QPC..place::MTT,
        ];
        machine.write_pages(pages);
        machine.bring_up();
        machine
    }

    /// Writes the translation entries of the data.
    pub fn write_pages(&mut self, pages: &[u64]) {
        for (page, at) in (0..).zip(pages) {
            let entry = TranslationEntry::new(place::DATA + at * PAGE);
            self.host.store(place::MTT + page * 8, entry.as_bytes());
        }
    }

    /// Resets the function and brings it up again.
    pub fn bring_up(&mut self) {
        self.reset();
        (self.commands, self.events, self.keys) = (0, 0, 0);
        self.host.bytes_mut(place::COMMANDS..place::INPUT).fill(0);
        self.host.bytes_mut(place::EQ..place::EQ + 0x1000).fill(0);
        self.device
            .write64(offset::command_queue_base, place::COMMANDS);
        self.device
            .write32(offset::command_queue_log_size, LOG_COMMANDS);
        let mut enable = Control::default();
        enable.set_enable(true);
        self.device.write32(offset::control, enable.bits());
        self.expect(CommandOpcode::QUERY_DEVICE, 0, &[0u8; 0]);
        let capabilities: DeviceCapabilities = self.host.load(place::OUTPUT);
        assert!(capabilities.features.chosen_numbers());
        self.qpn_base = capabilities.qpn_base;
        let tables = ContextTables {
            qpc_base: place::QPC,
            cqc_base: place::CQC,
            srqc_base: place::SRQC,
            mpt_base: place::MPT,
            mtt_base: place::MTT,
            log_qps: LOG_QPS,
            log_cqs: LOG_CQS,
            log_srqs: capabilities.log_max_srqs.min(2),
            log_mrs: LOG_MRS,
            log_mtts: LOG_MTTS,
            ..ContextTables::default()
        };
        self.expect(CommandOpcode::SET_CONTEXT_TABLES, 0, &tables);
        let entry = AddressEntry {
            gid: self.gid.0,
            mac: self.mac,
            vlan: VLAN_NONE,
            reserved_18: 0,
        };
        self.expect(CommandOpcode::SET_ADDRESS, 0, &entry);
        let eq = EqContext {
            base: place::EQ,
            log_size: LOG_EQES as u8,
            ..EqContext::default()
        };
        self.expect(CommandOpcode::CREATE_EQ, 0, &eq);
    }

    /// Resets the function.
    ///
    /// # Panics
    /// If the reset does not end.
    pub fn reset(&mut self) {
        let mut reset = Control::default();
        reset.set_reset(true);
        self.device.write32(offset::control, reset.bits());
        for _ in 0..COMMAND_CALLS_MAX {
            self.advance();
            if self.device.read32(self.now, offset::control) == 0 {
                return;
            }
        }
        panic!("the function does not come out of reset");
    }

    /// Runs the function. Returns true if it made progress.
    pub fn advance(&mut self) -> bool {
        let progress = self
            .device
            .advance(self.now, &mut self.host, &mut self.port);
        progress.worked || !progress.rests
    }

    /// Runs a command. Returns its result.
    pub fn command<V: IntoBytes + Immutable + ?Sized>(
        &mut self,
        opcode: CommandOpcode,
        argument: u64,
        input: &V,
    ) -> Result<u64, CommandStatus> {
        self.host.store(place::INPUT, input.as_bytes());
        let entry = CommandEntry {
            opcode,
            argument,
            input_iova: place::INPUT,
            output_iova: place::OUTPUT,
            input_length: input_size(opcode) as u32,
            output_length: output_size(opcode) as u32,
            ..CommandEntry::default()
        };
        let entry = self
            .submit(entry)
            .unwrap_or_else(|| panic!("{opcode:?} has not ended"));
        match CommandStatus(entry.completion.status()) {
            CommandStatus::SUCCESS => Ok(entry.result),
            status => Err(status),
        }
    }

    /// Writes an entry into the command queue and rings the doorbell. Returns the completed entry;
    /// `None` if the function does not complete it.
    pub fn submit(&mut self, mut entry: CommandEntry) -> Option<CommandEntry> {
        let mut completion = CommandCompletion::default();
        completion.set_device_owned(true);
        entry.completion = completion;
        let slot = u64::from(self.commands % (1 << LOG_COMMANDS));
        let iova = place::COMMANDS + slot * CommandEntry::SIZE as u64;
        self.host.store(iova, entry.as_bytes());
        self.commands = self.commands.wrapping_add(1);
        self.device
            .write32(offset::command_queue_doorbell, self.commands);
        for _ in 0..COMMAND_CALLS_MAX {
            self.advance();
            let ended: CommandEntry = self.host.load(iova);
            if !ended.completion.device_owned() {
                return Some(ended);
            }
        }
        None
    }

    /// Runs a command that must succeed.
    pub fn expect<V: IntoBytes + Immutable + ?Sized>(
        &mut self,
        opcode: CommandOpcode,
        argument: u64,
        input: &V,
    ) -> u64 {
        let result = self.command(opcode, argument, input);
        result.unwrap_or_else(|status| panic!("{opcode:?} of {argument:#x} ended with {status:?}"))
    }

    /// Returns the key of a new region.
    pub fn create_region(&mut self, plan: &RegionPlan) -> u32 {
        let mut word = MemoryEntryWord::default();
        word.set_log_page_size(12);
        word.set_direct(plan.is_direct);
        let (page, in_page) = (plan.data_offset / PAGE, plan.data_offset % PAGE);
        let entry = MemoryEntry {
            word,
            key: 0x5a,
            pd: plan.pd,
            access: plan.access,
            start: plan.start,
            length: plan.length,
            translation: if plan.is_direct {
                place::DATA + plan.data_offset
            } else {
                page
            },
            first_page_offset: if plan.is_direct { 0 } else { in_page },
            ..MemoryEntry::default()
        };
        self.keys += 1;
        let number = NewNumber::of(self.keys);
        self.expect(CommandOpcode::CREATE_MR, number.bits(), &entry) as u32
    }

    /// Changes the state of a QP.
    pub fn modify_qp(
        &mut self,
        qpn: u32,
        state: QpStateCode,
        mask: &[fn(&mut QpAttributeMask, bool)],
        context: QpContext,
    ) -> Result<u64, CommandStatus> {
        let mut bits = QpAttributeMask::default();
        mask.iter().for_each(|set| set(&mut bits, true));
        let input = ModifyQp {
            state: u32::from(state.0),
            current_state: ANY_STATE,
            mask: bits,
            reserved_0c: 0,
            reserved_10: [0; 6],
            context,
        };
        self.command(CommandOpcode::MODIFY_QP, u64::from(qpn), &input)
    }

    pub fn query_qp(&mut self, qpn: u32) -> QpContext {
        self.expect(CommandOpcode::QUERY_QP, u64::from(qpn), &[0u8; 0]);
        self.host.load(place::OUTPUT)
    }

    pub fn ring(&mut self, slot: u32, value: DoorbellValue) {
        let value = value.bits();
        self.host.doorbells.push_back(Doorbell { slot, value });
    }

    /// Takes the next event.
    pub fn poll_event(&mut self) -> Option<(EventType, u32)> {
        let slot = u64::from(self.events % (1 << LOG_EQES));
        let eqe: Eqe = self.host.load(place::EQ + slot * Eqe::SIZE as u64);
        if eqe.word.owner() != owner_at(self.events, LOG_EQES) {
            return None;
        }
        self.events = self.events.wrapping_add(1);
        let mut doorbell = EventQueueDoorbell::default();
        doorbell.set_consumer_index(self.events);
        self.device
            .write32(offset::event_queue_doorbell, doorbell.bits());
        self.advance();
        Some((EventType(eqe.word.event()), eqe.number))
    }
}

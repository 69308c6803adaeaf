//! The device: bring-up, teardown, and the state that all objects share.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ferroce_spec::command::{
    CommandOpcode, ContextTables, DeviceCapabilities, ModifyQp, MulticastGroup, ShortModifyQp,
};
use ferroce_spec::context::{
    AddressEntry, CqContext, MemoryEntry, QpContext, ServiceCode, SrqContext, TranslationEntry,
};
use ferroce_spec::counter::COUNTERS;
use ferroce_spec::register::VECTOR_COUNT;
use ferroce_spec::wqe::VLAN_NONE;
use parking_lot::Mutex;
use zerocopy::{Immutable, IntoBytes};

use crate::attributes::GidEntry;
use crate::bus::Bus;
use crate::capabilities::{Capabilities, Limits};
use crate::control::bring_up::{Identity, check_commands, describe, enable, identify, reset};
use crate::control::command::{CommandQueue, has_stopped};
use crate::control::device_config::DeviceConfig;
use crate::control::event::{AsyncEventHandler, CqHandlers, Dispatch, EventQueue};
use crate::control::health::Health;
use crate::control::mmio;
use crate::control::numbers::{AllNumbers, Numbers};
use crate::dma::{DmaBuffer, DmaSpace, Keeper};
use crate::error::Error;
use crate::identifier::{Cqn, Qpn, Srqn};
use crate::objects::health_check::Checked;
use crate::objects::translation::TranslationTable;
use crate::range::RangeAllocator;
use crate::rings::doorbell::{Slot, SlotAllocator};
use crate::rings::doorbell_check::DoorbellChecks;
use crate::rings::push::{PushWindows, QueuePush};
use crate::use_count::{Lease, UseCount};

/// Largest value of a 24-bit number.
const MAX_NUMBER: u64 = 0xff_ffff;

/// An opened device function.
pub struct Device {
    /// Resets the function; dropped before the memory that it uses.
    _stop: StopOnDrop,
    commands: CommandQueue,
    /// Event queue 0 takes asynchronous events, the others completion events.
    event_queues: Vec<Arc<EventQueue>>,
    dispatch: Arc<Dispatch>,
    tables: Tables,
    capabilities: Capabilities,
    limits: Limits,
    counters: usize,
    slots: Arc<SlotAllocator>,
    push_windows: PushWindows,
    pd_numbers: RangeAllocator,
    xrcd_numbers: RangeAllocator,
    /// Allocator of the device's own memory, in bytes.
    device_memory: RangeAllocator,
    /// Memory regions with a separate mapping; the bus may allow only few mappings.
    mapped_regions: UseCount,
    key_variant: AtomicU8,
    key_seed: Option<u64>,
    /// Held while a number is created or destroyed and while the driver and the CQs record that, so
    /// that a number that is used again is never mistaken for its previous owner.
    numbers: Mutex<AllNumbers>,
    doorbell_checks: DoorbellChecks,
    health: Health,
    bus: Arc<dyn Bus>,
    /// Dropped last, with its keeper.
    space: Arc<DmaSpace>,
}

/// Memory of the context tables.
struct Tables {
    _qpc: DmaBuffer,
    _cqc: DmaBuffer,
    _srqc: DmaBuffer,
    _mpt: DmaBuffer,
    /// Memory for the device's private use.
    _private: Option<DmaBuffer>,
    mtt: TranslationTable,
}

impl Device {
    /// Brings the device up.
    ///
    /// # Errors
    ///
    /// Any [`Error`]; the device is reset then.
    pub fn open(bus: Arc<dyn Bus>) -> Result<Arc<Self>, Error> {
        Self::open_with(bus, &DeviceConfig::default())
    }

    /// Brings the device up with the caller's time-outs and sizes.
    ///
    /// # Errors
    ///
    /// As [`Device::open`].
    pub fn open_with(bus: Arc<dyn Bus>, config: &DeviceConfig) -> Result<Arc<Self>, Error> {
        Self::open_kept(bus, config, None)
    }

    /// Like [`Device::open_with`]. `keeper` is dropped when the function is reset and none of its
    /// memory is mapped any more, that is, when the last object of this device is dropped: only
    /// then may the function be brought up again.
    ///
    /// # Errors
    ///
    /// As [`Device::open`].
    pub fn open_kept(
        bus: Arc<dyn Bus>,
        config: &DeviceConfig,
        keeper: Option<Keeper>,
    ) -> Result<Arc<Self>, Error> {
        let health = Health::default();
        // Locals are dropped in reverse order: the value that stops the device is declared last and
        // dropped first, before the memory that the device uses.
        let space = DmaSpace::kept(Arc::clone(&bus), keeper);
        let dispatch = Dispatch::new(&health, &bus);
        let (commands, tables, event_queues);

        // 1. Check identity and version.
        let Identity {
            version,
            capability,
        } = identify(&*bus)?;
        // 2. Reset any previous state.
        reset(&*bus, config.reset_timeout)?;
        // 3. Command queue.
        commands = CommandQueue::new(&bus, &space, &dispatch, config.command_timeout)?;
        let stop = StopOnDrop {
            bus: Arc::clone(&bus),
            timeout: config.reset_timeout,
        };
        enable(&*bus, config.reset_timeout)?;
        check_commands(&commands)?;
        // 4. Limits.
        let answer: DeviceCapabilities = commands.query(CommandOpcode::QUERY_DEVICE, 0)?;
        let limits = Limits::new(&answer, version)?;
        // 5. Context tables.
        tables = Tables::install(&limits, &space, &commands)?;
        // 6. Event queues.
        let vectors = u16::from(capability.vectors()).clamp(1, VECTOR_COUNT);
        let wanted = config.completion_vectors.saturating_add(1).min(vectors);
        event_queues = (0..wanted)
            .map(|number| create_event_queue(number, &limits, &bus, &space, &dispatch, &commands))
            .collect::<Result<Vec<_>, _>>()?;
        let device = Arc::new(Self {
            _stop: stop,
            commands,
            event_queues,
            dispatch,
            tables,
            capabilities: describe(&*bus, capability, &limits, &answer, wanted),
            limits,
            counters: usize::from(capability.counters()).min(COUNTERS.len()),
            slots: SlotAllocator::new(capability.log_doorbell_pages()),
            push_windows: PushWindows::new(&*bus, capability, config.push_inline_only),
            pd_numbers: RangeAllocator::new(1..u64::from(limits.max_pds()) + 1),
            xrcd_numbers: RangeAllocator::new(1..u64::from(limits.max_xrc_domains()) + 1),
            device_memory: RangeAllocator::new(0..limits.device_memory_length),
            mapped_regions: UseCount::default(),
            key_variant: AtomicU8::new(0),
            key_seed: config.key_seed,
            numbers: Mutex::new(AllNumbers::new(&limits, &answer)),
            doorbell_checks: DoorbellChecks::default(),
            health,
            space,
            bus,
        });
        // 7. Interrupts. If one cannot be connected, the drop of `device` disconnects the others.
        for queue in &device.event_queues {
            queue.start()?;
        }
        device.start_checks();
        Ok(device)
    }

    /// Lets the bus check the device until it is dropped.
    fn start_checks(self: &Arc<Self>) {
        let device_of_check = Arc::downgrade(self);
        let check = move || {
            if let Some(device) = device_of_check.upgrade() {
                device.check();
            }
        };
        self.bus.set_health_check(Some(Arc::new(check)));
    }

    fn check(&self) {
        if self.is_dead() {
            return;
        }
        let checked = Checked {
            bus: &*self.bus,
            dispatch: &self.dispatch,
            event_queues: &self.event_queues,
            doorbells: &self.doorbell_checks,
        };
        checked.check();
    }

    /// Returns limits and identity.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Returns true if the device has stopped, does not answer or is gone. Nothing can be created
    /// any more; destroying still frees resources.
    pub fn is_dead(&self) -> bool {
        self.health.is_dead()
    }

    /// Returns the device clock in nanoseconds: the time base of completions' time stamps.
    pub fn clock_ns(&self) -> u64 {
        mmio::CLOCK.read(&*self.bus)
    }

    /// Returns true if the port has a link.
    pub fn link_is_up(&self) -> bool {
        !has_stopped(&*self.bus) && mmio::STATUS.read(&*self.bus).link_up()
    }

    /// Sets entry `index` of the GID table.
    ///
    /// # Errors
    ///
    /// Errors of the device: [`Error::Command`] for an index that it does not have.
    pub fn set_gid(&self, index: u16, entry: &GidEntry) -> Result<(), Error> {
        let input = AddressEntry {
            gid: entry.gid,
            mac: entry.mac,
            vlan: entry.vlan.unwrap_or(VLAN_NONE),
            reserved_18: 0,
        };
        let opcode = CommandOpcode::SET_ADDRESS;
        self.commands.execute_with(opcode, index.into(), &input)?;
        Ok(())
    }

    /// Reads entry `index` of the GID table.
    ///
    /// # Errors
    ///
    /// As [`Device::set_gid`].
    pub fn gid(&self, index: u16) -> Result<GidEntry, Error> {
        let opcode = CommandOpcode::QUERY_ADDRESS;
        let entry: AddressEntry = self.commands.query(opcode, index.into())?;
        Ok(GidEntry {
            gid: entry.gid,
            mac: entry.mac,
            vlan: (entry.vlan != VLAN_NONE).then_some(entry.vlan),
        })
    }

    /// Sets or clears the handler of asynchronous events.
    pub fn set_event_handler(&self, handler: Option<AsyncEventHandler>) {
        self.dispatch.set_async_handler(handler);
    }

    /// Returns all counters of the device, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let count = self.counters;
        (0u32..)
            .zip(&COUNTERS[..count])
            .map(|(index, row)| (row.name, mmio::read_counter(&*self.bus, index)))
            .collect()
    }

    /// Returns the number of events that the device has written and that named no object of this
    /// driver.
    pub fn skipped_events(&self) -> u64 {
        self.dispatch.skipped()
    }
}

/// Operations for the objects of the device.
impl Device {
    #[inline]
    /// Returns true if all of this memory of the process is persistent: a region of it may have the
    /// right to be flushed to persistence.
    pub fn has_persistent(&self, address: usize, length: usize) -> bool {
        self.capabilities().persistent_flush && self.bus.is_persistent(address, length)
    }

    pub(crate) fn bus(&self) -> &Arc<dyn Bus> {
        &self.bus
    }

    pub(crate) fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    pub(crate) fn doorbell_checks(&self) -> &DoorbellChecks {
        &self.doorbell_checks
    }

    pub(crate) fn space(&self) -> &Arc<DmaSpace> {
        &self.space
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn pd_numbers(&self) -> &RangeAllocator {
        &self.pd_numbers
    }

    pub(crate) fn xrcd_numbers(&self) -> &RangeAllocator {
        &self.xrcd_numbers
    }

    pub(crate) fn device_memory(&self) -> &RangeAllocator {
        &self.device_memory
    }

    pub(crate) fn translation_table(&self) -> &TranslationTable {
        &self.tables.mtt
    }

    /// Returns a lease of a mapping for a memory region; mappings are limited.
    pub(crate) fn lease_mapping(&self) -> Result<Lease, Error> {
        let what = "memory regions";
        self.mapped_regions
            .acquire_below(self.capabilities.max_mr)
            .ok_or(Error::NoResources { what })
    }

    /// Returns a key variant that differs from the recent ones, so that a stale key is detected.
    pub(crate) fn next_key_variant(&self) -> u8 {
        let count = self.key_variant.fetch_add(1, Ordering::Relaxed);
        match self.key_seed {
            None => count,
            // An odd factor permutes the 256 numbers.
            Some(seed) => {
                let [factor, offset, ..] = seed.to_le_bytes();
                count.wrapping_mul(factor | 1).wrapping_add(offset)
            }
        }
    }

    pub(crate) fn allocate_slot(&self) -> Result<Slot, Error> {
        let what = "doorbell slot";
        self.slots.allocate().ok_or(Error::NoResources { what })
    }

    /// Returns the push state for the send queue of QP `number`, if pushes are possible.
    pub(crate) fn queue_push(&self, slot: &Slot, number: Qpn) -> Option<QueuePush> {
        self.push_windows.queue(&self.bus, slot.number(), number.0)
    }

    /// Returns the event queue of a completion vector.
    pub(crate) fn completion_eqn(&self, vector: u16) -> Result<u16, Error> {
        if vector >= self.capabilities.completion_vectors {
            let what = "completion vector";
            return Err(Error::InvalidArgument { what });
        }
        // With a single interrupt, event queue 0 takes completion events too.
        Ok((vector + 1).min(self.event_queues.len() as u16 - 1))
    }

    pub(crate) fn create_cq(
        &self,
        context: &CqContext,
        handlers: &Arc<CqHandlers>,
    ) -> Result<Cqn, Error> {
        let mut numbers = self.numbers.lock();
        let result = self.create(CommandOpcode::CREATE_CQ, &mut numbers.cqs, context)?;
        let number = Cqn(number(result)?);
        if self.dispatch.add_cq(number, handlers) {
            Ok(number)
        } else {
            let what = "the CQN is in use";
            Err(Error::BadAnswer { what })
        }
    }

    pub(crate) fn destroy_cq(&self, number: Cqn) -> Result<(), Error> {
        let mut numbers = self.numbers.lock();
        self.destroy(CommandOpcode::DESTROY_CQ, number.0.into())?;
        self.dispatch.remove_cq(number);
        numbers.cqs.give_back(number.0);
        Ok(())
    }

    /// Removes a CQ that the device refused to destroy.
    pub(crate) fn forget_cq(&self, number: Cqn) {
        self.dispatch.remove_cq(number);
    }

    /// Creates a QP; `connect` adds it to its CQs before the number can be used.
    pub(crate) fn create_qp<T>(
        &self,
        context: &QpContext,
        connect: impl FnOnce(Qpn) -> T,
    ) -> Result<(Qpn, T), Error> {
        let mut numbers = self.numbers.lock();
        let opcode = CommandOpcode::CREATE_QP;
        let is_gsi = context.service == ServiceCode::GSI;
        let result = if is_gsi {
            self.commands.execute_with(opcode, 0, context)?
        } else {
            self.create(opcode, &mut numbers.qps, context)?
        };
        let number = Qpn(number(result)?);
        if is_gsi && number != Qpn::GSI {
            let what = "the QPN of the GSI";
            return Err(Error::BadAnswer { what });
        }
        if self.dispatch.add_qp(number) {
            Ok((number, connect(number)))
        } else {
            let what = "the QPN is in use";
            Err(Error::BadAnswer { what })
        }
    }

    /// Destroys a QP; `disconnect` removes it from its CQs before the number is used again.
    pub(crate) fn destroy_qp(&self, number: Qpn, disconnect: impl FnOnce()) -> Result<(), Error> {
        let mut numbers = self.numbers.lock();
        self.destroy(CommandOpcode::DESTROY_QP, number.0.into())?;
        self.dispatch.remove_qp(number);
        disconnect();
        numbers.qps.give_back(number.0);
        Ok(())
    }

    /// Removes a QP that the device refused to destroy.
    pub(crate) fn forget_qp(&self, number: Qpn) {
        self.dispatch.remove_qp(number);
    }

    /// Suppresses the asynchronous events of a QP.
    pub(crate) fn mute_qp(&self, number: Qpn) {
        self.dispatch.remove_qp(number);
    }

    /// Delivers the asynchronous events of a QP again.
    pub(crate) fn unmute_qp(&self, number: Qpn) {
        self.dispatch.add_qp(number);
    }

    pub(crate) fn modify_qp(&self, number: Qpn, input: &ModifyQp) -> Result<(), Error> {
        let (opcode, argument) = (CommandOpcode::MODIFY_QP, number.0.into());
        if self.limits.version.has_aligned_modify_qp() {
            self.commands.execute_with(opcode, argument, input)?;
        } else {
            let input = ShortModifyQp::from(input);
            self.commands.execute_with(opcode, argument, &input)?;
        }
        Ok(())
    }

    pub(crate) fn query_qp(&self, number: Qpn) -> Result<QpContext, Error> {
        self.commands
            .query(CommandOpcode::QUERY_QP, number.0.into())
    }

    pub(crate) fn query_cq(&self, number: Cqn) -> Result<CqContext, Error> {
        self.commands
            .query(CommandOpcode::QUERY_CQ, number.0.into())
    }

    pub(crate) fn modify_cq(&self, number: Cqn, input: &CqContext) -> Result<(), Error> {
        let opcode = CommandOpcode::MODIFY_CQ;
        self.commands.execute_with(opcode, number.0.into(), input)?;
        Ok(())
    }

    /// Attaches a QP to a multicast group, or detaches it.
    pub(crate) fn set_multicast(
        &self,
        opcode: CommandOpcode,
        number: Qpn,
        gid: [u8; 16],
    ) -> Result<(), Error> {
        let input = MulticastGroup { gid };
        self.commands
            .execute_with(opcode, number.0.into(), &input)?;
        Ok(())
    }

    /// Creates a shared receive queue; `connect` adds it to its CQ before the number can be used.
    pub(crate) fn create_srq(
        &self,
        context: &SrqContext,
        connect: impl FnOnce(Srqn),
    ) -> Result<Srqn, Error> {
        let mut numbers = self.numbers.lock();
        let result = self.create(CommandOpcode::CREATE_SRQ, &mut numbers.srqs, context)?;
        let number = Srqn(number(result)?);
        if self.dispatch.add_srq(number) {
            connect(number);
            Ok(number)
        } else {
            let what = "the SRQN is in use";
            Err(Error::BadAnswer { what })
        }
    }

    /// Destroys a shared receive queue; `disconnect` removes it from its CQ before the number is
    /// used again.
    pub(crate) fn destroy_srq(&self, number: Srqn, disconnect: impl FnOnce()) -> Result<(), Error> {
        let mut numbers = self.numbers.lock();
        self.destroy(CommandOpcode::DESTROY_SRQ, number.0.into())?;
        self.dispatch.remove_srq(number);
        disconnect();
        numbers.srqs.give_back(number.0);
        Ok(())
    }

    /// Removes a shared receive queue that the device refused to destroy.
    pub(crate) fn forget_srq(&self, number: Srqn) {
        self.dispatch.remove_srq(number);
    }

    pub(crate) fn modify_srq(&self, number: Srqn, input: &SrqContext) -> Result<(), Error> {
        let opcode = CommandOpcode::MODIFY_SRQ;
        self.commands.execute_with(opcode, number.0.into(), input)?;
        Ok(())
    }

    pub(crate) fn query_srq(&self, number: Srqn) -> Result<SrqContext, Error> {
        self.commands
            .query(CommandOpcode::QUERY_SRQ, number.0.into())
    }

    /// Replaces a memory region; returns its new key.
    pub(crate) fn modify_mr(&self, key: u32, entry: &MemoryEntry) -> Result<u32, Error> {
        let opcode = CommandOpcode::MODIFY_MR;
        let key = self.commands.execute_with(opcode, key.into(), entry)?;
        u32::try_from(key).map_err(|_| Error::BadAnswer { what: "memory key" })
    }

    /// Drops what the device has cached of a memory region's pages.
    pub(crate) fn sync_mr(&self, key: u32) -> Result<(), Error> {
        let opcode = CommandOpcode::SYNC_MR;
        self.commands.execute(opcode, key.into())?;
        Ok(())
    }

    /// Creates a memory region or window; returns its key.
    pub(crate) fn create_mr(&self, entry: &MemoryEntry) -> Result<u32, Error> {
        let mut numbers = self.numbers.lock();
        let key = self.create(CommandOpcode::CREATE_MR, &mut numbers.keys, entry)?;
        u32::try_from(key).map_err(|_| Error::BadAnswer { what: "memory key" })
    }

    /// Destroys a memory region or window.
    pub(crate) fn destroy_mr(&self, key: u32) -> Result<(), Error> {
        let mut numbers = self.numbers.lock();
        self.destroy(CommandOpcode::DESTROY_MR, key.into())?;
        numbers.keys.give_back(key);
        Ok(())
    }

    /// Creates an object with the next of `numbers`; returns the result of the command.
    fn create<I: IntoBytes + Immutable>(
        &self,
        opcode: CommandOpcode,
        numbers: &mut Numbers,
        input: &I,
    ) -> Result<u64, Error> {
        numbers.create(|argument| self.commands.execute_with(opcode, argument.bits(), input))
    }

    /// Destroys an object. On a dead device this succeeds: the device cannot access the memory once
    /// it is unmapped.
    fn destroy(&self, opcode: CommandOpcode, number: u64) -> Result<(), Error> {
        match self.commands.execute(opcode, number) {
            Err(error) if !self.health.is_dead() => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.bus.set_health_check(None);
        for queue in self.event_queues.iter().rev() {
            queue.stop();
            let number = queue.number().into();
            if let Err(error) = self.destroy(CommandOpcode::DESTROY_EQ, number) {
                tracing::debug!(number, %error, "event queue not destroyed");
            }
        }
    }
}

/// Resets the function when dropped, so that it no longer accesses host memory.
struct StopOnDrop {
    bus: Arc<dyn Bus>,
    timeout: Duration,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if self.bus.is_gone() {
            return;
        }
        if let Err(error) = reset(&*self.bus, self.timeout) {
            tracing::warn!(%error, "the device was not reset");
        }
    }
}

impl Tables {
    fn install(
        limits: &Limits,
        space: &Arc<DmaSpace>,
        commands: &CommandQueue,
    ) -> Result<Self, Error> {
        let sizes = &limits.tables;
        let table = |entry_size: usize, log: u8| DmaBuffer::new(space, entry_size << log);
        let qpc = table(QpContext::SIZE, sizes.log_qps)?;
        let cqc = table(CqContext::SIZE, sizes.log_cqs)?;
        let srqc = table(SrqContext::SIZE, sizes.log_srqs)?;
        let mpt = table(MemoryEntry::SIZE, sizes.log_mrs)?;
        let mtt = table(TranslationEntry::SIZE, sizes.log_mtts)?;
        let mtt = TranslationTable::new(mtt, sizes.log_mtts);
        let private = match limits.log_private_bytes {
            0 => None,
            log => Some(table(1 << log, sizes.log_qps)?),
        };
        let input = ContextTables {
            qpc_base: qpc.iova(),
            cqc_base: cqc.iova(),
            srqc_base: srqc.iova(),
            mpt_base: mpt.iova(),
            mtt_base: mtt.iova(),
            private_base: private.as_ref().map_or(0, DmaBuffer::iova),
            ..*sizes
        };
        commands.execute_with(CommandOpcode::SET_CONTEXT_TABLES, 0, &input)?;
        Ok(Self {
            _qpc: qpc,
            _cqc: cqc,
            _srqc: srqc,
            _mpt: mpt,
            _private: private,
            mtt,
        })
    }
}

fn create_event_queue(
    number: u16,
    limits: &Limits,
    bus: &Arc<dyn Bus>,
    space: &Arc<DmaSpace>,
    dispatch: &Arc<Dispatch>,
    commands: &CommandQueue,
) -> Result<Arc<EventQueue>, Error> {
    let log_size = u32::from(limits.log_eqes);
    let queue = EventQueue::new(number, log_size, bus, space, dispatch)?;
    let opcode = CommandOpcode::CREATE_EQ;
    commands.execute_with(opcode, number.into(), &queue.context())?;
    Ok(queue)
}

fn number(result: u64) -> Result<u32, Error> {
    if result > MAX_NUMBER {
        let what = "the number of a new object";
        return Err(Error::BadAnswer { what });
    }
    Ok(result as u32)
}

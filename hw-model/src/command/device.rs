//! Commands on the function itself: capabilities, context tables, GID table, event queues.

use ferroce_spec::command::{
    CommandEntry, CommandStatus, ContextTables, DeviceCapabilities, DeviceFeatures,
};
use ferroce_spec::context::{AddressEntry, EqContext, LOG_PAGE_SIZES, PathMtuCode};
use ferroce_spec::register::{BAR4_SIZE, VECTOR_COUNT};
use ferroce_spec::wqe::{MAX_BLOCKS, MAX_DATA_SEGMENTS, MAX_INLINE, MAX_MESSAGE_LENGTH};
use ferroce_wire::Gid;

use crate::blocks::Blocks;
use crate::command::{CommandProcessor, Failure};
use crate::config::NicConfig;
use crate::contexts::queue_pair_table::RESERVED_QPS;
use crate::contexts::responder_resources::LOG_LINE_BYTES;
use crate::limits::{LOG_MAX_RING, MAX_GIDS};
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::receive::multicast::{MAX_GROUPS, MAX_QPS_PER_GROUP};
use crate::time::timing::Timing;

/// Text of the firmware version, padded with zeros.
const FIRMWARE_VERSION: [u8; 16] = *b"0.1.0-model\0\0\0\0\0";
/// Base-2 logarithm of the largest event queue.
const LOG_MAX_EQES: u8 = 18;
/// Local ACK delay code: 4.096 us x 2^4 covers the ACK delay and a busy host.
const LOCAL_ACK_DELAY: u8 = 4;
/// Alignment of the private area of the queue pairs.
const PRIVATE_ALIGNMENT: u64 = 4096;
/// Maximum number of READs and atomics in flight of one QP, in each direction.
pub const MAX_RD_ATOMIC: u8 = 16;

/// Returns the base-2 logarithm of the number of queue pairs whose whole state fits on the chip.
/// Responder resources are the tightest limit.
fn resident_qps(config: &NicConfig) -> u8 {
    config.responder_cache.log_entries().min(config.log_max_qps)
}

impl<H: Host, T: Timing, P: Port, B: Blocks> CommandProcessor<'_, '_, H, T, P, B> {
    pub(super) fn query_device(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let capabilities = self.capabilities();
        self.output(entry, &capabilities)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let config = &self.config;
        let mut features = DeviceFeatures::default();
        features.set_reliable_connected(true);
        features.set_unreliable_connected(true);
        features.set_unreliable_datagram(true);
        features.set_extended_reliable_connected(true);
        features.set_general_service_interface(true);
        features.set_shared_receive_queues(true);
        features.set_atomics(true);
        features.set_global_atomics(config.global_atomics);
        features.set_memory_windows(true);
        features.set_cq_resize(config.cq_resize);
        features.set_chosen_numbers(config.has_chosen_numbers());
        features.set_own_multicast(true);
        features.set_flush(true);
        features.set_persistent_flush(config.persistent_flush);
        features.set_atomic_write(true);
        features.set_on_demand_paging(true);
        DeviceCapabilities {
            firmware_version: FIRMWARE_VERSION,
            qpn_base: config.qpn_base,
            reserved_qps: RESERVED_QPS,
            max_message_length: MAX_MESSAGE_LENGTH,
            max_mr_length: 1 << (config.log_max_mtts + LOG_PAGE_SIZES[0]),
            page_sizes: LOG_PAGE_SIZES.iter().fold(0, |sizes, log| sizes | 1 << log),
            log_max_qps: config.log_max_qps,
            log_max_cqs: config.log_max_cqs,
            log_max_srqs: config.log_max_srqs,
            log_max_mrs: config.log_max_mrs,
            log_max_mtts: config.log_max_mtts,
            log_max_send_blocks: LOG_MAX_RING,
            log_max_receives: LOG_MAX_RING,
            log_max_cqes: LOG_MAX_RING,
            log_max_eqes: LOG_MAX_EQES,
            max_data_segments: MAX_DATA_SEGMENTS as u8,
            max_send_blocks: MAX_BLOCKS as u8,
            processing_units: config.processing_units,
            max_inline: config.max_inline.min(MAX_INLINE as u16),
            max_gids: MAX_GIDS as u16,
            max_rd_atomic: MAX_RD_ATOMIC,
            max_dest_rd_atomic: MAX_RD_ATOMIC,
            local_ack_delay: LOCAL_ACK_DELAY,
            max_path_mtu: PathMtuCode::MTU_4096.0,
            features,
            device_memory_length: BAR4_SIZE,
            max_multicast_groups: MAX_GROUPS as u32,
            max_multicast_qps: MAX_QPS_PER_GROUP as u32,
            log_resident_qps: resident_qps(config),
            log_private_bytes: if resident_qps(config) < config.log_max_qps {
                LOG_LINE_BYTES
            } else {
                0
            },
            ..DeviceCapabilities::default()
        }
    }

    pub(super) fn set_context_tables(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        if self.blocks.contexts.qps.capacity() != 0 {
            return Err(Failure::new(CommandStatus::BAD_STATE));
        }
        let tables: ContextTables = self.input(entry)?;
        let sizes = [
            (
                tables.log_qps,
                self.config.log_max_qps,
                core::mem::offset_of!(ContextTables, log_qps),
            ),
            (
                tables.log_cqs,
                self.config.log_max_cqs,
                core::mem::offset_of!(ContextTables, log_cqs),
            ),
            (
                tables.log_mrs,
                self.config.log_max_mrs,
                core::mem::offset_of!(ContextTables, log_mrs),
            ),
            (
                tables.log_mtts,
                self.config.log_max_mtts,
                core::mem::offset_of!(ContextTables, log_mtts),
            ),
        ];
        if let Some((.., offset)) = sizes.iter().find(|(log, max, _)| log > max || *log < 2) {
            return Err(Failure::parameter(*offset));
        }
        let needs_private_area = tables.log_qps > resident_qps(self.config);
        let is_aligned = tables.private_base % PRIVATE_ALIGNMENT == 0;
        if !is_aligned || needs_private_area && tables.private_base == 0 {
            let offset = core::mem::offset_of!(ContextTables, private_base);
            return Err(Failure::parameter(offset));
        }
        // A driver that does not use shared receive queues passes no table.
        if tables.log_srqs > self.config.log_max_srqs {
            let offset = core::mem::offset_of!(ContextTables, log_srqs);
            return Err(Failure::parameter(offset));
        }
        self.blocks.contexts.install_tables(&tables);
        self.blocks.translation.install_tables(&tables);
        Ok(0)
    }

    pub(super) fn set_address(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let address: AddressEntry = self.input(entry)?;
        let index = entry.argument as usize;
        if !self.blocks.contexts.gids.set(index, address) {
            return Err(Failure::new(CommandStatus::NO_OBJECT));
        }
        self.port.set_gid(index, Gid(address.gid));
        self.blocks.contexts.qps.forget_datagram_paths();
        Ok(0)
    }

    pub(super) fn query_address(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        match self
            .blocks
            .contexts
            .gids
            .get(entry.argument as usize)
            .copied()
        {
            Some(address) => self.output(entry, &address),
            None => Err(Failure::new(CommandStatus::NO_OBJECT)),
        }
    }

    pub(super) fn create_eq(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let context: EqContext = self.input(entry)?;
        if context.log_size > LOG_MAX_EQES {
            return Err(Failure::parameter(core::mem::offset_of!(
                EqContext, log_size
            )));
        }
        if context.base % 64 != 0 {
            return Err(Failure::parameter(core::mem::offset_of!(EqContext, base)));
        }
        if context.vector >= VECTOR_COUNT {
            return Err(Failure::parameter(core::mem::offset_of!(EqContext, vector)));
        }
        let eqn = u32::try_from(entry.argument).unwrap_or(u32::MAX);
        if eqn >= u32::from(VECTOR_COUNT) {
            return Err(Failure::new(CommandStatus::NO_RESOURCES));
        }
        if self.blocks.host_interface.event_queues().get(eqn).is_some() {
            return Err(Failure::new(CommandStatus::BUSY));
        }
        self.blocks
            .host_interface
            .event_queues()
            .create(eqn, context);
        Ok(u64::from(eqn))
    }

    pub(super) fn query_eq(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        match self
            .blocks
            .host_interface
            .event_queues()
            .get(entry.argument as u32)
            .copied()
        {
            Some(context) => self.output(entry, &context),
            None => Err(Failure::new(CommandStatus::NO_OBJECT)),
        }
    }

    pub(super) fn modify_eq(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let context: EqContext = self.input(entry)?;
        if self
            .blocks
            .host_interface
            .event_queues()
            .moderate(entry.argument as u32, context.moderation_us)
        {
            Ok(0)
        } else {
            Err(Failure::new(CommandStatus::NO_OBJECT))
        }
    }

    pub(super) fn destroy_eq(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        if self
            .blocks
            .host_interface
            .event_queues()
            .destroy(entry.argument as u32)
        {
            Ok(0)
        } else {
            Err(Failure::new(CommandStatus::NO_OBJECT))
        }
    }
}

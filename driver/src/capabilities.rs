//! Capabilities of the device.

use ferroce_spec::command::{
    ContextTables, DeviceCapabilities, DeviceFeatures, LOG_PRIVATE_BYTES_MAX,
};
use ferroce_spec::personality::Personality;
use ferroce_spec::register::{BAR4_SIZE, ContractVersion};
use ferroce_spec::wqe::{MAX_BLOCKS, MAX_DATA_SEGMENTS, MAX_INLINE};

use crate::error::Error;

/// Sizes of the context tables in this driver, as base-2 logarithms; smaller when the device allows
/// less. The system allocates the memory when it is first touched.
const LOG_QPS: u8 = 16;
const LOG_CQS: u8 = 16;
const LOG_SRQS: u8 = 12;
const LOG_MRS: u8 = 17;
const LOG_MTTS: u8 = 22;
/// Base-2 logarithm of the blocks of the largest send queue that this driver creates (64 MiB).
const LOG_SEND_BLOCKS_MAX: u8 = 20;
/// Base-2 logarithm of the entries of the largest receive queue and CQ that this driver creates.
pub(crate) const LOG_ENTRIES_MAX: u8 = 22;
/// Base-2 logarithm of the entries of the largest event queue that this driver creates.
const LOG_EVENTS_MAX: u8 = 14;
/// Protection domains: numbers that software chooses, 24 bits; far fewer are allocated.
const MAX_PDS: u32 = 1 << 16;
/// XRC domains: numbers that software chooses as well.
const MAX_XRC_DOMAINS: u32 = 1 << 16;
/// Address handles: plain data that the driver sees only in work requests.
const MAX_ADDRESS_HANDLES: u32 = 1 << 16;
/// Blocks that each send WQE gets when the advertised number of WQEs is computed: a WQE with the
/// usual few scatter/gather elements or about 200 bytes inline.
const USUAL_WQE_BLOCKS: u32 = 4;
/// Maximum number of WQEs in one queue: the sequence number in a completion must distinguish them.
const MAX_WORK_REQUESTS: u32 = 1 << 20;

/// Limits and identity of the device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Version of the firmware.
    pub firmware_version: String,
    /// PCI vendor ID.
    pub vendor_id: u32,
    /// PCI device ID.
    pub part_id: u32,
    /// Revision of the hardware.
    pub hardware_version: u32,
    /// Whose failures the device shows.
    pub personality: Personality,
    /// MAC address of the port.
    pub port_mac: [u8; 6],
    /// Number of QPs.
    pub max_qp: u32,
    /// Work requests of one send or receive queue, if they are of usual size.
    pub max_qp_wr: u32,
    /// Scatter/gather elements of a work request.
    pub max_sge: u32,
    /// Scatter/gather elements of a READ.
    pub max_sge_rd: u32,
    /// Number of CQs.
    pub max_cq: u32,
    /// Entries of a CQ.
    pub max_cqe: u32,
    /// Number of memory regions.
    pub max_mr: u32,
    /// Number of protection domains.
    pub max_pd: u32,
    /// Bytes of a memory region.
    pub max_mr_size: u64,
    /// Page sizes of memory regions, one bit each.
    pub page_sizes: u64,
    /// Bytes of an inline payload.
    pub max_inline_data: u32,
    /// True if memory regions may be on demand ([`Translation::OnDemand`]).
    ///
    /// [`Translation::OnDemand`]: crate::Translation::OnDemand
    pub on_demand_paging: bool,
    /// True if the device raises page faults for pages of on-demand regions: such regions have to
    /// be explicit, and a datagram to a page that is not present is lost.
    pub page_faults: bool,
    /// READs and atomics of one QP outstanding as requester.
    pub max_rd_atomic: u8,
    /// READs and atomics of one QP held as responder.
    pub max_dest_rd_atomic: u8,
    /// Number of shared receive queues.
    pub max_srq: u32,
    /// Work requests of a shared receive queue.
    pub max_srq_wr: u32,
    /// Scatter/gather elements of a work request of a shared receive queue.
    pub max_srq_sge: u32,
    /// Number of XRC domains.
    pub max_xrc_domains: u32,
    /// Number of memory windows. They share a table with the memory regions.
    pub max_mw: u32,
    /// Number of address handles.
    pub max_ah: u32,
    /// Multicast groups to which QPs may be attached.
    pub max_multicast_groups: u32,
    /// QPs that may be attached to one multicast group.
    pub max_multicast_qps: u32,
    /// Bytes of the device's own memory.
    pub device_memory_length: u64,
    /// Entries of the GID table.
    pub max_gids: u16,
    /// Number of ports.
    pub ports: u8,
    /// Number of completion vectors.
    pub completion_vectors: u16,
    /// Local ACK delay as its 5-bit code.
    pub local_ack_delay: u8,
    /// Bytes of the longest message.
    pub max_message_size: u64,
    /// Largest path MTU, as the number of [`PathMtu`](crate::PathMtu).
    pub max_path_mtu: u8,
    /// True if the device has atomics.
    pub atomics: bool,
    /// True if atomics are atomic also with respect to the host's processors and other devices.
    pub global_atomics: bool,
    /// True if the device has FLUSH that makes writes visible to all readers.
    pub flush: bool,
    /// True if the device has FLUSH that makes writes persistent.
    pub persistent_flush: bool,
    /// True if the device has ATOMIC WRITE.
    pub atomic_write: bool,
    /// True if the device has reliable connections.
    pub reliable_connected: bool,
    /// True if the device has extended reliable connections (XRC).
    pub extended_reliable_connected: bool,
    /// True if the device has shared receive queues.
    pub shared_receive_queues: bool,
    /// True if the device has memory windows of types 1 and 2B.
    pub memory_windows: bool,
    /// True if a QP in a multicast group receives its own datagrams to the group, and can disable
    /// that.
    pub own_multicast: bool,
    /// True if the device has unreliable datagrams.
    pub unreliable_datagram: bool,
    /// True if the device has unreliable connections.
    pub unreliable_connected: bool,
}

/// Limits for the driver's own use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) version: ContractVersion,
    pub(crate) tables: ContextTables,
    /// Base-2 logarithm of the bytes of private area for each QP; zero: none.
    pub(crate) log_private_bytes: u8,
    pub(crate) log_send_blocks: u8,
    pub(crate) log_receives: u8,
    pub(crate) log_cqes: u8,
    pub(crate) log_eqes: u8,
    pub(crate) max_sge: u32,
    pub(crate) max_send_blocks: u32,
    pub(crate) max_inline: u32,
    pub(crate) features: DeviceFeatures,
    pub(crate) page_sizes: u64,
    pub(crate) max_mr_length: u64,
    pub(crate) device_memory_length: u64,
}

impl Limits {
    /// Reduces the limits in the device's answer to the limits of the contract and of this driver.
    ///
    /// # Errors
    ///
    /// [`Error::BadAnswer`] when a limit makes every object impossible.
    pub(crate) fn new(
        answer: &DeviceCapabilities,
        version: ContractVersion,
    ) -> Result<Self, Error> {
        let tables = ContextTables {
            log_qps: answer.log_max_qps.min(LOG_QPS),
            log_cqs: answer.log_max_cqs.min(LOG_CQS),
            log_srqs: answer.log_max_srqs.min(LOG_SRQS),
            log_mrs: answer.log_max_mrs.min(LOG_MRS),
            log_mtts: answer.log_max_mtts.min(LOG_MTTS),
            ..ContextTables::default()
        };
        let reserved = answer.reserved_qps;
        if reserved >= 1 << tables.log_qps || answer.qpn_base > 0xff_ffff {
            let what = "no QPN is left";
            return Err(Error::BadAnswer { what });
        }
        if answer.log_private_bytes > LOG_PRIVATE_BYTES_MAX {
            let what = "the size of the private area";
            return Err(Error::BadAnswer { what });
        }
        let mut features = answer.features;
        if !version.has_cq_resize_feature() {
            features.set_cq_resize(true);
        }
        let limits = Self {
            version,
            tables,
            log_private_bytes: answer.log_private_bytes,
            log_send_blocks: answer.log_max_send_blocks.min(LOG_SEND_BLOCKS_MAX),
            log_receives: answer.log_max_receives.min(LOG_ENTRIES_MAX),
            log_cqes: answer.log_max_cqes.min(LOG_ENTRIES_MAX),
            log_eqes: answer.log_max_eqes.min(LOG_EVENTS_MAX),
            max_sge: u32::from(answer.max_data_segments).min(MAX_DATA_SEGMENTS as u32),
            max_send_blocks: u32::from(answer.max_send_blocks).min(MAX_BLOCKS as u32),
            max_inline: u32::from(answer.max_inline).min(MAX_INLINE as u32),
            features,
            page_sizes: answer.page_sizes,
            max_mr_length: answer.max_mr_length,
            device_memory_length: answer.device_memory_length.min(BAR4_SIZE).into(),
        };
        if limits.max_sge == 0 || limits.max_send_blocks == 0 || limits.page_sizes & 0x1000 == 0 {
            let what = "a limit is zero";
            return Err(Error::BadAnswer { what });
        }
        Ok(limits)
    }

    /// Returns the maximum number of protection domains.
    pub(crate) fn max_pds(&self) -> u32 {
        MAX_PDS
    }

    /// Returns the maximum number of XRC domains.
    pub(crate) fn max_xrc_domains(&self) -> u32 {
        MAX_XRC_DOMAINS
    }

    /// Returns the limits for applications.
    pub(crate) fn capabilities(&self, answer: &DeviceCapabilities) -> Capabilities {
        let send_wr = (1u32 << self.log_send_blocks) / USUAL_WQE_BLOCKS;
        let features = self.features;
        let when = |feature: bool, limit: u32| if feature { limit } else { 0 };
        let srqs = features.shared_receive_queues();
        // A device may keep entry 0, so that no key and no SRQN is zero.
        let max_srq = (1 << self.tables.log_srqs) - 1;
        let max_mr = (1 << self.tables.log_mrs) - 1;
        Capabilities {
            firmware_version: text(&answer.firmware_version),
            max_qp: (1 << self.tables.log_qps) - answer.reserved_qps,
            max_qp_wr: send_wr
                .max(1)
                .min(1 << self.log_receives)
                .min(MAX_WORK_REQUESTS),
            max_sge: self.max_sge,
            max_sge_rd: self.max_sge,
            max_cq: 1 << self.tables.log_cqs,
            max_cqe: 1 << self.log_cqes,
            max_mr,
            max_mw: when(features.memory_windows(), max_mr),
            max_pd: self.max_pds(),
            // With the smallest pages; a region of huge pages may be longer.
            max_mr_size: self.max_mr_length.min(0x1000 << self.tables.log_mtts),
            page_sizes: self.page_sizes,
            max_inline_data: self.max_inline,
            max_rd_atomic: answer.max_rd_atomic,
            max_dest_rd_atomic: answer.max_dest_rd_atomic,
            max_srq: when(srqs, max_srq),
            max_srq_wr: when(srqs, (1 << self.log_receives).min(MAX_WORK_REQUESTS)),
            max_srq_sge: when(srqs, self.max_sge),
            max_xrc_domains: when(
                features.extended_reliable_connected(),
                self.max_xrc_domains(),
            ),
            max_ah: MAX_ADDRESS_HANDLES,
            max_multicast_groups: answer.max_multicast_groups,
            max_multicast_qps: answer.max_multicast_qps,
            device_memory_length: self.device_memory_length,
            max_gids: answer.max_gids,
            local_ack_delay: answer.local_ack_delay & 0x1f,
            max_message_size: answer.max_message_length,
            max_path_mtu: answer.max_path_mtu.clamp(1, 5),
            atomics: features.atomics(),
            global_atomics: features.atomics() && features.global_atomics(),
            flush: features.flush(),
            persistent_flush: features.persistent_flush(),
            atomic_write: features.atomic_write(),
            reliable_connected: features.reliable_connected(),
            unreliable_datagram: features.unreliable_datagram(),
            unreliable_connected: features.unreliable_connected(),
            extended_reliable_connected: features.extended_reliable_connected(),
            shared_receive_queues: srqs,
            memory_windows: features.memory_windows(),
            own_multicast: features.own_multicast(),
            ..Capabilities::default()
        }
    }
}

/// Returns the printable ASCII characters up to the first zero.
fn text(bytes: &[u8]) -> String {
    bytes
        .iter()
        .take_while(|&&byte| byte != 0)
        .filter(|byte| byte.is_ascii_graphic() || **byte == b' ')
        .map(|&byte| char::from(byte))
        .collect()
}

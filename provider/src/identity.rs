//! Identity of the device: names, identifiers, attributes of device and port.

use std::ops::RangeInclusive;

use ferroce_driver::Capabilities;
use ferroce_platform::host::HostIdentity;

use crate::abi::*;
use crate::on_demand;

/// Returns the name of a device's uverbs, which programs use for a character device.
pub fn uverbs_name(device: u8) -> String {
    format!("uverbs{device}")
}

/// Returns the index that the kernel would give a device.
pub fn device_index(device: u8) -> i32 {
    i32::from(device) + 1
}

/// Vendor of the card: the PCI vendor of its FPGA.
pub const VENDOR_ID: u32 = 0x1172;
/// PCI device identifier of the card, as lspci will show it.
pub const PCI_DEVICE_ID: u32 = 0xf10a;
/// `vendor_part_id` of verbs.
///
/// perftest chooses its way of posting by it: an unknown part gets no inline at all, this one gets
/// `ibv_post_send` with perftest's default inline sizes (220 bytes for WRITE, 236 for SEND), the
/// ConnectX parts get `ibv_wr_*`. The variable FERROCE_PART_ID overrides it.
pub const DEFAULT_PART_ID: u32 = 0x8070;

/// Rate of the device clock, which time stamps of completions count, in kHz.
pub const CLOCK_KHZ: u64 = 1_000_000;
/// Speed of the port in units of 100 Mb/s, unless the card sets another.
pub const PORT_SPEED_100MBPS: u64 = 1000;
/// The port's only P_Key: full member of the default partition.
pub const P_KEY: u16 = 0xffff;

/// Returns the `vendor_part_id`: the user's choice, otherwise the modelled card's, if a particular
/// card is modelled.
pub fn part_id(modelled: Option<u32>) -> u32 {
    std::env::var("FERROCE_PART_ID")
        .ok()
        .and_then(|text| parse_part_id(&text))
        .or(modelled)
        .unwrap_or(DEFAULT_PART_ID)
}

/// Parses a part identifier: hexadecimal, with or without 0x.
fn parse_part_id(text: &str) -> Option<u32> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    u32::from_str_radix(digits, 16).ok()
}

/// PCI device identifiers of the cards that libmlx5 drives: Connect-IB, ConnectX-4 and its
/// successors; BlueField.
const MLX5_PARTS: [RangeInclusive<u32>; 2] = [0x1011..=0x102f, 0xa2d2..=0xa2df];

/// Returns true if programs take this `vendor_part_id` for a card that libmlx5 drives.
pub fn is_mlx5_part(part_id: u32) -> bool {
    MLX5_PARTS.iter().any(|parts| parts.contains(&part_id))
}

/// Returns an upper bound as an `int`, like verbs.h.
pub fn as_int(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Returns the attributes of the device.
pub fn device_attributes(
    capabilities: &Capabilities,
    host: &HostIdentity,
    part_id: u32,
) -> ibv_device_attr {
    let mut attr = zeroed_device_attr();
    copy_text(&mut attr.fw_ver, &capabilities.firmware_version);
    attr.node_guid = u64::from_ne_bytes(host.node_guid);
    attr.sys_image_guid = attr.node_guid;
    attr.max_mr_size = capabilities.max_mr_size;
    attr.page_size_cap = capabilities.page_sizes;
    attr.vendor_id = VENDOR_ID;
    attr.vendor_part_id = part_id;
    attr.hw_ver = capabilities.hardware_version;
    attr.max_qp = as_int(capabilities.max_qp);
    attr.max_qp_wr = as_int(capabilities.max_qp_wr);
    attr.device_cap_flags = capability_flags(capabilities);
    attr.max_sge = as_int(capabilities.max_sge);
    attr.max_sge_rd = as_int(capabilities.max_sge_rd);
    attr.max_cq = as_int(capabilities.max_cq);
    attr.max_cqe = as_int(capabilities.max_cqe);
    attr.max_mr = as_int(capabilities.max_mr);
    attr.max_pd = as_int(capabilities.max_pd);
    attr.max_qp_rd_atom = i32::from(capabilities.max_dest_rd_atomic);
    attr.max_qp_init_rd_atom = i32::from(capabilities.max_rd_atomic);
    attr.max_res_rd_atom = attr.max_qp_rd_atom.saturating_mul(attr.max_qp);
    // The value of ConnectX, which programs check: UCX 1.13 uses no atomics on a device that
    // reports more. Atomicity with respect to the processor is in `pci_atomic_caps`.
    attr.atomic_cap = if capabilities.atomics {
        IBV_ATOMIC_HCA
    } else {
        IBV_ATOMIC_NONE
    };
    attr.max_mw = as_int(capabilities.max_mw);
    attr.max_mcast_grp = as_int(capabilities.max_multicast_groups);
    attr.max_mcast_qp_attach = as_int(capabilities.max_multicast_qps);
    attr.max_total_mcast_qp_attach = attr.max_mcast_grp.saturating_mul(attr.max_mcast_qp_attach);
    attr.max_ah = as_int(capabilities.max_ah);
    attr.max_srq = as_int(capabilities.max_srq);
    attr.max_srq_wr = as_int(capabilities.max_srq_wr);
    attr.max_srq_sge = as_int(capabilities.max_srq_sge);
    attr.max_pkeys = 1;
    attr.local_ca_ack_delay = capabilities.local_ack_delay;
    attr.phys_port_cnt = 1;
    attr
}

/// Returns `enum ibv_device_cap_flags`. Not among them: resizing SRQs, automatic path migration,
/// and fast registration by work request, for which verbs have no call.
fn capability_flags(capabilities: &Capabilities) -> u32 {
    let mut flags = IBV_DEVICE_CURR_QP_STATE_MOD
        | IBV_DEVICE_PORT_ACTIVE_EVENT
        | IBV_DEVICE_SYS_IMAGE_GUID
        | IBV_DEVICE_RC_RNR_NAK_GEN;
    if capabilities.memory_windows {
        flags |= IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    }
    if capabilities.extended_reliable_connected {
        flags |= IBV_DEVICE_XRC;
    }
    flags
}

/// Returns the extended attributes of the device. Zero means that the feature is missing: TSO, RSS,
/// raw packets, packet pacing, tag matching.
pub fn device_attributes_ex(
    capabilities: &Capabilities,
    host: &HostIdentity,
    part_id: u32,
) -> ibv_device_attr_ex {
    let mut attr = zeroed_device_attr_ex();
    attr.orig_attr = device_attributes(capabilities, host, part_id);
    attr.device_cap_flags_ex = u64::from(attr.orig_attr.device_cap_flags);
    for (has, flag) in [
        (capabilities.flush, IBV_DEVICE_FLUSH_GLOBAL),
        (capabilities.persistent_flush, IBV_DEVICE_FLUSH_PERSISTENT),
        (capabilities.atomic_write, IBV_DEVICE_ATOMIC_WRITE),
    ] {
        if has {
            attr.device_cap_flags_ex |= flag;
        }
    }
    attr.phys_port_cnt_ex = 1;
    attr.completion_timestamp_mask = u64::MAX;
    attr.hca_core_clock = CLOCK_KHZ;
    attr.cq_mod_caps = ibv_cq_moderation_caps {
        max_cq_count: u16::MAX,
        max_cq_period: u16::MAX,
    };
    attr.max_dm_size = capabilities.device_memory_length;
    (attr.odp_caps, attr.xrc_odp_caps) = on_demand::capabilities(capabilities);
    if capabilities.global_atomics {
        attr.pci_atomic_caps.fetch_add = IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP;
        attr.pci_atomic_caps.compare_swap = IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP;
    }
    attr
}

/// Returns the length of the GID table: the host's entries, then empty ones, as on every RoCE card.
/// Programs read all of them.
pub fn gid_table_length(capabilities: &Capabilities, host: &HostIdentity) -> usize {
    usize::from(capabilities.max_gids).max(host.gids.len())
}

/// Returns the attributes of the only port.
pub fn port_attributes(
    capabilities: &Capabilities,
    host: &HostIdentity,
    active_mtu: u8,
    speed_100mbps: u64,
    link_is_up: bool,
) -> ibv_port_attr {
    let (state, phys_state) = if link_is_up {
        (IBV_PORT_ACTIVE, PHYS_STATE_LINK_UP)
    } else {
        (IBV_PORT_DOWN, PHYS_STATE_DISABLED)
    };
    let (active_width, active_speed) = lanes(speed_100mbps);
    ibv_port_attr {
        state,
        max_mtu: i32::from(capabilities.max_path_mtu),
        active_mtu: i32::from(active_mtu),
        gid_tbl_len: i32::try_from(gid_table_length(capabilities, host)).unwrap_or(i32::MAX),
        port_cap_flags: IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        max_msg_sz: u32::try_from(capabilities.max_message_size).unwrap_or(u32::MAX),
        bad_pkey_cntr: 0,
        qkey_viol_cntr: 0,
        pkey_tbl_len: 1,
        lid: 0,
        sm_lid: 0,
        lmc: 0,
        max_vl_num: 1,
        sm_sl: 0,
        subnet_timeout: 0,
        init_type_reply: 0,
        active_width,
        active_speed,
        phys_state,
        link_layer: IBV_LINK_LAYER_ETHERNET,
        flags: 0,
        port_cap_flags2: 0,
        active_speed_ex: u32::from(active_speed),
    }
}

/// Lanes of Ethernet ports, by the maximum speed in units of 100 Mb/s: number and speed.
const PORTS: [(u64, u8, u8); 8] = [
    (25, WIDTH_1X, SPEED_SDR),
    (100, WIDTH_1X, SPEED_QDR),
    (250, WIDTH_1X, SPEED_EDR),
    (400, WIDTH_4X, SPEED_QDR),
    (500, WIDTH_1X, SPEED_HDR),
    (560, WIDTH_4X, SPEED_FDR),
    (1000, WIDTH_4X, SPEED_EDR),
    (2000, WIDTH_4X, SPEED_HDR),
];

/// Returns `active_width` and `active_speed` of a port: the fewest and slowest lanes with its data
/// rate.
fn lanes(speed_100mbps: u64) -> (u8, u8) {
    let mut ports = PORTS.iter().filter(|(most, ..)| *most >= speed_100mbps);
    let port = ports.next();
    port.map_or((WIDTH_4X, SPEED_NDR), |(_, width, speed)| (*width, *speed))
}

/// Copies text into an array of C characters, truncated to fit, with a final zero.
pub fn copy_text(destination: &mut [libc::c_char], text: &str) {
    let room = destination.len().saturating_sub(1);
    for (slot, byte) in destination
        .iter_mut()
        .zip(text.bytes().take(room).chain(std::iter::once(0)))
    {
        *slot = byte as libc::c_char;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_ids_are_hexadecimal() {
        assert_eq!(parse_part_id("0x8070"), Some(0x8070));
        assert_eq!(parse_part_id("1017"), Some(0x1017));
        assert_eq!(parse_part_id("connectx"), None);
    }

    #[test]
    fn ports_have_the_lanes_of_their_rate() {
        assert_eq!(lanes(PORT_SPEED_100MBPS), (2, 32));
        assert_eq!(lanes(100), (1, 4));
        assert_eq!(lanes(250), (1, 32));
        assert_eq!(lanes(400), (2, 4));
        assert_eq!(lanes(543), (2, 16));
        assert_eq!(lanes(2000), (2, 64));
        assert_eq!(lanes(4000), (2, 128));
        assert_eq!(lanes(0), (1, 1));
        assert_eq!(lanes(u64::MAX), (2, 128));
    }

    #[test]
    fn texts_are_cut_and_terminated() {
        let mut text = [1; 4];
        copy_text(&mut text, "abcdef");
        assert_eq!(text.map(|byte| byte as u8), *b"abc\0");
    }
}

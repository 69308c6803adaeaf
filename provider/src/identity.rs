//! What the device says of itself: names, identifiers, attributes of device and port.

use crate::ffi::abi::*;
use ferroce_driver::Capabilities;
use ferroce_sim::host::HostIdentity;

/// Name of the only device.
pub const DEVICE_NAME: &str = "ferroce0";
/// Its uverbs name, under which programs look for a character device.
pub const UVERBS_NAME: &str = "uverbs0";
/// Index that the kernel would give it.
pub const DEVICE_INDEX: i32 = 1;

/// Vendor of the card: the PCI vendor of its FPGA.
pub const VENDOR_ID: u32 = 0x1172;
/// PCI device identifier of the card, as lspci will show it.
pub const PCI_DEVICE_ID: u32 = 0xf10a;
/// `vendor_part_id` of verbs.
///
/// perftest derives from it how it posts: an unknown part gets no inline at all, this one gets
/// `ibv_post_send` with perftest's default inline sizes (220 bytes for WRITE, 236 for SEND), the
/// ConnectX parts get `ibv_wr_*`. The variable FERROCE_PART_ID overrides it.
pub const DEFAULT_PART_ID: u32 = 0x8070;

/// Rate of the device clock, which time stamps of completions count, in kHz.
pub const CLOCK_KHZ: u64 = 1_000_000;
/// Speed of the port in units of 100 Mb/s.
pub const PORT_SPEED_100MBPS: u64 = 1000;
/// The port's only P_Key: full member of the default partition.
pub const P_KEY: u16 = 0xffff;

/// `vendor_part_id` after the user's wish.
pub fn part_id() -> u32 {
    std::env::var("FERROCE_PART_ID")
        .ok()
        .and_then(|text| parse_part_id(&text))
        .unwrap_or(DEFAULT_PART_ID)
}

/// Part identifiers are written in hexadecimal, with or without 0x.
fn parse_part_id(text: &str) -> Option<u32> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    u32::from_str_radix(digits, 16).ok()
}

/// An upper bound as verbs.h has it, an `int`.
pub fn as_int(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Attributes of the device.
pub fn device_attributes(capabilities: &Capabilities, host: &HostIdentity) -> ibv_device_attr {
    let mut attr = zeroed_device_attr();
    copy_text(&mut attr.fw_ver, &capabilities.firmware_version);
    attr.node_guid = u64::from_ne_bytes(host.node_guid);
    attr.sys_image_guid = attr.node_guid;
    attr.max_mr_size = capabilities.max_mr_size;
    attr.page_size_cap = capabilities.page_sizes;
    attr.vendor_id = VENDOR_ID;
    attr.vendor_part_id = part_id();
    attr.hw_ver = capabilities.hardware_version;
    attr.max_qp = as_int(capabilities.max_qp);
    attr.max_qp_wr = as_int(capabilities.max_qp_wr);
    attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD
        | IBV_DEVICE_PORT_ACTIVE_EVENT
        | IBV_DEVICE_SYS_IMAGE_GUID
        | IBV_DEVICE_RC_RNR_NAK_GEN;
    attr.max_sge = as_int(capabilities.max_sge);
    attr.max_sge_rd = as_int(capabilities.max_sge_rd);
    attr.max_cq = as_int(capabilities.max_cq);
    attr.max_cqe = as_int(capabilities.max_cqe);
    attr.max_mr = as_int(capabilities.max_mr);
    attr.max_pd = as_int(capabilities.max_pd);
    attr.max_qp_rd_atom = i32::from(capabilities.max_dest_rd_atomic);
    attr.max_qp_init_rd_atom = i32::from(capabilities.max_rd_atomic);
    attr.max_res_rd_atom = attr.max_qp_rd_atom.saturating_mul(attr.max_qp);
    attr.atomic_cap = IBV_ATOMIC_NONE;
    attr.max_ah = MAX_AH;
    attr.max_pkeys = 1;
    attr.local_ca_ack_delay = capabilities.local_ack_delay;
    attr.phys_port_cnt = 1;
    attr
}

/// Address handles are memory of the program; the number is a matter of form.
const MAX_AH: i32 = 1 << 16;

/// Entries of the GID table, of which the first are those of the host and the others empty, as on
/// every RoCE card. Programs look at each.
pub fn gid_table_length(capabilities: &Capabilities, host: &HostIdentity) -> usize {
    usize::from(capabilities.max_gids).max(host.gids.len())
}

/// Attributes of the only port.
pub fn port_attributes(capabilities: &Capabilities, host: &HostIdentity) -> ibv_port_attr {
    ibv_port_attr {
        state: IBV_PORT_ACTIVE,
        max_mtu: i32::from(capabilities.max_path_mtu),
        active_mtu: i32::from(capabilities.max_path_mtu),
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
        active_width: WIDTH_4X,
        active_speed: SPEED_EDR,
        phys_state: PHYS_STATE_LINK_UP,
        link_layer: IBV_LINK_LAYER_ETHERNET,
        flags: 0,
        port_cap_flags2: 0,
        active_speed_ex: u32::from(SPEED_EDR),
    }
}

/// Copies text into an array of C characters, cut to fit, with a zero behind it.
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
    fn texts_are_cut_and_terminated() {
        let mut text = [1; 4];
        copy_text(&mut text, "abcdef");
        assert_eq!(text.map(|byte| byte as u8), *b"abc\0");
    }
}

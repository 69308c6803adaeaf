//! The path to a destination, which the context of a QP and the WQE of a datagram have.

use crate::layout::layout;

layout! {
    /// Path to a destination: everything that Ethernet, IP and UDP headers need.
    pub struct AddressPath: 56 {
        0x00 dest_gid: [u8; 16], "Destination GID: an IPv6 or IPv4-mapped address.";
        0x10 dest_mac: [u8; 6], "MAC address of the next hop.";
        0x16 vlan: u16, "VLAN tag control information; 0xffff: no tag.";
        0x18 source_gid_index: u16, "Index in the function's GID table.";
        0x1a udp_source_port: u16, "UDP source port.";
        0x1c traffic_class: u8, "IPv6 traffic class, IPv4 type of service.";
        0x1d hop_limit: u8, "IPv6 hop limit, IPv4 time to live.";
        0x1e service_level: u8, "Service level, 0 to 15: the Ethernet priority.";
        0x1f reserved: u8, "Zero.";
        0x20 flow_label: u32, "IPv6 flow label, 20 bits.";
        0x24 static_rate: u32, "Rate limit as an ibv_rate number; zero: none.";
        0x28 reserved_28: [u64; 2], "Zero.";
    }
}

//! What the tree holds: the device's classes, its port and its device files.

use std::fmt::Write as _;

use ferroce_platform::host::{HostIdentity, device_name};

use super::node::Tree;
use super::pci;
use crate::counter_files;
use crate::identity::{self, uverbs_name};
use crate::rdma_cm;

/// Version of uverbs that the kernel and all current libraries use.
const UVERBS_ABI_VERSION: u32 = 6;

/// Target of the tree's device files, because programs check for a character device. Opening RDMA
/// CM's file is intercepted before; nothing opens the others.
const CHARACTER_DEVICE: &str = "/dev/null";

/// Returns the tree of a process with these devices.
pub(super) fn tree(hosts: &[HostIdentity]) -> Tree {
    let mut tree = Tree::default();
    let abi_version = UVERBS_ABI_VERSION.to_string();
    tree.file(
        "sys/class/infiniband_verbs/abi_version".into(),
        &abi_version,
    );
    pci::add_devices(&mut tree, hosts);
    for host in hosts {
        add_device(&mut tree, host);
    }
    let misc = "sys/class/misc/rdma_cm";
    let abi_version = rdma_cm::ABI_VERSION.to_string();
    tree.file(format!("{misc}/abi_version"), &abi_version);
    let (major, minor) = rdma_cm::DEVICE_NUMBER;
    tree.file(format!("{misc}/dev"), &format!("{major}:{minor}"));
    tree.link_outside("dev/infiniband/rdma_cm".into(), CHARACTER_DEVICE.into());
    tree
}

fn add_device(tree: &mut Tree, host: &HostIdentity) {
    let (device_name, uverbs_name) = (device_name(host.device), uverbs_name(host.device));
    let card = pci::path_of_card(host.device);
    let device = format!("{card}/infiniband/{device_name}");
    let uverbs = format!("{card}/infiniband_verbs/{uverbs_name}");
    let class = format!("sys/class/infiniband/{device_name}");
    let verbs_class = format!("sys/class/infiniband_verbs/{uverbs_name}");
    ib_device(tree, &device, host);
    port(tree, &format!("{device}/ports/1"), host);
    tree.file(format!("{uverbs}/ibdev"), &device_name);
    tree.file(format!("{uverbs}/abi_version"), "1");
    // Numbers of the first uverbs devices.
    let number = 192 + u32::from(host.device);
    tree.file(format!("{uverbs}/dev"), &format!("231:{number}"));
    for (directory, class) in [(device, class), (uverbs, verbs_class)] {
        let (class_directory, _) = class.rsplit_once('/').unwrap_or_default();
        tree.link(format!("{directory}/device"), &card);
        tree.link(format!("{directory}/subsystem"), class_directory);
        tree.link(class, &directory);
    }
    let device_file = format!("dev/infiniband/{uverbs_name}");
    tree.link_outside(device_file, CHARACTER_DEVICE.into());
}

fn ib_device(tree: &mut Tree, device: &str, host: &HostIdentity) {
    let mut add = |name: &str, text: String| tree.file(format!("{device}/{name}"), &text);
    let guid = groups(&host.node_guid);
    add("node_guid", guid.clone());
    add("sys_image_guid", guid);
    add("node_type", "1: CA".into());
    add(
        "node_desc",
        format!("{} {}", device_name(host.device), host.name),
    );
    add("fw_ver", env!("CARGO_PKG_VERSION").into());
    add("hw_rev", "1".into());
    add("hca_type", "FERROCE".into());
    add("board_id", "FERROCE01".into());
}

fn port(tree: &mut Tree, port: &str, host: &HostIdentity) {
    let mut add = |name: String, text: &str| tree.file(format!("{port}/{name}"), text);
    add("state".into(), "4: ACTIVE");
    add("phys_state".into(), "5: LinkUp");
    add("link_layer".into(), "Ethernet");
    add(
        "rate".into(),
        &format!("{} Gb/sec (4X EDR)", identity::PORT_SPEED_100MBPS / 10),
    );
    add("lid".into(), "0x0");
    add("lid_mask_count".into(), "0");
    add("sm_lid".into(), "0x0");
    add("sm_sl".into(), "0");
    add("cap_mask".into(), "0x04010000");
    // Empty: the value is read when a program opens the file.
    for name in counter_files::names() {
        add(name, "");
    }
    add("pkeys/0".into(), &format!("{:#06x}", identity::P_KEY));
    for (index, entry) in host.gids.iter().enumerate() {
        add(format!("gids/{index}"), &groups(&entry.gid));
        add(format!("gid_attrs/types/{index}"), "RoCE v2");
        add(format!("gid_attrs/ndevs/{index}"), &entry.interface);
    }
}

/// Returns bytes in the format of GIDs and GUIDs in sysfs: four hexadecimal digits, colons between.
fn groups(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (index, pair) in bytes.chunks(2).enumerate() {
        if index != 0 {
            text.push(':');
        }
        for byte in pair {
            let _ = write!(text, "{byte:02x}");
        }
    }
    text
}

//! The cards as PCI devices, and the list of the machine's PCI devices with them in it.

use std::fmt::Write as _;

use ferroce_platform::host::HostIdentity;

use super::node::Tree;
use crate::identity::{PCI_DEVICE_ID, VENDOR_ID};

/// Host bridge of the cards. No machine has such a high PCI domain, so the redirection hides
/// nothing.
const BRIDGE: &str = "sys/devices/pcif10a:00";

/// Where the bus lists its devices, in the tree.
const LIST: &str = "sys/bus/pci/devices";

/// The machine's own list, by a path that is not redirected.
const MACHINE_LIST: &str = "/sys/bus/../bus/pci/devices";

/// Maximum number of the machine's devices in the list.
const MACHINE_DEVICES_LIMIT: usize = 4096;

/// Class code of the card: an InfiniBand controller.
const CLASS: u32 = 0x02_07_00;
/// Revision of the card.
const REVISION: u8 = 1;

/// Bytes of the configuration space that any user may read.
const CONFIG_LENGTH: usize = 64;
/// Lines of the file `resource`: six BARs, the ROM, six windows of a bridge.
const RESOURCE_COUNT: usize = 13;
/// One of them: begin, end and flags.
const RESOURCE: &str = "0x0000000000000000 0x0000000000000000 0x0000000000000000";

/// Returns the address of a card on the bus.
fn address(device: u8) -> String {
    format!("f10a:00:{device:02x}.0")
}

/// Returns the directory of a card in the tree.
pub(super) fn path_of_card(device: u8) -> String {
    format!("{BRIDGE}/{}", address(device))
}

/// Adds the cards, and the bus's list of devices.
pub(super) fn add_devices(tree: &mut Tree, hosts: &[HostIdentity]) {
    for host in hosts {
        add_card(tree, host);
        let link = format!("{LIST}/{}", address(host.device));
        tree.link(link, &path_of_card(host.device));
    }
    let Ok(entries) = std::fs::read_dir(MACHINE_LIST) else {
        return;
    };
    let mut names: Vec<_> = entries
        .flatten()
        .take(MACHINE_DEVICES_LIMIT)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    for name in names {
        let target = std::fs::canonicalize(format!("{MACHINE_LIST}/{name}")).ok();
        let target = target.and_then(|path| path.into_os_string().into_string().ok());
        if let Some(target) = target {
            tree.link_outside(format!("{LIST}/{name}"), target);
        }
    }
}

fn add_card(tree: &mut Tree, host: &HostIdentity) {
    let card = path_of_card(host.device);
    let mut add = |name: &str, text: &str| tree.file(format!("{card}/{name}"), text);
    let cpus = read_or("/sys/devices/system/cpu/online", "0");
    let possible_cpus = read_or("/sys/devices/system/cpu/possible", &cpus);
    add("vendor", &format!("{VENDOR_ID:#06x}"));
    add("device", &format!("{PCI_DEVICE_ID:#06x}"));
    add("subsystem_vendor", &format!("{VENDOR_ID:#06x}"));
    add("subsystem_device", &format!("{PCI_DEVICE_ID:#06x}"));
    add("class", &format!("{CLASS:#08x}"));
    add("revision", &format!("{REVISION:#04x}"));
    add("numa_node", "-1");
    add("local_cpulist", &cpus);
    add("local_cpus", &cpu_mask(&cpus, &possible_cpus));
    add("max_link_width", "16");
    add("current_link_width", "16");
    add("max_link_speed", "8.0 GT/s PCIe");
    add("current_link_speed", "8.0 GT/s PCIe");
    add("enable", "1");
    add("irq", "0");
    // The device's registers are not in the machine's address space.
    add("resource", &[RESOURCE; RESOURCE_COUNT].join("\n"));
    let modalias = modalias();
    add("modalias", &modalias);
    let address = address(host.device);
    add("uevent", &uevent(&address, &modalias));
    tree.bytes(format!("{card}/config"), config());
    tree.link_outside(format!("{card}/subsystem"), "/sys/bus/pci".into());
    // The machine's interfaces that the GID table names.
    let gids = host.gids.iter();
    let mut interfaces: Vec<&str> = gids.map(|entry| entry.interface.as_str()).collect();
    interfaces.sort_unstable();
    interfaces.dedup();
    tree.directory(format!("{card}/net"));
    for interface in interfaces {
        let target = format!("/sys/class/net/{interface}");
        tree.link_outside(format!("{card}/net/{interface}"), target);
    }
}

/// Returns the name by which the kernel would look for a driver.
fn modalias() -> String {
    let [_, base, sub, interface] = CLASS.to_be_bytes();
    let ids =
        |vendor: &str, device: &str| format!("{vendor}{VENDOR_ID:08X}{device}{PCI_DEVICE_ID:08X}");
    let (device, subsystem) = (ids("v", "d"), ids("sv", "sd"));
    format!("pci:{device}{subsystem}bc{base:02X}sc{sub:02X}i{interface:02X}")
}

/// Returns the file `uevent`, without a driver: no kernel driver is bound to the card.
fn uevent(address: &str, modalias: &str) -> String {
    format!(
        "PCI_CLASS={CLASS:X}\nPCI_ID={VENDOR_ID:04X}:{PCI_DEVICE_ID:04X}\n\
         PCI_SUBSYS_ID={VENDOR_ID:04X}:{PCI_DEVICE_ID:04X}\nPCI_SLOT_NAME={address}\n\
         MODALIAS={modalias}"
    )
}

/// Returns the standard header of the configuration space (PCI 3.0, 6.1), without BARs and
/// capabilities.
fn config() -> Vec<u8> {
    /// Memory space and bus mastering are enabled.
    const COMMAND: u16 = 0x0006;
    let ids = [VENDOR_ID as u16, PCI_DEVICE_ID as u16];
    let mut config = vec![0; CONFIG_LENGTH];
    let mut put = |offset: usize, value: u16| {
        config[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
    };
    for (offset, id) in [
        (0x00, ids[0]),
        (0x02, ids[1]),
        (0x2c, ids[0]),
        (0x2e, ids[1]),
    ] {
        put(offset, id);
    }
    put(0x04, COMMAND);
    config[0x08..0x0c].copy_from_slice(&(CLASS << 8 | u32::from(REVISION)).to_le_bytes());
    config
}

/// Returns a list of processors (`0-3,8`) as the kernel writes a mask: groups of 32 bits in
/// hexadecimal, as wide as the possible processors need.
fn cpu_mask(cpus: &str, possible: &str) -> String {
    let bits = ranges(possible)
        .map(|(_, last)| last + 1)
        .max()
        .unwrap_or(1);
    let mut groups = vec![0_u32; bits.div_ceil(32)];
    for (first, last) in ranges(cpus) {
        for cpu in first..=last.min(bits - 1) {
            groups[cpu / 32] |= 1 << (cpu % 32);
        }
    }
    let mut text = String::new();
    for (index, group) in groups.iter().enumerate().rev() {
        let group_bits = (bits - index * 32).min(32);
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(
            text,
            "{comma}{group:0width$x}",
            width = group_bits.div_ceil(4)
        );
    }
    text
}

/// Returns the ranges of a list of processors; numbers above the kernel's limit are ignored.
fn ranges(list: &str) -> impl Iterator<Item = (usize, usize)> {
    /// The most processors that Linux can be built for.
    const CPU_LIMIT: usize = 8192;
    list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (last < CPU_LIMIT).then_some((first, last))
    })
}

fn read_or(path: &str, otherwise: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|_| otherwise.into());
    text.trim().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_of_processors_reads_as_the_kernel_writes_it() {
        for (cpus, possible, expected) in [
            ("0-1", "0-1", "3"),
            ("0,2-3", "0-7", "0d"),
            ("0-39", "0-39", "ff,ffffffff"),
            ("32", "0-63", "00000001,00000000"),
            ("", "0-3", "0"),
            ("0-99999999999", "0-3", "0"),
        ] {
            assert_eq!(cpu_mask(cpus, possible), expected, "{cpus} of {possible}");
        }
    }

    #[test]
    fn the_identifiers_agree() {
        assert_eq!(&config()[..4], [0x72, 0x11, 0x0a, 0xf1]);
        let expected = "pci:v00001172d0000F10Asv00001172sd0000F10Abc02sc07i00";
        assert_eq!(modalias(), expected);
    }
}

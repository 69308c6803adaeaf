//! The files that the kernel would show for the device, for programs that read sysfs.
//!
//! They are real files in a directory of the user, created at the first request and shared by all
//! processes of the host. `ffi/interpose.rs` redirects paths of programs to it. The layout follows
//! the kernel's: the class directories hold links into a tree of devices, so that `realpath` of
//! `class/infiniband/ferroce0/device` ends in a PCI address and its parents can be walked.

use std::ffi::CString;
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use ferroce_platform::host::{HostIdentity, device_name};

use crate::counter_files;
use crate::errno::Errno;
use crate::host;
use crate::identity::{self, PCI_DEVICE_ID, VENDOR_ID, uverbs_name};
use crate::rdma_cm;

/// Directories that are redirected with everything below them.
const DIRECTORIES: [&[u8]; 4] = [
    b"/sys/class/misc/rdma_cm",
    b"/sys/class/infiniband",
    b"/sys/class/infiniband_verbs",
    b"/sys/devices/pcif10a:00",
];
/// Beginning of the device files that are redirected.
const DEVICE_FILES: &[u8] = b"/dev/infiniband/uverbs";

/// Host bridge of the cards. No machine has such a high PCI domain, so the redirection hides
/// nothing.
const PCI_BRIDGE: &str = "sys/devices/pcif10a:00";

/// Returns the address of a card on the bus.
fn pci_address(device: u8) -> String {
    format!("f10a:00:{device:02x}.0")
}

/// Version of uverbs that the kernel and all current libraries use.
const UVERBS_ABI_VERSION: u32 = 6;

/// Returns true if a path belongs to the device.
pub fn is_ours(path: &[u8]) -> bool {
    path.starts_with(DEVICE_FILES)
        || path == rdma_cm::DEVICE_FILE
        || DIRECTORIES.iter().any(|directory| {
            path.strip_prefix(*directory).is_some_and(|rest| {
                matches!(rest.first(), None | Some(b'/')) && !rest.starts_with(b"/..")
            })
        })
}

/// Returns the directory that stands for `/`, and creates it if needed. `None`: it cannot be
/// created, and no path is redirected.
pub fn root() -> Option<&'static CString> {
    static ROOT: OnceLock<Option<CString>> = OnceLock::new();
    ROOT.get_or_init(|| {
        let made = host::identities().and_then(|hosts| {
            let directory =
                ferroce_embed::runtime_directory().map_err(|error| Errno::new(error.errno()))?;
            make(&directory, hosts).map_err(|_| Errno::IO)
        });
        let path = made
            .inspect_err(|errno| tracing::warn!(?errno, "no sysfs tree"))
            .ok()?;
        CString::new(path.into_os_string().into_vec()).ok()
    })
    .as_ref()
}

/// An entry of the tree.
enum Node {
    File(String),
    Link(String),
    Directory,
}

/// The tree as a list of paths, parents before children.
type Tree = Vec<(String, Node)>;

/// Prefix of the names of trees that are being created; the process ID follows.
const UNFINISHED: &str = ".sysfs-";
/// A tree that has been in creation for longer than this is abandoned, if its process does not
/// exist.
const MAKING_TIME: Duration = Duration::from_secs(60);

/// Removes unfinished trees of processes that were killed.
fn sweep(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(UNFINISHED));
        let Some(process) = process.and_then(|process| process.parse::<u32>().ok()) else {
            continue;
        };
        // A process of another container is not in this /proc; its tree is kept for the same time.
        let is_gone = !Path::new(&format!("/proc/{process}")).exists();
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|time| time.elapsed().ok());
        if is_gone && age.is_some_and(|age| age > MAKING_TIME) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Creates the tree below `directory` and returns its root.
///
/// The name of the root depends on the content, so an existing tree is right.
fn make(directory: &Path, hosts: &[HostIdentity]) -> io::Result<PathBuf> {
    let tree = tree(hosts);
    let root = directory.join(format!("sysfs-{:016x}", fingerprint(&tree)));
    sweep(directory);
    if root.is_dir() {
        return Ok(root);
    }
    // Created under another name and moved into place at once, because other processes may be
    // reading or creating it.
    let aside = directory.join(format!("{UNFINISHED}{}", std::process::id()));
    let made = write_tree(&aside, &tree).and_then(|()| std::fs::rename(&aside, &root));
    if made.is_err() {
        let _ = std::fs::remove_dir_all(&aside);
    }
    if root.is_dir() {
        Ok(root)
    } else {
        made.map(|()| root)
    }
}

fn write_tree(root: &Path, tree: &Tree) -> io::Result<()> {
    for (path, node) in tree {
        let path = root.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        match node {
            Node::File(text) => std::fs::write(path, text)?,
            Node::Link(target) => symlink(target, path)?,
            Node::Directory => std::fs::create_dir_all(path)?,
        }
    }
    Ok(())
}

/// Returns the FNV-1a hash of everything in the tree.
fn fingerprint(tree: &Tree) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: &str| {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    for (path, node) in tree {
        add(path);
        match node {
            Node::File(text) | Node::Link(text) => add(text),
            Node::Directory => add(""),
        }
    }
    hash
}

fn tree(hosts: &[HostIdentity]) -> Tree {
    let mut tree = Tree::new();
    file(
        &mut tree,
        "sys/class/infiniband_verbs/abi_version".into(),
        &UVERBS_ABI_VERSION.to_string(),
    );
    for host in hosts {
        add_device(&mut tree, host);
    }
    let misc = "sys/class/misc/rdma_cm";
    let abi_version = rdma_cm::ABI_VERSION.to_string();
    file(&mut tree, format!("{misc}/abi_version"), &abi_version);
    let (major, minor) = rdma_cm::DEVICE_NUMBER;
    file(
        &mut tree,
        format!("{misc}/dev"),
        &format!("{major}:{minor}"),
    );
    // The status of the path: opening it is answered before.
    link(
        &mut tree,
        "dev/infiniband/rdma_cm".into(),
        "/dev/null".into(),
    );
    tree
}

fn add_device(tree: &mut Tree, host: &HostIdentity) {
    let (device_name, uverbs_name) = (device_name(host.device), uverbs_name(host.device));
    let pci_address = pci_address(host.device);
    let pci = format!("{PCI_BRIDGE}/{pci_address}");
    let device = format!("{pci}/infiniband/{device_name}");
    let uverbs = format!("{pci}/infiniband_verbs/{uverbs_name}");
    pci_device(tree, &pci, host);
    ib_device(tree, &device, host);
    port(tree, &format!("{device}/ports/1"), host);
    file(tree, format!("{uverbs}/ibdev"), &device_name);
    file(tree, format!("{uverbs}/abi_version"), "1");
    // Numbers of the first uverbs devices.
    let number = 192 + u32::from(host.device);
    file(tree, format!("{uverbs}/dev"), &format!("231:{number}"));
    link(
        tree,
        format!("{uverbs}/device"),
        format!("../../../{pci_address}"),
    );
    link(
        tree,
        format!("sys/class/infiniband/{device_name}"),
        format!("../../../{device}"),
    );
    link(
        tree,
        format!("sys/class/infiniband_verbs/{uverbs_name}"),
        format!("../../../{uverbs}"),
    );
    // Programs check whether it is a character device.
    link(
        tree,
        format!("dev/infiniband/{uverbs_name}"),
        "/dev/null".into(),
    );
}

fn file(tree: &mut Tree, path: String, text: &str) {
    tree.push((path, Node::File(format!("{text}\n"))));
}

/// Adds a link. Links in the tree are relative, so the tree may be anywhere.
fn link(tree: &mut Tree, path: String, target: String) {
    let target = target
        .strip_prefix("../../../sys/")
        .map(|rest| format!("../../{rest}"))
        .unwrap_or(target);
    tree.push((path, Node::Link(target)));
}

fn pci_device(tree: &mut Tree, pci: &str, host: &HostIdentity) {
    let mut add = |name: &str, text: String| file(tree, format!("{pci}/{name}"), &text);
    add("vendor", format!("{VENDOR_ID:#06x}"));
    add("device", format!("{PCI_DEVICE_ID:#06x}"));
    add("subsystem_vendor", format!("{VENDOR_ID:#06x}"));
    add("subsystem_device", format!("{PCI_DEVICE_ID:#06x}"));
    add("class", "0x020700".into());
    add("revision", "0x01".into());
    add("numa_node", "-1".into());
    add(
        "local_cpulist",
        read_or("/sys/devices/system/cpu/online", "0"),
    );
    add("max_link_width", "16".into());
    add("current_link_width", "16".into());
    add("max_link_speed", "8.0 GT/s PCIe".into());
    add("current_link_speed", "8.0 GT/s PCIe".into());
    // The machine's interfaces that the GID table names.
    let mut interfaces: Vec<&str> = host
        .gids
        .iter()
        .map(|entry| entry.interface.as_str())
        .collect();
    interfaces.sort_unstable();
    interfaces.dedup();
    tree.push((format!("{pci}/net"), Node::Directory));
    for interface in interfaces {
        let target = format!("/sys/class/net/{interface}");
        tree.push((format!("{pci}/net/{interface}"), Node::Link(target)));
    }
}

fn read_or(path: &str, otherwise: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|_| otherwise.into());
    text.trim().into()
}

fn ib_device(tree: &mut Tree, device: &str, host: &HostIdentity) {
    let mut add = |name: &str, text: String| file(tree, format!("{device}/{name}"), &text);
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
    tree.push((
        format!("{device}/device"),
        Node::Link("../../../".to_owned() + &pci_address(host.device)),
    ));
}

fn port(tree: &mut Tree, port: &str, host: &HostIdentity) {
    let mut add = |name: String, text: &str| file(tree, format!("{port}/{name}"), text);
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
    // Without a value: what a program opens is made at that moment.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_paths_of_the_device_are_ours() {
        for path in [
            "/sys/class/infiniband",
            "/sys/class/infiniband/",
            "/sys/class/infiniband/ferroce0/ports/1/state",
            "/sys/class/infiniband_verbs/abi_version",
            "/dev/infiniband/uverbs0",
            "/dev/infiniband/rdma_cm",
            "/sys/class/misc/rdma_cm/abi_version",
            "/sys/devices/pcif10a:00/f10a:00:00.0/vendor",
        ] {
            assert!(is_ours(path.as_bytes()), "{path}");
        }
        for path in [
            "/sys/class/net/lo",
            "/sys/class/infiniband_mad",
            "/sys/class/infiniband/../net",
            "/dev/infiniband/rdma_cm1",
            "/dev/null",
            "sys/class/infiniband",
        ] {
            assert!(!is_ours(path.as_bytes()), "{path}");
        }
    }

    /// Goal: only abandoned trees are removed. Method: trees of a process that does not exist, one
    /// of them old, and of one that exists.
    #[test]
    fn what_killed_processes_have_left_is_removed() {
        let parent = std::env::temp_dir().join(format!("ferroce-sweep-{}", std::process::id()));
        let own = std::process::id().to_string();
        // The kernel gives no process this number.
        let names =
            ["4194305", "4194306", &own, "x"].map(|process| format!("{UNFINISHED}{process}"));
        for name in &names {
            std::fs::create_dir_all(parent.join(name).join("sys")).expect("a directory");
        }
        for name in [&names[0], &names[2], &names[3]] {
            let directory = std::fs::File::open(parent.join(name)).expect("it is there");
            let old = std::time::SystemTime::now() - 2 * MAKING_TIME;
            directory.set_modified(old).expect("it is ours");
        }
        sweep(&parent);
        let left = names.map(|name| parent.join(name).exists());
        std::fs::remove_dir_all(&parent).expect("it is ours");
        assert_eq!(left, [false, true, true, true]);
    }

    #[test]
    fn the_tree_can_be_walked() {
        let parent = std::env::temp_dir().join(format!("ferroce-sysfs-{}", std::process::id()));
        std::fs::create_dir_all(&parent).expect("a directory");
        let named = |device| HostIdentity::named_device("sysfs-test", device, None);
        let hosts = [0, 1].map(|device| named(device).expect("a name"));
        let root = make(&parent, &hosts).expect("made");
        assert_eq!(make(&parent, &hosts).expect("there"), root);
        assert_ne!(make(&parent, &hosts[..1]).expect("another"), root);
        let device = root.join("sys/class/infiniband/ferroce0");
        let read = |path: &str| std::fs::read_to_string(device.join(path)).expect("a file");
        assert_eq!(read("ports/1/state"), "4: ACTIVE\n");
        assert_eq!(read("ports/1/gid_attrs/types/0"), "RoCE v2\n");
        assert_eq!(read("ports/1/gids/0").len(), 40);
        assert_eq!(read("device/vendor"), "0x1172\n");
        let other = root.join("sys/class/infiniband/ferroce1/node_guid");
        let other = std::fs::read_to_string(other).expect("a file");
        assert_ne!(read("node_guid"), other);
        let pci = device.join("device").canonicalize().expect("a directory");
        assert!(pci.ends_with("f10a:00:00.0"), "{pci:?}");
        assert!(device.join("device/net/lo").is_dir());
        for (verbs, device) in [("uverbs0", "ferroce0"), ("uverbs1", "ferroce1")] {
            let verbs = root.join("sys/class/infiniband_verbs").join(verbs);
            let name = std::fs::read_to_string(verbs.join("ibdev")).expect("a file");
            assert_eq!(name.trim(), device);
            assert!(verbs.join("device/infiniband").join(device).is_dir());
        }
        std::fs::remove_dir_all(&parent).expect("removed");
    }
}

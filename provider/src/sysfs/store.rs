//! Where the files are: a directory of the user, named after a hash of its content.

use std::fs::{OpenOptions, create_dir_all};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ferroce_platform::host::HostIdentity;

use super::node::{Node, Tree};
use super::tree::tree;

/// Prefix of the names of trees that are being created; the process ID and a number follow.
const UNFINISHED: &str = ".sysfs-";
/// A tree that has been in creation for longer than this is abandoned, if its process does not
/// exist.
const MAKING_TIME: Duration = Duration::from_secs(60);

/// Permissions of the files: in sysfs only the kernel changes them.
const READ_ONLY: u32 = 0o444;

/// Removes unfinished trees of processes that were killed.
fn sweep(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(UNFINISHED));
        let process = process.map(|rest| rest.split_once('-').map_or(rest, |(id, _)| id));
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
/// The name of the root is a hash of the content, so an existing tree is up to date.
pub(super) fn make(directory: &Path, hosts: &[HostIdentity]) -> io::Result<PathBuf> {
    let tree = tree(hosts);
    let root = directory.join(format!("sysfs-{:016x}", fingerprint(&tree)));
    sweep(directory);
    if root.is_dir() {
        return Ok(root);
    }
    // Created under another name and moved into place at once, because other processes may be
    // reading or creating it.
    let aside = unfinished(directory)?;
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

/// Creates a directory for a tree that is being created. Processes of several containers may have
/// the same ID.
fn unfinished(directory: &Path) -> io::Result<PathBuf> {
    /// Processes of one ID that create trees at a time.
    const SAME_ID_LIMIT: u32 = 256;
    let process = std::process::id();
    for number in 0..SAME_ID_LIMIT {
        let path = directory.join(format!("{UNFINISHED}{process}-{number}"));
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| path),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn write_tree(root: &Path, tree: &Tree) -> io::Result<()> {
    for (path, node) in tree.entries() {
        let path = root.join(path);
        if let Some(parent) = path.parent() {
            create_dir_all(parent)?;
        }
        match node {
            Node::File(bytes) => {
                let mut options = OpenOptions::new();
                let mut file = options
                    .write(true)
                    .create_new(true)
                    .mode(READ_ONLY)
                    .open(path)?;
                file.write_all(bytes)?;
            }
            Node::Link(target) => symlink(target, path)?,
            Node::Directory => create_dir_all(path)?,
        }
    }
    Ok(())
}

/// Returns the FNV-1a hash of everything in the tree.
fn fingerprint(tree: &Tree) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes.iter().chain(&[0]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    for (path, node) in tree.entries() {
        add(path.as_bytes());
        match node {
            Node::File(bytes) => add(bytes),
            Node::Link(target) => add(target.as_bytes()),
            Node::Directory => add(b""),
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: only abandoned trees are removed. Method: trees of a process that does not exist, one
    /// of them old, and of one that exists.
    #[test]
    fn what_killed_processes_have_left_is_removed() {
        let parent = std::env::temp_dir().join(format!("ferroce-sweep-{}", std::process::id()));
        let own = format!("{}-0", std::process::id());
        // The kernel gives no process this number.
        let names =
            ["4194305-7", "4194306-0", &own, "x"].map(|process| format!("{UNFINISHED}{process}"));
        for name in &names {
            create_dir_all(parent.join(name).join("sys")).expect("a directory");
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
        create_dir_all(&parent).expect("a directory");
        let named = |device| ferroce_platform::host::named_device("sysfs-test", device, None);
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
        let card = root.join("sys/bus/pci/devices/f10a:00:01.0");
        assert_eq!(
            card.canonicalize().expect("a link"),
            pci.with_file_name("f10a:00:01.0")
        );
        let config = std::fs::read(card.join("config")).expect("a file");
        assert_eq!(
            (config.len(), &config[..4]),
            (64, &[0x72, 0x11, 0x0a, 0xf1][..])
        );
        for (verbs, device) in [("uverbs0", "ferroce0"), ("uverbs1", "ferroce1")] {
            let verbs = root.join("sys/class/infiniband_verbs").join(verbs);
            let name = std::fs::read_to_string(verbs.join("ibdev")).expect("a file");
            assert_eq!(name.trim(), device);
            assert!(verbs.join("device/infiniband").join(device).is_dir());
        }
        std::fs::remove_dir_all(&parent).expect("removed");
    }
}

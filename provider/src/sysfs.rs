//! The files that the kernel would show for the device, for programs that read sysfs.
//!
//! They are real files in a directory of the user ([`store`]), created at the first request and
//! shared by all processes of the host. `ffi/interpose` redirects paths of programs to it. The
//! layout ([`tree`]) follows the kernel's: the class directories hold links into a tree of devices,
//! so that `realpath` of `class/infiniband/ferroce0/device` ends in a PCI address and its parents
//! can be walked.

use std::cell::Cell;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::OnceLock;

use crate::errno::Errno;
use crate::host;

mod node;
mod pci;
mod store;
mod tree;

/// Directories that are redirected with everything below them.
const DIRECTORIES: [&[u8]; 5] = [
    b"/sys/class/misc/rdma_cm",
    b"/sys/class/infiniband",
    b"/sys/class/infiniband_verbs",
    b"/sys/devices/pcif10a:00",
    b"/dev/infiniband",
];

/// The directory of the machine's PCI devices. The tree has its own one, with links to the cards
/// and to the machine's devices; paths below it are redirected for the cards only.
const PCI_DEVICES: &[u8] = b"/sys/bus/pci/devices";

/// Beginning of the names of the cards in [`PCI_DEVICES`].
const CARDS: &[u8] = b"/f10a:00:";

/// Returns true if a path, which [`normalize`] has returned, belongs to the device.
pub fn is_ours(path: &[u8]) -> bool {
    if let Some(rest) = path.strip_prefix(PCI_DEVICES) {
        return matches!(rest, b"" | b"/") || rest.starts_with(CARDS);
    }
    DIRECTORIES.iter().any(|directory| {
        path.strip_prefix(*directory).is_some_and(|rest| {
            matches!(rest.first(), None | Some(b'/')) && !rest.starts_with(b"/..")
        })
    })
}

/// Writes a path without repeated slashes and `.` into a buffer, and returns its length. `None`: it
/// is longer than the buffer. What `..` means depends on links, so it stays.
pub fn normalize(path: &[u8], buffer: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    let mut add = |bytes: &[u8]| {
        let end = length + bytes.len();
        buffer.get_mut(length..end)?.copy_from_slice(bytes);
        length = end;
        Some(())
    };
    let mut parts = path.split(|byte| *byte == b'/');
    add(parts.next()?)?;
    let mut ends_with_slash = false;
    for part in parts {
        ends_with_slash = matches!(part, b"" | b".");
        if !ends_with_slash {
            add(b"/")?;
            add(part)?;
        }
    }
    if ends_with_slash {
        // It makes the kernel follow a link at the end.
        add(b"/")?;
    }
    Some(length)
}

thread_local! {
    /// True while this thread creates the tree. Its own calls of libc come here, too.
    static IS_CREATING: Cell<bool> = const { Cell::new(false) };
}

/// Returns the directory that stands for `/`, and creates it if needed. `None`: it cannot be
/// created, and no path is redirected; or this thread is creating it.
pub fn root() -> Option<&'static CString> {
    static ROOT: OnceLock<Option<CString>> = OnceLock::new();
    if IS_CREATING.get() {
        return None;
    }
    ROOT.get_or_init(|| {
        IS_CREATING.set(true);
        let made = host::identities().and_then(|hosts| {
            let directory =
                ferroce_embed::runtime_directory().map_err(|error| Errno::new(error.errno()))?;
            store::make(&directory, hosts).map_err(|_| Errno::IO)
        });
        IS_CREATING.set(false);
        let path = made
            .inspect_err(|errno| tracing::warn!(?errno, "no sysfs tree"))
            .ok()?;
        CString::new(path.into_os_string().into_vec()).ok()
    })
    .as_ref()
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
            "/dev/infiniband",
            "/sys/bus/pci/devices",
            "/sys/bus/pci/devices/",
            "/sys/bus/pci/devices/f10a:00:00.0/vendor",
            "/sys/class/misc/rdma_cm/abi_version",
            "/sys/devices/pcif10a:00/f10a:00:00.0/vendor",
        ] {
            assert!(is_ours(path.as_bytes()), "{path}");
        }
        for path in [
            "/sys/class/net/lo",
            "/sys/class/infiniband_mad",
            "/sys/class/infiniband/../net",
            "/sys/bus/pci/devices/0000:00:00.0",
            "/sys/bus/pci",
            "/dev/infiniband1",
            "/dev/null",
            "sys/class/infiniband",
        ] {
            assert!(!is_ours(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn a_path_has_one_form() {
        for (path, expected) in [
            ("/sys/class", "/sys/class"),
            ("//sys/.//class/", "/sys/class/"),
            ("/sys/class/.", "/sys/class/"),
            ("/sys/../dev", "/sys/../dev"),
            ("class//x", "class/x"),
            ("", ""),
        ] {
            let mut buffer = [0; 16];
            let length = normalize(path.as_bytes(), &mut buffer);
            let normal = length.map(|length| &buffer[..length]);
            assert_eq!(normal, Some(expected.as_bytes()), "{path}");
        }
        assert_eq!(normalize(b"/sys/class", &mut [0; 8]), None);
    }
}

//! Every refusal, against machines made of files.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};

use vfio_ioctls::VfioError;

use super::card::{explain_device, explain_group};
use super::error::VfioOpenError;
use super::inspect::{Candidate, explain_node, inspect};
use crate::pci::tests::{FakeMachine, bdf};
use crate::pci::{FERROCE, PciId};

const CARD: &str = "0000:01:00.0";
const GROUP: u32 = 12;
const OTHER: PciId = PciId {
    vendor: 0x8086,
    device: 0x1572,
};

/// Returns a machine in which the card can be opened.
fn machine() -> FakeMachine {
    let machine = FakeMachine::new();
    machine.add(CARD, FERROCE, Some("vfio-pci"), Some(GROUP));
    machine.write("dev/vfio/vfio", "");
    machine.write(&format!("dev/vfio/{GROUP}"), "");
    machine
}

fn candidate(machine: &FakeMachine) -> Candidate {
    inspect(&machine.roots(), bdf(CARD)).expect("the card can be opened")
}

/// Returns the refusal of `address`, after a check that its text has all of `words`.
fn refusal(machine: &FakeMachine, address: &str, words: &[&str]) -> VfioOpenError {
    let error = inspect(&machine.roots(), bdf(address)).expect_err("it must be refused");
    check(error, words)
}

fn check(error: VfioOpenError, words: &[&str]) -> VfioOpenError {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
    error
}

fn errno(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// The crate's own type for an errno, which it does not export.
macro_rules! refused {
    ($variant:ident, $errno:expr) => {
        VfioError::$variant(errno($errno).into())
    };
}

#[test]
fn a_card_that_is_bound_to_vfio_is_taken() {
    let machine = machine();
    let found = candidate(&machine);
    assert_eq!((found.bdf, found.group), (bdf(CARD), GROUP));
    assert_eq!(found.device_node, None, "a kernel without device nodes");
    // With them, and with iommufd.
    machine.write(
        &format!("sys/bus/pci/devices/{CARD}/vfio-dev/vfio0/dev"),
        "511:0\n",
    );
    machine.write("dev/vfio/devices/vfio0", "");
    assert_eq!(
        candidate(&machine).device_node,
        None,
        "there is no /dev/iommu"
    );
    machine.write("dev/iommu", "");
    let node = candidate(&machine).device_node.expect("all is there");
    assert!(node.ends_with("dev/vfio/devices/vfio0"));
}

#[test]
fn no_such_device_says_which_there_are() {
    let machine = machine();
    let error = refusal(
        &machine,
        "0000:05:00.0",
        &["no PCI function 0000:05:00.0", CARD],
    );
    assert_eq!(error.errno(), libc::ENODEV);
    let empty = FakeMachine::new();
    refusal(&empty, CARD, &["no Ferroce card", "1172:f10a"]);
}

#[test]
fn another_device_is_not_ours() {
    let machine = machine();
    machine.add("0000:02:00.0", OTHER, Some("vfio-pci"), Some(13));
    let words = ["0000:02:00.0 is 8086:1572", "(1172:f10a)", CARD];
    let error = refusal(&machine, "0000:02:00.0", &words);
    assert!(matches!(error, VfioOpenError::NotFerroce { .. }));
}

#[test]
fn without_an_iommu_it_is_not_opened() {
    let machine = FakeMachine::new();
    machine.add(CARD, FERROCE, Some("vfio-pci"), None);
    let error = refusal(
        &machine,
        CARD,
        &["no IOMMU group", "intel_iommu=on", "runs no IOMMU"],
    );
    assert_eq!(error.errno(), libc::EPERM);
    // An IOMMU that covers other devices only.
    machine.add("0000:02:00.0", OTHER, None, Some(13));
    refusal(&machine, CARD, &["does not cover it"]);
    // A group may come with the driver.
    machine.add("0000:03:00.0", FERROCE, None, None);
    refusal(
        &machine,
        "0000:03:00.0",
        &["no driver", "ferroce bind 0000:03:00.0"],
    );
    // The kernel's mode without an IOMMU.
    let pretending = self::machine();
    pretending.write(
        &format!("sys/kernel/iommu_groups/{GROUP}/name"),
        "vfio-noiommu\n",
    );
    refusal(
        &pretending,
        CARD,
        &["enable_unsafe_noiommu_mode", "boot with an IOMMU"],
    );
}

#[test]
fn another_driver_is_named() {
    let machine = FakeMachine::new();
    machine.add(CARD, FERROCE, Some("ferroce_test"), Some(GROUP));
    machine.add("0000:03:00.0", FERROCE, None, Some(14));
    let words = ["the driver ferroce_test", "ferroce bind 0000:01:00.0"];
    let error = refusal(&machine, CARD, &words);
    assert_eq!(error.errno(), libc::ENODEV);
    refusal(
        &machine,
        "0000:03:00.0",
        &["no driver", "ferroce bind 0000:03:00.0"],
    );
}

#[test]
fn a_group_with_other_drivers_is_not_viable() {
    let machine = machine();
    machine.add("0000:00:1c.0", OTHER, Some("pcieport"), Some(GROUP));
    machine.add("0000:01:00.2", OTHER, None, Some(GROUP));
    machine.add("0000:01:00.3", OTHER, Some("mlx5_vfio_pci"), Some(GROUP));
    candidate(&machine);
    machine.add("0000:01:00.1", OTHER, Some("snd_hda_intel"), Some(GROUP));
    let words = [
        "group 12",
        "0000:01:00.1 is bound to snd_hda_intel",
        "ferroce bind --any",
    ];
    let error = refusal(&machine, CARD, &words);
    assert!(!error.to_string().contains("pcieport"), "{error}");
}

#[test]
fn nodes_that_cannot_be_opened_are_explained() {
    let machine = machine();
    let roots = machine.roots();
    let node = roots.group_node(GROUP);
    fs::set_permissions(&node, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let explain = |code| explain_node(&roots, bdf(CARD), &node, "vfio-pci", &errno(code));
    let error = check(
        explain(libc::EACCES),
        &["vfio/12", "mode 0600", "--user", "user "],
    );
    assert_eq!(error.errno(), libc::EACCES);
    let error = check(
        explain(libc::EBUSY),
        &["in use by another process", "one process"],
    );
    assert_eq!(error.errno(), libc::EBUSY);
    check(
        explain(libc::EMFILE),
        &["open its device node", "Too many open files"],
    );
    fs::remove_file(&node).expect("it is there");
    check(
        explain(libc::ENOENT),
        &["there is no", "vfio/12", "modprobe vfio-pci"],
    );
}

#[test]
fn holders_of_the_card_are_named_where_visible() {
    let machine = machine();
    let roots = machine.roots();
    let node = roots.group_node(GROUP);
    for (pid, target) in [("71", &node), ("72", &roots.dev), ("73", &node)] {
        let descriptors = roots.proc.join(pid).join("fd");
        fs::create_dir_all(&descriptors).expect("a folder");
        symlink(target, descriptors.join("3")).expect("a link");
    }
    let mut holders = roots.holders(&node);
    holders.sort_unstable();
    assert_eq!(holders, [71, 73]);
    let error = VfioOpenError::Busy {
        bdf: bdf(CARD),
        holders,
    };
    check(error, &["in use by processes 71, 73"]);
}

/// Goal: each error of the crate becomes the refusal that explains it.
#[test]
fn errors_of_the_group_are_explained() {
    let machine = machine();
    let candidate = candidate(&machine);
    let explain = |error| explain_group(&machine.roots(), &candidate, &error);
    let open_group = |code| VfioError::OpenGroup(errno(code), GROUP.to_string());
    check(
        explain(open_group(libc::EACCES)),
        &["no permission", "vfio/12"],
    );
    check(explain(open_group(libc::EBUSY)), &["in use"]);
    check(
        explain(VfioError::OpenContainer(errno(libc::EACCES))),
        &["no permission", "vfio/vfio"],
    );
    check(
        explain(VfioError::VfioExtension),
        &["modprobe vfio_iommu_type1"],
    );
    check(
        explain(refused!(ContainerSetIOMMU, libc::EPERM)),
        &["allow_unsafe_interrupts=1"],
    );
    check(
        explain(refused!(GroupGetDeviceFD, libc::EBUSY)),
        &["in use"],
    );
    check(
        explain(refused!(GroupGetDeviceFD, libc::ENODEV)),
        &["hand it over with its group", "No such device"],
    );
    check(
        explain(VfioError::GroupSetContainer),
        &["0000:01:00.0", "container"],
    );
    // A driver was bound to a neighbour after the group was inspected and before it was opened.
    machine.add("0000:01:00.1", OTHER, Some("i40e"), Some(GROUP));
    check(
        explain(VfioError::GroupViable),
        &["0000:01:00.1 is bound to i40e"],
    );
}

#[test]
fn errors_of_the_device_node_are_explained() {
    let machine = machine();
    let roots = machine.roots();
    let node = roots.dev.join("vfio/devices/vfio0");
    let explain = |error| explain_device(&roots, bdf(CARD), &node, &error);
    check(
        explain(refused!(VfioDeviceBindIommufd, libc::EBUSY)),
        &["in use"],
    );
    check(
        explain(refused!(VfioDeviceBindIommufd, libc::EINVAL)),
        &["in use"],
    );
    check(
        explain(refused!(VfioDeviceAttachIommufdPt, libc::EPERM)),
        &["does not remap interrupts"],
    );
    check(
        explain(refused!(VfioDeviceAttachIommufdPt, libc::ENOMEM)),
        &["through iommufd", "Cannot allocate memory"],
    );
}

/// Goal: without a card, opening fails with the right error and has no other effect. Method: an
/// address that no machine has.
#[test]
fn opening_nothing_is_refused() {
    let error = super::Vfio::open(bdf("ffff:ff:1f.7")).expect_err("there is no such function");
    check(error, &["no PCI function ffff:ff:1f.7"]);
}

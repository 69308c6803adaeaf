//! Tests of binding on a machine made of files, with a kernel that behaves like Linux.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_vfio::pci::{Bdf, Roots};

use super::system::System;
use super::{Bind, Unbind};

const CARD: &str = "0000:01:00.0";
const NEIGHBOUR: &str = "0000:01:00.1";
const USER_ID: u32 = 1000;

struct FakeMachine {
    root: PathBuf,
    roots: Roots,
    is_root: bool,
    /// True if vfio-pci accepts an offered function.
    vfio_takes: Cell<bool>,
    /// The IOMMU group that a function without one gets when it is bound.
    late_group: Cell<Option<u32>>,
    /// True if there are modules to load.
    has_modules: Cell<bool>,
    said: RefCell<Vec<String>>,
    owners: RefCell<Vec<(PathBuf, u32)>>,
}

impl FakeMachine {
    /// Creates a machine with a card, alone in an IOMMU group, bound to `driver`.
    fn new(driver: Option<&str>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ferroce-bind-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let machine = Self {
            roots: Roots::below(&root),
            root,
            is_root: true,
            vfio_takes: Cell::new(true),
            late_group: Cell::new(None),
            has_modules: Cell::new(true),
            said: RefCell::default(),
            owners: RefCell::default(),
        };
        for folder in ["sys/class/iommu/dmar0", "dev/vfio", "proc"] {
            fs::create_dir_all(machine.root.join(folder)).expect("a folder");
        }
        machine.add(CARD, (0x1172, 0xf10a), driver, Some(12));
        machine
    }

    fn add(&self, bdf: &str, id: (u16, u16), driver: Option<&str>, group: Option<u32>) {
        let function = self.function(bdf);
        fs::create_dir_all(&function).expect("a folder");
        let attribute = |name: &str, text: String| {
            fs::write(function.join(name), text).expect("a file");
        };
        attribute("vendor", format!("0x{:04x}\n", id.0));
        attribute("device", format!("0x{:04x}\n", id.1));
        attribute("driver_override", "(null)\n".to_owned());
        if let Some(group) = group {
            self.join(bdf, group);
        }
        if let Some(driver) = driver {
            self.attach(bdf, driver);
        }
    }

    fn join(&self, bdf: &str, group: u32) {
        let function = self.function(bdf);
        let members = format!("sys/kernel/iommu_groups/{group}/devices");
        let members = self.root.join(members);
        fs::create_dir_all(&members).expect("a folder");
        symlink(&function, members.join(bdf)).expect("a link");
        let group = members.parent().expect("it has one");
        symlink(group, function.join("iommu_group")).expect("a link");
    }

    fn function(&self, bdf: &str) -> PathBuf {
        self.root.join("sys/bus/pci/devices").join(bdf)
    }

    fn attach(&self, bdf: &str, driver: &str) {
        let folder = self.root.join("sys/bus/pci/drivers").join(driver);
        fs::create_dir_all(&folder).expect("a folder");
        symlink(folder, self.function(bdf).join("driver")).expect("a link");
        if driver == "vfio-pci" {
            fs::write(self.root.join("dev/vfio/12"), "").expect("a node");
        }
    }

    /// Behaves like Linux when `bdf` is written to drivers_probe: the named driver gets it, or else
    /// the one that supports it.
    fn probe(&self, bdf: &str) {
        if let Some(group) = self.late_group.take() {
            self.join(bdf, group);
        }
        let has_group = self.function(bdf).join("iommu_group").exists();
        let named = fs::read_to_string(self.function(bdf).join("driver_override"));
        match named.expect("it is there").trim() {
            "vfio-pci" if self.vfio_takes.get() && has_group => self.attach(bdf, "vfio-pci"),
            "vfio-pci" => {}
            _ => self.attach(bdf, "ferroce_kernel"),
        }
    }

    fn driver(&self, bdf: &str) -> Option<String> {
        let bdf: Bdf = bdf.parse().expect("an address");
        self.roots.function(bdf).expect("it is there").driver()
    }

    fn bind(&self, arguments: Bind) -> Result<String, String> {
        self.said.borrow_mut().clear();
        arguments.execute_on(self)?;
        Ok(self.said.borrow().join("\n"))
    }

    fn unbind(&self, dry_run: bool) -> Result<String, String> {
        self.said.borrow_mut().clear();
        let bdf = CARD.parse().expect("an address");
        let arguments = Unbind {
            bdf,
            any: false,
            dry_run,
        };
        arguments.execute_on(self)?;
        Ok(self.said.borrow().join("\n"))
    }
}

impl Drop for FakeMachine {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).ok();
    }
}

impl System for FakeMachine {
    fn roots(&self) -> &Roots {
        &self.roots
    }

    fn is_root(&self) -> bool {
        self.is_root
    }

    fn print(&self, line: &str) {
        self.said.borrow_mut().push(line.to_owned());
    }

    fn say(&self, line: &str) {
        self.print(line);
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        if path.ends_with("drivers_probe") {
            self.probe(text);
            return Ok(());
        }
        if path.ends_with("driver/unbind") {
            let function = path.ancestors().nth(2).expect("it has one");
            return fs::remove_file(function.join("driver"));
        }
        assert!(path.exists(), "sysfs makes no files: {}", path.display());
        let text = if text.trim().is_empty() {
            "(null)\n"
        } else {
            text
        };
        fs::write(path, text)
    }

    fn load_module(&self, name: &str) -> io::Result<()> {
        if !self.has_modules.get() {
            return Err(io::Error::other(format!("Module {name} not found")));
        }
        let path = match name {
            "vfio-pci" => "sys/bus/pci/drivers/vfio-pci".to_owned(),
            _ => format!("sys/module/{name}"),
        };
        fs::create_dir_all(self.root.join(path))
    }

    fn user_id(&self, name: &str) -> Result<u32, String> {
        match name {
            "alice" => Ok(USER_ID),
            _ => Err(format!("there is no user `{name}`")),
        }
    }

    fn set_owner(&self, path: &Path, user: u32) -> io::Result<()> {
        self.owners.borrow_mut().push((path.to_owned(), user));
        Ok(())
    }
}

fn card() -> Bind {
    function(CARD)
}

fn function(bdf: &str) -> Bind {
    Bind {
        bdf: Some(bdf.parse().expect("an address")),
        user: None,
        any: false,
        dry_run: false,
    }
}

#[track_caller]
fn check(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in:\n{text}");
    }
}

/// Goal: from the kernel's driver to VFIO and back, with every step printed in its order.
#[test]
fn there_and_back() {
    let machine = FakeMachine::new(Some("ferroce_kernel"));
    let said = machine.bind(card()).expect("nothing speaks against it");
    let steps: Vec<_> = said
        .lines()
        .map(|line| line.split(": ").next().expect("a word"))
        .collect();
    let expected = [
        "load vfio-pci",
        "load vfio_iommu_type1",
        "name vfio-pci as its driver",
        "unbind it from ferroce_kernel",
        "bind it to vfio-pci",
        "0000:01:00.0 is ready",
    ];
    assert_eq!(steps, expected, "{said}");
    check(
        &said,
        &["echo 0000:01:00.0 > ", "--device vfio:0000:01:00.0"],
    );
    assert_eq!(machine.driver(CARD).as_deref(), Some("vfio-pci"));

    let again = machine.bind(card()).expect("nothing to do");
    check(&again, &["already", "ready"]);
    assert!(!again.contains("echo"), "{again}");

    let said = machine.unbind(false).expect("it is not in use");
    check(
        &said,
        &[
            "unbind it from vfio-pci",
            "bound to the driver ferroce_kernel",
        ],
    );
    assert_eq!(machine.driver(CARD).as_deref(), Some("ferroce_kernel"));
    let again = machine.unbind(false).expect("nothing to do");
    check(
        &again,
        &["ferroce_kernel, not to VFIO: nothing to give back"],
    );
}

#[test]
fn a_user_gets_the_nodes() {
    let machine = FakeMachine::new(None);
    let user = |name: &str| Bind {
        user: Some(name.to_owned()),
        ..card()
    };
    let error = machine.bind(user("bob")).expect_err("no user of this name");
    check(&error, &["no user `bob`"]);
    assert_eq!(machine.driver(CARD), None, "nothing was done");

    let said = machine
        .bind(user("alice"))
        .expect("nothing speaks against it");
    check(&said, &["chown alice", "memlock unlimited"]);
    let node = machine.root.join("dev/vfio/12");
    assert_eq!(*machine.owners.borrow(), [(node.clone(), USER_ID)]);

    // A kernel with VFIO device nodes adds one.
    let device = machine.root.join("dev/vfio/devices/vfio0");
    fs::create_dir_all(device.parent().expect("it has one")).expect("a folder");
    fs::write(&device, "").expect("a node");
    fs::create_dir_all(machine.function(CARD).join("vfio-dev/vfio0")).expect("a folder");
    machine.owners.borrow_mut().clear();
    machine
        .bind(user("alice"))
        .expect("nothing speaks against it");
    assert_eq!(
        *machine.owners.borrow(),
        [(node, USER_ID), (device, USER_ID)]
    );
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut machine = FakeMachine::new(Some("ferroce_kernel"));
    machine.is_root = false;
    let arguments = Bind {
        dry_run: true,
        user: Some("alice".to_owned()),
        ..card()
    };
    let said = machine.bind(arguments).expect("listing needs no rights");
    check(
        &said,
        &[
            "would load vfio-pci: modprobe vfio-pci",
            "would bind it to vfio-pci",
            "would let alice",
        ],
    );
    assert_eq!(machine.driver(CARD).as_deref(), Some("ferroce_kernel"));
    assert!(machine.owners.borrow().is_empty());
    assert!(!machine.root.join("sys/bus/pci/drivers/vfio-pci").exists());
}

#[test]
fn refusals_say_what_to_do() {
    let mut machine = FakeMachine::new(Some("ferroce_kernel"));
    let error = machine
        .bind(function("0000:07:00.0"))
        .expect_err("it is not there");
    check(&error, &["no PCI function 0000:07:00.0", CARD]);
    machine.add(NEIGHBOUR, (0x8086, 0x1572), Some("i40e"), Some(12));
    let error = machine
        .bind(function(NEIGHBOUR))
        .expect_err("it is not a Ferroce card");
    check(&error, &["8086:1572", "1172:f10a"]);
    machine.add(
        "0000:02:00.0",
        (0x1172, 0xf10a),
        Some("ferroce_kernel"),
        None,
    );
    let error = machine
        .bind(function("0000:02:00.0"))
        .expect_err("no IOMMU");
    check(&error, &["no IOMMU group"]);
    machine.is_root = false;
    let error = machine.bind(card()).expect_err("not root");
    check(&error, &["sudo ferroce bind 0000:01:00.0 --user"]);
    let error = machine.unbind(false).expect_err("not root");
    check(&error, &["sudo ferroce unbind 0000:01:00.0 ("]);
    assert_eq!(machine.driver(CARD).as_deref(), Some("ferroce_kernel"));
}

/// Goal: the IOMMU group is read again after binding. Method: a kernel that assigns the group at
/// binding, and one that does not.
#[test]
fn an_iommu_group_may_come_with_the_driver() {
    let machine = FakeMachine::new(None);
    machine.add("0000:02:00.0", (0x1172, 0xf10a), None, None);
    machine.late_group.set(Some(12));
    machine.bind(function("0000:02:00.0")).expect("it comes");
    assert_eq!(machine.driver("0000:02:00.0").as_deref(), Some("vfio-pci"));

    machine.add("0000:03:00.0", (0x1172, 0xf10a), None, None);
    let error = machine
        .bind(function("0000:03:00.0"))
        .expect_err("it does not come");
    check(&error, &["no IOMMU group", "does not cover it"]);
    let driver = machine.driver("0000:03:00.0");
    assert_eq!(
        driver.as_deref(),
        Some("ferroce_kernel"),
        "the kernel's choice"
    );
}

#[test]
fn a_neighbour_with_a_driver_is_warned_of_and_can_be_bound_too() {
    let machine = FakeMachine::new(None);
    machine.add(NEIGHBOUR, (0x8086, 0x1572), Some("i40e"), Some(12));
    let said = machine.bind(card()).expect("the card itself can be bound");
    check(
        &said,
        &[
            "warning: 0000:01:00.1",
            "i40e",
            "ferroce bind --any 0000:01:00.1",
        ],
    );
    let any = Bind {
        any: true,
        ..function(NEIGHBOUR)
    };
    machine.bind(any).expect("asked for by name");
    assert_eq!(machine.driver(NEIGHBOUR).as_deref(), Some("vfio-pci"));
}

#[test]
fn what_vfio_does_not_take_goes_back() {
    let machine = FakeMachine::new(Some("ferroce_kernel"));
    machine.vfio_takes.set(false);
    let error = machine.bind(card()).expect_err("it is not taken");
    check(&error, &["vfio-pci did not take 0000:01:00.0", "dmesg"]);
    assert_eq!(machine.driver(CARD).as_deref(), Some("ferroce_kernel"));

    let bare = FakeMachine::new(None);
    bare.has_modules.set(false);
    let error = bare.bind(card()).expect_err("no module");
    check(
        &error,
        &["vfio-pci cannot be loaded", "not found", "CONFIG_VFIO_PCI"],
    );
}

#[test]
fn a_card_in_use_is_not_taken_away() {
    let machine = FakeMachine::new(Some("vfio-pci"));
    let descriptors = machine.root.join("proc/77/fd");
    fs::create_dir_all(&descriptors).expect("a folder");
    symlink(machine.root.join("dev/vfio/12"), descriptors.join("9")).expect("a link");
    let error = machine.unbind(false).expect_err("a process has it");
    check(&error, &["in use by process 77"]);
    assert_eq!(machine.driver(CARD).as_deref(), Some("vfio-pci"));
    let list = machine
        .bind(Bind {
            bdf: None,
            ..card()
        })
        .expect("a list");
    check(
        &list,
        &["0000:01:00.0  IOMMU group 12", "in use by process 77"],
    );
}

#[test]
fn the_list_says_what_can_be_done() {
    let machine = FakeMachine::new(Some("vfio-pci"));
    machine.add(
        "0000:02:00.0",
        (0x1172, 0xf10a),
        Some("ferroce_kernel"),
        None,
    );
    machine.add(
        "0000:03:00.0",
        (0x1172, 0xf10a),
        Some("ferroce_kernel"),
        Some(14),
    );
    machine.add("0000:04:00.0", (0x8086, 0x1572), Some("i40e"), Some(15));
    let list = machine
        .bind(Bind {
            bdf: None,
            ..card()
        })
        .expect("a list");
    let expected = [
        "0000:01:00.0  IOMMU group 12  bound to vfio-pci: ferroce run --device \
         vfio:0000:01:00.0 -- PROGRAM",
        "0000:02:00.0  no IOMMU: cannot be used",
        "0000:03:00.0  IOMMU group 14  bound to ferroce_kernel; for programs: ferroce bind \
         0000:03:00.0",
    ];
    assert_eq!(list.lines().collect::<Vec<_>>(), expected);
}

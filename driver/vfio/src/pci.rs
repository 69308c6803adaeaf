//! PCI functions as sysfs shows them: identity, bound driver, IOMMU group. This module only reads;
//! `ferroce bind` writes.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ferroce_spec::register::{DEVICE_ID, VENDOR_ID};

/// Upper bound of functions that are read: more than any machine has.
const MAX_FUNCTIONS: usize = 65_536;

/// Address of a PCI function: domain, bus, device, function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf {
    /// Domain (segment). Virtual ones, as of a volume management device, need more than 16 bits.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, 0 to 31.
    pub device: u8,
    /// Function, 0 to 7.
    pub function: u8,
}

/// Error for text that is not the address of a PCI function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the address of a PCI function; it would be DOMAIN:BUS:DEVICE.FUNCTION in \
     hexadecimal as lspci -D prints it, for example 0000:01:00.0"
)]
pub struct BdfError(String);

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

impl FromStr for Bdf {
    type Err = BdfError;

    /// Parses an address with the domain or, for domain 0, without.
    fn from_str(text: &str) -> Result<Self, BdfError> {
        Self::parse(text).ok_or_else(|| BdfError(text.to_owned()))
    }
}

impl Bdf {
    fn parse(text: &str) -> Option<Self> {
        let (rest, function) = text.split_once('.')?;
        let mut fields = rest.rsplit(':');
        let device = hexadecimal(fields.next()?, 2)?;
        let bus = hexadecimal(fields.next()?, 2)?;
        let domain = match fields.next() {
            Some(domain) => hexadecimal(domain, 8)?,
            None => 0,
        };
        let function = hexadecimal(function, 1)?;
        let is_legal = fields.next().is_none() && device < 32 && function < 8;
        is_legal.then_some(Self {
            domain,
            bus: bus as u8,
            device: device as u8,
            function: function as u8,
        })
    }
}

/// Parses 1 to `digits` hexadecimal digits. Unlike `from_str_radix`, accepts no sign.
fn hexadecimal(text: &str, digits: usize) -> Option<u32> {
    let is_legal =
        (1..=digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_legal.then(|| u32::from_str_radix(text, 16).ok())?
}

/// Vendor and device ID of a PCI function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PciId {
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
}

/// Vendor and device ID of a Ferroce card.
pub const FERROCE: PciId = PciId {
    vendor: VENDOR_ID,
    device: DEVICE_ID,
};

impl fmt::Display for PciId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:04x}", self.vendor, self.device)
    }
}

/// Folders of sysfs, the device nodes and procfs. Tests use a separate tree.
#[derive(Debug, Clone)]
pub struct Roots {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/dev`.
    pub dev: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
}

impl Roots {
    /// Returns the folders of this machine.
    pub fn system() -> Self {
        Self::below(Path::new("/"))
    }

    /// Returns `sys`, `dev` and `proc` below `root`.
    pub fn below(root: &Path) -> Self {
        Self {
            sys: root.join("sys"),
            dev: root.join("dev"),
            proc: root.join("proc"),
        }
    }

    /// Returns all PCI functions, in order of their addresses.
    pub fn functions(&self) -> Vec<Function> {
        let Ok(entries) = fs::read_dir(self.sys.join("bus/pci/devices")) else {
            return Vec::new();
        };
        let mut found: Vec<_> = entries
            .take(MAX_FUNCTIONS)
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|bdf| self.function(bdf))
            .collect();
        found.sort_by_key(|function: &Function| function.bdf);
        found
    }

    /// Returns all Ferroce cards.
    pub fn cards(&self) -> Vec<Function> {
        let mut found = self.functions();
        found.retain(|function| function.id == FERROCE);
        found
    }

    /// Returns the PCI function at `bdf`, if it exists.
    pub fn function(&self, bdf: Bdf) -> Option<Function> {
        let path = self.sys.join("bus/pci/devices").join(bdf.to_string());
        let id = PciId {
            vendor: read_id(&path.join("vendor"))?,
            device: read_id(&path.join("device"))?,
        };
        Some(Function { bdf, id, path })
    }

    /// Returns the functions of an IOMMU group, in order of their addresses.
    pub fn group_members(&self, group: u32) -> Vec<Function> {
        let path = format!("kernel/iommu_groups/{group}/devices");
        let Ok(entries) = fs::read_dir(self.sys.join(path)) else {
            return Vec::new();
        };
        let mut found: Vec<_> = entries
            .take(MAX_FUNCTIONS)
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|bdf| self.function(bdf))
            .collect();
        found.sort_by_key(|function: &Function| function.bdf);
        found
    }

    /// Returns true if the kernel runs an IOMMU.
    pub fn has_iommu(&self) -> bool {
        fs::read_dir(self.sys.join("class/iommu")).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Returns true if an IOMMU group was made without an IOMMU, by the kernel's
    /// `enable_unsafe_noiommu_mode`.
    pub fn is_noiommu_group(&self, group: u32) -> bool {
        let name = self.sys.join(format!("kernel/iommu_groups/{group}/name"));
        fs::read_to_string(name).is_ok_and(|name| name.trim() == "vfio-noiommu")
    }

    /// Returns the device node of an IOMMU group.
    pub fn group_node(&self, group: u32) -> PathBuf {
        self.dev.join(format!("vfio/{group}"))
    }

    /// Returns the device node of the function itself, if the kernel has such nodes.
    pub fn device_node(&self, function: &Function) -> Option<PathBuf> {
        let node = self.dev.join("vfio/devices").join(function.vfio_device()?);
        node.exists().then_some(node)
    }

    /// Returns the processes that have `node` open and are visible to this process.
    pub fn holders(&self, node: &Path) -> Vec<u32> {
        let Ok(entries) = fs::read_dir(&self.proc) else {
            return Vec::new();
        };
        let has_open = |pid: u32| {
            let descriptors = fs::read_dir(self.proc.join(format!("{pid}/fd")));
            descriptors.is_ok_and(|mut descriptors| {
                descriptors.any(|descriptor| {
                    let target = descriptor.and_then(|descriptor| fs::read_link(descriptor.path()));
                    target.is_ok_and(|target| target == node)
                })
            })
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|&pid| has_open(pid))
            .collect()
    }
}

/// A PCI function. Its properties are read at each call.
#[derive(Debug, Clone)]
pub struct Function {
    /// Its address.
    pub bdf: Bdf,
    /// Vendor and device ID.
    pub id: PciId,
    /// Its folder in sysfs.
    pub path: PathBuf,
}

impl Function {
    /// Returns the driver that the function is bound to.
    pub fn driver(&self) -> Option<String> {
        link_name(&self.path.join("driver"))
    }

    /// Returns the only driver that may bind the function, if one was named.
    pub fn driver_override(&self) -> Option<String> {
        let text = fs::read_to_string(self.path.join("driver_override")).ok()?;
        let name = text.trim();
        // The kernel says "(null)" for none.
        (!name.is_empty() && name != "(null)").then(|| name.to_owned())
    }

    /// Returns the IOMMU group. `None`: there is no IOMMU between the function and memory.
    pub fn iommu_group(&self) -> Option<u32> {
        link_name(&self.path.join("iommu_group"))?.parse().ok()
    }

    /// Returns true if the function may join an IOMMU group when a driver is bound to it: Linux
    /// before 6.15 determines the IOMMU only then, if the IOMMU's driver is a module.
    pub fn may_get_group(&self, roots: &Roots) -> bool {
        self.driver().is_none() && roots.has_iommu()
    }

    /// Returns the name of the function's VFIO device, `vfioN`, in a kernel with VFIO device nodes.
    pub fn vfio_device(&self) -> Option<String> {
        let entry = fs::read_dir(self.path.join("vfio-dev")).ok()?.next()?;
        entry.ok()?.file_name().into_string().ok()
    }

    /// Returns true if the function prevents the use of its IOMMU group through VFIO: it is bound
    /// to a host driver, which might let it access the same memory. Bridges do not count.
    pub fn spoils_group(&self) -> bool {
        self.driver()
            .is_some_and(|driver| !is_vfio(&driver) && driver != "pci-stub" && driver != "pcieport")
    }
}

/// Returns true if a driver belongs to VFIO.
pub fn is_vfio(driver: &str) -> bool {
    driver == "vfio-pci" || driver.ends_with("-vfio-pci") || driver.ends_with("_vfio_pci")
}

fn link_name(path: &Path) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

fn read_id(path: &Path) -> Option<u16> {
    let text = fs::read_to_string(path).ok()?;
    u16::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A machine made of files: sysfs and device nodes in a temporary folder.
    pub(crate) struct FakeMachine {
        root: PathBuf,
    }

    impl FakeMachine {
        pub(crate) fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("ferroce-pci-{}-{number}", std::process::id());
            let root = std::env::temp_dir().join(name);
            for folder in [
                "sys/bus/pci/devices",
                "sys/class/iommu",
                "dev/vfio",
                "proc/self",
            ] {
                fs::create_dir_all(root.join(folder)).expect("a folder in the temporary folder");
            }
            Self { root }
        }

        pub(crate) fn roots(&self) -> Roots {
            Roots::below(&self.root)
        }

        /// Adds a function to the machine, with a driver and an IOMMU group.
        pub(crate) fn add(&self, bdf: &str, id: PciId, driver: Option<&str>, group: Option<u32>) {
            let function = self.root.join("sys/bus/pci/devices").join(bdf);
            fs::create_dir_all(&function).expect("folder of the function");
            let write = |name: &str, text: String| {
                fs::write(function.join(name), text).expect("attribute of the function");
            };
            write("vendor", format!("0x{:04x}\n", id.vendor));
            write("device", format!("0x{:04x}\n", id.device));
            if let Some(driver) = driver {
                let folder = self.root.join("sys/bus/pci/drivers").join(driver);
                fs::create_dir_all(&folder).expect("folder of the driver");
                symlink(folder, function.join("driver")).expect("link to the driver");
            }
            if let Some(group) = group {
                let folder = self
                    .root
                    .join(format!("sys/kernel/iommu_groups/{group}/devices"));
                fs::create_dir_all(&folder).expect("folder of the group");
                symlink(&function, folder.join(bdf)).expect("link to the member");
                let group = folder.parent().expect("it has one");
                symlink(group, function.join("iommu_group")).expect("link to the group");
                self.write("sys/class/iommu/dmar0", "");
            }
        }

        pub(crate) fn write(&self, path: &str, text: &str) {
            let path = self.root.join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("folder");
            fs::write(path, text).expect("a file in the temporary folder");
        }
    }

    impl Drop for FakeMachine {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.root).ok();
        }
    }

    pub(crate) fn bdf(text: &str) -> Bdf {
        text.parse().expect("a legal address")
    }

    #[test]
    fn addresses_are_read_as_lspci_writes_them() {
        let with_domain = bdf("0000:01:0a.7");
        assert_eq!(bdf("1:a.7"), with_domain);
        assert_eq!(with_domain.to_string(), "0000:01:0a.7");
        assert_eq!(bdf("10000:e1:00.0").to_string(), "10000:e1:00.0");
        for wrong in [
            "",
            "01:00",
            "01:20.0",
            "01:00.8",
            "01:00.00",
            "100:00.0",
            "+1:00.0",
            "0:0:0:0.0",
            "vfio:01:00.0",
            "01:00.0 ",
            "../../01:00.0",
        ] {
            let error = wrong.parse::<Bdf>().expect_err(wrong);
            assert!(error.to_string().contains("0000:01:00.0"), "{error}");
        }
    }

    #[test]
    fn the_machine_is_read_from_sysfs() {
        let machine = FakeMachine::new();
        let other = PciId {
            vendor: 0x8086,
            device: 0x1572,
        };
        machine.add("0000:02:00.0", FERROCE, Some("vfio-pci"), Some(7));
        machine.add("0000:01:00.1", other, Some("i40e"), Some(7));
        machine.add("0000:03:00.0", FERROCE, None, None);
        machine.write(
            "sys/bus/pci/devices/0000:02:00.0/driver_override",
            "vfio-pci\n",
        );
        machine.write(
            "sys/bus/pci/devices/0000:03:00.0/driver_override",
            "(null)\n",
        );
        machine.write(
            "sys/bus/pci/devices/0000:02:00.0/vfio-dev/vfio3/dev",
            "511:3\n",
        );
        machine.write("sys/bus/pci/devices/junk/vendor", "0x1172\n");
        let roots = machine.roots();

        let addresses = |functions: Vec<Function>| -> Vec<String> {
            functions.iter().map(|f| f.bdf.to_string()).collect()
        };
        assert_eq!(addresses(roots.cards()), ["0000:02:00.0", "0000:03:00.0"]);
        assert_eq!(
            addresses(roots.group_members(7)),
            ["0000:01:00.1", "0000:02:00.0"]
        );
        let card = roots.function(bdf("02:00.0")).expect("it is there");
        assert_eq!(card.driver().as_deref(), Some("vfio-pci"));
        assert_eq!(card.driver_override().as_deref(), Some("vfio-pci"));
        assert_eq!(card.iommu_group(), Some(7));
        assert_eq!(card.vfio_device().as_deref(), Some("vfio3"));
        assert!(!card.spoils_group());
        let neighbour = roots.function(bdf("01:00.1")).expect("it is there");
        assert!(neighbour.spoils_group());
        let bare = roots.function(bdf("03:00.0")).expect("it is there");
        assert_eq!((bare.driver(), bare.driver_override()), (None, None));
        assert_eq!((bare.iommu_group(), bare.vfio_device()), (None, None));
        assert!(roots.has_iommu() && roots.function(bdf("04:00.0")).is_none());
    }
}

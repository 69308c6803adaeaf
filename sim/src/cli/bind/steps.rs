//! The steps of binding and unbinding; each is printed before it is executed.

use std::io;
use std::path::{Path, PathBuf};

use ferroce_vfio::VfioOpenError;
use ferroce_vfio::pci::{Bdf, FERROCE, Function, Roots, is_vfio};

use super::holders;
use super::system::System;

/// The driver through which programs access a card.
const DRIVER: &str = "vfio-pci";
/// Kernel modules of VFIO: the driver, and the access to the IOMMU.
const MODULES: [(&str, &str); 2] = [
    (DRIVER, "bus/pci/drivers/vfio-pci"),
    ("vfio_iommu_type1", "module/vfio_iommu_type1"),
];

/// The steps for one function.
pub struct Steps<'a> {
    system: &'a dyn System,
    function: Function,
    dry_run: bool,
}

impl<'a> Steps<'a> {
    /// Finds the function `bdf`, which must be a Ferroce card unless `any` function may be bound.
    pub fn new(system: &'a dyn System, bdf: Bdf, any: bool, dry_run: bool) -> Result<Self, String> {
        let roots = system.roots();
        let cards = || roots.cards().iter().map(|card| card.bdf).collect();
        let function = match roots.function(bdf) {
            Some(function) if any || function.id == FERROCE => function,
            Some(function) => {
                let error = VfioOpenError::NotFerroce {
                    bdf,
                    found: function.id,
                    cards: cards(),
                };
                return Err(error.to_string());
            }
            None => {
                let error = VfioOpenError::NoSuchDevice {
                    bdf,
                    cards: cards(),
                };
                return Err(error.to_string());
            }
        };
        Ok(Self {
            system,
            function,
            dry_run,
        })
    }

    /// Binds the function to VFIO, and gives its device nodes to `user`.
    pub fn bind(&self, user: Option<&str>) -> Result<(), String> {
        let bdf = self.function.bdf;
        if self.function.iommu_group().is_none() && !self.function.may_get_group(self.roots()) {
            return Err(self.no_group());
        }
        self.require_root("bind", user)?;
        let user = user.map(|name| self.system.user_id(name).map(|id| (name, id)));
        let user = user.transpose()?;
        match self.function.driver() {
            Some(driver) if is_vfio(&driver) => {
                self.print(&format!("{bdf} is bound to {driver} already"));
            }
            driver => {
                self.load_modules()?;
                self.hand_over(driver.as_deref())?;
            }
        }
        if let Some(group) = self.function.iommu_group() {
            self.warn_of_neighbours(group);
            if let Some((name, id)) = user {
                self.give_nodes(group, name, id)?;
            }
        }
        if !self.dry_run {
            self.print(&format!(
                "{bdf} is ready: ferroce run --device vfio:{bdf} -- PROGRAM"
            ));
        }
        Ok(())
    }

    /// Binds the function to the driver that the kernel would choose.
    pub fn unbind(&self) -> Result<(), String> {
        let bdf = self.function.bdf;
        self.require_root("unbind", None)?;
        let driver = self.function.driver();
        let Some(driver) = driver.filter(|driver| is_vfio(driver)) else {
            if self.function.driver_override().is_some() {
                self.write(
                    "forget the driver that was named for it",
                    "driver_override",
                    "\n",
                )?;
            }
            let driver = self.function.driver();
            let driver = driver.map_or("no driver".to_owned(), |name| format!("the driver {name}"));
            self.print(&format!(
                "{bdf} is bound to {driver}, not to VFIO: nothing to give back"
            ));
            return Ok(());
        };
        // Otherwise the kernel waits without limit until they close the device.
        let holders = holders(self.roots(), &self.function);
        if !holders.is_empty() {
            return Err(VfioOpenError::Busy { bdf, holders }.to_string());
        }
        self.write(
            "forget the driver that was named for it",
            "driver_override",
            "\n",
        )?;
        self.write_bdf(&format!("unbind it from {driver}"), self.unbind_path())?;
        self.write_bdf("let the kernel choose a driver", self.probe_path())?;
        if !self.dry_run {
            match self.function.driver() {
                Some(driver) => {
                    self.print(&format!("{bdf} is bound to the driver {driver}"));
                }
                None => {
                    self.print(&format!(
                        "{bdf} is bound to no driver: this kernel has none for it"
                    ));
                }
            }
        }
        Ok(())
    }

    fn roots(&self) -> &Roots {
        self.system.roots()
    }

    fn no_group(&self) -> String {
        let has_iommu = self.roots().has_iommu();
        let bdf = self.function.bdf;
        VfioOpenError::NoIommuGroup { bdf, has_iommu }.to_string()
    }

    fn require_root(&self, command: &str, user: Option<&str>) -> Result<(), String> {
        if self.dry_run || self.system.is_root() {
            return Ok(());
        }
        let bdf = self.function.bdf;
        let user = match user {
            Some(name) => format!(" --user {name}"),
            None if command == "bind" => " --user \"$USER\"".to_owned(),
            None => String::new(),
        };
        Err(format!(
            "drivers are bound by root: sudo ferroce {command} {bdf}{user} (--dry-run shows what \
             it would do)"
        ))
    }

    fn load_modules(&self) -> Result<(), String> {
        let sys = &self.roots().sys;
        for (module, path) in MODULES {
            if sys.join(path).exists() {
                continue;
            }
            self.say(&format!("load {module}"), &format!("modprobe {module}"));
            if self.dry_run {
                continue;
            }
            match self.system.load_module(module) {
                Ok(()) => {}
                // The other module is optional: a kernel with iommufd does not need it.
                Err(error) if module != DRIVER => {
                    self.print(&format!("  not loaded: {error}"));
                }
                Err(error) => {
                    return Err(format!(
                        "the kernel module {module} cannot be loaded ({error}); it is in the \
                         kernel's package on most distributions, CONFIG_VFIO_PCI in its \
                         configuration"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Moves the function from `driver` to VFIO.
    fn hand_over(&self, driver: Option<&str>) -> Result<(), String> {
        let named = self.function.driver_override();
        let release = || match driver {
            Some(driver) => self.write_bdf(&format!("unbind it from {driver}"), self.unbind_path()),
            None => Ok(()),
        };
        let result = self
            .write(
                &format!("name {DRIVER} as its driver"),
                "driver_override",
                DRIVER,
            )
            .and_then(|()| release())
            .and_then(|()| self.write_bdf(&format!("bind it to {DRIVER}"), self.probe_path()));
        if self.dry_run
            || self
                .function
                .driver()
                .is_some_and(|driver| is_vfio(&driver))
        {
            return result;
        }
        self.print("the driver did not take it; restoring the previous driver:");
        let named = named.unwrap_or_else(|| "\n".to_owned());
        self.write("name its driver as before", "driver_override", &named)?;
        // This write fails if no driver accepts the function, as before.
        self.write_bdf("let the kernel choose a driver", self.probe_path())
            .ok();
        if self.function.iommu_group().is_none() {
            return Err(self.no_group());
        }
        let reason = result
            .err()
            .unwrap_or_else(|| "it gave no reason".to_owned());
        Err(format!(
            "{DRIVER} did not take {}: {reason}; see dmesg",
            self.function.bdf
        ))
    }

    fn warn_of_neighbours(&self, group: u32) {
        let members = self.roots().group_members(group);
        let spoilers = members
            .iter()
            .filter(|member| member.bdf != self.function.bdf && member.spoils_group());
        for member in spoilers {
            let driver = member.driver().unwrap_or_default();
            self.print(&format!(
                "warning: {} is in the same IOMMU group {group} and bound to {driver}; as long as \
                 it is, the card cannot be opened: ferroce bind --any {}",
                member.bdf, member.bdf
            ));
        }
    }

    /// Lets a user open the function.
    fn give_nodes(&self, group: u32, name: &str, id: u32) -> Result<(), String> {
        let roots = self.roots();
        let nodes = [
            Some(roots.group_node(group)),
            roots.device_node(&self.function),
        ];
        let nodes: Vec<PathBuf> = nodes.into_iter().flatten().collect();
        let mut given = 0;
        for node in nodes.iter().filter(|node| self.dry_run || node.exists()) {
            self.say(
                &format!("let {name} open it"),
                &format!("chown {name} {}", node.display()),
            );
            if !self.dry_run {
                let result = self.system.set_owner(node, id);
                result.map_err(|error| failed("chown", node, &error))?;
            }
            given += 1;
        }
        if given == 0 {
            return Err(format!(
                "there is no {}: is devtmpfs mounted?",
                nodes[0].display()
            ));
        }
        self.print(&format!(
            "note: memory that the card reaches is locked; {name} may lock what `ulimit -l` says \
             (`{name} - memlock unlimited` in /etc/security/limits.conf)"
        ));
        Ok(())
    }

    fn unbind_path(&self) -> PathBuf {
        self.function.path.join("driver/unbind")
    }

    fn probe_path(&self) -> PathBuf {
        self.roots().sys.join("bus/pci/drivers_probe")
    }

    fn write_bdf(&self, what: &str, path: PathBuf) -> Result<(), String> {
        self.write_file(what, &path, &self.function.bdf.to_string())
    }

    fn write(&self, what: &str, attribute: &str, text: &str) -> Result<(), String> {
        self.write_file(what, &self.function.path.join(attribute), text)
    }

    fn write_file(&self, what: &str, path: &Path, text: &str) -> Result<(), String> {
        let word = text.trim_end();
        let space = if word.is_empty() { "" } else { " " };
        self.say(what, &format!("echo{space}{word} > {}", path.display()));
        if self.dry_run {
            return Ok(());
        }
        let result = self.system.write(path, text);
        result.map_err(|error| failed("write", path, &error))
    }

    /// Prints a line. In a dry run, the steps are the result, so they go to standard output.
    fn print(&self, line: &str) {
        if self.dry_run {
            self.system.print(line);
        } else {
            self.system.say(line);
        }
    }

    fn say(&self, what: &str, command: &str) {
        let tense = if self.dry_run { "would " } else { "" };
        self.print(&format!("{tense}{what}: {command}"));
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

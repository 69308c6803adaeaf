//! A trait for the changes that binding makes to the machine: tests replace the machine by files.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use ferroce_platform::os;
use ferroce_vfio::pci::Roots;

use crate::cli::progress;

/// A machine that can be changed.
pub trait System {
    /// Returns the paths of its sysfs and its device nodes.
    fn roots(&self) -> &Roots;

    /// Returns true if this process may change it.
    fn is_root(&self) -> bool;

    /// Prints a result.
    fn print(&self, line: &str);

    /// Prints a step, unless the user has asked for quiet.
    fn say(&self, line: &str);

    /// Writes a file of sysfs.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;

    /// Loads a kernel module.
    fn load_module(&self, name: &str) -> io::Result<()>;

    /// Returns the UID of the user `name`.
    fn user_id(&self, name: &str) -> Result<u32, String>;

    /// Gives a file to a user.
    fn set_owner(&self, path: &Path, user: u32) -> io::Result<()>;
}

/// This machine.
#[derive(Debug)]
pub struct Machine {
    roots: Roots,
}

impl Machine {
    /// Returns this machine.
    pub fn new() -> Self {
        Self {
            roots: Roots::system(),
        }
    }
}

impl System for Machine {
    fn roots(&self) -> &Roots {
        &self.roots
    }

    fn is_root(&self) -> bool {
        os::user_id() == 0
    }

    fn print(&self, line: &str) {
        println!("{line}");
    }

    fn say(&self, line: &str) {
        progress::say(line);
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        fs::write(path, text)
    }

    fn load_module(&self, name: &str) -> io::Result<()> {
        let output = Command::new("modprobe").arg(name).output()?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(text.trim().to_owned()))
    }

    fn user_id(&self, name: &str) -> Result<u32, String> {
        // id(1) knows all users, including those of a directory service.
        let output = Command::new("id").args(["-u", "--", name]).output();
        let output = output.map_err(|error| format!("cannot run id: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let number = text.trim().parse();
        number.map_err(|_| format!("there is no user `{name}`"))
    }

    fn set_owner(&self, path: &Path, user: u32) -> io::Result<()> {
        chown(path, Some(user), None)
    }
}

//! The files in `ports/1/counters` and `ports/1/hw_counters`. Opening one takes a snapshot of the
//! device's counter.

use ferroce_embed::counters::{LINUX_COUNTERS, LinuxCounter, of_device};

use crate::errno::Errno;
use crate::host;

/// One of these files.
#[derive(Debug, Clone, Copy)]
pub struct CounterFile {
    device: u8,
    counter: &'static LinuxCounter,
}

impl CounterFile {
    /// Returns the file at a path of the device's tree. `None`: it is another file.
    pub fn at(path: &[u8]) -> Option<Self> {
        let mut parts = path.rsplit(|byte| *byte == b'/');
        let (name, folder) = (parts.next()?, parts.next()?);
        let counter = LINUX_COUNTERS.iter().find(|counter| {
            counter.name.as_bytes() == name && counter.folder.name().as_bytes() == folder
        })?;
        let device = host::of_port(&mut parts)?.device;
        Some(Self { device, counter })
    }

    /// Returns the content of the file.
    ///
    /// # Errors
    /// `ENODEV` for a device outside of this process that is not open.
    pub fn text(self) -> Result<String, Errno> {
        let counters = of_device(self.device).map_err(|error| Errno::new(error.errno()))?;
        Ok(format!("{}\n", self.counter.value(&counters)))
    }
}

/// Returns true if a path ends with the name of a counter file; most paths do not.
pub fn is_name_of_one(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next();
    LINUX_COUNTERS
        .iter()
        .any(|counter| Some(counter.name.as_bytes()) == name)
}

/// Returns the names of the files, below the directory of the port.
pub fn names() -> impl Iterator<Item = String> {
    let name = |counter: &LinuxCounter| format!("{}/{}", counter.folder.name(), counter.name);
    LINUX_COUNTERS.iter().map(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_files_of_counters_are_found() {
        for path in [
            "/sys/class/infiniband/ferroce0/ports/1/counters/port_xmit_data",
            "/sys/devices/pcif10a:00/x/infiniband/ferroce0/ports/1/counters/port_rcv_data",
        ] {
            assert!(CounterFile::at(path.as_bytes()).is_some(), "{path}");
        }
        for path in [
            "/sys/class/infiniband/ferroce0/ports/1/counters",
            "/sys/class/infiniband/ferroce0/ports/1/counters/",
            "/sys/class/infiniband/ferroce0/ports/1/counters/sent_pkts",
            "/sys/class/infiniband/ferroce0/ports/2/hw_counters/sent_pkts",
            "/sys/class/infiniband/ferroce7/ports/1/hw_counters/sent_pkts",
            "sent_pkts",
            "",
        ] {
            assert!(CounterFile::at(path.as_bytes()).is_none(), "{path}");
        }
    }
}

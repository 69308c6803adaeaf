//! The files of the GID table in sysfs, once an entry of it is gone.

use crate::adapter::Adapter;
use crate::host;

/// A file of an entry.
#[derive(Debug, Clone, Copy)]
pub struct GidFile {
    device: u8,
    index: usize,
    kind: Kind,
}

/// What a file says of its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `gids/N`: the address.
    Address,
    /// `gid_attrs/types/N` and `gid_attrs/ndevs/N`.
    Attribute,
}

impl GidFile {
    /// Returns the file at a path of the device's tree. `None`: it is another file.
    pub fn at(path: &[u8]) -> Option<Self> {
        let mut parts = path.rsplit(|byte| *byte == b'/');
        let index = number(parts.next()?)?;
        let kind = match parts.next()? {
            b"gids" => Kind::Address,
            b"types" | b"ndevs" if parts.next()? == b"gid_attrs" => Kind::Attribute,
            _ => return None,
        };
        let host = host::of_port(&mut parts)?;
        let device = host.device;
        (index < host.gids.len()).then_some(Self {
            device,
            index,
            kind,
        })
    }

    /// Returns what it says of its entry if this process uses the device and the entry is gone.
    pub fn of_gone_entry(self) -> Option<Kind> {
        Adapter::has_lost_gid(self.device, self.index).then_some(self.kind)
    }
}

/// Parses a decimal number.
fn number(name: &[u8]) -> Option<usize> {
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// Returns true if a path can be that of such a file; most paths cannot.
pub fn has_name_of_one(path: &[u8]) -> bool {
    let mut parts = path.rsplit(|byte| *byte == b'/');
    parts.next().is_some_and(|name| number(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_files_of_entries_are_found() {
        let port = "/sys/class/infiniband/ferroce0/ports/1";
        for (file, kind) in [
            ("gids/0", Some(Kind::Address)),
            ("gids/1", Some(Kind::Address)),
            ("gid_attrs/types/1", Some(Kind::Attribute)),
            ("gid_attrs/ndevs/0", Some(Kind::Attribute)),
            ("gids/200", None),
            ("gids/", None),
            ("types/1", None),
            ("pkeys/0", None),
        ] {
            let found = GidFile::at(format!("{port}/{file}").as_bytes());
            assert_eq!(found.map(|file| file.kind), kind, "{file}");
        }
        for path in [
            "/sys/class/infiniband/ferroce7/ports/1/gids/0",
            "gids/0",
            "0",
        ] {
            assert!(GidFile::at(path.as_bytes()).is_none(), "{path}");
        }
    }
}

//! Files of the sysfs tree whose content changes: counters, and the entries of the GID table.

use crate::counter_files::{self, CounterFile};
use crate::errno::Errno;
use crate::gid_files::{self, GidFile, Kind};

/// Content of `gids/N` for an empty entry.
const NO_GID: &str = "0000:0000:0000:0000:0000:0000:0000:0000\n";

/// One of these files.
#[derive(Debug, Clone, Copy)]
pub enum LiveFile {
    /// A counter.
    Counter(CounterFile),
    /// Of an entry of the GID table.
    Gid(GidFile),
}

/// What such a file contains when it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// This text.
    Text(String),
    /// What the tree has.
    AsInTree,
    /// Nothing: reading it fails with `EINVAL`.
    Unreadable,
}

impl LiveFile {
    /// Returns the file at a path of the device's tree. `None`: it is another file.
    pub fn at(path: &[u8]) -> Option<Self> {
        let counter = CounterFile::at(path).map(Self::Counter);
        counter.or_else(|| GidFile::at(path).map(Self::Gid))
    }

    /// Returns its content.
    ///
    /// # Errors
    /// The errors of [`CounterFile::text`].
    pub fn content(self) -> Result<Content, Errno> {
        Ok(match self {
            Self::Counter(file) => Content::Text(file.text()?),
            Self::Gid(file) => match file.of_gone_entry() {
                None => Content::AsInTree,
                Some(Kind::Address) => Content::Text(NO_GID.to_owned()),
                Some(Kind::Attribute) => Content::Unreadable,
            },
        })
    }
}

/// Returns true if a path can be that of such a file; most paths cannot.
pub fn has_name_of_one(path: &[u8]) -> bool {
    counter_files::is_name_of_one(path) || gid_files::has_name_of_one(path)
}

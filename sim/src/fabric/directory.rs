//! Where the processes of one user meet.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::os;

/// Only the user may look in: frames of the user's programs lie here.
const MODE: u32 = 0o700;
/// What others must not have on our own directory.
const ANY_ACCESS: u32 = 0o077;
/// What others must not have on a directory that the user named; the files in it are 0600.
const WRITE_ACCESS: u32 = 0o022;

/// The rendezvous directory of this user, made if it is not there yet.
///
/// `FERROCE_DIR` if set, else `/dev/shm/ferroce-UID`, else (no `/dev/shm`) a directory below
/// `$XDG_RUNTIME_DIR`, `$TMPDIR` or `/tmp`.
///
/// # Errors
/// [`Error::Directory`] if it cannot be made, is a symbolic link, belongs to another user, or is
/// open to others.
pub fn runtime_directory() -> Result<PathBuf, Error> {
    if let Some(path) = std::env::var_os("FERROCE_DIR").filter(|path| !path.is_empty()) {
        return prepared(Path::new(&path), WRITE_ACCESS);
    }
    let name = format!("ferroce-{}", os::user_id());
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() {
        let tried = prepared(&shared_memory.join(&name), ANY_ACCESS);
        // A read-only /dev/shm is as good as none; one that somebody else prepared is not.
        match tried {
            Err(Error::Directory { ref path, .. }) if !path.exists() => {}
            _ => return tried,
        }
    }
    let parent = ["XDG_RUNTIME_DIR", "TMPDIR"]
        .iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from)
        .find(|path| path.is_dir())
        .unwrap_or_else(|| PathBuf::from("/tmp"));
    prepared(&parent.join(name), ANY_ACCESS)
}

fn prepared(path: &Path, forbidden: u32) -> Result<PathBuf, Error> {
    let refuse = |reason: String| Error::Directory {
        path: path.to_owned(),
        reason,
    };
    match DirBuilder::new().mode(MODE).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(refuse(error.to_string())),
    }
    let metadata = fs::symlink_metadata(path).map_err(|error| refuse(error.to_string()))?;
    if !metadata.is_dir() {
        return Err(refuse("is not a directory".to_owned()));
    }
    if metadata.uid() != os::user_id() {
        let owner = metadata.uid();
        return Err(refuse(format!(
            "belongs to user {owner}, not to you ({})",
            os::user_id()
        )));
    }
    if metadata.mode() & forbidden != 0 {
        let mode = metadata.mode() & 0o777;
        return Err(refuse(format!(
            "is open to other users (mode {mode:o}); chmod 700 it"
        )));
    }
    path.canonicalize()
        .map_err(|error| refuse(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn makes_it_once_and_refuses_an_open_one() {
        let parent = crate::test_support::temporary_directory("directory");
        let path = parent.path().join("meet");
        prepared(&path, ANY_ACCESS).expect("made");
        prepared(&path, ANY_ACCESS).expect("found");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
        assert!(
            prepared(&path, ANY_ACCESS)
                .expect_err("open")
                .to_string()
                .contains("mode 755")
        );
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("new");
        assert!(
            prepared(&link, ANY_ACCESS)
                .expect_err("a link")
                .to_string()
                .contains("not a directory")
        );
    }
}

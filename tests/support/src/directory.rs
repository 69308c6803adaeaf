//! Private directories of tests.

use std::ffi::OsStr;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A separate directory for one test, mode 0700, removed at the end.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Deref for TemporaryDirectory {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<OsStr> for TemporaryDirectory {
    fn as_ref(&self) -> &OsStr {
        self.0.as_ref()
    }
}

impl AsRef<Path> for TemporaryDirectory {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // A failed test has its output in its message, so nothing here is needed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Creates a directory, named after the test.
pub fn temporary_directory(name: &str) -> TemporaryDirectory {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let unique = format!("ferroce-test-{name}-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(unique);
    // A killed process with the same number may have left one.
    let _ = fs::remove_dir_all(&path);
    fs::create_dir(&path).expect("a new name in the directory for temporary files");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("our own directory");
    TemporaryDirectory(path)
}

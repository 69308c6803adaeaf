//! Helpers of this crate's tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of its own for one test, mode 0700, removed at the end.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes a directory whose name tells the test.
pub fn temporary_directory(name: &str) -> TemporaryDirectory {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let unique = format!("ferroce-test-{name}-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(unique);
    fs::create_dir(&path).expect("a new name in the directory for temporary files");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("our own directory");
    TemporaryDirectory(path)
}

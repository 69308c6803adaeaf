//! The shared library for the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of this crate.
pub fn crate_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the static library that cargo built together with this test: the newest one beside it.
fn static_library() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let directory = test.parent().expect("target/<profile>/deps");
    std::fs::read_dir(directory)
        .expect("a directory")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            name.starts_with("libferroce_provider-") && name.ends_with(".a")
        })
        .max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok())
        .expect("cargo builds the static library with the tests")
}

/// Links the shared library into a directory of that name and returns its path.
pub fn link(name: &str) -> PathBuf {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let status = Command::new(crate_root().join("link.sh"))
        .args([&static_library(), &output])
        .status()
        .expect("link.sh runs");
    assert!(status.success(), "link.sh failed");
    output.join("libibverbs.so.1")
}

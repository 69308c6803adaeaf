//! Trees of files, and programs in them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use ferroce_tests::Scratch;

/// Programs and libraries below a prefix.
pub const BINARIES: [&str; 3] = [
    "bin/ferroce",
    "lib/ferroce/libibverbs.so.1",
    "lib/ferroce/libferroce_time.so",
];

/// Returns every file, link and folder below a folder, in order, folders with a slash at the end.
pub fn tree(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(&inner).expect("a folder").flatten() {
            let path = entry.path();
            let is_folder = path.is_dir() && !path.is_symlink();
            let name = path.strip_prefix(folder).expect("below it").display();
            found.push(format!("{name}{}", if is_folder { "/" } else { "" }));
            if is_folder {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Copies the files of a build into a folder.
pub fn copy_build(release: &Path, folder: &Path) {
    fs::create_dir_all(folder.join("lib")).expect("our own folder");
    for file in ["ferroce", "lib/libibverbs.so.1", "lib/libferroce_time.so"] {
        let to = folder.join(file);
        fs::copy(release.join(file), &to).expect("`make` has built it");
        fs::set_permissions(to, fs::Permissions::from_mode(0o700)).expect("our own");
    }
}

/// Returns the names of the sections of a binary.
pub fn sections(scratch: &Scratch, binary: &Path) -> String {
    let mut command = Command::new("readelf");
    command.arg("-SW").arg(binary);
    scratch.finish(command).expect_success()
}

/// Returns the libraries that a binary asks the loader for.
pub fn needed(scratch: &Scratch, binary: &Path) -> Vec<String> {
    let mut command = Command::new("readelf");
    command.arg("-dW").arg(binary);
    let dynamic = scratch.finish(command).expect_success();
    let lines = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    lines
        .filter_map(|line| Some(line.split('[').nth(1)?.trim_end_matches(']').to_owned()))
        .collect()
}

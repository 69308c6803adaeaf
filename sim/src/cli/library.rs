//! Finds the libraries that belong to this command.

use std::path::{Path, PathBuf};

/// File name of the verbs library: the SONAME that programs ask for.
const VERBS: &str = "libibverbs.so.1";
/// File name of the library that keeps simulated time.
const TIME: &str = "libferroce_time.so";

/// Returns the path of the verbs library.
pub fn verbs() -> Result<PathBuf, String> {
    find(VERBS)
}

/// Returns the path of the library that keeps simulated time.
pub fn time() -> Result<PathBuf, String> {
    find(TIME)
}

/// Finds a library beside this command: in the build tree, or installed below the same prefix.
fn find(name: &str) -> Result<PathBuf, String> {
    let executable =
        std::env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let candidates = candidates(folder, name);
    let found = candidates.iter().find(|path| path.is_file());
    let library = found.ok_or_else(|| {
        let tried: Vec<String> = candidates
            .iter()
            .map(|path| format!("  {}", path.display()))
            .collect();
        let tried = tried.join("\n");
        format!("{name} is missing; `make` builds it, `make install` installs it. Tried:\n{tried}")
    })?;
    let library = library
        .canonicalize()
        .map_err(|error| format!("{name}: {error}"))?;
    // ld.so splits LD_PRELOAD at these, and has no quoting.
    if library.to_string_lossy().contains([':', ' ']) {
        let path = library.display();
        return Err(format!(
            "{path}: LD_PRELOAD cannot name a path with a colon or a space"
        ));
    }
    Ok(library)
}

fn candidates(folder: &Path, name: &str) -> Vec<PathBuf> {
    let places = ["lib", "../lib/ferroce", "../lib"];
    places
        .iter()
        .map(|place| folder.join(place).join(name))
        .collect()
}

//! Finds the libraries that belong to this command.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// File name of the verbs library: the SONAME that programs request.
const VERBS: &str = "libibverbs.so.1";
/// File name of the library that implements simulated time.
const TIME: &str = "libferroce_time.so";

/// Folders of the libraries, relative to this command.
const PLACES: [&str; 3] = ["lib", "../lib/ferroce", "../lib"];
/// The way to build them.
const HINT: &str = "`make` builds it, `make install` installs it";
/// The page on which the model runs in a browser.
const LAB_PAGE: &str = "lab.html";
const LAB_HINT: &str = "`make lab` builds it, if the Rust here can compile to WebAssembly";
/// Folders of the page and of the suppression files for tools.
const SHARED_PLACES: [&str; 2] = ["share/ferroce", "../share/ferroce"];
/// Folders of the libraries with the card in SystemVerilog.
const CARD_LIBRARY_PLACES: [&str; 2] = ["../rtl/release/lib", "../lib/ferroce/rtl"];
const CARD_HINT: &str = "`make rtl` builds it";
/// The command with the card in SystemVerilog.
#[cfg(not(feature = "rtl"))]
const CARD_COMMAND: &str = "ferroce-rtl";
#[cfg(not(feature = "rtl"))]
const CARD_COMMAND_PLACES: [&str; 2] = ["../rtl/release", "../lib/ferroce/rtl"];

/// Returns the path of the verbs library.
pub fn verbs() -> Result<PathBuf, String> {
    find(VERBS)
}

/// Returns the path of the library that keeps simulated time.
pub fn time() -> Result<PathBuf, String> {
    find(TIME)
}

/// Returns the path of a suppression file. `None`: the file does not exist, or its path contains a
/// character that separates options.
pub fn suppressions(name: &str) -> Option<PathBuf> {
    find_below(name, &SHARED_PLACES, HINT).ok()
}

/// Returns the path of the page of the lab.
pub fn lab_page() -> Result<PathBuf, String> {
    locate(LAB_PAGE, &SHARED_PLACES, LAB_HINT)
}

/// Returns the path of the verbs library with the card in SystemVerilog in place of the model.
pub fn card_verbs() -> Result<PathBuf, String> {
    find_below(VERBS, &CARD_LIBRARY_PLACES, CARD_HINT)
}

/// Returns the path of the command with the card in SystemVerilog in place of the model.
#[cfg(not(feature = "rtl"))]
pub fn card_command() -> Result<PathBuf, String> {
    find_below(CARD_COMMAND, &CARD_COMMAND_PLACES, CARD_HINT)
}

/// Returns the list for `LD_LIBRARY_PATH`, with the folder of the libraries first: LD_PRELOAD does
/// not affect a library that a program loads into a new namespace (`dlmopen`), so such a library
/// finds the verbs library through this path.
pub fn search_path(libraries: &[PathBuf], existing: Option<OsString>) -> OsString {
    let folder = libraries.last().and_then(|library| library.parent());
    let folder = folder.unwrap_or(Path::new("/")).as_os_str();
    match existing.filter(|existing| !existing.is_empty()) {
        None => folder.to_owned(),
        Some(existing) => [folder, &existing].join(OsStr::new(":")),
    }
}

/// Finds a library in a folder next to this command: in the build tree, or installed under the same
/// prefix.
fn find(name: &str) -> Result<PathBuf, String> {
    find_below(name, &PLACES, HINT)
}

/// Finds a library or a file that variables of ld.so or of tools name.
fn find_below(name: &str, places: &[&str], hint: &str) -> Result<PathBuf, String> {
    let library = locate(name, places, hint)?;
    // ld.so splits LD_PRELOAD at these, and has no quoting.
    if library.to_string_lossy().contains([':', ' ']) {
        let path = library.display();
        return Err(format!(
            "{path}: LD_PRELOAD cannot name a path with a colon or a space"
        ));
    }
    Ok(library)
}

fn locate(name: &str, places: &[&str], hint: &str) -> Result<PathBuf, String> {
    let executable =
        std::env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let candidates = candidates(folder, places, name);
    let found = candidates.iter().find(|path| path.is_file());
    let file = found.ok_or_else(|| {
        let tried: Vec<String> = candidates
            .iter()
            .map(|path| format!("  {}", path.display()))
            .collect();
        let tried = tried.join("\n");
        format!("{name} is missing; {hint}. Tried:\n{tried}")
    })?;
    file.canonicalize()
        .map_err(|error| format!("{name}: {error}"))
}

fn candidates(folder: &Path, places: &[&str], name: &str) -> Vec<PathBuf> {
    places
        .iter()
        .map(|place| folder.join(place).join(name))
        .collect()
}

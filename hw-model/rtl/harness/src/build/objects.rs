//! The objects of converted modules and of the runtime. They are reused while Verilator writes the
//! same C++: after a change of one module, the others are not compiled again.

use std::fs;
use std::path::{Path, PathBuf};

use super::fingerprint::fingerprint;
use super::verilator::Verilator;
use super::write;

/// Returns the objects of the module in `folder`; compiles them if needed. Code that runs once, or
/// only while a waveform is written, is not optimized: that would take most of the time.
pub fn of_module(verilator: &Verilator, folder: &Path, prefix: &Path) -> Vec<PathBuf> {
    let files = files(folder);
    let version = verilator.version_header(); // of the headers that the module includes
    let others = [prefix, &version];
    let inputs = fingerprint(files.iter().map(PathBuf::as_path).chain(others));
    kept(&folder.with_extension("objects"), &inputs, |place| {
        let (mut fast, mut slow) = (verilator.compiler(prefix), verilator.compiler(prefix));
        slow.opt_level(0);
        let sources = files.iter().filter(|path| has_extension(path, "cpp"));
        let (rare, frequent): (Vec<_>, Vec<_>) = sources.partition(|path| is_rare(path));
        fast.include(folder).files(frequent);
        slow.include(folder).files(rare);
        let compilers = [(fast, "fast"), (slow, "slow")];
        let objects = compilers
            .map(|(mut compiler, name)| compiler.out_dir(place.join(name)).compile_intermediates());
        objects.concat()
    })
}

/// Returns the objects of Verilator's runtime and of `ours`; compiles them if needed.
pub fn of_runtime(verilator: &Verilator, ours: &Path, prefix: &Path) -> Vec<PathBuf> {
    let mut files = verilator.runtime();
    files.push(ours.into());
    let inputs = fingerprint(files.iter().map(PathBuf::as_path).chain([prefix]));
    kept(&ours.with_extension("objects"), &inputs, |place| {
        let mut compiler = verilator.compiler(prefix);
        compiler
            .files(&files)
            .out_dir(place)
            .compile_intermediates()
    })
}

/// Returns the objects in the folder `place`, if they were built from `inputs`; otherwise builds
/// them.
fn kept(place: &Path, inputs: &str, make: impl FnOnce(&Path) -> Vec<PathBuf>) -> Vec<PathBuf> {
    let list = place.join("list");
    if let Some(known) = known(&list, inputs) {
        return known;
    }
    let _ = fs::remove_dir_all(place); // of other C++, if there are any
    let objects = make(place);
    let names = objects.iter().map(|object| object.to_string_lossy());
    let lines: Vec<_> = [inputs.into()].into_iter().chain(names).collect();
    write(&list, &lines.join("\n"));
    objects
}

/// Returns the objects of a list, if they were built from these inputs.
fn known(list: &Path, inputs: &str) -> Option<Vec<PathBuf>> {
    let text = fs::read_to_string(list).ok()?;
    let mut lines = text.lines();
    let objects =
        (lines.next()? == inputs).then(|| lines.map(PathBuf::from).collect::<Vec<_>>())?;
    objects
        .iter()
        .all(|object| object.exists())
        .then_some(objects)
}

/// Returns the C++ files and headers of a module, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("Verilator has made it");
    let paths = entries.flatten().map(|entry| entry.path());
    let is_input = |path: &PathBuf| has_extension(path, "cpp") || has_extension(path, "h");
    let mut files: Vec<_> = paths.filter(is_input).collect();
    files.sort();
    files
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension()
        .is_some_and(|extension| extension == wanted)
}

/// Returns true for a file of Verilator whose code runs only once, or writes waveforms.
fn is_rare(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.contains("__Trace__") || name.ends_with("__Slow.cpp")
}

//! The half for build scripts: from SystemVerilog, through Verilator, to a static library and Rust.

mod accessors;
mod header;
mod shim;
mod verilator;

use std::path::{Path, PathBuf};
use std::{env, fs};

use header::PortOfHeader;
use verilator::Verilator;

/// A module that becomes a Rust type.
#[derive(Debug, Clone, Copy)]
pub struct Module<'a> {
    /// Name of the file `NAME.rs` in `OUT_DIR`, and in camel case of its type: that of the module,
    /// or another one where a module is built with several sets of parameters.
    pub name: &'a str,
    /// Name of the module; its source is `TOP.sv`.
    pub top: &'a str,
    /// Parameters that differ from those of the source.
    pub parameters: &'a [(&'a str, u64)],
}

/// Where the sources are.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Folder with one file for each module, of the module's name.
    pub folder: &'a str,
    /// Files of packages, in the order in which they use each other.
    pub packages: &'a [&'a str],
}

/// Builds `modules` into the static library `library`, and writes `NAME.rs` for each. Every warning
/// of Verilator is an error; FST waveforms and assertions are always built in.
///
/// # Panics
/// If Verilator is missing or refuses a source. Cargo prints the message, which is what a developer
/// wants to see.
pub fn modules(library: &str, sources: Sources<'_>, modules: &[Module<'_>]) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it for a build script"));
    let verilator = Verilator::find();
    let printing = out.join("printing.h");
    write(&printing, shim::PRINTING);
    let mut compiler = verilator.compiler(&printing);
    verilator.add_runtime(&mut compiler);
    let mut rare = verilator.compiler(&printing);
    rare.opt_level(0);
    for module in modules {
        let folder = verilator.convert(module, sources, &out);
        add_module(module, &folder, &out, [&mut compiler, &mut rare]);
    }
    let runtime = out.join("runtime.cpp");
    write(&runtime, shim::RUNTIME);
    compiler.objects(rare.compile_intermediates());
    compiler.file(&runtime).compile(library);
    verilator.link_compression();
    for source in sources.packages.iter().chain([&sources.folder]) {
        println!("cargo:rerun-if-changed={source}");
    }
}

/// Adds the C++ of a module to the library, and writes its Rust. The second compiler gets what runs
/// once or only while a waveform is written; with optimization it takes most of the time.
fn add_module(
    module: &Module<'_>,
    folder: &Path,
    out: &Path,
    [compiler, rare]: [&mut cc::Build; 2],
) {
    let name = module.name;
    let header = read(&folder.join(format!("V{name}.h")));
    let ports: Vec<PortOfHeader> = header.lines().filter_map(PortOfHeader::parse).collect();
    let has_clock = ports.iter().any(|port| port.name == "clk");
    assert!(has_clock, "{name}: Verilator's header has no port clk");
    write(&folder.join("shim.cpp"), &shim::print(name, &ports));
    write(
        &out.join(format!("{name}.rs")),
        &accessors::print(name, &ports),
    );
    compiler.include(folder);
    rare.include(folder);
    let entries = fs::read_dir(folder).expect("Verilator has made it");
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "cpp");
    files.retain(is_source);
    let (slow, fast): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| is_rare(path));
    rare.files(slow);
    compiler.files(fast);
}

/// Returns true if Verilator has put code into a file that runs once, or that writes waveforms.
fn is_rare(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.contains("__Trace__") || name.ends_with("__Slow.cpp")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

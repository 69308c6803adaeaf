//! The half for build scripts: from SystemVerilog, through Verilator, to a static library and Rust.

mod accessors;
mod constant;
mod fingerprint;
mod header;
mod names;
mod objects;
mod packages;
mod shim;
mod structs;
mod verilator;

use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use header::PortOfHeader;
use structs::{Field, Structs};
use verilator::Verilator;

/// A module that becomes a Rust type.
#[derive(Debug, Clone, Copy)]
pub struct Module<'a> {
    /// Name of the file `NAME.rs` in `OUT_DIR` and, in camel case, of its type: the module's name,
    /// or another name if a module is built with several sets of parameters.
    pub name: &'a str,
    /// Name of the module; its source is `TOP.sv`.
    pub top: &'a str,
    /// Parameters that override the source's.
    pub parameters: &'a [(&'a str, u64)],
    /// Its clocks, inputs of one bit: at least one. The first is the clock of
    /// [`Simulation::cycle`](crate::Simulation::cycle).
    pub clocks: &'a [&'a str],
}

impl<'a> Module<'a> {
    /// Returns the module of this name with its own parameters and the clock `clk`.
    pub const fn new(name: &'a str) -> Self {
        Self {
            name,
            top: name,
            parameters: &[],
            clocks: &["clk"],
        }
    }
}

/// Location of the sources.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Folder with one file for each module, of the module's name.
    pub folder: &'a str,
    /// Files of packages, each after the packages that it uses.
    pub packages: &'a [&'a str],
}

impl Sources<'_> {
    /// Returns the source of a module.
    fn of(&self, module: &Module<'_>) -> PathBuf {
        Path::new(self.folder).join(format!("{}.sv", module.top))
    }
}

/// Builds `modules` into the static library `library`, and writes to `OUT_DIR` a file `NAME.rs` for
/// each, and `packages.rs` with the packed structs of the packages. Every warning of Verilator is
/// an error; FST waveforms and assertions are always enabled.
///
/// # Panics
/// If Verilator is missing or refuses a source. Cargo shows the message to the developer.
pub fn modules(library: &str, sources: Sources<'_>, modules: &[Module<'_>]) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it for a build script"));
    let verilator = Verilator::find();
    let printing = out.join("printing.h");
    write(&printing, shim::PRINTING);
    let folders = convert_all(&verilator, sources, modules, &out);
    let runtime = out.join("runtime.cpp");
    write(&runtime, shim::RUNTIME);
    let mut objects = objects::of_runtime(&verilator, &runtime, &printing);
    let mut structs = Structs::default();
    for package in sources.packages {
        structs.read(&read(Path::new(package)));
    }
    write(&out.join("packages.rs"), &packages::print(&structs));
    for (module, folder) in modules.iter().zip(&folders) {
        let source = read(&sources.of(module));
        let fields = |port: &str| structs.of_port(&source, port).to_vec();
        write_interface(module, folder, &out, fields);
        objects.extend(objects::of_module(&verilator, folder, &printing));
    }
    verilator
        .compiler(&printing)
        .objects(objects)
        .compile(library);
    verilator.link_compression();
    for source in sources.packages.iter().chain([&sources.folder]) {
        println!("cargo:rerun-if-changed={source}");
    }
}

/// Converts the modules in parallel on all processors. Returns their folders.
fn convert_all(
    verilator: &Verilator,
    sources: Sources<'_>,
    modules: &[Module<'_>],
    out: &Path,
) -> Vec<PathBuf> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = modules.len().div_ceil(threads).max(1);
    let convert = |module| verilator.convert(module, sources, out);
    thread::scope(|scope| {
        let shares = modules.chunks(share);
        let running: Vec<_> = shares
            .map(|share| scope.spawn(move || share.iter().map(convert).collect::<Vec<_>>()))
            .collect();
        let joined = running.into_iter().flat_map(|thread| match thread.join() {
            Ok(folders) => folders,
            Err(panic) => resume_unwind(panic),
        });
        joined.collect()
    })
}

/// Writes the shim and the Rust of a module.
fn write_interface(
    module: &Module<'_>,
    folder: &Path,
    out: &Path,
    fields: impl Fn(&str) -> Vec<Field>,
) {
    let name = module.name;
    let header = read(&folder.join(format!("V{name}.h")));
    let mut ports: Vec<_> = header.lines().filter_map(PortOfHeader::parse).collect();
    for port in &mut ports {
        port.fields = fields(&port.name);
    }
    let clocks = module.clocks;
    assert!(!clocks.is_empty(), "{name}: a module needs a clock");
    for clock in clocks {
        let is_port = |port: &PortOfHeader| port.name == *clock && port.bits == 1;
        assert!(
            ports.iter().any(is_port),
            "{name}: no input {clock} of one bit"
        );
    }
    let shim = shim::print(name, &ports, clocks);
    write(&folder.join("shim.cpp"), &shim);
    let accessors = accessors::print(name, &ports, clocks);
    write(&out.join(format!("{name}.rs")), &accessors);
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

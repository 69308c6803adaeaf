//! Verilator: its location, its command lines, and the compiler for its output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use super::fingerprint::fingerprint;
use super::{Module, Sources, write};

/// Advice if it is missing.
const MISSING: &str = "Verilator 5.006 or newer is needed, on Debian by \
     `apt-get install verilator g++ zlib1g-dev`; the variable VERILATOR names another one";

/// Flags of every module. State after power-on is random (`unique`), as the runtime's seed chooses,
/// so that a missing reset shows; see `power_on.rs`.
const FLAGS: [&str; 10] = [
    "--cc",
    "-O3",
    "-Wall",
    "--assert",
    "--trace-fst",
    "--trace-structs",
    "--x-assign",
    "fast",
    "--x-initial",
    "unique",
];

/// An installed Verilator.
pub struct Verilator {
    program: String,
    root: PathBuf,
}

impl Verilator {
    /// Returns the Verilator that the environment variable `VERILATOR` names, or the one in `PATH`.
    ///
    /// # Panics
    /// If there is none.
    pub fn find() -> Self {
        println!("cargo:rerun-if-env-changed=VERILATOR");
        let program = env::var("VERILATOR").unwrap_or_else(|_| "verilator".to_owned());
        let output = run(Command::new(&program).args(["--getenv", "VERILATOR_ROOT"]));
        let root = String::from_utf8_lossy(&output.stdout).trim().into();
        Self { program, root }
    }

    /// Converts a module to C++, unless that was done with the same sources; returns the folder.
    ///
    /// # Panics
    /// If Verilator refuses it.
    pub fn convert(&self, module: &Module<'_>, sources: Sources<'_>, out: &Path) -> PathBuf {
        let folder = out.join(format!("{}.verilated", module.name));
        let mut command = Command::new(&self.program);
        command.args(FLAGS);
        if cfg!(feature = "coverage") {
            command.arg("--coverage-line");
        }
        command
            .args(["--prefix", &format!("V{}", module.name)])
            .args(["--top-module", module.top, "-y", sources.folder, "-Mdir"])
            .arg(&folder);
        for (name, value) in module.parameters {
            command.arg(format!("-G{name}={value}"));
        }
        command.args(sources.packages);
        command.arg(sources.of(module));
        let list = folder.join("inputs");
        let inputs = self.inputs(&folder, module, &command);
        if inputs.is_some() && inputs == fs::read_to_string(&list).ok() {
            return folder;
        }
        let _ = fs::remove_dir_all(&folder); // files of other sources, if there are any
        fs::create_dir_all(&folder).expect("OUT_DIR can be written");
        run(&mut command);
        if let Some(inputs) = self.inputs(&folder, module, &command) {
            write(&list, &inputs);
        }
        folder
    }

    /// Returns a text that differs if the command or one of the sources differs that Verilator has
    /// read when it converted a module into this folder.
    fn inputs(&self, folder: &Path, module: &Module<'_>, command: &Command) -> Option<String> {
        let list = folder.join(format!("V{}__ver.d", module.name));
        let list = fs::read_to_string(list).ok()?;
        let (_, read) = list.split_once(" : ")?;
        let sources = read.split_whitespace().filter(|file| file.ends_with(".sv"));
        let sources: Vec<PathBuf> = sources.map(PathBuf::from).collect();
        if sources.is_empty() || sources.iter().any(|file| !file.exists()) {
            return None;
        }
        let version = self.version_header();
        let files = sources.iter().chain([&version]).map(PathBuf::as_path);
        Some(format!("{command:?} {}", fingerprint(files)))
    }

    /// Returns a compiler for Verilator's output. Its Makefile is not used, because the names in it
    /// differ between versions. `prefix` is included in every file.
    pub fn compiler(&self, prefix: &Path) -> cc::Build {
        let include = self.root.join("include");
        let mut compiler = cc::Build::new();
        compiler
            .cpp(true)
            .std("c++17")
            .warnings(false)
            .debug(false) // generated code: its debug information would take 300 MB
            .flag("-fno-strict-aliasing")
            .flag_if_supported("-Wno-attributes")
            .flag("-include")
            .flag(prefix)
            .define("VL_USER_STOP", "1") // a failed assertion is a panic: see `shim::RUNTIME`
            .define("VM_TRACE", "1")
            .define("VM_TRACE_FST", "1")
            .define(
                "VM_COVERAGE",
                Some(if cfg!(feature = "coverage") { "1" } else { "0" }),
            )
            .include(&include)
            .include(include.join("vltstd"));
        compiler
    }

    /// Returns the sources of Verilator's runtime.
    pub fn runtime(&self) -> Vec<PathBuf> {
        let coverage = cfg!(feature = "coverage").then_some("verilated_cov.cpp");
        let files = [
            "verilated.cpp",
            "verilated_threads.cpp",
            "verilated_fst_c.cpp",
        ];
        let folder = self.root.join("include");
        let files = files.into_iter().chain(coverage);
        files.map(|file| folder.join(file)).collect()
    }

    /// Returns the header that states the version of Verilator.
    pub fn version_header(&self) -> PathBuf {
        self.root.join("include/verilated_config.h")
    }

    /// Links the libraries that compress FST: zlib, and LZ4 if the runtime does not contain it.
    pub fn link_compression(&self) {
        println!("cargo:rustc-link-lib=z");
        if self.root.join("include/fstcpp").exists() {
            println!("cargo:rustc-link-lib=lz4");
        }
    }
}

/// Runs a command to its end.
///
/// # Panics
/// If it cannot be started or fails; the message has its output.
fn run(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}\n{MISSING}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{text}");
    output
}

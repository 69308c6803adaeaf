//! Runs C programs that are linked against the distribution's libibverbs over the drop-in one.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds after which a program counts as hung.
const TIMEOUT_S: &str = "60";

/// Returns true if a header of the distribution exists; prints a message if it does not.
fn has_header(name: &str) -> bool {
    let exists = Path::new("/usr/include/infiniband").join(name).exists();
    if !exists {
        eprintln!("skipped: no <infiniband/{name}>; install libibverbs-dev");
    }
    exists
}

/// Compiles a program into the directory of the library, and links the library there.
fn build(name: &str, libraries: &[&str]) -> PathBuf {
    let library = support::link(name);
    let program = library.with_file_name(name);
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(compiler)
        .args(["-O1", "-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(support::crate_root().join(format!("tests/{name}.c")))
        .args(libraries)
        .args(["-libverbs", "-lpthread", "-ldl"])
        .status()
        .expect("a C compiler");
    assert!(status.success(), "{name}.c does not compile");
    program
}

/// Runs a program over the library beside it.
fn run(program: &Path, arguments: &[&str], part_id: Option<&str>) {
    let rendezvous = program.with_file_name("rendezvous");
    std::fs::create_dir_all(&rendezvous).expect("a directory");
    let output = Command::new("timeout")
        .arg(TIMEOUT_S)
        .arg(program)
        .args(arguments)
        .env("LD_PRELOAD", program.with_file_name("libibverbs.so.1"))
        .env("FERROCE_DIR", &rendezvous)
        .env_remove("FERROCE_HOST")
        .env_remove("FERROCE_ADDRESS")
        .env_remove("FERROCE_DEVICES")
        .env_remove("FERROCE_PART_ID")
        .envs(part_id.map(|id| ("FERROCE_PART_ID", id)))
        .output()
        .expect("timeout runs (coreutils)");
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{}\n{text}{errors}", output.status);
}

fn compile_and_run(name: &str) {
    if has_header("verbs.h") {
        run(&build(name, &[]), &[], None);
    }
}

#[test]
fn a_verbs_program_finds_what_the_man_pages_promise() {
    compile_and_run("client");
}

#[test]
fn every_service_and_object_works_and_refuses() {
    compile_and_run("services");
}

/// perftest since release 24 calls libmlx5 on every device with a ConnectX part ID, and stops when
/// the call is refused.
#[test]
fn a_connectx_part_id_reports_no_direct_verbs() {
    const ANSWERED: &str = "0";
    let refused = libc::EOPNOTSUPP.to_string();
    if !has_header("mlx5dv.h") {
        return;
    }
    let program = build("direct_verbs", &["-lmlx5"]);
    // ConnectX-4 Lx, ConnectX-5, ConnectX-7, BlueField-3.
    for part_id in ["1015", "1017", "1021", "a2dc"] {
        run(&program, &[part_id, ANSWERED], Some(part_id));
    }
    // The default part, a ConnectX-3 (which libmlx4 drives), and the numbers next to libmlx5's.
    run(&program, &["8070", &refused], None);
    for part_id in ["1003", "1010", "a2d1"] {
        run(&program, &[part_id, &refused], Some(part_id));
    }
}

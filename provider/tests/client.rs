//! Runs C programs that are linked against the distribution's libibverbs over the drop-in one.

mod support;

use std::path::Path;
use std::process::Command;

/// Seconds after which a program hangs.
const TIMEOUT_S: &str = "60";

/// Compiles and runs the program of that name.
fn run(name: &str) {
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        eprintln!("skipped: no <infiniband/verbs.h>; install libibverbs-dev");
        return;
    }
    let library = support::link(name);
    let directory = library.parent().expect("its directory");
    let program = directory.join(name);
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(compiler)
        .args(["-O1", "-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(support::crate_root().join(format!("tests/{name}.c")))
        .args(["-libverbs", "-lpthread", "-ldl"])
        .status()
        .expect("a C compiler");
    assert!(status.success(), "{name}.c does not compile");

    let rendezvous = directory.join("rendezvous");
    std::fs::create_dir_all(&rendezvous).expect("a directory");
    let output = Command::new("timeout")
        .arg(TIMEOUT_S)
        .arg(&program)
        .env("LD_PRELOAD", &library)
        .env("FERROCE_DIR", &rendezvous)
        .env_remove("FERROCE_HOST")
        .env_remove("FERROCE_ADDRESS")
        .env_remove("FERROCE_DEVICES")
        .output()
        .expect("timeout runs (coreutils)");
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{}\n{text}{errors}", output.status);
}

#[test]
fn a_verbs_program_finds_what_the_man_pages_promise() {
    run("client");
}

#[test]
fn every_service_and_object_works_and_refuses() {
    run("services");
}

//! Hands the revision of the sources to the command: `ferroce -V` names it.

mod revision;

use std::path::Path;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed={}", revision::VARIABLE);
    for path in revision::depends_on(&root) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let given = std::env::var(revision::VARIABLE).ok();
    match revision::find(&root, given.as_deref()) {
        Ok(revision) => println!("cargo::rustc-env=FERROCE_REVISION={revision}"),
        Err(error) => println!("cargo::error={error}"),
    }
}

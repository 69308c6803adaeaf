//! Ways to load libibverbs: with each, the program gets this library, or a message that it got
//! another one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use ferroce_tests::Scratch;

/// Name that a Python wheel would give its copy of the library.
const COPY: &str = "libibverbs-1a2b3c4d.so.1.14.44.0";

/// Compiles `loading` as a program and as a plugin, and copies Debian's library like a Python
/// wheel.
fn prepare(scratch: &Scratch) -> (String, [String; 2]) {
    let plugin = scratch.compile_with("loading", &["-shared", "-fPIC"]);
    let renamed = scratch.path("plugin.so");
    fs::rename(plugin, &renamed).expect("it was made");
    let program = scratch.compile("loading");
    let copy = scratch.path(COPY);
    fs::copy(scratch.needed(&program, "libibverbs.so.1"), &copy).expect("the library is there");
    let names = [copy, renamed].map(|path| path.to_string_lossy().into_owned());
    (program, names)
}

#[test]
fn every_way_to_load_libibverbs_gets_ours() {
    let scratch = Scratch::new();
    let (program, [copy, plugin]) = prepare(&scratch);
    let ended = scratch.finish(scratch.run(&[], &program, &[&copy, &plugin]));
    let output = ended.expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
    assert!(!output.contains("another libibverbs"), "{output}");
}

/// Goal: if a program uses another libibverbs, a message reports it. Method: preload the other
/// library together with ours, without a call of `dlopen`; the program only reads sysfs.
#[test]
fn another_libibverbs_is_named() {
    let scratch = Scratch::new();
    let (_, [copy, _]) = prepare(&scratch);
    let scratch = scratch.preload(std::path::Path::new(&copy));
    let ended = scratch.finish(scratch.run(&[], "/bin/ls", &["/sys/class/infiniband"]));
    let output = ended.expect_success();
    assert!(output.contains("ferroce0"), "{output}");
    let line = format!("another libibverbs was loaded, which finds no device of Ferroce: {copy}");
    assert!(output.contains(&line), "{output}");
}

/// Goal: a tree that a killed process left unfinished is removed, and not mistaken for the one that
/// programs see. Method: one with the directories of ports, whose names are numbers as those of
/// GIDs; it is older than the limit, and no process has its number.
#[test]
fn an_unfinished_sysfs_tree_is_removed() {
    let scratch = Scratch::new();
    let fabric = scratch.path("fabric");
    let unfinished = fabric.join(".sysfs-4194305-0");
    fs::create_dir_all(unfinished.join("ports/1/gids/0")).expect("our own directory");
    fs::set_permissions(&fabric, fs::Permissions::from_mode(0o700)).expect("our own directory");
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let directory = fs::File::open(&unfinished).expect("our own directory");
    directory.set_modified(long_ago).expect("our own directory");
    let ended = scratch.finish(scratch.run(&[], "ibv_devices", &[]));
    assert!(ended.expect_success().contains("ferroce0"));
    assert!(!unfinished.exists());
}

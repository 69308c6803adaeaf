//! rsockets: librdmacm's sockets over RDMA, and programs for TCP on them.

use std::fs;
use std::path::PathBuf;

use ferroce_tests::{Scratch, executed, free_port, run_rdma_cm_pair};

use super::{command, pair, with_server};

/// Declares one test for each line of arguments; both sides get them.
macro_rules! streams {
    ($( $test:ident: $program:literal $arguments:literal; )*) => {
        $(
            #[test]
            fn $test() {
                let server = concat!($program, " -b 127.0.0.1 -p PORT ", $arguments);
                let client = concat!($program, " -s 127.0.0.1 -p PORT ", $arguments);
                let (server, client) = pair(server, client);
                for output in [server, client] {
                    assert!(!output.contains("error"), "{output}");
                }
            }
        )*
    };
}

// udpong is left out, because datagram rsockets create address handles without the global route of
// RoCE. `rstream -T a` is left out, because its client mistakes the POLLHUP of a finished server
// for a failure.
streams! {
    rstream_blocking: "rstream" "-T b -T v -S 8192 -C 100";
    rstream_nonblocking: "rstream" "-T n -T v -S 8192 -C 100";
    rstream_resolves: "rstream" "-T r -S 1000 -C 100";
    rstream_without_inline_data: "rstream" "-i 0 -S 64 -C 100";
    riostream_blocking: "riostream" "-T b -T v -S 8192 -C 100";
    riostream_nonblocking: "riostream" "-T n -T v -S 8192 -C 100";
    riostream_asynchronous: "riostream" "-T a -T v -S 8192 -C 100";
}

/// Writes a file whose bytes depend on their position.
fn file(scratch: &Scratch, length: u32) -> (PathBuf, PathBuf) {
    let words = (0..length.div_ceil(4)).map(|word| word.wrapping_mul(0x9e37_79b1));
    let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    bytes.truncate(length as usize);
    let source = scratch.path("source");
    fs::write(&source, bytes).expect("a file in the directory of the test");
    (source, scratch.path("copy"))
}

/// Fails the test unless two files are the same.
fn expect_same(source: &PathBuf, copy: &PathBuf) {
    let source = fs::read(source).expect("written above");
    let copy = fs::read(copy).expect("the copy has arrived");
    assert!(source == copy, "{} of {} bytes", copy.len(), source.len());
}

#[test]
fn rcopy_of_a_file() {
    let scratch = Scratch::new();
    let (source, copy) = file(&scratch, 5_000_001);
    let client = format!(
        "rcopy {} 127.0.0.1:{} -p PORT",
        source.display(),
        copy.display()
    );
    with_server(&scratch, "rcopy -p PORT", &client);
    expect_same(&source, &copy);
}

/// Returns the preload library of librdmacm that turns a program's sockets into rsockets.
fn preload_library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("Debian has this folder");
    let mut libraries = folders.filter_map(|folder| {
        let library = folder.ok()?.path().join("rsocket/librspreload.so");
        library.exists().then_some(library)
    });
    libraries.next().expect("it comes with librdmacm1")
}

/// Goal: a TCP program runs over RDMA, also with a duplicate of its socket. Method: send a file to
/// the server, which stores a copy and sends every byte back.
#[test]
fn a_tcp_program_under_librspreload() {
    let scratch = Scratch::new().preload(&preload_library());
    let program = scratch.compile("tcp_copy");
    let (source, copy) = file(&scratch, 100_000_000);
    let port = free_port();
    let side = |role: &str, file: &PathBuf| {
        let line = format!("{program} {role} PORT {}", file.display());
        command(&scratch, &[], &line, port)
    };
    let (server, client) =
        run_rdma_cm_pair(&scratch, side("server", &copy), side("client", &source));
    assert!(client.contains("100000000 bytes"), "{client}");
    // Over TCP the test would succeed, too, so check that RDMA was used.
    assert_eq!(executed(&server, "ACCEPT"), 1, "{server}");
    expect_same(&source, &copy);
}

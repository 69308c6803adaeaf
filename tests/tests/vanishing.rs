//! Unmapped registered memory, and truncated files of the fabric. `tests/c/vanishing.c` has the
//! checks of memory. Each case runs in its own process, because each used to end the process by a
//! signal.

use std::fs::OpenOptions;

use ferroce_tests::{PROCESS_TIMEOUT, Process, Scratch};

/// Runs one case, and returns its output.
fn goes(way: &str) -> String {
    let scratch = Scratch::new();
    let program = scratch.compile("vanishing");
    let command = scratch.run(&[], &program, &[way]);
    let output = scratch.finish(command).expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
    output
}

/// Goal: registered pages stay, like pages that a card has pinned. Method: the program unmaps them,
/// and the peer continues with the old key.
#[test]
fn pages_that_the_program_unmaps_stay() {
    for way in [
        "munmap",
        "munmap-in-parts",
        "munmap-and-mmap",
        "mmap-over-it",
        "mremap",
        "shrinking",
        "madvise",
        "mprotect",
        "mprotect-shared",
        "mprotect-memfd",
        "mprotect-mixed",
        "munmap-of-two",
        "given-back",
    ] {
        let output = goes(way);
        assert_eq!(output, "0 failures\n", "{way}");
    }
}

/// Goal: if memory cannot be kept, the operation fails with one line of message, and the process
/// continues. Method: unmap memory in ways that no library sees.
#[test]
fn memory_that_goes_unseen_is_an_error() {
    for way in ["system-call", "free", "truncation", "segment"] {
        let output = goes(way);
        let reports = output.matches("is registered").count();
        assert_eq!(reports, 1, "{way}: {output}");
    }
}

#[test]
fn handlers_of_the_program_are_called_for_its_own_faults() {
    goes("handlers");
}

#[test]
fn a_child_may_unmap_what_its_parent_has_registered() {
    goes("child");
}

/// Goal: one truncated file does not end all programs of the user. Method: truncate the registry,
/// entirely and in part, while a program sleeps; the next program finds the fabric usable.
#[test]
fn a_truncated_register_is_a_cable_pulled_out() {
    for length in [0, 5000] {
        let scratch = Scratch::new();
        // Otherwise its output would stay in a file's buffer.
        let command = scratch.run(&[], "stdbuf", &["-oL", "ibv_asyncwatch"]);
        let mut watcher = Process::start(command, &scratch, "watch", PROCESS_TIMEOUT);
        watcher.expect_output("async event FD");
        let register = OpenOptions::new()
            .write(true)
            .open(scratch.path("fabric/registry"))
            .expect("the register is there");
        register.set_len(length).expect("it is ours");
        watcher.expect_output("IBV_EVENT_PORT_ERR");
        watcher.expect_output("was truncated");
        let output = scratch.finish(scratch.run(&[], "ibv_devinfo", &[]));
        assert!(output.expect_success().contains("PORT_ACTIVE"), "{length}");
        drop(watcher);
    }
}

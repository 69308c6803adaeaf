//! Registered memory that goes away. What is checked is in `tests/c/vanishing.c`: every way in a process of its own, as each has ended its
//! process by a signal.

use ferroce_tests::Scratch;

/// Runs one way, and returns what was printed.
fn goes(way: &str) -> String {
    let scratch = Scratch::new();
    let program = scratch.compile("vanishing");
    let command = scratch.run(&[], &program, &[way]);
    let output = scratch.finish(command).expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
    output
}

/// Goal: registered pages stay, as those that a card has pinned. Method: the program takes them away
/// and the peer goes on with the old key.
#[test]
fn pages_that_the_program_takes_away_stay() {
    for way in [
        "munmap",
        "munmap-in-parts",
        "munmap-and-mmap",
        "mmap-over-it",
        "mremap",
        "shrinking",
        "madvise",
        "mprotect",
        "munmap-of-two",
        "given-back",
    ] {
        let output = goes(way);
        assert_eq!(output, "0 failures\n", "{way}");
    }
}

/// Goal: what nobody could keep is an error of the operation, told in one line, and not the end of
/// the process. Method: memory goes by ways that no library sees.
#[test]
fn memory_that_goes_unseen_is_an_error() {
    for way in ["system-call", "free", "truncation", "segment"] {
        let output = goes(way);
        let told = output.matches("is registered").count();
        assert_eq!(told, 1, "{way}: {output}");
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

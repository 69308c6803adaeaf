//! Children that use the device of their parent: `tests/c/forked.c`.

use ferroce_tests::Scratch;

/// Goal: with kernel drivers a child may use the device of its parent. Here its first verb,
/// whichever it is, fails with a message that explains why and what to do; the message appears
/// once.
#[test]
fn a_child_that_uses_its_parents_device_prints_why_it_fails_once() {
    for verb in ["alloc_pd", "poll", "post_send", "post_recv", "modify"] {
        let scratch = Scratch::new();
        let program = scratch.compile("forked");
        let command = scratch.run(&[], &program, &[verb]);
        let output = scratch.finish(command).expect_success();
        let printed: Vec<_> = output
            .lines()
            .filter(|line| line.contains("fork"))
            .collect();
        assert_eq!(printed.len(), 1, "{verb}: {output}");
        for words in ["its parent", "Open the device after fork", "EIO"] {
            assert!(printed[0].contains(words), "{verb}: {output}");
        }
        assert!(output.ends_with("0 failures\n"), "{verb}: {output}");
    }
}

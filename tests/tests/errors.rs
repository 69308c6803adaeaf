//! `ferroce run --explain-errors`: its output for twenty refused verbs and ten failed completions,
//! and the page of the book that shows it.

use ferroce_spec::cqe::VendorError;
use ferroce_tests::Scratch;
use ferroce_tests::explained::without_calls;
use ferroce_tests::page::compare_part;

/// The page.
const PAGE: &str = "docs/src/errors.md";

/// Returns the output about a program of `tests/c`, without lines of other programs.
fn said_about(name: &str) -> String {
    let scratch = Scratch::new();
    let program = scratch.compile(name);
    let command = scratch.run(&["--explain-errors"], &program, &[]);
    let output = scratch.finish(command).expect_success();
    assert!(output.contains("0 failures\n"), "{output}");
    let lines = output.lines().filter(|line| *line != "0 failures");
    lines
        .map(|line| format!("{}\n", without_numbers(line)))
        .collect()
}

/// Replaces keys and QPNs, which depend on the programs that ran before, and leaves out calls,
/// which depend on the compiler.
fn without_numbers(line: &str) -> String {
    let line = without_calls(line);
    let (mut shown, mut rest) = (String::new(), &*line);
    while let Some(start) = ["key 0x", "QP 0x"]
        .iter()
        .filter_map(|name| Some(rest.find(name)? + name.len()))
        .min()
    {
        shown += &rest[..start];
        shown.push('…');
        rest = rest[start..].trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    shown + rest
}

/// Returns the number of occurrences that the lines with `word` report.
fn count(said: &str, word: &str) -> u64 {
    let lines = said.lines().filter(|line| line.contains(word));
    let counts =
        lines.filter_map(|line| line.trim_start().split(" x ").next()?.parse::<u64>().ok());
    counts.sum()
}

/// Goal: the page lists each vendor_err. Method: the table is generated from the contract.
#[test]
fn the_table_of_vendor_err_is_that_of_the_contract() {
    let mut table = "| vendor_err | name | meaning |\n| --- | --- | --- |\n".to_owned();
    for value in VendorError::TABLE.values {
        let (number, name, meaning) = (value.value, value.name, value.meaning.trim());
        table += &format!("| {number:#04x} | `{name}` | {meaning} |\n");
    }
    compare_part(PAGE, "vendor_err", &table);
}

#[test]
fn twenty_wrong_verbs_are_named_with_argument_value_and_limit() {
    let said = said_about("refused");
    assert_eq!(count(&said, " x ibv_"), 20, "{said}");
    compare_part(PAGE, "refused", &format!("```text\n{said}```\n"));
}

#[test]
fn ten_failed_completions_are_explained() {
    let said = said_about("failed");
    assert!(count(&said, " x IBV_WC_") >= 10, "{said}");
    compare_part(PAGE, "failed", &format!("```text\n{said}```\n"));
}

/// Goal: the usual diagnostics print the same lines while the program runs, one for each refused
/// verb.
#[test]
fn each_refused_verb_has_one_line_at_level_info() {
    let scratch = Scratch::new();
    let program = scratch.compile("refused");
    let mut command = scratch.run(&[], &program, &[]);
    command.env("FERROCE_LOG", "ferroce::refused=info");
    let output = scratch.finish(command).expect_success();
    let lines = output
        .lines()
        .filter(|line| line.contains("ferroce::refused: ibv_"));
    assert_eq!(lines.count(), 20, "{output}");
}

/// Goal: a call in which a program hangs is named, and no other. Method: waits without an arming
/// and without an acknowledgement, which an alarm ends; a wait that another thread ends; none.
#[test]
fn calls_that_still_wait_are_named() {
    let scratch = Scratch::new();
    let program = scratch.compile("waiting");
    let said = |mode| {
        let command = scratch.run(&["--explain-errors"], &program, &[mode]);
        scratch.finish(command).output
    };
    let heading = "ferroce: what still waited:\n      1 x ";
    for (mode, call) in [
        ("unarmed", "ibv_get_cq_event: no CQ of the channel is armed"),
        (
            "unacknowledged",
            "ibv_destroy_cq: completion events of the CQ",
        ),
    ] {
        let said = said(mode);
        assert!(said.contains(&format!("{heading}{call}")), "{mode}: {said}");
    }
    for mode in ["later", "right"] {
        let said = said(mode);
        assert!(said.starts_with("0 failures\n"), "{mode}: {said}");
        assert!(!said.contains("waited"), "{mode}: {said}");
    }
}

/// A mistake of `tests/c/hanging.c`, and what has to be said about it.
struct Mistake {
    mode: &'static str,
    heading: &'static str,
    words: &'static [&'static str],
}

/// Mistakes by which a program hangs, or by which packets vanish.
const MISTAKES: &[Mistake] = &[
    Mistake {
        mode: "qkey",
        heading: "packets that the receiver dropped",
        words: &[
            "Q_Key 0x22222222, this QP 0x11111111",
            "remote_qkey",
            "[QP 0x",
        ],
    },
    Mistake {
        mode: "unposted",
        heading: "packets that the receiver dropped",
        words: &["no receive is posted", "ibv_post_recv", "[QP 0x"],
    },
    Mistake {
        mode: "grh",
        heading: "packets that the receiver dropped",
        words: &[
            "64 bytes needs 104 bytes, 40 of them for the GRH; the receive has 64",
            "[QP 0x",
        ],
    },
    Mistake {
        mode: "early",
        heading: "what the model saw",
        words: &[
            "first request has PSN 0x100, but 0x500000 is expected; right: rq_psn",
            "expects PSN 0x500000, but this QP began with 0x100; right: sq_psn",
            "[QP 0x",
        ],
    },
    Mistake {
        mode: "ahead",
        heading: "what the model saw",
        words: &[
            "first request has PSN 0x101, but 0x100 is expected",
            "[QP 0x",
        ],
    },
    Mistake {
        mode: "unsignaled",
        heading: "what still waited",
        words: &[
            "requests that fill the send queue make no completion",
            "IBV_SEND_SIGNALED",
            "[QP 0x",
        ],
    },
    Mistake {
        mode: "unsignaled-stall",
        heading: "no progress for 5 s",
        words: &["no completion comes of the newest requests, 1: none has IBV_SEND_SIGNALED"],
    },
    Mistake {
        mode: "timeout-stall",
        heading: "no progress for 5 s",
        words: &[
            "1 requests have no completion yet: the peer has not answered",
            "with timeout 0 the QP never sends a lost request again; right: timeout 14",
            "[QP 0x",
        ],
    },
    Mistake {
        mode: "poll",
        heading: "what still waited",
        words: &["no CQ of the channel is armed; right: ibv_req_notify_cq"],
    },
    Mistake {
        mode: "epoll",
        heading: "what still waited",
        words: &["no CQ of the channel is armed; right: ibv_req_notify_cq"],
    },
    Mistake {
        mode: "select",
        heading: "what still waited",
        words: &["no CQ of the channel is armed; right: ibv_req_notify_cq"],
    },
    Mistake {
        mode: "rnr",
        heading: "what still waited",
        words: &[
            "a request of the peer: no receive is posted",
            "the peer has no receive posted (RNR NAK), and rnr_retry 7 asks without end",
            "[QP 0x",
        ],
    },
];

/// Goal: mistakes that hang a program, or lose its packets silently, are named with values and QPN.
#[test]
fn mistakes_that_hang_a_program_are_named() {
    let scratch = Scratch::new();
    let program = scratch.compile("hanging");
    for Mistake {
        mode,
        heading,
        words,
    } in MISTAKES
    {
        let command = scratch.run(&["--explain-errors"], &program, &[mode]);
        let said = scratch.finish(command).output;
        assert!(
            said.contains(&format!("ferroce: {heading}")),
            "{mode}: {said}"
        );
        for word in *words {
            assert!(said.contains(word), "{mode}: no {word:?} in\n{said}");
        }
        let stalls = said.matches("ferroce: no progress").count();
        assert_eq!(
            stalls,
            usize::from(mode.contains("stall")),
            "{mode}: {said}"
        );
    }
}

/// Goal: a receive that comes late is no mistake.
#[test]
fn a_wait_that_ends_is_not_named() {
    let scratch = Scratch::new();
    let program = scratch.compile("hanging");
    let command = scratch.run(&["--explain-errors"], &program, &["late"]);
    let said = scratch.finish(command).expect_success();
    let expected = "0 failures\nferroce: no verb was refused, no completion failed\n";
    assert_eq!(said, expected);
}

/// Goal: a refused verb has the place of its call. Method: a program with debug information, as
/// far as addr2line of binutils is there; without it, the file and the offset.
#[test]
fn the_call_of_a_refused_verb_is_named() {
    let scratch = Scratch::new();
    let program = scratch.compile_with("refused", &["-g"]);
    let command = scratch.run(&["--explain-errors"], &program, &[]);
    let said = scratch.finish(command).expect_success();
    let refused = said.lines().filter(|line| line.contains(" x ibv_"));
    for line in refused {
        assert!(line.contains("in ") && line.ends_with(']'), "{line}");
        let is_named = line.contains("refused.c:") || line.contains("refused+0x");
        assert!(
            !line.contains("in ibv_") && !line.contains("in __ibv_"),
            "{line}"
        );
        assert!(is_named, "{line}");
    }
}

/// Goal: a program that has opened no device is not said to be without errors.
#[test]
fn a_program_without_a_device_has_nothing_to_explain() {
    let scratch = Scratch::new();
    let command = scratch.run(&["--explain-errors"], "true", &[]);
    let said = scratch.finish(command).expect_success();
    assert!(
        said.contains("no process of the program opened a device"),
        "{said}"
    );
}

/// Goal: the command returns the program's status. Method: an exit code, and a signal.
#[test]
fn the_status_of_the_program_is_passed_on() {
    let scratch = Scratch::new();
    for (script, expected) in [("exit 7", 7), ("kill -9 $$", 128 + 9)] {
        let command = scratch.run(&["--explain-errors"], "sh", &["-c", script]);
        let ended = scratch.finish(command);
        assert_eq!(ended.expect_end().code(), Some(expected), "{script}");
    }
}

/// Goal: a program that is linked against libmlx5 gets a message that names its unsupported calls.
/// Method: calls of several kinds on a device that is not a ConnectX.
#[test]
fn calls_of_libmlx5_are_refused_by_name() {
    let scratch = Scratch::new();
    let program = scratch.compile_with("direct_verbs", &["-Wl,--no-as-needed", "-lmlx5"]);
    let command = scratch.run(&["--explain-errors"], &program, &[]);
    let output = scratch.finish(command).expect_success();
    assert!(output.contains("0 failures\n"), "{output}");
    for name in [
        "open_device",
        "query_device",
        "create_qp",
        "devx_alloc_uar",
        "dr_domain_create",
        "devx_query_eqn",
        "init_obj",
    ] {
        let line = format!("1 x mlx5dv_{name}: direct verbs of libmlx5 are not there");
        assert!(output.contains(&line), "no {line}:\n{output}");
    }
}

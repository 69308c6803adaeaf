//! `ferroce run --random-keys`: QPNs and keys in an order that no program can rely on.

use ferroce_tests::{Pair, Scratch};

/// Returns the QPNs that the two sides of a ping-pong print of themselves.
fn queue_pairs(output: &str) -> Vec<String> {
    let local = output.lines().filter(|line| line.contains("local address"));
    local
        .filter_map(|line| line.split("QPN ").nth(1)?.split(',').next())
        .map(str::to_owned)
        .collect()
}

/// Returns the low 16 bits of the QPN that `ibv_srq_pingpong` prints for each of its queue pairs;
/// the upper bits are the process's place.
fn offsets(scratch: &Scratch, option: &str) -> Vec<u32> {
    let pair = Pair {
        program: "ibv_srq_pingpong",
        arguments: &["-g", "1", "-q", "6", "-n", "50"],
        options: &[],
    };
    let options: Vec<&str> = std::iter::once(option)
        .filter(|text| !text.is_empty())
        .collect();
    let (server, _client) = pair.start(scratch, &options, &options).finish();
    let parse = |qpn: &String| {
        let digits = qpn.trim().trim_start_matches("0x");
        u32::from_str_radix(digits, 16).expect("a QPN") & 0xffff
    };
    queue_pairs(&server).iter().map(parse).collect()
}

/// Goal: the order is random, so no QPN follows from another; a program without the option gets the
/// usual order.
#[test]
fn queue_pair_numbers_do_not_ascend() {
    let scratch = Scratch::new();
    let ascending = offsets(&scratch, "");
    assert_eq!(ascending.len(), 6, "{ascending:?}");
    assert!(
        ascending.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{ascending:?}"
    );
    let drawn = offsets(&scratch, "--random-keys=7");
    assert_eq!(drawn.len(), 6, "{drawn:?}");
    assert!(
        drawn.windows(2).all(|pair| pair[1] != pair[0] + 1),
        "{drawn:?}"
    );
    let other = offsets(&scratch, "--random-keys=8");
    assert_ne!(drawn, other);
}

/// Goal: programs that do not rely on an order run, and a seed that was drawn at random is printed.
/// Method: data over several queue pairs and regions, in both directions.
#[test]
fn programs_run_with_drawn_numbers() {
    let programs: [(&str, &[&str]); 4] = [
        ("ib_write_bw", &["-F", "-n", "200", "-q", "4"]),
        ("ib_read_lat", &["-F", "-n", "50"]),
        ("ibv_rc_pingpong", &["-g", "1", "-c", "-n", "100"]),
        (
            "ibv_ud_pingpong",
            &["-g", "1", "-c", "-s", "1000", "-n", "100"],
        ),
    ];
    for (program, arguments) in programs {
        let pair = Pair {
            program,
            arguments,
            options: &["--random-keys"],
        };
        let (server, client) = pair.run();
        for output in [server, client] {
            assert!(output.contains("makes this run again"), "{output}");
        }
    }
}

/// Goal: a seed repeats a run. Method: run the same command twice, without other programs.
#[test]
fn a_seed_makes_a_run_again() {
    let scratch = Scratch::new();
    let program = scratch.compile("numbers");
    let run = |option: &str| {
        let options: &[&str] = &[option];
        scratch
            .finish(scratch.run(options, &program, &[]))
            .expect_success()
    };
    let one = run("--random-keys=5");
    assert_eq!(one, run("--random-keys=5"));
    assert_ne!(one, run("--random-keys=6"));
}

#[test]
fn what_is_no_seed_is_refused() {
    let scratch = Scratch::new();
    let mut command = scratch.run(&[], "ibv_devinfo", &[]);
    command.env("FERROCE_RANDOM_KEYS", "seven");
    let ended = scratch.finish(command);
    assert!(!ended.succeeded());
    assert!(ended.output.contains("FERROCE_RANDOM_KEYS"), "{ended:?}");
}

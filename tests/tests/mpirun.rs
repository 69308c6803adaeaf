//! `ferroce mpirun`: MPI jobs in simulated time, by the launchers of Open MPI and MPICH.

use std::collections::BTreeMap;
use std::process::Command;

use ferroce_tests::Scratch;

const PRESET: [&str; 2] = ["--preset", "cx5-100g"];

/// Compiles an MPI program with the compiler's options of Open MPI.
fn compile(scratch: &Scratch, name: &str) -> String {
    let options = ["--showme:compile", "--showme:link"].map(|which| {
        let mut compiler = Command::new("mpicc.openmpi");
        compiler.arg(which);
        scratch.finish(compiler).expect_success()
    });
    let options = options.join(" ");
    let options: Vec<_> = options.split_whitespace().collect();
    scratch.compile_with(name, &options)
}

/// Runs a job, which has to succeed and to be repeatable. Returns what it prints.
fn run(scratch: &Scratch, options: &[&str], program: &[&str]) -> String {
    let arguments = [&["mpirun"][..], &PRESET, options, &["--"], program].concat();
    let output = scratch.finish(scratch.ferroce(&arguments)).expect_success();
    let (verdict, lines): (Vec<_>, Vec<_>) = output
        .lines()
        .partition(|line| line.starts_with("ferroce: "));
    assert!(
        verdict.concat().contains("repeatable: not proven"),
        "{output}"
    );
    lines.join("\n")
}

/// Goal: a job runs in simulated time, with hosts of one rank and of several.
#[test]
#[ignore = "a job may fail on a busy machine: see the limits"]
fn an_mpi_job_takes_the_time_of_its_cards() {
    let scratch = Scratch::new();
    let program = compile(&scratch, "mpi_job");
    for layout in [&["-n", "2"][..], &["-n", "4", "--hosts", "2"]] {
        let options = [&["--launcher", "mpirun.openmpi"][..], layout].concat();
        let output = run(&scratch, &options, &[&program]);
        assert_eq!(
            output.lines().filter(|line| line.ends_with(" us")).count(),
            6,
            "{output}"
        );
        let first = output.lines().next().unwrap_or_default();
        let time_us = first
            .strip_prefix("ping-pong 8 bytes ")
            .and_then(|rest| rest.strip_suffix(" us"))
            .and_then(|text| text.parse::<f64>().ok());
        // The card alone takes 0.9 us in ib_send_lat, each switch 0.2 to 0.3.
        assert!(
            time_us.is_some_and(|time_us| (1.0..2.0).contains(&time_us)),
            "{output}"
        );
    }
}

/// Goal: both launchers spread ranks over hosts, which have names. Method: each rank prints the
/// name of its host.
#[test]
#[ignore = "a job may fail on a busy machine: see the limits"]
fn ranks_run_on_their_hosts() {
    let scratch = Scratch::new();
    for launcher in ["mpirun.openmpi", "mpirun.mpich"] {
        let options = ["--launcher", launcher, "-n", "5", "--hosts", "3"];
        let output = run(&scratch, &options, &["uname", "-n"]);
        let mut ranks: BTreeMap<&str, u32> = BTreeMap::new();
        for host in output.lines() {
            *ranks.entry(host).or_default() += 1;
        }
        let expected = BTreeMap::from([("n0", 2), ("n1", 2), ("n2", 1)]);
        assert_eq!(ranks, expected, "{launcher}");
    }
}

/// Goal: the status of the job is the command's, and a job that has left simulated time fails.
#[test]
#[ignore = "a job may fail on a busy machine: see the limits"]
fn a_job_that_fails_or_leaves_simulated_time_fails() {
    let scratch = Scratch::new();
    // A process without the environment is not in the world.
    let outside = ["sh", "-c", "env -i true"];
    for (program, expected) in [(&["false"][..], 1), (&outside, 3)] {
        let options = ["mpirun", "--launcher", "mpirun.openmpi", "-n", "2"];
        let arguments = [&options[..], &PRESET, &["--"], program].concat();
        let output = scratch.ferroce(&arguments).output().expect("started");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{program:?}: {errors}"
        );
    }
}

//! Unmodified programs complete with each packet fault, in each recovery mode.
//!
//! `make test` runs a selection. `tests/scripts/fault-matrix` runs the whole matrix, and prints a
//! table. Among the programs, ibv_rc_pingpong (`-c`) checks its data;
//! `tests/client/tests/random.rs` checks the data of all operations.

use std::process::Command;
use std::time::{Duration, Instant};

use ferroce_model::config::RecoveryConfig;
use ferroce_tests::{
    PROCESS_TIMEOUT, Process, Scratch, TIMEOUT, free_port, ucx_without_mpi, wait_until_listening,
};

const FAULTS: [&str; 7] = [
    "loss=1e-4",
    "loss=1e-3",
    "loss=1e-2",
    "loss=5e-2",
    "reorder=8paths",
    "corrupt=1e-3",
    "dup=1e-2",
];

/// A program, with arguments for little data and short time-outs (`-u 10`: 4 ms).
#[derive(Debug)]
struct Program {
    name: &'static str,
    arguments: &'static str,
    /// The client prints this when it has completed.
    result: &'static str,
}

const fn perftest(name: &'static str) -> Program {
    Program {
        name,
        arguments: "-F -n 200 -u 10",
        result: "BW average",
    }
}

const fn ucx(arguments: &'static str) -> Program {
    Program {
        name: "ucx_perftest",
        arguments,
        result: "Final:",
    }
}

const PROGRAMS: [Program; 8] = [
    perftest("ib_write_bw"),
    perftest("ib_read_bw"),
    perftest("ib_send_bw"),
    perftest("ib_atomic_bw"),
    Program {
        name: "ibv_rc_pingpong",
        arguments: "-g 1 -c -n 30",
        result: "iters in",
    },
    ucx("-w 20 -n 200 -s 65536 -t tag_bw"),
    ucx("-w 20 -n 200 -s 65536 -t ucp_get"),
    ucx("-w 20 -n 200 -s 65536 -t ucp_put_bw"),
];

/// One run.
#[derive(Debug, Clone, Copy)]
struct Case {
    mode: &'static str,
    fault: &'static str,
    program: &'static Program,
}

impl Case {
    /// Returns true if the program can run in the mode. This test of UCX polls the last byte of the
    /// last of many WRITEs to one place, but with adaptive routing these take effect in any order.
    fn is_possible(&self) -> bool {
        !(self.mode.starts_with("adaptive-routing") && self.program.arguments.contains("put_bw"))
    }

    /// Runs both processes. Returns the time that they took, or the error.
    fn run(&self) -> Result<Duration, String> {
        let scratch = Scratch::new();
        let port = free_port();
        let begin = Instant::now();
        let server = self.command(&scratch, port, None);
        let mut server = Process::start(server, &scratch, "server", PROCESS_TIMEOUT);
        wait_until_listening(port, &mut server);
        let client = self.command(&scratch, port, Some("127.0.0.1"));
        let client = Process::start(client, &scratch, "client", PROCESS_TIMEOUT).wait();
        server.hurry(if client.succeeded() {
            TIMEOUT
        } else {
            Duration::ZERO
        });
        let server = server.wait();
        let is_right = client.succeeded()
            && server.succeeded()
            && client.output.contains(self.program.result)
            && ![&client, &server]
                .iter()
                .any(|ended| ended.output.contains("invalid data"));
        if is_right {
            Ok(begin.elapsed())
        } else {
            Err(format!("{self:?}\nclient {client:?}\nserver {server:?}"))
        }
    }

    fn command(&self, scratch: &Scratch, port: u16, server: Option<&str>) -> Command {
        let Program {
            name, arguments, ..
        } = self.program;
        let port = port.to_string();
        let mut words = vec!["-p", &port];
        words.extend(arguments.split(' '));
        if *name == "ucx_perftest" {
            words.extend(ucx_without_mpi(scratch));
        }
        words.extend(server);
        let options = ["--faults", self.fault, "--recovery", self.mode];
        let mut command = scratch.run(&options, name, &words);
        command
            .env("UCX_WARN_UNUSED_ENV_VARS", "n")
            .env("UCX_NET_DEVICES", "ferroce0:1")
            .env("UCX_TLS", "rc_v")
            .env("UCX_RC_VERBS_TIMEOUT", "4ms");
        command
    }
}

fn all() -> impl Iterator<Item = Case> {
    let pairs = RecoveryConfig::MODES
        .into_iter()
        .flat_map(|mode| FAULTS.map(|fault| (mode, fault)));
    let cases = pairs.flat_map(|(mode, fault)| {
        PROGRAMS.iter().map(move |program| Case {
            mode,
            fault,
            program,
        })
    });
    cases.filter(Case::is_possible)
}

/// Goal: test each mode with each fault, and with nearly each program. Method: one program for each
/// mode and fault; the programs rotate from fault to fault, and each mode begins with another
/// program.
fn selection(mode: &str) {
    let place = RecoveryConfig::MODES
        .iter()
        .position(|known| *known == mode);
    let mode_number = place.expect("one of them");
    let all: Vec<Case> = all().collect();
    for (number, fault) in FAULTS.into_iter().enumerate() {
        let is_ours = |case: &&Case| (case.mode, case.fault) == (mode, fault);
        let ours: Vec<_> = all.iter().filter(is_ours).collect();
        // From the second one on: go-back-N resends much of the sprayed packets, which takes
        // ibv_rc_pingpong seconds.
        let chosen = ours[(number + mode_number + 1) % ours.len()];
        chosen.run().unwrap_or_else(|error| panic!("{error}"));
    }
}

macro_rules! selections {
    ($( $test:ident: $mode:literal; )*) => {
        $(
            #[test]
            fn $test() {
                selection($mode);
            }
        )*
    };
}

selections! {
    go_back_n: "go-back-n";
    selective_repeat: "selective-repeat";
    adaptive_routing: "adaptive-routing";
    go_back_n_with_the_adaptive_timer: "go-back-n+adaptive-timer";
    selective_repeat_with_the_adaptive_timer: "selective-repeat+adaptive-timer";
    adaptive_routing_with_the_adaptive_timer: "adaptive-routing+adaptive-timer";
}

/// Seconds of each program, in the order of [`PROGRAMS`], for each mode and fault.
#[test]
#[ignore = "takes minutes"]
fn the_whole_matrix() {
    let mut failures = Vec::new();
    for mode in RecoveryConfig::MODES {
        for fault in FAULTS {
            let mut row = String::new();
            for case in all().filter(|case| (case.mode, case.fault) == (mode, fault)) {
                row += &match case.run() {
                    Ok(took) => format!(" | {:.1}", took.as_secs_f64()),
                    Err(error) => {
                        failures.push(error);
                        " | failed".to_owned()
                    }
                };
            }
            println!("| {mode} | {fault}{row} |");
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

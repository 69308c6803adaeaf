//! The command `ferroce`: refusals, forwarding to programs, output.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use ferroce_tests::{
    Ended, PROCESS_TIMEOUT, Pair, Process, Scratch, Signal, TIMEOUT, eventually, ferroce, is_root,
    send_signal,
};

/// Exit codes as shells, env(1) and timeout(1) have them.
const OWN_FAILURE: i32 = 125;
/// Exit code of clap for invalid arguments.
const USAGE: i32 = 2;
const CANNOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;

fn run(scratch: &Scratch, program: &str, arguments: &[&str]) -> Ended {
    scratch.finish(scratch.run(&[], program, arguments))
}

/// Fails unless the command has ended with `code` and its message contains `words`.
fn expect_refusal(ended: &Ended, code: i32, words: &[&str]) {
    let found = ended.status.and_then(|status| status.code());
    assert_eq!(found, Some(code), "{ended:?}");
    assert!(ended.output.starts_with("ferroce: "), "{ended:?}");
    for word in words {
        assert!(ended.output.contains(word), "no {word}: {ended:?}");
    }
}

fn make_executable(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own file");
}

#[test]
fn programs_that_are_missing_are_named() {
    let scratch = Scratch::new();
    for name in ["no-such-program-anywhere", "/no/such/program"] {
        expect_refusal(&run(&scratch, name, &[]), NOT_FOUND, &[name]);
    }
    let file = scratch.path("text");
    fs::write(&file, "not executable").expect("written");
    let name = file.to_string_lossy();
    expect_refusal(&run(&scratch, &name, &[]), CANNOT_RUN, &[&name]);
}

/// Goal: a program that cannot be preloaded is refused with the reason.
#[test]
fn a_static_program_is_refused() {
    let scratch = Scratch::new();
    let (source, binary) = (scratch.path("main.c"), scratch.path("static"));
    fs::write(&source, "int main(void) { return 0; }\n").expect("written");
    let mut compiler = Command::new("cc");
    compiler.arg("-static").arg("-o").args([&binary, &source]);
    scratch.finish(compiler).expect_success();
    let ended = run(&scratch, &binary.to_string_lossy(), &[]);
    expect_refusal(&ended, CANNOT_RUN, &["static"]);
}

/// Goal: the same for a setuid program. Method: an ordinary user runs a program of root.
#[test]
fn a_setuid_program_is_refused() {
    let Some(scratch) = Scratch::of_ordinary_user() else {
        eprintln!("SKIPPED: only root can make a setuid program of another user");
        return;
    };
    let copy = scratch.path("setuid");
    fs::copy("/usr/bin/ibv_devices", &copy).expect("ibverbs-utils are installed");
    make_executable(&copy, 0o4755);
    let ended = run(&scratch, &copy.to_string_lossy(), &[]);
    expect_refusal(&ended, CANNOT_RUN, &["setuid"]);
}

/// Goal: a program for another machine is refused. Method: the header of one for SPARC.
#[test]
fn a_program_for_another_machine_is_refused() {
    const MACHINE: usize = 18;
    const SPARC_V9: u16 = 43;
    let scratch = Scratch::new();
    let mut program = fs::read("/usr/bin/ibv_devices").expect("ibverbs-utils are installed");
    program[MACHINE..MACHINE + 2].copy_from_slice(&SPARC_V9.to_le_bytes());
    let path = scratch.path("sparc");
    fs::write(&path, program).expect("written");
    make_executable(&path, 0o755);
    let ended = run(&scratch, &path.to_string_lossy(), &[]);
    expect_refusal(&ended, CANNOT_RUN, &["is a program for"]);
}

/// Goal: if the command does not find its library, it prints where it has searched.
#[test]
fn a_missing_library_is_named() {
    let scratch = Scratch::new();
    let copy = scratch.path("ferroce");
    fs::copy(ferroce(), &copy).expect("the command can be copied");
    let mut command = Command::new(&copy);
    command
        .args(["run", "--", "true"])
        .env("FERROCE_DIR", scratch.path("fabric"));
    let ended = scratch.finish(command);
    let folder = scratch.path("lib");
    let words = ["libibverbs.so.1", &folder.to_string_lossy()];
    expect_refusal(&ended, OWN_FAILURE, &words);
}

#[test]
fn bad_options_are_refused() {
    let scratch = Scratch::new();
    for options in [
        ["--address", "10.1"],
        ["--part-id", "xyz"],
        ["--host", ""],
        ["--capture", "/nothing/here.pcapng"],
    ] {
        let ended = scratch.finish(scratch.run(&options, "true", &[]));
        expect_refusal(&ended, OWN_FAILURE, &[]);
    }
}

/// Goal: an unknown option is refused, and not mistaken for the program.
#[test]
fn a_mistyped_option_is_no_program() {
    let scratch = Scratch::new();
    let file = scratch.path("x.pcapng");
    let file = file.to_string_lossy();
    for arguments in [
        &["run", "--captur", &file, "--", "true"][..],
        &["run", "--captur", &file, "true"],
        &["perftest", "write_bw", "--captur", "--", "-F"],
    ] {
        let ended = scratch.finish(scratch.ferroce(arguments));
        let code = ended.status.and_then(|status| status.code());
        assert_eq!(code, Some(USAGE), "{ended:?}");
        let named = ended.output.contains("unexpected argument '--captur'");
        assert!(named, "{arguments:?}: {ended:?}");
        let nearest = arguments[0] != "run" || ended.output.contains("'--capture'");
        assert!(nearest, "{arguments:?}: {ended:?}");
    }
    // Arguments after the program belong to the program, also without `--`.
    let echo = scratch.ferroce(&["run", "echo", "--captur", "-h", "--", "-V"]);
    let output = scratch.finish(echo).expect_success();
    assert_eq!(output.trim(), "--captur -h -- -V");
}

#[test]
fn the_version_is_that_of_the_command() {
    let scratch = Scratch::new();
    let expected = format!("ferroce {} (", env!("CARGO_PKG_VERSION"));
    for option in ["-V", "--version"] {
        let output = scratch.finish(scratch.ferroce(&[option])).expect_success();
        assert!(output.starts_with(&expected), "{output}");
    }
}

/// Goal: an unknown plot is refused with a list of the plots.
#[test]
fn a_report_names_the_plots_that_it_has() {
    let scratch = Scratch::new();
    let (out, mine) = (scratch.path("report"), scratch.path("mine.toml"));
    let text = "about = \"mine\"\ninherits = \"cx5-100g\"\n";
    fs::write(&mine, text).expect("written");
    let (out, mine) = (out.to_string_lossy(), mine.to_string_lossy());
    let compare = format!("`ferroce compare {mine} TABLE`");
    for (options, words) in [
        (&["--preset", &mine][..], &["cx5-100g", &compare][..]),
        (&["--preset", "cx5-100"], &["cx5-100g"]),
        (&["--plot", "cx5-latenc"], &["cx5-latenc:", "cx5-latency"]),
        (
            &["--plot", "cx5-latency", "--preset", "cx3-40g"],
            &["not about"],
        ),
        (&["--plot", "real-10g-bandwidth"], &["--perftest"]),
    ] {
        let arguments = [&["report", "--out", &out], options].concat();
        let ended = scratch.finish(scratch.ferroce(&arguments));
        expect_refusal(&ended, OWN_FAILURE, words);
    }
}

/// A command line that is refused, and what the message has to say.
struct Refused {
    line: &'static str,
    code: i32,
    words: &'static [&'static str],
}

const REFUSED: &[Refused] = &[
    Refused {
        line: "validate --only V01,V99",
        code: OWN_FAILURE,
        words: &["--only \"V99\"", "there are", "V01"],
    },
    Refused {
        line: "validate --only v01",
        code: OWN_FAILURE,
        words: &["--only \"v01\"", "V01"],
    },
    Refused {
        line: "perf write_bw --preset cx5-100g -s 64 -n 5 --waveform /nonexistent/x.fst",
        code: OWN_FAILURE,
        words: &["/nonexistent/x.fst: No such file"],
    },
    Refused {
        line: "wire check /etc/passwd",
        code: OWN_FAILURE,
        words: &["/etc/passwd: is no capture, neither pcap nor pcapng"],
    },
    Refused {
        line: "sim --seeds x",
        code: USAGE,
        words: &["a number of seeds is right", "such as 1000"],
    },
    Refused {
        line: "run --devices 9 -- true",
        code: OWN_FAILURE,
        words: &["--devices 9: a host has 1 to 8 devices"],
    },
    Refused {
        line: "run --functions 0 -- true",
        code: OWN_FAILURE,
        words: &["--functions 0: a device has 1 to 8 functions"],
    },
    Refused {
        line: "run --address 10.1 -- true",
        code: OWN_FAILURE,
        words: &["--address 10.1: \"10.1\" is not the IP address"],
    },
    Refused {
        line: "run --device card0 -- true",
        code: OWN_FAILURE,
        words: &["--device card0: "],
    },
    Refused {
        line: "run --host .. -- true",
        code: OWN_FAILURE,
        words: &["--host \"..\": a name has letters"],
    },
    Refused {
        line: "run --timed cx5-100g --capture x.pcapng -- true",
        code: USAGE,
        words: &["tip: ", "ferroce world --pcap FILE"],
    },
    Refused {
        line: "run --timed cx5-100g --patient -- true",
        code: USAGE,
        words: &["tip: ", "simulated time waits"],
    },
    Refused {
        line: "run --timed cx5-100g --devices 2 -- true",
        code: USAGE,
        words: &["tip: ", "ferroce world --hosts N"],
    },
    Refused {
        line: "run --timed cx5-100g --functions 2 -- true",
        code: USAGE,
        words: &["tip: ", "--host nK.F"],
    },
    Refused {
        line: "run --timed cx5-100g --port shm -- true",
        code: USAGE,
        words: &["tip: ", "its own network"],
    },
    Refused {
        line: "run --timed cx5-100g --icrc on -- true",
        code: USAGE,
        words: &["tip: ", "corrupt=P"],
    },
    Refused {
        line: "run --device vfio-user:s --patient -- true",
        code: USAGE,
        words: &["tip: ", "ibv_modify_qp"],
    },
    Refused {
        line: "run",
        code: USAGE,
        words: &["tip: ", "ferroce run -- ibv_devinfo"],
    },
    Refused {
        line: "perf write_bw",
        code: USAGE,
        words: &["tip: ", "ferroce preset list"],
    },
    Refused {
        line: "top --once --pid 999999",
        code: OWN_FAILURE,
        words: &["no program with pid 999999"],
    },
    Refused {
        line: "inject port-down",
        code: OWN_FAILURE,
        words: &["nothing to inject into: no program uses the device"],
    },
];

/// Goal: a refused command line names the option that was given, the cause, and what is right.
#[test]
fn refusals_name_the_option_and_the_way_out() {
    let scratch = Scratch::new();
    for Refused { line, code, words } in REFUSED {
        let arguments: Vec<_> = line.split(' ').collect();
        let ended = scratch.finish(scratch.ferroce(&arguments));
        let found = ended.status.and_then(|status| status.code());
        assert_eq!(found, Some(*code), "{line}: {ended:?}");
        // clap breaks lines.
        let said = ended
            .output
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        for word in *words {
            assert!(said.contains(word), "{line}: no {word:?} in\n{said}");
        }
        let is_of_option = !said.contains("FERROCE_DEVICES=") && !said.contains("FERROCE_HOST=");
        assert!(is_of_option, "{line}: {said}");
    }
}

/// Goal: a level that does not exist is not taken for a module. Method: misspelt levels, with a
/// program that opens the device.
#[test]
fn an_unknown_log_level_is_reported() {
    let scratch = Scratch::new();
    for (level, is_known) in [("loud", false), ("inof", false), ("warn", true)] {
        let mut command = scratch.run(&[], "ibv_devinfo", &[]);
        command.env("FERROCE_LOG", level);
        let output = scratch.finish(command).expect_success();
        let line = format!("FERROCE_LOG={level}: is no list of levels");
        assert_eq!(output.contains(&line), !is_known, "{level}: {output}");
    }
}

/// Goal: a comparison with another card's table says so.
#[test]
fn a_table_of_another_card_has_a_note() {
    let scratch = Scratch::new();
    for (preset, is_noted) in [("cx5-100g", true), ("cx3-40g@xeon-qdr", false)] {
        let command = scratch.ferroce(&["compare", preset, "cx3_qdr40_ib_write_bw"]);
        let output = scratch.finish(command).expect_success();
        let note = "another card: cx3_qdr40_ib_write_bw was measured on that of preset cx3-40g";
        assert_eq!(output.contains(note), is_noted, "{preset}: {output}");
    }
}

/// Goal: a capture is one even if the program has sent nothing.
#[test]
fn a_capture_without_packets_is_a_capture() {
    let scratch = Scratch::new();
    let file = scratch.path("empty.pcapng");
    let file = file.to_string_lossy();
    let command = scratch.run(&["--capture", &file], "true", &[]);
    scratch.finish(command).expect_success();
    let checked = scratch.finish(scratch.ferroce(&["wire", "check", &file]));
    let output = checked.expect_success();
    assert!(output.contains("0 frames"), "{output}");
}

/// Goal: registers and records are there for programs, too.
#[test]
fn registers_and_records_have_json() {
    let scratch = Scratch::new();
    let record = scratch.path("a.rec");
    let record = record.to_string_lossy();
    let command = scratch.run(&["--record", &record], "ibv_devinfo", &[]);
    scratch.finish(command).expect_success();
    for (line, key) in [
        ("reg list", "\"registers\""),
        ("reg get status", "\"value\""),
        ("reg dump", "\"zero_counters\""),
        ("reg watch status --count 1", "\"time_s\""),
        (&format!("trace show {record}"), "\"accesses\""),
    ] {
        let arguments = format!("{line} --json");
        let arguments: Vec<_> = arguments.split(' ').collect();
        let output = scratch.finish(scratch.ferroce(&arguments)).expect_success();
        assert!(
            output.starts_with('{') && output.contains(key),
            "{line}: {output}"
        );
    }
}

/// Returns the lines of commands that have no further commands, from the help.
fn commands(scratch: &Scratch, words: &[&str]) -> Vec<String> {
    let help = scratch.finish(scratch.ferroce(&[words, &["--help"]].concat()));
    let help = help.expect_success();
    let Some((_, list)) = help.split_once("Commands:\n") else {
        return vec![words.join(" ")];
    };
    let lines = list.lines().take_while(|line| !line.is_empty());
    // A description that is wrapped goes on in a line with more spaces.
    let names = lines.filter_map(|line| {
        let line = line.strip_prefix("  ")?;
        line.split(' ').next().filter(|name| !name.is_empty())
    });
    let names = names.filter(|name| *name != "help");
    let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase());
    names
        .filter(is_name)
        .flat_map(|name| commands(scratch, &[words, &[name]].concat()))
        .collect()
}

/// Goal: the help of each command has an example, and names no file that only the source tree has.
#[test]
fn each_help_has_an_example() {
    let scratch = Scratch::new();
    let commands = commands(&scratch, &[]);
    assert!(commands.len() > 30, "{commands:?}");
    for command in commands {
        let words: Vec<_> = command.split(' ').chain(["--help"]).collect();
        let help = scratch.finish(scratch.ferroce(&words)).expect_success();
        assert!(help.contains("Examples:\n"), "{command} has none");
        for folder in ["docs/src", "hw-model/", "sim/", "tests/"] {
            assert!(!help.contains(folder), "{command}: {folder}");
        }
    }
}

/// Goal: the exit codes are in the help.
#[test]
fn the_help_has_the_exit_codes() {
    let scratch = Scratch::new();
    let help = scratch.finish(scratch.ferroce(&["help"])).expect_success();
    let (_, codes) = help.split_once("Exit codes:\n").expect("a table");
    for code in ["0 ", "1 ", "2 ", "3 ", "125 ", "126 ", "128+N "] {
        assert!(
            codes.lines().any(|line| line.trim().starts_with(code)),
            "{code}"
        );
    }
}

#[test]
fn the_exit_status_of_the_program_is_passed_on() {
    let scratch = Scratch::new();
    for status in [0, 1, 77] {
        let ended = run(&scratch, "sh", &["-c", &format!("exit {status}")]);
        let code = ended.status.and_then(|status| status.code());
        assert_eq!(code, Some(status), "{ended:?}");
    }
}

/// Goal: the help is complete. Method: it names every subcommand, and each subcommand has its own
/// help.
#[test]
fn help_names_the_verbs() {
    let scratch = Scratch::new();
    let help = |arguments: &[&str]| scratch.finish(scratch.ferroce(arguments)).expect_success();
    let text = help(&["--help"]);
    for verb in [
        "run",
        "devices",
        "counters",
        "wire",
        "ib_write_bw 127.0.0.1",
    ] {
        assert!(text.contains(verb), "{verb} is missing in\n{text}");
    }
    assert!(help(&["run", "--help"]).contains("FERROCE_DIR"));
    assert!(help(&["wire", "check", "--help"]).contains("pcapng"));
    help(&["devices", "--help"]);
    help(&["counters", "--help"]);
}

/// Goal: the command lists running programs. Method: counters and list of a pair that moves data.
#[test]
fn running_programs_are_listed_with_their_counters() {
    let scratch = Scratch::new();
    let pair = Pair {
        program: "ib_write_bw",
        arguments: &["-F", "-D", "30"],
        options: &[],
    };
    let pair = pair.start(&scratch, &[], &[]);
    let (server, client) = (pair.server.id(), pair.client.id());
    for (pid, counter) in [
        (client, "tx_frames"),
        (client, "rx_frames"),
        (server, "rx_frames"),
    ] {
        eventually(counter, TIMEOUT, || scratch.counter(pid, counter) > 0);
    }
    let devices = scratch.devices();
    for expected in [
        "ferroce0".to_owned(),
        format!("pid {server}  ib_write_bw"),
        format!("pid {client}  ib_write_bw"),
    ] {
        assert!(devices.contains(&expected), "no {expected}:\n{devices}");
    }
    let all = scratch.ferroce(&["counters", "--all"]);
    let all = scratch.finish(all).expect_success();
    assert!(all.contains(&format!("pid {server} ")) && all.contains(&format!("pid {client} ")));
    drop(pair);
    let none = scratch.finish(scratch.ferroce(&["counters"]));
    expect_refusal(&none, OWN_FAILURE, &["no program"]);
}

/// Goal: no privileges are needed. Method: a user without privileges runs a program, and a pair.
#[test]
fn an_ordinary_user_may_run_programs() {
    let Some(scratch) = Scratch::of_ordinary_user() else {
        eprintln!("SKIPPED: we are no root, so that the other tests say the same");
        return;
    };
    let output = run(&scratch, "id", &["-u"]).expect_success();
    assert_eq!(output.trim(), "65534");
    let output = run(&scratch, "ibv_devinfo", &["-v"]).expect_success();
    assert!(output.contains("PORT_ACTIVE (4)"), "{output}");
    let pair = Pair {
        program: "ib_write_bw",
        arguments: &["-F", "-n", "1000"],
        options: &[],
    };
    let (_, client) = pair.run_in(&scratch);
    assert!(client.contains("65536      1000"), "{client}");
}

/// Goal: the library does nothing in a process that opens no device, although children inherit it.
/// Method: a shell and its child, both alive, have no entry on the fabric.
#[test]
fn a_program_without_verbs_takes_no_place() {
    let scratch = Scratch::new();
    let ready = scratch.path("ready");
    let script = format!(
        "grep -q libibverbs.so.1 /proc/self/maps || exit 3; ls -l / > /dev/null || exit 4; \
         sleep 100 & echo $! > {}; wait",
        ready.display()
    );
    let shell = scratch.run(&[], "sh", &["-c", &script]);
    let mut shell = Process::start(shell, &scratch, "shell", PROCESS_TIMEOUT);
    let mut child = String::new();
    eventually("the shell has a child", TIMEOUT, || {
        assert!(shell.is_running(), "the library is not in the child");
        child = fs::read_to_string(&ready).unwrap_or_default();
        child.ends_with('\n')
    });
    let devices = scratch.devices();
    assert!(devices.contains("No program uses the device"), "{devices}");
    let child: u32 = child.trim().parse().expect("a process ID");
    send_signal(child, Signal::TERM);
    assert!(shell.wait().status.is_some());
}

/// Goal: root can run its own setuid program, which ld.so treats like any other program.
#[test]
fn root_may_run_its_own_setuid_programs() {
    if !is_root() {
        eprintln!("SKIPPED: we are no root");
        return;
    }
    let scratch = Scratch::new();
    let copy = scratch.path("setuid");
    fs::copy("/usr/bin/ibv_devices", &copy).expect("ibverbs-utils are installed");
    make_executable(&copy, 0o4755);
    let output = run(&scratch, &copy.to_string_lossy(), &[]).expect_success();
    assert!(output.contains("ferroce0"), "{output}");
}

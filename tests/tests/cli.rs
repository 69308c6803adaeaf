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

//! `ferroce top`, on a terminal that script(1) creates.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use ferroce_tests::{
    PROCESS_TIMEOUT, Process, Scratch, Signal, TIMEOUT, eventually, ferroce, send_signal,
};

const FIRST_SCREEN: &str = "\x1b[?1049l";

/// A program that has two QPs, and waits.
fn start_program(scratch: &Scratch) -> Process {
    let program = scratch.compile("counted");
    let ready = scratch.path("ready");
    let arguments = [ready.to_str().expect("plain")];
    let command = scratch.run(&[], &program, &arguments);
    let running = Process::start(command, scratch, "program", PROCESS_TIMEOUT);
    eventually("the program has counted", TIMEOUT, || ready.exists());
    running
}

/// A terminal with a shell command, and its keyboard.
struct Terminal {
    running: Process,
    keys: File,
}

impl Terminal {
    fn start(scratch: &Scratch, command: &str) -> Self {
        let keys = scratch.path("keys");
        let mut make = Command::new("mkfifo");
        make.arg(&keys);
        scratch.finish(make).expect_success();
        let mut shell = scratch.program(Path::new("sh"));
        // The shell executes script(1) in its place, so that script(1) gets signals.
        let line = "exec script -qefc \"$1\" /dev/null < \"$0\"";
        shell.arg("-c").arg(line).arg(&keys).arg(command);
        let running = Process::start(shell, scratch, "terminal", PROCESS_TIMEOUT);
        let keys = OpenOptions::new().write(true).open(keys);
        let keys = keys.expect("script reads them");
        Self { running, keys }
    }

    fn wait_for(&self, text: &str) {
        eventually(text, TIMEOUT, || self.running.output().contains(text));
    }

    fn press(&mut self, key: &str) {
        self.keys
            .write_all(key.as_bytes())
            .expect("script reads it");
    }
}

/// Goal: `--once` prints a table for scripts. Method: with a program that waits, and without one.
#[test]
fn once_prints_a_table_without_a_terminal() {
    let scratch = Scratch::new();
    let top = || scratch.ferroce(&["top", "--once", "--interval", "0.1"]);
    let none = scratch.finish(top()).expect_success();
    assert!(none.contains("No program uses the device now"), "{none}");
    let program = start_program(&scratch);
    let table = scratch.finish(top()).expect_success();
    assert!(!table.contains('\x1b'), "{table:?}");
    assert!(table.contains("1 functions, 2 QPs"), "{table}");
    let of_program = |line: &&str| line.trim_start().starts_with(&program.id().to_string());
    assert_eq!(table.lines().filter(of_program).count(), 1, "{table}");
    let ready = table.lines().filter(|line| line.contains(" RC    RTS "));
    assert_eq!(ready.count(), 2, "{table}");
    let refused = scratch.finish(scratch.ferroce(&["top"]));
    assert!(refused.output.contains("--once"), "{}", refused.output);
}

/// Goal: the table is live, and the terminal is usable afterwards.
#[test]
fn a_key_ends_it_and_the_terminal_is_as_before() {
    for key in ["q", "\x03"] {
        let scratch = Scratch::new();
        let _program = start_program(&scratch);
        let command = format!("{} top --interval 0.1; stty -a", ferroce().display());
        let mut terminal = Terminal::start(&scratch, &command);
        terminal.wait_for("2 QPs");
        terminal.wait_for(" RC    RTS ");
        terminal.press(key);
        let output = terminal.running.wait().expect_success();
        let (_, after) = output.split_once(FIRST_SCREEN).expect("it was left");
        expect_usable(after);
    }
}

/// Fails the test unless `stty -a` shows that line editing, echo and interrupts are enabled.
fn expect_usable(modes: &str) {
    for mode in ["icanon", "echo", "isig"] {
        let has = modes.split_whitespace().any(|word| word == mode);
        assert!(has, "no {mode}:\n{modes}");
    }
}

/// Goal: no process remains when the window is closed. Method: kill the terminal.
#[test]
fn it_ends_with_its_terminal() {
    let scratch = Scratch::new();
    let pid = scratch.path("pid");
    let command = format!(
        "echo $$ > {}; exec {} top",
        pid.display(),
        ferroce().display()
    );
    let terminal = Terminal::start(&scratch, &command);
    terminal.wait_for("No program uses the device now");
    let pid = fs::read_to_string(pid).expect("the shell wrote it");
    let process = Path::new("/proc").join(pid.trim());
    assert!(process.exists());
    send_signal(terminal.running.id(), Signal::KILL);
    eventually("top has ended", TIMEOUT, || !is_running(&process));
}

/// Returns true if a process exists and is not a zombie.
fn is_running(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

/// Goal: SIGTERM ends it, too, and restores the terminal.
#[test]
fn a_signal_ends_it_and_the_terminal_is_as_before() {
    let scratch = Scratch::new();
    let pid = scratch.path("pid");
    let (file, ferroce) = (pid.display(), ferroce());
    let command = format!(
        "(echo $BASHPID > {file}; exec {} top); stty -a",
        ferroce.display()
    );
    let command = format!("bash -c '{command}'");
    let terminal = Terminal::start(&scratch, &command);
    terminal.wait_for("No program uses the device now");
    let pid = fs::read_to_string(pid).expect("the shell wrote it");
    send_signal(pid.trim().parse().expect("a number"), Signal::TERM);
    let output = terminal.running.wait().expect_success();
    let (_, after) = output.split_once(FIRST_SCREEN).expect("it was left");
    expect_usable(after);
}

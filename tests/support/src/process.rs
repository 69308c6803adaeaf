//! Programs under test, each with a time limit.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process, kill_process_group};

use crate::wait::timed_out;
use crate::{TIMEOUT, TemporaryDirectory, eventually_some, temporary_directory, time_limit};

/// A process that is killed, with all that it started, when this is dropped or when it has run for
/// too long.
#[derive(Debug)]
pub struct Process {
    child: Child,
    output: PathBuf,
    started: Instant,
    deadline: Instant,
    what: String,
    /// The directory of the output, if it has a separate one.
    directory: Option<TemporaryDirectory>,
}

/// Exit status and output of a process.
#[derive(Debug)]
pub struct Ended {
    /// Exit status; `None` if it was killed at its time limit.
    pub status: Option<ExitStatus>,
    /// Standard output and error together.
    pub output: String,
    /// The command.
    pub what: String,
    /// Run time.
    time: Duration,
}

impl Ended {
    /// Returns true if it ended by itself, with status 0.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Describes how it ended.
    pub fn how(&self) -> String {
        match self.status {
            Some(status) => format!("{status}"),
            None => timed_out(self.time, "its end"),
        }
    }

    /// Fails the test unless the process succeeded. Returns its output.
    pub fn expect_success(self) -> String {
        let (what, how) = (&self.what, self.how());
        assert!(self.succeeded(), "{what}: {how}\n{}", self.output);
        self.output
    }

    /// Fails the test if the process did not end by itself. Returns its status.
    pub fn expect_end(&self) -> ExitStatus {
        let (what, how) = (&self.what, self.how());
        self.status
            .unwrap_or_else(|| panic!("{what}: {how}\n{}", self.output))
    }
}

impl Process {
    /// Starts `command`; its output goes to the file `name` of `directory`.
    pub fn start(
        mut command: Command,
        directory: impl AsRef<Path>,
        name: &str,
        timeout: Duration,
    ) -> Self {
        let output = directory.as_ref().join(name);
        let file = File::create(&output).expect("the directory of the test can be written");
        let errors = file
            .try_clone()
            .expect("a file descriptor can be duplicated");
        let what = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        command.process_group(0);
        let child = spawn(&mut command).unwrap_or_else(|error| panic!("{what}: {error}"));
        let started = Instant::now();
        Self {
            child,
            output,
            started,
            deadline: started + time_limit(timeout),
            what,
            directory: None,
        }
    }

    /// Starts `command`, with a directory for its output.
    pub fn alone(command: Command, timeout: Duration) -> Self {
        let directory = temporary_directory("process");
        let mut process = Self::start(command, &directory, "output", timeout);
        process.directory = Some(directory);
        process
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns its output so far.
    pub fn output(&self) -> String {
        let output = fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Waits until `find` finds something in its output; fails the test if it ends before that.
    pub fn wait_for_output<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        eventually_some(what, TIMEOUT, || {
            let is_running = self.is_running();
            let output = self.output();
            let found = find(&output);
            let what = &self.what;
            assert!(found.is_some() || is_running, "{what} has ended:\n{output}");
            found
        })
    }

    /// Waits until its output contains `text`; fails the test if it ends before that.
    pub fn expect_output(&mut self, text: &str) {
        let what = format!("{text:?} in the output");
        self.wait_for_output(&what, |output| output.contains(text).then_some(()));
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.id(), signal);
    }

    /// Kills it, and what it started: a program that outlives its shell would stay in the way of
    /// other tests.
    pub fn kill(&mut self) {
        // All may have ended by themselves meanwhile.
        let _ = kill_process_group(pid(self.id()), Signal::KILL);
    }

    /// Limits its time to `timeout` from now on.
    pub fn hurry(&mut self, timeout: Duration) {
        self.deadline = self.deadline.min(Instant::now() + time_limit(timeout));
    }

    /// Waits until it ends or its time is over.
    pub fn wait(mut self) -> Ended {
        let mut pause = Duration::from_micros(500);
        let status = loop {
            let status = self.child.try_wait();
            match status.expect("our own child can be waited for") {
                Some(status) => break Some(status),
                None if Instant::now() >= self.deadline => break None,
                None => std::thread::sleep(pause),
            }
            pause = (2 * pause).min(Duration::from_millis(5));
        };
        self.kill();
        Ended {
            status,
            output: self.output(),
            time: self.started.elapsed(),
            what: self.what.clone(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The number of a group whose first process has ended may belong to another one by now.
        if self.is_running() {
            self.kill();
        }
        let _ = self.child.wait();
    }
}

/// Starts a program. If this process has just written the program, its file may still be open for
/// writing in a child that another thread has forked and that has not yet executed its own program;
/// then tries again.
fn spawn(command: &mut Command) -> io::Result<Child> {
    eventually_some(
        "the end of writing to the program",
        TIMEOUT,
        || match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => None,
            result => Some(result),
        },
    )
}

/// Sends a signal to a process.
pub fn send_signal(id: u32, signal: Signal) {
    let sent = kill_process(pid(id), signal);
    assert!(sent.is_ok(), "signal {signal:?}: {sent:?}");
}

/// Returns the number of a process as the system's own type.
fn pid(id: u32) -> Pid {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.expect("a process ID")
}

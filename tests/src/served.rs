//! Functions of another process: `ferroce serve`.

use crate::{PROCESS_TIMEOUT, Process, Scratch};

/// A server that offers functions on a scratch directory's fabric.
#[derive(Debug)]
pub struct Served<'a> {
    scratch: &'a Scratch,
    /// The server.
    pub process: Process,
    functions: usize,
}

impl<'a> Served<'a> {
    /// Starts a server with this many functions, and waits until they can be used.
    pub fn start(scratch: &'a Scratch, functions: usize) -> Self {
        Self::start_with(scratch, functions, &[])
    }

    /// As [`Served::start`], with further options of `ferroce serve`.
    pub fn start_with(scratch: &'a Scratch, functions: usize, options: &[&str]) -> Self {
        let socket = scratch.path("nic").to_string_lossy().into_owned();
        let count = functions.to_string();
        let mut command = scratch.ferroce(&["serve", "--socket", &socket, "--functions", &count]);
        command.args(options);
        let mut process = Process::start(command, scratch, "serve", PROCESS_TIMEOUT);
        process.wait_for_output("the functions are served", |output| {
            (output.matches("ready vfio-user:").count() == functions).then_some(())
        });
        Self {
            scratch,
            process,
            functions,
        }
    }

    /// Returns the name of a function, for `ferroce run --device`.
    pub fn device(&self, function: usize) -> String {
        let socket = match self.functions {
            1 => self.scratch.path("nic"),
            _ => self.scratch.path(&format!("nic.{function}")),
        };
        format!("vfio-user:{}", socket.display())
    }

    /// Returns the names of all functions, for one `ferroce run --device`.
    pub fn devices(&self) -> String {
        let names: Vec<String> = (0..self.functions).map(|n| self.device(n)).collect();
        names.join(",")
    }
}

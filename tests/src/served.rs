//! Functions of another process: `ferroce serve`.

use std::fs;
use std::time::Duration;

use crate::{PROCESS_TIMEOUT, Process, Scratch, wait_until};

/// Time limit for a server until its functions can be used.
const START_TIMEOUT: Duration = Duration::from_secs(20);

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
        let socket = scratch.path("nic").to_string_lossy().into_owned();
        let count = functions.to_string();
        let command = scratch.ferroce(&["serve", "--socket", &socket, "--functions", &count]);
        let process = Process::start(command, scratch, "serve", PROCESS_TIMEOUT);
        wait_until("the functions are served", START_TIMEOUT, || {
            let output = fs::read_to_string(scratch.path("serve")).unwrap_or_default();
            output.matches("ready vfio-user:").count() == functions
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

//! Programs in simulated time, which `ferroce inject` cannot reach.

use std::fs;
use std::path::Path;

use super::super::devices::program_name;

/// Explains where the faults of such a program come from.
const EXPLANATION: &str = "\
Faults of a simulated world are part of it: they happen at simulated times, the same in each run.
They are given when it starts: `ferroce world --faults PLAN`, `ferroce run --timed PRESET --faults
PLAN`. A plan can have times: loss=1e-2@5ms..7ms, down=20ms..";

/// Returns a message that names the programs in simulated worlds of this directory, or process
/// `pid` in any; `None` if there are none.
pub fn explanation(pid: Option<u32>, directory: &Path) -> Option<String> {
    let is_meant = |program: u32, world: &str| match pid {
        Some(pid) => pid == program,
        None => Path::new(world).starts_with(directory),
    };
    let lines: Vec<String> = programs()
        .filter(|(program, world)| is_meant(*program, world))
        .map(|(pid, world)| {
            let program = program_name(pid);
            format!("pid {pid}  {program}  in the simulated world {world}")
        })
        .collect();
    (!lines.is_empty()).then(|| format!("{}\n{EXPLANATION}", lines.join("\n")))
}

/// Returns the programs of this user in simulated worlds, each with the socket of its world.
fn programs() -> impl Iterator<Item = (u32, String)> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        // The environment of another user's process cannot be read.
        let environment = fs::read(process.path().join("environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let world = variables.find_map(|variable| variable.strip_prefix(b"FERROCE_WORLD="))?;
        Some((pid, String::from_utf8_lossy(world).into_owned()))
    })
}

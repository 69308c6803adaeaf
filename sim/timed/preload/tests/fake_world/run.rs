//! Programs in C that run in the world.

use std::path::{Path, PathBuf};
use std::process::Command;

use ferroce_test_support::{Process, TIMEOUT};

use super::FakeWorld;

/// Compiles a program of `tests/programs`.
pub fn compile(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let program =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let status = Command::new("cc")
        .args(["-O2", "-Wall", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .arg(folder.join(format!("{name}.c")))
        .status()
        .expect("a C compiler");
    assert!(status.success(), "{name} does not compile");
    program
}

/// Returns the path of the library.
fn library() -> PathBuf {
    let mut path = std::env::current_exe().expect("this test");
    path.pop();
    [path.clone(), path.join("..")]
        .map(|folder| folder.join("libferroce_time.so"))
        .into_iter()
        .filter(|path| path.exists())
        .max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok())
        .expect("the library is built with its tests")
}

/// A running program; it is killed when this is dropped.
pub struct Running(Process);

impl Running {
    /// Starts a program in the world.
    pub fn start(world: &FakeWorld, program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("FERROCE_WORLD", world.path())
            .env("LD_PRELOAD", library());
        Self(Process::alone(command, TIMEOUT))
    }

    /// Returns its output, after a successful end.
    pub fn finish(self) -> String {
        self.0.wait().expect_success()
    }
}

/// Runs one program in its own world. Returns its output.
pub fn alone(name: &str, arguments: &[&str]) -> String {
    let program = compile(name);
    let world = FakeWorld::new(1);
    Running::start(&world, &program, arguments).finish()
}

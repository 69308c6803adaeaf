//! Programs in C that run in the world.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::FakeWorld;

/// Real time that a program may take.
const LIMIT: Duration = Duration::from_secs(20);

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
pub struct Running(Child, String);

impl Running {
    /// Starts a program in the world.
    pub fn start(world: &FakeWorld, program: &Path, arguments: &[&str]) -> Self {
        let child = Command::new(program)
            .args(arguments)
            .env("FERROCE_WORLD", world.path())
            .env("LD_PRELOAD", library())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        Self(child, format!("{} {arguments:?}", program.display()))
    }

    /// Returns its output, after a successful end.
    pub fn finish(mut self) -> String {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.0.try_wait().expect("a child") {
                break status;
            }
            assert!(begun.elapsed() < LIMIT, "{} takes too long", self.1);
            std::thread::sleep(Duration::from_millis(2));
        };
        let output = self.0.stdout.take().expect("piped");
        let text = std::io::read_to_string(output).expect("text");
        assert!(
            status.success(),
            "{} has ended with {status}: {text}",
            self.1
        );
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs one program in its own world. Returns its output.
pub fn alone(name: &str, arguments: &[&str]) -> String {
    let program = compile(name);
    let world = FakeWorld::new(1);
    Running::start(&world, &program, arguments).finish()
}

//! Runs a fuzz target without a fuzzer: replays its corpus, then runs inputs that are derived from
//! it, for a time or for a number of inputs. A failing input is written to a file and reported with
//! its seed and number.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{panic, process, thread};

use ferroce_fuzz::{TARGETS, Target, find, generate};

const USAGE: &str = "\
usage: ferroce-fuzz TARGET [--seconds N] [--inputs N] [--seed N] [--first N]
       ferroce-fuzz TARGET FILE...

Runs inputs 0, 1, ... of a seed, or from --first on; or replays files. The targets are wire,
capture, model and verbs. Inputs that fail are written to target/fuzz.";

/// Time limit of one input on a busy machine.
const INPUT_TIMEOUT: Duration = Duration::from_secs(60);
const WATCH_PERIOD: Duration = Duration::from_secs(1);
const DEFAULT_SECONDS: u64 = 60;

/// The current input, and the name of the file that keeps it if it fails.
static CURRENT: Mutex<(String, Vec<u8>)> = Mutex::new((String::new(), Vec::new()));
/// Number of inputs that have begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// The arguments of the command line.
struct Run {
    target: Target,
    files: Vec<PathBuf>,
    time: Duration,
    inputs: u64,
    seed: u64,
    first: u64,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(|run| run.execute()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ferroce-fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Run, String> {
    let name = arguments.next().ok_or(USAGE)?;
    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    let target = find(&name).ok_or(format!("{name}: the targets are {}", names.join(", ")))?;
    let mut run = Run {
        target,
        files: Vec::new(),
        time: Duration::from_secs(DEFAULT_SECONDS),
        inputs: u64::MAX,
        seed: 1,
        first: 0,
    };
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<u64, String> {
            let value = arguments.next().unwrap_or_default();
            let number = value.parse();
            number.map_err(|_| format!("{argument} wants a number, not {value:?}"))
        };
        match argument.as_str() {
            "--seconds" => run.time = Duration::from_secs(number()?),
            "--inputs" => run.inputs = number()?,
            "--seed" => run.seed = number()?,
            "--first" => run.first = number()?,
            option if option.starts_with('-') => return Err(format!("{option}?\n{USAGE}")),
            file => run.files.push(file.into()),
        }
    }
    Ok(run)
}

impl Run {
    fn execute(&self) -> Result<(), String> {
        let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz");
        let shown = |path: &Path, error| format!("{}: {error}", path.display());
        fs::create_dir_all(&found).map_err(|error| shown(&found, error))?;
        let hook = panic::take_hook();
        let folder = found.clone();
        panic::set_hook(Box::new(move |what| {
            hook(what);
            give_up(&folder, "panicked");
        }));
        let folder = found.clone();
        thread::spawn(move || watch(&folder));
        if self.files.is_empty() {
            return self.fuzz(&found);
        }
        for path in &self.files {
            let bytes = fs::read(path).map_err(|error| shown(path, error))?;
            self.one(path.to_string_lossy().into_owned(), bytes);
        }
        println!("{}: {} files", self.target.name, self.files.len());
        Ok(())
    }

    fn fuzz(&self, found: &Path) -> Result<(), String> {
        let Target { name, longest, .. } = self.target;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(name);
        let files = generate::corpus(&folder).map_err(|error| error.to_string())?;
        for (file, bytes) in &files {
            self.one(format!("corpus/{name}/{file}"), bytes.clone());
        }
        let corpus: Vec<_> = files.into_iter().map(|(_, bytes)| bytes).collect();
        // If the process dies of a signal, the number remains here.
        let path = found.join(format!("{name}.number"));
        let number = File::create(&path).map_err(|error| error.to_string())?;
        let (start, mut count) = (Instant::now(), 0);
        while count < self.inputs && start.elapsed() < self.time {
            let index = self.first + count;
            let text = format!("{name} --seed {} --first {index} --inputs 1\n", self.seed);
            number
                .write_all_at(text.as_bytes(), 0)
                .map_err(|error| error.to_string())?;
            let input = generate::input(&corpus, self.seed, index, longest);
            self.one(format!("{name}-{}-{index}", self.seed), input);
            count += 1;
        }
        let _ = fs::remove_file(path);
        let (files, seed, seconds) = (corpus.len(), self.seed, start.elapsed().as_secs());
        println!("{name}: {files} files and {count} inputs of seed {seed} in {seconds} s");
        Ok(())
    }

    fn one(&self, name: String, input: Vec<u8>) {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        *lock() = (name, input.clone());
        (self.target.run)(&input);
    }
}

fn lock() -> std::sync::MutexGuard<'static, (String, Vec<u8>)> {
    CURRENT
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Ends the process when an input takes too long.
fn watch(folder: &Path) {
    let (mut seen, mut since) = (0, Instant::now());
    loop {
        thread::sleep(WATCH_PERIOD);
        let now = BEGUN.load(Ordering::Relaxed);
        if now != seen {
            (seen, since) = (now, Instant::now());
        } else if now != 0 && since.elapsed() > INPUT_TIMEOUT {
            give_up(folder, "has not ended");
        }
    }
}

/// Saves the current input, prints how to run it again, and ends the process.
fn give_up(folder: &Path, why: &str) -> ! {
    let (name, input) = lock().clone();
    let path = folder.join(name.replace('/', "-"));
    eprintln!("ferroce-fuzz: {name} {why}");
    match fs::write(&path, input) {
        Ok(()) => eprintln!("ferroce-fuzz: the input is {}", path.display()),
        Err(error) => eprintln!("ferroce-fuzz: {}: {error}", path.display()),
    }
    process::abort();
}

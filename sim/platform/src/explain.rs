//! Summary of errors that is printed after a program has ended: refused verbs, failed completions,
//! the model's reasons, packets that were dropped, and what still waited, one line for each with
//! its count.
//!
//! Each process counts in its own file in the directory that [`VARIABLE`] names, one line of a
//! fixed length for each text, so that the counts are there even if the process is killed.
//! `ferroce run --explain-errors` reads the files when the program has ended.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;

/// The directory of the files.
pub const VARIABLE: &str = "FERROCE_EXPLAIN";

/// Bytes of a line of such a file, with its end.
const LINE_BYTES: usize = 512;
/// Digits of a count.
const COUNT_DIGITS: usize = 20;
/// Different texts of one process; further ones are not counted.
const MAX_TEXTS: usize = 1000;
/// End of the names of the files.
const EXTENSION: &str = "errors";

/// Source of a line: the target of its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A verb that was refused.
    Refused,
    /// A completion in error.
    Failed,
    /// The model: why.
    Fault,
    /// The model: a packet that it has dropped.
    Dropped,
    /// A call or a request that waits for what may not come. An event with the field [`ENDED`]
    /// takes it back.
    Waiting,
    /// The program made no progress for [`STALL`].
    Stalled,
}

/// A program without progress for so long is reported, once.
pub const STALL: Duration = Duration::from_secs(5);

/// Field of an event of [`Source::Waiting`]: the call has returned.
const ENDED: &str = "ended";
/// Field of an event: the queue pair that it is about.
const QPN: &str = "qpn";
/// Field of an event: the program's call and its callers, each as `FILE+0xOFFSET`.
const SITE: &str = "site";
/// Between the calls of a site.
pub const SITE_SEPARATOR: &str = "|";
/// Between the fields of a line: target, queue pair, call, text.
const SEPARATOR: char = '\t';

impl Source {
    const ALL: [Self; 6] = [
        Self::Refused,
        Self::Failed,
        Self::Fault,
        Self::Dropped,
        Self::Waiting,
        Self::Stalled,
    ];

    /// Returns the target of its events.
    #[must_use]
    pub const fn target(self) -> &'static str {
        match self {
            Self::Refused => "ferroce::refused",
            Self::Failed => "ferroce::failed",
            Self::Fault => "ferroce::fault",
            Self::Dropped => "ferroce::dropped",
            Self::Waiting => "ferroce::waiting",
            Self::Stalled => "ferroce::stalled",
        }
    }

    fn of_target(target: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.target() == target)
    }
}

/// Returns the events that a [`Recorder`] takes.
pub(crate) fn targets() -> Targets {
    Source::ALL.iter().fold(Targets::new(), |targets, source| {
        targets.with_target(source.target(), LevelFilter::DEBUG)
    })
}

/// The file of this process, and the place and count of each text.
struct Counts {
    process: u32,
    file: File,
    texts: BTreeMap<String, (u64, u64)>,
}

/// Counts the lines of this process.
#[derive(Clone)]
pub(crate) struct Recorder(Arc<Inner>);

struct Inner {
    directory: PathBuf,
    counts: Mutex<Option<Counts>>,
}

static STARTED: OnceLock<Recorder> = OnceLock::new();

/// Returns true if `ferroce run --explain-errors` has started this process, and logging has begun.
#[must_use]
pub fn is_asked() -> bool {
    STARTED.get().is_some()
}

/// Opens the file of this process, if it counts errors. Later the process may have changed its
/// user, and have no right to open the file. Errors are not reported: this is itself a report.
pub fn open_file() {
    if let Some(Recorder(inner)) = STARTED.get() {
        let _ = inner.open(&mut inner.counts.lock());
    }
}

impl Inner {
    /// Opens a new file, unless this process has one. A child made by fork counts in its own.
    fn open<'a>(&self, counts: &'a mut Option<Counts>) -> io::Result<&'a mut Counts> {
        let process = std::process::id();
        let current = counts.take().filter(|counts| counts.process == process);
        let current = match current {
            Some(current) => current,
            None => Counts {
                process,
                file: File::create(self.directory.join(format!("{process}.{EXTENSION}")))?,
                texts: BTreeMap::new(),
            },
        };
        Ok(counts.insert(current))
    }
}

impl Recorder {
    /// Returns one if `ferroce run --explain-errors` has started this process.
    pub(crate) fn from_environment() -> Option<Self> {
        let directory = std::env::var_os(VARIABLE)?;
        let recorder = STARTED.get_or_init(|| Self::new(directory.into()));
        open_file();
        Some(recorder.clone())
    }

    fn new(directory: PathBuf) -> Self {
        Self(Arc::new(Inner {
            directory,
            counts: Mutex::new(None),
        }))
    }

    /// Counts the text of an event, or takes it back. Errors of the file are not reported: this is
    /// itself a report.
    fn count(&self, text: &str, end: End) -> io::Result<()> {
        let Self(inner) = self;
        let mut counts = inner.counts.lock();
        let counts = inner.open(&mut counts)?;
        let next = counts.texts.len() as u64;
        if !counts.texts.contains_key(text) && counts.texts.len() >= MAX_TEXTS {
            return Ok(());
        }
        let (place, count) = counts.texts.entry(text.to_owned()).or_insert((next, 0));
        *count = match end {
            End::Begins => *count + 1,
            End::Ended => count.saturating_sub(1),
        };
        let line = line(*count, text);
        counts.file.write_all_at(&line, *place * LINE_BYTES as u64)
    }
}

/// Returns a line of the file: count, text, spaces up to its length.
fn line(count: u64, text: &str) -> Vec<u8> {
    let mut line = format!("{count:0COUNT_DIGITS$} {text}").into_bytes();
    line.retain(|byte| *byte != b'\n');
    line.resize(LINE_BYTES - 1, b' ');
    line.push(b'\n');
    line
}

/// An event is about something that happens, or about the end of a wait.
#[derive(Debug, Default, Clone, Copy)]
enum End {
    #[default]
    Begins,
    Ended,
}

/// Takes the text of an event without its other fields, whose values vary between occurrences.
#[derive(Default)]
struct Message {
    text: String,
    end: End,
    qpn: Option<u64>,
    site: String,
}

impl Message {
    /// Returns the key of a line, by which occurrences are counted.
    fn key(&self, target: &str) -> String {
        let qpn = self.qpn.map_or(String::new(), |qpn| format!("{qpn:#x}"));
        [target, &qpn, &self.site, &self.text].join(&SEPARATOR.to_string())
    }
}

impl Visit for Message {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == QPN {
            self.qpn = Some(value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            SITE => value.clone_into(&mut self.site),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        if field.name() == ENDED && value {
            self.end = End::Ended;
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string does not fail.
            let _ = write!(self.text, "{value:?}");
        }
    }
}

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        let target = event.metadata().target();
        let _ = self.count(&message.key(target), message.end);
    }
}

/// What the processes have written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Number of processes that looked for a device.
    pub processes: usize,
    /// The lines.
    pub lines: Vec<Counted>,
}

/// One line of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Its source.
    pub source: Source,
    /// The queue pair that it is about, in hexadecimal; empty: none.
    pub qpn: String,
    /// The program's call and its callers, each as `FILE+0xOFFSET`; empty: unknown.
    pub site: String,
    /// The text of the event.
    pub text: String,
    /// Number of occurrences in all processes.
    pub count: u64,
}

/// Reads the files of all processes: refused verbs first, then failed completions, then reasons,
/// then calls that still wait, each in the order in which a process met them.
///
/// # Errors
/// If the directory cannot be read.
pub fn read(directory: &Path) -> io::Result<Summary> {
    let mut all: Vec<Counted> = Vec::new();
    let mut files: Vec<PathBuf> = fs::read_dir(directory)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == EXTENSION))
        .collect();
    files.sort();
    for path in &files {
        let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
        let lines = text.lines().filter_map(parse);
        for counted in lines.filter(|counted| counted.count > 0) {
            let known = all.iter_mut().find(|one| one.is_like(&counted));
            match known {
                Some(known) => known.count += counted.count,
                None => all.push(counted),
            }
        }
    }
    all.sort_by_key(|counted| counted.source);
    Ok(Summary {
        processes: files.len(),
        lines: all,
    })
}

impl Counted {
    fn is_like(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.source, one.qpn.clone(), one.site.clone());
        self.text == other.text && key(self) == key(other)
    }
}

fn parse(line: &str) -> Option<Counted> {
    let (count, rest) = line.split_once(' ')?;
    let mut fields = rest.trim_end().splitn(4, SEPARATOR);
    let mut field = || fields.next();
    Some(Counted {
        source: Source::of_target(field()?)?,
        qpn: field()?.to_owned(),
        site: field()?.to_owned(),
        text: field()?.to_owned(),
        count: count.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every occurrence is counted, in all processes, and a wait until it ends. Method: texts
    /// of this process, and the file of another one.
    #[test]
    fn lines_are_counted_in_all_processes() {
        let directory = ferroce_test_support::temporary_directory("explain");
        let recorder = Recorder::new(directory.path().to_owned());
        let texts = [
            "ferroce::failed\t\t\tb",
            "ferroce::refused\t\tp+0x10\ta",
            "ferroce::failed\t\t\tb",
        ];
        for text in texts {
            let counted = recorder.count(text, End::Begins);
            counted.expect("the directory is there");
        }
        for end in [End::Begins, End::Ended] {
            let counted = recorder.count("ferroce::waiting\t\t\tc", end);
            counted.expect("the directory is there");
        }
        for end in [End::Begins, End::Begins, End::Ended] {
            let counted = recorder.count("ferroce::waiting\t0x5\t\td", end);
            counted.expect("the directory is there");
        }
        let other = directory.path().join("1.errors");
        fs::write(other, line(40, "ferroce::failed\t\t\tb")).expect("writable");
        let read = read(directory.path()).expect("readable");
        assert_eq!(read.processes, 2);
        let shown = |one: &Counted| {
            let (source, count) = (one.source.target(), one.count);
            format!("{count} {source} {} {} {}", one.qpn, one.site, one.text)
        };
        let shown: Vec<_> = read.lines.iter().map(shown).collect();
        let expected = [
            "1 ferroce::refused  p+0x10 a",
            "42 ferroce::failed   b",
            "1 ferroce::waiting 0x5  d",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn long_and_broken_texts_stay_one_line() {
        let text = line(
            7,
            &format!("ferroce::fault\t\t\tx\ny{}", "z".repeat(2 * LINE_BYTES)),
        );
        assert_eq!(text.len(), LINE_BYTES);
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1);
        let text = String::from_utf8(text).expect("ASCII");
        let parsed = parse(text.trim_end_matches('\n')).expect("a line");
        assert_eq!((parsed.source, parsed.count), (Source::Fault, 7));
    }
}

//! The summary that `ferroce run --explain-errors` prints after the end of the program, and once if
//! the program makes no progress.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use ferroce_embed::runtime_directory;
use ferroce_platform::explain::{self, Counted, STALL, Source, Summary, VARIABLE};

use super::call_site;

/// Interval at which the files are read for a program that makes no progress.
const INTERVAL: Duration = Duration::from_millis(500);
/// Queue pairs that a line names.
const MAX_QPS: usize = 4;
/// Calls that a line names.
const MAX_SITES: usize = 2;

/// The directory to which the processes of the program write their counts, until the summary is
/// printed.
pub struct Explanations {
    directory: PathBuf,
}

impl Explanations {
    /// Creates the directory.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn prepare() -> Result<Self, String> {
        let runtime = runtime_directory().map_err(|error| error.to_string())?;
        let directory = runtime.join(format!("errors-{}", std::process::id()));
        // Remove the files of an earlier process with the same PID.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory)
            .map_err(|error| format!("--explain-errors: {}: {error}", directory.display()))?;
        Ok(Self { directory })
    }

    /// Returns the variable that names the directory to the program.
    pub fn variable(&self) -> (&'static str, OsString) {
        (VARIABLE, self.directory.clone().into())
    }

    /// Removes the directory.
    pub fn remove(self) {
        let _ = fs::remove_dir_all(&self.directory);
    }

    /// Starts to watch for a program that makes no progress.
    pub fn watch(&self) -> Watch {
        let (stop, stopped) = mpsc::channel();
        let directory = self.directory.clone();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Some(text) = stall(&directory) {
                    eprint!("{text}");
                    return;
                }
            }
        });
        Watch { stop, thread }
    }

    /// Prints the summary on standard error and removes the directory.
    pub fn report(self) {
        match explain::read(&self.directory) {
            Ok(summary) => eprint!("{}", describe(&summary)),
            Err(error) => eprintln!("ferroce: --explain-errors: {error}"),
        }
        self.remove();
    }
}

/// A thread that watches the program.
pub struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Ends the thread.
    pub fn end(self) {
        let Self { stop, thread } = self;
        drop(stop);
        // A panic of the thread is printed already.
        let _ = thread.join();
    }
}

/// Returns the summary if a process makes no progress, and there is something to say.
fn stall(directory: &Path) -> Option<String> {
    let summary = explain::read(directory).ok()?;
    let is = |line: &Counted, source| line.source == source;
    let stalls = summary.lines.iter().any(|line| is(line, Source::Stalled));
    let knows = summary.lines.iter().any(|line| !is(line, Source::Stalled));
    (stalls && knows).then(|| {
        let seconds = STALL.as_secs();
        format!(
            "ferroce: no progress for {seconds} s; until now:\n{}",
            lists(&summary.lines)
        )
    })
}

/// Returns the summary at the end of the program.
fn describe(summary: &Summary) -> String {
    if summary.processes == 0 {
        return "ferroce: nothing to explain: no process of the program opened a device\n"
            .to_owned();
    }
    let text = lists(&summary.lines);
    if text.is_empty() {
        return "ferroce: no verb was refused, no completion failed\n".to_owned();
    }
    text
}

/// Lines with the same text.
struct Group<'a> {
    count: u64,
    qpns: Vec<&'a str>,
    sites: Vec<&'a str>,
}

/// Returns a heading for each kind of line, and below it the lines with their counts.
fn lists(all: &[Counted]) -> String {
    let sites = all.iter().map(|line| &*line.site);
    let names = call_site::named(sites.filter(|site| !site.is_empty()));
    let mut text = String::new();
    let headings = [
        (Source::Refused, "refused verbs"),
        (Source::Failed, "failed completions"),
        (Source::Fault, "what the model saw, once for each QP"),
        (Source::Dropped, "packets that the receiver dropped"),
        (Source::Waiting, "what still waited"),
    ];
    for (source, heading) in headings {
        let groups = groups(all.iter().filter(|one| one.source == source));
        if groups.is_empty() {
            continue;
        }
        text += &format!("ferroce: {heading}:\n");
        for (line, group) in groups {
            text += &format!("{:>7} x {line}{}\n", group.count, place(&group, &names));
        }
    }
    text
}

/// Returns the different texts in their order, each with the queue pairs and calls of its lines.
fn groups<'a>(lines: impl Iterator<Item = &'a Counted>) -> Vec<(&'a str, Group<'a>)> {
    let mut groups: Vec<(&str, Group<'_>)> = Vec::new();
    for line in lines {
        let known = groups.iter().position(|(text, _)| *text == line.text);
        let place = known.unwrap_or(groups.len());
        if known.is_none() {
            let (count, qpns, sites) = (0, Vec::new(), Vec::new());
            let new = Group { count, qpns, sites };
            groups.push((&line.text, new));
        }
        let (_, group) = &mut groups[place];
        group.count += line.count;
        for (list, value) in [(&mut group.qpns, &line.qpn), (&mut group.sites, &line.site)] {
            if !value.is_empty() && !list.contains(&&**value) {
                list.push(value);
            }
        }
    }
    groups
}

/// Returns the queue pairs and calls of a line in brackets.
fn place(group: &Group<'_>, names: &BTreeMap<String, String>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let qpns = group.qpns.iter().take(MAX_QPS);
    parts.extend(qpns.map(|qpn| format!("QP {qpn}")));
    if group.qpns.len() > MAX_QPS {
        parts.push(format!("and {} more QPs", group.qpns.len() - MAX_QPS));
    }
    let mut shown: Vec<&str> = Vec::new();
    for site in &group.sites {
        let name = names.get(*site).map_or(*site, |name| name);
        if !shown.contains(&name) {
            shown.push(name);
        }
    }
    parts.extend(
        shown
            .iter()
            .take(MAX_SITES)
            .map(|name| format!("in {name}")),
    );
    if shown.len() > MAX_SITES {
        parts.push(format!("and {} more calls", shown.len() - MAX_SITES));
    }
    if parts.is_empty() {
        return String::new();
    }
    format!(" [{}]", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(source: Source, qpn: &str, text: &str) -> Counted {
        Counted {
            source,
            qpn: qpn.to_owned(),
            site: String::new(),
            text: text.to_owned(),
            count: 1,
        }
    }

    #[test]
    fn the_summary_has_a_heading_for_each_kind() {
        let of = |processes, lines: &[Counted]| {
            describe(&Summary {
                processes,
                lines: lines.to_vec(),
            })
        };
        assert!(of(1, &[]).contains("no verb was refused"));
        assert!(of(0, &[]).contains("no process of the program opened a device"));
        let all = [
            one(Source::Refused, "", "ibv_reg_mr: a"),
            one(Source::Fault, "0x5", "b"),
            one(Source::Fault, "0x6", "b"),
            one(Source::Fault, "0x6", "c"),
            one(Source::Stalled, "", "d"),
        ];
        let expected = "ferroce: refused verbs:\n      1 x ibv_reg_mr: a\n\
                        ferroce: what the model saw, once for each QP:\n      \
                        2 x b [QP 0x5, QP 0x6]\n      1 x c [QP 0x6]\n";
        assert_eq!(of(1, &all), expected);
    }

    #[test]
    fn many_queue_pairs_are_counted() {
        let qpns = ["0x1", "0x2", "0x3", "0x4", "0x5", "0x6"];
        let lines = qpns.map(|qpn| one(Source::Failed, qpn, "a"));
        let expected = "      6 x a [QP 0x1, QP 0x2, QP 0x3, QP 0x4, and 2 more QPs]\n";
        assert!(lists(&lines).ends_with(expected), "{}", lists(&lines));
    }
}

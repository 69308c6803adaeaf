//! Finds the first difference of each stream of two records.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::frames::psn_distance;
use crate::reader::Position;
use crate::streams::{Class, Entry, Field, Key, Rule, Stream, Streams, Subject, Value};

/// Maximum number of differing fields shown per entry.
const MAX_FIELDS: usize = 8;

/// Values that are only compared exactly on request, because they may differ between two correct
/// runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strict {
    /// Numbers and keys of objects.
    Numbers,
    /// Virtual addresses and IOVAs.
    Addresses,
    /// PSNs.
    Psn,
    /// MAC and IP addresses, UDP source ports.
    Path,
    /// Time stamps.
    Time,
    /// Capabilities, and values that follow from them.
    Capabilities,
    /// Values that the contract leaves to the card: vendor error, credits, identification of IPv4.
    Details,
    /// Each acknowledge, and the requests for acknowledges.
    Acknowledges,
    /// Each retransmitted packet.
    Retransmissions,
    /// Events of CQs, and doorbells of event queues.
    Events,
    /// Commands that query objects, and doorbells of the command queue.
    Queries,
}

impl Strict {
    /// All variants with their names.
    pub const ALL: [(&'static str, Self); 11] = [
        ("numbers", Self::Numbers),
        ("addresses", Self::Addresses),
        ("psn", Self::Psn),
        ("path", Self::Path),
        ("time", Self::Time),
        ("capabilities", Self::Capabilities),
        ("details", Self::Details),
        ("acknowledges", Self::Acknowledges),
        ("retransmissions", Self::Retransmissions),
        ("events", Self::Events),
        ("queries", Self::Queries),
    ];

    /// Returns the variant with a name.
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, strict)| *strict)
    }
}

/// Options of a comparison.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Values that are compared exactly.
    pub strict: BTreeSet<Strict>,
    /// Subjects that are skipped because one of the records lacks them.
    pub without: BTreeSet<Subject>,
    /// True if the program's data is skipped, because some programs send random bytes.
    pub without_payload: bool,
    /// Sections that are skipped.
    pub without_sections: Vec<String>,
}

impl Options {
    fn compares(&self, entry: &Entry) -> bool {
        entry.rule.is_none_or(|rule| {
            self.strict.contains(&match rule {
                Rule::Acknowledges => Strict::Acknowledges,
                Rule::Retransmissions => Strict::Retransmissions,
                Rule::Events => Strict::Events,
                Rule::Queries => Strict::Queries,
            })
        })
    }
}

/// The first difference of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The stream.
    pub key: Key,
    /// The difference as text.
    pub text: String,
    /// Position in A.
    pub a: Option<Position>,
    /// Position in B.
    pub b: Option<Position>,
}

/// Result of a comparison.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of compared streams.
    pub streams: usize,
    /// Number of compared entries.
    pub entries: usize,
    /// Number of skipped entries in A and in B.
    pub left_out: BTreeMap<Rule, (usize, usize)>,
    /// Sections that exist in only one of the records; they are not compared.
    pub sections: Vec<(String, &'static str)>,
    /// The first difference of each differing stream, in the order of B.
    pub differences: Vec<Difference>,
    /// Streams that exist in only one of the records.
    pub alone: Vec<String>,
}

impl Report {
    /// Returns true if nothing differs.
    pub fn is_same(&self) -> bool {
        self.differences.is_empty() && self.alone.is_empty()
    }
}

/// Compares two records: A is the expected one, B the actual one.
pub fn compare(a: &Streams, b: &Streams, options: &Options) -> Report {
    let mut report = Report::default();
    for (of, other, name) in [(a, b, "A"), (b, a, "B")] {
        for section in &of.sections {
            if !other.sections.contains(section) {
                report.sections.push((section.to_string(), name));
            }
        }
    }
    let empty = Stream::default();
    let keys: BTreeSet<&Key> = a.streams.keys().chain(b.streams.keys()).collect();
    for key in keys {
        if options
            .without_sections
            .iter()
            .any(|name| **name == *key.section)
        {
            continue;
        }
        let is_alone = report
            .sections
            .iter()
            .any(|(name, _)| **name == *key.section);
        if is_alone || options.without.contains(&key.subject) {
            continue;
        }
        let of_a = a.streams.get(key).unwrap_or(&empty);
        let of_b = b.streams.get(key).unwrap_or(&empty);
        report.streams += 1;
        let difference = compare_stream(key, of_a, of_b, options, &mut report);
        report.differences.extend(difference);
    }
    // The final contents of memory follow from earlier events.
    report.differences.sort_by_key(|difference| {
        let of_b = difference.b.map_or(u64::MAX, |at| at.sequence);
        let is_memory = difference.key.subject == Subject::Memory;
        (is_memory, of_b, difference.a.map(|at| at.sequence))
    });
    report
}

fn compare_stream(
    key: &Key,
    a: &Stream,
    b: &Stream,
    options: &Options,
    report: &mut Report,
) -> Option<Difference> {
    let mut matches = Matches::default();
    let of_a = chosen(a, options, report, |counts| &mut counts.0);
    let of_b = chosen(b, options, report, |counts| &mut counts.1);
    let name = numbered(key, a, b);
    if of_a.is_empty() != of_b.is_empty() {
        let side = if of_b.is_empty() { "A" } else { "B" };
        let (count, entry) = (of_a.len() + of_b.len(), key.subject.entry());
        let of = match (key.subject.object(), &*key.section) {
            ("", "") => String::new(),
            ("", section) => format!(" in section {section}"),
            _ => format!(" of {name}"),
        };
        report
            .alone
            .push(format!("only {side} has: {entry} 0 to {}{of}", count - 1));
        return None;
    }
    for (index, (entry_a, entry_b)) in of_a.iter().zip(&of_b).enumerate() {
        report.entries += 1;
        if let Some(difference) = written_alone(key, &name, entry_a, entry_b) {
            return Some(difference);
        }
        let text = compare_entry(&mut matches, entry_a, entry_b, options);
        if !text.is_empty() {
            return Some(Difference {
                key: key.clone(),
                text: format!("{}: {text}", entry_name(key, &name, index, entry_b)),
                a: Some(entry_a.at),
                b: Some(entry_b.at),
            });
        }
    }
    let common = of_a.len().min(of_b.len());
    let (rest, side, at_a, at_b) = match of_a.len().cmp(&of_b.len()) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Greater => (&of_a[common..], "A", Some(of_a[common].at), None),
        std::cmp::Ordering::Less => (&of_b[common..], "B", None, Some(of_b[common].at)),
    };
    Some(Difference {
        key: key.clone(),
        text: format!(
            "{name}: {} in A, {} in B; only {side} has {}: {}",
            of_a.len(),
            of_b.len(),
            entry_name(key, &name, common, rest[0]),
            beginning(rest[0]),
        ),
        a: at_a,
        b: at_b,
    })
}

/// Returns the difference of two entries of a region that are different lines: the first line was
/// written in only one of the records.
fn written_alone(key: &Key, name: &str, a: &Entry, b: &Entry) -> Option<Difference> {
    let offset = |entry: &Entry| match entry.fields[0].value {
        Value::Number(offset) if key.subject == Subject::Memory => offset,
        _ => 0,
    };
    let (entry, side) = match offset(a).cmp(&offset(b)) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Less => (a, "A"),
        std::cmp::Ordering::Greater => (b, "B"),
    };
    Some(Difference {
        key: key.clone(),
        text: format!(
            "{}: written in {side} alone",
            entry_name(key, name, 0, entry)
        ),
        a: (side == "A").then_some(a.at),
        b: (side == "B").then_some(b.at),
    })
}

/// Returns the entries to compare, and counts the others.
fn chosen<'a>(
    stream: &'a Stream,
    options: &Options,
    report: &mut Report,
    side: fn(&mut (usize, usize)) -> &mut usize,
) -> Vec<&'a Entry> {
    let mut found = Vec::new();
    for entry in &stream.entries {
        match entry.rule {
            Some(rule) if !options.compares(entry) => {
                *side(report.left_out.entry(rule).or_default()) += 1;
            }
            _ => found.push(entry),
        }
    }
    found
}

/// Returns the name of a stream with the numbers of its object: "CQ 3 (0x3; in B 0x5)".
fn numbered(key: &Key, a: &Stream, b: &Stream) -> String {
    if key.subject.object().is_empty() {
        return key.to_string();
    }
    match (a.number, b.number) {
        (Some(a), Some(b)) if a != b => format!("{key} ({a:#x}, in B {b:#x})"),
        (Some(number), _) | (None, Some(number)) => format!("{key} ({number:#x})"),
        (None, None) => key.to_string(),
    }
}

/// Returns the name of an entry: "CQE 17 of CQ 3 (0x3)", counted from 0.
fn entry_name(key: &Key, stream: &str, index: usize, entry: &Entry) -> String {
    if key.subject == Subject::Memory {
        return format!("memory of {stream} from {}", shown(&entry.fields[0].value));
    }
    match key.subject.object() {
        "" => {
            let (of, title) = (key.subject.entry(), title(entry));
            match &*key.section {
                "" => format!("{of} {index} ({title})"),
                section => format!("{of} {index} in section {section} ({title})"),
            }
        }
        _ => format!("{} {index} of {stream}", key.subject.entry()),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => format!("{number:#x}"),
        other => other.to_string(),
    }
}

/// Returns the title of an entry: its first field.
fn title(entry: &Entry) -> String {
    entry.fields[0].value.to_string()
}

/// Returns the non-zero fields of an entry in one line.
pub fn summary(entry: &Entry) -> String {
    let mut text = String::new();
    for field in &entry.fields {
        if matches!(field.value, Value::Number(0)) {
            continue;
        }
        let between = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{between}{} {}", field.full_name(), field.value);
    }
    text
}

/// Returns the first non-zero fields of an entry.
fn beginning(entry: &Entry) -> String {
    let mut short = entry.clone();
    short.fields.truncate(MAX_FIELDS);
    summary(&short)
}

/// Compares two entries field by field. Returns the differences as text; empty if they are equal.
fn compare_entry(matches: &mut Matches, a: &Entry, b: &Entry, options: &Options) -> String {
    let mut found = Vec::new();
    for (index, of_a) in a.fields.iter().enumerate() {
        let is_it = |of_b: &&Field| of_b.name == of_a.name && of_b.prefix == of_a.prefix;
        let at_same = b.fields.get(index).filter(is_it);
        let Some(of_b) = at_same.or_else(|| b.fields.iter().find(is_it)) else {
            continue;
        };
        if !matches.same(of_a, of_b, options) {
            found.push(difference_of(of_a, of_b));
        }
    }
    let more = found.len().saturating_sub(MAX_FIELDS);
    found.truncate(MAX_FIELDS);
    let mut text = found.join("; ");
    if more > 0 {
        let _ = write!(text, "; and {more} more");
    }
    text
}

fn difference_of(a: &Field, b: &Field) -> String {
    let name = a.full_name();
    match (&a.value, &b.value) {
        (Value::Bytes(of_a), Value::Bytes(of_b)) => {
            let at = of_a.iter().zip(of_b).position(|(a, b)| a != b);
            match at {
                Some(at) => format!(
                    "{name} differs from byte {at} on: {:#04x}, was {:#04x}",
                    of_b[at], of_a[at]
                ),
                None => format!("{name} has {} bytes, was {}", of_b.len(), of_a.len()),
            }
        }
        (of_a, of_b) => format!("{name} {of_b}, was {of_a}"),
    }
}

/// The mapping between values of A and values of B.
#[derive(Debug, Default)]
struct Matches {
    /// By the name of the field and its value; in both directions.
    forward: BTreeMap<(&'static str, String), String>,
    backward: BTreeMap<(&'static str, String), String>,
    /// Distance of addresses, by their space in A.
    addresses: BTreeMap<u64, u64>,
    /// Distance of PSNs.
    psn: Option<u64>,
}

impl Matches {
    fn same(&mut self, a: &Field, b: &Field, options: &Options) -> bool {
        if a.value == b.value && matches!(a.class, Class::Exact) {
            return true;
        }
        let is_strict = |strict| options.strict.contains(&strict);
        match a.class {
            Class::Exact => false,
            Class::Payload => options.without_payload || a.value == b.value,
            Class::Object if !is_strict(Strict::Numbers) => match (&a.value, &b.value) {
                (Value::Object(_, a), Value::Object(_, b)) => a == b,
                // A region in captured frames, which was destroyed before the frames are read.
                _ => self.renames(a, b),
            },
            Class::Number if !is_strict(Strict::Numbers) => self.renames(a, b),
            Class::Path if !is_strict(Strict::Path) => self.renames(a, b),
            Class::Address(space) if !is_strict(Strict::Addresses) => {
                self.keeps_distance(space, a, b)
            }
            Class::Psn if !is_strict(Strict::Psn) => self.keeps_psn_distance(a, b),
            class => {
                strictness(class).is_some_and(|strict| !is_strict(strict)) || a.value == b.value
            }
        }
    }

    /// Returns true if the value of A always corresponds to the value of B, and to no other.
    fn renames(&mut self, a: &Field, b: &Field) -> bool {
        let (of_a, of_b) = (a.value.to_string(), b.value.to_string());
        let forward = self.forward.entry((a.name, of_a.clone()));
        let is_forward = *forward.or_insert_with(|| of_b.clone()) == of_b;
        let backward = self.backward.entry((a.name, of_b));
        is_forward && *backward.or_insert_with(|| of_a.clone()) == of_a
    }

    fn keeps_distance(&mut self, space: u64, a: &Field, b: &Field) -> bool {
        let (Value::Number(a), Value::Number(b)) = (&a.value, &b.value) else {
            return false;
        };
        let distance = b.wrapping_sub(*a);
        *self.addresses.entry(space).or_insert(distance) == distance
    }

    fn keeps_psn_distance(&mut self, a: &Field, b: &Field) -> bool {
        let (Value::Number(a), Value::Number(b)) = (&a.value, &b.value) else {
            return false;
        };
        let distance = psn_distance(*b, *a);
        *self.psn.get_or_insert(distance) == distance
    }
}

/// Returns the option that makes a class be compared exactly.
fn strictness(class: Class) -> Option<Strict> {
    Some(match class {
        Class::Exact => return None,
        Class::Object | Class::Number | Class::Peer => Strict::Numbers,
        Class::Address(_) | Class::Place => Strict::Addresses,
        Class::Psn | Class::FirstPsn => Strict::Psn,
        Class::Path => Strict::Path,
        Class::Time => Strict::Time,
        Class::Capability => Strict::Capabilities,
        Class::Detail => Strict::Details,
        Class::Acknowledge => Strict::Acknowledges,
        Class::Event => Strict::Events,
        Class::Payload => return None,
    })
}

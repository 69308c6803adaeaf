//! Plain words: words that the project does not use, and better ones.
//!
//! Names are split into words, so `carry_out` is read as "carry out".

use super::allowance::{Finding, check};
use super::{files, sources};

/// Banned words in lower case, and better ones. This folder and a glossary may contain them.
const BANNED: &[(&str, &str)] = &[
    ("somebody", "name it: another process, the peer, the caller"),
    ("someone", "name it: another process, the peer, the caller"),
    ("nobody", "no process, no thread, not …"),
    ("anybody", "any process, any thread"),
    ("everybody", "every process, all threads"),
    ("whoever", "the caller, the process that …"),
    (
        "stranger",
        "unknown QP, unexpected source address, foreign peer",
    ),
    (
        "strangers",
        "unknown QPs, unexpected source addresses, foreign peers",
    ),
    ("in vain", "on an empty poll; finds nothing"),
    ("company", "delayed, coalesced (ACK, event)"),
    ("owe", "has to send; pending"),
    ("owes", "has to send; pending"),
    ("owed", "pending"),
    ("debt", "pending ACK"),
    ("debts", "pending ACKs"),
    ("nonsense", "malformed, invalid; ProtocolError"),
    ("door", "listener, doorbell"),
    ("doors", "listeners, doorbells"),
    ("habits", "history; PollHistory"),
    ("patience", "time limit; SpinPolicy"),
    ("business", "activity; QpActivity"),
    ("carry out", "execute"),
    ("carries out", "executes"),
    ("carried out", "executed"),
    ("carrying out", "executing"),
    ("look round", "poll, re-check"),
    ("looks round", "polls, re-checks"),
    ("looked round", "polled, re-checked"),
    ("looking round", "polling, re-checking"),
    ("tell", "return, report, notify, show"),
    ("tells", "returns, reports, notifies, shows"),
    ("telling", "returning, reporting, notifying, showing"),
    ("told", "returned, reported, notified, known"),
    ("go away", "be removed, be unmapped, disconnect"),
    ("goes away", "is removed, is unmapped, disconnects"),
    ("going away", "being removed, being unmapped, disconnecting"),
    ("gone away", "removed, unmapped, disconnected"),
    ("went away", "was removed, was unmapped, has disconnected"),
    ("of its own", "its own, separate"),
    ("of their own", "their own, separate"),
    ("of his own", "its own, separate"),
    ("as there", "as in …"),
    ("for ever", "forever, without a limit"),
    ("hearsay", "unconfirmed"),
    ("he", "it, the peer"),
    ("his", "its, the peer's"),
];

/// Phrases in which a banned word is fine: "to tell apart", "as many as there are".
const FINE: &[&str] = &[
    "tell apart",
    "tells apart",
    "told apart",
    "telling apart",
    "tell them apart",
    "tells them apart",
    "as there is",
    "as there are",
    "as there was",
    "as there were",
    "as there can be",
];

/// First words of a function's documentation that hide what it returns.
const QUESTIONS: &[&str] = &[
    "Whether",
    "What",
    "How",
    "Where",
    "Who",
    "When",
    "Which",
    "Until when",
    "For how",
];

/// The words of a line and of its names, in lower case, with one blank before and after each.
fn words(line: &str) -> String {
    let mut found = String::from(" ");
    let mut last_was_lower = false;
    for c in line.chars() {
        let begins_word = c.is_uppercase() && last_was_lower;
        if (begins_word || !(c.is_alphabetic() || c == '\'')) && !found.ends_with(' ') {
            found.push(' ');
        }
        if c.is_alphabetic() || c == '\'' {
            found.extend(c.to_lowercase());
        }
        last_was_lower = c.is_lowercase();
    }
    if !found.ends_with(' ') {
        found.push(' ');
    }
    found
}

/// The first banned word of a line, and the better one.
fn banned(line: &str) -> Option<(&'static str, &'static str)> {
    let mut words = words(line);
    for fine in FINE {
        words = words.replace(&format!(" {fine} "), " | ");
    }
    let is_in = |word: &str| words.contains(&format!(" {word} "));
    BANNED.iter().copied().find(|(word, _)| is_in(word))
}

/// A sentence that begins with a bare "Who" and does not ask.
fn has_bare_who(line: &str) -> bool {
    let prose = line
        .trim_start()
        .trim_start_matches(['/', '!', ' ', '-', '*']);
    let begins = prose.starts_with("Who ") || line.contains(". Who ") || line.contains(": who ");
    begins && !line.contains('?')
}

fn is_read(name: &str) -> bool {
    !name.starts_with("tests/tests/tidy/") && !name.to_lowercase().ends_with("glossary.md")
}

#[test]
fn words_are_plain() {
    let mut found = Vec::new();
    let all = files(&["rs", "md"]);
    for (name, text) in all.iter().filter(|(name, _)| is_read(name)) {
        for (number, line) in text.lines().enumerate() {
            if let Some((word, better)) = banned(line) {
                let what = format!("\"{word}\"; better: {better}");
                found.push(Finding::new(name, number, what));
            } else if has_bare_who(line) {
                let what = "\"Who\" without a noun; better: the process, thread or user that …";
                found.push(Finding::new(name, number, what));
            }
        }
    }
    check("words", &found);
}

#[test]
fn functions_are_documented_by_what_they_return() {
    let mut found = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| is_read(name)) {
        let mut lines = text.lines().enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            let Some(doc) = line.trim_start().strip_prefix("/// ") else {
                continue;
            };
            let is_about = |line: &str| {
                let line = line.trim_start();
                line.starts_with("///") || line.starts_with("#[")
            };
            while lines.next_if(|(_, line)| is_about(line)).is_some() {}
            let is_function = lines
                .peek()
                .is_some_and(|(_, line)| super::functions::function(line).is_some());
            let asks = |question: &&&str| doc.starts_with(**question);
            if let (true, Some(question)) = (is_function, QUESTIONS.iter().find(asks)) {
                let what = format!("\"{question} …\"; better: \"Returns …\", or a verb");
                found.push(Finding::new(name, number, what));
            }
        }
    }
    check("questions", &found);
}

#[test]
fn banned_words_are_found() {
    for line in [
        "// Nobody waits.",
        "fn carry_out(&self)",
        "struct SpinPatience;",
        "/// It polls in vain.",
        "/// As there.",
        "let STRANGERS = 1;",
    ] {
        assert!(banned(line).is_some(), "{line}");
    }
    for line in [
        "/// as many as there are",
        "// The caller tells them apart.",
        "doorbell",
        "fn accompany()",
        "let the = 1;",
    ] {
        assert_eq!(banned(line), None, "{line}");
    }
    assert!(has_bare_who("/// Who waits yields."));
    assert!(!has_bare_who("## Who uses it?"));
}

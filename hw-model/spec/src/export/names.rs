//! Names and comments in the spelling of other languages.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::register::{CONTRACT_MAJOR, CONTRACT_MINOR};

/// Longest line of a comment, in columns.
const COLUMNS: usize = 100;

/// Returns `name` in upper case with underscores: `CqeWord` is CQE_WORD.
pub fn upper(name: &str) -> String {
    snake(name).to_uppercase()
}

/// Returns `name` in lower case with underscores: `CqeWord` is cqe_word.
pub fn snake(name: &str) -> String {
    let mut output = String::new();
    for (place, letter) in name.char_indices() {
        if letter.is_uppercase() && place > 0 && !output.ends_with('_') && has_lower(name) {
            output.push('_');
        }
        output.extend(letter.to_lowercase());
    }
    output
}

fn has_lower(name: &str) -> bool {
    name.contains(char::is_lowercase)
}

/// Returns the name of a constant of `module`: with the module in front, once.
pub fn constant(module: &str, name: &str) -> String {
    let prefix = upper(module);
    if prefix.is_empty() || name.starts_with(&prefix) {
        return name.into();
    }
    format!("{prefix}_{name}")
}

/// Returns a meaning without the marks of Rust's documentation, in one line.
pub fn plain(meaning: &str) -> String {
    let text = meaning.replace(['`', '[', ']'], "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes a meaning as lines that start with `mark`.
pub fn comment(out: &mut String, mark: &str, meaning: &str) {
    let text = plain(meaning);
    let mut width = usize::MAX;
    for word in text.split(' ') {
        if width.saturating_add(word.len() + 1) > COLUMNS {
            let break_before = if width == usize::MAX { "" } else { "\n" };
            out.push_str(break_before);
            out.push_str(mark);
            width = mark.len();
        }
        out.push(' ');
        out.push_str(word);
        width += word.len() + 1;
    }
    out.push('\n');
}

/// Writes one line.
pub fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("writing to a String cannot fail");
}

/// Returns the first sentence of every file.
pub fn title() -> String {
    format!(
        "The contract between the Ferroce function and its software, version \
         {CONTRACT_MAJOR}.{CONTRACT_MINOR}. Printed from the declarations in hw-model/spec by \
         `ferroce spec`; changes here are lost."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_as_the_language_wants() {
        assert_eq!(upper("CqeWord"), "CQE_WORD");
        assert_eq!(upper("tx_frames"), "TX_FRAMES");
        assert_eq!(snake("RoceAcclLimits"), "roce_accl_limits");
        assert_eq!(snake("RDMA_WRITE"), "rdma_write");
        assert_eq!(constant("push", "PUSH_OFFSET"), "PUSH_OFFSET");
        assert_eq!(constant("wqe", "MAX_BLOCKS"), "WQE_MAX_BLOCKS");
        assert_eq!(constant("", "MAGIC"), "MAGIC");
    }

    #[test]
    fn comments_keep_their_words_and_fit() {
        let long = "word ".repeat(60);
        let mut out = String::new();
        comment(&mut out, "  //", &long);
        assert!(
            out.lines()
                .all(|l| l.len() <= COLUMNS && l.starts_with("  // word"))
        );
        assert_eq!(out.matches("word").count(), 60);
    }
}

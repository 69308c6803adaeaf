//! A function fits on a screen, and its parameters have names.

use super::{allowance, is_source, sources, without_tests};

/// Lines of a function, from `fn` to the closing brace.
const LINES_MAX: usize = 70;

/// The name of the function that begins in a line.
pub(crate) fn function(line: &str) -> Option<&str> {
    let mut words = line.trim_start().split(' ').peekable();
    while let Some(word) = words.next() {
        let is_qualifier = ["const", "async", "unsafe", "extern", "default", "pub"].contains(&word)
            || word.starts_with("pub(")
            || word.ends_with(')')
            || word.starts_with('"')
            || word == "in";
        match word {
            "fn" => {
                let name = words.next()?;
                let end = name.find(|c: char| c != '_' && !c.is_alphanumeric());
                return Some(&name[..end.unwrap_or(name.len())]);
            }
            _ if is_qualifier => {}
            _ => return None,
        }
    }
    None
}

/// Every function: its name, the index of its first line, and its number of lines. Relies on
/// rustfmt, which aligns the closing brace with the start of the line with `fn`.
fn functions(text: &str) -> Vec<(&str, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let is_at_indent = |line: &&str| line.len() - line.trim_start().len() == indent;
        let ends = |line: &str| line.ends_with(';') || line.ends_with('}');
        if ends(line) {
            // On one line, or without a body.
            found.push((name, first, 1));
            continue;
        }
        let mut below = lines[first + 1..].iter().zip(2..);
        let end = below.find(|(line, _)| {
            is_at_indent(line)
                && (line.trim() == "}" || line.trim_start().starts_with(')') && ends(line))
        });
        if let Some((_, length)) = end {
            found.push((name, first, length));
        }
    }
    found
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    let mut seen = 0;
    for (file, text) in sources().into_iter().filter(|(name, _)| is_source(name)) {
        for (name, first, length) in functions(without_tests(&text)) {
            seen += 1;
            if length > LINES_MAX {
                long.push(format!("{file}:{}: {name} has {length} lines", first + 1));
            }
        }
    }
    assert!(seen > 5000, "only {seen} functions were seen");
    assert!(long.is_empty(), "more than {LINES_MAX}: {long:#?}");
}

/// The number of parameters whose type is a tuple in the function that begins at the start of
/// `text`.
fn tuple_parameters(text: &str) -> usize {
    let signature = text.split(" {\n").next().unwrap_or(text);
    let signature = signature.split(";\n").next().unwrap_or(signature);
    let parameters = signature.split(" -> ").next().unwrap_or(signature);
    let types = parameters.split(": (").skip(1);
    types
        .filter(|rest| rest.split(')').next().is_some_and(|one| one.contains(',')))
        .count()
}

/// A tuple hides the names of its values at the call. Pairs that callers have as such remain.
#[test]
fn parameters_are_no_tuples() {
    let mut found = Vec::new();
    for (file, text) in sources().into_iter().filter(|(name, _)| is_source(name)) {
        let text = without_tests(&text);
        for (name, first, _) in functions(text) {
            let start = text.split_inclusive('\n').take(first).map(str::len).sum();
            for _ in 0..tuple_parameters(&text[start..]) {
                let what = format!("{name} takes a tuple");
                found.push(allowance::Finding::new(&file, first, what));
            }
        }
    }
    allowance::check("tuples", &found);
}

#[test]
fn tuple_parameters_are_counted() {
    let text = "\
fn f(
    (a, b): (u8, u16),
    c: &[(u8, u8)],
    d: [u8; 2],
    e: (u8, u8),
) -> (u8, u8) {
    let g: (u8, u8) = e;";
    assert_eq!(tuple_parameters(text), 2);
}

#[test]
fn functions_are_measured() {
    let text = "\
impl A {
    pub(crate) const fn short(&self) -> u8 { 1 }
    unsafe extern \"C\" fn long(
        a: u8,
    ) -> u8 {
        if a {
        }
    }
    fn declared(
        a: u8,
    ) -> u8;
    // fn comment() {
    let fn_ = 1;
}";
    assert_eq!(
        functions(text),
        [("short", 1, 1), ("long", 2, 6), ("declared", 8, 3)]
    );
}

//! README, SECURITY and the book agree with the sources.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// The front page fits on two screens; longer text belongs into the book.
const README_LINES_MAX: usize = 150;
/// The page that follows one RDMA WRITE and has the map of the folders.
const ARCHITECTURE: &str = "docs/src/architecture.md";
/// The page with the table of all commands.
const COMMANDS: &str = "docs/src/commands.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns a file of the project, by its path from the root.
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Pages of the book, by their paths from the root.
fn pages() -> Vec<String> {
    let entries = fs::read_dir(root().join("docs/src")).expect("the book has a folder");
    let names = entries.map(|entry| entry.expect("a page").file_name());
    let mut pages: Vec<_> = names
        .map(|name| format!("docs/src/{}", name.to_str().expect("a plain name")))
        .collect();
    pages.sort();
    assert!(pages.len() > 10, "the book has only {} pages", pages.len());
    pages
}

/// Folders of crates.
const TOP: [&str; 6] = ["hw-model", "driver", "examples", "provider", "sim", "tests"];

/// Returns every file and folder below a folder, by its path from the root; without build folders.
fn paths_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder of the project") {
            let entry = entry.expect("an entry of a folder");
            let name = entry.file_name();
            let path = folder.join(&name);
            let is_folder = entry.file_type().expect("an entry has a type").is_dir();
            if is_folder && name != "target" && name != ".git" {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found
}

/// Returns every file of the crates whose name ends in one of `extensions`, by its path from the
/// root.
fn files_of_crates(extensions: &[&str]) -> Vec<PathBuf> {
    let paths = TOP.iter().flat_map(|folder| paths_below(Path::new(folder)));
    let is_wanted = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| extensions.contains(&extension))
    };
    paths.filter(is_wanted).collect()
}

/// Returns the Markdown files of the project outside of the book.
fn readmes() -> Vec<String> {
    let top = [
        "README.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ];
    let of_crates = files_of_crates(&["md"]).into_iter();
    of_crates
        .map(|path| path.to_str().expect("a plain name").to_owned())
        .chain(top.map(String::from))
        .collect()
}

/// Returns everything between backquotes that names a function as `path/file.rs::function`.
fn named_functions(text: &str) -> Vec<(&str, &str)> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once(".rs::"))
        .collect()
}

/// Returns true if `source` defines `function`.
fn defines(source: &str, function: &str) -> bool {
    let definition = format!("fn {function}");
    source
        .match_indices(&definition)
        .any(|(at, _)| source[at + definition.len()..].starts_with(['(', '<']))
}

/// Returns the functions of `named` that do not exist, as `file.rs::function`.
fn missing_functions(named: &[(&str, &str)]) -> Vec<String> {
    let exists = |(file, function): &(&str, &str)| {
        fs::read_to_string(root().join(format!("{file}.rs")))
            .is_ok_and(|source| defines(&source, function))
    };
    let missing = named.iter().filter(|name| !exists(name));
    missing
        .map(|(file, function)| format!("{file}.rs::{function}"))
        .collect()
}

/// Targets of the links of a page, without code.
fn links(text: &str) -> Vec<&str> {
    let prose: Vec<&str> = text.split("```").step_by(2).collect();
    let pieces = prose.iter().flat_map(|piece| piece.split("](").skip(1));
    pieces
        .map(|rest| rest.split([')', ' ', '\n']).next().unwrap_or_default())
        .collect()
}

/// Returns the anchor that GitHub and mdBook give a heading.
fn anchor(heading: &str) -> String {
    let lower = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = lower
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns true if a page has a heading with this anchor.
fn has_anchor(text: &str, wanted: &str) -> bool {
    let prose = text.split("```").step_by(2).flat_map(str::lines);
    prose
        .filter(|line| line.starts_with('#'))
        .any(|line| anchor(line) == wanted)
}

/// Returns `path` without `.` and `..`; `None` if it leaves the project.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::ParentDir if !parts.pop() => return None,
            _ => {}
        }
    }
    Some(parts)
}

/// Returns the error of a broken link of `page`, or `None` if the link works.
fn broken(page: &str, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
    let folder = Path::new(page).parent().expect("a page is in a folder");
    let target = match file {
        "" => Some(PathBuf::from(page)),
        _ => normal(&folder.join(file)),
    };
    let Some(target) = target.filter(|target| root().join(target).exists()) else {
        return Some(format!("{page}: {link}: no such file"));
    };
    let text = || fs::read_to_string(root().join(&target)).unwrap_or_default();
    let is_there = fragment.is_empty() || has_anchor(&text(), fragment);
    (!is_there).then(|| format!("{page}: {link}: no such heading"))
}

/// Returns the code in backquotes of a page, outside of code blocks.
fn code_spans(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose
        .flat_map(|piece| piece.split('`').skip(1).step_by(2))
        .collect()
}

/// Returns true if a span of code names a file or folder of the project by its path from the root.
fn is_path(span: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let is_in = |folder: &str| {
        span.strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    (TOP.into_iter().any(is_in) || is_in("docs")) && span.chars().all(is_plain)
}

/// Returns true if a span of code names a source or a folder by its path from the folder of a
/// README.
fn is_relative_path(span: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let is_place = span.ends_with('/') || span.ends_with(".rs") || span.ends_with(".md");
    is_place && span.contains('/') && !span.starts_with('/') && span.chars().all(is_plain)
}

/// Returns the sources and manifests of all crates in one string, in lower case.
fn all_sources() -> String {
    let files = files_of_crates(&["rs", "toml"]).into_iter();
    let texts = files.map(|path| fs::read_to_string(root().join(path)).expect("UTF-8"));
    texts.collect::<String>().to_lowercase()
}

/// Returns true if `text` has `word`, also in the plural, and not as a part of a longer word.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let rest = &text[at + word.len()..];
        let after = rest.strip_prefix('s').unwrap_or(rest).chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// Goal: a reader who follows the life of an RDMA WRITE finds every function in the named file.
/// Method: look up each `file::function` of the page in the sources.
#[test]
fn functions_that_the_book_names_exist() {
    let story = read(ARCHITECTURE);
    let named = named_functions(&story);
    assert!(
        named.len() >= 20,
        "the story names only {} functions",
        named.len()
    );
    for page in pages() {
        let text = read(&page);
        let missing = missing_functions(&named_functions(&text));
        assert!(
            missing.is_empty(),
            "{page} names functions that do not exist: {missing:#?}"
        );
    }
}

/// Goal: a reader who checks the claims of SECURITY.md finds the named code.
#[test]
fn functions_that_the_page_on_security_names_exist() {
    let text = read("SECURITY.md");
    let named = named_functions(&text);
    assert!(named.len() >= 15, "it names only {}", named.len());
    let missing = missing_functions(&named);
    assert!(
        missing.is_empty(),
        "SECURITY.md names functions that do not exist: {missing:#?}"
    );
}

/// Goal: the check of functions can fail. Method: names that do not exist.
#[test]
fn a_function_that_does_not_exist_is_found() {
    let text = "`tests/tests/readme.rs::root`, `tests/tests/readme.rs::roo`, `no/file.rs::root`";
    let missing = missing_functions(&named_functions(text));
    assert_eq!(missing, ["tests/tests/readme.rs::roo", "no/file.rs::root"]);
}

/// Goal: links work. Method: look up file and heading of each relative link.
#[test]
fn links_lead_to_files_and_headings() {
    let mut failures = Vec::new();
    let mut count = 0;
    for page in pages().into_iter().chain(readmes()) {
        let text = read(&page);
        let links = links(&text);
        count += links.len();
        failures.extend(links.iter().filter_map(|link| broken(&page, link)));
    }
    assert!(count > 100, "only {count} links were found");
    assert!(failures.is_empty(), "broken links: {failures:#?}");
}

/// Goal: the check of links can fail. Method: broken links and correct links.
#[test]
fn a_broken_link_is_found() {
    let page = "docs/src/quick-start.md";
    for link in [
        "programs.md",
        "#what-it-needs",
        "../../SECURITY.md",
        "https://example.com/",
    ] {
        assert_eq!(broken(page, link), None);
    }
    for link in [
        "nothing.md",
        "#nothing",
        "programs.md#nothing",
        "../../../README.md",
    ] {
        assert!(broken(page, link).is_some(), "{link}");
    }
}

/// Goal: files that the pages name in code exist. Method: every span of code that is a path from
/// the root.
#[test]
fn files_that_the_pages_name_exist() {
    let own = ["README.md", "SECURITY.md", "CONTRIBUTING.md"].map(String::from);
    let mut failures = Vec::new();
    for page in pages().into_iter().chain(own) {
        let text = read(&page);
        let named = code_spans(&text).into_iter().filter(|span| is_path(span));
        let missing = named.filter(|path| !root().join(path).exists());
        failures.extend(missing.map(|path| format!("{page}: {path}")));
    }
    assert!(failures.is_empty(), "no such files: {failures:#?}");
}

/// Goal: the READMEs of folders name files that exist. Method: every span of code that is a path
/// is the end of a path in the same top folder, or a path from the root.
#[test]
fn files_that_readmes_of_folders_name_exist() {
    let mut failures = Vec::new();
    for page in readmes() {
        let top = page.split_once('/').map_or("", |(top, _)| top);
        let below = paths_below(Path::new(top));
        let exists = |path: &str| {
            let path = path.trim_end_matches('/');
            below.iter().any(|found| found.ends_with(path)) || root().join(path).exists()
        };
        let text = read(&page);
        let spans = code_spans(&text).into_iter();
        let missing = spans.filter(|span| is_relative_path(span) && !exists(span));
        failures.extend(missing.map(|path| format!("{page}: {path}")));
    }
    assert!(failures.is_empty(), "no such files: {failures:#?}");
}

/// Goal: every variable on the page about programs is read by some code. Method: search for each in
/// the sources.
#[test]
fn variables_that_the_book_names_are_read() {
    let sources = all_sources();
    let text = read("docs/src/programs.md");
    let spans = code_spans(&text).into_iter();
    let variables: Vec<_> = spans
        .filter(|span| span.starts_with("FERROCE_") && !span.contains('='))
        .collect();
    assert!(variables.len() > 10, "only {variables:?}");
    for name in variables {
        let quoted = format!("\"{}\"", name.to_lowercase());
        assert!(sources.contains(&quoted), "nothing reads {name}");
    }
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(
        lines <= README_LINES_MAX,
        "README.md has {lines} lines of {README_LINES_MAX}"
    );
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = read("docs/src/SUMMARY.md");
    let listed = links(&summary);
    for page in pages() {
        let name = page.trim_start_matches("docs/src/");
        assert!(
            name == "SUMMARY.md" || listed.contains(&name),
            "SUMMARY.md lacks {name}"
        );
    }
}

/// Goal: the table of commands is complete. Method: each variant of the command line's enum has
/// its `ferroce COMMAND` on the page of the book, and the README links to that page.
#[test]
fn the_book_names_every_command() {
    let text = read(COMMANDS);
    let source = read("sim/src/cli/mod.rs");
    let commands = source
        .split("enum Command {")
        .nth(1)
        .and_then(|rest| rest.split('}').next())
        .expect("the command line has an enum of commands");
    let variants: Vec<_> = commands
        .lines()
        .filter_map(|line| line.trim().split_once('('))
        .filter(|(name, _)| !name.is_empty() && name.chars().all(char::is_alphanumeric))
        .map(|(name, _)| name.to_lowercase())
        .collect();
    assert!(variants.len() > 10, "only {variants:?}");
    for name in variants {
        assert!(
            text.contains(&format!("`ferroce {name}")),
            "{COMMANDS} lacks `ferroce {name}`"
        );
    }
    assert!(links(&read("README.md")).contains(&COMMANDS));
}

/// Goal: the project uses every word of the glossary. Method: search for each entry in the sources.
#[test]
fn words_of_the_glossary_are_used() {
    let sources = all_sources();
    let text = read("docs/src/glossary.md");
    let entries: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
        .filter(|entry| !entry.starts_with("---") && *entry != "word")
        .collect();
    assert!(entries.len() > 50, "only {} entries", entries.len());
    for word in entries.iter().flat_map(|entry| entry.split(", ")) {
        let word = word.trim_matches('`').to_lowercase();
        assert!(has_word(&sources, &word), "no source has the word {word}");
    }
}

/// Goal: the map of the folders is complete. Method: every crate of the workspace is in it.
#[test]
fn folders_of_the_map_are_those_of_the_workspace() {
    let text = read(ARCHITECTURE);
    let manifest = read("Cargo.toml");
    let members = manifest
        .split("members = [")
        .nth(1)
        .and_then(|rest| rest.split("\n]").next());
    for member in members
        .expect("the workspace has members")
        .split('"')
        .skip(1)
        .step_by(2)
    {
        let member = member.replace(['[', ']'], ""); // of a pattern
        assert!(
            text.contains(&format!("`{member}/`")),
            "the map lacks {member}/"
        );
    }
}

/// Goal: the book shows the last measured size of the card. Method: its table has the line of each
/// block.
#[test]
fn figures_of_the_card_are_those_of_the_synthesis() {
    let book = read("docs/src/rtl.md");
    let figures = read("hw-model/rtl/synth/figures.txt");
    for figure in figures.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = figure.split(' ').collect();
        let &[module, luts, flip_flops, block_rams] = words.as_slice() else {
            panic!("`{figure}` is not a block and three figures");
        };
        let [luts, flip_flops] = [luts, flip_flops].map(with_thousands);
        let line = format!("| `{module}` | {luts} | {flip_flops} | {block_rams} |");
        assert!(book.contains(&line), "the table lacks {line}");
    }
}

/// Returns a number with a comma between its thousands.
fn with_thousands(digits: &str) -> String {
    let (rest, last) = digits.split_at(digits.len().saturating_sub(3));
    match rest {
        "" => last.to_owned(),
        _ => format!("{},{last}", with_thousands(rest)),
    }
}

/// Goal: each dependency has a reason. Method: each line of `[workspace.dependencies]` for a
/// foreign crate has a comment.
#[test]
fn every_dependency_says_why() {
    let manifest = read("Cargo.toml");
    let dependencies = manifest
        .split("[workspace.dependencies]")
        .nth(1)
        .and_then(|rest| rest.split("\n[").next())
        .expect("the workspace declares its dependencies");
    for line in dependencies.lines().filter(|line| line.contains(" = ")) {
        let ours = line.starts_with("ferroce-");
        assert!(ours || line.contains(" # "), "no reason beside: {line}");
    }
}

//! Files in the same folder use each other in one direction only.
//!
//! A file and its children (`a.rs` and `a/b.rs`) may name each other: they are one module. A path
//! counts for the file that declares its name, not for one that exports the name again.

use std::collections::{BTreeMap, BTreeSet};

use super::{is_source, sources, without_tests};

/// Maximum number of re-exports of a name.
const MAX_EXPORTS: usize = 8;

/// The names of a module's path below its crate.
type Path = Vec<String>;

fn path(text: &str) -> Path {
    text.split("::")
        .map(|part| part.trim().to_owned())
        .collect()
}

/// The source files of a crate.
#[derive(Default)]
struct Crate {
    /// Each module, and the paths in its code.
    modules: BTreeMap<Path, Vec<Path>>,
    /// The paths of the names that a module imports or exports.
    names: BTreeMap<(Path, String), Path>,
}

impl Crate {
    fn add(&mut self, module: &Path, text: &str) {
        let (imports, code) = statements(without_tests(text));
        let mut paths = Vec::new();
        for import in imports.iter().flat_map(|import| expanded(import)) {
            let (import, name) = match import.split_once(" as ") {
                Some((import, name)) => (import, Some(name.trim().to_owned())),
                None => (import.as_str(), None),
            };
            let mut target = path(import);
            if target.last().is_some_and(|last| last == "self") {
                target.pop();
            }
            if let Some(name) = name.or_else(|| target.last().cloned()) {
                self.names.insert((module.clone(), name), target.clone());
            }
            paths.push(target);
        }
        let is_part = |c: char| c == '_' || c == ':' || c.is_alphanumeric();
        let words = code.split(|c| !is_part(c));
        let in_code = words.filter(|word| word.contains("::") && !word.starts_with(':'));
        paths.extend(in_code.map(path));
        self.modules.insert(module.clone(), paths);
    }

    /// Returns a path in a module as a path from the root of the crate, or `None` if it leads out
    /// of the crate.
    fn absolute(&self, module: &Path, path: &Path) -> Option<Path> {
        let (first, rest) = path.split_first()?;
        let child = [&module[..], std::slice::from_ref(first)].concat();
        let base = match first.as_str() {
            "crate" => Path::new(),
            "self" => module.clone(),
            "super" => {
                let (_, parent) = module.split_last()?;
                let ups = rest.iter().take_while(|part| *part == "super").count();
                let base = parent[..parent.len().checked_sub(ups)?].to_vec();
                return Some([&base[..], &rest[ups..]].concat());
            }
            _ if self.modules.contains_key(&child) => child,
            name => {
                let name = (module.clone(), name.to_owned());
                let target = self.names.get(&name).filter(|target| *target != path)?;
                self.absolute(module, target)?
            }
        };
        Some([&base[..], rest].concat())
    }

    /// Returns the module that declares the name at the end of a path.
    fn declaring(&self, mut path: Path) -> Option<Path> {
        for _ in 0..MAX_EXPORTS {
            let depths = (0..path.len()).rev();
            let mut modules = depths.map(|depth| path.split_at(depth));
            let (module, rest) = modules.find(|(module, _)| self.modules.contains_key(*module))?;
            let name = (module.to_vec(), rest[0].clone());
            let exported = self.names.get(&name);
            let Some(target) = exported.and_then(|target| self.absolute(&name.0, target)) else {
                return Some(name.0);
            };
            path = [&target[..], &rest[1..]].concat();
        }
        None
    }

    /// Returns which modules each module uses.
    fn arrows(&self) -> BTreeSet<(Path, Path)> {
        let mut arrows = BTreeSet::new();
        for (module, paths) in &self.modules {
            for path in paths {
                let absolute = self.absolute(module, path);
                if let Some(used) = absolute.and_then(|path| self.declaring(path)) {
                    arrows.insert((module.clone(), used));
                }
            }
        }
        arrows
    }
}

/// Separates the imports of a file from the rest of its code, without comments.
fn statements(text: &str) -> (Vec<String>, String) {
    let (mut imports, mut rest) = (Vec::new(), String::new());
    let mut is_open = false;
    for line in text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""))
    {
        let mut words = line
            .trim_start()
            .split(' ')
            .filter(|word| !word.starts_with("pub"));
        let begins = words.next() == Some("use");
        match imports.last_mut() {
            _ if begins => imports.push(
                line.split_once("use ")
                    .map_or("", |(_, path)| path)
                    .to_owned(),
            ),
            Some(import) if is_open => import.push_str(line),
            _ => rest += &format!("{line}\n"),
        }
        is_open = (begins || is_open) && !line.contains(';');
    }
    (imports, rest)
}

/// Returns the paths of an import: `a::{b, c::d}` has two.
fn expanded(import: &str) -> Vec<String> {
    let import = import.trim().trim_end_matches(';');
    let Some((base, list)) = import.split_once('{') else {
        return vec![import.to_owned()];
    };
    let list = list.trim().trim_end_matches('}');
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in list.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match parts.last_mut() {
            Some(part) if c != ',' || depth > 0 => part.push(c),
            _ => parts.push(String::new()),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts
        .flat_map(|part| expanded(&format!("{base}{}", part.trim())))
        .collect()
}

/// Every crate of the project, by the folder of its sources.
fn crates() -> BTreeMap<String, Crate> {
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    for (file, text) in sources() {
        let Some((name, rest)) = file.split_once("/src/").filter(|_| is_source(&file)) else {
            continue;
        };
        let rest = rest.strip_suffix(".rs").unwrap_or(rest);
        let mut module: Path = rest.split('/').map(str::to_owned).collect();
        module.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
        if !module.iter().any(|part| part == "tests") {
            crates
                .entry(format!("{name}/src"))
                .or_default()
                .add(&module, &text);
        }
    }
    crates
}

/// The arrows between neighbours of each folder.
fn neighbours(
    folder: &str,
    arrows: &BTreeSet<(Path, Path)>,
) -> BTreeMap<String, BTreeSet<(String, String)>> {
    let mut folders: BTreeMap<String, BTreeSet<_>> = BTreeMap::new();
    for (from, to) in arrows {
        let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        if let (Some(user), Some(used)) = (from.get(common), to.get(common)) {
            let place = [&[folder.to_owned()], &from[..common]].concat().join("/");
            folders
                .entry(place)
                .or_default()
                .insert((user.clone(), used.clone()));
        }
    }
    folders
}

/// Returns the arrows that are in a circle or between two of them.
fn circles(mut arrows: BTreeSet<(String, String)>) -> BTreeSet<(String, String)> {
    loop {
        let users: BTreeSet<_> = arrows.iter().map(|(user, _)| user.clone()).collect();
        let used: BTreeSet<_> = arrows.iter().map(|(_, used)| used.clone()).collect();
        let before = arrows.len();
        arrows.retain(|arrow| users.contains(&arrow.1) && used.contains(&arrow.0));
        if arrows.len() == before {
            return arrows;
        }
    }
}

#[test]
fn files_of_a_folder_use_each_other_in_one_direction() {
    let mut count = 0;
    for (folder, files) in crates() {
        let arrows = files.arrows();
        count += arrows.len();
        for (place, arrows) in neighbours(&folder, &arrows) {
            let circles = circles(arrows);
            assert!(
                circles.is_empty(),
                "{place}: a circle of files: {circles:?}"
            );
        }
    }
    assert!(count > 1000, "only {count} arrows were seen");
}

#[test]
fn a_circle_is_seen() {
    let mut files = Crate::default();
    let mut add = |module: &str, text: &str| files.add(&path(module), text);
    add(
        "error",
        "use crate::{bus::{self, Kind}, clock};\nfn f() -> Kind { bus::kind() }",
    );
    add(
        "bus",
        "mod link;\npub use link::Link;\npub enum Kind {}\nuse super::clock::Clock;",
    );
    add(
        "bus::link",
        "//! Of [`crate::error`].\npub struct Link(super::Kind);",
    );
    add(
        "clock",
        "use crate::bus::Link; // not crate::error\npub struct Clock(Link);",
    );
    let arrows = files.arrows();
    let used: Vec<_> = arrows
        .iter()
        .map(|(from, to)| (from.join("/"), to.join("/")))
        .collect();
    let used: Vec<_> = used
        .iter()
        .map(|(from, to)| (from.as_str(), to.as_str()))
        .collect();
    let expected = [
        ("bus", "bus/link"),
        ("bus", "clock"),
        ("bus/link", "bus"),
        ("clock", "bus/link"),
        ("error", "bus"),
    ];
    assert_eq!(used, expected);
    let arrows = neighbours("a/src", &arrows)
        .remove("a/src")
        .expect("arrows");
    let found = circles(arrows);
    let found: Vec<_> = found
        .iter()
        .map(|(from, to)| (from.as_str(), to.as_str()))
        .collect();
    assert_eq!(found, [("bus", "clock"), ("clock", "bus")]);
}

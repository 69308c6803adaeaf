//! Links the shared library and compares its dynamic symbols with the checked-in list.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use support::{crate_root, link};

/// Node, name and whether it is the default version, as `readelf` writes it: `name@@node`.
type Symbol = (String, String, bool);

/// Returns the symbols of the list. The newest of several private nodes of a name is the default,
/// as in rdma-core.
fn expected() -> BTreeSet<Symbol> {
    let text = std::fs::read_to_string(crate_root().join("symbols.txt")).expect("symbols.txt");
    let rows: Vec<(String, String)> = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words.len(), 3, "{line}");
            let kinds = ["own", "forward", "status", "null", "minus_one"];
            assert!(kinds.contains(&words[1]), "{line}");
            (words[0].to_owned(), words[2].to_owned())
        })
        .collect();
    let newest = |name: &str| {
        rows.iter()
            .rev()
            .find(|row| row.1 == name)
            .map(|row| row.0.clone())
    };
    rows.iter()
        .map(|(node, name)| {
            (
                node.clone(),
                name.clone(),
                newest(name).as_ref() == Some(node),
            )
        })
        .collect()
}

fn defined(library: &Path) -> BTreeSet<Symbol> {
    let output = Command::new("readelf")
        .args(["-W", "--dyn-syms"])
        .arg(library)
        .output()
        .expect("readelf runs (binutils)");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, _, _, kind, _, _, section, symbol, ..] = words[..] else {
                return None;
            };
            let is_symbol = kind == "FUNC" && section != "UND";
            let (name, node) = symbol.split_once('@').filter(|_| is_symbol)?;
            let default = node.starts_with('@');
            Some((
                node.trim_start_matches('@').to_owned(),
                name.to_owned(),
                default,
            ))
        })
        .collect()
}

#[test]
fn the_library_defines_exactly_the_listed_symbols() {
    let library = link("symbols");
    let (expected, defined) = (expected(), defined(&library));
    let missing: Vec<_> = expected.difference(&defined).collect();
    let surplus: Vec<_> = defined.difference(&expected).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing {missing:#?}\nsurplus {surplus:#?}"
    );
    let link = library.with_extension("");
    assert!(link.exists(), "the symlink {}", link.display());
}

/// Returns the lines of `readelf -W -d` of a kind.
fn dynamic_section(library: &Path, tag: &str) -> Vec<String> {
    let output = Command::new("readelf")
        .args(["-W", "-d"])
        .arg(library)
        .output()
        .expect("readelf");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter(|line| line.contains(tag))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_library_stands_in_for_the_distributions_one() {
    let library = link("soname");
    let name = dynamic_section(&library, "(SONAME)");
    assert!(
        name.iter().any(|line| line.contains("[libibverbs.so.1]")),
        "{name:?}"
    );
    let needed = dynamic_section(&library, "(NEEDED)");
    for line in &needed {
        let allowed = [
            "libc.so",
            "libgcc_s.so",
            "libm.so",
            "ld-linux",
            "libpthread.so",
            "libdl.so",
        ];
        assert!(
            allowed.iter().any(|name| line.contains(name)),
            "unexpected dependency {line}"
        );
    }
}

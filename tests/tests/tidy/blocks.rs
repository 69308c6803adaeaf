//! The blocks that each block of the model may use, according to `hw-model/README.md`; there are no
//! cycles.

use super::{sources, without_tests};

const SOURCES: &str = "hw-model/src/";
const README: &str = include_str!("../../../hw-model/README.md");

/// The blocks in the order of the table in the README: files and folders of `hw-model/src`, without
/// `/` and `.rs`. A block uses only later ones.
fn blocks() -> Vec<&'static str> {
    let table = README.lines().skip_while(|line| *line != "| block | is |");
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.map(block_of).collect()
}

/// The block of a path below `hw-model/src`.
fn block_of(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// The first name of each path below `crate::` in code without comments.
fn used(code: &str) -> impl Iterator<Item = &str> {
    let paths = code.split("crate::").skip(1);
    paths.map(|path| {
        let end = path.find(|c: char| c != '_' && !c.is_alphanumeric());
        &path[..end.unwrap_or(path.len())]
    })
}

#[test]
fn blocks_of_the_model_use_those_below_them() {
    let blocks = blocks();
    let place = |name: &str| blocks.iter().position(|block| *block == name);
    let mut arrows = 0;
    for (file, text) in sources() {
        let Some(path) = file.strip_prefix(SOURCES).filter(|path| *path != "lib.rs") else {
            continue;
        };
        let own = block_of(path);
        let own_place = place(own).unwrap_or_else(|| panic!("{own} is not in hw-model/README.md"));
        for (number, line) in without_tests(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            for name in used(code).filter(|name| *name != own) {
                let line = format!("{file}:{}", number + 1);
                let used = place(name).unwrap_or_else(|| {
                    panic!("{line}: crate::{name} is no block of hw-model/README.md")
                });
                assert!(used > own_place, "{line}: {own} stands below {name}");
                arrows += 1;
            }
        }
    }
    assert!(arrows > 300, "only {arrows} imports were seen");
}

#[test]
fn imports_are_seen() {
    let code = "use crate::time::edge::Edge; fn f() -> crate::limits::A { crate::Nic }";
    assert_eq!(used(code).collect::<Vec<_>>(), ["time", "limits", "Nic"]);
    assert_eq!(block_of("translation/mpt.rs"), "translation");
    assert_eq!(block_of("nic.rs"), "nic");
}

//! The programmer's reference matches the declarations in the code.

use ferroce_spec::reference::refresh;
use ferroce_spec::register::{BAR0_SIZE, COUNTERS_OFFSET, REGISTERS};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

/// Goal: no table of the README differs from the declarations, and none is missing.
/// Method: print all tables anew and compare. `FERROCE_UPDATE=1` writes the file.
#[test]
fn tables_of_the_readme_are_those_of_the_code() {
    let text = std::fs::read_to_string(PATH).expect("the README is beside the crate");
    let (fresh, missing) = refresh(&text);
    assert!(
        missing.is_empty(),
        "the README has no place for {missing:?}"
    );
    if std::env::var_os("FERROCE_UPDATE").is_some() {
        std::fs::write(PATH, &fresh).expect("the README can be written");
        return;
    }
    for (number, (old, new)) in text.lines().zip(fresh.lines()).enumerate() {
        assert_eq!(
            old,
            new,
            "README.md:{} (FERROCE_UPDATE=1 mends it)",
            number + 1
        );
    }
    assert_eq!(text.lines().count(), fresh.lines().count());
}

#[test]
fn registers_are_aligned_in_order_and_do_not_overlap() {
    let mut end = 0;
    for register in REGISTERS {
        assert_eq!(
            register.offset % register.width,
            0,
            "{} is not aligned",
            register.name
        );
        assert!(
            register.offset >= end,
            "{} overlaps the one before",
            register.name
        );
        end = register.offset + register.width * register.count;
    }
    assert!(end <= COUNTERS_OFFSET && COUNTERS_OFFSET < BAR0_SIZE);
}

//! The document of the presets shows what the code declares and the files say.

use std::fmt::Write;

use ferroce_model::preset::topology::Topology;
use ferroce_model::preset::{Group, Origin, Preset};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/presets/README.md");
const END: &str = "<!-- end -->";

fn load(name: &str) -> Preset {
    Preset::load(name).unwrap_or_else(|error| panic!("{error}"))
}

/// Goal: the tables of the README are current. Method: print them anew and compare;
/// `FERROCE_UPDATE=1` writes the file.
#[test]
fn tables_of_the_readme_are_those_of_the_code() {
    let old = std::fs::read_to_string(PATH).expect("the README is beside the presets");
    let tables = [
        ("presets", presets()),
        ("hosts", hosts()),
        ("posting", posting()),
        ("groups", groups()),
        ("parameters", parameters()),
        ("elements", elements()),
    ];
    let fresh = tables.iter().fold(old.clone(), |text, (name, table)| {
        let begin = format!("<!-- table: {name} -->\n");
        let (head, rest) = text.split_once(&begin).expect("there is a place for it");
        let (_, tail) = rest.split_once(END).expect("the place has an end");
        format!("{head}{begin}{table}{END}{tail}")
    });
    if std::env::var_os("FERROCE_UPDATE").is_some() {
        std::fs::write(PATH, &fresh).expect("the README can be written");
        return;
    }
    for (number, (old, new)) in old.lines().zip(fresh.lines()).enumerate() {
        let line = number + 1;
        assert_eq!(old, new, "README.md:{line} (FERROCE_UPDATE=1 mends it)");
    }
    assert_eq!(old.lines().count(), fresh.lines().count());
}

/// Goal: every preset with a host profile that the README names is one.
#[test]
fn presets_that_the_readme_names_load() {
    let text = std::fs::read_to_string(PATH).expect("the README is beside the presets");
    let rows = text.lines().filter(|line| line.starts_with("| V"));
    let names: Vec<&str> = rows
        .flat_map(|row| row.split('`').skip(1).step_by(2))
        .collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        load(name);
    }
}

fn presets() -> String {
    const ORIGINS: [Origin; 5] = [
        Origin::Measured,
        Origin::DataSheet,
        Origin::Derived,
        Origin::Design,
        Origin::Guess,
    ];
    let mut table = "| preset | is |".to_owned();
    for origin in ORIGINS {
        write!(table, " {origin} |").expect("a string takes all");
    }
    table += "\n| --- | --- | --: | --: | --: | --: | --: |\n";
    for name in Preset::names() {
        let preset = load(name);
        write!(table, "| {name} | {} |", preset.about()).expect("a string takes all");
        for origin in ORIGINS {
            let count = preset
                .parameters()
                .filter(|one| one.origin == origin)
                .count();
            write!(table, " {count} |").expect("a string takes all");
        }
        table += "\n";
    }
    table
}

fn hosts() -> String {
    let mut table = "| profile | is |\n| --- | --- |\n".to_owned();
    for name in Preset::hosts() {
        let about = Preset::about_host(name).expect("each profile says what it is");
        writeln!(table, "| {name} | {about} |").expect("a string takes all");
    }
    table
}

/// Returns the cost of a post on each host profile that states one.
fn posting() -> String {
    let mut table = "| profile | pushed, ns | with a doorbell, ns | origin | source |\n".to_owned();
    table += "| --- | --: | --: | --- | --- |\n";
    for name in Preset::hosts() {
        let preset = load(&format!("functional@{name}"));
        let mut parameters = preset.parameters();
        let post = parameters.find(|parameter| parameter.key == "host.post_ns");
        let post = post.expect("it is declared");
        if post.stated_by != name {
            continue;
        }
        let host = &preset.host;
        let (pushed, rung) = (host.post_ns + host.push_ns, host.post_ns + host.doorbell_ns);
        let (origin, source) = (post.origin, post.source);
        writeln!(
            table,
            "| {name} | {pushed} | {rung} | {origin} | {source} |"
        )
        .expect("a string takes all");
    }
    table
}

fn groups() -> String {
    let preset = load("functional");
    let mut table = "| group | is | parameters |\n| --- | --- | --: |\n".to_owned();
    for group in Group::all() {
        let of_group = preset.parameters().filter(|one| one.group() == group);
        let (about, count) = (group.about(), of_group.count());
        writeln!(table, "| {group} | {about} | {count} |").expect("a string takes all");
    }
    table
}

/// Returns the values of the elements of a topology.
fn elements() -> String {
    let mut table = "| value | unit | permitted | is |\n| --- | --- | --- | --- |\n".to_owned();
    for (kind, declared) in Topology::declarations() {
        let (unit, range, doc) = (declared.unit, declared.range, declared.doc);
        writeln!(
            table,
            "| {kind}.{} | {unit} | {range} | {doc} |",
            declared.name
        )
        .expect("a string takes all");
    }
    table
}

fn parameters() -> String {
    let mut table = "| parameter | group | unit | permitted | is |\n".to_owned();
    table += "| --- | --- | --- | --- | --- |\n";
    for parameter in load("functional").parameters() {
        let (key, group, declared) = (&parameter.key, parameter.group(), parameter.declaration);
        let (unit, range, doc) = (declared.unit, declared.range, declared.doc);
        writeln!(table, "| {key} | {group} | {unit} | {range} | {doc} |")
            .expect("a string takes all");
    }
    table
}

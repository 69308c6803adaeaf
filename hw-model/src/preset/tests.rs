//! Properties of every preset and every file.

use proptest::prelude::*;

use super::*;
use crate::config::NicConfig;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// A folder for the files of one test.
struct Folder(std::path::PathBuf);

impl Folder {
    #[expect(
        clippy::disallowed_methods,
        reason = "the name of a folder, which no figure depends on"
    )]
    fn new(test: &str) -> Folder {
        let name = format!("ferroce-preset-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_preset_and_host_profile_loads() {
    for name in Preset::names() {
        let preset = Preset::load(name).unwrap_or_else(|error| panic!("{error}"));
        assert!(
            !preset.about().is_empty(),
            "{name} says nothing about itself"
        );
        for host in Preset::hosts() {
            let combined = format!("{name}@{host}");
            match Preset::load(&combined) {
                Ok(preset) => assert_eq!(preset.name(), combined),
                // The host's port is faster than the card allows.
                Err(PresetError::Contradiction { wanted, .. }) => {
                    assert_eq!(wanted, "mac.rate_gbps", "{combined}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn every_parameter_has_an_origin_and_a_source() {
    for name in Preset::names() {
        let preset = Preset::load(name).expect("built-in presets load");
        assert_eq!(preset.parameters().count(), preset.places().count());
        for parameter in preset.parameters() {
            assert!(
                !parameter.source.trim().is_empty(),
                "{name}: {}",
                parameter.key
            );
            assert_ne!(parameter.origin, Origin::User, "{name}: {}", parameter.key);
            let Parameter {
                key,
                value,
                declaration,
                ..
            } = parameter;
            assert!(declaration.range.contains(value), "{name}: {key} = {value}");
        }
    }
}

/// Returns the mistake in the first lines of a preset: its description, and the first line of its
/// file. Both or none must begin with `guessed:`.
fn wrong_first_lines(preset: &Preset, text: &str) -> Option<String> {
    let share = preset.guessed_share();
    let name = preset.name();
    let about = preset.about().starts_with("guessed: ");
    let first = text.starts_with("# guessed: ");
    if about != first {
        return Some(format!("{name}: `about` and first line differ"));
    }
    if share > MOSTLY_GUESSED && !about {
        let limit = MOSTLY_GUESSED;
        return Some(format!("{name}: {share:.2} is guessed, limit {limit}"));
    }
    None
}

/// Goal: a list of the presets shows which cards are guessed. Method: every preset of the project;
/// then one without the word, and one with it only in the first line.
#[test]
fn a_preset_that_is_mostly_guessed_says_so_in_its_first_line() {
    for (name, text) in builtin::PRESETS {
        let preset = Preset::load(name).expect("built-in presets load");
        assert_eq!(wrong_first_lines(&preset, text), None);
    }
    let text = builtin::find(builtin::PRESETS, "bf3-400g").expect("it is built in");
    let silent = text.replace("guessed: ", "");
    let half = text.replace("about = \"guessed: ", "about = \"");
    for (text, problem) in [(&silent, "is guessed, limit"), (&half, "differ")] {
        let preset = Preset::parse("silent", text).expect("it is valid but for the word");
        let wrong = wrong_first_lines(&preset, text).expect("the word is missing");
        assert!(wrong.contains(problem), "{wrong}");
    }
}

#[test]
fn functional_is_the_functional_nic() {
    let preset = Preset::load("functional").expect("built-in presets load");
    let (preset, known) = (preset.nic_config(64, MAC), NicConfig::functional(64, MAC));
    assert_eq!(format!("{preset:?}"), format!("{known:?}"));
}

#[test]
fn nothing_costs_anything_in_functional() {
    let preset = Preset::load("functional").expect("built-in presets load");
    let keeps_time = ["transport.ack_delay_ns", "transport.reorder_ns"];
    for parameter in preset.parameters() {
        let is_cost = parameter.key.ends_with("_ns") || parameter.key.ends_with("_cycles");
        if is_cost && !keeps_time.contains(&parameter.key.as_str()) {
            assert_eq!(parameter.value.to_bits(), 0, "{}", parameter.key);
        }
    }
}

#[test]
fn a_value_that_is_set_is_found_again() {
    let mut preset = Preset::load("cx5-100g").expect("built-in presets load");
    let before = preset.hash();
    preset.set("cache.mtt.log_sets", "10").expect("permitted");
    preset
        .set("pcie.read_latency_ns", " 512.5 ")
        .expect("permitted");
    preset.set("link.switched", "true").expect("permitted");
    assert_eq!(preset.cache.mtt.log_sets, 10);
    assert_eq!(preset.pcie.read_latency_ns, 512.5);
    assert!(preset.link.switched);
    assert_ne!(preset.hash(), before);
    let changed = preset
        .parameters()
        .filter(|parameter| parameter.origin == Origin::User);
    let keys: Vec<String> = changed.map(|parameter| parameter.key).collect();
    assert_eq!(
        keys,
        [
            "pcie.read_latency_ns",
            "cache.mtt.log_sets",
            "link.switched"
        ]
    );
}

#[test]
fn every_parameter_can_be_set_to_the_value_that_it_has() {
    let mut preset = Preset::load("cx5-100g").expect("built-in presets load");
    let before = preset.hash();
    let all: Vec<(String, String)> = preset
        .parameters()
        .map(|parameter| (parameter.key, parameter.value.to_string()))
        .collect();
    for (key, value) in all {
        preset
            .set(&key, &value)
            .unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(preset.hash(), before);
}

#[test]
fn the_hash_differs_by_preset_and_ignores_the_name() {
    let mut hashes: Vec<u64> = Preset::names()
        .map(|name| Preset::load(name).expect("built-in presets load").hash())
        .collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), Preset::names().count());
    let copy = Preset::parse("mine", "inherits = \"cx5-100g\"").expect("inherits all");
    let original = Preset::load("cx5-100g").expect("built-in presets load");
    assert_eq!(copy.hash(), original.hash());
}

#[test]
fn refusals_say_what_would_be_right() {
    let mut preset = Preset::load("cx5-100g").expect("built-in presets load");
    let mut refusal = |key: &str, value: &str| {
        let error = preset.set(key, value).expect_err("not permitted");
        error.to_string()
    };
    assert_eq!(
        refusal("pcie.lanes", "3"),
        "pcie.lanes = 3: must be a whole number of lanes: one of 1, 2, 4, 8, 16"
    );
    assert_eq!(
        refusal("pcie.mps_bytes", "300"),
        "pcie.mps_bytes = 300: must be a whole number of bytes: a power of two from 128 to 4096"
    );
    assert_eq!(
        refusal("cache.mtt.log_sets", "21"),
        "cache.mtt.log_sets = 21: must be a whole number: 0 to 20"
    );
    assert_eq!(
        refusal("link.switched", "yes"),
        "link.switched = yes: must be true or false"
    );
    assert_eq!(
        refusal("host.translation", "pages-1g"),
        "host.translation = pages-1g: must be a name: one of kernel, pages-4k, pages-2m, physical"
    );
    for number in ["NaN", "inf", "-1", "1e300", "", "0x10"] {
        let text = refusal("pcie.read_latency_ns", number);
        assert!(text.ends_with("a number of ns: 0 to 1000000000"), "{text}");
    }
    let text = refusal("pcie.read_latancy_ns", "1");
    assert!(text.contains("did you mean pcie.read_latency_ns"), "{text}");
    let text = refusal("read_latency_ns", "1");
    assert!(text.contains("did you mean pcie.read_latency_ns"), "{text}");
}

#[test]
fn names_that_there_are_not() {
    let text = |name| Preset::load(name).expect_err("no such preset").to_string();
    assert!(
        text("cx5-10g").contains("did you mean cx5-100g"),
        "{}",
        text("cx5-10g")
    );
    assert!(
        text("cx5-100g@xeon").contains("xeon-6240r"),
        "{}",
        text("cx5-100g@xeon")
    );
    assert!(text("./nowhere.toml").starts_with("./nowhere.toml: "));
    assert!(text("").starts_with("no preset ''"));
    assert!(text("cx5-100g@").starts_with("no host profile ''"));
}

#[test]
fn files_that_are_wrong_say_where() {
    let error = |text: &str| {
        Preset::parse("mine.toml", text)
            .expect_err("wrong")
            .to_string()
    };
    let on_cx5 = |text: &str| error(&format!("inherits = \"cx5-100g\"\n{text}"));
    assert!(error("").starts_with("mine.toml: clock.core_mhz is missing"));
    assert!(error("[clock").starts_with("mine.toml: not TOML: "));
    assert!(on_cx5("[clock]\ncore_mhz = 3").contains("clock.core_mhz: is not a table"));
    assert!(on_cx5("clock = 3").contains("no parameter 'clock'"));
    assert!(on_cx5("[clocks]\ncore_mhz = 3").contains("no parameter 'clocks'"));
    assert!(on_cx5("[cache.mtt]\nlog_set = 3").contains("did you mean cache.mtt.log_sets"));
    let one = |body: &str| on_cx5(&format!("[pcie]\nlanes = {{ {body} }}"));
    assert!(one("value = 3, origin = 'guess', source = 'x'").contains("one of 1, 2, 4, 8, 16"));
    assert!(one("value = 8.0, origin = 'guess', source = 'x'").contains("a whole number of lanes"));
    assert!(one("value = 8, origin = 'hearsay', source = 'x'").contains("no origin"));
    assert!(one("value = 8, origin = 'guess', source = ' '").contains("no source"));
    assert!(one("value = 8, origin = 'guess'").contains("no source"));
    assert!(one("origin = 'guess', source = 'x'").contains("no value"));
    assert!(one("value = 8, orign = 'guess', source = 'x'").contains("unknown 'orign'"));
    assert!(error("inherits = 3").contains("inherits = 3: must be the name"));
    assert!(error("inherits = 'cx5'").contains("did you mean cx5-100g"));
}

#[test]
fn a_users_preset_inherits_from_a_file_beside_it() {
    let folder = Folder::new("inherits");
    let path = |name: &str| folder.0.join(name).display().to_string();
    let lanes = "[pcie]\nlanes = { value = 4, origin = 'design', source = 'a small slot' }\n";
    std::fs::write(path("a.toml"), format!("inherits = 'cx5-100g'\n{lanes}")).expect("writes");
    std::fs::write(path("b.toml"), "about = 'b'\ninherits = 'a.toml'\n").expect("writes");
    std::fs::write(path("loop.toml"), "inherits = 'loop.toml'\n").expect("writes");
    let preset = Preset::load(&path("b.toml")).expect("both files are right");
    assert_eq!((preset.pcie.lanes, preset.about()), (4, "b"));
    let mut parameters = preset.parameters();
    let lanes = parameters.find(|parameter| parameter.key == "pcie.lanes");
    let lanes = lanes.expect("it is a parameter");
    assert_eq!((lanes.source, lanes.stated_by), ("a small slot", "a.toml"));
    let error = Preset::load(&path("loop.toml")).expect_err("a circle");
    assert!(
        error.to_string().contains("inherits through more than 8"),
        "{error}"
    );
}

#[test]
fn a_host_profile_leaves_the_card_alone() {
    let folder = Folder::new("host");
    let path = folder.0.join("host.toml");
    let text = "[units]\ncount = { value = 4, origin = 'guess', source = 'x' }\n";
    std::fs::write(&path, text).expect("writes");
    let error = Preset::load(&format!("cx5-100g@{}", path.display())).expect_err("of the card");
    assert!(
        error
            .to_string()
            .contains("units.count belongs to the card"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,400}") {
        let _ = Preset::parse("garbage", &text);
        let _ = Preset::load(&text);
    }

    #[test]
    fn no_key_or_value_makes_set_panic(key in "[a-z._]{0,40}", value in ".{0,40}") {
        let mut preset = Preset::load("functional").expect("built-in presets load");
        let _ = preset.set(&key, &value);
    }

    #[test]
    fn a_damaged_file_is_refused_or_within_all_ranges(
        from in 0usize..20_000, length in 0usize..30, by in ".{0,6}",
    ) {
        let text = builtin::find(builtin::PRESETS, "cx5-100g").expect("built in");
        let cut = |at: usize| (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
        let (start, end) = (cut(from).unwrap_or(0), cut(from + length).unwrap_or(0));
        let damaged = format!("{}{by}{}", &text[..start], &text[end..]);
        if let Ok(preset) = Preset::parse("damaged", &damaged) {
            for parameter in preset.parameters() {
                prop_assert!(parameter.declaration.range.contains(parameter.value));
            }
        }
    }

    #[test]
    fn a_value_is_refused_or_within_its_range(index in 0usize..300, value in "[-0-9.einfNa]{1,8}") {
        let mut preset = Preset::load("cx5-100g").expect("built-in presets load");
        let key = preset.parameters().nth(index).map(|parameter| parameter.key);
        if let Some(key) = key {
            if preset.set(&key, &value).is_ok() {
                let place = preset.place(&key).expect("it was set");
                prop_assert!(place.declaration.range.contains(preset.value(&place)));
            }
        }
    }
}

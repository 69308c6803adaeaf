//! Files with topologies: what is refused, and changes for a run.

use super::super::Preset;
use super::{Kind, MemoryTarget};

const DGX: &str = include_str!("../../../presets/hosts/dgx-h100.toml");

fn load(text: &str) -> Result<Preset, String> {
    let card = Preset::load("cx7-400g").expect("built in");
    card.put_host("test", text)
        .map_err(|error| error.to_string())
}

/// Goal: each mistake is refused, and the message names element and remedy.
#[test]
fn mistakes_are_named() {
    let mistakes = [
        ("on = \"switch.3\"", "on = \"swich.3\"", "topology.card.3"),
        (
            "on = \"switch.3\"",
            "on = \"switch.9\"",
            "there is no switch.9",
        ),
        (
            "on = \"root_port.3\"",
            "on = \"socket.0\"",
            "must be a root_port or a switch",
        ),
        ("on = \"root_port.3\"", "on = \"switch.3\"", "in a circle"),
        ("[topology.gpu.7]", "[topology.gpu.8]", "numbered from 0"),
        ("[topology.gpu.7]", "[topology.gpus.7]", "did you mean gpu?"),
        ("like = \"gpu.0\"", "like = \"gpu.9\"", "an earlier element"),
        (
            "lanes = { value = 16",
            "lanes = { value = 15",
            "one of 1, 2, 4, 8, 16",
        ),
        ("acs = {", "asc = {", "did you mean acs"),
        (
            "origin = \"data sheet\"",
            "origin = \"rumour\"",
            "has no origin that is known",
        ),
    ];
    assert!(load(DGX).is_ok());
    for (right, wrong, message) in mistakes {
        assert!(DGX.contains(right), "{right}");
        let error = load(&DGX.replacen(right, wrong, 1)).expect_err(wrong);
        assert!(error.contains(message), "{wrong}: {error}");
    }
    let both = format!(
        "{DGX}\n[memory]\nremote_socket = {{ value = true, origin = \"guess\", source = \"x\" }}\n"
    );
    let error = load(&both).expect_err("two ways to say where memory is");
    assert!(error.contains("--memory dram1"), "{error}");
}

#[test]
fn a_run_may_change_elements() {
    let mut preset = load(DGX).expect("consistent");
    let before = preset.hash();
    preset.set("topology.switch.*.acs", "true").expect("a flag");
    preset.set("topology.gpu.3.read_ns", "450").expect("a time");
    preset.set("topology.socket_link.ns", "70").expect("a time");
    assert_ne!(preset.hash(), before);
    let topology = preset.topology.as_ref().expect("it has one");
    assert!(topology.switches.iter().all(|switch| switch.values.acs));
    let times = topology.gpus.iter().map(|gpu| gpu.values.read_ns);
    assert_eq!(times.filter(|ns| *ns == 450.0).count(), 1);
    for (key, value, message) in [
        ("topology.switch.0.acs", "1", "true or false"),
        ("topology.switch.9.acs", "true", "no such element"),
        (
            "topology.switch.0.acts",
            "true",
            "there are generation, lanes, ns",
        ),
        ("topology.switch", "true", "topology.KIND.NUMBER.VALUE"),
    ] {
        let error = preset.set(key, value).expect_err(key).to_string();
        assert!(error.contains(message), "{key}: {error}");
    }
    let mut plain = Preset::load("cx7-400g").expect("built in");
    let error = plain
        .set("topology.switch.0.acs", "true")
        .expect_err("none");
    assert!(error.to_string().contains("no topology"), "{error}");
}

/// Goal: distances have the words that people know. Method: the node of an AI cluster, with and
/// without ACS.
#[test]
fn distances_have_the_usual_words() {
    let mut preset = load(DGX).expect("consistent");
    let words = |preset: &Preset| {
        let topology = preset.topology.as_ref().expect("it has one");
        let all = topology.distances(0, &preset.pcie).into_iter();
        let named = all.map(|(target, distance)| (target, distance.between.name()));
        let of = |wanted: MemoryTarget| {
            let mut named = named.clone();
            named
                .find(|(target, _)| *target == wanted)
                .map(|(_, name)| name)
        };
        [0, 1, 7].map(|gpu| of(MemoryTarget::Gpu(gpu)).expect("a GPU"))
    };
    assert_eq!(words(&preset), ["PIX", "PHB", "SYS"]);
    preset.set("topology.switch.0.acs", "true").expect("a flag");
    assert_eq!(words(&preset), ["PHB", "PHB", "SYS"]);
    let topology = preset.topology.as_ref().expect("it has one");
    assert_eq!(
        topology.summary(),
        "2 socket, 8 root_port, 8 switch, 8 card, 8 gpu"
    );
    assert_eq!(topology.elements().len(), 34);
    assert!(topology.elements().iter().any(|id| id.kind == Kind::Gpu));
}

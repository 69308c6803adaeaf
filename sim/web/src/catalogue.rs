//! What there is to choose: cards, host profiles, parameters, and measured tables.

use ferroce_lab::reference::experiment::link_that_differs;
use ferroce_lab::reference::{Rows, Table, builtin, pairs};
use ferroce_model::preset::{Parameter, Preset, Range};
use ferroce_perf::json::parameter_value;
use ferroce_perf::options::preset as load;
use ferroce_perf::{Location, Service};
use serde_json::{Map, Value, json};

use crate::request::{Request, TESTS};

/// Returns everything that does not depend on a preset.
pub fn catalogue() -> Value {
    let presets = Preset::names().map(|name| {
        let preset = Preset::load(name);
        let about = preset.map(|preset| preset.about().to_owned());
        json!({ "name": name, "about": about.unwrap_or_default() })
    });
    let hosts =
        Preset::hosts().map(|name| json!({ "name": name, "about": Preset::about_host(name) }));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "tests": TESTS.map(|(name, ..)| name),
        "presets": presets.collect::<Value>(),
        "hosts": hosts.collect::<Value>(),
        "tables": tables(),
    })
}

/// Returns the parameters of the preset of a request, with its changes.
///
/// # Errors
/// The preset or the change that is wrong.
pub fn preset(request: &Request) -> Result<Value, String> {
    let preset = load(&request.preset, &request.set)?;
    let memories = preset.topology.as_deref().map(|topology| {
        let targets = topology.targets();
        targets
            .map(|target| Value::from(target.to_string()))
            .collect::<Value>()
    });
    Ok(json!({
        "name": preset.name(),
        "about": preset.about(),
        "hash": format!("{:016x}", preset.hash()),
        "parameters": preset.parameters().map(|one| parameter(&one)).collect::<Value>(),
        "memories": memories.unwrap_or_else(|| json!([])),
    }))
}

fn parameter(parameter: &Parameter<'_>) -> Value {
    let declaration = parameter.declaration;
    let mut value = json!({
        "key": parameter.key,
        "value": parameter_value(parameter.value),
        "unit": declaration.unit,
        "about": declaration.doc,
        "origin": parameter.origin.to_string(),
        "source": parameter.source,
        "stated_by": parameter.stated_by,
    });
    let (key, range) = permitted(declaration.range);
    value[key] = range;
    value
}

/// Returns the permitted values: `choices`, or the two ends of a `range`.
fn permitted(range: Range) -> (&'static str, Value) {
    match range {
        Range::Between(low, high) => ("range", json!([low, high])),
        Range::OneOf(choices) => ("choices", json!(choices)),
        Range::PowerOfTwo(low, high) => {
            let powers = (0..u32::BITS).map(|log| 1_u32 << log);
            let powers = powers.filter(|power| (low..=high).contains(power));
            ("choices", powers.collect::<Value>())
        }
        Range::Any => ("choices", json!([false, true])),
        Range::Names(names) => ("choices", json!(names)),
    }
}

/// Returns the measured tables that have a preset, with the request that repeats each.
fn tables() -> Value {
    let paired = pairs::PAIRS.iter().filter_map(|(name, pair)| {
        let preset = pair.ok()?;
        Some(
            builtin::find(name)
                .into_iter()
                .filter_map(move |table| described(&table, preset)),
        )
    });
    paired.flatten().collect()
}

fn described(table: &Table, preset: &str) -> Option<Value> {
    let kind = if table.is_latency() { "lat" } else { "bw" };
    let mut value = json!({
        "name": table.name,
        "test": format!("{}_{kind}", table.setup.verb.name()),
        "preset": preset,
        "nic": table.note("nic"),
        "command": table.note("command"),
        "points": points(table),
    });
    let (set, options) = repeated(table, preset)?;
    value["set"] = set;
    value["options"] = options.into();
    Some(value)
}

fn points(table: &Table) -> Value {
    match &table.rows {
        Rows::Bandwidth(rows) => rows
            .iter()
            .map(|row| {
                json!({
                    "bytes": row.bytes,
                    "average_gbps": row.average_gbps,
                    "message_rate_mpps": row.message_rate_mpps,
                })
            })
            .collect(),
        Rows::Latency(rows) => rows
            .iter()
            .map(|row| json!({ "bytes": row.bytes, "typical_us": row.value_us() }))
            .collect(),
    }
}

/// Returns changes and options that repeat a table, as `experiment::repeat` does. `None`: the model
/// does not have its transport service.
fn repeated(table: &Table, preset: &str) -> Option<(Value, Map<String, Value>)> {
    let setup = &table.setup;
    let preset = Preset::load(preset).ok()?;
    let rate = link_that_differs(setup, &preset);
    let set = rate.map(|gbps| json!([format!("mac.rate_gbps={gbps}")]));
    let mut options = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            options.insert(name.to_owned(), value);
        }
    };
    let service = Some(setup.service?).filter(|service| *service != Service::Rc);
    let of_bandwidth = |count: Option<u32>| count.filter(|_| !table.is_latency());
    let flag = |is_set: bool| is_set.then_some(Value::Bool(true));
    let memory = |name: &Option<String>| {
        let name = name.as_deref()?;
        let found = Location::new(preset.topology.as_deref(), name, 1);
        found.ok().map(|_| Value::from(name))
    };
    add("connection", service.map(|service| service.name().into()));
    add(
        "qps",
        Some(setup.qps).filter(|qps| *qps > 1).map(Value::from),
    );
    add("depth", of_bandwidth(setup.tx_depth).map(Value::from));
    add(
        "signal-every",
        of_bandwidth(setup.cq_moderation).map(Value::from),
    );
    add("inline", setup.max_inline_bytes.map(Value::from));
    add("mtu", setup.mtu_bytes.map(Value::from));
    add(
        "outstanding-reads",
        setup.outstanding_reads.map(Value::from),
    );
    add("bidirectional", flag(setup.bidirectional));
    add("switch", flag(setup.switched == Some(true)));
    add("direct", flag(setup.switched == Some(false)));
    add("memory", memory(&setup.memory.local));
    add("remote-memory", memory(&setup.memory.remote));
    add("relaxed-order", flag(setup.memory.relaxed_order));
    Some((set.unwrap_or_else(|| json!([])), options))
}

#[cfg(test)]
mod tests {
    use ferroce_lab::reference::experiment::repeat;

    use super::*;

    /// Goal: a curve of the page is measured as `ferroce compare` measures it. Method: the
    /// specification of each table's request is that of its repetition.
    #[test]
    fn a_table_is_repeated_as_by_the_comparison() {
        let all = tables();
        let all = all.as_array().expect("a list");
        assert!(all.len() > 30, "only {} tables", all.len());
        for described in all {
            let name = described["name"].as_str().expect("a name");
            let preset = described["preset"].as_str().expect("a name");
            let table = &builtin::find(name)[0];
            let loaded = Preset::load(preset).expect("built in");
            let mut expected = repeat(table, &loaded).expect("it can be repeated");
            let request = json!({
                "test": described["test"],
                "preset": preset,
                "set": described["set"],
                "options": described["options"],
                "all": true,
            });
            let request = Request::parse(request.as_object().expect("an object"));
            let (found, _) = request.and_then(|request| request.spec()).expect(name);
            // A table has not all sizes, and is run with fewer messages.
            expected.sizes.clone_from(&found.sizes);
            expected.all_sizes = found.all_sizes;
            expected.iterations = found.iterations;
            expected.qps = expected.qps.max(1);
            assert_eq!(found.preset.hash(), expected.preset.hash(), "{name}");
            expected.preset = found.preset.clone();
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{name}");
        }
    }

    #[test]
    fn permitted_values_are_choices_or_a_range() {
        let request = Request {
            preset: "cx5-100g@gpu-on-switch".into(),
            ..Request::default()
        };
        let found = preset(&request).expect("built in");
        let parameters = found["parameters"].as_array().expect("a list");
        let find = |key: &str| parameters.iter().find(|one| one["key"] == key).expect(key);
        assert_eq!(find("pcie.lanes")["choices"], json!([1, 2, 4, 8, 16]));
        assert_eq!(
            find("transport.path_mtu_bytes")["choices"],
            json!([256, 512, 1024, 2048, 4096])
        );
        assert_eq!(find("units.count")["range"], json!([1.0, 255.0]));
        assert_eq!(find("memory.ddio")["choices"], json!([false, true]));
        assert!(
            found["memories"]
                .as_array()
                .is_some_and(|all| all.contains(&json!("gpu0")))
        );
    }
}

//! A measurement that the page asks for: the test, preset and options of `ferroce perf`.

use ferroce_perf::{Operation, PerfSpec, Test, options};
use serde_json::{Map, Value};

use crate::options::{PerfOption, text};

/// Tests, by the names of perftest's programs without `ib_`.
pub const TESTS: [(&str, Operation, Test); 8] = [
    ("write_bw", Operation::Write, Test::Bandwidth),
    ("read_bw", Operation::Read, Test::Bandwidth),
    ("send_bw", Operation::Send, Test::Bandwidth),
    ("atomic_bw", Operation::FetchAdd, Test::Bandwidth),
    ("write_lat", Operation::Write, Test::Latency),
    ("read_lat", Operation::Read, Test::Latency),
    ("send_lat", Operation::Send, Test::Latency),
    ("atomic_lat", Operation::FetchAdd, Test::Latency),
];

/// A request. Its keys in JSON are the names of the fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// Name of the test.
    pub test: String,
    /// Card, and with @ its hosts.
    pub preset: String,
    /// Changes of the preset: `KEY=VALUE`.
    pub set: Vec<String>,
    /// Options by name; flags are `true`.
    pub options: Map<String, Value>,
    /// True for a point of `--all`.
    pub all: bool,
    /// Bytes of a message.
    pub size: Option<u32>,
    /// The sweep that the command line has: key and values.
    pub sweep: Option<(String, Vec<String>)>,
    /// A point of a sweep: key and value.
    pub point: Option<(String, String)>,
}

impl Request {
    /// Parses a request.
    ///
    /// # Errors
    /// The key that is wrong.
    pub fn parse(document: &Map<String, Value>) -> Result<Self, String> {
        let mut request = Self::default();
        for (key, value) in document {
            let wrong = || format!("{key}: {value} is no value of it");
            request.read(key, value).ok_or_else(wrong)?;
        }
        Ok(request)
    }

    fn read(&mut self, key: &str, value: &Value) -> Option<()> {
        match key {
            "ask" => {}
            "test" => self.test = value.as_str()?.to_owned(),
            "preset" => self.preset = value.as_str()?.to_owned(),
            "set" => self.set = texts(value)?,
            "options" => self.options = value.as_object()?.clone(),
            "all" => self.all = value.as_bool()?,
            "size" => self.size = Some(value.as_u64()?.try_into().ok()?),
            "sweep" => self.sweep = Some((value["key"].as_str()?.into(), texts(&value["values"])?)),
            "point" => self.point = Some((value[0].as_str()?.into(), value[1].as_str()?.into())),
            _ => return None,
        }
        Some(())
    }

    /// Returns the specification of this point, and its size.
    ///
    /// # Errors
    /// The option that is wrong.
    pub fn spec(&self) -> Result<(PerfSpec, u32), String> {
        let mut request = self.clone();
        if let Some((key, value)) = &self.point {
            request.apply(key, value)?;
        }
        let preset = options::preset(&request.preset, &request.set)?;
        let test = TESTS.iter().find(|(name, ..)| *name == request.test);
        let Some((_, operation, test)) = test else {
            return Err(format!("no test {}", request.test));
        };
        let mut spec = PerfSpec::new(preset, *operation, *test);
        for (name, value) in &request.options {
            PerfOption::find(name)?.apply(&mut spec, value)?;
        }
        if request.all && !matches!(operation, Operation::FetchAdd) {
            spec = spec.all_sizes();
        } else if let Some(size) = request.size {
            spec.sizes = vec![size];
        }
        let size = request.size.unwrap_or(spec.sizes[0]);
        Ok((spec, size))
    }

    /// Sets the swept key to a value, as `--sweep` does.
    fn apply(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "size" => self.size = Some(options::bytes(value)?),
            "preset" => value.clone_into(&mut self.preset),
            _ if key.contains('.') => self.set.push(format!("{key}={value}")),
            _ => drop(self.options.insert(key.to_owned(), value.into())),
        }
        Ok(())
    }

    /// Returns the words of the command line, from the test on: `write_bw --preset …`.
    pub fn words(&self) -> Result<Vec<String>, String> {
        let mut words = vec![self.test.clone(), "--preset".into(), self.preset.clone()];
        for change in &self.set {
            words.extend(["--set".into(), change.clone()]);
        }
        if self.all {
            words.push("--all".into());
        } else if let Some(size) = self.size {
            words.extend(["--size".into(), size.to_string()]);
        }
        for (name, value) in &self.options {
            words.extend(PerfOption::find(name)?.words(value));
        }
        if let Some((key, values)) = &self.sweep {
            words.extend(["--sweep".into(), format!("{key}={}", values.join(","))]);
        }
        Ok(words)
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    Some(value.as_array()?.iter().map(text).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(document: &Value) -> Result<Request, String> {
        Request::parse(document.as_object().expect("an object"))
    }

    #[test]
    fn a_request_becomes_a_specification_and_a_command() {
        let document = json!({
            "test": "read_bw",
            "preset": "cx5-100g",
            "set": ["pcie.lanes=8"],
            "size": 4096,
            "options": { "depth": 32, "bidirectional": true },
            "sweep": { "key": "qps", "values": [1, 4] },
            "point": ["qps", "4"],
        });
        let request = request(&document).expect("legal");
        let (spec, size) = request.spec().expect("legal");
        assert_eq!((spec.qps, spec.depth, size), (4, Some(32), 4096));
        assert_eq!((spec.preset.pcie.lanes, spec.bidirectional), (8, true));
        let expected = "read_bw --preset cx5-100g --set pcie.lanes=8 --size 4096 --depth 32 \
                        --bidirectional --sweep qps=1,4";
        assert_eq!(request.words().expect("legal").join(" "), expected);
    }

    fn with(options: Value) -> Value {
        let mut request = json!({ "test": "write_bw", "preset": "cx5-100g" });
        request["options"] = options;
        request
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |document: Value, what: &str| {
            let found = request(&document).and_then(|request| request.spec().map(|_| ()));
            let error = found.expect_err(what);
            assert!(error.contains(what), "{error}");
        };
        refused(json!({ "tset": "write_bw" }), "tset");
        refused(
            json!({ "test": "write", "preset": "cx5-100g" }),
            "no test write",
        );
        refused(with(json!({ "qp": 1 })), "--qp: the page has connection");
        refused(with(json!({ "qps": "x" })), "--qps: x is no value of it");
        refused(with(json!({ "iterations": "many" })), "--iterations many");
        refused(
            with(json!({ "memory": "gpu0" })),
            "--memory gpu0: the preset has no topology",
        );
    }
}

//! The options of `ferroce perf` that the page has: names as in the command, values as in JSON.

use ferroce_perf::options::{bytes, iterations};
use ferroce_perf::{Location, PageSize, PerfSpec, Service};
use serde_json::Value;

/// Changes a specification as an option does.
type Apply = fn(&mut PerfSpec, &Value) -> Result<(), String>;

/// An option.
pub struct PerfOption {
    /// Its name, without the hyphens.
    pub name: &'static str,
    /// Its effect.
    apply: Apply,
}

/// Message about a value of the wrong kind; the name of the option is put before it.
const WRONG: &str = "is no value of it";

const SERVICES: [Service; 3] = [Service::Rc, Service::Uc, Service::Ud];
const PAGES: [(&str, PageSize); 4] = [
    ("4K", PageSize::Small),
    ("2M", PageSize::Huge2M),
    ("1G", PageSize::Huge1G),
    ("physical", PageSize::Physical),
];

/// All options.
pub const ALL: &[PerfOption] = &[
    option("connection", |spec, value| {
        let service = SERVICES.iter().find(|one| value == one.name());
        spec.service = *service.ok_or(WRONG)?;
        Ok(())
    }),
    option("iterations", |spec, value| {
        spec.iterations = iterations(&text(value), spec.iterations)?;
        Ok(())
    }),
    option("qps", |spec, value| set(&mut spec.qps, count(value))),
    option("mrs", |spec, value| {
        set(&mut spec.memory_regions, count(value))
    }),
    option("page-size", |spec, value| {
        let pages = PAGES.iter().find(|(name, _)| value == name);
        set(&mut spec.page_size, pages.map(|(_, pages)| *pages))
    }),
    option("threads", |spec, value| {
        set(&mut spec.threads, count(value))
    }),
    option("depth", |spec, value| some(&mut spec.depth, count(value))),
    option("rx-depth", |spec, value| {
        some(&mut spec.receive_depth, count(value))
    }),
    option("inline", |spec, value| {
        some(&mut spec.inline_bytes, count(value))
    }),
    option("sge", |spec, value| set(&mut spec.segments, count(value))),
    option("align", |spec, value| {
        spec.offset_bytes = bytes(&text(value))?;
        Ok(())
    }),
    option("signal-every", |spec, value| {
        some(&mut spec.signal_every, count(value))
    }),
    option("events", |spec, value| {
        set(&mut spec.events, value.as_bool())
    }),
    option("bidirectional", |spec, value| {
        set(&mut spec.bidirectional, value.as_bool())
    }),
    option("mtu", |spec, value| some(&mut spec.mtu_bytes, count(value))),
    option("outstanding-reads", |spec, value| {
        some(&mut spec.outstanding_reads, count(value))
    }),
    option("direct", |spec, _| some(&mut spec.switched, Some(false))),
    option("switch", |spec, _| some(&mut spec.switched, Some(true))),
    option("memory", |spec, value| {
        spec.placement.local = location(spec, value)?;
        Ok(())
    }),
    option("remote-memory", |spec, value| {
        spec.placement.remote = location(spec, value)?;
        Ok(())
    }),
    option("relaxed-order", |spec, value| {
        set(&mut spec.placement.relaxed_order, value.as_bool())
    }),
    option("seed", |spec, value| {
        set(&mut spec.seed, count(value).map(u64::from))
    }),
    option("fast-forward", |spec, value| {
        set(&mut spec.fast_forward, value.as_bool())
    }),
];

const fn option(name: &'static str, apply: Apply) -> PerfOption {
    PerfOption { name, apply }
}

impl PerfOption {
    /// Finds an option.
    ///
    /// # Errors
    /// The names of all.
    pub fn find(name: &str) -> Result<&'static Self, String> {
        let found = ALL.iter().find(|option| option.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|option| option.name).collect();
            format!("--{name}: the page has {}", names.join(", "))
        })
    }

    /// Changes a specification.
    ///
    /// # Errors
    /// The option, and what is wrong with its value.
    pub fn apply(&self, spec: &mut PerfSpec, value: &Value) -> Result<(), String> {
        let name = self.name;
        (self.apply)(spec, value).map_err(|error| match error.as_str() {
            WRONG => format!("--{name}: {} {WRONG}", text(value)),
            complete if complete.starts_with("--") => error,
            rest => format!("--{name} {rest}"),
        })
    }

    /// Returns it as words of a command line.
    pub fn words(&self, value: &Value) -> Vec<String> {
        let name = format!("--{}", self.name);
        match value {
            Value::Bool(_) => vec![name],
            _ => vec![name, text(value)],
        }
    }
}

/// Returns a value as a command line has it.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns a count: a number, or its text as a sweep has it.
fn count(value: &Value) -> Option<u32> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64()?.try_into().ok(),
    }
}

fn set<T>(place: &mut T, value: Option<T>) -> Result<(), String> {
    *place = value.ok_or(WRONG)?;
    Ok(())
}

fn some<T>(place: &mut Option<T>, value: Option<T>) -> Result<(), String> {
    *place = Some(value.ok_or(WRONG)?);
    Ok(())
}

fn location(spec: &PerfSpec, value: &Value) -> Result<Location, String> {
    Location::new(spec.preset.topology.as_deref(), &text(value), 1)
}

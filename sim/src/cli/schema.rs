//! `ferroce schema`: the keys of the documents that `--json` writes.

use clap::Args;

/// The schemas by command, and that of `--shard`; each is a file of `docs/schema`.
const SCHEMAS: &[(&str, &str)] = &[
    ("cm", include_str!("../../../docs/schema/cm.json")),
    ("compare", include_str!("../../../docs/schema/compare.json")),
    (
        "counters",
        include_str!("../../../docs/schema/counters.json"),
    ),
    ("devices", include_str!("../../../docs/schema/devices.json")),
    ("perf", include_str!("../../../docs/schema/perf.json")),
    (
        "perftest",
        include_str!("../../../docs/schema/perftest.json"),
    ),
    (
        "preset diff",
        include_str!("../../../docs/schema/preset-diff.json"),
    ),
    (
        "preset list",
        include_str!("../../../docs/schema/preset-list.json"),
    ),
    (
        "preset show",
        include_str!("../../../docs/schema/preset-show.json"),
    ),
    (
        "reg dump",
        include_str!("../../../docs/schema/reg-dump.json"),
    ),
    ("reg get", include_str!("../../../docs/schema/reg-get.json")),
    (
        "reg list",
        include_str!("../../../docs/schema/reg-list.json"),
    ),
    (
        "reg watch",
        include_str!("../../../docs/schema/reg-watch.json"),
    ),
    (
        "selftest",
        include_str!("../../../docs/schema/selftest.json"),
    ),
    ("shard", include_str!("../../../docs/schema/shard.json")),
    ("sim", include_str!("../../../docs/schema/sim.json")),
    (
        "trace diff",
        include_str!("../../../docs/schema/trace-diff.json"),
    ),
    (
        "trace show",
        include_str!("../../../docs/schema/trace-show.json"),
    ),
    (
        "validate",
        include_str!("../../../docs/schema/validate.json"),
    ),
    (
        "wire check",
        include_str!("../../../docs/schema/wire-check.json"),
    ),
];

/// Print the JSON Schema of what a command writes with --json; without one, list the commands.
/// `shard` is what --shard writes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce schema
  ferroce schema perf > perf.schema.json
  ferroce schema preset show")]
pub struct Schema {
    /// The command, in one or two words
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Schema {
    /// Prints it.
    pub fn execute(self) -> Result<(), String> {
        let command = self.command.join(" ");
        let names = SCHEMAS.iter().map(|(name, _)| *name);
        if command.is_empty() {
            names.for_each(|name| println!("{name}"));
            return Ok(());
        }
        let found = SCHEMAS.iter().find(|(name, _)| *name == command);
        let (_, text) = found.ok_or_else(|| {
            let names: Vec<_> = names.collect();
            format!("{command} has no schema; these have: {}", names.join(", "))
        })?;
        print!("{text}");
        Ok(())
    }
}

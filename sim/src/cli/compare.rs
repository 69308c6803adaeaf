//! `ferroce compare`: measured tables next to the model.

use ferroce_lab::calibrate::{self, Calibration, Machine};
use ferroce_lab::reference::comparison::{self, Comparison, Line};
use ferroce_lab::reference::experiment::Harness;
use ferroce_lab::reference::nearest::Nearest;
use ferroce_lab::reference::{Table, builtin, pairs};
use ferroce_lab::validate::parallel;
use ferroce_model::preset::Preset;
use ferroce_perf::Location;
use serde_json::{Value, json};

use super::json::JsonOption;
use super::measured::{table_of_file, tables_of_file};
use super::progress::Bar;
use super::shard::{ShardOption, Work};

/// The value of `--calibrate-host` for the tables that are compared.
const MEASURED: &str = "measured";

/// Runs the model as a table was measured, and prints both with their error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferroce compare --list
  ferroce compare cx3-40g@xeon-qdr cx3_qdr40_ib_write_bw
  ferroce compare cx5-100g --measured my_ib_write_bw.txt --calibrate-host measured
  ferroce compare --all
  ferroce compare --all --shard 1/8 > 1.json")]
pub struct Compare {
    /// Preset, perhaps with a host profile: `cx5-100g`, `cx5-100g@k8s-1ghz`
    #[arg(required_unless_present_any = ["list", "all"])]
    preset: Option<String>,
    /// Names of built-in tables: `cx3_qdr40_ib_write_bw`
    tables: Vec<String>,
    /// A measured table: the output of perftest, its JSON, or CSV with its columns
    #[arg(long, value_name = "FILE")]
    measured: Vec<String>,
    /// Fit the host's cost of a post to the smallest messages of a measured file first;
    /// `measured`: of the first table of a bandwidth that is compared, whose rows then do not
    /// count as predicted
    #[arg(long, value_name = "FILE|measured")]
    calibrate_host: Option<String>,
    /// Memory in which the client's buffers lay, of the host profile's topology: `gpu0`, `dram1`;
    /// the default is what the command of the table says
    #[arg(long, value_name = "MEMORY")]
    memory: Option<String>,
    /// Memory in which the server's buffers lay
    #[arg(long, value_name = "MEMORY")]
    remote_memory: Option<String>,
    /// Register regions with the right that writes to them pass each other, as perftest does from
    /// version 4.5 on
    #[arg(long)]
    relaxed_order: bool,
    #[command(flatten)]
    pub shard: ShardOption,
    #[command(flatten)]
    json: JsonOption,
    /// Lists the built-in tables
    #[arg(long)]
    list: bool,
    /// Compares every built-in table with its preset, one line for each
    #[arg(long, conflicts_with_all = ["preset", "tables", "measured", "list"])]
    all: bool,
}

impl Compare {
    pub fn execute(self) -> Result<(), String> {
        if !self.all {
            self.shard.refuse("only --all has parts")?;
        }
        let prints_text = self.shard.prepare(&self.json)?;
        if self.list {
            if prints_text {
                list();
            }
            return self.json.write("compare", tables_json);
        }
        if self.all {
            return self.all(prints_text);
        }
        let name = self.preset.as_deref().unwrap_or_default();
        let preset = Preset::load(name).map_err(|error| error.to_string())?;
        for (option, memory) in [
            ("--memory", &self.memory),
            ("--remote-memory", &self.remote_memory),
        ] {
            if let Some(memory) = memory {
                Location::new(preset.topology.as_deref(), memory, 1)
                    .map_err(|error| format!("{option} {error}"))?;
            }
        }
        let tables = self.tables()?;
        let (preset, calibration) = self.calibrated(preset, &tables)?;
        let bar = Bar::new("tables", tables.len());
        let comparisons = parallel::map(&tables, |table| {
            let compared = comparison::compare(&Harness, &preset, table);
            bar.advance();
            compared
        });
        bar.clear();
        let mut comparisons = comparisons.into_iter().collect::<Result<Vec<_>, _>>()?;
        for (comparison, table) in comparisons.iter_mut().zip(&tables) {
            comparison.notes.extend(other_card(name, &table.name));
            self.note_host(&preset, calibration.as_ref(), comparison);
            if builtin::find(&table.name).is_empty() {
                let nearest = Nearest::of(table);
                comparison
                    .notes
                    .extend(nearest.map(|nearest| nearest.text()));
            }
        }
        if prints_text {
            let texts: Vec<_> = comparisons.iter().map(Comparison::text).collect();
            print!("{}", texts.join("\n"));
        }
        let comparisons = comparisons.iter().map(Comparison::json);
        self.json
            .write("compare", || document(comparisons.collect(), &[]))
    }

    /// Returns the preset with the host of a measured table, if one is given, and the result of
    /// that calibration.
    fn calibrated(
        &self,
        preset: Preset,
        tables: &[Table],
    ) -> Result<(Preset, Option<Calibration>), String> {
        let table = match self.calibrate_host.as_deref() {
            None => return Ok((preset, None)),
            Some(MEASURED) => {
                let mut of_bandwidth = tables.iter().filter(|table| !table.is_latency());
                of_bandwidth.next().cloned().ok_or(
                    "--calibrate-host measured: no table of a bandwidth is compared; a latency \
                     does not separate host, PCIe and card",
                )?
            }
            Some(file) => table_of_file(file)?,
        };
        let (preset, calibration) = calibrate::calibrate(&Harness, &preset, &table)?;
        Ok((preset, Some(calibration)))
    }

    /// Adds a note on the host's calibration, and removes the sizes that it was fitted to.
    fn note_host(
        &self,
        preset: &Preset,
        calibration: Option<&Calibration>,
        comparison: &mut Comparison,
    ) {
        let notes = &mut comparison.notes;
        let Some(calibration) = calibration else {
            let is_own = builtin::find(&comparison.table).is_empty();
            let machine = if is_own {
                Machine::OfUser
            } else {
                Machine::OfProfile
            };
            notes.extend(calibrate::uncalibrated(preset, machine));
            return;
        };
        notes.extend(calibration.text().lines().map(str::to_owned));
        let is_own = self.calibrate_host.as_deref() == Some(MEASURED);
        if is_own && comparison.table == calibration.table {
            let fitted = |bytes: &u64| calibration.sizes.contains(bytes);
            comparison.lines.retain(|line| !fitted(&line.bytes));
            notes.push("these sizes are fitted, not predicted, and are left out".to_owned());
        }
    }

    /// Compares every table that has a preset.
    fn all(&self, prints_text: bool) -> Result<(), String> {
        let (mut work, mut left_out) = (Vec::new(), Vec::new());
        for (table, pair) in pairs::PAIRS {
            match pair {
                Ok(name) => {
                    let preset = Preset::load(name).map_err(|error| error.to_string())?;
                    let tables = builtin::find(table).into_iter();
                    work.extend(tables.map(|table| (preset.clone(), table)));
                }
                Err(reason) => left_out.push((*table, *reason)),
            }
        }
        let names = work
            .iter()
            .map(|(preset, table)| (preset.name(), preset.hash(), &table.name));
        let inputs: Vec<_> = names.collect();
        let pieces = Work {
            command: "compare",
            pieces: work.len(),
            inputs: &inputs,
        };
        let results = self.shard.results(&pieces, |indices| {
            let bar = Bar::new("tables", indices.len());
            let results = parallel::map(indices, |&index| {
                let (preset, table) = &work[index];
                let compared = comparison::compare(&Harness, preset, table);
                bar.advance();
                compared.map(|it| json!({ "line": line_of(&it), "comparison": it.json() }))
            });
            bar.clear();
            results.into_iter().collect()
        })?;
        let Some(results) = results else {
            return Ok(());
        };
        if prints_text {
            print_all(&results, &left_out);
        }
        let comparisons = results.into_iter();
        let comparisons = comparisons.map(|mut result| result["comparison"].take());
        self.json
            .write("compare", || document(comparisons.collect(), &left_out))
    }

    fn tables(&self) -> Result<Vec<Table>, String> {
        let mut tables = Vec::new();
        for name in &self.tables {
            let found = builtin::find(name);
            if found.is_empty() {
                return Err(format!(
                    "no table is called {name}; `ferroce compare --list` names them, and \
                     `--measured {name}` reads a file"
                ));
            }
            tables.extend(found);
        }
        for file in &self.measured {
            tables.extend(tables_of_file(file)?);
        }
        for table in &mut tables {
            let memory = &mut table.setup.memory;
            for (given, place) in [
                (&self.memory, &mut memory.local),
                (&self.remote_memory, &mut memory.remote),
            ] {
                if given.is_some() {
                    place.clone_from(given);
                }
            }
            memory.relaxed_order |= self.relaxed_order;
        }
        if tables.is_empty() {
            return Err("no table to compare with: name one, or give --measured FILE".to_owned());
        }
        Ok(tables)
    }
}

/// Returns a note if a built-in table was measured on another card than the preset's. A preset of
/// the user may describe any card.
fn other_card(preset: &str, table: &str) -> Option<String> {
    let card = |name: &str| name.split('@').next().unwrap_or_default().to_owned();
    let is_own = preset.contains(['/', '.']);
    let (_, pair) = pairs::PAIRS.iter().find(|(name, _)| *name == table)?;
    let measured = pair
        .ok()
        .filter(|name| !is_own && card(name) != card(preset))?;
    Some(format!(
        "another card: {table} was measured on that of preset {measured}, not on {}",
        card(preset)
    ))
}

/// Prints the errors of the compared tables, and the reasons why others were not compared.
fn print_all(results: &[Value], left_out: &[(&str, &str)]) {
    for (table, reason) in left_out {
        println!("{table:<44} not compared: {reason}");
    }
    println!(
        "{:<44} {:<24} {:>5} {:>8} {:>8}  at bytes",
        "table", "preset", "sizes", "median", "largest"
    );
    for result in results {
        println!("{}", result["line"].as_str().unwrap_or_default());
    }
}

/// Returns the document: the compared tables, and others with the reason.
fn document(comparisons: Value, left_out: &[(&str, &str)]) -> Value {
    let left_out = left_out.iter();
    let left_out = left_out.map(|(table, reason)| json!({ "table": table, "reason": reason }));
    json!({
        "comparisons": comparisons,
        "not_compared": left_out.collect::<Value>(),
    })
}

/// Returns one line: table, preset, number of sizes, median of the errors' magnitudes, and the
/// largest error with its sign and size.
fn line_of(comparison: &Comparison) -> String {
    let preset = comparison.preset.name();
    let (median, _) = comparison.summary();
    let magnitude = |line: &&Line| line.error_percent().abs();
    let worst = comparison.lines.iter();
    let worst = worst.max_by(|a, b| magnitude(a).total_cmp(&magnitude(b)));
    let (largest, bytes) = worst.map_or((0.0, 0), |line| (line.error_percent(), line.bytes));
    let (table, count) = (&comparison.table, comparison.lines.len());
    format!("{table:<44} {preset:<24} {count:>5} {median:>6.1} % {largest:>+6.1} %  {bytes}")
}

fn list() {
    for table in builtin::tables() {
        let kind = if table.is_latency() { "lat" } else { "bw" };
        let nic = table.note("nic").unwrap_or("");
        println!("{:<44} {:<6} {kind:<3} {nic}", table.name, table.setup.verb);
    }
}

fn tables_json() -> Value {
    let tables = builtin::tables().into_iter().map(|table| {
        json!({
            "name": table.name,
            "verb": table.setup.verb.to_string(),
            "kind": if table.is_latency() { "latency" } else { "bandwidth" },
            "nic": table.note("nic"),
        })
    });
    json!({ "tables": tables.collect::<Value>() })
}

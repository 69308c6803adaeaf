//! `ferroce counters`: the counters of the NICs of running programs.

pub mod function;

use std::fmt::Write as _;
use std::io::{Write as _, stdout};
use std::thread;
use std::time::Duration;

use clap::Args;
use ferroce_embed::fabric::registry::Registry;
use ferroce_embed::runtime_directory;
use ferroce_spec::counter::COUNTERS;

use self::function::{Function, result};
use super::json::{JsonOption, document};

/// Show the counters of the NIC functions of running programs.
///
/// A program updates its counters every few hundred runs of its NIC, and when it becomes idle.
///
/// Those of uplink_... are of its wire out of this machine (see `ferroce run --port`), those of
/// fault_... of injected packet faults (see `ferroce run --faults`).
///
/// The last two are not the NIC's: how often the thread that serves a program while it does not
/// poll got a processor more than 100 ms too late (the machine is overloaded, or the program was
/// stopped; peers then see timeouts), and the longest time in microseconds that it ever waited.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce counters --watch 2             a table each two seconds
  ferroce counters --json | jq '.functions[0].hw_counters'
  ferroce counters --prometheus > /var/lib/node_exporter/ferroce.prom")]
pub struct Counters {
    /// Only those of this process
    #[arg(long)]
    pid: Option<u32>,

    /// Also counters that are zero
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    json: JsonOption,

    /// Print the text format of Prometheus, for the textfile collector of node_exporter
    #[arg(long, conflicts_with_all = ["all", "json"])]
    prometheus: bool,

    /// Print them again each second, or each SECONDS, until interrupted; with --json a line each
    /// time
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = interval)]
    watch: Option<Duration>,
}

/// Parses the time between two tables.
pub fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|interval| !interval.is_zero())
        .ok_or_else(|| "not above zero".to_owned())
}

impl Counters {
    /// Prints them.
    pub fn execute(self) -> Result<(), String> {
        let directory = runtime_directory().map_err(|error| error.to_string())?;
        let registry = Registry::open(&directory).map_err(|error| error.to_string())?;
        loop {
            let functions = self.read(registry);
            if functions.is_empty() && self.watch.is_none() && !self.prometheus {
                return Err(match self.pid {
                    Some(pid) => format!("process {pid} does not use the device"),
                    None => "no program uses the device now".to_owned(),
                });
            }
            self.print(&functions)?;
            match self.watch {
                // A fixed wait: the user has chosen this interval.
                Some(interval) => thread::sleep(interval),
                None => return Ok(()),
            }
        }
    }

    fn read(&self, registry: &Registry) -> Vec<Function> {
        let mut occupants = registry.occupants();
        occupants.retain(|occupant| self.pid.is_none_or(|pid| pid == occupant.pid));
        let read = |occupant| Function::read(registry, occupant);
        occupants.iter().map(read).collect()
    }

    fn print(&self, functions: &[Function]) -> Result<(), String> {
        let result = || result(functions);
        let is_line_each_time = self.watch.is_some() && !self.json.prints_text();
        let text = match (is_line_each_time, self.json.prints_text()) {
            (true, _) => format!("{}\n", document("counters", result())),
            (false, true) => self.text(functions),
            (false, false) => String::new(),
        };
        let mut output = stdout().lock();
        let written = output.write_all(text.as_bytes());
        written
            .and_then(|()| output.flush())
            .map_err(|error| error.to_string())?;
        if is_line_each_time {
            Ok(())
        } else {
            self.json.write("counters", result)
        }
    }

    fn text(&self, functions: &[Function]) -> String {
        if self.prometheus {
            return prometheus(functions);
        }
        let mut text = String::new();
        for function in functions {
            text += &function.text(self.all);
        }
        text
    }
}

/// Returns the counters in the text format of Prometheus, version 0.0.4: all lines of a counter are
/// adjacent. Functions of one device in one process have the same labels, and share one line.
fn prometheus(functions: &[Function]) -> String {
    let mut text = String::new();
    let Some(first) = functions.first() else {
        return text;
    };
    let series = by_labels(functions);
    for (index, (name, _)) in first.counters.iter().enumerate() {
        let row = COUNTERS.iter().find(|row| row.name == *name);
        let is_gauge = *name == "max_late_us";
        let kind = if is_gauge { "gauge" } else { "counter" };
        // Writing to a string does not fail.
        if let Some(row) = row {
            let _ = writeln!(text, "# HELP ferroce_{name} {}", row.meaning);
        }
        let _ = writeln!(text, "# TYPE ferroce_{name} {kind}");
        for (labels, functions) in &series {
            let values = functions.iter().map(|function| function.value(index));
            let value: u64 = if is_gauge {
                values.max().unwrap_or(0)
            } else {
                values.sum()
            };
            let _ = writeln!(text, "ferroce_{name}{{{labels}}} {value}");
        }
    }
    text
}

/// Groups the functions by their labels, in the order of first occurrence.
fn by_labels(functions: &[Function]) -> Vec<(String, Vec<&Function>)> {
    let mut series: Vec<(String, Vec<&Function>)> = Vec::new();
    for function in functions {
        let labels = labels_of(function);
        match series.iter_mut().find(|(known, _)| *known == labels) {
            Some((_, same)) => same.push(function),
            None => series.push((labels, vec![function])),
        }
    }
    series
}

fn labels_of(function: &Function) -> String {
    let labels = [
        ("device", function.device.clone()),
        ("host", function.host.clone()),
        ("pid", function.pid.to_string()),
        ("program", function.program.clone()),
    ];
    let labels = labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(&value)));
    labels.join(",")
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(program: &str) -> Function {
        function::example(
            program,
            &[("tx_frames", 3), ("tx_bytes", 400), ("max_late_us", 0)],
        )
    }

    #[test]
    fn prometheus_has_a_line_for_each_function() {
        let text = prometheus(&[function("a"), function("b\"c")]);
        let labels = "device=\"ferroce0\",host=\"a\",pid=\"7\",program";
        let expected = format!(
            "# HELP ferroce_tx_frames Frames sent.\n# TYPE ferroce_tx_frames counter\n\
             ferroce_tx_frames{{{labels}=\"a\"}} 3\nferroce_tx_frames{{{labels}=\"b\\\"c\"}} 3\n"
        );
        assert!(text.starts_with(&expected), "{text}");
        assert!(
            text.contains("# TYPE ferroce_max_late_us gauge\n"),
            "{text}"
        );
        assert_eq!(prometheus(&[]), "");
        let same = prometheus(&[function("a"), function("a")]);
        assert!(
            same.contains(&format!("\nferroce_tx_frames{{{labels}=\"a\"}} 6\n# ")),
            "{same}"
        );
    }

    #[test]
    fn an_interval_is_above_zero() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "x", "1e300"] {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}

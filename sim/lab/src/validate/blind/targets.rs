//! `targets.csv` of a blind folder: the columns of `validation_targets.csv`, and the command that
//! measures each target.

use ferroce_perf::{PerfSpec, Test, Topology};

use super::{CommandLine, Folder};
use crate::reference::TableError;
use crate::reference::csv::{Csv, Row};
use crate::validate::plan::{Expected, Figure};
use crate::validate::target::Target;

/// A target with its run.
#[derive(Debug)]
pub struct BlindTarget {
    pub(super) target: Target,
    pub(super) spec: PerfSpec,
    pub(super) figure: Figure,
    pub(super) expected: Expected,
}

impl BlindTarget {
    /// Returns the number of hosts whose rates the harness adds up.
    pub(super) fn hosts(&self) -> u32 {
        match self.spec.topology {
            Topology::AllToAll { hosts, .. }
            | Topology::Flows { hosts, .. }
            | Topology::Clients(hosts) => hosts,
            Topology::Pair | Topology::Loopback => 1,
        }
    }
}

/// Permitted columns; the columns in [`NEEDED`] are mandatory.
const COLUMNS: [&str; 14] = [
    "id",
    "preset",
    "metric",
    "condition",
    "low",
    "reference",
    "high",
    "unit",
    "tolerance",
    "data_file",
    "test",
    "sizes",
    "options",
    "statistic",
];
const NEEDED: [&str; 4] = ["id", "preset", "test", "statistic"];

/// A figure of a run, with its name in the file.
struct StatisticName {
    name: &'static str,
    figure: Figure,
    test: Test,
    unit: &'static str,
    /// Minimum number of sizes.
    sizes: usize,
}

const fn statistic(
    name: &'static str,
    figure: Figure,
    test: Test,
    unit: &'static str,
    sizes: usize,
) -> StatisticName {
    StatisticName {
        name,
        figure,
        test,
        unit,
        sizes,
    }
}

const STATISTICS: [StatisticName; 8] = [
    statistic("typical", Figure::Typical, Test::Latency, "us", 1),
    statistic("mean", Figure::Mean, Test::Latency, "us", 1),
    statistic("tail", Figure::Tail, Test::Latency, "ratio", 1),
    statistic("step", Figure::Step, Test::Latency, "us", 2),
    statistic("goodput", Figure::Goodput, Test::Bandwidth, "Gb/s", 1),
    statistic("rate", Figure::Rate, Test::Bandwidth, "Mpps", 1),
    statistic("loop", Figure::LoopTime, Test::Bandwidth, "us", 1),
    statistic("knee", Figure::KneeBytes, Test::Bandwidth, "bytes", 3),
];

/// Returns the targets in `text`.
pub(super) fn parse(
    text: &str,
    folder: &Folder,
    command_line: CommandLine<'_>,
) -> Result<Vec<BlindTarget>, TableError> {
    let csv = Csv::parse(text)?;
    check_columns(&csv, text)?;
    let mut targets: Vec<BlindTarget> = Vec::new();
    for row in &csv.rows {
        let target = target(&csv, row, folder, command_line)?;
        let id = &target.target.id;
        if id.is_empty() || targets.iter().any(|other| other.target.id == *id) {
            let problem = format!("id `{id}`");
            return Err(TableError::new(
                row.line,
                problem,
                "each target has another one",
            ));
        }
        targets.push(target);
    }
    if targets.is_empty() {
        let lines = text.lines().count().max(1);
        let remedy = "a line for each target is expected below the names of the columns";
        return Err(TableError::new(lines, "no target", remedy));
    }
    Ok(targets)
}

fn check_columns(csv: &Csv, text: &str) -> Result<(), TableError> {
    let is_header = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
    let line = text
        .lines()
        .position(is_header)
        .map_or(1, |index| index + 1);
    for column in &csv.columns {
        if !COLUMNS.contains(&column.as_str()) {
            let remedy = format!("the columns are {}", COLUMNS.join(", "));
            return Err(TableError::new(line, format!("column `{column}`"), remedy));
        }
    }
    for column in NEEDED {
        if csv.column(column).is_none() {
            let remedy = format!("{} are needed", NEEDED.join(", "));
            return Err(TableError::new(
                line,
                format!("no column `{column}`"),
                remedy,
            ));
        }
    }
    Ok(())
}

fn target(
    csv: &Csv,
    row: &Row,
    folder: &Folder,
    command_line: CommandLine<'_>,
) -> Result<BlindTarget, TableError> {
    let text = |column| csv.text(row, column).to_owned();
    let test = text("test");
    let test = test.strip_prefix("ib_").unwrap_or(&test).to_owned();
    let statistic = named_statistic(csv, row)?;
    let spec = spec(csv, row, &test, folder, command_line)?;
    if spec.test != statistic.test {
        let problem = format!("statistic {} of {test}", statistic.name);
        let names = STATISTICS.iter().filter(|own| own.test == spec.test);
        let names: Vec<_> = names.map(|own| own.name).collect();
        let remedy = format!("of this test there are {}", names.join(", "));
        return Err(TableError::new(row.line, problem, remedy));
    }
    if spec.sizes.len() < statistic.sizes {
        let problem = format!(
            "{} sizes for statistic {}",
            spec.sizes.len(),
            statistic.name
        );
        let remedy = format!(
            "{} at least in column sizes, such as `64 4K 1M`",
            statistic.sizes
        );
        return Err(TableError::new(row.line, problem, remedy));
    }
    let metric = match text("metric") {
        metric if metric.is_empty() => {
            let statistic = statistic.name.to_owned();
            let mut words = vec![test, text("sizes"), text("options"), statistic];
            words.retain(|word| !word.is_empty());
            words.join(" ")
        }
        metric => metric,
    };
    let target = Target {
        id: text("id"),
        preset: text("preset"),
        metric,
        condition: text("condition"),
        low: csv.number(row, "low")?,
        reference: text("reference"),
        high: csv.number(row, "high")?,
        unit: statistic.unit.to_owned(),
        tolerance: text("tolerance"),
    };
    Ok(BlindTarget {
        expected: expected(csv, row, &target)?,
        figure: statistic.figure,
        target,
        spec,
    })
}

fn named_statistic(csv: &Csv, row: &Row) -> Result<&'static StatisticName, TableError> {
    let name = csv.text(row, "statistic");
    let statistic = STATISTICS.iter().find(|own| own.name == name);
    let statistic = statistic.ok_or_else(|| {
        let names = STATISTICS.map(|own| own.name).join(", ");
        let remedy = format!("one of {names} is expected");
        TableError::new(row.line, format!("statistic `{name}`"), remedy)
    })?;
    let unit = match csv.text(row, "unit") {
        "Mops" | "M/s" => "Mpps",
        "usec" => "us",
        "B" => "bytes",
        unit => unit,
    };
    if unit != statistic.unit && !unit.is_empty() {
        let problem = format!("unit `{unit}` of statistic {name}");
        let remedy = format!("it is in {}", statistic.unit);
        return Err(TableError::new(row.line, problem, remedy));
    }
    Ok(statistic)
}

fn spec(
    csv: &Csv,
    row: &Row,
    test: &str,
    folder: &Folder,
    command_line: CommandLine<'_>,
) -> Result<PerfSpec, TableError> {
    let mut words = vec![test.to_owned(), "--preset".to_owned()];
    words.push(folder.preset_name(csv.text(row, "preset")));
    let options = csv.text(row, "options");
    words.extend(options.split_whitespace().map(str::to_owned));
    let spec = command_line(&words).map_err(|error| {
        let problem = error.trim().trim_start_matches("error: ").to_owned();
        let remedy =
            "columns test, preset and options are as on the command line of `ferroce perf`";
        TableError::new(row.line, problem, remedy)
    })?;
    let sizes = csv.text(row, "sizes");
    let separated = sizes.split([' ', ';']).filter(|size| !size.is_empty());
    let parsed: Option<Vec<u32>> = separated.map(bytes).collect();
    let mut parsed = parsed.ok_or_else(|| {
        let remedy = "message sizes such as `2`, `64K` or `64 4K 1M` are expected";
        TableError::new(row.line, format!("sizes `{sizes}`"), remedy)
    })?;
    parsed.sort_unstable();
    parsed.dedup();
    Ok(if parsed.is_empty() {
        spec
    } else {
        PerfSpec {
            all_sizes: parsed.len() > 1,
            sizes: parsed,
            ..spec
        }
    })
}

/// Parses a message size with an optional suffix K or M.
fn bytes(text: &str) -> Option<u32> {
    let (digits, shift) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 10),
        None => text
            .strip_suffix(['M', 'm'])
            .map_or((text, 0), |digits| (digits, 20)),
    };
    let count: u32 = digits.parse().ok()?;
    count.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

fn expected(csv: &Csv, row: &Row, target: &Target) -> Result<Expected, TableError> {
    if target.reference.is_empty() {
        return match (target.low, target.high) {
            (None, None) => {
                let remedy = "reference with tolerance, or low, high or both are needed";
                Err(TableError::new(row.line, "nothing to compare with", remedy))
            }
            (Some(low), Some(high)) if low > high => {
                let problem = format!("low {low} above high {high}");
                Err(TableError::new(row.line, problem, "low comes first"))
            }
            _ => Ok(Expected::TargetBand),
        };
    }
    let value = csv.number(row, "reference")?.unwrap_or(f64::NAN);
    let tolerance = target.tolerance.replace(' ', "");
    let number = |text: &str| text.parse().ok().filter(|number: &f64| *number >= 0.0);
    let octaves = tolerance.strip_suffix("octaves");
    let octaves = octaves.or_else(|| tolerance.strip_suffix("octave"));
    let expected = match (octaves, tolerance.strip_suffix('%')) {
        (Some(octaves), _) => number(octaves).map(|octaves| Expected::Octaves(0, octaves)),
        (None, Some(percent)) => number(percent).map(|percent| Expected::Value(value, percent)),
        (None, None) => None,
    };
    expected.ok_or_else(|| {
        let problem = format!("tolerance `{}`", target.tolerance);
        TableError::new(row.line, problem, "write `10 %` or `1 octave`")
    })
}

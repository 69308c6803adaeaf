//! Output of perftest, versions 4.5 and later, possibly among other text.

use ferroce_perf::Service;

use super::TableError;
use super::table::{BandwidthRow, GBPS_PER_MIBPS, LatencyRow, Rows, Setup, Table, Verb};

const COLUMNS_WANTED: &str =
    "perftest's line that begins with `#bytes` says what they are; keep it";

/// Returns the tables in `text`: one for each line of column names.
pub fn parse(name: &str, text: &str) -> Result<Vec<Table>, TableError> {
    let mut reader = Reader::new(name);
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, line.trim())?;
    }
    reader.finish(text.lines().count())
}

/// Meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    Bytes,
    /// Figures in Gb/s, after the factor.
    Peak(f64),
    Average(f64),
    Rate,
    Min,
    Max,
    Typical,
    Mean,
    Deviation,
    P99,
    P999,
    /// Ignored: iterations, service level, load of the CPU, one port of two.
    Other,
}

struct Reader<'a> {
    name: &'a str,
    /// Conditions of the test whose columns have not been read yet.
    setup: Setup,
    verb_known: bool,
    columns: Vec<Column>,
    tables: Vec<Table>,
}

impl<'a> Reader<'a> {
    fn new(name: &'a str) -> Self {
        let verb = Verb::find(name);
        Self {
            name,
            setup: Setup::new(verb.unwrap_or(Verb::Write)),
            verb_known: verb.is_some(),
            columns: Vec::new(),
            tables: Vec::new(),
        }
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), TableError> {
        if line.starts_with("#bytes") {
            self.begin_table(number, line)
        } else if let Some(verb) = title(line) {
            self.setup = Setup::new(verb);
            self.setup.bidirectional = line.contains("Bidirectional");
            self.verb_known = true;
            self.columns.clear();
            Ok(())
        } else if let Some(figures) = figures(line) {
            self.row(number, &figures)
        } else {
            line.split('\t').for_each(|part| self.parameter(part));
            Ok(())
        }
    }

    /// Reads one ` TX depth        : 128` of the block above the columns.
    fn parameter(&mut self, part: &str) {
        let Some((key, value)) = part.split_once(':') else {
            return;
        };
        let (key, value) = (key.trim(), value.trim());
        let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
        let count = digits.parse().ok();
        match key {
            "Number of qps" => self.setup.qps = count.unwrap_or(1),
            "Connection type" => self.setup.service = Service::from_name(value),
            "TX depth" => self.setup.tx_depth = count,
            "CQ Moderation" => self.setup.cq_moderation = count,
            "Mtu" => self.setup.mtu_bytes = count,
            "Max inline data" => self.setup.max_inline_bytes = count,
            "Outstand reads" => self.setup.outstanding_reads = count,
            "Link type" => self.setup.infiniband = value == "IB",
            _ => {}
        }
    }

    fn begin_table(&mut self, number: usize, line: &str) -> Result<(), TableError> {
        self.columns = columns(number, line)?;
        let latency =
            self.columns.contains(&Column::Mean) || self.columns.contains(&Column::Typical);
        if !latency && !self.columns.iter().any(|c| matches!(c, Column::Average(_))) {
            let problem = "columns without `BW average`, `t_typical` or `t_avg`";
            return Err(TableError::new(number, problem, "one of them is needed"));
        }
        let (name, count) = (self.name, self.tables.len() + 1);
        let mut warnings = Vec::new();
        if !self.verb_known {
            let text = "which verb is not said (perftest's title is missing); taken as WRITE";
            warnings.push(text.to_owned());
        }
        self.tables.push(Table {
            name: if count == 1 {
                name.to_owned()
            } else {
                format!("{name}:{count}")
            },
            setup: self.setup.clone(),
            rows: if latency {
                Rows::Latency(Vec::new())
            } else {
                Rows::Bandwidth(Vec::new())
            },
            notes: Vec::new(),
            warnings,
        });
        Ok(())
    }

    fn row(&mut self, number: usize, figures: &[f64]) -> Result<(), TableError> {
        let Some(table) = self.tables.last_mut().filter(|_| !self.columns.is_empty()) else {
            let problem = "figures without the names of their columns";
            return Err(TableError::new(number, problem, COLUMNS_WANTED));
        };
        if figures.len() != self.columns.len() {
            let problem = format!("{} figures", figures.len());
            let remedy = format!("the columns above are {}", self.columns.len());
            return Err(TableError::new(number, problem, remedy));
        }
        let fields = Fields {
            number,
            columns: &self.columns,
            figures,
        };
        match &mut table.rows {
            Rows::Bandwidth(rows) => rows.push(fields.bandwidth()?),
            Rows::Latency(rows) => rows.push(fields.latency()?),
        }
        Ok(())
    }

    fn finish(mut self, lines: usize) -> Result<Vec<Table>, TableError> {
        self.tables.retain(|table| !table.sizes().is_empty());
        if self.tables.is_empty() {
            let problem = "the file ends without figures of perftest";
            return Err(TableError::new(lines.max(1), problem, COLUMNS_WANTED));
        }
        self.tables.iter_mut().for_each(Table::check_rates);
        Ok(self.tables)
    }
}

/// Returns the verb of a title such as `RDMA_Write Bidirectional BW Test`.
fn title(line: &str) -> Option<Verb> {
    let words: Vec<_> = line.split_whitespace().collect();
    let is_title = words.last() == Some(&"Test")
        && (words.contains(&"BW") || words.contains(&"Latency"))
        && words.len() < 8;
    is_title.then(|| Verb::find(words[0])).flatten()
}

/// Returns the numbers of a line that has nothing else. `inf` and `nan` are numbers, too: perftest
/// prints them when a test is too short.
fn figures(line: &str) -> Option<Vec<f64>> {
    if !line.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let figures: Option<Vec<_>> = line
        .split_whitespace()
        .map(|word| word.parse().ok())
        .collect();
    figures.filter(|figures| figures.len() > 1)
}

fn columns(number: usize, line: &str) -> Result<Vec<Column>, TableError> {
    let mut columns = Vec::new();
    let mut words = line.split_whitespace();
    while let Some(word) = words.next() {
        let has_second_word = matches!(word, "BW" | "99%" | "99.9%" | "tps" | "MsgRate");
        let second = if has_second_word { words.next() } else { None };
        columns.push(column(number, word, second.unwrap_or(""))?);
    }
    Ok(columns)
}

fn column(number: usize, word: &str, second: &str) -> Result<Column, TableError> {
    let bare = |text: &str| text.split('[').next().unwrap_or("").to_owned();
    Ok(match (bare(word).as_str(), bare(second).as_str()) {
        ("#bytes", _) => Column::Bytes,
        ("BW", "peak") => Column::Peak(unit(number, second)?),
        ("BW", "average") => Column::Average(unit(number, second)?),
        ("MsgRate", "") => Column::Rate,
        ("t_min", _) => Column::Min,
        ("t_max", _) => Column::Max,
        ("t_typical", _) => Column::Typical,
        ("t_avg", _) => Column::Mean,
        ("t_stdev", _) => Column::Deviation,
        ("99%", _) => Column::P99,
        ("99.9%", _) => Column::P999,
        _ => Column::Other,
    })
}

/// Returns the value in Gb/s of the unit in brackets. perftest's MB has always been 2^20 bytes.
fn unit(number: usize, name: &str) -> Result<f64, TableError> {
    let unit = name.split_once('[').map_or("", |(_, unit)| unit);
    match unit.trim_end_matches(']') {
        "MB/sec" | "MiB/sec" => Ok(GBPS_PER_MIBPS),
        "Gb/sec" => Ok(1.0),
        _ => {
            let problem = format!("the unit of `BW {name}`");
            let remedy = "perftest has [MB/sec], [MiB/sec] and [Gb/sec]";
            Err(TableError::new(number, problem, remedy))
        }
    }
}

/// Reads a row by the meanings of its columns.
struct Fields<'a> {
    number: usize,
    columns: &'a [Column],
    figures: &'a [f64],
}

impl Fields<'_> {
    fn find(&self, wanted: impl Fn(Column) -> Option<f64>) -> Option<f64> {
        let mut pairs = self.columns.iter().zip(self.figures);
        let value = pairs.find_map(|(column, figure)| wanted(*column).map(|f| f * figure));
        value.filter(|value| value.is_finite())
    }

    fn get(&self, wanted: Column) -> Option<f64> {
        self.find(|column| (column == wanted).then_some(1.0))
    }

    fn bytes(&self) -> Result<u64, TableError> {
        let bytes = self.get(Column::Bytes);
        let bytes = bytes.filter(|bytes| *bytes >= 1.0 && bytes.fract() == 0.0);
        bytes.map(|bytes| bytes as u64).ok_or_else(|| {
            let problem = "the size of the message is no whole number";
            TableError::new(
                self.number,
                problem,
                "the first figure is the size in bytes",
            )
        })
    }

    fn bandwidth(&self) -> Result<BandwidthRow, TableError> {
        let bytes = self.bytes()?;
        let bits = bytes as f64 * 8.0;
        let average = self.find(|column| match column {
            Column::Average(factor) => Some(factor),
            _ => None,
        });
        let average_gbps = average.ok_or_else(|| {
            let problem = "the average bandwidth is no number";
            TableError::new(
                self.number,
                problem,
                "measure again with more iterations (-n)",
            )
        })?;
        let peak = self.find(|column| match column {
            Column::Peak(factor) => Some(factor),
            _ => None,
        });
        // Small figures have two digits only; the rate has six.
        let rate = self.get(Column::Rate).filter(|rate| *rate > 0.0);
        Ok(BandwidthRow {
            bytes,
            peak_gbps: peak.filter(|peak| *peak > 0.0),
            average_gbps,
            message_rate_mpps: rate.unwrap_or(average_gbps * 1e3 / bits),
        })
    }

    fn latency(&self) -> Result<LatencyRow, TableError> {
        let latency = LatencyRow {
            bytes: self.bytes()?,
            min_us: self.get(Column::Min),
            max_us: self.get(Column::Max),
            typical_us: self.get(Column::Typical),
            average_us: self.get(Column::Mean),
            stdev_us: self.get(Column::Deviation),
            p99_us: self.get(Column::P99),
            p999_us: self.get(Column::P999),
        };
        if latency.value_us().is_nan() {
            let problem = "neither t_typical nor t_avg is a number";
            let remedy = "measure again with more iterations (-n)";
            return Err(TableError::new(self.number, problem, remedy));
        }
        Ok(latency)
    }
}

#[cfg(test)]
mod tests;

//! Measured tables that the model is compared with.
//!
//! - [`table`]: a table, independent of its source; all figures in Gb/s, M messages/s, us.
//! - [`csv`] and [`table_csv`]: our own format, CSV after lines `# key: value` that name the source
//!   of the figures. [`perftest`] and [`perftest_json`]: the output formats of perftest.
//! - [`builtin`]: the tables of `sim/lab/reference`, which are part of the binary.
//! - [`wire_limit`]: the goodput that headers leave of a link.
//! - [`experiment`]: the run of the model that repeats a measurement. [`comparison`]: a table next
//!   to the figures of the model; [`size_class`]: its errors for small, middle and large messages;
//!   `idle`: what the peak of a measured bandwidth says.
//! - [`pairs`]: the preset that each built-in table is compared with.
//!
//! [`parse`] reads any of these formats.

pub mod builtin;
pub mod comparison;
pub mod csv;
pub mod experiment;
mod idle;
pub mod nearest;
pub mod pairs;
pub mod perftest;
pub mod perftest_json;
pub mod size_class;
pub mod table;
pub mod table_csv;
pub mod wire_limit;

pub use table::{BandwidthRow, LatencyRow, Memory, Rows, Setup, Table, Verb};

/// An error in a file of measured figures: its place, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}; {remedy}")]
pub struct TableError {
    /// Line of the file, the first being 1.
    pub line: usize,
    /// The invalid text.
    pub problem: String,
    /// The correct form.
    pub remedy: String,
}

impl TableError {
    pub(crate) fn new(line: usize, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            line,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

/// Parses the tables in `text`: our CSV, perftest's own output, or its JSON. `name` names them.
pub fn parse(name: &str, text: &str) -> Result<Vec<Table>, TableError> {
    if perftest_json::is_json(text) {
        perftest_json::parse(name, text)
    } else if table_csv::is_table(text) {
        table_csv::parse(name, text)
    } else {
        perftest::parse(name, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_recognised() {
        let csv = "# command: ib_write_bw -a\nbytes,bw_avg,unit\n64,100,MiB/s\n";
        let text = " #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n 64 10 0 \
        100.00 1.638400\n";
        let json = r#"{ "test": "RDMA_Write_BW_Test", "MsgSize": 64,
            "BW_average": 100.0, "MsgRate": 1.6384 }"#;
        for input in [csv, text, json] {
            let tables = parse("x", input).expect("each is a table");
            let Rows::Bandwidth(rows) = &tables[0].rows else {
                panic!("bandwidth, not latency");
            };
            assert!(
                (rows[0].average_gbps - 0.838_860_8).abs() < 1e-9,
                "{rows:?}"
            );
        }
    }

    #[test]
    fn a_file_without_figures_is_refused_with_what_would_be_right() {
        let error = parse("x", "hello\n\nworld\n").expect_err("no figures");
        assert!(error.to_string().contains("#bytes"), "{error}");
    }
}

//! Output of perftest 6 with `--out_json`: one object of strings and numbers for each test. Some
//! versions omit quotes, so this parser reads pairs of key and value and ignores the structure.

use ferroce_perf::Service;

use super::TableError;
use super::table::{BandwidthRow, GBPS_PER_MIBPS, LatencyRow, Rows, Setup, Table, Verb};

/// Returns true if `text` begins as JSON does.
pub fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// Returns the tables in `text`; a key `test` begins one, a key `MsgSize` begins a row.
pub fn parse(name: &str, text: &str) -> Result<Vec<Table>, TableError> {
    let mut tables: Vec<Table> = Vec::new();
    let mut setup = Setup::new(Verb::find(name).unwrap_or(Verb::Write));
    let mut is_new_test = true;
    let pairs = pairs(text);
    for (index, pair) in pairs.iter().enumerate() {
        match pair.key {
            "test" => {
                setup = Setup::new(Verb::find(pair.value).unwrap_or(Verb::Write));
                setup.bidirectional = pair.value.contains("Bidirectional");
                is_new_test = true;
            }
            "MsgSize" => {
                let row = Row::new(&pairs[index..]);
                if is_new_test || tables.is_empty() {
                    tables.push(row.empty_table(name, tables.len(), &setup));
                    is_new_test = false;
                }
                let last = tables.last_mut().expect("one was pushed");
                row.append(&mut last.rows)?;
            }
            _ => parameter(&mut setup, pair),
        }
    }
    if tables.is_empty() {
        let remedy = "perftest --out_json writes an object with `MsgSize`";
        return Err(TableError::new(1, "JSON without `MsgSize`", remedy));
    }
    tables.iter_mut().for_each(Table::check_rates);
    Ok(tables)
}

fn parameter(setup: &mut Setup, pair: &Pair<'_>) {
    let count = pair.value.parse().ok();
    match pair.key {
        "Number_of_qps" => setup.qps = count.unwrap_or(1),
        "Connection_type" => setup.service = Service::from_name(pair.value),
        "TX_depth" => setup.tx_depth = count,
        "CQ_Moderation" => setup.cq_moderation = count,
        "Mtu" => setup.mtu_bytes = count,
        "Max_inline_data" => setup.max_inline_bytes = count,
        "Outstand_reads" => setup.outstanding_reads = count,
        "Link_type" => setup.infiniband = pair.value == "IB",
        _ => {}
    }
}

struct Pair<'a> {
    line: usize,
    key: &'a str,
    value: &'a str,
}

/// Returns every `"key": value` of `text` whose value is a string or a number.
fn pairs(text: &str) -> Vec<Pair<'_>> {
    let mut pairs = Vec::new();
    let mut quotes = text.match_indices('"').map(|(place, _)| place);
    while let (Some(begin), Some(end)) = (quotes.next(), quotes.next()) {
        let Some(rest) = text[end + 1..].trim_start().strip_prefix(':') else {
            continue;
        };
        let rest = rest.trim_start();
        let value = if let Some(string) = rest.strip_prefix('"') {
            // Skip the quotes of the value, so that they do not count as the quotes of a key.
            quotes.next();
            quotes.next();
            string.split('"').next().unwrap_or("")
        } else {
            let end = rest.find([',', '}', ']', '{', '[', '\n']);
            rest[..end.unwrap_or(rest.len())].trim()
        };
        pairs.push(Pair {
            line: text[..begin].matches('\n').count() + 1,
            key: &text[begin + 1..end],
            value,
        });
    }
    pairs
}

/// A `MsgSize` and what follows it up to the next.
struct Row<'a> {
    pairs: &'a [Pair<'a>],
}

impl<'a> Row<'a> {
    fn new(pairs: &'a [Pair<'a>]) -> Self {
        let ends = |pair: &Pair<'_>| pair.key == "MsgSize" || pair.key == "test";
        let end = pairs[1..]
            .iter()
            .position(ends)
            .map_or(pairs.len(), |end| end + 1);
        Self {
            pairs: &pairs[..end],
        }
    }

    fn get(&self, key: &str) -> Option<f64> {
        let pair = self.pairs.iter().find(|pair| pair.key == key)?;
        pair.value
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
    }

    fn error(&self, problem: &str, remedy: &str) -> TableError {
        TableError::new(self.pairs[0].line, problem, remedy)
    }

    fn empty_table(&self, name: &str, index: usize, setup: &Setup) -> Table {
        Table {
            name: if index == 0 {
                name.to_owned()
            } else {
                format!("{name}:{}", index + 1)
            },
            setup: setup.clone(),
            rows: if self.get("BW_average").is_some() {
                Rows::Bandwidth(Vec::new())
            } else {
                Rows::Latency(Vec::new())
            },
            notes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn append(&self, rows: &mut Rows) -> Result<(), TableError> {
        let bytes = self.get("MsgSize").filter(|bytes| *bytes >= 1.0);
        let bytes = bytes.ok_or_else(|| self.error("`MsgSize` is no number", "it is in bytes"))?;
        match rows {
            Rows::Bandwidth(rows) => rows.push(self.bandwidth(bytes)?),
            Rows::Latency(rows) => rows.push(self.latency(bytes)?),
        }
        Ok(())
    }

    /// Returns a row of bandwidth. The file does not name the unit, MiB/s or Gb/s; it follows from
    /// the message rate.
    fn bandwidth(&self, bytes: f64) -> Result<BandwidthRow, TableError> {
        let rate = self.get("MsgRate").filter(|rate| *rate > 0.0);
        let average = self.get("BW_average").filter(|average| *average > 0.0);
        let (Some(rate), Some(average)) = (rate, average) else {
            let problem = "`BW_average` without `MsgRate`";
            return Err(self.error(problem, "both are needed, to distinguish MiB/s from Gb/s"));
        };
        let gbps = rate * bytes * 8e-3;
        let distance = |factor: f64| (average * factor / gbps).ln().abs();
        let factor = if distance(1.0) < distance(GBPS_PER_MIBPS) {
            1.0
        } else {
            GBPS_PER_MIBPS
        };
        Ok(BandwidthRow {
            bytes: bytes as u64,
            peak_gbps: self.get("BW_peak").filter(|p| *p > 0.0).map(|p| p * factor),
            average_gbps: average * factor,
            message_rate_mpps: rate,
        })
    }

    fn latency(&self, bytes: f64) -> Result<LatencyRow, TableError> {
        let latency = LatencyRow {
            bytes: bytes as u64,
            min_us: self.get("t_min"),
            max_us: self.get("t_max"),
            typical_us: self.get("t_typical"),
            average_us: self.get("t_avg"),
            stdev_us: self.get("t_stdev"),
            p99_us: self
                .get("percentile_99")
                .or_else(|| self.get("99_percentile")),
            p999_us: self
                .get("percentile_99.9")
                .or_else(|| self.get("99.9_percentile")),
        };
        if latency.value_us().is_nan() {
            let problem = "neither `BW_average`, `t_typical` nor `t_avg`";
            return Err(self.error(problem, "one of them is needed"));
        }
        Ok(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As perftest 25.07 writes it, shortened.
    const BANDWIDTH: &str = r#"{
"test_info": {
"test": "RDMA_Write_Bidirectional_BW_Test",
"Dual_port": "OFF",
"Device": "mlx5_0",
"Number_of_qps": 2,
"Transport_type": "IB",
"Connection_type": "RC",
"Using_SRQ": "OFF",
"TX_depth": 128,
"CQ_Moderation": 1,
"Mtu": 4096,
"Link_type": "Ethernet",
"Max_inline_data": 0,
"Data_ex_method": "Ethernet"
},
"results": {
"MsgSize": 65536,
"n_iterations": 5000,
"BW_peak": 96.10,
"BW_average": 96.05,
"MsgRate": 0.183201
}
}
"#;

    const LATENCY: &str = r#"{"test_info":{"test":"Send_Latency_Test","Connection_type":"UD"},
"results":{"MsgSize": 2,
"n_iterations": 1000,
"t_min": 1.61,
"t_max": 4.20,
"t_typical": 1.68,
"t_avg": 1.70,
"t_stdev": 0.10,
"percentile_99": 2.00,
"percentile_99.9": 4.20
}}"#;

    #[test]
    fn the_unit_follows_from_the_rate() {
        let table = parse("x", BANDWIDTH).expect("a table").remove(0);
        assert_eq!(table.points(), [(65536, 96.05)]);
        assert_eq!((table.setup.qps, table.setup.mtu_bytes), (2, Some(4096)));
        assert!(table.setup.bidirectional && !table.setup.infiniband);
        let in_mib = BANDWIDTH.replace("96.05", "11450.10");
        let points = parse("x", &in_mib).expect("a table").remove(0).points();
        assert!((points[0].1 - 96.05).abs() < 0.01, "{points:?}");
    }

    #[test]
    fn latency_and_a_second_test() {
        let table = parse("x", LATENCY).expect("a table").remove(0);
        assert_eq!(
            (table.setup.verb, table.setup.service),
            (Verb::Send, Some(Service::Ud))
        );
        let Rows::Latency(rows) = &table.rows else {
            panic!("latency");
        };
        assert_eq!(
            (rows[0].typical_us, rows[0].p99_us),
            (Some(1.68), Some(2.0))
        );
        let both = parse("x", &format!("[{BANDWIDTH},{LATENCY}]")).expect("two tables");
        assert_eq!(both.len(), 2);
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = parse("x", "{ \"a\": 1 }").expect_err("no figures");
        assert!(error.to_string().contains("MsgSize"), "{error}");
        let error = parse("x", &BANDWIDTH.replace("MsgRate", "Rate")).expect_err("no rate");
        assert_eq!(error.line, 18, "{error}");
    }
}

//! Tables of perftest in our CSV format.

use ferroce_perf::Service;

use super::TableError;
use super::csv::{Csv, Row};
use super::table::{BandwidthRow, GBPS_PER_MIBPS, LatencyRow, Memory, Rows, Setup, Table, Verb};

/// Returns true if the first line that is no comment names columns of our format.
pub fn is_table(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| line.starts_with("bytes,"))
}

/// Returns the tables of one file; most have one, those with a latency column for each verb
/// several.
pub fn parse(name: &str, text: &str) -> Result<Vec<Table>, TableError> {
    let csv = Csv::parse(text)?;
    let verbs: Vec<_> = [Verb::Write, Verb::Send, Verb::Read]
        .into_iter()
        .filter(|verb| csv.column(&verb_column(*verb)).is_some())
        .collect();
    if verbs.is_empty() {
        return Ok(vec![one_table(name, &csv)?]);
    }
    let tables = verbs.into_iter().map(|verb| verb_table(name, &csv, verb));
    tables.collect()
}

fn verb_column(verb: Verb) -> String {
    format!("{}_typ_us", verb.name())
}

fn verb_table(name: &str, csv: &Csv, verb: Verb) -> Result<Table, TableError> {
    let column = verb_column(verb);
    let mut rows = Vec::new();
    for row in &csv.rows {
        if let Some(typical) = csv.number(row, &column)? {
            rows.push(LatencyRow {
                bytes: bytes(csv, row)?,
                typical_us: Some(typical),
                ..LatencyRow::default()
            });
        }
    }
    let name = format!("{name}:{}", verb.name());
    Ok(table(&name, csv, setup(csv, verb), Rows::Latency(rows)))
}

fn one_table(name: &str, csv: &Csv) -> Result<Table, TableError> {
    let command = csv.note("command").unwrap_or(name);
    let verb = Verb::find(command).or_else(|| Verb::find(name));
    let verb = verb.ok_or_else(|| {
        let remedy = "a line such as `# command: ib_write_bw -a` says which";
        TableError::new(1, "the verb is not known", remedy)
    })?;
    let rows = if csv.column("bw_avg").is_some() || csv.column("bw_avg_gbps").is_some() {
        let rows = csv.rows.iter().map(|row| bandwidth(csv, row));
        Rows::Bandwidth(rows.collect::<Result<_, _>>()?)
    } else {
        let rows = csv.rows.iter().map(|row| latency(csv, row));
        Rows::Latency(rows.collect::<Result<_, _>>()?)
    };
    let mut table = table(name, csv, setup(csv, verb), rows);
    table.check_rates();
    Ok(table)
}

fn table(name: &str, csv: &Csv, setup: Setup, rows: Rows) -> Table {
    Table {
        name: name.to_owned(),
        setup,
        rows,
        notes: csv.notes.clone(),
        warnings: Vec::new(),
    }
}

fn bandwidth(csv: &Csv, row: &Row) -> Result<BandwidthRow, TableError> {
    let bytes = bytes(csv, row)?;
    let factor = match csv.text(row, "unit") {
        "MiB/s" | "MB/s" | "MB/sec" | "MiB/sec" => GBPS_PER_MIBPS,
        "Gb/s" | "Gb/sec" | "" => 1.0,
        other => {
            let problem = format!("unit `{other}`");
            return Err(TableError::new(
                row.line,
                problem,
                "MiB/s or Gb/s is expected",
            ));
        }
    };
    let scaled = |column| Ok(csv.number(row, column)?.map(|value| value * factor));
    let rate = csv.number(row, "msgrate_mpps")?;
    let average = match scaled("bw_avg")? {
        Some(average) => Some(average),
        None => csv.number(row, "bw_avg_gbps")?,
    };
    let average = average.or(rate.map(|rate| rate * bytes as f64 * 8e-3));
    let average_gbps = average.ok_or_else(|| {
        let problem = "neither bw_avg nor msgrate_mpps";
        TableError::new(row.line, problem, "one of them is needed")
    })?;
    Ok(BandwidthRow {
        bytes,
        peak_gbps: scaled("bw_peak")?,
        average_gbps,
        message_rate_mpps: rate.unwrap_or(average_gbps * 1e3 / (bytes as f64 * 8.0)),
    })
}

fn latency(csv: &Csv, row: &Row) -> Result<LatencyRow, TableError> {
    let latency = LatencyRow {
        bytes: bytes(csv, row)?,
        min_us: csv.number(row, "t_min_us")?,
        max_us: csv.number(row, "t_max_us")?,
        typical_us: csv.number(row, "t_typical_us")?,
        average_us: csv.number(row, "t_avg_us")?,
        stdev_us: csv.number(row, "t_stdev_us")?,
        p99_us: csv.number(row, "p99_us")?,
        p999_us: csv.number(row, "p999_us")?,
    };
    if latency.value_us().is_nan() {
        let problem = "neither t_typical_us nor t_avg_us";
        return Err(TableError::new(row.line, problem, "one of them is needed"));
    }
    Ok(latency)
}

/// Returns the message size of a row. Spreadsheets write 1048576 as 1.04858e+06; such a figure
/// stands for the power of two that rounds to it.
fn bytes(csv: &Csv, row: &Row) -> Result<u64, TableError> {
    let text = csv.text(row, "bytes");
    let value = csv.number(row, "bytes")?.unwrap_or(0.0);
    let power = 2.0_f64.powf(value.log2().round());
    let value = if text.contains('e') && (power / value - 1.0).abs() < 1e-5 {
        power
    } else {
        value
    };
    if value < 1.0 || value.fract() != 0.0 {
        let problem = format!("`{text}` in column bytes");
        return Err(TableError::new(
            row.line,
            problem,
            "a whole number is expected",
        ));
    }
    Ok(value as u64)
}

fn setup(csv: &Csv, verb: Verb) -> Setup {
    let note = |key| csv.note(key).unwrap_or("");
    let command = note("command");
    let service = after(command, "-c ").map_or(Some(Service::Rc), Service::from_name);
    let link = note("link_gbps");
    let data_rate = link
        .split_once('(')
        .and_then(|(_, rest)| leading_number(rest));
    let inline = format!("{command} {}", note("note"));
    let inline = after(&inline, "max inline reported ").or_else(|| after(&inline, "max inline "));
    Setup {
        service,
        mtu_bytes: leading_number(note("mtu")).map(|mtu| mtu as u32),
        link_gbps: data_rate.or_else(|| leading_number(link)),
        qps: leading_number(note("qps")).map_or(1, |qps| qps as u32),
        tx_depth: leading_number(note("tx_depth")).map(|depth| depth as u32),
        cq_moderation: leading_number(note("cq_moderation")).map(|count| count as u32),
        max_inline_bytes: inline.and_then(leading_number).map(|bytes| bytes as u32),
        outstanding_reads: after(command, "outstanding reads ")
            .and_then(leading_number)
            .map(|count| count as u32),
        switched: switched(note("topology")),
        bidirectional: command.split_whitespace().any(|word| word == "-b"),
        memory: memory(csv, command),
        infiniband: note("link_layer").starts_with("InfiniBand"),
        ..Setup::new(verb)
    }
}

/// Returns where the buffers lay: as the notes say, or the command.
fn memory(csv: &Csv, command: &str) -> Memory {
    let noted = |key| csv.note(key).map(str::to_owned);
    let of_command = Memory::of_command(command);
    Memory {
        local: noted("local_memory").or(of_command.local),
        remote: noted("remote_memory").or(of_command.remote),
        ..of_command
    }
}

/// Returns whether there was a switch, if `topology` says so.
fn switched(topology: &str) -> Option<bool> {
    if topology.contains("switch") {
        Some(true)
    } else if ["direct", "back-to-back"]
        .iter()
        .any(|word| topology.contains(word))
    {
        Some(false)
    } else {
        None
    }
}

/// Returns the word that follows `key` in `text`.
fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(key)?;
    rest.split([' ', ')', ';', ',']).next()
}

/// Returns the number that `text` begins with.
fn leading_number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    text[..end.unwrap_or(text.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "# command: ib_send_bw -a -c UD (max inline 188)\n# mtu: 4096 (not \
        recorded)\n# link_gbps: 40 (32 data)\n# link_layer: InfiniBand QDR\n# tx_depth: 64\n";

    #[test]
    fn the_header_says_how_it_was_measured() {
        let text = format!("{HEADER}bytes,bw_avg,unit,msgrate_mpps\n64,,MiB/s,2\n");
        let table = parse("t", &text).expect("a table").remove(0);
        let expected = Setup {
            service: Some(Service::Ud),
            mtu_bytes: Some(4096),
            link_gbps: Some(32.0),
            tx_depth: Some(64),
            max_inline_bytes: Some(188),
            infiniband: true,
            ..Setup::new(Verb::Send)
        };
        assert_eq!(table.setup, expected);
        assert_eq!(table.points(), [(64, 1.024)]);
    }

    #[test]
    fn columns_of_verbs_become_tables() {
        let text = "bytes,write_typ_us,send_typ_us,read_typ_us\n2,1,2,3\n4,,2.5,3.5\n";
        let tables = parse("t", text).expect("three tables");
        let names: Vec<_> = tables.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["t:write", "t:send", "t:read"]);
        assert_eq!(tables[0].points(), [(2, 1.0)]);
        assert_eq!(tables[2].points(), [(2, 3.0), (4, 3.5)]);
    }

    #[test]
    fn sizes_in_exponent_form_are_powers_of_two() {
        let text = "# command: ib_write_lat\nbytes,t_typical_us\n1.04858e+06,46.9\n8.38861e+06,1\n";
        let sizes = parse("t", text).expect("a table").remove(0).sizes();
        assert_eq!(sizes, [1 << 20, 8 << 20]);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (text, line, word) in [
            ("bytes,bw_avg\n2,1\n", 1, "ib_write_bw"),
            (
                "# command: ib_write_bw\nbytes,bw_avg,unit\n2,1,KB/s\n",
                3,
                "MiB/s",
            ),
            (
                "# command: ib_write_bw\nbytes,bw_avg,unit\n2,,Gb/s\n",
                3,
                "needed",
            ),
            (
                "# command: ib_write_lat\nbytes,t_min_us\n2,1\n",
                3,
                "needed",
            ),
            (
                "# command: ib_write_lat\nbytes,t_avg_us\n2.5,1\n",
                3,
                "whole",
            ),
        ] {
            let error = parse("t", text).expect_err("refused");
            assert_eq!(error.line, line, "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}

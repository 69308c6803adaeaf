//! The tables of `ferroce top`, made from two samples.

use ferroce_driver::{QpState, Service};

use super::sample::{Sample, Shown};

/// Size of a screen in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub columns: u16,
    pub rows: u16,
}

/// Style of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Plain,
    Heading,
    Failed,
}

/// A line of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    pub look: Look,
}

/// Counters of events that a retransmission repairs: they cost time only.
const LOST: &[&str] = &[
    "packets_retransmitted",
    "local_ack_timeouts",
    "rnr_naks_sent",
    "rnr_naks_received",
    "sequence_naks_sent",
    "sequence_naks_received",
    "duplicate_requests",
    "rx_out_of_sequence",
];

/// Counters of events that no retransmission repairs.
const ERRORS: &[&str] = &[
    "tx_no_route",
    "rx_malformed",
    "rx_icrc_errors",
    "rx_no_qp",
    "rx_wrong_path",
    "doorbell_errors",
    "wqe_errors",
    "cq_overruns",
    "command_errors",
    "dma_errors",
    "other_naks_sent",
    "other_naks_received",
    "rx_q_key_violations",
    "rx_no_receive",
    "protection_errors",
    "dma_completion_timeouts",
    "dma_poisoned",
    "rx_hold_drops",
    "rx_overflows",
];

/// Minimum number of rows of the lists of queue pairs and errors, if they have that many.
const LEAST_ROWS: usize = 3;

const FUNCTIONS: &str = "    PID PROGRAM         HOST         DEVICE     QPS  TX Gb/s  RX Gb/s  \
                         TX Mpps  RX Mpps   LOST/s     LOST   ERRORS";
const QPS: &str = "QP        TYPE  STATE  PEER      PID     PROGRAM";

/// Returns the lines of a screen, cut to its size.
pub fn lines(before: &Sample, now: &Sample, size: Size) -> Vec<Line> {
    let seconds = now.taken.duration_since(before.taken).as_secs_f64();
    let rows = now.functions.iter().map(|shown| {
        let old = before.functions.iter().find(|old| old.claim == shown.claim);
        Row {
            shown,
            old,
            seconds,
        }
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let mut lines = vec![heading(&summary(&rows)), plain(String::new())];
    if rows.is_empty() {
        lines.push(plain(
            "No program uses the device now. Start one: ferroce run -- PROGRAM".into(),
        ));
    } else {
        lines.push(heading(FUNCTIONS));
        lines.extend(rows.iter().map(Row::line));
        let (errors, qps) = (error_lines(&rows), qp_lines(now));
        let left = usize::from(size.rows).saturating_sub(lines.len());
        // Two headings, and an empty line before each.
        let for_qps = left.saturating_sub(4 + errors.len().min(LEAST_ROWS));
        add_list(&mut lines, QPS, qps, for_qps);
        let left = usize::from(size.rows).saturating_sub(lines.len() + 2);
        add_list(
            &mut lines,
            "What is lost or wrong, since the start of the program",
            errors,
            left,
        );
    }
    lines.truncate(usize::from(size.rows));
    for line in &mut lines {
        let end = line.text.char_indices().nth(usize::from(size.columns));
        line.text
            .truncate(end.map_or(line.text.len(), |(at, _)| at));
    }
    lines
}

fn plain(text: String) -> Line {
    let look = Look::Plain;
    Line { text, look }
}

fn heading(text: &str) -> Line {
    Line {
        text: text.to_owned(),
        look: Look::Heading,
    }
}

/// Adds a list, showing at most `most` rows.
fn add_list(lines: &mut Vec<Line>, title: &str, mut list: Vec<Line>, most: usize) {
    if list.is_empty() || most == 0 {
        return;
    }
    let count = list.len();
    if count > most {
        list.truncate(most - 1);
        list.push(plain(format!("and {} more", count - list.len())));
    }
    lines.extend([plain(String::new()), heading(title)]);
    lines.extend(list);
}

/// A function in this sample and in the one before.
struct Row<'a> {
    shown: &'a Shown,
    /// `None`: it did not exist then.
    old: Option<&'a Shown>,
    seconds: f64,
}

impl Row<'_> {
    /// Returns the increase of counters per second.
    fn rate(&self, names: &[&str]) -> f64 {
        let old = self.old.map_or(0, |old| old.sum(names));
        let grown = self.shown.sum(names).saturating_sub(old);
        // A function that has just begun may have counted before this interval.
        if self.seconds > 0.0 {
            grown as f64 / self.seconds
        } else {
            0.0
        }
    }

    fn gbps(&self, bytes: &str) -> f64 {
        self.rate(&[bytes]) * 8.0 / 1e9
    }

    fn line(&self) -> Line {
        let function = &self.shown.function;
        let (lost, errors) = (self.shown.sum(LOST), self.shown.sum(ERRORS));
        let text = format!(
            "{:>7} {:<15} {:<12} {:<9} {:>4} {:>8.2} {:>8.2} {:>8.3} {:>8.3} {:>8.0} {:>8} {:>8}",
            function.pid,
            cut(&function.program, 15),
            cut(&function.host, 12),
            function.device,
            self.shown.qp_count,
            self.gbps("tx_bytes"),
            self.gbps("rx_bytes"),
            self.rate(&["tx_frames"]) / 1e6,
            self.rate(&["rx_frames"]) / 1e6,
            self.rate(LOST),
            lost,
            errors,
        );
        let look = match errors {
            0 => Look::Plain,
            _ => Look::Failed,
        };
        Line { text, look }
    }
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn summary(rows: &[Row<'_>]) -> String {
    let sum =
        |of: &dyn Fn(&Row<'_>) -> f64| rows.iter().map(of).fold(0.0, |sum, value| sum + value);
    let count = |of: &dyn Fn(&Row<'_>) -> u64| rows.iter().map(of).sum::<u64>();
    format!(
        "ferroce top: {} functions, {} QPs, {:.2} Gb/s sent, {:.3} Mpps, {} lost, {} errors; \
         q ends it",
        rows.len(),
        count(&|row| row.shown.qp_count),
        sum(&|row| row.gbps("tx_bytes")),
        sum(&|row| row.rate(&["tx_frames"])) / 1e6,
        count(&|row| row.shown.sum(LOST)),
        count(&|row| row.shown.sum(ERRORS)),
    )
}

/// Returns a line for each counter of losses and errors, errors first.
fn error_lines(rows: &[Row<'_>]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (names, look) in [(ERRORS, Look::Failed), (LOST, Look::Plain)] {
        for row in rows {
            let function = &row.shown.function;
            for name in names {
                let value = row.shown.sum(&[name]);
                if value != 0 {
                    let rate = row.rate(&[name]);
                    let (pid, program) = (function.pid, cut(&function.program, 15));
                    let text =
                        format!("{pid:>7} {program:<15} {name:<24} {value:>12} {rate:>10.0}/s");
                    lines.push(Line { text, look });
                }
            }
        }
    }
    lines
}

/// Returns a line for each published queue pair, failed ones first.
fn qp_lines(now: &Sample) -> Vec<Line> {
    let mut qps = Vec::new();
    for shown in &now.functions {
        qps.extend(shown.qps.iter().map(|qp| (qp, &shown.function)));
    }
    qps.sort_by_key(|(qp, _)| (qp.state != QpState::Err, qp.qpn.value()));
    let line = |(qp, function): (&ferroce_embed::fabric::registry::ShownQp, &_)| {
        let function: &crate::cli::counters::function::Function = function;
        let peer = match qp.peer.value() {
            0 => "-".to_owned(),
            peer => format!("{peer:#08x}"),
        };
        let (service, state) = (service_name(qp.service), qp.state.to_string());
        let number = format!("{:#08x}", qp.qpn.value());
        let (pid, program) = (function.pid, &function.program);
        Line {
            text: format!("{number:<9} {service:<5} {state:<6} {peer:<9} {pid:<7} {program}"),
            look: match qp.state {
                QpState::Err | QpState::Sqe => Look::Failed,
                _ => Look::Plain,
            },
        }
    };
    qps.into_iter().map(line).collect()
}

fn service_name(service: Service) -> &'static str {
    match service {
        Service::ReliableConnected => "RC",
        Service::UnreliableConnected => "UC",
        Service::UnreliableDatagram => "UD",
        Service::XrcInitiator => "XRCI",
        Service::XrcTarget => "XRCT",
        Service::Gsi => "GSI",
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ferroce_embed::fabric::registry::ShownQp;
    use ferroce_spec::counter::COUNTERS;
    use ferroce_wire::{Psn, Qpn};

    use super::*;
    use crate::cli::counters::function::example;

    const SCREEN: Size = Size {
        columns: 120,
        rows: 24,
    };

    fn shown(values: &[(&'static str, u64)], qps: u32) -> Shown {
        let qp = |number| ShownQp {
            qpn: Qpn::new(0x1_0000 + number),
            service: Service::ReliableConnected,
            state: if number == 1 {
                QpState::Err
            } else {
                QpState::Rts
            },
            peer: Qpn::new(0x2_0000 + number),
            sq_psn: Psn::new(0),
            rq_psn: Psn::new(0),
        };
        Shown {
            claim: 1,
            function: example("ib_write_bw", values),
            qp_count: qps.into(),
            qps: (0..qps).map(qp).collect(),
        }
    }

    fn samples(now: Shown) -> (Sample, Sample) {
        let taken = Instant::now();
        let before = Sample {
            taken,
            functions: vec![shown(&[("tx_bytes", 1_000_000_000)], 0)],
        };
        let now = Sample {
            taken: taken + Duration::from_secs(2),
            functions: vec![now],
        };
        (before, now)
    }

    #[test]
    fn rates_are_those_between_the_samples_and_failures_come_first() {
        let counted = [("tx_bytes", 3_500_000_000), ("tx_no_route", 6)];
        let (before, now) = samples(shown(&counted, 2));
        let lines = lines(&before, &now, SCREEN);
        let text: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert!(
            text[0].contains("1 functions, 2 QPs, 10.00 Gb/s sent"),
            "{text:#?}"
        );
        assert!(
            text[3].contains(" ib_write_bw ") && text[3].contains(" 10.00 "),
            "{text:#?}"
        );
        assert_eq!(lines[3].look, Look::Failed);
        assert_eq!(
            text[6],
            "0x010001  RC    ERR    0x020001  7       ib_write_bw"
        );
        assert_eq!(lines[6].look, Look::Failed);
        assert!(
            text[10].contains("tx_no_route") && text[10].ends_with("3/s"),
            "{text:#?}"
        );
    }

    /// Method: draw many queue pairs and errors on screens of every size.
    #[test]
    fn lines_fit_every_screen() {
        let counted: Vec<_> = ERRORS.iter().map(|name| (*name, 1)).collect();
        let (before, now) = samples(shown(&counted, 100));
        for rows in 1..60 {
            for columns in [1, 20, 80, 200] {
                let lines = lines(&before, &now, Size { columns, rows });
                assert!(lines.len() <= usize::from(rows));
                let widest = lines.iter().map(|line| line.text.chars().count()).max();
                assert!(widest <= Some(columns.into()));
            }
        }
        let all = lines(&before, &now, SCREEN);
        let more = all
            .iter()
            .filter(|line| line.text.starts_with("and "))
            .count();
        assert_eq!(more, 2, "both lists are cut: {all:#?}");
    }

    #[test]
    fn each_counter_of_a_sum_exists() {
        for name in LOST.iter().chain(ERRORS) {
            assert!(COUNTERS.iter().any(|row| row.name == *name), "{name}");
        }
    }
}

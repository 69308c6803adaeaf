//! Nothing but the link limits: what remains of it for data is what the formulas of pcie-bench
//! say, for each generation, width, payload limit and size.

use ferroce_model::pcie::bench::{Direction, bandwidth};
use ferroce_model::pcie::{Parameters, raw_gbps, tlp_gbps};

const TABLE: &str = include_str!("../data/pcie_effective_bandwidth.csv");
const COLUMNS: &str = "gen,lanes,mps,mrrs,bytes,raw_gbps,tlp_gbps,write_gbps,read_gbps,\
                       read_write_gbps";

/// One line of the table: five whole numbers, five rates in Gb/s.
struct Row {
    link: [u32; 4],
    bytes: u64,
    gbps: [f64; 5],
}

fn rows() -> Vec<Row> {
    let mut lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(lines.next(), Some(COLUMNS));
    let row = |line: &str| {
        let fields: Vec<f64> = line
            .split(',')
            .map(|field| field.parse().expect("the table holds numbers"))
            .collect();
        Row {
            link: std::array::from_fn(|index| fields[index] as u32),
            bytes: fields[4] as u64,
            gbps: std::array::from_fn(|index| fields[5 + index]),
        }
    };
    lines.map(row).collect()
}

fn assert_near(row: &Row, what: &str, model: f64, formula: f64, tolerance: f64) {
    assert!(
        (model / formula - 1.0).abs() <= tolerance,
        "{:?}, {} B, {what}: model {model:.3}, formula {formula:.3}",
        row.link,
        row.bytes
    );
}

#[test]
fn rates_of_the_link_are_those_of_the_formula() {
    let rows = rows();
    assert_eq!(rows.len(), 165);
    for row in rows {
        let [generation, lanes, mps_bytes, _] = row.link;
        let raw = raw_gbps(generation, lanes);
        assert_near(&row, "raw", raw, row.gbps[0], 1e-4);
        let tlp = tlp_gbps(generation, lanes, mps_bytes);
        assert_near(&row, "TLPs", tlp, row.gbps[1], 1e-4);
    }
}

#[test]
fn bandwidth_is_that_of_the_formula() {
    let mut worst: f64 = 0.0;
    for row in rows() {
        let [generation, lanes, mps_bytes, mrrs_bytes] = row.link;
        let link = Parameters::link_alone(generation, lanes, mps_bytes, mrrs_bytes);
        let directions = [Direction::Write, Direction::Read, Direction::ReadWrite];
        for (index, direction) in directions.into_iter().enumerate() {
            let formula = row.gbps[2 + index];
            let model = bandwidth(&link, direction, row.bytes, 1 << 17, 20_000);
            assert_near(&row, &format!("{direction:?}"), model, formula, 0.01);
            worst = worst.max((model / formula - 1.0).abs());
        }
    }
    println!("largest difference: {:.3} %", 100.0 * worst);
}

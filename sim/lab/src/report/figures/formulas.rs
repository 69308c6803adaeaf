//! Plots that need no simulated host: datagrams of an FPGA card, and the cost of loss by formula.

use super::{Content, Recipe, load, series, stamp};
use crate::reference::builtin::Other;
use crate::report::figure::{Axis, Figure, Kind, Scale, Unit};
use crate::validate::datagram_echo;
use crate::validate::plan::Datagrams;

const U280: &str = "fpga-100g-u280";

/// The plots.
pub(super) const RECIPES: &[Recipe] = &[
    Recipe {
        id: "fpga-datagrams",
        chapter: "FPGA card and loss",
        cards: &["fpga-100g", U280],
        content: Content::Formula(datagrams),
    },
    Recipe {
        id: "loss",
        chapter: "FPGA card and loss",
        cards: &[],
        content: Content::Formula(loss),
    },
];

fn datagrams() -> Result<Figure, String> {
    let preset = load(U280)?;
    let csv = Other::FpgaUdp.csv();
    let measured = csv.series(&[], "payload_bytes", "gbps");
    let limit = csv.series(&[], "payload_bytes", "theoretical_gbps");
    let mut model = Vec::new();
    for (bytes, _) in &measured {
        let goodput = datagram_echo::figure(U280, Datagrams::Goodput(*bytes as u32))?;
        model.push((*bytes, goodput));
    }
    Ok(Figure {
        id: String::new(),
        title: "FPGA, 512 bit at 300 MHz: UDP goodput against payload".to_owned(),
        subtitle: "Alveo U280, 100 GbE, kernel to kernel over a direct cable (VNx)".to_owned(),
        caption: "Goodput is what the wire leaves but for payloads of 128 bytes, for which VNx's \
            UDP stack takes five cycles. MAC, width and clock of the model are those of our own \
            card's preset."
            .to_owned(),
        x: Axis::new("payload, bytes", Scale::Linear, Unit::Number),
        y: Axis::linear("Gb/s"),
        series: vec![
            series("wire", 5, Kind::Limit, limit),
            series("UDP", 0, Kind::Measured, measured),
            series("UDP", 0, Kind::Model, model),
        ],
        stamp: stamp(&[&preset]),
    })
}

fn loss() -> Result<Figure, String> {
    let csv = Other::LossAnalytic.csv();
    let of = |rtt, column| {
        let filter = [("link_gbps", "100"), ("mtu", "4096"), ("rtt_us", rtt)];
        csv.series(&filter, "loss", column)
    };
    let version = env!("CARGO_PKG_VERSION");
    Ok(Figure {
        id: String::new(),
        title: "Loss: goodput of go-back-N and selective repeat".to_owned(),
        subtitle: "100 Gb/s, MTU 4096; formulas, neither measured nor simulated".to_owned(),
        caption: "Only formulas so far: a fabric that drops frames is still to come, and with it \
            the model's own points. Go-back-N sends a whole window again for each packet lost, \
            selective repeat only the packet. Time-outs are not in it."
            .to_owned(),
        x: Axis::new(
            "probability that a packet is lost",
            Scale::Log,
            Unit::Probability,
        ),
        y: Axis::linear("share of the goodput without loss"),
        series: vec![
            series("selective repeat", 2, Kind::Limit, of("10", "sr_fraction")),
            series("GBN, 2 us", 0, Kind::Limit, of("2", "gbn_fraction")),
            series("GBN, 10 us", 1, Kind::Limit, of("10", "gbn_fraction")),
            series("GBN, 50 us", 3, Kind::Limit, of("50", "gbn_fraction")),
        ],
        stamp: format!("formulas · ferroce {version}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_have_points() {
        for make in [datagrams, loss] {
            let figure = make().expect("nothing can be missing");
            assert!(
                figure.series.iter().all(|series| series.points.len() > 5),
                "{figure:?}"
            );
        }
    }
}

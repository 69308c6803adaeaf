//! Datagrams of an FPGA card.

use super::{Content, Recipe, load, series, stamp};
use crate::reference::builtin::Other;
use crate::report::figure::{Axis, Figure, Kind, Scale, Sizes, Unit};
use crate::validate::datagram_echo;
use crate::validate::plan::Datagrams;

const U280: &str = "fpga-100g-u280";

/// The plots.
pub(super) const RECIPES: &[Recipe] = &[Recipe {
    id: "fpga-datagrams",
    chapter: "FPGA card",
    cards: &["fpga-100g", U280],
    content: Content::Alone(datagrams),
}];

fn datagrams() -> Result<Figure, String> {
    let preset = load(U280)?;
    let csv = Other::FpgaUdp.csv();
    let measured = csv.series(&[], "payload_bytes", "gbps");
    let limit = csv.series(&[], "payload_bytes", "theoretical_gbps");
    let mut model = Vec::new();
    for (bytes, _) in &measured {
        let goodput = datagram_echo::figure(&preset, Datagrams::Goodput(*bytes as u32))?;
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
        sizes: Sizes::None,
        commands: Vec::new(),
        compared: None,
        stamp: stamp(&[&preset]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_has_points() {
        let figure = datagrams().expect("nothing can be missing");
        assert!(
            figure.series.iter().all(|series| series.points.len() > 5),
            "{figure:?}"
        );
    }
}

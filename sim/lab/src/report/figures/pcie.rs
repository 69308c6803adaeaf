//! DMA over PCIe: pcie-bench and the model.

use ferroce_model::pcie::bench::Direction;

use super::{Recipe, load, series, stamp};
use crate::reference::builtin::Other;
use crate::report::figure::{Axis, Figure, Kind, Sizes, Unit};
use crate::validate::measure;
use crate::validate::plan::{Access, Slot, Statistic};

/// Contents of a plot.
#[derive(Clone, Copy)]
pub struct Content {
    title: &'static str,
    subtitle: &'static str,
    caption: &'static str,
    x: &'static str,
    y: &'static str,
    curves: &'static [Curve],
    /// Dashed lines: the formula of effective bandwidth.
    has_formula: bool,
}

/// A host of pcie-bench, and the preset that models it.
#[derive(Clone, Copy)]
struct Curve {
    label: &'static str,
    system: &'static str,
    slot: Slot,
    preset: &'static str,
    what: What,
}

/// Measured quantity, and the x axis.
#[derive(Clone, Copy)]
enum What {
    /// Bandwidth against size.
    BandwidthOfSize(Direction),
    /// Bandwidth of 64-byte reads against the window.
    BandwidthOfWindow,
    /// Mean latency of 64-byte reads against the window.
    LatencyOfWindow,
}

const HASWELL: &str = "hsw-Xeon-E5-2620v3_dell-t630";
const HASWELL_IOMMU: &str = "hsw-Xeon-E5-2620v3_dell-t630-iommu";
const HASWELL_SMALL_PAGES: &str = "hsw-Xeon-E5-2620v3_dell-t630-iommu-nosp";
const WARM: u64 = 8 << 10;

macro_rules! recipe {
    (
        $id:literal, $title:literal, $subtitle:literal, $caption:literal,
        $x:literal, $y:literal, $formula:literal, $curves:expr
    ) => {
        Recipe {
            id: $id,
            chapter: "PCIe and host memory",
            cards: &["nfp-6000"],
            content: super::Content::Pcie(Content {
                title: $title,
                subtitle: $subtitle,
                caption: $caption,
                x: $x,
                y: $y,
                curves: $curves,
                has_formula: $formula,
            }),
        }
    };
}

macro_rules! curve {
    ($label:literal, $system:expr, $slot:ident $preset:literal, $what:expr) => {
        Curve {
            label: $label,
            system: $system,
            slot: Slot::$slot($preset),
            preset: $preset,
            what: $what,
        }
    };
}

/// The plots.
pub(super) const RECIPES: &[Recipe] = &[
    recipe!(
        "pcie-bandwidth-size",
        "PCIe gen3 x8: bandwidth against transfer size",
        "NFP-6000 in a Xeon E5-2620 v3, warm cache, MPS 256 B, MRRS 512 B (pcie-bench, SIGCOMM \
         2018)",
        "Small reads are limited by how many can be under way, large ones by headers and flow \
         control: the dashed formula.",
        "transfer size, bytes",
        "Gb/s",
        true,
        &[
            curve!(
                "read", HASWELL, Engine "nfp-6000@haswell-e5-no-iommu",
                What::BandwidthOfSize(Direction::Read)
            ),
            curve!(
                "write", HASWELL, Engine "nfp-6000@haswell-e5-no-iommu",
                What::BandwidthOfSize(Direction::Write)
            ),
        ]
    ),
    recipe!(
        "pcie-bandwidth-window",
        "IOMMU: bandwidth of 64 B reads against window",
        "random reads; IOMMU with 2 MiB and with 4 KiB pages (pcie-bench, SIGCOMM 2018)",
        "With 4 KiB pages the IOTLB reaches 256 KiB and a little more; then page walks are the \
         limit. Superpages only lose what the cache misses cost.",
        "window of host memory, bytes",
        "Gb/s",
        false,
        &[
            curve!(
                "2 MiB pages", HASWELL_IOMMU, Engine "nfp-6000@haswell-e5",
                What::BandwidthOfWindow
            ),
            curve!(
                "4 KiB pages", HASWELL_SMALL_PAGES, Engine "nfp-6000@haswell-e5@small-pages",
                What::BandwidthOfWindow
            ),
        ]
    ),
    recipe!(
        "pcie-latency-window",
        "IOMMU: latency of 64 B reads against window",
        "one read at a time, mean; IOMMU off, with 2 MiB and with 4 KiB pages (pcie-bench, SIGCOMM \
         2018)",
        "A miss of the IOTLB costs 230 ns, one of the last-level cache 50 ns.",
        "window of host memory, bytes",
        "ns",
        false,
        &[
            curve!(
                "4 KiB pages", HASWELL_SMALL_PAGES, Command "nfp-6000@haswell-e5@small-pages",
                What::LatencyOfWindow
            ),
            curve!(
                "2 MiB pages", HASWELL_IOMMU, Command "nfp-6000@haswell-e5",
                What::LatencyOfWindow
            ),
            curve!(
                "IOMMU off", HASWELL, Command "nfp-6000@haswell-e5-no-iommu",
                What::LatencyOfWindow
            ),
        ]
    ),
];

pub(super) fn make(content: &Content) -> Result<Figure, String> {
    let mut figure = Figure {
        id: String::new(),
        title: content.title.to_owned(),
        subtitle: content.subtitle.to_owned(),
        caption: content.caption.to_owned(),
        x: Axis::bytes(content.x),
        y: Axis::new(
            content.y,
            crate::report::figure::Scale::Linear,
            Unit::Number,
        ),
        series: Vec::new(),
        sizes: Sizes::None,
        commands: Vec::new(),
        compared: None,
        stamp: String::new(),
    };
    let mut presets = Vec::new();
    for (color, curve) in content.curves.iter().enumerate() {
        let measured = measured(curve);
        let host = measure::parameters(curve.slot)?;
        let at = |x: &(f64, f64)| (x.0, measure::of_pcie(&host, access(curve.what, x.0 as u64)));
        let model = measured.iter().map(at).collect();
        if content.has_formula {
            let points = formula(curve.what);
            figure
                .series
                .push(series("formula", color, Kind::Limit, points));
        }
        figure
            .series
            .push(series(curve.label, color, Kind::Measured, measured));
        figure
            .series
            .push(series(curve.label, color, Kind::Model, model));
        presets.push(load(curve.preset)?);
    }
    figure.stamp = stamp(&presets.iter().collect::<Vec<_>>());
    Ok(figure)
}

fn access(what: What, x: u64) -> Access {
    match what {
        What::BandwidthOfSize(direction) => Access::Bandwidth(direction, x, WARM),
        What::BandwidthOfWindow => Access::Bandwidth(Direction::Read, 64, x),
        What::LatencyOfWindow => Access::Latency(64, x, Statistic::Mean),
    }
}

fn measured(curve: &Curve) -> Vec<(f64, f64)> {
    let warm = ("cache", "HWarm");
    let system = ("system", curve.system);
    let points = match curve.what {
        What::BandwidthOfSize(direction) => {
            let test = match direction {
                Direction::Write => "BW_DMA_WR",
                Direction::Read | Direction::ReadWrite => "BW_DMA_RD",
            };
            let csv = Other::PcieBandwidthSize.csv();
            csv.series(&[system, warm, ("test", test)], "bytes", "gbps")
        }
        What::BandwidthOfWindow => {
            let filter = [system, warm, ("test", "BW_DMA_RD"), ("bytes", "64")];
            Other::PcieBandwidthWindow
                .csv()
                .series(&filter, "window_bytes", "gbps")
        }
        What::LatencyOfWindow => {
            let filter = [system, warm, ("test", "LAT_CMD_RD"), ("bytes", "64")];
            Other::PcieLatencyWindow
                .csv()
                .series(&filter, "window_bytes", "avg_ns")
        }
    };
    // The source also has sizes that are not multiples of a cache line.
    let is_even = |x: f64| x == 16.0 || x == 32.0 || x % 64.0 == 0.0;
    points.into_iter().filter(|(x, _)| is_even(*x)).collect()
}

/// Returns the formula's values for Gen3 x8 with MPS 256, from its table.
fn formula(what: What) -> Vec<(f64, f64)> {
    let column = match what {
        What::BandwidthOfSize(Direction::Write) => "write_gbps",
        _ => "read_gbps",
    };
    let filter = [("gen", "3"), ("lanes", "8"), ("mps", "256")];
    let points = Other::PcieFormula.csv().series(&filter, "bytes", column);
    points
        .into_iter()
        .filter(|(x, _)| (16.0..=2048.0).contains(x))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::Content as Any;

    #[test]
    fn all_plots_can_be_made_and_are_near() {
        for recipe in RECIPES {
            let Any::Pcie(content) = &recipe.content else {
                panic!("{} is of another part", recipe.id);
            };
            let figure = make(content).expect("built-in presets");
            for (_, points) in figure.errors() {
                assert!(points.len() > 5, "{}", recipe.id);
                let mut errors: Vec<_> = points.iter().map(|point| point.1.abs()).collect();
                errors.sort_by(f64::total_cmp);
                assert!(errors[errors.len() / 2] < 15.0, "{}: {errors:?}", recipe.id);
            }
        }
    }
}

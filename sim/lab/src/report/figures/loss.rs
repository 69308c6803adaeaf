//! Plots of loss: goodput of each recovery and the formulas, the cost of timeouts, and the times of
//! retransmissions.

use super::{Content, Recipe, load, series};
use crate::faulty_link::{self, FaultyLink, Recovery, SEEDS};
use crate::reference::builtin::Other;
use crate::reference::experiment::Simulator;
use crate::report::figure::{Axis, Figure, Kind, Scale, Series, Sizes, Unit};
use crate::resends::{self, Resends, Silence};
use crate::validate::parallel;

const CHAPTER: &str = "Loss and recovery";
const LOSSES: &[f64] = &[1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];
/// Loss rates at which a lost retransmission is likely.
const HIGH_LOSSES: &[f64] = &[1e-4, 1e-3, 1e-2, 1e-1];
/// perftest's local ACK timeout (`DEF_QP_TIME`).
const DEFAULT_TIMEOUT: u8 = 14;
/// Retransmission times observed on a ConnectX-5: intervals of 2, 4, 8 and 16 ms (perftest, issue
/// 251).
const RESENT_MS: &[(f64, f64)] = &[(2.0, 2.0), (3.0, 6.0), (4.0, 14.0), (5.0, 30.0)];

/// The plots.
pub(super) const RECIPES: &[Recipe] = &[
    recipe("loss", Content::Simulated(loss)),
    recipe("loss-timeout", Content::Simulated(timeouts)),
    recipe("resends", Content::Alone(resends)),
];

const fn recipe(id: &'static str, content: Content) -> Recipe {
    Recipe {
        id,
        chapter: CHAPTER,
        cards: &[faulty_link::CARD],
        content,
    }
}

/// A line of the model.
struct Curve {
    label: &'static str,
    color: usize,
    link: FaultyLink,
}

const fn curve(label: &'static str, color: usize, link: FaultyLink) -> Curve {
    Curve { label, color, link }
}

const GO_BACK_N: FaultyLink = FaultyLink::new(Recovery::GoBackN);
const SELECTIVE: FaultyLink = FaultyLink::new(Recovery::SelectiveRepeat);
const ADAPTIVE: FaultyLink = FaultyLink::new(Recovery::AdaptiveRouting);

fn loss(simulator: &dyn Simulator) -> Result<Figure, String> {
    let curves = [
        curve("go-back-N", 0, GO_BACK_N),
        curve("selective repeat", 2, SELECTIVE),
        curve("adaptive routing", 1, ADAPTIVE),
    ];
    let formula = |label, color, column| series(label, color, Kind::Limit, analytic(column));
    let mut all = model(simulator, &curves, LOSSES)?;
    all.push(formula("formula, go-back-N", 0, "gbn_fraction"));
    all.push(formula("formula, selective", 2, "sr_fraction"));
    Ok(Figure {
        id: String::new(),
        title: "Goodput of WRITEs against loss, by recovery".to_owned(),
        subtitle: "100 Gb/s, 10 us round trip, MTU 1024, messages of 1 MiB, -u 2; the model only"
            .to_owned(),
        caption:
            "A loss costs go-back-N what is under way, the others a packet. The formulas know \
            the link alone. In the card up to 128 packets wait for the MAC, which leave before the \
            one that is missing, and a lost retransmission waits for its time-out (65 us): \
            go-back-N is below its formula. With selective repeat the responder writes what it has \
            held when the gap closes, and PCIe 3.0 can only write 12 % more than arrives; with \
            PCIe 4.0 it is near its formula. Adaptive routing writes at once; the address in each \
            packet costs 1.5 %. At 1e-1 its window of 512 packets fills while a packet is lost \
            several times."
                .to_owned(),
        x: loss_axis(),
        y: Axis::linear("share of the goodput of go-back-N without loss"),
        series: all,
        sizes: Sizes::None,
        commands: Vec::new(),
        compared: None,
        stamp: stamp()?,
    })
}

fn timeouts(simulator: &dyn Simulator) -> Result<Figure, String> {
    let curves = [
        curve("-u 2", 0, GO_BACK_N),
        curve("-u 8", 2, GO_BACK_N.local_ack_timeout(8)),
        curve("-u 14", 1, GO_BACK_N.local_ack_timeout(DEFAULT_TIMEOUT)),
    ];
    Ok(Figure {
        id: String::new(),
        title: "Go-back-N: what the local ACK timeout costs under loss".to_owned(),
        subtitle: "same link; -u 2 is 16 us, -u 8 is 1 ms, -u 14, perftest's default, 67 ms; the \
            model only"
            .to_owned(),
        caption: "IBTA lets a responder send one NAK for a gap. When the packet that go-back-N \
            sends again is lost, too, only the time-out is left, of which this card waits four \
            times as long. With perftest's default the goodput is about zero above 1 %, as Wang et \
            al. (ICCCN 2019) say of RoCEv2."
            .to_owned(),
        x: loss_axis(),
        y: Axis::log("share of the goodput without loss"),
        series: model(simulator, &curves, HIGH_LOSSES)?,
        sizes: Sizes::None,
        commands: Vec::new(),
        compared: None,
        stamp: stamp()?,
    })
}

fn resends() -> Result<Figure, String> {
    let case = Resends {
        profile: None,
        local_ack_timeout: 18,
        silence: Silence::Delay,
        qps: 1,
    };
    let times = case.times_us()?;
    let first = times.first().ok_or("no request was sent")?;
    let numbered = (1u32..).map(f64::from).zip(first);
    let model = numbered.skip(1).map(|(number, us)| (number, us / 1000.0));
    let card = load(resends::CARD)?;
    Ok(Figure {
        id: String::new(),
        title: "Adaptive retransmission: when a READ request is sent again".to_owned(),
        subtitle:
            "ib_read_bw -s 262144 -u 18 with 40 ms of delay; ConnectX-5 (perftest, issue 251)"
                .to_owned(),
        caption:
            "The adaptive timer doubles from 2 to 16 ms, whatever the local ACK timeout (1 s) \
            is. The first response is there before the next one. The model's unit is 4 us times a \
            power of two, so that 2 ms are 2.048 ms."
                .to_owned(),
        x: Axis::new("transmission", Scale::Linear, Unit::Number),
        y: Axis::linear("ms since the first one"),
        series: vec![
            series("request", 0, Kind::Measured, RESENT_MS.to_vec()),
            series("request", 0, Kind::Model, model.collect()),
        ],
        sizes: Sizes::None,
        commands: Vec::new(),
        compared: None,
        stamp: super::stamp(&[&card]),
    })
}

/// Runs the curves at each of these losses.
fn model(
    simulator: &dyn Simulator,
    curves: &[Curve],
    losses: &[f64],
) -> Result<Vec<Series>, String> {
    let points: Vec<(usize, f64)> = (0..curves.len())
        .flat_map(|curve| losses.iter().map(move |loss| (curve, *loss)))
        .collect();
    let goodputs = parallel::map(&points, |(curve, loss)| {
        let link = curves[*curve].link.losing(*loss);
        faulty_link::figure(simulator, &link, faulty_link::Figure::Goodput)
    });
    let mut all: Vec<Series> = curves
        .iter()
        .map(|curve| series(curve.label, curve.color, Kind::Model, Vec::new()))
        .collect();
    for ((curve, loss), goodput) in points.into_iter().zip(goodputs) {
        all[curve].points.push((loss, goodput?));
    }
    Ok(all)
}

/// Returns a column of the formulas for the link of the plots.
fn analytic(column: &str) -> Vec<(f64, f64)> {
    let link = [("link_gbps", "100"), ("mtu", "1024"), ("rtt_us", "10")];
    Other::LossAnalytic.csv().series(&link, "loss", column)
}

fn loss_axis() -> Axis {
    Axis::new(
        "probability that a packet is lost",
        Scale::Log,
        Unit::Probability,
    )
}

/// Returns the conditions of the plots of goodput.
fn stamp() -> Result<String, String> {
    let preset = GO_BACK_N.preset()?;
    let (name, hash) = (preset.name(), preset.hash() >> 32);
    let (version, first, last) = (env!("CARGO_PKG_VERSION"), SEEDS.start(), SEEDS.end());
    Ok(format!(
        "{name} with link.cable_ns={} ({hash:08x}) · ferroce {version} · mean of seeds {first} to \
         {last}",
        faulty_link::CABLE_NS
    ))
}

#[cfg(test)]
mod tests {
    use ferroce_perf::{PerfResult, PerfSpec};

    use super::*;
    use crate::reference::experiment::Harness;

    /// The harness with few messages.
    struct Short;

    impl Simulator for Short {
        fn run(&self, spec: &PerfSpec) -> Result<PerfResult, String> {
            let mut spec = spec.clone();
            spec.iterations = ferroce_perf::Iterations::Exactly(16);
            Harness.run(&spec)
        }
    }

    /// Goal: the curves of loss come from the model, not from formulas. Method: run the model with
    /// few messages; check the effect of loss on each recovery, and compare with two formulas.
    #[test]
    fn goodput_against_loss_is_measured_for_each_recovery() {
        let figure = loss(&Short).expect("it runs");
        let of = |kind| {
            figure
                .series
                .iter()
                .filter(move |series| series.kind == kind)
        };
        let model: Vec<_> = of(Kind::Model).collect();
        assert_eq!((model.len(), of(Kind::Limit).count()), (3, 2));
        for series in &model {
            let losses: Vec<f64> = series.points.iter().map(|point| point.0).collect();
            assert_eq!(losses, LOSSES, "{}", series.label);
            let (first, last) = (series.points[0].1, series.points[LOSSES.len() - 1].1);
            assert!(first > 0.97 && last < 0.9 * first, "{series:?}");
        }
        let [go_back_n, selective, adaptive] = model[..] else {
            panic!("{model:?}");
        };
        for (index, loss) in LOSSES.iter().enumerate().filter(|(_, loss)| **loss >= 1e-3) {
            let base = go_back_n.points[index].1;
            let better = [selective, adaptive].map(|series| series.points[index].1);
            assert!(
                better.iter().all(|share| *share > base),
                "{loss}: {base} {better:?}"
            );
        }
        assert!(of(Kind::Limit).all(|series| series.points.len() > LOSSES.len()));
    }

    #[test]
    fn a_request_is_sent_again_as_on_the_card() {
        let figure = resends().expect("it runs");
        let errors = figure.errors();
        assert_eq!((errors.len(), errors[0].1.len()), (1, RESENT_MS.len()));
        assert!(errors[0].1.iter().all(|(_, percent)| percent.abs() < 3.0));
    }
}

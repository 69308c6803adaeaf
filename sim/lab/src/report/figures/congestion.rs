//! Plots of incast: rates and queue over time, fairness, completion times.

use ferroce_perf::traffic::Traffic;

use super::{Content, Recipe, load, series, stamp};
use crate::incast::{self, Incast, Source, traffic};
use crate::reference::experiment::Simulator;
use crate::report::figure::{Axis, Figure, Kind, Series, Sizes};

const CHAPTER: &str = "Congestion";
/// Number of senders of the plots over time: few enough for a line each.
const FLOWS: u32 = 4;
/// Numbers of senders on the x axis of the other plots.
const SENDERS: &[u32] = &[2, 4, 8, 16];
/// Parameters that are compared.
const SOURCES: [(&str, usize, Source); 2] = [
    ("ConnectX", 0, Source::ConnectX),
    ("DCQCN paper", 1, Source::Paper),
];

/// The plots.
pub(super) const RECIPES: &[Recipe] = &[
    recipe("incast-rates", rates_of_connectx),
    recipe("incast-rates-paper", rates_of_paper),
    recipe("incast-queue", queue),
    recipe("incast-fairness", fairness),
    recipe("incast-completion", completion),
];

const fn recipe(id: &'static str, make: fn(&dyn Simulator) -> Result<Figure, String>) -> Recipe {
    Recipe {
        id,
        chapter: CHAPTER,
        cards: &[incast::CARD],
        content: Content::Simulated(make),
    }
}

fn run(simulator: &dyn Simulator, senders: u32, source: Source) -> Result<Traffic, String> {
    traffic(simulator, &Incast { senders, source })
}

/// Texts of a plot.
struct Texts {
    title: String,
    subtitle: &'static str,
    caption: &'static str,
}

fn figure(texts: Texts, (x, y): (Axis, Axis), series: Vec<Series>) -> Result<Figure, String> {
    Ok(Figure {
        id: String::new(),
        title: texts.title,
        subtitle: texts.subtitle.to_owned(),
        caption: texts.caption.to_owned(),
        x,
        y,
        series,
        sizes: Sizes::None,
        commands: Vec::new(),
        compared: None,
        stamp: stamp(&[&load(incast::CARD)?]),
    })
}

fn time() -> Axis {
    Axis::linear("ms since the first post")
}

fn rates_of_connectx(simulator: &dyn Simulator) -> Result<Figure, String> {
    let texts = Texts {
        title: format!("{FLOWS} hosts that send to one: rate of each flow"),
        subtitle: "ConnectX-5, its defaults; Kmin 400 KB, Kmax 1.6 MB, Pmax 0.2; the model only",
        caption: "The first notifications cut the rates every 4 us by up to one half. A step of \
            the timer (300 us) takes back half of the way, and steps of 5 and 50 Mb/s follow.",
    };
    rates(simulator, Source::ConnectX, texts)
}

fn rates_of_paper(simulator: &dyn Simulator) -> Result<Figure, String> {
    let texts = Texts {
        title: format!("{FLOWS} hosts that send to one, with the DCQCN paper's parameters"),
        subtitle: "ConnectX-5 with them; Kmin 10 KB, Kmax 100 KB, Pmax 0.01; the model only",
        caption: "A cut comes in 50 us at most, and five steps of the timer (50 us) bring the rate \
            back.",
    };
    rates(simulator, Source::Paper, texts)
}

fn rates(simulator: &dyn Simulator, source: Source, texts: Texts) -> Result<Figure, String> {
    let course = run(simulator, FLOWS, source)?.course;
    let lines = course.flows_gbps.iter().enumerate().map(|(flow, rates)| {
        let points = course.middles_ms().zip(rates.iter().copied());
        series(&format!("n{flow}"), flow, Kind::Model, points.collect())
    });
    figure(
        texts,
        (time(), Axis::linear("Gb/s of payload")),
        lines.collect(),
    )
}

fn queue(simulator: &dyn Simulator) -> Result<Figure, String> {
    let mut lines = Vec::new();
    for (label, color, source) in SOURCES {
        let course = run(simulator, FLOWS, source)?.course;
        let kilobytes = course.queue_bytes.iter().map(|bytes| bytes / 1000.0);
        let points = course.middles_ms().zip(kilobytes).collect();
        lines.push(series(label, color, Kind::Model, points));
    }
    let texts = Texts {
        title: format!("{FLOWS} hosts that send to one: the queue of the switch"),
        subtitle: "means of a hundredth of the run; WRITE 64 KiB, MTU 4096; the model only",
        caption: "The switch marks from 400 KB on behind ConnectX's parameters, and from 10 KB on \
            behind those of the paper. Neither drops a packet.",
    };
    figure(texts, (time(), Axis::linear("KB that wait")), lines)
}

fn fairness(simulator: &dyn Simulator) -> Result<Figure, String> {
    let lines = over_senders(simulator, ("", 0), |traffic| traffic.least_of_most)?;
    let texts = Texts {
        title: "Hosts that send to one: the slowest flow beside the fastest".to_owned(),
        subtitle: "from one half to seven eighths of the time in which all send; WRITE 64 KiB, \
            MTU 4096; the model only",
        caption: "1 is fair. Rates that were cut too far come back by some Mb/s a step: more flows \
            need more time than this run has.",
    };
    let y = Axis::linear("rate of the slowest flow, of that of the fastest");
    figure(texts, (Axis::count("senders"), y), lines)
}

fn completion(simulator: &dyn Simulator) -> Result<Figure, String> {
    let ms = |ps: u64| ps as f64 / 1e9;
    let medians = over_senders(simulator, (", median", 0), |it| ms(it.completion_ps.0))?;
    let last = over_senders(simulator, (", 99 %", SOURCES.len()), |it| {
        ms(it.completion_ps.1)
    })?;
    let texts = Texts {
        title: "Hosts that send to one: time until a flow is complete".to_owned(),
        subtitle: "as many WRITEs of 64 KiB of each flow, MTU 4096; the model only",
        caption: "A median far below the 99th percentile: some flows had more than their share.",
    };
    let axes = (Axis::count("senders"), Axis::log("ms"));
    figure(texts, axes, [medians, last].concat())
}

/// Returns a figure over the number of senders with a line for each set of parameters. Its label
/// gets a suffix, and its colour an offset.
fn over_senders(
    simulator: &dyn Simulator,
    (suffix, colors): (&str, usize),
    figure: impl Fn(&Traffic) -> f64,
) -> Result<Vec<Series>, String> {
    let line = |(label, color, source): (&str, usize, Source)| {
        let points = SENDERS.iter().map(|senders| {
            let traffic = run(simulator, *senders, source)?;
            Ok((f64::from(*senders), figure(&traffic)))
        });
        let points: Result<_, String> = points.collect();
        let label = format!("{label}{suffix}");
        Ok(series(&label, color + colors, Kind::Model, points?))
    };
    SOURCES.into_iter().map(line).collect()
}

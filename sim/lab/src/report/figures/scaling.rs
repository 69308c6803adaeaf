//! Rates against QPs, regions, threads and depth: they drop when state no longer fits on the card.

use ferroce_perf::{Operation, PageSize};

use super::{Recipe, load, series, stamp};
use crate::reference::Rows;
use crate::reference::builtin::Other;
use crate::reference::experiment::{self, Simulator};
use crate::report::figure::{Axis, Figure, Kind, Sizes};
use crate::validate::parallel;
use crate::validate::plan::Perf;

/// Contents of a plot.
#[derive(Clone, Copy)]
pub struct Content {
    title: &'static str,
    subtitle: &'static str,
    caption: &'static str,
    x: &'static str,
    curves: &'static [Curve],
}

/// A line, and the points that it should match.
#[derive(Clone, Copy)]
struct Curve {
    label: &'static str,
    measured: Measured,
    /// Values of x at which the model is run.
    at: &'static [u32],
    /// The run at an x.
    run: fn(u32) -> Perf,
}

/// Points of one of the files.
#[derive(Clone, Copy)]
enum Measured {
    /// Not measured.
    Nothing,
    /// READs of ConnectX-3 against QPs: the best window of each.
    QpScaling,
    /// A policy of a figure of ConnectX-6 against threads.
    Threads(&'static str, &'static str),
    /// A figure of ConnectX-6 against work requests outstanding, with 96 threads.
    Outstanding(&'static str),
}

const SMART: &str = "cx6-200g@xeon-6240r";
const SMART_OWN: &str = "cx6-200g@xeon-6240r@uar-per-thread";
const THREADS: &[u32] = &[1, 8, 16, 24, 32, 48, 64, 96];
const OUTSTANDING: &[u32] = &[96, 384, 768, 1536, 2304, 3072];
/// The card reserves a few of its 16,384 QPs.
const QPS: &[u32] = &[1, 4, 16, 64, 256, 1024, 2048, 4096, 8192, 16000];
const REGIONS: &[u32] = &[16, 64, 256, 1024, 2048, 4096, 8192, 16384];
const KIB: &[u32] = &[64, 1024, 4096, 16384, 65536, 262_144, 524_288, 1_048_576];

fn own_doorbells(threads: u32) -> Perf {
    Perf::bandwidth(SMART_OWN, Operation::Read, &[8])
        .batches(threads, 8)
        .pages(PageSize::Huge2M)
}

fn shared_doorbells(threads: u32) -> Perf {
    Perf::bandwidth(SMART, Operation::Read, &[8])
        .batches(threads, 8)
        .pages(PageSize::Huge2M)
}

fn shared_qp(threads: u32) -> Perf {
    shared_doorbells(threads).shared_qp()
}

fn outstanding(operation: Operation, count: u32) -> Perf {
    Perf::bandwidth(SMART_OWN, operation, &[8])
        .batches(96, count / 96)
        .pages(PageSize::Huge2M)
}

fn apt(qps: u32) -> Perf {
    let perf = Perf::bandwidth("cx3-40g@apt-fdr", Operation::Read, &[32]);
    perf.all_to_all(11, 8, qps / 88, 16).pages(PageSize::Huge2M)
}

fn cx5(operation: Operation, qps: u32) -> Perf {
    let perf = Perf::bandwidth("cx5-100g@uar-per-thread", operation, &[64]);
    perf.queue_pairs(qps, qps.min(16), 4)
}

fn regions(count: u32) -> Perf {
    let perf = Perf::bandwidth("cx5-100g", Operation::Read, &[64]);
    perf.window(16, 16, 32).regions(count, 4096)
}

fn pages(pages: PageSize, kib: u32) -> Perf {
    let perf = Perf::bandwidth("cx5-100g", Operation::Read, &[64]);
    perf.batches(16, 32)
        .regions(1, u64::from(kib) << 10)
        .pages(pages)
}

const fn curve(
    label: &'static str,
    measured: Measured,
    at: &'static [u32],
    run: fn(u32) -> Perf,
) -> Curve {
    Curve {
        label,
        measured,
        at,
        run,
    }
}

macro_rules! recipe {
    (
        $id:literal, $cards:expr, $title:literal,
        $subtitle:literal, $caption:literal, $x:literal, $curves:expr
    ) => {
        Recipe {
            id: $id,
            chapter: "Many QPs, regions and threads",
            cards: $cards,
            content: super::Content::Scaling(Content {
                title: $title,
                subtitle: $subtitle,
                caption: $caption,
                x: $x,
                curves: $curves,
            }),
        }
    };
}

/// The plots.
pub(super) const RECIPES: &[Recipe] = &[
    recipe!(
        "cx3-qps",
        &["cx3-40g"],
        "ConnectX-3: READ rate of a host against QPs",
        "32 B, 11 hosts all to all, 8 threads each; measured: best of three windows (FaSST, OSDI \
         2016)",
        "88 QPs still fit on the card, 176 do not: each packet then waits for a QP context from \
         host memory.",
        "QPs of a host",
        &[curve(
            "READ",
            Measured::QpScaling,
            &[88, 176, 264, 440, 792],
            apt
        )]
    ),
    recipe!(
        "cx5-qps",
        &["cx5-100g"],
        "ConnectX-5: READ and WRITE rate against QPs",
        "64 B, up to 16 threads, depth 4 of each QP, QPs in turn; the model only",
        "The cliff is where QP contexts no longer fit into the card's caches. Of real cards it is \
         reported that READ loses more than WRITE; where the lines say otherwise, the model is \
         wrong so far.",
        "QPs",
        &[
            curve("WRITE", Measured::Nothing, QPS, |qps| cx5(
                Operation::Write,
                qps
            )),
            curve("READ", Measured::Nothing, QPS, |qps| cx5(
                Operation::Read,
                qps
            )),
        ]
    ),
    recipe!(
        "cx5-regions",
        &["cx5-100g"],
        "ConnectX-5: READ rate against memory regions",
        "64 B, 16 threads and QPs, 32 outstanding each, regions of 4 KiB; the model only",
        "Each region has an MPT entry and here one page. The cliff is where they no longer fit \
         into the card's caches.",
        "memory regions",
        &[curve("READ", Measured::Nothing, REGIONS, regions)]
    ),
    recipe!(
        "cx5-pages",
        &["cx5-100g"],
        "ConnectX-5: READ rate against size of the region, by page size",
        "64 B at random places of one region, 16 threads and QPs, 32 outstanding each; the model \
         only",
        "Each page has an MTT entry: 4 KiB pages run out of the card's cache first, larger ones \
         later or never. A region that is physically contiguous has no entries at all. From the \
         size of the last-level cache on, host memory is slower, too.",
        "size of the region, KiB",
        &[
            curve("4 KiB pages", Measured::Nothing, KIB, |kib| pages(
                PageSize::Small,
                kib
            )),
            curve("2 MiB pages", Measured::Nothing, KIB, |kib| pages(
                PageSize::Huge2M,
                kib
            )),
            curve("1 GiB pages", Measured::Nothing, KIB, |kib| pages(
                PageSize::Huge1G,
                kib
            )),
            curve("physical", Measured::Nothing, KIB, |kib| pages(
                PageSize::Physical,
                kib
            )),
        ]
    ),
    recipe!(
        "cx6-threads",
        &["cx6-200g"],
        "ConnectX-6: READ rate against threads",
        "8 B, 8 outstanding each; what threads share differs (SMART, ASPLOS 2024)",
        "Shared doorbells and shared QPs are locks of the host; the card is the same.",
        "threads",
        &[
            curve(
                "own doorbells",
                Measured::Threads("fig3a", "rdma-read-per-doorbell"),
                THREADS,
                own_doorbells
            ),
            curve(
                "16 doorbells",
                Measured::Threads("fig3a", "rdma-read-per-qp"),
                THREADS,
                shared_doorbells
            ),
            curve(
                "one QP",
                Measured::Threads("fig3a", "rdma-read-shared-qp"),
                THREADS,
                shared_qp
            ),
        ]
    ),
    recipe!(
        "cx6-outstanding",
        &["cx6-200g"],
        "ConnectX-6: rate against work requests outstanding",
        "8 B, 96 threads with a QP and a doorbell each (SMART, ASPLOS 2024)",
        "Beyond what the card's WQE cache holds, a response must fetch its work request again.",
        "work requests outstanding",
        &[
            curve(
                "READ",
                Measured::Outstanding("fig4a"),
                OUTSTANDING,
                |count| outstanding(Operation::Read, count)
            ),
            curve(
                "WRITE",
                Measured::Outstanding("fig4b"),
                OUTSTANDING,
                |count| outstanding(Operation::Write, count)
            ),
        ]
    ),
];

pub(super) fn make(simulator: &dyn Simulator, content: &Content) -> Result<Figure, String> {
    let mut figure = Figure {
        id: String::new(),
        title: content.title.to_owned(),
        subtitle: content.subtitle.to_owned(),
        caption: content.caption.to_owned(),
        x: Axis::count(content.x),
        y: Axis::log("M messages/s"),
        series: Vec::new(),
        sizes: Sizes::None,
        commands: Vec::new(),
        compared: None,
        stamp: String::new(),
    };
    let mut presets = Vec::new();
    for (color, curve) in content.curves.iter().enumerate() {
        let measured = measured(curve.measured);
        if !measured.is_empty() {
            figure
                .series
                .push(series(curve.label, color, Kind::Measured, measured));
        }
        let (model, problem) = model(simulator, curve)?;
        if let Some(problem) = problem {
            figure
                .caption
                .push_str(&format!(" Points are missing: {problem}."));
        }
        figure
            .series
            .push(series(curve.label, color, Kind::Model, model));
        presets.push(load((curve.run)(curve.at[0]).preset)?);
    }
    figure.stamp = stamp(&presets.iter().collect::<Vec<_>>());
    Ok(figure)
}

/// The points that can be run, and the reason why one cannot; an error if none can.
type Model = (Vec<(f64, f64)>, Option<String>);

fn model(simulator: &dyn Simulator, curve: &Curve) -> Result<Model, String> {
    let results = parallel::map(curve.at, |x| {
        Ok((f64::from(*x), rate(simulator, curve, *x)?))
    });
    let mut points = Vec::new();
    let mut problem: Option<String> = None;
    for result in results {
        match result {
            Ok(point) => points.push(point),
            Err(error) => problem = Some(error),
        }
    }
    match (points.is_empty(), problem) {
        (true, Some(error)) => Err(error),
        (_, problem) => {
            let first = |error: String| error.lines().next().unwrap_or("").to_owned();
            Ok((points, problem.map(first)))
        }
    }
}

fn rate(simulator: &dyn Simulator, curve: &Curve, x: u32) -> Result<f64, String> {
    let perf = (curve.run)(x);
    let Rows::Bandwidth(rows) = experiment::run(simulator, &perf.spec()?)? else {
        return Err("the run has no message rate".to_owned());
    };
    let last = rows.last().ok_or("the run has no rows")?;
    Ok(last.message_rate_mpps / f64::from(perf.requesting_hosts()))
}

fn measured(measured: Measured) -> Vec<(f64, f64)> {
    let threads = || Other::ThreadScaling.csv();
    let points = match measured {
        Measured::Nothing => Vec::new(),
        Measured::QpScaling => {
            let filter = [("machines", "11"), ("op", "READ"), ("bytes", "32")];
            let csv = Other::QpScaling.csv();
            csv.series(&filter, "qps_per_nic", "mops_per_machine_mean")
        }
        Measured::Threads(figure, policy) => {
            let filter = [("figure", figure), ("policy", policy)];
            threads().series(&filter, "threads", "mops")
        }
        Measured::Outstanding(figure) => {
            let filter = [("figure", figure), ("threads", "96")];
            threads().series(&filter, "outstanding_total", "mops")
        }
    };
    best_of_each(points)
}

/// Returns the best of several runs at one x.
fn best_of_each(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    points.dedup_by(|next, kept| next.0 == kept.0);
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_points_are_found() {
        let qps = measured(Measured::QpScaling);
        assert_eq!((qps[0], qps[1]), ((88.0, 7.67), (176.0, 2.72)));
        let threads = measured(Measured::Threads("fig3a", "rdma-read-shared-qp"));
        assert_eq!((threads.len(), threads[0]), (13, (1.0, 1.903)));
        let outstanding = measured(Measured::Outstanding("fig4a"));
        assert!(outstanding.contains(&(768.0, 110.982)), "{outstanding:?}");
    }
}

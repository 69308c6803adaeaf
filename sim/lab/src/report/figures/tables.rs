//! perftest's tables and the model.

use ferroce_model::preset::Preset;

use super::{Recipe, load, series, stamp};
use crate::reference::experiment::{self, Simulator};
use crate::reference::{Rows, Table, builtin, wire_limit};
use crate::report::figure::{Axis, Figure, Kind, Series, Sizes};

/// Longer messages are not shown: the wire limits their rate, and it is small.
const RATE_BYTES_MAX: u64 = 64 << 10;

/// A column of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Bandwidth against size.
    Bandwidth,
    /// Message rate against size.
    Rate,
    /// Latency against size.
    Latency,
}

/// A table, and the preset that it is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    pub(super) label: &'static str,
    pub(super) table: &'static str,
    pub(super) preset: &'static str,
}

/// Contents of a plot.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    title: &'static str,
    subtitle: &'static str,
    caption: &'static str,
    column: Column,
    curves: &'static [Curve],
}

pub(super) const fn curve(label: &'static str, table: &'static str, preset: &'static str) -> Curve {
    Curve {
        label,
        table,
        preset,
    }
}

macro_rules! recipe {
    (
        $id:literal, $cards:expr, $column:ident,
        $title:literal, $subtitle:literal, $caption:literal, $curves:expr
    ) => {
        Recipe {
            id: $id,
            chapter: "perftest, one QP",
            cards: $cards,
            content: super::Content::Tables(Content {
                title: $title,
                subtitle: $subtitle,
                caption: $caption,
                column: Column::$column,
                curves: $curves,
            }),
        }
    };
}

const CX3: &[Curve] = &[
    curve("WRITE", "cx3_qdr40_ib_write_bw", "cx3-40g@xeon-qdr"),
    curve("READ", "cx3_qdr40_ib_read_bw", "cx3-40g@xeon-qdr"),
    curve("SEND", "cx3_qdr40_ib_send_bw", "cx3-40g@xeon-qdr"),
];

const CX3_LATENCY: &[Curve] = &[
    curve("WRITE", "cx3_qdr40_ib_write_lat", "cx3-40g@xeon-qdr"),
    curve("READ, gen2", "mlx4_qdr40_ib_lat:read", "cx3-40g@gen2-qdr"),
    curve("SEND, gen2", "mlx4_qdr40_ib_lat:send", "cx3-40g@gen2-qdr"),
];

const CX4LX: &[Curve] = &[
    curve("25G SEND", "cx4lx_25g_roce_send_bw", "cx4lx-25g"),
    curve("10G SEND", "cx4lx_10g_roce_send_bw", "cx4lx-10g"),
];

const CX5: &[Curve] = &[
    curve(
        "WRITE, 1024",
        "mlx5_100g_roce_mtu1024_write_bw_gpumem",
        "cx5-100g@gpu-on-switch",
    ),
    curve(
        "SEND, VF",
        "cx5_edr100_ib_vf_send_bw",
        "cx5-100g@azure-hc44rs",
    ),
    curve("WRITE, EDR", "edr100_ib_write_bw_k8s", "cx5-100g@edr-xeon"),
    curve(
        "SEND, 4096",
        "nonmlx_100g_roce_mtu4096_send_bw",
        "cx5-100g@roce-350",
    ),
];

const CX5_LATENCY: &[Curve] = &[
    curve(
        "SEND, VF",
        "cx5_edr100_ib_vf_send_lat",
        "cx5-100g@azure-hc44rs",
    ),
    curve("SEND, UD", "cx5_edr100_ib_ud_send_lat", "cx5-100g@edr-ud"),
    curve(
        "UD, direct",
        "cx4_edr100_ib_ud_direct_send_lat",
        "cx5-100g@edr-direct-e5",
    ),
];

const CX6: &[Curve] = &[
    curve("CX-6 WRITE", "cx6_hdr200_ib_write_bw", "cx6-200g@epyc-hdr"),
    curve(
        "CX-7 WRITE",
        "cx7_400g_gke_a3ultra_gpumem_write_bw_partial",
        "cx7-400g@cloud-400g",
    ),
];

const CX6_LATENCY: &[Curve] = &[curve(
    "WRITE",
    "cx6_hdr200_ib_write_lat",
    "cx6-200g@epyc-hdr",
)];

/// The plots.
pub(super) const RECIPES: &[Recipe] = &[
    recipe!(
        "cx3-bandwidth",
        &["cx3-40g"],
        Bandwidth,
        "ConnectX-3: bandwidth against message size",
        "InfiniBand QDR (32 Gb/s of data), MTU 2048, depth 128, 20 000 iterations",
        "Small messages are a matter of the host, which posts one at a time; large ones of the \
         link. READ stays below WRITE between 256 B and 2 KiB, where the responder's PCIe reads \
         limit it.",
        CX3
    ),
    recipe!(
        "cx3-rate",
        &["cx3-40g"],
        Rate,
        "ConnectX-3: message rate against message size",
        "InfiniBand QDR (32 Gb/s of data), MTU 2048, depth 128, 20 000 iterations",
        "The same runs as messages per second.",
        CX3
    ),
    recipe!(
        "cx3-latency",
        &["cx3-40g"],
        Latency,
        "ConnectX-3: latency against message size",
        "WRITE and SEND: half of a round trip; READ: all of it. READ and SEND in a gen2 x8 slot",
        "The step after 128 B is where a payload no longer fits inline: the card must first read \
         it from host memory.",
        CX3_LATENCY
    ),
    recipe!(
        "cx4lx-bandwidth",
        &["cx4lx-10g", "cx4lx-25g"],
        Bandwidth,
        "ConnectX-4 Lx: bandwidth against message size",
        "RoCEv2, MTU 1024, ib_send_bw -a",
        "Both links are full from one or two packets a message on.",
        CX4LX
    ),
    recipe!(
        "cx4lx-rate",
        &["cx4lx-10g", "cx4lx-25g"],
        Rate,
        "ConnectX-4 Lx: message rate against message size",
        "RoCEv2, MTU 1024, ib_send_bw -a",
        "Different hosts: the slower link has the faster one. The dashed line is the 25 Gb/s link.",
        CX4LX
    ),
    recipe!(
        "cx5-bandwidth",
        &["cx5-100g"],
        Bandwidth,
        "ConnectX-5 and 100 Gb/s: bandwidth against message size",
        "RoCEv2 MTU 1024; virtual function on EDR; EDR; RoCEv2 MTU 4096 (another maker)",
        "One card, four hosts: only the host profile differs. The dashed line is RoCEv2 at MTU \
         1024.",
        CX5
    ),
    recipe!(
        "cx5-rate",
        &["cx5-100g"],
        Rate,
        "ConnectX-5 and 100 Gb/s: message rate against message size",
        "RoCEv2 MTU 1024; virtual function on EDR; EDR; RoCEv2 MTU 4096 (another maker)",
        "Flat where the host posts as fast as it can, then the wire.",
        CX5
    ),
    recipe!(
        "cx5-latency",
        &["cx5-100g"],
        Latency,
        "ConnectX-5 and ConnectX-4 EDR: SEND latency against message size",
        "virtual function without inline; UD through a switch; UD over a direct cable (ConnectX-4)",
        "The virtual function has no inline payload and therefore no step; the others have one.",
        CX5_LATENCY
    ),
    recipe!(
        "cx6-bandwidth",
        &["cx6-200g", "cx7-400g"],
        Bandwidth,
        "ConnectX-6 and ConnectX-7: bandwidth against message size",
        "CX-6: InfiniBand HDR, EPYC host. CX-7: 400 GbE virtual function, GPU memory, partial \
         table",
        "One QP of a slow host needs large messages to fill such a link. The dashed line is 200 \
         Gb/s.",
        CX6
    ),
    recipe!(
        "cx6-latency",
        &["cx6-200g"],
        Latency,
        "ConnectX-6: WRITE latency against message size",
        "InfiniBand HDR through a switch, EPYC host, inline up to 220 B",
        "The inline step is 0.9 us on this host, whose PCIe reads take that long.",
        CX6_LATENCY
    ),
];

/// Runs the model as each table was measured.
pub(super) fn make(simulator: &dyn Simulator, content: &Content) -> Result<Figure, String> {
    let mut figure = Figure {
        title: content.title.to_owned(),
        subtitle: content.subtitle.to_owned(),
        caption: content.caption.to_owned(),
        sizes: sizes(content.column),
        ..axes(content.column)
    };
    let mut presets = Vec::new();
    for (color, curve) in content.curves.iter().enumerate() {
        let table = table(curve)?;
        let preset = load(curve.preset)?;
        let spec = experiment::repeat(&table, &preset)?;
        let model = experiment::run(simulator, &spec)?;
        if color == 0 {
            figure
                .series
                .extend(limit(&table, &spec.preset, content.column));
        }
        let measured = points(&table.rows, content.column);
        let model = points(&model, content.column);
        figure
            .series
            .push(series(curve.label, color, Kind::Measured, measured));
        figure
            .series
            .push(series(curve.label, color, Kind::Model, model));
        let (preset, table) = (curve.preset, curve.table);
        let command = format!("ferroce compare {preset} {table}");
        figure.commands.push(command);
        presets.push(spec.preset);
    }
    figure.stamp = stamp(&presets.iter().collect::<Vec<_>>());
    Ok(figure)
}

/// Returns an empty plot of a column.
pub(in crate::report) fn axes(column: Column) -> Figure {
    Figure {
        id: String::new(),
        title: String::new(),
        subtitle: String::new(),
        caption: String::new(),
        x: Axis::bytes("message size, bytes"),
        y: Axis::log(match column {
            Column::Bandwidth => "Gb/s",
            Column::Rate => "M messages/s",
            Column::Latency => "us",
        }),
        series: Vec::new(),
        sizes: Sizes::None,
        commands: Vec::new(),
        compared: None,
        stamp: String::new(),
    }
}

/// Returns the kind of a column's errors: a rate is a bandwidth in another unit, so it has none.
pub(in crate::report) fn sizes(column: Column) -> Sizes {
    match column {
        Column::Bandwidth => Sizes::Bandwidth,
        Column::Rate => Sizes::None,
        Column::Latency => Sizes::Latency,
    }
}

pub(super) fn table(curve: &Curve) -> Result<Table, String> {
    let found = builtin::find(curve.table).into_iter().next();
    found.ok_or_else(|| format!("there is no table {}", curve.table))
}

pub(in crate::report) fn points(rows: &Rows, column: Column) -> Vec<(f64, f64)> {
    match (rows, column) {
        (Rows::Bandwidth(rows), Column::Rate) => {
            let rows = rows.iter().filter(|row| row.bytes <= RATE_BYTES_MAX);
            rows.map(|row| (row.bytes as f64, row.message_rate_mpps))
                .collect()
        }
        // The rate has more digits than the bandwidth of small messages.
        (Rows::Bandwidth(rows), _) => rows
            .iter()
            .map(|row| {
                (
                    row.bytes as f64,
                    row.message_rate_mpps * row.bytes as f64 * 8e-3,
                )
            })
            .collect(),
        (Rows::Latency(rows), _) => {
            let points = rows.iter().map(|row| (row.bytes as f64, row.value_us()));
            points.collect()
        }
    }
}

/// Returns the limit of the wire: bandwidth or rate of the first curve's link, or the time of a
/// message on it.
pub(in crate::report) fn limit(table: &Table, preset: &Preset, column: Column) -> Option<Series> {
    let link = preset.mac.rate_gbps;
    let mtu = table
        .setup
        .mtu_bytes
        .unwrap_or(preset.transport.path_mtu_bytes);
    let value = |bytes: u64| {
        let rate = wire_limit::message_rate_mpps(&table.setup, link, mtu, bytes);
        match column {
            Column::Bandwidth => rate * bytes as f64 * 8e-3,
            Column::Rate => rate,
            Column::Latency => 1.0 / rate,
        }
    };
    let sizes = table.sizes();
    let points = sizes.iter().filter(|bytes| match column {
        Column::Bandwidth => true,
        Column::Rate => **bytes <= RATE_BYTES_MAX,
        Column::Latency => **bytes >= 4096,
    });
    let points: Vec<_> = points.map(|bytes| (*bytes as f64, value(*bytes))).collect();
    let label = match column {
        Column::Latency => "time on the wire",
        Column::Bandwidth | Column::Rate => "wire",
    };
    Some(series(label, 5, Kind::Limit, points))
}

//! A drawing of a machine: columns for sockets, root ports and switches, and what is on them.

use std::fmt::Write as _;

use ferroce_model::preset::Value;
use ferroce_model::preset::topology::{ElementId, Kind, Topology};

const BOX_WIDTH: f64 = 190.0;
const BOX_HEIGHT: f64 = 40.0;
const COLUMN: f64 = 230.0;
const ROW: f64 = 52.0;
const MARGIN: f64 = 20.0;
/// Letters of a summary that fit into a box.
const LETTERS: usize = 34;

const STYLE: &str = "\
.machine { font-family: sans-serif; background: #fff; }
.machine rect { fill: #f4f6f8; stroke: #57606a; }
.machine .card rect { fill: #dbeafe; }
.machine .gpu rect { fill: #dcfce7; }
.machine .nvm rect { fill: #fef9c3; }
.machine .name { font-size: 13px; font-weight: bold; fill: #1f2328; }
.machine .about { font-size: 10px; fill: #57606a; }
.machine path { fill: none; stroke: #57606a; }
.machine .link { stroke-dasharray: 5 4; }
";

/// Returns the elements that are directly on another one.
pub fn children(topology: &Topology, above: ElementId) -> Vec<ElementId> {
    let all = topology.elements().into_iter();
    all.filter(|id| topology.above(*id) == Some(above))
        .collect()
}

/// Returns the values of an element that a drawing shows.
pub fn summary(topology: &Topology, id: ElementId) -> String {
    let value = |name: &str| {
        let values = topology.values(id);
        let found = values.iter().find(|one| one.declaration.name == name);
        found.map_or(Value::Count(0), |one| one.value)
    };
    let link = || format!("gen{} x{}", value("generation"), value("lanes"));
    match id.kind {
        Kind::Socket => format!(
            "{} cores, memory {} Gb/s",
            value("cores"),
            value("dram_gbps")
        ),
        Kind::RootPort => {
            let (reads, writes) = (value("p2p_read_gbps"), value("p2p_write_gbps"));
            let strict = match value("strict_writes") {
                Value::Count(0) => String::new(),
                lines => format!(", {lines} strict writes"),
            };
            format!("P2P reads {reads}, writes {writes} Gb/s{strict}")
        }
        Kind::Switch => {
            let acs = if value("acs") == Value::Flag(true) {
                ", ACS"
            } else {
                ""
            };
            format!("{}{acs}", link())
        }
        Kind::Card if value("ats") == Value::Flag(true) => "ATS".to_owned(),
        Kind::Card => String::new(),
        Kind::Gpu | Kind::Nvm => format!(
            "{}, reads {} and writes {} Gb/s, {} GiB",
            link(),
            value("read_gbps"),
            value("write_gbps"),
            value("bar_gib")
        ),
    }
}

/// Returns the drawing as a file.
pub fn file(topology: &Topology) -> String {
    let drawing = element(topology);
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{drawing}")
}

/// Returns the drawing as an element of a page.
pub fn element(topology: &Topology) -> String {
    let mut drawing = Drawing {
        topology,
        body: String::new(),
        rows: 0,
        columns: 0,
    };
    let mut sockets = Vec::new();
    for socket in topology.elements() {
        if socket.kind == Kind::Socket {
            sockets.push(drawing.branch(socket, 0));
        }
    }
    for pair in sockets.windows(2) {
        let x = MARGIN + BOX_WIDTH / 2.0;
        let (from, to) = (pair[0] + BOX_HEIGHT, pair[1]);
        let _ = writeln!(
            drawing.body,
            "<path class=\"link\" d=\"M{x} {from} V{to}\"/>"
        );
    }
    let width = MARGIN * 2.0 + COLUMN * drawing.columns as f64 + BOX_WIDTH;
    let height = MARGIN * 2.0 + ROW * drawing.rows as f64;
    format!(
        "<svg class=\"machine\" xmlns=\"http://www.w3.org/2000/svg\" \
         viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n<style>{STYLE}\
         </style>\n{}</svg>\n",
        drawing.body
    )
}

struct Drawing<'a> {
    topology: &'a Topology,
    body: String,
    rows: usize,
    columns: usize,
}

impl Drawing<'_> {
    /// Draws an element in a column, and to the right of it what is on it. Returns its top.
    fn branch(&mut self, id: ElementId, column: usize) -> f64 {
        self.columns = self.columns.max(column);
        let (x, y) = (
            MARGIN + COLUMN * column as f64,
            MARGIN + ROW * self.rows as f64,
        );
        self.draw_box(id, x, y);
        let children = children(self.topology, id);
        for child in &children {
            let top = self.branch(*child, column + 1);
            let (from, to) = (x + BOX_WIDTH, x + COLUMN);
            let (start, end) = (y + BOX_HEIGHT / 2.0, top + BOX_HEIGHT / 2.0);
            let middle = f64::midpoint(from, to);
            let _ = writeln!(
                self.body,
                "<path d=\"M{from} {start} H{middle} V{end} H{to}\"/>"
            );
        }
        if children.is_empty() {
            self.rows += 1;
        }
        y
    }

    fn draw_box(&mut self, id: ElementId, x: f64, y: f64) {
        let about: String = summary(self.topology, id).chars().take(LETTERS).collect();
        let (kind, text) = (id.kind.name(), x + 8.0);
        let (name_y, about_y) = (y + 17.0, y + 32.0);
        let _ = writeln!(
            self.body,
            "<g class=\"{kind}\"><rect x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" \
             height=\"{BOX_HEIGHT}\" rx=\"4\"/><text class=\"name\" x=\"{text}\" y=\"{name_y}\">\
             {id}</text><text class=\"about\" x=\"{text}\" y=\"{about_y}\">{about}</text></g>"
        );
    }
}

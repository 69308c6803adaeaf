//! A machine as SVG: columns for sockets, root ports and switches, and what is on them.

use std::fmt::Write as _;

use ferroce_model::preset::topology::{ElementId, Kind, Topology};

use super::text::{children, summary};

const BOX_WIDTH: f64 = 190.0;
const BOX_HEIGHT: f64 = 40.0;
const COLUMN: f64 = 230.0;
const ROW: f64 = 52.0;
const MARGIN: f64 = 20.0;
/// Letters of a summary that fit into a box.
const LETTERS: usize = 34;

const STYLE: &str = "\
svg { font-family: sans-serif; background: #fff; }
rect { fill: #f4f6f8; stroke: #57606a; }
.card rect { fill: #dbeafe; } .gpu rect { fill: #dcfce7; } .nvm rect { fill: #fef9c3; }
.name { font-size: 13px; font-weight: bold; fill: #1f2328; }
.about { font-size: 10px; fill: #57606a; }
path { fill: none; stroke: #57606a; }
.link { stroke-dasharray: 5 4; }
";

/// Returns the drawing as a file.
pub fn draw(topology: &Topology) -> String {
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
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" \
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

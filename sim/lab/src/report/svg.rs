//! Draws a figure as SVG: measured values are points, the model is a line, formulas are dashed.
//!
//! Our own writer, not a plotting crate: the page needs titles under the pointer, colours that
//! adapt to a dark page and labels beside their lines, and each of these is little code.

use std::fmt::Write as _;

use ferroce_perf::number_text::{human_bytes, short};

use super::axis::Mapping;
use super::figure::{Axis, Figure, Kind, Scale, Series, Unit};
use super::labels::{self, Label};
use super::layout::{self, Heading, Layout, wrapped};

/// Colours and fonts, for a page and for a separate file.
pub const STYLE: &str = include_str!("plot.css");

/// Class of elements that only serve the pointer.
const HOVER: &str = "hover";

/// Colours of the palette.
pub const COLORS: usize = 6;

const STRIP_HEIGHT: f64 = 62.0;
const STRIP_GAP: f64 = 22.0;
/// Errors beyond it are drawn at the edge.
const STRIP_PERCENT: f64 = 40.0;
/// Half of the width of the arrow of an error beyond it, and its height.
const CLIP_ARROW: f64 = 4.0;
/// Maximum number of rows of such values at each edge, the distance between rows, and the gap
/// between two values.
const CLIP_ROWS: usize = 2;
const CLIP_ROOM: f64 = 5.0;
const CLIP_LINE: f64 = 11.0;
/// Errors below it are drawn on a band.
const STRIP_BAND_PERCENT: f64 = 10.0;

/// Distance of the lines of names below a plot, and of the small print.
const NAME_LINE: f64 = 16.0;
const STAMP_LINE: f64 = 14.0;
/// Characters of a name in the legend.
const LEGEND_CHARACTERS: usize = 18;

/// Returns the figure as an element for a page, which has [`STYLE`] once.
pub fn element(figure: &Figure, layout: &'static Layout) -> String {
    Drawing::new(figure, layout).draw()
}

/// Returns the figure as a file that needs nothing else.
pub fn file(figure: &Figure) -> String {
    let drawn = element(figure, &layout::WIDE);
    let (open, rest) = drawn
        .split_once('\n')
        .expect("the first line is the opening tag");
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{open}\n<style>{STYLE}</style>\n{rest}")
}

/// Escapes characters that are special in markup.
pub fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns an error that is beyond the strip, in few characters.
fn clipped_text(percent: f64) -> String {
    let sign = if percent < 0.0 { '−' } else { '+' };
    match percent.abs() {
        share if share < 1000.0 => format!("{sign}{share:.0} %"),
        share => format!("×{:.0}", share / 100.0 + 1.0),
    }
}

struct Drawing<'a> {
    figure: &'a Figure,
    layout: &'static Layout,
    heading: Heading,
    x: Mapping,
    y: Mapping,
    errors: Vec<(usize, Vec<(f64, f64)>)>,
    out: String,
}

impl<'a> Drawing<'a> {
    fn new(figure: &'a Figure, layout: &'static Layout) -> Self {
        let heading = layout.heading(figure);
        let (left, right, top) = (layout.left, layout.right, heading.top);
        let points = || figure.series.iter().flat_map(|series| &series.points);
        Self {
            figure,
            x: Mapping::new(&figure.x, points().map(|point| point.0), (left, right)),
            y: Mapping::new(
                &figure.y,
                points().map(|point| point.1),
                (top + layout.main_height, top),
            ),
            errors: figure.errors(),
            layout,
            heading,
            out: String::new(),
        }
    }

    /// Returns the lowest position of the plot itself.
    fn main_bottom(&self) -> f64 {
        self.heading.top + self.layout.main_height
    }

    /// Returns the lowest position of the plots.
    fn bottom(&self) -> f64 {
        let strip = if self.errors.is_empty() {
            0.0
        } else {
            STRIP_GAP + STRIP_HEIGHT
        };
        self.main_bottom() + strip
    }

    fn draw(mut self) -> String {
        let stamp = wrapped(&self.figure.stamp, self.layout.stamp_characters, ", ");
        let names = if self.layout.has_names_below {
            NAME_LINE * self.wanted_labels().len() as f64
        } else {
            0.0
        };
        let height = self.bottom() + 52.0 + names + STAMP_LINE * stamp.len() as f64;
        let width = self.layout.width;
        let title = escape(&self.figure.title);
        self.line(format!(
            "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} \
            {height}\" \
             role=\"img\" aria-label=\"{title}\">"
        ));
        self.line(format!(
            "<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>"
        ));
        self.draw_heading();
        self.vertical_axis();
        self.horizontal_axis();
        if !self.errors.is_empty() {
            self.error_strip();
        }
        self.all_series();
        if self.layout.has_names_below {
            self.names_below();
        } else {
            self.labels();
        }
        for (index, line) in stamp.iter().rev().enumerate() {
            self.text(
                12.0,
                height - 10.0 - STAMP_LINE * index as f64,
                "stamp",
                "",
                line,
            );
        }
        self.out.push_str("</svg>\n");
        self.out
    }

    fn line(&mut self, markup: impl AsRef<str>) {
        self.out.push_str(markup.as_ref());
        self.out.push('\n');
    }

    fn text(&mut self, x: f64, y: f64, class: &str, more: &str, text: &str) {
        let text = escape(text);
        self.line(format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" {more}>{text}</text>"
        ));
    }

    fn stroke(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.line(format!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    fn draw_heading(&mut self) {
        let (title, note) = (
            std::mem::take(&mut self.heading.title),
            std::mem::take(&mut self.heading.note),
        );
        for (class, lines) in [("title", title), ("note", note)] {
            for (y, text) in lines {
                self.text(12.0, y, class, "", text.trim_end());
            }
        }
        let figure = self.figure;
        self.text(12.0, self.heading.axis, "axis", "", &figure.y.label);
        self.legend();
    }

    /// Draws the legend of points, lines and dashes, at the right above the plot.
    fn legend(&mut self) {
        let kinds = [Kind::Measured, Kind::Baseline, Kind::Model, Kind::Limit];
        let present = |kind: &Kind| self.figure.series.iter().any(|series| series.kind == *kind);
        let present: Vec<_> = kinds.into_iter().filter(present).collect();
        let mut x = self.layout.right;
        for kind in present.into_iter().rev() {
            let y = self.heading.legend;
            let name = cut(self.figure.kind_name(kind), LEGEND_CHARACTERS);
            x -= labels::width(&name);
            self.text(x, y, "axis", "", &name);
            match kind {
                Kind::Measured | Kind::Baseline => {
                    self.line(format!(
                        "<circle class=\"key\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.4\"/>",
                        x - 10.0,
                        y - 4.0
                    ));
                    x -= 30.0;
                }
                Kind::Model | Kind::Limit => {
                    let class = if kind == Kind::Model {
                        "key line"
                    } else {
                        "key limit"
                    };
                    self.stroke(class, (x - 26.0, y - 4.0), (x - 6.0, y - 4.0));
                    x -= 42.0;
                }
            }
        }
    }

    fn vertical_axis(&mut self) {
        for tick in self.y.ticks() {
            let class = if tick.text.is_some() {
                "grid"
            } else {
                "grid minor"
            };
            let (left, right) = (self.layout.left, self.layout.right);
            self.stroke(class, (left, tick.place), (right, tick.place));
            if let Some(text) = tick.text {
                self.text(
                    left - 8.0,
                    tick.place + 4.0,
                    "axis",
                    "text-anchor=\"end\"",
                    &text,
                );
            }
        }
    }

    fn horizontal_axis(&mut self) {
        let (bottom, main_bottom) = (self.bottom(), self.main_bottom());
        let top = self.heading.top;
        for tick in self.x.ticks() {
            self.stroke("grid", (tick.place, top), (tick.place, main_bottom));
            if bottom > main_bottom {
                let top = bottom - STRIP_HEIGHT;
                self.stroke("grid", (tick.place, top), (tick.place, bottom));
            }
            if let Some(text) = tick.text {
                self.text(
                    tick.place,
                    bottom + 16.0,
                    "axis",
                    "text-anchor=\"middle\"",
                    &text,
                );
            }
        }
        let label = self.figure.x.label.clone();
        let right = self.layout.right;
        self.text(right, bottom + 33.0, "axis", "text-anchor=\"end\"", &label);
    }

    /// Draws the error of the model, in percent, below the plot and on its x axis.
    fn error_strip(&mut self) {
        let (bottom, top) = (self.bottom(), self.bottom() - STRIP_HEIGHT);
        let (left, right) = (self.layout.left, self.layout.right);
        let middle = (top + bottom) / 2.0;
        let place = |percent: f64| {
            let share = percent.clamp(-STRIP_PERCENT, STRIP_PERCENT) / STRIP_PERCENT;
            middle - share * STRIP_HEIGHT / 2.0
        };
        let (band_top, band_height) = (
            place(STRIP_BAND_PERCENT),
            place(-STRIP_BAND_PERCENT) - place(STRIP_BAND_PERCENT),
        );
        self.line(format!(
            "<rect class=\"band\" x=\"{left}\" y=\"{band_top:.1}\" width=\"{}\" \
            height=\"{band_height:.1}\"/>",
            right - left
        ));
        for (percent, text) in [
            (STRIP_PERCENT, "+40 %"),
            (0.0, "0"),
            (-STRIP_PERCENT, "−40 %"),
        ] {
            self.stroke("grid", (left, place(percent)), (right, place(percent)));
            self.text(
                left - 8.0,
                place(percent) + 4.0,
                "axis",
                "text-anchor=\"end\"",
                text,
            );
        }
        self.strip_name(top, middle);
        let errors = self.errors.clone();
        let middle_index = (errors.len() as f64 - 1.0) / 2.0;
        let mut clipped = Vec::new();
        for (index, (color, points)) in errors.into_iter().enumerate() {
            let color = color % COLORS;
            // Side by side, so that none hides another.
            let aside = (index as f64 - middle_index) * 4.5;
            for (x, percent) in points {
                let (at, y) = (self.x.place(x) + aside, place(percent));
                let hover = format!("{}: {percent:+.1} %", self.x_text(x));
                self.stroke(&format!("stem c{color}"), (at, middle), (at, y));
                if percent.abs() > STRIP_PERCENT {
                    self.clip_marker(color, (at, y), percent > 0.0, &hover);
                    clipped.push((at, percent, color));
                } else {
                    self.point(&format!("dot c{color}"), (at, y), 2.6, &hover);
                }
            }
        }
        self.clipped_values(clipped, (top, bottom));
    }

    /// Writes the name of the strip.
    fn strip_name(&mut self, top: f64, middle: f64) {
        let (what, against) = if self.figure.has_baseline() {
            ("line against", "points")
        } else {
            ("model against", "measurement")
        };
        if self.layout.has_names_below {
            let text = format!("{what} {against}");
            return self.text(self.layout.left, top - 7.0, "axis", "", &text);
        }
        let x = self.layout.right + 12.0;
        self.text(x, middle - 3.0, "axis", "", what);
        self.text(x, middle + 11.0, "axis", "", against);
    }

    /// Draws an arrow at the edge of the strip, for an error that is beyond it.
    fn clip_marker(&mut self, color: usize, at: (f64, f64), is_above: bool, hover: &str) {
        let tip = if is_above { -CLIP_ARROW } else { CLIP_ARROW };
        let hover = escape(hover);
        self.line(format!(
            "<path class=\"dot clip c{color}\" d=\"M{:.1} {:.1}l{CLIP_ARROW} 0l-{CLIP_ARROW} \
            {tip}l-{CLIP_ARROW} {}z\"><title>{hover}</title></path>",
            at.0, at.1, -tip
        ));
    }

    /// Writes the errors that are beyond the strip at its edges, in as many rows as they need.
    /// Values without room appear only under the pointer.
    fn clipped_values(&mut self, mut values: Vec<(f64, f64, usize)>, (top, bottom): (f64, f64)) {
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut ends = [[f64::MIN; CLIP_ROWS]; 2];
        for (at, percent, color) in values {
            let is_above = percent > 0.0;
            let text = clipped_text(percent);
            let half = labels::width(&text) / 2.0;
            let center = at.clamp(self.layout.left + half, self.layout.right - half);
            let rows = &mut ends[usize::from(is_above)][..self.layout.clip_rows.min(CLIP_ROWS)];
            let Some(row) = rows.iter().position(|end| *end < center - half) else {
                continue;
            };
            rows[row] = center + half + CLIP_ROOM;
            let inside = 12.0 + CLIP_LINE * row as f64;
            let y = if is_above {
                top + inside
            } else {
                bottom - inside + 6.0
            };
            let class = format!("clip-value c{color}");
            self.text(center, y, &class, "text-anchor=\"middle\"", &text);
        }
    }

    fn point(&mut self, class: &str, at: (f64, f64), radius: f64, hover: &str) {
        if !self.layout.has_pointer {
            if class != HOVER {
                self.line(format!(
                    "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"/>",
                    at.0, at.1
                ));
            }
            return;
        }
        let hover = escape(hover);
        self.line(format!(
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" \
            r=\"{radius}\"><title>{hover}</title></circle>",
            at.0, at.1
        ));
    }

    fn x_text(&self, x: f64) -> String {
        match self.figure.x.unit {
            Unit::Bytes if x < 1024.0 => format!("{} B", short(x)),
            Unit::Bytes => human_bytes(x),
            _ => short(x),
        }
    }

    /// Draws lines first, so that points are visible.
    fn all_series(&mut self) {
        for kind in [Kind::Limit, Kind::Model, Kind::Baseline, Kind::Measured] {
            for series in &self.figure.series {
                if series.kind == kind {
                    self.series(series);
                }
            }
        }
    }

    fn drawn_points(&self, series: &Series) -> Vec<(f64, f64)> {
        let is_drawn =
            |axis: &Axis, v: f64| v.is_finite() && (axis.scale == Scale::Linear || v > 0.0);
        let points = series.points.iter().copied();
        let points =
            points.filter(|p| is_drawn(&self.figure.x, p.0) && is_drawn(&self.figure.y, p.1));
        points.collect()
    }

    fn series(&mut self, series: &Series) {
        let points = self.drawn_points(series);
        let color = series.color % COLORS;
        if !series.kind.is_points() && points.len() > 1 {
            let mut path = String::new();
            for (index, (x, y)) in points.iter().enumerate() {
                let command = if index == 0 { 'M' } else { 'L' };
                let _ = write!(
                    path,
                    "{command}{:.1} {:.1}",
                    self.x.place(*x),
                    self.y.place(*y)
                );
            }
            let class = match series.kind {
                Kind::Limit => "limit k",
                _ => "line c",
            };
            self.line(format!("<path class=\"{class}{color}\" d=\"{path}\"/>"));
        }
        let (class, radius) = match series.kind {
            kind if kind.is_points() => (format!("dot c{color}"), 3.6),
            _ => (HOVER.to_owned(), 6.0),
        };
        for (x, y) in points {
            let hover = format!(
                "{} {}, {}: {} {}",
                series.label,
                self.figure.kind_name(series.kind),
                self.x_text(x),
                short((y * 1e4).round() / 1e4),
                self.figure.y.label
            );
            let at = (self.x.place(x), self.y.place(y));
            self.point(&class, at, radius, &hover);
        }
    }

    /// Returns the name of each colour, and the end of its line.
    fn wanted_labels(&self) -> Vec<Label> {
        let mut wanted: Vec<Label> = Vec::new();
        for series in self.figure.series.iter().rev() {
            let Some(last) = self.drawn_points(series).last().copied() else {
                continue;
            };
            let color = series.color % COLORS;
            let class = if series.kind == Kind::Limit {
                format!("label limit-label k{color}")
            } else {
                format!("label c{color}")
            };
            // The model's label also names the measured points of its colour.
            if wanted
                .iter()
                .any(|label| label.class == class && label.text == series.label)
            {
                continue;
            }
            wanted.push(Label {
                text: series.label.clone(),
                class,
                from: (self.x.place(last.0), self.y.place(last.1)),
                y: 0.0,
            });
        }
        wanted
    }

    /// Draws the name of each colour at the end of its line, without overlap.
    fn labels(&mut self) {
        let mut wanted = self.wanted_labels();
        let (right, top) = (self.layout.right, self.heading.top);
        labels::spread(&mut wanted, top, top + self.layout.main_height);
        for label in wanted {
            let near = (label.from.0 + 5.0, label.from.1);
            let far = (right + 9.0, label.y);
            if (near.1 - far.1).abs() > 2.0 || far.0 - near.0 > 12.0 {
                self.stroke("leader", near, far);
            }
            self.text(right + 12.0, label.y + 4.0, &label.class, "", &label.text);
        }
    }

    /// Writes the name of each colour in a line below the plot, in the order of the lines.
    fn names_below(&mut self) {
        let mut wanted = self.wanted_labels();
        wanted.sort_by(|a, b| a.from.1.total_cmp(&b.from.1));
        let first = self.bottom() + 52.0;
        for (index, label) in wanted.into_iter().enumerate() {
            let (x, y) = (self.layout.left, first + NAME_LINE * index as f64);
            // A square of the colour of the text.
            self.text(x, y, &label.class, "", &format!("■ {}", label.text));
        }
    }
}

/// Returns the beginning of a text.
fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let series = |label: &str, color, kind, factor: f64| Series {
            label: label.into(),
            color,
            kind,
            points: (1..24)
                .map(|n| (2.0_f64.powi(n), factor * f64::from(n)))
                .collect(),
        };
        Figure {
            id: "x".into(),
            title: "A < B & \"C\"".into(),
            subtitle: "1 QP".into(),
            caption: String::new(),
            x: Axis::bytes("message size"),
            y: Axis::log("Gb/s"),
            series: vec![
                series("WRITE", 0, Kind::Measured, 1.0),
                series("WRITE", 0, Kind::Model, 1.1),
                series("wire", 5, Kind::Limit, 2.0),
            ],
            sizes: crate::report::figure::Sizes::None,
            commands: Vec::new(),
            compared: None,
            stamp: "functional · seed 1".into(),
        }
    }

    #[test]
    fn a_file_stands_alone_and_is_escaped() {
        let file = file(&figure());
        assert!(file.starts_with("<?xml"), "{file}");
        assert!(file.contains("A &lt; B &amp; &quot;C&quot;"), "{file}");
        assert!(
            !file.contains("href") && !file.contains("url("),
            "an external resource"
        );
        assert_eq!(file.matches("<svg").count(), file.matches("</svg>").count());
    }

    #[test]
    fn points_have_titles_and_errors_a_strip() {
        let drawn = element(&figure(), &layout::WIDE);
        assert!(
            drawn.contains("<title>WRITE measured, 1 KiB: 10 Gb/s</title>"),
            "{drawn}"
        );
        assert!(drawn.contains("<title>1 KiB: +10.0 %</title>"), "{drawn}");
    }

    #[test]
    fn errors_beyond_the_strip_have_a_marker_and_their_value() {
        assert!(
            !element(&figure(), &layout::WIDE).contains("clip"),
            "10 % are inside"
        );
        let mut far = figure();
        far.series[1].points[0].1 = 1.5;
        far.series[1].points[1].1 = 0.5;
        far.series[1].points[2].1 = 300.0;
        let drawn = element(&far, &layout::WIDE);
        assert_eq!(drawn.matches("class=\"dot clip c0\"").count(), 3, "{drawn}");
        for value in [">+50 %<", ">−75 %<", ">×100<"] {
            assert!(drawn.contains(value), "{value}\n{drawn}");
        }
        assert!(drawn.contains("<title>2 B: +50.0 %</title>"), "{drawn}");
    }

    /// Goal: values that would overlap are put in rows, and no more than there is room for.
    #[test]
    fn values_beyond_the_strip_do_not_overlap() {
        let mut far = figure();
        for point in &mut far.series[1].points {
            point.1 *= 10.0;
        }
        let drawn = element(&far, &layout::WIDE);
        let values = drawn.lines().filter(|line| line.contains("clip-value"));
        let mut places: Vec<(String, f64)> = values
            .map(|line| {
                let after = |key: &str| {
                    let (_, rest) = line.split_once(key).expect("an attribute");
                    rest.split('"').next().expect("its end").to_owned()
                };
                (after("y=\""), after("x=\"").parse().expect("a number"))
            })
            .collect();
        assert!(places.len() > 15, "{drawn}");
        places.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        for pair in places.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            assert!(pair[1].1 - pair[0].1 > 20.0, "{pair:?}");
        }
    }

    #[test]
    fn figures_without_points_can_be_drawn() {
        let mut empty = figure();
        empty
            .series
            .iter_mut()
            .for_each(|series| series.points.clear());
        assert!(element(&empty, &layout::WIDE).contains("</svg>"));
    }
}

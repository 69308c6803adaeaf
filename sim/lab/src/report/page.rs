//! The page: one self-contained file.

use std::fmt::Write as _;

use super::figure::{Figure, Sizes};
use super::layout;
use super::svg::{self, escape};
use crate::reference::size_class::{self, ClassErrors, SizeClass};
use crate::validate::basis::Kind;
use crate::validate::listing::{self, Line};
use crate::validate::tally::Tally;
use crate::validate::{Outcome, Verdict};

const STYLE: &str = include_str!("page.css");

/// A heading with its plots; for a plot that could not be made, the reason.
pub struct Chapter {
    /// The heading.
    pub title: String,
    /// What the plots are about, as an element of a page.
    pub drawing: Option<String>,
    /// Its plots.
    pub figures: Vec<Result<Figure, String>>,
}

/// A preset that the page mentions.
pub struct Card {
    /// Its name.
    pub name: String,
    /// Its description.
    pub about: String,
    /// Hash of its values.
    pub hash: u64,
}

/// Returns the whole page.
pub fn page(chapters: &[Chapter], outcomes: &[Outcome], cards: &[Card]) -> String {
    let mut page = head();
    page.push_str(&introduction(chapters, outcomes));
    page.push_str("<main>\n");
    missed_section(&mut page, outcomes);
    for (index, chapter) in chapters.iter().enumerate() {
        chapter_section(&mut page, index, chapter);
    }
    let has_measurements = has_measurements(chapters);
    if has_measurements {
        validation_section(&mut page, outcomes);
    }
    if !cards.is_empty() {
        cards_section(&mut page, cards);
    }
    page.push_str("</main>\n");
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(
        page,
        "<footer>Made by <code>ferroce report</code> {version}. Same program, same presets, same \
        seed: the same \
         page, byte for byte.</footer>\n</body>\n</html>"
    );
    page
}

fn head() -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
        name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>Ferroce: model and \
         measurement</title>\n\
         <style>\n{STYLE}\n{}</style>\n</head>\n<body>\n",
        svg::STYLE
    )
}

/// Introduction of a page of models and measurements.
const ABOUT_MEASUREMENTS: &str = "<header>\n<h1>Ferroce: model and measurement</h1>\n\
         <p>What the model of an RDMA NIC predicts in simulated time, beside what others have \
         measured on real cards. Points \
         are measured, lines are the model, dashed lines are formulas, such as what headers leave \
         of the wire. The strip \
         below a plot is the error of the model; an arrow at its edge with a number is an error \
         beyond it. Parameters of a preset come from causes, clocks \
         and widths and latencies, \
         and are the same in all plots of a card; the host around it has its own profile. A \
         <em>predicted</em> target is one from which no value of the preset was chosen; of a \
         <em>fitted</em> one a value was, and an <em>identity</em> is such a value in another \
         unit.</p>\n";

/// Introduction of a page of two cards or runs.
const ABOUT_BASELINES: &str = "<header>\n<h1>Ferroce: one beside the other</h1>\n\
    <p>Lines are the card or the run in question, points are the one that it is compared with; the \
    strip below a plot is the difference in percent, and an arrow at its edge with a number is one \
    beyond it. Both are figures of the model, in simulated time.</p>\n";

/// Returns true unless all plots compare two cards or runs.
fn has_measurements(chapters: &[Chapter]) -> bool {
    let mut figures = chapters.iter().flat_map(|chapter| &chapter.figures);
    !figures.any(|figure| figure.as_ref().is_ok_and(Figure::has_baseline))
}

fn introduction(chapters: &[Chapter], outcomes: &[Outcome]) -> String {
    let mut text = String::from(if has_measurements(chapters) {
        ABOUT_MEASUREMENTS
    } else {
        ABOUT_BASELINES
    });
    let tally = Tally::of(outcomes);
    let figures: Vec<_> = chapters
        .iter()
        .flat_map(|chapter| &chapter.figures)
        .flatten()
        .collect();
    text.push_str("<ul class=\"facts\">\n");
    for kind in Kind::ALL {
        let count = tally.count(kind);
        if count.all > 0 {
            let _ = writeln!(
                text,
                "<li><b>{} of {}</b>{kind} targets within tolerance</li>",
                count.passed, count.all
            );
        }
    }
    let _ = writeln!(text, "<li><b>{}</b>plots</li>", figures.len());
    text.push_str("</ul>\n");
    class_facts(&mut text, &figures);
    text.push_str("<nav>\n");
    if !outcomes.is_empty() {
        text.push_str("<a href=\"#missed\">Missed targets</a>\n");
    }
    for (index, chapter) in chapters.iter().enumerate() {
        let _ = writeln!(
            text,
            "<a href=\"#part{index}\">{}</a>",
            escape(&chapter.title)
        );
    }
    if has_measurements(chapters) {
        text.push_str("<a href=\"#validation\">Validation</a>\n<a href=\"#presets\">Presets</a>\n");
    }
    text.push_str("</nav>\n</header>\n");
    text
}

/// Writes the errors of all tables of perftest by class of message sizes.
fn class_facts(text: &mut String, figures: &[&Figure]) {
    let of = |sizes: Sizes| {
        let own = figures.iter().filter(|figure| figure.sizes == sizes);
        let errors: Vec<_> = own.flat_map(|figure| figure.classed_errors()).collect();
        ClassErrors::of(&errors)
    };
    let kinds = [("bandwidth", Sizes::Bandwidth), ("latency", Sizes::Latency)];
    let all = kinds.map(|(name, sizes)| (name, of(sizes)));
    if all.iter().all(|(_, errors)| errors.is_empty()) {
        return;
    }
    text.push_str("<ul class=\"facts\">\n");
    for (name, errors) in &all {
        for class in errors {
            let _ = writeln!(
                text,
                "<li><b>{:.1} %</b>{name}, {}: median error of {} points<br>largest {:+.0} %</li>",
                class.median_percent,
                class_name(class.class),
                class.count,
                class.worst_percent
            );
        }
    }
    text.push_str("</ul>\n");
}

fn class_name(class: SizeClass) -> &'static str {
    match class {
        SizeClass::Small => "small messages",
        SizeClass::Knee => "knee",
        SizeClass::Plateau => "plateau",
        SizeClass::Long => "longer messages",
    }
}

/// Returns the errors of a figure in one sentence, by class of sizes if it has them.
fn error_text(figure: &Figure) -> Option<String> {
    let classes = figure.class_errors();
    if classes.is_empty() {
        let median = size_class::median(error_values(figure))?;
        if figure.has_baseline() {
            return Some(format!("Median difference {median:.1} %."));
        }
        return Some(format!("Median error {median:.1} %."));
    }
    let parts = classes.iter().map(|own| {
        let (word, median) = (own.class.word(), own.median_percent);
        format!("{word} {median:.1} %")
    });
    Some(format!(
        "Median error: {}.",
        parts.collect::<Vec<_>>().join(", ")
    ))
}

fn error_values(figure: &Figure) -> Vec<f64> {
    let errors = figure.errors().into_iter().flat_map(|(_, points)| points);
    errors.map(|(_, percent)| percent.abs()).collect()
}

fn chapter_section(page: &mut String, index: usize, chapter: &Chapter) {
    let title = escape(&chapter.title);
    let _ = writeln!(page, "<section id=\"part{index}\">\n<h2>{title}</h2>");
    if let Some(drawing) = &chapter.drawing {
        let _ = writeln!(page, "<div class=\"wide\">{drawing}</div>");
    }
    page.push_str("<div class=\"plots\">\n");
    for figure in &chapter.figures {
        match figure {
            Ok(figure) => figure_element(page, figure),
            Err(error) => {
                let _ = writeln!(
                    page,
                    "<p class=\"missing\">Not drawn: {}</p>",
                    escape(error)
                );
            }
        }
    }
    page.push_str("</div>\n</section>\n");
}

fn figure_element(page: &mut String, figure: &Figure) {
    // The style sheet shows one of the two.
    let _ = write!(
        page,
        "<figure id=\"{}\">\n<div class=\"on-wide\">{}</div>\n<div class=\"on-narrow\">{}</div>\n",
        figure.id,
        svg::element(figure, &layout::WIDE),
        svg::element(figure, &layout::NARROW)
    );
    let _ = write!(page, "<figcaption>{}", escape(&figure.caption));
    if let Some(text) = error_text(figure) {
        let _ = write!(page, " {text}");
    }
    let _ = writeln!(
        page,
        " <span class=\"files\"><a href=\"{0}.svg\">SVG</a> · <a \
        href=\"{0}.csv\">CSV</a></span>",
        figure.id
    );
    for command in &figure.commands {
        let _ = writeln!(page, "<code class=\"command\">{}</code>", escape(command));
    }
    page.push_str("</figcaption>\n</figure>\n");
}

/// Returns the outcomes, failed ones first, then excused ones.
fn worst_first(outcomes: &[Outcome]) -> Vec<Outcome> {
    let mut sorted = outcomes.to_vec();
    sorted.sort_by_key(|outcome| match outcome.verdict {
        Verdict::Fail(_) if outcome.is_failure() => 0,
        Verdict::Fail(_) => 1,
        Verdict::Excused(_) => 2,
        Verdict::NotCovered(_) => 3,
        Verdict::Pass => 4,
    });
    sorted
}

/// Writes the missed targets, which come first on the page.
fn missed_section(page: &mut String, outcomes: &[Outcome]) {
    if outcomes.is_empty() {
        return;
    }
    page.push_str("<section id=\"missed\">\n<h2>Missed targets</h2>\n");
    let is_missed =
        |outcome: &Outcome| matches!(outcome.verdict, Verdict::Fail(_) | Verdict::Excused(_));
    let mut missed = worst_first(outcomes);
    missed.retain(is_missed);
    if missed.is_empty() {
        page.push_str("<p>None: every target is within its tolerance.</p>\n");
    } else {
        outcome_table(page, &missed);
    }
    page.push_str("</section>\n");
}

fn validation_section(page: &mut String, outcomes: &[Outcome]) {
    page.push_str("<section id=\"validation\">\n<h2>Validation</h2>\n");
    if outcomes.is_empty() {
        page.push_str("<p>Not run; <code>ferroce validate</code> does it.</p>\n</section>\n");
        return;
    }
    let tally = Tally::of(outcomes);
    let _ = writeln!(
        page,
        "<p>{}. A target with several points passes if all of them do; one whose points differ in \
         their basis counts under each.</p>",
        escape(tally.text().trim_end()).replace('\n', "<br>")
    );
    outcome_table(page, &worst_first(outcomes));
    page.push_str("</section>\n");
}

fn outcome_table(page: &mut String, outcomes: &[Outcome]) {
    page.push_str(
        "<div class=\"wide\"><table>\n<thead><tr><th></th><th>Preset</th><th>What</th><th></th>\
         <th>Basis</th><th class=\"number\">Target</th><th class=\"number\">Tolerance</th>\
         <th class=\"number\">Model</th><th class=\"number\">Error</th><th></th></tr></thead>\n\
         <tbody>",
    );
    for line in listing::lines(outcomes) {
        validation_row(page, &line);
    }
    page.push_str("</tbody></table></div>\n");
}

fn validation_row(page: &mut String, line: &Line) {
    let class = if line.id.is_empty() { "" } else { "first" };
    let verdict = match line.verdict.as_str() {
        word if word == Verdict::Pass.word() => "pass",
        "not covered" | "excused" => "none",
        _ => "fail",
    };
    // The reason of a prediction appears under the pointer, any other reason in a row below.
    let is_predicted = line.basis == Kind::Predicted.word();
    let title = if is_predicted {
        format!(" title=\"{}\"", escape(&line.reason))
    } else {
        String::new()
    };
    let id = escape(&line.id);
    let _ = write!(page, "<tr class=\"{class}\"{title}><td>{id}</td>");
    for (class, text, name) in [
        ("", &line.preset, "preset"),
        ("text", &line.metric, ""),
        ("", &line.point, "at"),
        ("", &line.basis, "basis"),
        ("number free", &line.target, "target"),
        ("number free", &line.tolerance, "tolerance"),
        ("number", &line.model, "model"),
        ("number", &line.error, "error"),
        (verdict, &line.verdict, ""),
    ] {
        // On a phone, where a row is a block, the name of the column precedes the value.
        let name = if text.is_empty() { "" } else { name };
        let _ = write!(
            page,
            "<td class=\"{class}\" data-name=\"{name}\">{}</td>",
            escape(text)
        );
    }
    page.push_str("</tr>\n");
    let basis = if is_predicted || line.reason.is_empty() {
        String::new()
    } else {
        format!("{}: {}", line.basis, line.reason)
    };
    for text in [&basis, &line.cause] {
        if !text.is_empty() {
            let text = escape(text);
            let _ = writeln!(
                page,
                "<tr><td></td><td class=\"cause\" colspan=\"9\">{text}</td></tr>"
            );
        }
    }
}

fn cards_section(page: &mut String, cards: &[Card]) {
    page.push_str(
        "<section id=\"presets\">\n<h2>Presets</h2>\n<p><code>ferroce preset show NAME</code> \
        prints every parameter with \
         where it comes from.</p>\n<div class=\"wide\"><table>\n<thead><tr><th>Preset</th><th>What \
         it is</th><th>Hash</th>\
         </tr></thead>\n<tbody>\n",
    );
    for card in cards {
        let _ = writeln!(
            page,
            "<tr class=\"first\"><td>{}</td><td \
            class=\"text\">{}</td><td><code>{:016x}</code></td></tr>",
            escape(&card.name),
            escape(&card.about),
            card.hash
        );
    }
    page.push_str("</tbody></table></div>\n</section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::experiment::tests::Constant;
    use crate::report::figure::{Axis, Kind as Drawn};

    #[test]
    fn a_page_is_complete_and_needs_nothing_else() {
        let figure = Figure {
            id: "one".into(),
            title: "One".into(),
            subtitle: String::new(),
            caption: "What <it> shows.".into(),
            x: Axis::bytes("size"),
            y: Axis::log("Gb/s"),
            series: Vec::new(),
            sizes: Sizes::None,
            commands: Vec::new(),
            compared: None,
            stamp: "stamp".into(),
        };
        let chapter = Chapter {
            title: "Part".into(),
            drawing: None,
            figures: vec![Ok(figure), Err("two: no world".into())],
        };
        let page = page(&[chapter], &[], &[]);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        assert!(page.contains("What &lt;it&gt; shows.") && page.contains("Not drawn: two"));
        for outside in ["src=", "url(", "@import", "<script", "http://", "https://"] {
            let allowed = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!allowed.contains(outside), "{outside}");
        }
        for tag in [
            "section", "figure", "table", "div", "main", "p", "ul", "nav",
        ] {
            let open = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
    fn outcomes(ids: &[&str], latency_us: f64) -> Vec<Outcome> {
        let model = Constant {
            rate_mpps: 7.0,
            latency_us,
        };
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        crate::validate::run(&model, &ids)
    }

    #[test]
    fn failing_targets_come_first_with_their_basis() {
        let outcomes = outcomes(&["V03a", "V04a", "V04b", "V04c"], 1.72);
        let page = page(&[], &outcomes, &[]);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}\n{page}"));
        assert!(at("id=\"missed\"") < at("id=\"validation\""));
        let missed = &page[at("id=\"missed\"")..at("id=\"validation\"")];
        assert!(missed.contains("<td>V04c</td>") && !missed.contains("<td>V04a</td>"));
        assert!(missed.contains("fitted: mac.transmit_ns"), "{missed}");
        let table = &page[at("id=\"validation\"")..];
        let order = ["V04c", "V03a", "V04a", "V04b"].map(|id| {
            let cell = format!("<td>{id}</td>");
            table.find(&cell).expect("each target has a row")
        });
        assert!(order.is_sorted(), "{order:?}");
        assert!(page.contains("<b>2 of 2</b>predicted"), "{page}");
        assert!(page.contains("<b>0 of 1</b>fitted"), "{page}");
    }

    #[test]
    fn the_headline_has_errors_by_class_of_sizes() {
        let points = |factor: f64| {
            let values = [5.0, 10.0, 20.0, 30.0, 38.0, 40.0, 40.0];
            let values = values.into_iter().enumerate();
            let points = values.map(|(n, y)| (64.0 * 2.0_f64.powi(n as i32), y * factor));
            points.collect::<Vec<_>>()
        };
        let series = |kind, factor| crate::report::figure::Series {
            label: "WRITE".into(),
            color: 0,
            kind,
            points: points(factor),
        };
        let figure = Figure {
            id: "bw".into(),
            title: "Bandwidth".into(),
            subtitle: String::new(),
            caption: String::new(),
            x: Axis::bytes("size"),
            y: Axis::log("Gb/s"),
            series: vec![series(Drawn::Measured, 1.0), series(Drawn::Model, 1.25)],
            sizes: Sizes::Bandwidth,
            commands: Vec::new(),
            compared: None,
            stamp: "stamp".into(),
        };
        let chapter = Chapter {
            title: "Part".into(),
            drawing: None,
            figures: vec![Ok(figure)],
        };
        let page = page(&[chapter], &[], &[]);
        for part in ["small messages", "knee", "plateau"] {
            let fact = format!("<li><b>25.0 %</b>bandwidth, {part}: median error of");
            assert!(page.contains(&fact), "{part}\n{page}");
        }
        assert!(!page.contains("median error of all points"));
        assert!(
            page.contains("small 25.0 %, knee 25.0 %, plateau 25.0 %."),
            "{page}"
        );
    }
}

//! The page: one self-contained file.

use std::fmt::Write as _;

use super::figure::Figure;
use super::svg::{self, escape};
use crate::validate::basis::Kind;
use crate::validate::listing::{self, Line};
use crate::validate::tally::Tally;
use crate::validate::{Outcome, Verdict};

const STYLE: &str = include_str!("page.css");

/// A heading with its plots; one that could not be made is its reason.
pub struct Chapter {
    /// The heading.
    pub title: &'static str,
    /// What stands below it.
    pub figures: Vec<Result<Figure, String>>,
}

/// A preset that the page speaks of.
pub struct Card {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Hash of its values.
    pub hash: u64,
}

/// Returns the whole page.
pub fn page(chapters: &[Chapter], outcomes: &[Outcome], cards: &[Card]) -> String {
    let mut page = head();
    page.push_str(&introduction(chapters, outcomes));
    page.push_str("<main>\n");
    for (index, chapter) in chapters.iter().enumerate() {
        chapter_section(&mut page, index, chapter);
    }
    validation_section(&mut page, outcomes);
    cards_section(&mut page, cards);
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

fn introduction(chapters: &[Chapter], outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "<header>\n<h1>Ferroce: model and measurement</h1>\n\
         <p>What the model of an RDMA NIC predicts in simulated time, beside what others have \
         measured on real cards. Points \
         are measured, lines are the model, dashed lines are formulas, such as what headers leave \
         of the wire. The strip \
         below a plot is the error of the model. Parameters of a preset come from causes, clocks \
         and widths and latencies, \
         and are the same in all plots of a card; the host around it has its own profile.</p>\n",
    );
    let tally = Tally::of(outcomes);
    let drawn = chapters.iter().flat_map(|chapter| &chapter.figures);
    let (plots, median) = plots_and_error(drawn);
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
    let _ = writeln!(text, "<li><b>{plots}</b>plots</li>");
    if let Some(median) = median {
        let _ = writeln!(
            text,
            "<li><b>{median:.1} %</b>median error of all points</li>"
        );
    }
    text.push_str("</ul>\n<nav>\n");
    for (index, chapter) in chapters.iter().enumerate() {
        let _ = writeln!(
            text,
            "<a href=\"#part{index}\">{}</a>",
            escape(chapter.title)
        );
    }
    text.push_str("<a href=\"#validation\">Validation</a>\n<a href=\"#presets\">Presets</a>\n");
    text.push_str("</nav>\n</header>\n");
    text
}

/// Returns the number of plots, and the median of all their errors.
fn plots_and_error<'a>(
    figures: impl Iterator<Item = &'a Result<Figure, String>>,
) -> (usize, Option<f64>) {
    let figures: Vec<_> = figures.flatten().collect();
    let errors = figures.iter().flat_map(|figure| error_values(figure));
    (figures.len(), median(errors.collect()))
}

fn error_values(figure: &Figure) -> Vec<f64> {
    let errors = figure.errors().into_iter().flat_map(|(_, points)| points);
    errors.map(|(_, percent)| percent.abs()).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn chapter_section(page: &mut String, index: usize, chapter: &Chapter) {
    let title = escape(chapter.title);
    let _ = writeln!(
        page,
        "<section id=\"part{index}\">\n<h2>{title}</h2>\n<div class=\"plots\">"
    );
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
    let _ = write!(
        page,
        "<figure id=\"{}\">\n{}",
        figure.id,
        svg::element(figure)
    );
    let _ = write!(page, "<figcaption>{}", escape(&figure.caption));
    if let Some(median) = median(error_values(figure)) {
        let _ = write!(page, " Median error {median:.1} %.");
    }
    let _ = writeln!(
        page,
        " <span class=\"files\"><a href=\"{0}.svg\">SVG</a> · <a \
        href=\"{0}.csv\">CSV</a></span></figcaption>\n\
         </figure>",
        figure.id
    );
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
        "<p>{}. A target with several points passes if all of them do.</p>\n<div \
        class=\"wide\"><table>\n<thead><tr>\
         <th></th><th>Preset</th><th>What</th><th></th><th class=\"number\">Target</th><th \
         class=\"number\">Tolerance</th>\
         <th class=\"number\">Model</th><th \
         class=\"number\">Error</th><th></th></tr></thead>\n<tbody>",
        escape(tally.text().trim_end()).replace("\n", "<br>")
    );
    for line in listing::lines(outcomes) {
        validation_row(page, &line);
    }
    page.push_str("</tbody></table></div>\n</section>\n");
}

fn validation_row(page: &mut String, line: &Line) {
    let class = if line.id.is_empty() { "" } else { "first" };
    let verdict = match line.verdict.as_str() {
        word if word == Verdict::Pass.word() => "pass",
        "not covered" => "none",
        _ => "fail",
    };
    let _ = write!(page, "<tr class=\"{class}\"><td>{}</td>", escape(&line.id));
    for (class, text) in [
        ("", &line.preset),
        ("text", &line.metric),
        ("", &line.point),
        ("number free", &line.target),
        ("number free", &line.tolerance),
        ("number", &line.model),
        ("number", &line.error),
        (verdict, &line.verdict),
    ] {
        let _ = write!(page, "<td class=\"{class}\">{}</td>", escape(text));
    }
    page.push_str("</tr>\n");
    if !line.cause.is_empty() {
        let cause = escape(&line.cause);
        let _ = writeln!(
            page,
            "<tr><td></td><td class=\"cause\" colspan=\"8\">{cause}</td></tr>"
        );
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
    use crate::report::figure::Axis;

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
            stamp: "stamp".into(),
        };
        let chapter = Chapter {
            title: "Part",
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
}

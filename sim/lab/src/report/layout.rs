//! Positions of the parts of a plot: on a wide page, and on a phone.

use super::figure::Figure;

/// Positions and sizes, in the units of the drawing. Text has 12 units: a page that is drawn at its
/// minimum width shows it with at least 11 px.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Width of the drawing.
    pub width: f64,
    /// Left and right end of the x axis.
    pub left: f64,
    /// See `left`.
    pub right: f64,
    /// Height of the plot.
    pub main_height: f64,
    /// Characters of a line of the title.
    pub title_characters: usize,
    /// Characters of a line of the text below the title.
    pub note_characters: usize,
    /// Characters of a line of the small print.
    pub stamp_characters: usize,
    /// True: names of series are below the plot, and nothing is at its right. False: they are next
    /// to their lines.
    pub has_names_below: bool,
    /// True if values appear under the pointer.
    pub has_pointer: bool,
    /// Rows of values at each edge of the strip of errors.
    pub clip_rows: usize,
}

/// For pages from 700 px on, and for files.
pub const WIDE: Layout = Layout {
    width: 640.0,
    left: 54.0,
    right: 522.0,
    main_height: 250.0,
    title_characters: 80,
    note_characters: 100,
    stamp_characters: 92,
    has_names_below: false,
    has_pointer: true,
    clip_rows: 2,
};

/// For phones.
pub const NARROW: Layout = Layout {
    width: 320.0,
    left: 50.0,
    right: 294.0,
    main_height: 220.0,
    title_characters: 34,
    note_characters: 44,
    stamp_characters: 44,
    has_names_below: true,
    has_pointer: false,
    clip_rows: 1,
};

/// Height of a line of the title, of text, and of the legend.
const TITLE_LINE: f64 = 18.0;
const TEXT_LINE: f64 = 15.0;
/// Position of the first line.
const FIRST_LINE: f64 = 24.0;

/// The lines above a plot.
#[derive(Debug)]
pub struct Heading {
    /// Lines of the title, with their places.
    pub title: Vec<(f64, String)>,
    /// Lines of the text below it.
    pub note: Vec<(f64, String)>,
    /// Place of the name of the y axis.
    pub axis: f64,
    /// Place of the legend.
    pub legend: f64,
    /// Top of the plot.
    pub top: f64,
}

impl Layout {
    /// Returns the lines above a figure.
    pub fn heading(&self, figure: &Figure) -> Heading {
        let place = |from: f64, line: f64| {
            move |(index, text): (usize, String)| (from + line * index as f64, text)
        };
        let title = wrapped(&figure.title, self.title_characters, " ");
        let after_title = FIRST_LINE + TITLE_LINE * title.len().max(1) as f64;
        let note = wrapped(&figure.subtitle, self.note_characters, " ");
        let after_note = after_title + TEXT_LINE * note.len().max(1) as f64;
        let title = title.into_iter().enumerate();
        let note = note.into_iter().enumerate();
        // On the same line, if there is room for both.
        let axis = after_note + TEXT_LINE;
        let legend = if self.has_names_below {
            axis + TEXT_LINE
        } else {
            axis
        };
        Heading {
            title: title.map(place(FIRST_LINE, TITLE_LINE)).collect(),
            note: note.map(place(after_title, TEXT_LINE)).collect(),
            axis,
            legend,
            top: legend + 12.0,
        }
    }
}

/// Splits a text into lines of at most this many characters: after `separator` where possible.
pub fn wrapped(text: &str, characters: usize, separator: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in text.split_inclusive(separator) {
        let length = part.trim_end().chars().count();
        match lines.last_mut() {
            Some(line) if line.chars().count() + length <= characters => line.push_str(part),
            // A text without a separator, such as a path, is cut anywhere.
            _ => {
                let part: Vec<char> = part.chars().collect();
                let pieces = part.chunks(characters.max(1));
                lines.extend(pieces.map(String::from_iter));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_long_as_they_may_be() {
        let lines = wrapped("one two three four", 9, " ");
        assert_eq!(lines, ["one two ", "three ", "four"]);
        let lines = wrapped("averylongword it is", 5, " ");
        assert_eq!(lines, ["avery", "longw", "ord ", "it is"]);
        assert!(wrapped("", 5, " ").is_empty());
    }
}

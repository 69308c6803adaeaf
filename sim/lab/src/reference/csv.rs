//! CSV after lines `# key: value`: the format of `sim/lab/reference`.

use super::TableError;

/// A file of `sim/lab/reference`, as text.
#[derive(Clone, Debug, Default)]
pub struct Csv {
    /// Comment lines, split at the first colon; without one, the key is empty.
    pub notes: Vec<(String, String)>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The lines below them.
    pub rows: Vec<Row>,
}

/// One line of figures.
#[derive(Clone, Debug)]
pub struct Row {
    /// Line of the file, the first being 1.
    pub line: usize,
    /// As many as there are columns.
    pub cells: Vec<String>,
}

impl Csv {
    /// Reads a whole file.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let comments = text.lines().filter_map(|line| line.strip_prefix('#'));
        let mut csv = Self {
            notes: comments.map(note).collect(),
            ..Self::default()
        };
        let mut reader = csv::ReaderBuilder::new()
            .comment(Some(b'#'))
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let mut record = csv::StringRecord::new();
        while reader.read_record(&mut record).is_ok_and(|found| found) {
            let cells: Vec<_> = record.iter().map(str::to_owned).collect();
            if cells == [""] {
                continue;
            } else if csv.columns.is_empty() {
                csv.columns = cells;
            } else {
                // The record's own position is before the comments that it follows.
                let end = reader.position().byte() as usize;
                let line = text[..end].trim_end().lines().count();
                csv.push_row(line, cells)?;
            }
        }
        Ok(csv)
    }

    fn push_row(&mut self, line: usize, cells: Vec<String>) -> Result<(), TableError> {
        if cells.len() != self.columns.len() {
            let problem = format!("{} cells", cells.len());
            let remedy = format!(
                "the columns are {}: {}",
                self.columns.len(),
                self.columns.join(",")
            );
            return Err(TableError::new(line, problem, remedy));
        }
        self.rows.push(Row { line, cells });
        Ok(())
    }

    /// Returns the index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Returns the note under `key`.
    pub fn note(&self, key: &str) -> Option<&str> {
        let found = self.notes.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the text of a cell; empty if there is no such column.
    pub fn text<'a>(&self, row: &'a Row, column: &str) -> &'a str {
        self.column(column).map_or("", |index| &row.cells[index])
    }

    /// Returns the number in a cell; none if it is empty or there is no such column.
    pub fn number(&self, row: &Row, column: &str) -> Result<Option<f64>, TableError> {
        let text = self.text(row, column);
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| {
            let problem = format!("`{text}` in column {column}");
            TableError::new(row.line, problem, "a number or nothing is expected")
        })
    }

    /// Returns pairs of two number columns of the rows whose cells are as in `filter`, in the order
    /// of the file. Only for our own tables, whose cells the tests check.
    pub fn series(&self, filter: &[(&str, &str)], x: &str, y: &str) -> Vec<(f64, f64)> {
        let chosen = self.rows.iter().filter(|row| {
            let mut cells = filter.iter();
            cells.all(|(column, value)| self.text(row, column) == *value)
        });
        chosen
            .filter_map(|row| {
                let number = |column| self.number(row, column).ok().flatten();
                Some((number(x)?, number(y)?))
            })
            .collect()
    }
}

fn note(comment: &str) -> (String, String) {
    match comment.split_once(": ") {
        Some((key, value)) => (key.trim().to_owned(), value.trim().to_owned()),
        None => (String::new(), comment.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_columns_and_quotes() {
        let csv = Csv::parse("# nic: CX-5\n# free text\na,b\n\"1,\"\"2\"\"\",3\n").expect("fine");
        assert_eq!(csv.note("nic"), Some("CX-5"));
        assert_eq!(csv.text(&csv.rows[0], "a"), "1,\"2\"");
        assert_eq!(csv.number(&csv.rows[0], "b"), Ok(Some(3.0)));
    }

    #[test]
    fn a_short_line_is_named() {
        let error = Csv::parse("a,b\n1,2\n3\n").expect_err("a cell is missing");
        assert_eq!(error.line, 3);
        assert!(error.remedy.contains("a,b"), "{error}");
    }

    #[test]
    fn comments_empty_lines_and_line_ends_do_not_move_the_line() {
        let text = "# a: b\r\n\r\na, b\r\n1,2\r\n# c\r\n   \r\n3\r\n";
        for text in [text, &text.replace('\r', "")] {
            let error = Csv::parse(text).expect_err("a cell is missing");
            assert_eq!(error.line, 7);
        }
    }

    #[test]
    fn text_in_a_number_column_is_named() {
        let csv = Csv::parse("a\nx\n").expect("cells are text");
        let error = csv.number(&csv.rows[0], "a").expect_err("no number");
        assert_eq!((error.line, error.problem.as_str()), (2, "`x` in column a"));
    }
}

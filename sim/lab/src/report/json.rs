//! Writes JSON: keys in the order given, numbers always the same digits.

use super::figure::short;

/// A value of JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// No value.
    Null,
    /// A Boolean.
    Bool(bool),
    /// A number with at most six digits; what is not finite is `null`.
    Number(f64),
    /// A whole number, with all its digits.
    Whole(u64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object; keys keep their order.
    Object(Vec<(&'static str, Json)>),
    /// An object whose keys are not known beforehand.
    Map(Vec<(String, Json)>),
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Json {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<Option<f64>> for Json {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Null, Self::Number)
    }
}

impl Json {
    /// Returns a list of `values`.
    pub fn list(values: impl IntoIterator<Item = Json>) -> Self {
        Self::List(values.into_iter().collect())
    }

    /// Returns the text of a file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, 0);
        text.push('\n');
        text
    }

    fn write(&self, out: &mut String, depth: usize) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(value) if value.is_finite() => out.push_str(&short(*value)),
            Self::Number(_) => out.push_str("null"),
            Self::Whole(value) => out.push_str(&value.to_string()),
            Self::Text(text) => quote(out, text),
            Self::List(values) => {
                let items = values.iter().map(|value| (None, value));
                block(out, depth, ['[', ']'], items);
            }
            Self::Object(pairs) => {
                let items = pairs.iter().map(|(key, value)| (Some(*key), value));
                block(out, depth, ['{', '}'], items);
            }
            Self::Map(pairs) => {
                let items = pairs.iter().map(|(key, value)| (Some(key.as_str()), value));
                block(out, depth, ['{', '}'], items);
            }
        }
    }
}

fn block<'a>(
    out: &mut String,
    depth: usize,
    [open, close]: [char; 2],
    items: impl ExactSizeIterator<Item = (Option<&'a str>, &'a Json)>,
) {
    let count = items.len();
    out.push(open);
    for (index, (key, value)) in items.enumerate() {
        indent(out, depth + 1);
        if let Some(key) = key {
            quote(out, key);
            out.push_str(": ");
        }
        value.write(out, depth + 1);
        if index + 1 < count {
            out.push(',');
        }
    }
    if count > 0 {
        indent(out, depth);
    }
    out.push(close);
}

fn indent(out: &mut String, depth: usize) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_json_has_them() {
        let value = Json::Object(vec![
            ("a", 1.5.into()),
            (
                "b",
                Json::list([Json::Null, Json::Bool(true), "x\"\\\n\u{1}".into()]),
            ),
            ("c", f64::NAN.into()),
            ("d", Json::list([])),
            ("e", u64::MAX.into()),
            ("f", Json::Map(vec![("g.h".to_owned(), Json::Null)])),
        ]);
        let expected = "{\n  \"a\": 1.5,\n  \"b\": [\n    null,\n    true,\n    \
                        \"x\\\"\\\\\\n\\u0001\"\n  ],\n  \"c\": null,\n  \"d\": [],\n  \
                        \"e\": 18446744073709551615,\n  \"f\": {\n    \"g.h\": null\n  }\n}\n";
        assert_eq!(value.text(), expected);
    }
}

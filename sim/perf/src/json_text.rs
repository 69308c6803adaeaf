//! JSON documents as text: the numbers of one document always have the same digits.

use std::io::{Result, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use crate::number_text::short;

/// Version of the schemas: it changes when a key is removed or changes its meaning. Added keys do
/// not change it.
const SCHEMA: u32 = 1;

/// Returns the document of a command; if the result is an object, its keys become keys of the
/// document.
pub fn document(command: &str, result: Value) -> Value {
    let mut document = Map::new();
    document.insert("program".to_owned(), format!("ferroce {command}").into());
    document.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
    document.insert("schema".to_owned(), SCHEMA.into());
    match result {
        Value::Object(keys) => document.extend(keys),
        result => drop(document.insert("result".to_owned(), result)),
    }
    document.into()
}

/// Returns the text of a file. Numbers that are not whole have at most six digits.
pub fn write(document: &Value) -> String {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, ShortNumbers::default());
    let written = document.serialize(&mut serializer);
    written.expect("the keys are strings, and a vector takes any bytes");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// Formats as [`PrettyFormatter`] does, but numbers as [`short`] does.
#[derive(Default)]
struct ShortNumbers(PrettyFormatter<'static>);

/// Passes calls on to the [`PrettyFormatter`].
macro_rules! pretty {
    ($($name:ident($($argument:ident: $type:ty)?))*) => {$(
        fn $name<W: ?Sized + Write>(&mut self, writer: &mut W, $($argument: $type)?) -> Result<()> {
            self.0.$name(writer, $($argument)?)
        }
    )*};
}

impl Formatter for ShortNumbers {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> Result<()> {
        writer.write_all(short(value).as_bytes())
    }

    pretty! {
        begin_array() begin_array_value(first: bool) end_array_value() end_array()
        begin_object() begin_object_key(first: bool) begin_object_value() end_object_value()
        end_object()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_as_json_has_them() {
        let value = json!({
            "b": 1.5,
            "a": [null, true, "x\"\\\n\u{1}"],
            "c": f64::NAN,
            "d": [],
            "e": u64::MAX,
            "f": { "g.h": 1e-7 },
            "g": 2.0,
            "h": 1.0 / 3.0,
        });
        let expected = "{\n  \"b\": 1.5,\n  \"a\": [\n    null,\n    true,\n    \
                        \"x\\\"\\\\\\n\\u0001\"\n  ],\n  \"c\": null,\n  \"d\": [],\n  \
                        \"e\": 18446744073709551615,\n  \"f\": {\n    \"g.h\": 0.0000001\n  },\n  \
                        \"g\": 2,\n  \"h\": 0.333333\n}\n";
        assert_eq!(write(&value), expected);
    }
}

//! Golden vectors of the contract (`hw-model/spec/vectors`): bytes with the meaning of each field.

use std::collections::BTreeMap;
use std::fs;

use toml::{Table, Value};

/// One or several consecutive structures, as bytes and as fields.
#[derive(Debug, Clone)]
pub struct GoldenVector {
    /// Its name in the file.
    pub name: String,
    /// Service of the queue pair, for send WQEs.
    pub service: Option<String>,
    /// Memory in order of its addresses.
    pub bytes: Vec<u8>,
    /// Its structures.
    pub segments: Vec<GoldenSegment>,
}

/// A structure inside a vector.
#[derive(Debug, Clone)]
pub struct GoldenSegment {
    /// Name of its type in the contract.
    pub kind: String,
    /// First byte.
    pub offset: usize,
    /// Fields by their names (`control.opcode`); missing fields are zero.
    pub fields: BTreeMap<String, GoldenField>,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoldenField {
    /// A number, or a flag.
    Number(u64),
    /// A named value: the set and the name.
    Named(String, String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl GoldenVector {
    /// Returns the first segment of a kind.
    #[must_use]
    pub fn segment(&self, kind: &str) -> Option<&GoldenSegment> {
        self.all(kind).next()
    }

    /// Returns the segments of a kind.
    pub fn all(&self, kind: &str) -> impl Iterator<Item = &GoldenSegment> {
        self.segments
            .iter()
            .filter(move |segment| segment.kind == kind)
    }
}

impl GoldenSegment {
    /// Returns a number; zero if the vector does not name it.
    #[must_use]
    pub fn number(&self, field: &str) -> u64 {
        match self.fields.get(field) {
            None => 0,
            Some(GoldenField::Number(number)) => *number,
            other => panic!("{field} is not a number but {other:?}"),
        }
    }

    /// Returns the name of a named value.
    #[must_use]
    pub fn named(&self, field: &str) -> &str {
        match self.fields.get(field) {
            Some(GoldenField::Named(_, name)) => name,
            other => panic!("{field} is not a named value but {other:?}"),
        }
    }

    /// Returns bytes; `N` zeros if the vector does not name the field.
    #[must_use]
    pub fn bytes<const N: usize>(&self, field: &str) -> [u8; N] {
        match self.fields.get(field) {
            None => [0; N],
            Some(GoldenField::Bytes(bytes)) => bytes.as_slice().try_into().expect("its length"),
            other => panic!("{field} is not bytes but {other:?}"),
        }
    }

    /// Returns the bytes of a payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        match self.fields.get("bytes") {
            Some(GoldenField::Bytes(bytes)) => bytes,
            other => panic!("a payload is bytes, not {other:?}"),
        }
    }
}

/// Returns the vectors of one file, for example `send_wqe`.
///
/// # Panics
/// If the file does not have the format of the others.
#[must_use]
pub fn golden_vectors(file: &str) -> Vec<GoldenVector> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hw-model/spec/vectors");
    let text = fs::read_to_string(format!("{folder}/{file}.toml")).expect("the file is there");
    let document: Table = text.parse().expect("TOML");
    let vectors = document["vector"].as_array().expect("vectors").iter();
    vectors
        .map(|row| vector(row.as_table().expect("a vector")))
        .collect()
}

fn vector(row: &Table) -> GoldenVector {
    let segments = row["segment"].as_array().expect("segments").iter();
    let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
    GoldenVector {
        name: text("name").expect("a name"),
        service: text("service"),
        bytes: hexadecimal(&text("bytes").expect("bytes")),
        segments: segments
            .map(|row| segment(row.as_table().expect("a segment")))
            .collect(),
    }
}

fn segment(row: &Table) -> GoldenSegment {
    let mut fields = BTreeMap::new();
    if let Some(table) = row.get("fields").and_then(Value::as_table) {
        flatten("", table, &mut fields);
    }
    GoldenSegment {
        kind: row["type"].as_str().expect("a type").to_owned(),
        offset: row["offset"].as_integer().expect("an offset") as usize,
        fields,
    }
}

/// Adds the fields of `table`, whose names begin with `prefix`.
fn flatten(prefix: &str, table: &Table, fields: &mut BTreeMap<String, GoldenField>) {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        let field = match value {
            Value::Table(inside) => {
                flatten(&format!("{name}."), inside, fields);
                continue;
            }
            Value::Integer(number) => GoldenField::Number(*number as u64),
            Value::Boolean(flag) => GoldenField::Number(u64::from(*flag)),
            Value::String(text) => match text.split_once('.') {
                Some((set, name)) => GoldenField::Named(set.to_owned(), name.to_owned()),
                None => GoldenField::Bytes(hexadecimal(text)),
            },
            other => panic!("{name}: {other:?} is no value of a field"),
        };
        fields.insert(name, field);
    }
}

/// Returns the bytes of pairs of digits with spaces between them.
fn hexadecimal(text: &str) -> Vec<u8> {
    let pairs = text.split_whitespace();
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("two digits"))
        .collect()
}

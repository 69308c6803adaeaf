//! Packed structs of the packages. Verilator's header has only the width of a port; the sources
//! declare its fields.

use std::collections::BTreeMap;

use super::constant::evaluate;

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// Its lowest bit in the struct.
    pub low: u32,
    pub bits: u32,
    /// Its type in Rust.
    pub kind: Kind,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// One bit without a range.
    Bit,
    /// Bits, or an enumeration.
    Bits,
    /// A struct of this name.
    Struct(String),
}

/// A member whose place is not known yet; without a width, it is not supported.
struct Member {
    name: String,
    bits: Option<u32>,
    kind: Kind,
}

/// The declarations of packages that determine the widths of fields.
#[derive(Debug, Default)]
pub struct Structs {
    constants: BTreeMap<String, i64>,
    widths: BTreeMap<String, u32>,
    fields: BTreeMap<String, Vec<Field>>,
}

impl Structs {
    /// Reads a package, which may use packages that were read before. Skips unsupported
    /// declarations, and structs with such fields.
    pub fn read(&mut self, package: &str) {
        let code = package
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default());
        // A colon is then always between two bounds.
        let code = code.collect::<Vec<_>>().join(" ").replace("::", ".");
        let mut members: Vec<Member> = Vec::new();
        for statement in code.split(';').map(str::trim) {
            if let Some((name, value)) = constant(statement) {
                let value = evaluate(value, &self.constants);
                self.constants
                    .extend(value.map(|value| (name.to_owned(), value)));
            } else if let Some((kind, name)) = enumeration(statement) {
                self.widths
                    .extend(self.width(kind).map(|width| (name.to_owned(), width)));
            } else if let Some(name) = statement.strip_prefix('}') {
                self.add(name.trim(), std::mem::take(&mut members));
            } else {
                let first = statement.strip_prefix("typedef struct packed {");
                if first.is_some() {
                    members.clear();
                }
                if let Some((kind, name)) = first.unwrap_or(statement).rsplit_once(' ') {
                    members.push(self.member(kind.trim(), name));
                }
            }
        }
    }

    /// Returns the fields of a port of the module with this source; none if it is no struct.
    pub fn of_port(&self, source: &str, port: &str) -> &[Field] {
        let declared = source.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let is_port = matches!(words.next()?, "input" | "output");
            let (kind, name) = (words.next()?, words.next()?);
            (is_port && name.trim_end_matches(',') == port).then_some(kind)
        });
        let kind = declared.and_then(|kind| kind.rsplit_once("::"));
        let fields = kind.and_then(|(_, kind)| self.fields.get(kind));
        fields.map_or(&[], Vec::as_slice)
    }

    /// Returns the structs by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &[Field])> {
        let all = self.fields.iter();
        all.map(|(name, fields)| (name.as_str(), fields.as_slice()))
    }

    fn member(&self, kind: &str, name: &str) -> Member {
        let kind = match kind.rsplit_once('.') {
            Some((_, kind)) if !kind.ends_with(']') => kind, // without its package
            _ => kind,
        };
        let kind_of = match kind {
            "logic" => Kind::Bit,
            name if self.fields.contains_key(name) => Kind::Struct(name.to_owned()),
            _ => Kind::Bits,
        };
        Member {
            name: name.to_owned(),
            bits: self.width(kind),
            kind: kind_of,
        }
    }

    /// Adds a struct. The last member is in the lowest bits.
    fn add(&mut self, name: &str, members: Vec<Member>) {
        let mut fields = Vec::new();
        let mut low = 0;
        for Member { name, bits, kind } in members.into_iter().rev() {
            let Some(bits) = bits else { return };
            fields.push(Field {
                name,
                low,
                bits,
                kind,
            });
            low += bits;
        }
        self.widths.insert(name.to_owned(), low);
        self.fields.insert(name.to_owned(), fields);
    }

    /// Returns the bits of `logic`, of `logic [HIGH:LOW]`, or of a type that was read.
    fn width(&self, kind: &str) -> Option<u32> {
        let Some(range) = kind.strip_prefix("logic") else {
            return self.widths.get(kind).copied();
        };
        let range = range.trim();
        if range.is_empty() {
            return Some(1);
        }
        let range = range.strip_prefix('[')?.strip_suffix(']')?;
        let (high, low) = range.split_once(':')?;
        let value = |text| evaluate(text, &self.constants);
        let bits = value(high)?.checked_add(1)?.checked_sub(value(low)?)?;
        bits.try_into().ok()
    }
}

/// Reads `localparam int NAME = VALUE`.
fn constant(statement: &str) -> Option<(&str, &str)> {
    let (name, value) = statement.strip_prefix("localparam int ")?.split_once('=')?;
    Some((name.trim(), value))
}

/// Reads `typedef enum KIND {…} NAME`.
fn enumeration(statement: &str) -> Option<(&str, &str)> {
    let (kind, rest) = statement.strip_prefix("typedef enum ")?.split_once('{')?;
    Some((kind.trim(), rest.rsplit_once('}')?.1.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: &str = "\
package p;
    localparam int LOG = 3;   // entries; of a table
    localparam int BITS = LOG + 2;
    typedef enum logic [1:0] {
        ONE, TWO
    } op_t;
    typedef struct packed {
        op_t          op;
        logic [LOG-1:0] index; // its place
        logic         last;
    } inner_t;
    typedef struct packed {
        logic [p::BITS:0] number;
        p::inner_t    inner;
    } outer_t;
    typedef struct packed {
        logic [LOG > 2 ? 7 : 3:0] number;
    } strange_t;
endpackage";

    fn fields(kind: &str) -> Vec<(String, u32, u32)> {
        let mut structs = Structs::default();
        structs.read(PACKAGE);
        let source = format!("module m (\n    input  logic clk,\n    input  p::{kind} port,\n);");
        let fields = structs.of_port(&source, "port").iter();
        fields.map(|f| (f.name.clone(), f.low, f.bits)).collect()
    }

    #[test]
    fn the_last_field_is_the_lowest() {
        let field = |name: &str, low, bits| (name.to_owned(), low, bits);
        let inner = [field("last", 0, 1), field("index", 1, 3), field("op", 4, 2)];
        assert_eq!(fields("inner_t"), inner);
        assert_eq!(
            fields("outer_t"),
            [field("inner", 0, 6), field("number", 6, 6)]
        );
    }

    #[test]
    fn fields_have_the_types_of_their_declarations() {
        let mut structs = Structs::default();
        structs.read(PACKAGE);
        let kinds = |wanted: &str| -> Vec<Kind> {
            let found = structs.all().find(|(name, _)| *name == wanted);
            let fields = found.expect("the package has it").1;
            fields.iter().map(|field| field.kind.clone()).collect()
        };
        assert_eq!(kinds("inner_t"), [Kind::Bit, Kind::Bits, Kind::Bits]);
        assert_eq!(
            kinds("outer_t"),
            [Kind::Struct("inner_t".to_owned()), Kind::Bits]
        );
    }

    #[test]
    fn what_is_not_understood_has_no_fields() {
        assert_eq!(fields("strange_t"), []);
        assert_eq!(fields("unknown_t"), []);
    }
}

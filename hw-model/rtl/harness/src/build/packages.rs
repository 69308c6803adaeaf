//! The generated Rust: a type for each packed struct of the packages.

use super::names::{identifier, storage, type_of_struct};
use super::structs::{Field, Kind, Structs};

/// Returns the Rust of all structs.
pub fn print(structs: &Structs) -> String {
    let all = structs.all();
    all.map(|(name, fields)| print_struct(name, fields))
        .collect()
}

/// `fields`: from the lowest bit on.
fn print_struct(name: &str, fields: &[Field]) -> String {
    let kind = type_of_struct(name);
    let bits = fields.last().map_or(0, |field| field.low + field.bits);
    let (port, words) = (storage(bits), bits.div_ceil(32));
    // As in the source, the highest bits are first.
    let declared: String = fields.iter().rev().map(declaration).collect();
    let unpacked: String = fields.iter().rev().map(unpacking).collect();
    let packed: String = fields.iter().rev().map(packing).collect();
    format!(
        "\
/// The packed struct `{name}`, {bits} bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct {kind} {{
{declared}}}

impl {kind} {{
    /// Width.
    pub const BITS: u32 = {bits};
}}

impl ::core::default::Default for {kind} {{
    fn default() -> Self {{
        Self::from(::ferroce_rtl_harness::packed::port::<{port}>(&[0; {words}]))
    }}
}}

impl ::core::convert::From<{port}> for {kind} {{
    fn from(port: {port}) -> Self {{
        Self {{
{unpacked}        }}
    }}
}}

impl ::core::convert::From<{kind}> for {port} {{
    /// # Panics
    /// If a field has more bits than the struct has for it.
    fn from(value: {kind}) -> Self {{
        let mut words = [0; {words}];
{packed}        ::ferroce_rtl_harness::packed::port(&words)
    }}
}}

"
    )
}

fn declaration(field: &Field) -> String {
    let (name, bits) = (identifier(&field.name), field.bits);
    let kind = match &field.kind {
        Kind::Bit => "bool".to_owned(),
        Kind::Bits => storage(bits),
        Kind::Struct(name) => type_of_struct(name),
    };
    format!("    /// Bits: {bits}.\n    pub {name}: {kind},\n")
}

fn unpacking(field: &Field) -> String {
    let (name, low, bits) = (identifier(&field.name), field.low, field.bits);
    let kind = storage(bits);
    let value = format!("::ferroce_rtl_harness::packed::get::<_, {kind}>(&port, {low}, {bits})");
    let value = match &field.kind {
        Kind::Bit => format!("{value} != 0"),
        Kind::Bits => value,
        Kind::Struct(_) => format!("{value}.into()"),
    };
    format!("            {name}: {value},\n")
}

fn packing(field: &Field) -> String {
    let (name, low, bits) = (identifier(&field.name), field.low, field.bits);
    let value = match &field.kind {
        Kind::Bits => format!("value.{name}"),
        Kind::Bit | Kind::Struct(_) => format!("{}::from(value.{name})", of_type(bits)),
    };
    let arguments = format!("&mut words, \"{}\", {low}, {bits}, {value}", field.name);
    format!("        ::ferroce_rtl_harness::packed::set({arguments});\n")
}

/// Returns the type in which Verilator stores this many bits, before `::`.
fn of_type(bits: u32) -> String {
    format!("<{}>", storage(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_has_typed_fields() {
        let mut structs = Structs::default();
        structs.read(
            "typedef struct packed { logic [3:0] tag; logic last; } inner_t;
             typedef struct packed { logic [63:0] match; inner_t inner; } outer_t;",
        );
        let text = print(&structs);
        for line in [
            "pub struct Inner {",
            "    pub tag: u8,",
            "    pub last: bool,",
            "pub struct Outer {",
            "    pub r#match: u64,",
            "    pub inner: Inner,",
            "impl ::core::convert::From<[u32; 3]> for Outer {",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}

//! The generated Rust: a type with an accessor for each port.

use super::header::PortOfHeader;
use super::structs::Field;
use crate::port::Direction;

/// Returns the Rust type in which a port of this width is stored.
fn storage(bits: u32) -> String {
    match bits {
        0..=8 => "u8".to_owned(),
        9..=16 => "u16".to_owned(),
        17..=32 => "u32".to_owned(),
        33..=64 => "u64".to_owned(),
        more => format!("[u32; {}]", more.div_ceil(32)),
    }
}

/// Returns `roce_rx` as `RoceRx`.
fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1.min(word.len()));
        first.to_uppercase() + rest
    };
    name.split('_').map(capital).collect()
}

/// Returns the Rust of the module `name`, to be included in its own module.
pub fn print(name: &str, ports: &[PortOfHeader]) -> String {
    let kind = camel(name);
    let rows: String = ports.iter().map(row).collect();
    let accessors: String = ports.iter().enumerate().map(accessor).collect();
    format!(
        "\
/// The Verilated module `{name}`.
#[derive(Debug)]
pub struct {kind}(::ferroce_rtl_harness::Simulation);

static PORTS: &[::ferroce_rtl_harness::Port] = &[
{rows}];

impl {kind} {{
    /// Creates an instance after power-on, with all inputs zero.
    pub fn new() -> Self {{
        Self(::ferroce_rtl_harness::verilated!(\"{name}\", {name}_functions, PORTS))
    }}
{accessors}}}

impl ::core::default::Default for {kind} {{
    fn default() -> Self {{
        Self::new()
    }}
}}

impl ::core::ops::Deref for {kind} {{
    type Target = ::ferroce_rtl_harness::Simulation;
    fn deref(&self) -> &Self::Target {{
        &self.0
    }}
}}

impl ::core::ops::DerefMut for {kind} {{
    fn deref_mut(&mut self) -> &mut Self::Target {{
        &mut self.0
    }}
}}
"
    )
}

fn row(port: &PortOfHeader) -> String {
    let PortOfHeader {
        name,
        direction,
        bits,
        fields: _,
    } = port;
    let direction = format!("::ferroce_rtl_harness::Direction::{direction:?}");
    let fields = format!("name: \"{name}\", direction: {direction}, bits: {bits}");
    format!("    ::ferroce_rtl_harness::Port {{ {fields} }},\n")
}

/// The clock has no accessor: the simulation drives it.
fn accessor((index, port): (usize, &PortOfHeader)) -> String {
    let (name, bits, kind) = (&port.name, port.bits, storage(port.bits));
    if name == "clk" {
        return String::new();
    }
    let get = format!(
        "    /// Returns a port of {bits} bits.
    #[inline]
    pub fn {name}(&self) -> {kind} {{ self.0.get({index}) }}\n"
    );
    let set = format!(
        "    /// Sets a port of {bits} bits.
    #[inline]
    pub fn set_{name}(&mut self, value: {kind}) {{ self.0.set({index}, value); }}\n"
    );
    let own = match port.direction {
        Direction::Input => get + &set,
        Direction::Output => get,
    };
    let of_field = |field| accessor_of_field(index, port, field);
    own + &port.fields.iter().map(of_field).collect::<String>()
}

/// A field of a struct has the name of the port before its own.
fn accessor_of_field(index: usize, port: &PortOfHeader, field: &Field) -> String {
    let Field { low, bits, .. } = field;
    let (name, kind) = (format!("{}_{}", port.name, field.name), storage(*bits));
    let get = format!(
        "    /// Returns a field of {bits} bits.
    #[inline]
    pub fn {name}(&self) -> {kind} {{ self.0.field({index}, {low}, {bits}) }}\n"
    );
    let set = format!(
        "    /// Sets a field of {bits} bits.
    #[inline]
    pub fn set_{name}(&mut self, value: {kind}) {{
        self.0.set_field({index}, {low}, {bits}, value);
    }}\n"
    );
    match port.direction {
        Direction::Input => get + &set,
        Direction::Output => get,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types() {
        assert_eq!(camel("roce_rx"), "RoceRx");
        assert_eq!(camel("mtt"), "Mtt");
        assert_eq!(camel("crc32_512"), "Crc32512");
    }

    #[test]
    fn outputs_cannot_be_set() {
        let port = |name: &str, direction, bits| PortOfHeader {
            name: name.to_owned(),
            direction,
            bits,
            fields: Vec::new(),
        };
        let mut b = port("b", Direction::Output, 65);
        b.fields.push(Field {
            name: "c".to_owned(),
            low: 7,
            bits: 9,
        });
        let ports = [
            port("clk", Direction::Input, 1),
            port("a", Direction::Input, 33),
            b,
        ];
        let text = print("m", &ports);
        assert!(text.contains("pub fn set_a(&mut self, value: u64)"));
        assert!(text.contains("pub fn b(&self) -> [u32; 3]"));
        assert!(text.contains("pub fn b_c(&self) -> u16 { self.0.field(2, 7, 9) }"));
        assert!(!text.contains("set_b") && !text.contains("fn clk"));
    }
}

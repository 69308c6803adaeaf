//! The generated Rust: a type with an accessor for each port.

use super::header::PortOfHeader;
use super::names::{camel, identifier, storage};
use super::structs::Field;
use crate::port::Direction;

/// Returns the Rust of the module `name`, to be included in its own module.
pub fn print(name: &str, ports: &[PortOfHeader], clocks: &[&str]) -> String {
    let kind = camel(name);
    let constants = (0..).zip(clocks).map(|(index, name)| clock(index, name));
    let constants: String = constants.collect();
    let rows: String = ports.iter().map(row).collect();
    // Clocks have no accessors: the simulation drives them.
    let others = ports.iter().enumerate();
    let others = others.filter(|(_, port)| !clocks.contains(&port.name.as_str()));
    let accessors: String = others.map(accessor).collect();
    format!(
        "\
/// The Verilated module `{name}`.
#[derive(Debug)]
pub struct {kind}(::ferroce_rtl_harness::Simulation);

static PORTS: &[::ferroce_rtl_harness::Port] = &[
{rows}];

impl {kind} {{
{constants}    /// Creates an instance after power-on, with all inputs zero.
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

/// Returns the constant of a clock.
fn clock(index: usize, name: &str) -> String {
    let (constant, kind) = (name.to_uppercase(), "::ferroce_rtl_harness::Clock");
    format!(
        "    /// The clock `{name}`.
    pub const {constant}: {kind} = {kind}::new({index});\n"
    )
}

fn accessor((index, port): (usize, &PortOfHeader)) -> String {
    let (name, bits, kind) = (&port.name, port.bits, storage(port.bits));
    let getter = identifier(name);
    let get = format!(
        "    /// Returns a port of {bits} bits.
    #[inline]
    pub fn {getter}(&self) -> {kind} {{ self.0.get({index}) }}\n"
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
    use crate::build::structs::Kind;

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
            kind: Kind::Bits,
        });
        let ports = [
            port("clk", Direction::Input, 1),
            port("a", Direction::Input, 33),
            b,
        ];
        let text = print("m", &ports, &["clk"]);
        assert!(text.contains("pub fn set_a(&mut self, value: u64)"));
        assert!(text.contains("pub fn b(&self) -> [u32; 3]"));
        assert!(text.contains("pub fn b_c(&self) -> u16 { self.0.field(2, 7, 9) }"));
        assert!(text.contains("pub const CLK: ::ferroce_rtl_harness::Clock"));
        assert!(!text.contains("set_b") && !text.contains("fn clk"));
    }
}

//! The ports of a module, from the C++ header that Verilator writes.

use super::structs::Field;
use crate::port::Direction;

/// A port of a header.
#[derive(Debug, PartialEq, Eq)]
pub struct PortOfHeader {
    pub name: String,
    pub direction: Direction,
    pub bits: u32,
    /// The fields, if the port is a struct.
    pub fields: Vec<Field>,
}

impl PortOfHeader {
    /// Reads a line such as `VL_IN8(&clk,0,0);`, `VL_OUTW(&data,511,0,16);` or
    /// `VL_IN64(&address,63,0);`. `None`: the line declares no port.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let (direction, rest) = match (line.strip_prefix("VL_IN"), line.strip_prefix("VL_OUT")) {
            (Some(rest), _) => (Direction::Input, rest),
            (_, Some(rest)) => (Direction::Output, rest),
            _ => return None,
        };
        let (_, arguments) = rest.split_once('(')?;
        let mut arguments = arguments.strip_suffix(");")?.split(',');
        let name = arguments.next()?.trim_start_matches('&').to_owned();
        let high: u32 = arguments.next()?.trim().parse().ok()?;
        let low: u32 = arguments.next()?.trim().parse().ok()?;
        Some(Self {
            name,
            direction,
            bits: high.checked_sub(low)? + 1,
            fields: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_verilators_headers() {
        let parse = |line| PortOfHeader::parse(line).map(|p| (p.name, p.direction, p.bits));
        let input = |name: &str, bits| Some((name.to_owned(), Direction::Input, bits));
        assert_eq!(parse("    VL_IN8(&clk,0,0);"), input("clk", 1));
        assert_eq!(parse("VL_IN16(&p_key,15,0);"), input("p_key", 16));
        assert_eq!(parse("VL_IN(&first,25,0);"), input("first", 26));
        assert_eq!(parse("VL_IN64(&iova,63,0);"), input("iova", 64));
        let output = Some(("line".to_owned(), Direction::Output, 512));
        assert_eq!(parse("VL_OUTW(&line,511,0,16);"), output);
        assert_eq!(parse("CData/*0:0*/ mtt__DOT__rst;"), None);
        assert_eq!(parse("VL_UNCOPYABLE(Vmtt);"), None);
    }
}

//! Names and types of SystemVerilog in Rust.

/// Keywords of Rust that are names in SystemVerilog, and can be written as `r#NAME`.
const RAW: [&str; 24] = [
    "as", "async", "await", "box", "dyn", "fn", "gen", "impl", "in", "let", "loop", "match", "mod",
    "move", "mut", "pub", "trait", "try", "unsafe", "use", "where", "yield", "abstract",
    "override",
];
/// Keywords that cannot.
const NOT_RAW: [&str; 2] = ["self", "crate"];

/// Returns a name as an identifier.
pub fn identifier(name: &str) -> String {
    if RAW.contains(&name) {
        format!("r#{name}")
    } else if NOT_RAW.contains(&name) {
        format!("{name}_")
    } else {
        name.to_owned()
    }
}

/// Returns `roce_rx` as `RoceRx`.
pub fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1.min(word.len()));
        first.to_uppercase() + rest
    };
    name.split('_').map(capital).collect()
}

/// Returns the type of a struct: `piece_t` is `Piece`.
pub fn type_of_struct(name: &str) -> String {
    camel(name.strip_suffix("_t").unwrap_or(name))
}

/// Returns the type in which Verilator stores this many bits.
pub fn storage(bits: u32) -> String {
    match bits {
        0..=8 => "u8".to_owned(),
        9..=16 => "u16".to_owned(),
        17..=32 => "u32".to_owned(),
        33..=64 => "u64".to_owned(),
        more => format!("[u32; {}]", more.div_ceil(32)),
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
        assert_eq!(type_of_struct("memory_piece_t"), "MemoryPiece");
        assert_eq!(type_of_struct("plain"), "Plain");
    }

    #[test]
    fn keywords_are_no_identifiers() {
        let names = ["match", "self", "valid"].map(identifier);
        assert_eq!(names, ["r#match", "self_", "valid"]);
    }
}

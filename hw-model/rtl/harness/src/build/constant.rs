//! Constant expressions of SystemVerilog, as widths of fields use them.

use std::collections::BTreeMap;

/// Depth of parentheses and unary operators; an expression that is deeper is not understood.
const MAX_DEPTH: u32 = 32;

/// Returns the value of an expression of decimal numbers, known constants, parentheses, `$clog2`
/// and the operators `+ - * / % << >> **`. `None`: it has something else, or no value.
pub fn evaluate(text: &str, constants: &BTreeMap<String, i64>) -> Option<i64> {
    let mut parser = Parser {
        rest: text,
        constants,
    };
    let value = parser.shifts(0)?;
    parser.rest.trim().is_empty().then_some(value)
}

struct Parser<'a> {
    rest: &'a str,
    constants: &'a BTreeMap<String, i64>,
}

impl<'a> Parser<'a> {
    /// Takes a word from the front, if it is there.
    fn take(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    // By the precedence of IEEE 1800-2017, table 11-2: shifts bind least here, powers most.
    fn shifts(&mut self, depth: u32) -> Option<i64> {
        let mut value = self.sum(depth)?;
        loop {
            if self.take("<<") {
                value = value.checked_shl(self.sum(depth)?.try_into().ok()?)?;
            } else if self.take(">>") {
                value = value.checked_shr(self.sum(depth)?.try_into().ok()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn sum(&mut self, depth: u32) -> Option<i64> {
        let mut value = self.product(depth)?;
        loop {
            if self.take("+") {
                value = value.checked_add(self.product(depth)?)?;
            } else if self.take("-") {
                value = value.checked_sub(self.product(depth)?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn product(&mut self, depth: u32) -> Option<i64> {
        let mut value = self.power(depth)?;
        loop {
            if self.take("*") {
                value = value.checked_mul(self.power(depth)?)?;
            } else if self.take("/") {
                value = value.checked_div(self.power(depth)?)?;
            } else if self.take("%") {
                value = value.checked_rem(self.power(depth)?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn power(&mut self, depth: u32) -> Option<i64> {
        let mut value = self.operand(depth)?;
        while self.take("**") {
            value = value.checked_pow(self.operand(depth)?.try_into().ok()?)?;
        }
        Some(value)
    }

    fn operand(&mut self, depth: u32) -> Option<i64> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.take("-") {
            return self.operand(depth + 1)?.checked_neg();
        }
        let is_logarithm = self.take("$clog2");
        if self.take("(") {
            let value = self.shifts(depth + 1)?;
            return match (self.take(")"), is_logarithm) {
                (true, false) => Some(value),
                (true, true) => Some(logarithm(value.try_into().ok()?)),
                (false, _) => None,
            };
        }
        let word = self.word();
        word.parse()
            .ok()
            .or_else(|| self.constants.get(word).copied())
    }

    /// Takes a number, or a name: without its package, if that is before it and a dot.
    fn word(&mut self) -> &'a str {
        let text = self.rest.trim_start();
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        word.rsplit_once('.').map_or(word, |(_, name)| name)
    }
}

/// Returns the bits of an index below `value`: `$clog2`.
fn logarithm(value: u64) -> i64 {
    let bits = u64::BITS - value.saturating_sub(1).leading_zeros();
    i64::from(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<i64> {
        let constants = [("LOG".to_owned(), 4), ("BITS".to_owned(), 36)];
        evaluate(text, &constants.into())
    }

    #[test]
    fn operators_bind_as_in_the_standard() {
        for (text, expected) in [
            ("7", 7),
            (" LOG + 2 - 1", 5),
            ("1 << LOG", 16),
            ("1 << LOG - 1", 8),
            ("2**LOG-1", 15),
            ("2 * (BITS + 4) / 8 % 6", 4),
            ("$clog2(BITS)", 6),
            ("$clog2(32)", 5),
            ("$clog2(1)", 0),
            ("-1 + p.LOG", 3),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_has_no_value() {
        let deep = "(".repeat(1000);
        for text in [
            "",
            "LOG ? 1 : 2",
            "UNKNOWN",
            "1 +",
            "(1",
            "1 / 0",
            "1 << 64",
            "8'd3",
            &deep,
        ] {
            assert_eq!(value(text), None, "{text}");
        }
    }
}

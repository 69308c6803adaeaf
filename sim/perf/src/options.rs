//! Options of a measurement as text, as a command line and a page have them.

use ferroce_model::preset::Preset;

use crate::spec::Iterations;

/// Loads a preset, and changes it by `KEY=VALUE` texts.
///
/// # Errors
/// The change or the preset that is wrong, with what is permitted.
pub fn preset(name: &str, changes: &[String]) -> Result<Preset, String> {
    let mut preset = Preset::load(name).map_err(|error| error.to_string())?;
    for change in changes {
        let Some((key, value)) = change.split_once('=') else {
            return Err(format!("--set {change}: write KEY=VALUE"));
        };
        preset
            .set(key.trim(), value)
            .map_err(|error| error.to_string())?;
    }
    preset.check().map_err(|error| error.to_string())?;
    Ok(preset)
}

/// Parses a number of bytes with an optional suffix K, M or G.
///
/// # Errors
/// The form of such a number.
pub fn bytes(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let (digits, shift) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 10),
        Some('m' | 'M') => (&text[..text.len() - 1], 20),
        Some('g' | 'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let count = digits.parse::<u32>().ok();
    let bytes = count.and_then(|count| count.checked_mul(1 << shift));
    bytes.ok_or_else(|| "write a number of bytes below 4G, such as 64, 4K or 8M".to_owned())
}

/// Parses a number of messages, or `auto`: until the rate is steady, and `default` at most.
///
/// # Errors
/// The text, and what is permitted.
pub fn iterations(text: &str, default: Iterations) -> Result<Iterations, String> {
    if text == "auto" {
        let (Iterations::Exactly(most) | Iterations::UntilSteady(most)) = default;
        return Ok(Iterations::UntilSteady(most));
    }
    let count = text.parse().ok().map(Iterations::Exactly);
    count.ok_or_else(|| format!("--iterations {text}: write a number, or auto"))
}

/// Returns a word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/=@+".contains(c);
    if word.chars().all(is_plain) && !word.is_empty() {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_with_their_units() {
        assert_eq!(bytes("64"), Ok(64));
        assert_eq!(bytes("4k"), Ok(4096));
        assert_eq!(bytes("8M"), Ok(8 << 20));
        assert_eq!(bytes("1G"), Ok(1 << 30));
        for bad in ["", "4G", "k", "-1", "1.5M"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn changes_that_are_none_are_refused() {
        let refusal = |change: &str| preset("functional", &[change.to_owned()]).err();
        assert_eq!(
            refusal("units.count").as_deref(),
            Some("--set units.count: write KEY=VALUE")
        );
        assert!(refusal("units.count=0").is_some_and(|error| error.contains("1 to 255")));
    }

    #[test]
    fn a_steady_rate_ends_a_test_at_the_latest_where_its_count_does() {
        let default = Iterations::Exactly(1000);
        assert_eq!(
            iterations("auto", default),
            Ok(Iterations::UntilSteady(1000))
        );
        assert_eq!(iterations("20", default), Ok(Iterations::Exactly(20)));
        assert!(iterations("many", default).is_err_and(|error| error.contains("many")));
    }
}

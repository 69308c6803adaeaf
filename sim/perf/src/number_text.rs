//! Numbers for people.

/// Formats a number with at most six significant digits and no trailing zeros.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = (5 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Returns a size as people write it: 64, 1 KiB, 1 MiB.
pub fn human_bytes(bytes: f64) -> String {
    const UNITS: [(f64, &str); 3] = [
        (1_073_741_824.0, "GiB"),
        (1_048_576.0, "MiB"),
        (1024.0, "KiB"),
    ];
    let unit = UNITS.iter().find(|(unit, _)| bytes >= *unit);
    match unit {
        Some((unit, name)) => format!("{} {name}", short((bytes / unit * 100.0).round() / 100.0)),
        None => short(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let written = [1.0, 0.25, 1234.5678, 1e-6, 98.0304].map(short);
        assert_eq!(written, ["1", "0.25", "1234.57", "0.000001", "98.0304"]);
        let sizes = [2.0, 1024.0, 1536.0, 8_388_608.0].map(human_bytes);
        assert_eq!(sizes, ["2", "1 KiB", "1.5 KiB", "8 MiB"]);
    }
}

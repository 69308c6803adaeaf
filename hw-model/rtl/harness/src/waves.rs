//! The requested waveforms: `RTL_WAVES=FOLDER[:FROM..TO]`.

use std::ops::Range;
use std::path::PathBuf;

/// Waveforms that the environment requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waves {
    /// Each simulation writes its own file here.
    pub folder: PathBuf,
    /// Clock cycles to be written.
    pub cycles: Range<u64>,
}

impl Waves {
    /// Parses `FOLDER` or `FOLDER:FROM..TO`; either bound may be omitted.
    pub fn parse(text: &str) -> Option<Self> {
        let whole = || Self {
            folder: text.into(),
            cycles: 0..u64::MAX,
        };
        let Some((folder, bounds)) = text.rsplit_once(':') else {
            return Some(whole());
        };
        let Some((from, to)) = bounds.split_once("..") else {
            return Some(whole());
        };
        let bound = |text: &str, open: u64| match text {
            "" => Some(open),
            number => number.parse().ok(),
        };
        Some(Self {
            folder: folder.into(),
            cycles: bound(from, 0)?..bound(to, u64::MAX)?,
        })
    }

    /// Returns the waveforms that `RTL_WAVES` requests; `None` if it is not set.
    ///
    /// # Panics
    /// If its bounds are not numbers.
    pub fn of_environment() -> Option<Self> {
        let text = std::env::var("RTL_WAVES").ok()?;
        let waves = Self::parse(&text);
        Some(waves.unwrap_or_else(|| panic!("RTL_WAVES={text}: not FOLDER[:FROM..TO]")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_bounds_are_told_apart() {
        let parse = |text| Waves::parse(text).map(|w| (w.folder, w.cycles));
        let all = 0..u64::MAX;
        assert_eq!(parse("a/b"), Some(("a/b".into(), all.clone())));
        assert_eq!(parse("a:b"), Some(("a:b".into(), all)));
        assert_eq!(parse("a:5..9"), Some(("a".into(), 5..9)));
        assert_eq!(parse("a:..9"), Some(("a".into(), 0..9)));
        assert_eq!(parse("a:5.."), Some(("a".into(), 5..u64::MAX)));
        assert_eq!(parse("a:x..9"), None);
    }
}

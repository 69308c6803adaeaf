//! The waveform that a user requests: `FERROCE_RTL_WAVE=FILE[:FROM..TO]`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_rtl_harness::{Simulation, Waves};

/// `FILE` or `FILE:FROM..TO`: writes a waveform of the card, or of these clock cycles.
const VARIABLE: &str = "FERROCE_RTL_WAVE";
/// Clock cycles of a waveform for which no end was given: some 100 MB of a busy card.
const CYCLES_BY_DEFAULT: u64 = 1 << 18;

/// Number of waveforms that this process has begun: each card has its own.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// A waveform that is being written.
#[derive(Debug, Default)]
pub struct Wave {
    /// The default end of a waveform for which no end was given. `None` after its end was reported.
    ends_at: Option<u64>,
}

impl Wave {
    /// Writes the waveform that the environment requests, if any.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn of_environment(rtl: &mut Simulation) -> Self {
        let Some(text) = std::env::var_os(VARIABLE) else {
            return Self::default();
        };
        let waves = text.to_str().and_then(Waves::parse);
        let waves = waves.unwrap_or_else(|| panic!("{VARIABLE}: not FILE[:FROM..TO]"));
        let (cycles, is_bounded) = match waves.cycles {
            cycles if cycles.end < u64::MAX => (cycles, true),
            cycles => (
                cycles.start..cycles.start.saturating_add(CYCLES_BY_DEFAULT),
                false,
            ),
        };
        let ends_at = (!is_bounded).then_some(cycles.end);
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        let begun = rtl.trace(&numbered(&waves.folder, number), cycles);
        begun.unwrap_or_else(|error| panic!("{VARIABLE}: {error}"));
        Self { ends_at }
    }

    /// Reports once that the waveform has ended at its default end.
    pub fn report_end(&mut self, cycle: u64) {
        if let Some(end) = self.ends_at.take_if(|end| *end <= cycle) {
            eprintln!(
                "ferroce: the waveform ends here, at clock cycle {end}; \
                 --wave FILE:FROM..TO writes other cycles, or more"
            );
        }
    }
}

/// Returns the name of the file of a card of this process. The first card's is the given one.
fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_extension(format!("{number}.{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_of_a_process_have_their_own_files() {
        let name = |number| numbered(Path::new("a/card.fst"), number);
        assert_eq!(name(0), Path::new("a/card.fst"));
        assert_eq!(name(1), Path::new("a/card.1.fst"));
    }
}

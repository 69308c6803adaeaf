//! The options `--rtl` and `--wave`: the card in SystemVerilog in place of the model.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use clap::Args;
use ferroce_embed::cycles::CYCLES_VARIABLE;

/// Where the card writes its waveform; `FILE`, or `FILE:FROM..TO` for these clock cycles.
pub const WAVE_VARIABLE: &str = "FERROCE_RTL_WAVE";

/// Checks that a waveform can be written to `FILE[:FROM..TO]`.
fn check_wave(text: &str) -> Result<(), String> {
    let bounded = text
        .rsplit_once(':')
        .and_then(|(file, bounds)| Some((file, bounds.split_once("..")?)));
    let (file, bounds) = match bounded {
        Some((file, (from, to))) => (file, [from, to]),
        None => (text, [""; 2]),
    };
    let is_bound = |text: &str| text.is_empty() || text.parse::<u64>().is_ok();
    if !bounds.into_iter().all(is_bound) {
        return Err("the bounds are not numbers of clock cycles: FROM..TO".to_owned());
    }
    let is_new = !Path::new(file).exists();
    let opened = OpenOptions::new().append(true).create(true).open(file);
    opened.map_err(|error| error.to_string())?;
    if is_new {
        // The card writes it when it runs.
        std::fs::remove_file(file).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The card in SystemVerilog.
#[derive(Debug, Args)]
pub struct Rtl {
    /// The card in SystemVerilog, Verilated, in place of the model; `make rtl` builds it
    #[arg(long)]
    rtl: bool,

    /// Write a waveform of the card (FST), or of these clock cycles of it
    #[arg(long, value_name = "FILE[:FROM..TO]", requires = "rtl")]
    wave: Option<OsString>,
}

impl Rtl {
    /// Returns true if the card is asked for.
    pub fn is_asked(&self) -> bool {
        self.rtl
    }

    /// Returns the variables of the environment for it.
    pub fn variables(&self) -> Result<Vec<(&'static str, OsString)>, String> {
        let Some(wave) = &self.wave else {
            return Ok(match self.rtl {
                true => vec![(CYCLES_VARIABLE, "1".into())],
                false => Vec::new(),
            });
        };
        let refused = |reason: String| format!("--wave {}: {reason}", wave.display());
        // The program may change its working directory before it opens the device.
        let path = std::path::absolute(PathBuf::from(wave));
        let path = path.map_err(|error| refused(error.to_string()))?;
        let text = path.to_str().ok_or("is not UTF-8".to_owned());
        check_wave(text.map_err(refused)?).map_err(refused)?;
        Ok(vec![
            (CYCLES_VARIABLE, "1".into()),
            (WAVE_VARIABLE, path.into()),
        ])
    }

    /// Becomes `ferroce-rtl` with the arguments of this command, if the card is asked for and this
    /// is not it already.
    ///
    /// # Errors
    /// If it is not built, or cannot be started.
    #[cfg(not(feature = "rtl"))]
    pub fn become_card(&self) -> Result<(), String> {
        use std::os::unix::process::CommandExt;

        if !self.rtl {
            return Ok(());
        }
        let program = super::library::card_command()?;
        let error = std::process::Command::new(&program)
            .args(std::env::args_os().skip(1))
            .envs(self.variables()?)
            .exec();
        Err(format!("{}: {error}", program.display()))
    }

    /// This is the card's build already.
    #[cfg(feature = "rtl")]
    pub fn become_card(&self) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::check_wave;

    #[test]
    fn a_waveform_that_cannot_be_written_is_refused() {
        let directory = ferroce_test_support::temporary_directory("wave");
        let path = |name: &str| directory.path().join(name).display().to_string();
        for right in ["a.fst", "a.fst:5..9", "a.fst:..9", "a:5"] {
            assert_eq!(check_wave(&path(right)), Ok(()), "{right}");
        }
        assert!(!directory.path().join("a.fst").exists(), "left behind");
        for wrong in ["no/such/folder.fst", "a.fst:x..9", ""] {
            assert!(check_wave(&path(wrong)).is_err(), "{wrong}");
        }
    }
}

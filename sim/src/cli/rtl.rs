//! The options `--rtl` and `--wave`: the card in SystemVerilog in place of the model.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Where the card writes its waveform; `FILE`, or `FILE:FROM..TO` for these clock cycles.
pub const WAVE_VARIABLE: &str = "FERROCE_RTL_WAVE";

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
            return Ok(Vec::new());
        };
        // The program may change its working directory before it opens the device.
        let path =
            std::path::absolute(PathBuf::from(wave)).map_err(|error| format!("--wave: {error}"))?;
        Ok(vec![(WAVE_VARIABLE, path.into())])
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

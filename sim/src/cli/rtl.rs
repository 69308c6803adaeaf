//! The options `--rtl`, `--tlp`, `--wave` and `--pcie`: the card in SystemVerilog in place of the
//! model.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Args;
use ferroce_embed::cycles::CYCLES_VARIABLE;
use ferroce_model::preset::Preset;

/// Variable with the path of the card's waveform: `FILE`, or `FILE:FROM..TO` for these clock
/// cycles.
pub const WAVE_VARIABLE: &str = "FERROCE_RTL_WAVE";
/// Variable with the preset whose slot and host define the delays of the card's DMA.
pub const PCIE_VARIABLE: &str = "FERROCE_RTL_PCIE";
/// Variable with the sizes of TLPs, `MPS:MRRS`, if the card is to run with its PCIe endpoint.
pub const TLP_VARIABLE: &str = "FERROCE_RTL_TLP";
/// Sizes of `--tlp` without a value: usual ones of a host.
const USUAL_SIZES: &str = "256:512";
/// Largest MPS of the card, and largest MRRS.
const SIZES_MAX: [u64; 2] = [512, 4096];
/// Smallest of both.
const SIZE_MIN: u64 = 128;

/// The card in SystemVerilog.
#[derive(Debug, Args)]
pub struct Rtl {
    /// The card in SystemVerilog, Verilated, in place of the model; `make rtl` builds it
    #[arg(long)]
    rtl: bool,

    /// Write a waveform of the card (FST), or of these clock cycles of it; without an end, 2^18
    #[arg(long, value_name = "FILE[:FROM..TO]", requires = "rtl")]
    wave: Option<OsString>,

    /// Run the card with its PCIe endpoint: registers, doorbells, DMA and MSI-X are TLPs, of at
    /// most these sizes in bytes; without sizes, 256:512
    #[arg(long, value_name = "MPS:MRRS", requires = "rtl", num_args = 0..=1,
          require_equals = true, default_missing_value = USUAL_SIZES)]
    tlp: Option<String>,

    /// Delay the card's DMA as the PCIe slot and host of a preset do, in cycles of its clock
    #[arg(long, value_name = "PRESET[@HOST]", requires = "rtl")]
    pcie: Option<String>,
}

impl Rtl {
    /// Returns true if the card is requested.
    pub fn is_asked(&self) -> bool {
        self.rtl
    }

    /// Returns its environment variables.
    pub fn variables(&self) -> Result<Vec<(&'static str, OsString)>, String> {
        let mut variables = Vec::new();
        if self.rtl {
            variables.push((CYCLES_VARIABLE, "1".into()));
        }
        if let Some(wave) = &self.wave {
            check_bounds(wave)?;
            // The program may change its working directory before it opens the device.
            let path = std::path::absolute(PathBuf::from(wave));
            let path = path.map_err(|error| format!("--wave: {error}"))?;
            let folder = path.parent().filter(|folder| folder.is_dir());
            folder.ok_or_else(|| format!("--wave {}: there is no such folder", path.display()))?;
            variables.push((WAVE_VARIABLE, path.into()));
        }
        if let Some(sizes) = &self.tlp {
            check_sizes(sizes)?;
            variables.push((TLP_VARIABLE, sizes.into()));
        }
        if let Some(name) = &self.pcie {
            Preset::load(name).map_err(|error| format!("--pcie {name}: {error}"))?;
            variables.push((PCIE_VARIABLE, name.into()));
        }
        Ok(variables)
    }

    /// Replaces this process by `ferroce-rtl` with the same arguments, if the card is requested and
    /// this is not `ferroce-rtl` already.
    ///
    /// # Errors
    /// It is not built, or cannot be started.
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

    /// Does nothing: this build has the card already.
    #[cfg(feature = "rtl")]
    pub fn become_card(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Refuses sizes that a slot or the card cannot have.
fn check_sizes(text: &str) -> Result<(), String> {
    let sizes: Option<Vec<u64>> = text.split(':').map(|size| size.parse().ok()).collect();
    let are_valid = sizes.is_some_and(|sizes| {
        let mut both = sizes.iter().zip(SIZES_MAX);
        sizes.len() == SIZES_MAX.len()
            && both.all(|(size, max)| size.is_power_of_two() && (SIZE_MIN..=max).contains(size))
    });
    are_valid.then_some(()).ok_or_else(|| {
        format!(
            "--tlp={text}: MPS is 128, 256 or 512 bytes, MRRS a power of two from 128 to 4096; \
             for example --tlp={USUAL_SIZES}"
        )
    })
}

/// Refuses bounds that are not numbers, and an empty range of cycles.
fn check_bounds(wave: &OsStr) -> Result<(), String> {
    let text = wave.to_string_lossy();
    let Some((from, to)) = text.rsplit_once(':').and_then(|(_, b)| b.split_once("..")) else {
        return Ok(());
    };
    let bound = |text: &str, open: u64| match text {
        "" => Some(open),
        number => number.parse().ok(),
    };
    let range = bound(from, 0).zip(bound(to, u64::MAX));
    match range.filter(|(from, to)| from < to) {
        Some(_) => Ok(()),
        None => Err(format!(
            "--wave {text}: FROM..TO are clock cycles, FROM before TO"
        )),
    }
}

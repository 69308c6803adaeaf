//! `--calibrate-host`: the host of all specifications, fitted to a measured table.

use std::collections::BTreeMap;

use ferroce_lab::calibrate::{self, Calibration, Machine};
use ferroce_lab::reference::experiment::Harness;
use ferroce_model::preset::Preset;
use ferroce_perf::PerfRow;
use ferroce_perf::sweep::Job;
use ferroce_perf::utilisation::THREAD;

use super::super::measured::table_of_file;

/// Fits the hosts of `jobs` to a measured file; returns the result for each preset.
pub fn calibrate(jobs: &mut [Job], file: Option<&str>) -> Result<Vec<Calibration>, String> {
    let Some(file) = file else {
        return Ok(Vec::new());
    };
    let table = table_of_file(file)?;
    let mut hosts: BTreeMap<u64, Preset> = BTreeMap::new();
    let mut found = Vec::new();
    for job in jobs {
        let preset = &mut job.spec.preset;
        let hash = preset.hash();
        if let Some(fitted) = hosts.get(&hash) {
            *preset = fitted.clone();
            continue;
        }
        let (fitted, calibration) = calibrate::calibrate(&Harness, preset, &table)?;
        hosts.insert(hash, fitted.clone());
        *preset = fitted;
        found.push(calibration);
    }
    Ok(found)
}

/// Returns a warning if the cost of a post is a guess, and limits one of `rows`.
pub fn uncalibrated(preset: &Preset, rows: &[PerfRow]) -> Option<String> {
    let is_limited = |row: &PerfRow| {
        let utilisation = row.utilisation.as_ref();
        utilisation.is_some_and(|it| it.limit().is_some_and(|part| part.name == THREAD))
    };
    let warning = calibrate::uncalibrated(preset, Machine::OfProfile)?;
    rows.iter().any(is_limited).then_some(warning)
}

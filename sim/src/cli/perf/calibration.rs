//! `--calibrate-host`: the host of all specifications, fitted to a measured table.

use std::collections::BTreeMap;

use ferroce_lab::calibrate::{self, Calibration};
use ferroce_lab::reference::experiment::Harness;
use ferroce_model::preset::Preset;
use ferroce_perf::sweep::Job;

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

//! `--sweep`: one measurement for each value of a key.

use clap::ValueEnum;
use ferroce_perf::options::bytes;
use ferroce_perf::sweep::Job;

use super::Perf;
use super::arguments::{Connection, Pages, loss};

/// Maximum number of points of all sweeps together.
const MOST_POINTS: usize = 100_000;

/// A value of a key.
type Setting = (String, String);

impl Perf {
    /// Returns all measurements: each size of each combination of values.
    pub fn jobs(&self) -> Result<Vec<Job>, String> {
        let mut jobs = Vec::new();
        for point in points(&self.sweep)? {
            let mut perf = self.clone();
            for (key, value) in &point {
                perf.apply(key, value)?;
            }
            let spec = perf.spec()?;
            jobs.extend(spec.sizes.iter().map(|&size| Job {
                spec: spec.clone(),
                size,
                point: point.clone(),
            }));
        }
        Ok(jobs)
    }

    /// Sets the swept key to a value.
    fn apply(&mut self, key: &str, value: &str) -> Result<(), String> {
        let bad = || format!("--sweep {key}: {value} is no value of it");
        let number = || value.parse::<u32>().map_err(|_| bad());
        match key {
            "size" => self.size = Some(bytes(value).map_err(|_| bad())?),
            "iterations" => self.iterations = Some(value.to_owned()),
            "qps" => self.qps = number()?,
            "mrs" => self.mrs = number()?,
            "threads" => self.threads = number()?,
            "depth" => self.depth = Some(number()?),
            "rx-depth" => self.rx_depth = Some(number()?),
            "inline" => self.inline = Some(number()?),
            "sge" => self.sge = number()?,
            "align" => self.align = bytes(value).map_err(|_| bad())?,
            "loss" => self.loss = Some(loss(value).map_err(|_| bad())?),
            "signal-every" => self.signal_every = Some(number()?),
            "mtu" => self.mtu = Some(number()?),
            "outstanding-reads" => self.outstanding_reads = Some(number()?),
            "qp-timeout" => self.qp_timeout = Some(value.parse().map_err(|_| bad())?),
            "retry-count" => self.retry_count = Some(value.parse().map_err(|_| bad())?),
            "hosts" => self.hosts = number()?,
            "vms" => self.vms = number()?,
            "seed" => self.seed = number()?.into(),
            "connection" => {
                self.connection = Connection::from_str(value, true).map_err(|_| bad())?;
            }
            "page-size" => self.page_size = Some(Pages::from_str(value, true).map_err(|_| bad())?),
            "preset" => self.preset = value.to_owned(),
            "share" => self.share = vec![value.to_owned()],
            _ if key.contains('.') => self.set.push(format!("{key}={value}")),
            _ => {
                return Err(format!(
                    "--sweep {key}: sweep size, iterations, qps, mrs, threads, depth, rx-depth, \
                     inline, sge, align, loss, signal-every, mtu, outstanding-reads, qp-timeout, \
                     retry-count, hosts, vms, seed, connection, page-size, preset, share, or a \
                     parameter of the preset as pcie.lanes"
                ));
            }
        }
        Ok(())
    }
}

/// Returns all combinations of the values of all sweeps; the last one changes fastest.
fn points(sweeps: &[String]) -> Result<Vec<Vec<Setting>>, String> {
    let mut points: Vec<Vec<Setting>> = vec![Vec::new()];
    for sweep in sweeps {
        let (key, values) = sweep
            .split_once('=')
            .filter(|(key, values)| !key.is_empty() && !values.is_empty())
            .ok_or_else(|| format!("--sweep {sweep}: write KEY=VALUES, as qps=1..64"))?;
        let values = expand(key, values)?;
        if points.len() * values.len() > MOST_POINTS {
            return Err(format!("--sweep {sweep}: more than {MOST_POINTS} points"));
        }
        points = points
            .iter()
            .flat_map(|point| {
                values.iter().map(|value| {
                    let setting = (key.to_owned(), value.clone());
                    point.iter().cloned().chain([setting]).collect()
                })
            })
            .collect();
    }
    Ok(points)
}

/// Expands values: `1,2,8` is a list; `1..64` doubles, and ends with the last value.
fn expand(key: &str, values: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for part in values.split(',') {
        let Some((first, last)) = part.split_once("..") else {
            all.push(part.trim().to_owned());
            continue;
        };
        let limits = bytes(first).ok().zip(bytes(last).ok());
        let limits = limits.filter(|(first, last)| *first > 0 && first <= last);
        let (first, last) = limits.ok_or_else(|| {
            format!("--sweep {key}: {part} is no range; write FIRST..LAST, from 1 on")
        })?;
        let doubled = std::iter::successors(Some(first), |value| value.checked_mul(2));
        let mut range: Vec<u32> = doubled.take_while(|value| *value <= last).collect();
        if range.last() != Some(&last) {
            range.push(last);
        }
        all.extend(range.iter().map(u32::to_string));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(values: &str) -> Vec<String> {
        expand("qps", values).expect("legal")
    }

    #[test]
    fn ranges_double_and_end_where_they_say() {
        assert_eq!(text("1..8"), ["1", "2", "4", "8"]);
        assert_eq!(text("3..20"), ["3", "6", "12", "20"]);
        assert_eq!(text("5..5,7"), ["5", "7"]);
        assert_eq!(text("1K..4K"), ["1024", "2048", "4096"]);
        assert_eq!(text("a,b"), ["a", "b"]);
        for bad in ["0..4", "8..1", "1..x", ".."] {
            assert!(expand("qps", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn several_sweeps_make_all_combinations() {
        let sweeps = ["qps=1,2", "mtu=1024,4096"].map(str::to_owned);
        let points = points(&sweeps).expect("legal");
        let values: Vec<Vec<&str>> = points
            .iter()
            .map(|point| point.iter().map(|(_, value)| value.as_str()).collect())
            .collect();
        assert_eq!(
            values,
            [["1", "1024"], ["1", "4096"], ["2", "1024"], ["2", "4096"]]
        );
        assert_eq!(super::points(&[]).expect("legal"), [Vec::new()]);
        assert!(super::points(&["qps".to_owned()]).is_err());
    }
}

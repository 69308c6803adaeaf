//! Axes: positions of values and ticks.

use ferroce_perf::number_text::{human_bytes, short};

use super::figure::{Axis, Scale, Unit};

/// An axis with its ranges of values and positions.
#[derive(Clone, Debug)]
pub struct Mapping {
    scale: Scale,
    unit: Unit,
    /// Lowest and highest value.
    range: (f64, f64),
    /// Positions of these two.
    places: (f64, f64),
}

/// A position with a grid line, and perhaps a label.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Its position.
    pub place: f64,
    /// Its label; lines between labelled ones have none.
    pub text: Option<String>,
}

impl Mapping {
    /// Covers `values`, from the first of `places` to the second.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, places: (f64, f64)) -> Self {
        let usable =
            |value: &f64| value.is_finite() && (axis.scale == Scale::Linear || *value > 0.0);
        let (low, high) = values
            .filter(usable)
            .fold((f64::MAX, f64::MIN), |(low, high), v| {
                (low.min(v), high.max(v))
            });
        let range = match (low <= high, axis.scale) {
            (false, _) => (1.0, 10.0),
            (true, Scale::Linear) => (0.0, high.max(f64::MIN_POSITIVE) * 1.06),
            (true, Scale::Log) => log_range(axis.unit, low, high),
        };
        Self {
            scale: axis.scale,
            unit: axis.unit,
            range,
            places,
        }
    }

    /// Returns the position of `value`, within the range.
    pub fn place(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        let share = match self.scale {
            Scale::Linear => (value - low) / (high - low),
            Scale::Log => (value.max(f64::MIN_POSITIVE) / low).ln() / (high / low).ln(),
        };
        self.places.0 + share.clamp(0.0, 1.0) * (self.places.1 - self.places.0)
    }

    /// Returns the grid lines.
    pub fn ticks(&self) -> Vec<Tick> {
        let values = match (self.scale, self.unit) {
            (Scale::Linear, _) => self.linear_ticks(),
            (Scale::Log, Unit::Bytes | Unit::Count) => self.power_of_two_ticks(),
            (Scale::Log, _) => self.decade_ticks(),
        };
        let ticks = values.into_iter().map(|(value, named)| Tick {
            place: self.place(value),
            text: named.then(|| self.text(value)),
        });
        ticks.collect()
    }

    fn text(&self, value: f64) -> String {
        match self.unit {
            Unit::Bytes => human_bytes(value),
            Unit::Count if value >= 1024.0 => format!("{}k", short(value / 1024.0)),
            Unit::Probability if value < 0.1 => format!("1e{}", value.log10().round()),
            _ => short((value * 1e9).round() / 1e9),
        }
    }

    fn linear_ticks(&self) -> Vec<(f64, bool)> {
        let span = self.range.1 - self.range.0;
        let decade = 10.0_f64.powf((span / 5.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
        let step = steps.into_iter().find(|step| span / step <= 6.0);
        let step = step.unwrap_or(10.0 * decade);
        let count = (span / step).floor() as usize;
        (0..=count)
            .map(|index| (index as f64 * step, true))
            .collect()
    }

    fn power_of_two_ticks(&self) -> Vec<(f64, bool)> {
        let (low, high) = (self.range.0.log2(), self.range.1.log2());
        let room = ((self.places.1 - self.places.0).abs() / 46.0).max(2.0);
        let step = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let step = step.into_iter().find(|step| (high - low) / step <= room);
        let step = step.unwrap_or(8.0);
        let first = (low - 1e-9).ceil() as i32;
        let last = (high + 1e-9).floor() as i32;
        (first..=last)
            .step_by(step as usize)
            .map(|power| (2.0_f64.powi(power), true))
            .collect()
    }

    /// Returns 1, 2 and 5 of each decade; of many decades only the powers of ten have labels.
    fn decade_ticks(&self) -> Vec<(f64, bool)> {
        let (low, high) = self.range;
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let all_named = high / low < 300.0;
        let mut ticks = Vec::new();
        for decade in first..=last {
            for factor in [1.0, 2.0, 5.0] {
                let value = factor * 10.0_f64.powi(decade);
                if (low * 0.999..=high * 1.001).contains(&value) {
                    ticks.push((value, factor == 1.0 || all_named));
                }
            }
        }
        ticks
    }
}

/// Returns a range that covers the values. For sizes it is exact; others end at 1, 2 or 5 times a
/// power of ten.
fn log_range(unit: Unit, low: f64, high: f64) -> (f64, f64) {
    match unit {
        Unit::Bytes | Unit::Count | Unit::Probability if high > low => (low, high),
        Unit::Bytes | Unit::Count | Unit::Probability => (low / 2.0, high * 2.0),
        Unit::Number => (round_125(low, false), round_125(high * 1.05, true)),
    }
}

fn round_125(value: f64, up: bool) -> f64 {
    let decade = 10.0_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
    if up {
        let above = steps.into_iter().find(|step| *step >= value * 0.999_999);
        above.unwrap_or(steps[3])
    } else {
        let below = steps
            .into_iter()
            .rev()
            .find(|step| *step <= value * 1.000_001);
        below.unwrap_or(steps[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, values: &[f64]) -> Vec<String> {
        let mapping = Mapping::new(axis, values.iter().copied(), (0.0, 480.0));
        mapping
            .ticks()
            .into_iter()
            .filter_map(|tick| tick.text)
            .collect()
    }

    #[test]
    fn sizes_have_powers_of_two() {
        let expected = [
            "2", "16", "128", "1 KiB", "8 KiB", "64 KiB", "512 KiB", "4 MiB",
        ];
        assert_eq!(texts(&Axis::bytes(""), &[2.0, 8_388_608.0]), expected);
        assert_eq!(
            texts(&Axis::count(""), &[1.0, 4096.0]),
            ["1", "4", "16", "64", "256", "1k", "4k"]
        );
    }

    #[test]
    fn decades_and_what_is_between() {
        assert_eq!(
            texts(&Axis::log(""), &[1.5, 90.0]),
            ["1", "2", "5", "10", "20", "50", "100"]
        );
        assert_eq!(
            texts(&Axis::log(""), &[0.04, 98.0]),
            ["0.1", "1", "10", "100"]
        );
    }

    #[test]
    fn linear_axes_begin_at_zero() {
        assert_eq!(
            texts(&Axis::linear(""), &[30.0, 54.0]),
            ["0", "10", "20", "30", "40", "50"]
        );
    }

    #[test]
    fn values_outside_are_at_the_edge() {
        let mapping = Mapping::new(&Axis::log(""), [1.0, 9.0].into_iter(), (100.0, 0.0));
        assert_eq!((mapping.place(0.0), mapping.place(1.0)), (100.0, 100.0));
        assert_eq!((mapping.place(10.0), mapping.place(1e9)), (0.0, 0.0));
    }

    #[test]
    fn nothing_to_show_is_no_panic() {
        assert!(!texts(&Axis::log(""), &[]).is_empty());
        assert!(!texts(&Axis::bytes(""), &[64.0]).is_empty());
    }
}

//! Results of pieces of the work, as documents of shards have them.

use ferroce_lab::validate::Figures;
use ferroce_lab::validate::changes::Move;
use ferroce_lab::validate::perturb::Record;
use serde_json::{Value, json};

/// Returns the error message about a piece whose result is not that of its target.
pub fn foreign(target: &str) -> String {
    format!("the shards' piece of {target} has no figures")
}

/// Returns the figures of a target: numbers, or the reason why it cannot be run.
pub fn of_figures(figures: &Figures) -> Value {
    match figures {
        Ok(figures) => figures.iter().map(|figure| of_figure(*figure)).collect(),
        Err(reason) => reason.as_str().into(),
    }
}

/// Reads the figures of a target.
pub fn figures(result: &Value) -> Option<Figures> {
    match result {
        Value::String(reason) => Some(Err(reason.clone())),
        _ => numbers(result).map(Ok),
    }
}

/// Returns the record of a target whose values were moved.
pub fn of_record(record: &Record) -> Value {
    let moves = record.moves.iter().map(|(Move { key, up }, figures)| {
        json!({ "parameter": key, "up": up, "figures": of_figures(figures) })
    });
    let base = record.base.iter().map(|figure| of_figure(*figure));
    json!({ "figures": base.collect::<Value>(), "moves": moves.collect::<Value>() })
}

/// Reads the record of a target.
pub fn record(result: &Value) -> Option<Record> {
    let moves = result["moves"].as_array()?.iter().map(|value| {
        let moved = Move {
            key: value["parameter"].as_str()?.to_owned(),
            up: value["up"].as_bool()?,
        };
        Some((moved, figures(&value["figures"])?))
    });
    Some(Record {
        base: numbers(&result["figures"])?,
        moves: moves.collect::<Option<_>>()?,
    })
}

/// Returns a figure as a number, or as text if JSON has no such number.
fn of_figure(figure: f64) -> Value {
    if figure.is_finite() {
        figure.into()
    } else {
        figure.to_string().into()
    }
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    let number = |value: &Value| match value.as_str() {
        Some(text) => text.parse().ok(),
        None => value.as_f64(),
    };
    value.as_array()?.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a value after it has been written and read.
    fn copied(value: &Value) -> Value {
        serde_json::from_str(&value.to_string()).expect("JSON")
    }

    #[test]
    fn figures_keep_all_digits() {
        let all = [0.1 + 0.2, 1.0 / 3.0, 8.533e-23, 5e300, -0.0, f64::INFINITY];
        let read = figures(&copied(&of_figures(&Ok(all.to_vec()))));
        let read = read.expect("figures").expect("no refusal");
        let bits = |figures: &[f64]| figures.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&read), bits(&all));
        let nan = figures(&copied(&of_figures(&Ok(vec![f64::NAN]))));
        assert!(nan.expect("figures").expect("no refusal")[0].is_nan());
        let refused: Figures = Err("no such preset".to_owned());
        assert_eq!(figures(&copied(&of_figures(&refused))), Some(refused));
        assert_eq!(figures(&json!({})), None);
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let moved = |key: &str, up| Move {
            key: key.to_owned(),
            up,
        };
        let written = Record {
            base: vec![1.0 / 3.0, 2.0],
            moves: vec![
                (moved("mac.transmit_ns", true), Ok(vec![0.1, 2.5])),
                (moved("mac.transmit_ns", false), Err("refused".to_owned())),
            ],
        };
        assert_eq!(record(&copied(&of_record(&written))), Some(written));
        assert_eq!(record(&json!({ "figures": [1.0] })), None);
    }
}

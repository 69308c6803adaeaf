//! Values of a preset that are moved to their neighbours.

use ferroce_model::preset::{Origin, Parameter, Preset, Range, Value};

/// Relative step of a value on its way up.
const SHARE: f64 = 0.1;

/// A value that is moved to its neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The parameter.
    pub key: String,
    /// True: to a larger value.
    pub up: bool,
}

/// Values of a preset that are moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes(pub Vec<Move>);

impl Changes {
    /// Changes `preset`, except values that the experiment itself sets and values without a
    /// neighbour.
    pub(super) fn apply(&self, preset: &mut Preset) -> Result<(), String> {
        for Move { key, up } in &self.0 {
            let mut parameters = preset.parameters();
            let own = parameters.find(|own| own.key == *key && own.origin != Origin::User);
            let value = own.and_then(|own| moved(&own, *up));
            drop(parameters);
            if let Some(value) = value {
                let changed = preset.set(key, &value.to_string());
                changed.map_err(|error| error.to_string())?;
            }
        }
        if self.0.is_empty() {
            Ok(())
        } else {
            preset.check().map_err(|error| error.to_string())
        }
    }
}

/// Returns the value of `parameter` moved up or down; none if there is no permitted neighbour.
pub fn moved(parameter: &Parameter<'_>, up: bool) -> Option<Value> {
    let range = parameter.declaration.range;
    let value = match (parameter.value, range) {
        (_, Range::OneOf(_) | Range::PowerOfTwo(..)) => return None,
        (Value::Flag(_) | Value::Name(_), _) => return None,
        (Value::Real(0.0), _) => return None,
        (Value::Real(real), _) if up => Value::Real(real * (1.0 + SHARE)),
        (Value::Real(real), _) => Value::Real(real * (1.0 - SHARE)),
        (Value::Count(count), _) => {
            let step = ((f64::from(count) * SHARE).round() as u32).max(1);
            Value::Count(if up {
                count.checked_add(step)?
            } else {
                count.checked_sub(step)?
            })
        }
    };
    range.contains(value).then_some(value)
}

//! Plans as TOML files: each table corresponds to an item of an expression.

use toml::{Table, Value};

use super::error::PlanError;
use super::expression::add;
use super::{DEFAULT_SEED, MAX_EXPRESSION, Plan};

/// Keys of a table `[[fault]]` other than `kind` and `value`, with their form in an expression.
const SELECTORS: [(&str, &str); 9] = [
    ("packets", ""),
    ("qp", "qp"),
    ("flow", "flow"),
    ("psn", "psn"),
    ("try", "try"),
    ("from", "from:"),
    ("to", "to:"),
    ("during", ""),
    ("at", "at:"),
];

/// Parses the text of a file.
pub(super) fn parse(text: &str) -> Result<Plan, PlanError> {
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| PlanError::Toml(error.message().to_owned()))?;
    let mut plan = Plan {
        seed: DEFAULT_SEED,
        faults: Vec::new(),
    };
    for (key, value) in &table {
        match (key.as_str(), value) {
            ("seed", seed) => add(&mut plan, &format!("seed={}", plain("seed", seed)?))?,
            ("fault", Value::Array(faults)) => {
                for fault in faults {
                    let fault = fault.as_table().ok_or(PlanError::Missing { key: "kind" })?;
                    add(&mut plan, &item(fault)?)?;
                }
            }
            _ => return Err(PlanError::Key { key: key.clone() }),
        }
    }
    if plan.faults.is_empty() {
        return Err(PlanError::Empty);
    }
    let length = plan.to_string().len();
    if length > MAX_EXPRESSION {
        Err(PlanError::TooLong { length })
    } else {
        Ok(plan)
    }
}

/// Returns a table as an item of an expression.
fn item(fault: &Table) -> Result<String, PlanError> {
    let need = |key: &'static str| match fault.get(key) {
        Some(value) => plain(key, value),
        None => Err(PlanError::Missing { key }),
    };
    let mut item = format!("{}={}", need("kind")?, need("value")?);
    for (key, value) in fault {
        if ["kind", "value"].contains(&key.as_str()) {
            continue;
        }
        let known = SELECTORS.iter().find(|(known, _)| known == key);
        let (_, prefix) = known.ok_or_else(|| PlanError::Key { key: key.clone() })?;
        item.push('@');
        item.push_str(prefix);
        item.push_str(&plain(key, value)?);
    }
    Ok(item)
}

/// Returns a string or a number as text.
fn plain(key: &str, value: &Value) -> Result<String, PlanError> {
    match value {
        Value::String(text) if !text.contains(['@', ',', '=']) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        other => Err(PlanError::Value {
            key: key.to_owned(),
            value: other.to_string(),
            expected: "a number, or a string without @ , =",
        }),
    }
}

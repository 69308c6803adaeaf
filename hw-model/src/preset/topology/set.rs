//! Changes of a topology for a run.

use std::borrow::Cow;

use super::super::error::PresetError;
use super::super::section::Section;
use super::super::value::Value;
use super::super::{Origin, Provenance, expected};
use super::{Element, Kind, Topology};

/// Names all elements of a kind.
const ALL: &str = "*";
const FORM: &str = "write topology.KIND.NUMBER.VALUE, such as topology.switch.0.acs, or \
                    topology.switch.*.acs for all switches";

impl Topology {
    /// Sets a value of an element, or of all elements of a kind: `switch.0.acs`, `switch.*.acs`,
    /// `socket_link.ns`.
    pub(in super::super) fn set(&mut self, key: &str, text: &str) -> Result<(), PresetError> {
        let changed = self.change(key, text);
        changed.map_err(|reason| PresetError::Topology {
            file: self.stated_by.clone(),
            element: key.to_owned(),
            reason,
        })
    }

    fn change(&mut self, key: &str, text: &str) -> Result<(), String> {
        let parts: Vec<&str> = key.split('.').collect();
        match (&parts[..], &mut self.socket_link) {
            (["socket_link", name], Some(link)) => change([link].into_iter(), name, text),
            ([kind, number, name], _) => {
                let kind = Kind::ALL.into_iter().find(|known| known.name() == *kind);
                match kind.ok_or_else(|| FORM.to_owned())? {
                    Kind::Socket => change(chosen(&mut self.sockets, number), name, text),
                    Kind::RootPort => change(chosen(&mut self.root_ports, number), name, text),
                    Kind::Switch => change(chosen(&mut self.switches, number), name, text),
                    Kind::Card => change(chosen(&mut self.cards, number), name, text),
                    Kind::Gpu => change(chosen(&mut self.gpus, number), name, text),
                    Kind::Nvm => change(chosen(&mut self.nvms, number), name, text),
                }
            }
            _ => Err(FORM.to_owned()),
        }
    }
}

/// Returns the elements with this number, or all.
fn chosen<'a, S>(
    elements: &'a mut [Element<S>],
    number: &'a str,
) -> impl Iterator<Item = &'a mut Element<S>> {
    let numbered = elements.iter_mut().enumerate();
    numbered.filter_map(move |(index, element)| {
        let is_chosen = number == ALL || number.parse() == Ok(index);
        is_chosen.then_some(element)
    })
}

/// Sets the value `name` of elements.
fn change<'a, S: Section + 'a>(
    elements: impl Iterator<Item = &'a mut Element<S>>,
    name: &str,
    text: &str,
) -> Result<(), String> {
    let mut is_any = false;
    for element in elements {
        is_any = true;
        let declarations = element.values.declarations();
        let index = declarations.iter().position(|one| one.name == name);
        let index = index.ok_or_else(|| {
            let names: Vec<_> = declarations.iter().map(|one| one.name).collect();
            format!("no value '{name}'; there are {}", names.join(", "))
        })?;
        let declaration = &declarations[index];
        let value: Option<Value> = declaration.parse(text);
        let permitted = value.filter(|value| declaration.range.contains(*value));
        let Some(permitted) = permitted else {
            return Err(format!("{text} must be {}", expected(declaration)));
        };
        element.values.set(index, permitted);
        element.provenance[index] = Provenance {
            origin: Origin::User,
            source: Cow::Borrowed("given for this run"),
            stated_by: Cow::Borrowed("user"),
        };
    }
    if is_any {
        Ok(())
    } else {
        Err("there is no such element".to_owned())
    }
}

//! The `[topology]` of a host profile.

use toml::{Table, Value as Toml};

use super::super::error::PresetError;
use super::super::near::did_you_mean;
use super::super::section::Section;
use super::super::stated::Statement;
use super::super::value::Value;
use super::super::{Provenance, expected};
use super::{Element, ElementId, Kind, Topology};

const SOCKET_LINK: &str = "socket_link";

impl Topology {
    /// Parses the table `topology` of `file`.
    pub(in super::super) fn parse(file: &str, table: &Table) -> Result<Self, PresetError> {
        let reader = Reader { file };
        let mut topology = Self {
            stated_by: file.to_owned(),
            ..Self::default()
        };
        for (key, value) in table {
            let is_known = key == SOCKET_LINK || Kind::ALL.iter().any(|kind| kind.name() == key);
            if !is_known || !value.is_table() {
                let names = Kind::ALL.iter().map(|kind| kind.name());
                let near = did_you_mean(key, names.chain([SOCKET_LINK]));
                let reason = format!(
                    "no kind of element{near}; there are socket, socket_link, root_port, switch, \
                     card, gpu and nvm"
                );
                return Err(reader.error(key, reason));
            }
        }
        if let Some(Toml::Table(link)) = table.get(SOCKET_LINK) {
            topology.socket_link = Some(reader.element(SOCKET_LINK, link, None)?);
        }
        for kind in Kind::ALL {
            if let Some(Toml::Table(elements)) = table.get(kind.name()) {
                reader.read_kind(kind, elements, &mut topology)?;
            }
        }
        topology.check(file)?;
        Ok(topology)
    }
}

struct Reader<'a> {
    file: &'a str,
}

impl Reader<'_> {
    /// Reads all elements of a kind, which are numbered from 0.
    fn read_kind(
        &self,
        kind: Kind,
        elements: &Table,
        topology: &mut Topology,
    ) -> Result<(), PresetError> {
        for number in 0..elements.len() {
            let id = ElementId { kind, number };
            let name = id.to_string();
            let Some(table) = elements.get(&number.to_string()).and_then(Toml::as_table) else {
                let count = elements.len();
                let reason = format!(
                    "is missing, or no table: the {count} elements of this kind are numbered from 0"
                );
                return Err(self.error(&name, reason));
            };
            if number >= super::MAX_ELEMENTS {
                let reason = format!("there may be {} of a kind", super::MAX_ELEMENTS);
                return Err(self.error(&name, reason));
            }
            match kind {
                Kind::Socket => self.add(id, table, &mut topology.sockets)?,
                Kind::RootPort => self.add(id, table, &mut topology.root_ports)?,
                Kind::Switch => self.add(id, table, &mut topology.switches)?,
                Kind::Card => self.add(id, table, &mut topology.cards)?,
                Kind::Gpu => self.add(id, table, &mut topology.gpus)?,
                Kind::Nvm => self.add(id, table, &mut topology.nvms)?,
            }
        }
        Ok(())
    }

    /// Reads one element, the next one of `elements`.
    fn add<S: Section + Default + Clone>(
        &self,
        id: ElementId,
        table: &Table,
        elements: &mut Vec<Element<S>>,
    ) -> Result<(), PresetError> {
        let model = self
            .model(id, table)?
            .map(|number| elements[number].clone());
        elements.push(self.element(&id.to_string(), table, model)?);
        Ok(())
    }

    /// Returns the number of the element whose values this one has, if it names one.
    fn model(&self, id: ElementId, table: &Table) -> Result<Option<usize>, PresetError> {
        let Some(like) = table.get("like") else {
            return Ok(None);
        };
        let model = like.as_str().and_then(ElementId::parse);
        match model.filter(|model| model.kind == id.kind && model.number < id.number) {
            Some(model) => Ok(Some(model.number)),
            None => {
                let kind = id.kind.name();
                let reason = format!(
                    "like = {like}: must be an earlier element of its kind, such as \"{kind}.0\""
                );
                Err(self.error(&id.to_string(), reason))
            }
        }
    }

    /// Reads one element; `model`: the element with its other values.
    fn element<S: Section + Default>(
        &self,
        name: &str,
        table: &Table,
        model: Option<Element<S>>,
    ) -> Result<Element<S>, PresetError> {
        let (mut values, mut provenance, model_on) = match model {
            Some(model) => (
                model.values,
                model.provenance.into_iter().map(Some).collect(),
                model.on,
            ),
            None => {
                let values = S::default();
                let count = values.declarations().len();
                (values, vec![None; count], None)
            }
        };
        let mut on = model_on;
        for (key, value) in table {
            match key.as_str() {
                "like" => {}
                "on" => on = Some(self.place(name, value)?),
                _ => {
                    let all = values.declarations();
                    let found = all.iter().position(|declaration| declaration.name == key);
                    let Some(index) = found else {
                        let names = all.iter().map(|declaration| declaration.name);
                        let near = did_you_mean(key, names.chain(["on", "like"]));
                        return Err(self.error(name, format!("no value '{key}'{near}")));
                    };
                    let (value, from) = self.value(name, &all[index], value)?;
                    values.set(index, value);
                    provenance[index] = Some(from);
                }
            }
        }
        let missing = provenance.iter().position(Option::is_none);
        if let Some(missing) = missing.map(|index| &values.declarations()[index]) {
            let reason = format!("{} is missing ({})", missing.name, expected(missing));
            return Err(self.error(name, reason));
        }
        Ok(Element {
            values,
            on,
            provenance: provenance.into_iter().flatten().collect(),
        })
    }

    fn place(&self, name: &str, value: &Toml) -> Result<ElementId, PresetError> {
        let place = value.as_str().and_then(ElementId::parse);
        place.ok_or_else(|| {
            let reason = format!("on = {value}: must name an element, such as \"root_port.0\"");
            self.error(name, reason)
        })
    }

    fn value(
        &self,
        name: &str,
        declaration: &'static super::Declaration,
        given: &Toml,
    ) -> Result<(Value, Provenance), PresetError> {
        let statement = Statement {
            file: self.file,
            stated_by: self.file,
            key: &format!("topology.{name}.{}", declaration.name),
        };
        statement.read(declaration, given)
    }

    fn error(&self, element: &str, reason: impl Into<String>) -> PresetError {
        PresetError::Topology {
            file: self.file.to_owned(),
            element: element.to_owned(),
            reason: reason.into(),
        }
    }
}

//! Inconsistencies of a topology.

use super::super::error::PresetError;
use super::{ElementId, Kind, MAX_SOCKETS, Topology};

impl Topology {
    /// Checks that elements are where they can be.
    pub(super) fn check(&self, file: &str) -> Result<(), PresetError> {
        let error = |element: String, reason: String| PresetError::Topology {
            file: file.to_owned(),
            element,
            reason,
        };
        for (kind, has_some) in [
            (Kind::Socket, !self.sockets.is_empty()),
            (Kind::Card, !self.cards.is_empty()),
        ] {
            if !has_some {
                let reason = "is missing: a machine has a socket, and a card that uses it";
                return Err(error(format!("{}.0", kind.name()), reason.to_owned()));
            }
        }
        if self.sockets.len() > 1 && self.socket_link.is_none() {
            let reason = "is missing: there are several sockets";
            return Err(error("socket_link".to_owned(), reason.to_owned()));
        }
        if self.sockets.len() > MAX_SOCKETS {
            let reason = format!("there may be {MAX_SOCKETS} sockets");
            return Err(error(format!("socket.{MAX_SOCKETS}"), reason));
        }
        for id in self.elements() {
            if let Some(reason) = self.misplaced(id) {
                return Err(error(id.to_string(), reason));
            }
        }
        Ok(())
    }

    /// Returns the reason why an element cannot be where it is.
    fn misplaced(&self, id: ElementId) -> Option<String> {
        let permitted = id.kind.permitted();
        let names = permitted.iter().map(|kind| format!("a {}", kind.name()));
        let names = names.collect::<Vec<_>>().join(" or ");
        let on = match (self.above(id), permitted) {
            (None, []) => return None,
            (Some(on), []) => return Some(format!("on = \"{on}\": it is on nothing")),
            (None, _) => return Some(format!("on is missing: it is on {names}")),
            (Some(on), _) => on,
        };
        if !permitted.contains(&on.kind) {
            return Some(format!("on = \"{on}\": must be {names}"));
        }
        if !self.elements().contains(&on) {
            return Some(format!("on = \"{on}\": there is no {on}"));
        }
        let chain = self.chain(id);
        let reaches_socket = chain.last().is_some_and(|top| top.kind == Kind::Socket);
        (!reaches_socket).then(|| format!("on = \"{on}\": switches are on each other in a circle"))
    }
}

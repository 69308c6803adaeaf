//! Addresses of the port. Fault injection: the host takes them, and gives them back.
//!
//! A connected queue pair keeps the headers of its packets, so its path is cleared with the
//! address, and built again from its context. That costs packets nothing: a queue pair without a
//! path sends and receives nothing in any case.

use std::ops::{Deref, DerefMut};

use ferroce_spec::context::AddressEntry;
use ferroce_transport::QpState;
use ferroce_wire::Gid;

use crate::congestion::marked;
use crate::contexts::Contexts;
use crate::contexts::path::Path;
use crate::limits::MAX_GIDS;

/// The GID table.
#[derive(Debug)]
pub struct GidTable {
    entries: Box<[AddressEntry; MAX_GIDS]>,
    /// Entries that the host has cleared, and their indices.
    removed: Vec<(usize, AddressEntry)>,
}

impl Default for GidTable {
    fn default() -> Self {
        Self {
            entries: Box::new([AddressEntry::default(); MAX_GIDS]),
            removed: Vec::new(),
        }
    }
}

impl Deref for GidTable {
    type Target = [AddressEntry; MAX_GIDS];

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl DerefMut for GidTable {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.entries
    }
}

impl GidTable {
    /// Clears all entries (reset).
    pub fn clear(&mut self) {
        self.entries.fill(AddressEntry::default());
        self.removed.clear();
    }

    /// Sets an entry for software. Returns false if there is none of this index.
    pub fn set(&mut self, index: usize, address: AddressEntry) -> bool {
        let Some(slot) = self.entries.get_mut(index) else {
            return false;
        };
        *slot = address;
        self.removed.retain(|(removed, _)| *removed != index);
        true
    }

    /// Returns true if the host has cleared an entry.
    pub fn is_removed(&self, index: usize) -> bool {
        self.removed.iter().any(|(removed, _)| *removed == index)
    }
}

impl Contexts {
    /// Clears the entries of the GID table with an IPv4 address, and returns their indices. Queue
    /// pairs that use them lose what they send and receive.
    #[cold]
    pub fn remove_addresses(&mut self) -> Vec<u32> {
        let mut gone = Vec::new();
        for (index, slot) in self.gids.entries.iter_mut().enumerate() {
            if Gid(slot.gid).to_ipv4().is_some() {
                self.gids.removed.push((index, *slot));
                gone.push((index as u32, Gid(slot.gid)));
                *slot = AddressEntry::default();
            }
        }
        let (_, used) = self.qps.all();
        for index in 0..used {
            let Some(qp) = self.qps.get_mut(index) else {
                continue;
            };
            let is_gone = |path: &Path| gone.iter().any(|(_, gid)| *gid == path.local);
            if !qp.is_datagram() && qp.path.as_ref().is_some_and(is_gone) {
                qp.path = None;
            }
        }
        self.qps.forget_datagram_paths();
        gone.into_iter().map(|(index, _)| index).collect()
    }

    /// Sets the removed entries again, and returns their indices. `has_congestion_control`: the
    /// packets say that switches can mark them.
    #[cold]
    pub fn return_addresses(&mut self, has_congestion_control: bool) -> Vec<u32> {
        let back = std::mem::take(&mut self.gids.removed);
        for (index, entry) in &back {
            self.gids[*index] = *entry;
        }
        let (_, used) = self.qps.all();
        for index in 0..used {
            let Some(qp) = self.qps.get_mut(index) else {
                continue;
            };
            let was_connected = !matches!(qp.transport.state(), QpState::Reset | QpState::Init);
            let source = usize::from(qp.context.path.source_gid_index);
            let is_back = |(index, _): &(usize, AddressEntry)| *index == source;
            if was_connected && !qp.is_datagram() && qp.path.is_none() && back.iter().any(is_back) {
                let path = marked(qp.context.path, has_congestion_control);
                qp.path = Path::new(&self.gids[source], &path);
            }
        }
        self.qps.forget_datagram_paths();
        back.into_iter().map(|(index, _)| index as u32).collect()
    }
}

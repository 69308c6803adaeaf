//! Multicast groups: the queue pairs attached to each group.

use std::collections::BTreeMap;

use ferroce_wire::Gid;

/// Maximum number of groups.
pub const MAX_GROUPS: usize = 256;
/// Maximum number of queue pairs per group.
pub const MAX_QPS_PER_GROUP: usize = 256;

/// Effect of an attach or a detach on its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The group is new, or now empty: the port must be notified.
    Group,
    /// Only the membership of the queue pair changed.
    Member,
}

/// The table has no room to attach a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableFull;

/// The multicast groups of a function, with the indices of the queue pairs in them.
#[derive(Debug, Default)]
pub struct MulticastTable {
    groups: BTreeMap<Gid, Vec<u32>>,
}

impl MulticastTable {
    /// Attaches a queue pair; no effect if it is already attached.
    pub fn attach(&mut self, group: Gid, qp: u32) -> Result<Change, TableFull> {
        if !self.groups.contains_key(&group) && self.groups.len() == MAX_GROUPS {
            return Err(TableFull);
        }
        let members = self.groups.entry(group).or_default();
        let change = if members.is_empty() {
            Change::Group
        } else {
            Change::Member
        };
        if !members.contains(&qp) {
            if members.len() == MAX_QPS_PER_GROUP {
                return Err(TableFull);
            }
            members.push(qp);
        }
        Ok(change)
    }

    /// Detaches a queue pair; `None`: it was not attached.
    pub fn detach(&mut self, group: Gid, qp: u32) -> Option<Change> {
        let members = self.groups.get_mut(&group)?;
        let position = members.iter().position(|member| *member == qp)?;
        members.remove(position);
        if members.is_empty() {
            self.groups.remove(&group);
            return Some(Change::Group);
        }
        Some(Change::Member)
    }

    /// Returns the queue pairs in a group.
    pub fn members(&self, group: Gid) -> &[u32] {
        self.groups.get(&group).map_or(&[], Vec::as_slice)
    }

    /// Returns true if a queue pair is in any group.
    pub fn is_attached(&self, qp: u32) -> bool {
        self.groups.values().any(|members| members.contains(&qp))
    }

    /// Removes all groups; returns them.
    pub fn clear(&mut self) -> impl Iterator<Item = Gid> {
        std::mem::take(&mut self.groups).into_keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(number: u16) -> Gid {
        let mut gid = [0; 16];
        gid[0] = 0xff;
        gid[14..].copy_from_slice(&number.to_be_bytes());
        Gid(gid)
    }

    #[test]
    fn group_lives_from_first_to_last_member() {
        let mut table = MulticastTable::default();
        assert_eq!(table.attach(group(1), 7), Ok(Change::Group));
        assert_eq!(table.attach(group(1), 8), Ok(Change::Member));
        assert_eq!(table.attach(group(1), 7), Ok(Change::Member), "again");
        assert_eq!(table.members(group(1)), [7, 8]);
        assert!(table.is_attached(7) && !table.is_attached(9));
        assert_eq!(table.detach(group(1), 9), None);
        assert_eq!(table.detach(group(1), 7), Some(Change::Member));
        assert_eq!(table.detach(group(1), 8), Some(Change::Group));
        assert_eq!(table.detach(group(1), 8), None);
        assert!(table.members(group(1)).is_empty());
    }

    #[test]
    fn table_is_bounded() {
        let mut table = MulticastTable::default();
        for number in 0..MAX_GROUPS as u16 {
            assert_eq!(table.attach(group(number), 1), Ok(Change::Group));
        }
        assert_eq!(table.attach(group(9999), 1), Err(TableFull));
        for qp in 2..=MAX_QPS_PER_GROUP as u32 {
            assert_eq!(table.attach(group(0), qp), Ok(Change::Member));
        }
        assert_eq!(table.attach(group(0), 999), Err(TableFull));
        assert_eq!(table.clear().count(), MAX_GROUPS);
        assert!(!table.is_attached(1));
    }
}

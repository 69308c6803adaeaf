//! Traffic patterns: which hosts of a run send to which.

/// A traffic pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// All hosts send to the last one.
    Incast,
    /// Each host sends to the host half of the hosts further on.
    Permutation,
    /// Each host sends to all others.
    AllToAll,
    /// Every second host sends to the next one.
    Pairs,
}

impl Pattern {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Incast => "incast",
            Self::Permutation => "permutation",
            Self::AllToAll => "all-to-all",
            Self::Pairs => "pairs",
        }
    }

    /// Returns the pairs of sender and receiver among `hosts` hosts.
    pub fn flows(self, hosts: u32) -> Vec<(u32, u32)> {
        let all = 0..hosts;
        match self {
            Self::Incast => (0..hosts.saturating_sub(1))
                .map(|from| (from, hosts - 1))
                .collect(),
            Self::Permutation => all.map(|from| (from, (from + hosts / 2) % hosts)).collect(),
            Self::Pairs => (0..hosts / 2)
                .map(|pair| (2 * pair, 2 * pair + 1))
                .collect(),
            Self::AllToAll => all
                .flat_map(|from| (1..hosts).map(move |step| (from, (from + step) % hosts)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_their_flows() {
        assert_eq!(Pattern::Incast.flows(3), [(0, 2), (1, 2)]);
        assert_eq!(
            Pattern::Permutation.flows(4),
            [(0, 2), (1, 3), (2, 0), (3, 1)]
        );
        assert_eq!(Pattern::Pairs.flows(5), [(0, 1), (2, 3)]);
        assert_eq!(Pattern::AllToAll.flows(3).len(), 6);
    }
}

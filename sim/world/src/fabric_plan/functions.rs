//! Hosts whose cards have several functions.
//!
//! Each function is a host of the world, with its own addresses. An embedded switch connects the
//! functions of a card to its one cable, as in a card with SR-IOV: it takes no time, never drops,
//! and stops a function while the cable does not accept its frames.

use std::ops::Range;

use ferroce_units::Duration;

use super::{FabricPlan, LinkPlan, Node, PfcPlan, SwitchPlan};

/// Maximum number of functions of a host's card.
pub const MAX_FUNCTIONS: usize = 32;

/// A function is stopped when this many of its bytes wait for the cable: slightly more than one
/// frame of the largest MTU, so that functions alternate.
const STOP_AT_BYTES: u64 = 9_000;
/// It resumes when this many bytes less wait: early enough to keep the cable busy.
const GO_ON_BELOW_BYTES: u64 = 4_500;
/// Room for the frames of all functions; only the headroom is needed, at any rate of a card.
const BUFFER_BYTES: u64 = 64 << 20;

/// A host whose card has several functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiFunctionHost {
    /// The printed number of the host.
    pub number: usize,
    /// Its functions, as hosts of the world.
    pub functions: Range<usize>,
    /// Its embedded switch, by its index in the list.
    pub switch: usize,
}

impl FabricPlan {
    /// Returns the printed number of a host of the world, and the function of its card; `None`: the
    /// card has only one function.
    pub fn place_of(&self, host: usize) -> (usize, Option<usize>) {
        let mut number = host;
        for several in &self.multi_function {
            let functions = &several.functions;
            if functions.contains(&host) {
                return (several.number, Some(host - functions.start));
            }
            if functions.end <= host {
                number -= functions.len() - 1;
            }
        }
        (number, None)
    }

    /// Returns the host whose card has this switch, if it is an embedded one.
    pub(crate) fn host_of_switch(&self, switch: usize) -> Option<&MultiFunctionHost> {
        let mut hosts = self.multi_function.iter();
        hosts.find(|several| several.switch == switch)
    }

    /// Returns the host of the world whose card is at this end of a link.
    pub(crate) fn card_at(&self, end: Node) -> Option<usize> {
        match end {
            Node::Host(host) => Some(host),
            Node::Switch(switch) => {
                let several = self.host_of_switch(switch)?;
                Some(several.functions.start)
            }
        }
    }

    /// Returns the same fabric with `count` functions on the card of the host with this number.
    /// Hosts with higher numbers have one function.
    #[must_use]
    pub fn with_functions(mut self, number: usize, count: usize) -> Self {
        let earlier = self.multi_function.iter();
        let more: usize = earlier.map(|several| several.functions.len() - 1).sum();
        let first = number + more;
        let functions = first..first + count;
        let switch = self.switches.len();
        self.switches.push(embedded_switch(format!("n{number}")));
        for end in self.links.iter_mut().flat_map(|link| &mut link.ends) {
            match end {
                Node::Host(host) if *host == first => *end = Node::Switch(switch),
                Node::Host(host) if *host > first => *host += count - 1,
                _ => {}
            }
        }
        for storm in self.storms.iter_mut().filter(|storm| storm.host > first) {
            storm.host += count - 1;
        }
        self.links
            .extend(functions.clone().map(|function| LinkPlan {
                cable: Some(Duration::ZERO),
                ..LinkPlan::new([Node::Host(function), Node::Switch(switch)])
            }));
        self.multi_function.push(MultiFunctionHost {
            number,
            functions,
            switch,
        });
        self
    }
}

/// Returns the embedded switch of a card. It marks no packets: packets in a card have not met a
/// congested cable.
fn embedded_switch(name: String) -> SwitchPlan {
    SwitchPlan {
        latency: Some(Duration::ZERO),
        buffer_bytes: BUFFER_BYTES,
        ecn: None,
        // A card never drops packets before sending them, whatever their priority.
        pfc: Some(PfcPlan {
            priorities: (0..8).collect(),
            xoff_bytes: Some(STOP_AT_BYTES),
            xon_offset_bytes: GO_ON_BELOW_BYTES,
            ..PfcPlan::default()
        }),
        ..SwitchPlan::new(name)
    }
}

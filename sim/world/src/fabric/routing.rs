//! Routes: for each switch and host, the channels of all shortest paths. They never change.

use std::collections::VecDeque;
use std::ops::Range;

use crate::fabric_plan::{FabricError, FabricPlan, Node};

/// Returns the channel in the other direction of the same link.
pub fn reverse(channel: usize) -> usize {
    channel ^ 1
}

/// The two ends of each channel.
#[derive(Debug)]
pub struct Ends(Vec<[Node; 2]>);

impl Ends {
    /// Returns the ends of all channels of a plan.
    pub fn of(plan: &FabricPlan) -> Self {
        let links = plan.links.iter().map(|link| link.ends);
        Self(
            links
                .flat_map(|[one, other]| [[one, other], [other, one]])
                .collect(),
        )
    }

    /// Returns the sending and the receiving node, by channel.
    pub fn channels(&self) -> impl Iterator<Item = (usize, [Node; 2])> {
        self.0.iter().copied().enumerate()
    }

    /// Returns the channels that begin at a node.
    pub fn from(&self, node: Node) -> impl Iterator<Item = usize> {
        let from = move |(_, [from, _]): &(usize, [Node; 2])| *from == node;
        self.channels().filter(from).map(|(channel, _)| channel)
    }

    /// Returns the receiving node of a channel.
    pub fn to(&self, channel: usize) -> Node {
        self.0[channel][1]
    }
}

/// The channels of all shortest paths.
#[derive(Debug)]
pub struct Routes {
    hosts: usize,
    choices: Vec<u32>,
    /// By switch and host.
    ranges: Vec<Range<u32>>,
}

impl Routes {
    /// Finds the shortest paths from all switches to all hosts.
    ///
    /// # Errors
    /// [`FabricError::NoPath`].
    pub fn new(plan: &FabricPlan, ends: &Ends) -> Result<Self, FabricError> {
        let hosts = plan.hosts();
        let switches = plan.switches.len();
        let outward: Vec<Vec<usize>> = (0..switches)
            .map(|switch| ends.from(Node::Switch(switch)).collect())
            .collect();
        let mut routes = Self {
            hosts,
            choices: Vec::new(),
            ranges: vec![0..0; switches * hosts],
        };
        for host in 0..hosts {
            let distances = distances(host, switches, ends, &outward);
            for (switch, outward) in outward.iter().enumerate() {
                let begin = routes.choices.len() as u32;
                let own = distances[switch].unwrap_or(0);
                let is_nearer = |channel: &&usize| match ends.to(**channel) {
                    Node::Host(other) => other == host,
                    Node::Switch(next) => distances[next].is_some_and(|next| next < own),
                };
                let nearer = outward.iter().filter(is_nearer);
                routes.choices.extend(nearer.map(|channel| *channel as u32));
                let range = begin..routes.choices.len() as u32;
                if range.is_empty() {
                    let switch = plan.switches[switch].name.clone();
                    let (host, _) = plan.place_of(host);
                    return Err(FabricError::NoPath { switch, host });
                }
                routes.ranges[switch * hosts + host] = range;
            }
        }
        Ok(routes)
    }

    /// Returns the channels on which a switch can forward packets to a host: at least one.
    #[inline]
    pub fn choices(&self, switch: usize, host: usize) -> &[u32] {
        let range = &self.ranges[switch * self.hosts + host];
        &self.choices[range.start as usize..range.end as usize]
    }
}

/// Returns the number of links from each switch to a host, if they are connected.
fn distances(
    host: usize,
    switches: usize,
    ends: &Ends,
    outward: &[Vec<usize>],
) -> Vec<Option<u32>> {
    let mut distances = vec![None; switches];
    let mut next = VecDeque::new();
    for channel in ends.from(Node::Host(host)) {
        if let Node::Switch(first) = ends.to(channel) {
            distances[first] = Some(1);
            next.push_back((first, 1));
        }
    }
    while let Some((switch, distance)) = next.pop_front() {
        for &channel in &outward[switch] {
            if let Node::Switch(other) = ends.to(channel) {
                if distances[other].is_none() {
                    distances[other] = Some(distance + 1);
                    next.push_back((other, distance + 1));
                }
            }
        }
    }
    distances
}

/// Refuses a fabric in which full buffers can wait for each other in a cycle.
///
/// A packet that holds room of one channel may wait for room of the next one on its path. PFC can
/// deadlock only if these dependencies have a cycle (Dally and Seitz, 1987).
///
/// # Errors
/// [`FabricError::Loop`] names the switches of a cycle.
pub fn refuse_loops(plan: &FabricPlan, ends: &Ends, routes: &Routes) -> Result<(), FabricError> {
    let pauses = |switch: usize| plan.switches[switch].pfc.is_some();
    let mut waits_for = vec![Vec::new(); ends.0.len()];
    for (channel, [_, to]) in ends.channels() {
        let Node::Switch(switch) = to else {
            continue;
        };
        if !pauses(switch) {
            continue;
        }
        for host in 0..routes.hosts {
            if !is_on_a_path(ends, routes, channel, host) {
                continue;
            }
            for &next in routes.choices(switch, host) {
                if !waits_for[channel].contains(&(next as usize)) {
                    waits_for[channel].push(next as usize);
                }
            }
        }
    }
    match find_cycle(&waits_for) {
        None => Ok(()),
        Some(cycle) => {
            let names = cycle.iter().filter_map(|channel| match ends.to(*channel) {
                Node::Switch(switch) => Some(plan.switches[switch].name.as_str()),
                Node::Host(_) => None,
            });
            let switches = names.collect::<Vec<_>>().join(", ");
            Err(FabricError::Loop { switches })
        }
    }
}

/// Returns true if a channel is on a path to a host.
fn is_on_a_path(ends: &Ends, routes: &Routes, channel: usize, host: usize) -> bool {
    match ends.0[channel][0] {
        Node::Host(from) => from != host,
        Node::Switch(from) => routes.choices(from, host).contains(&(channel as u32)),
    }
}

/// Returns a cycle of a graph, if there is one.
fn find_cycle(next: &[Vec<usize>]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        OnPath,
        Done,
    }
    let mut states = vec![State::New; next.len()];
    for start in 0..next.len() {
        // Nodes of the path, and the index of their next successor.
        let mut path = vec![(start, 0)];
        while let Some((node, turn)) = path.last_mut() {
            let node = *node;
            if *turn == 0 && states[node] == State::Done {
                path.pop();
                continue;
            }
            states[node] = State::OnPath;
            match next[node].get(*turn) {
                None => {
                    states[node] = State::Done;
                    path.pop();
                }
                Some(&successor) => {
                    *turn += 1;
                    match states[successor] {
                        State::Done => {}
                        State::New => path.push((successor, 0)),
                        State::OnPath => {
                            let begin = path.iter().position(|(node, _)| *node == successor)?;
                            return Some(path[begin..].iter().map(|(node, _)| *node).collect());
                        }
                    }
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric_plan::{LinkPlan, SwitchPlan};

    /// Returns a ring of switches with a host each.
    fn ring(switches: usize) -> FabricPlan {
        let mut plan = FabricPlan::star(0);
        plan.switches = (0..switches)
            .map(|n| SwitchPlan::new(format!("s{n}")))
            .collect();
        let hosts = (0..switches).map(|n| [Node::Host(n), Node::Switch(n)]);
        let links = (0..switches).map(|n| [Node::Switch(n), Node::Switch((n + 1) % switches)]);
        plan.links = hosts.chain(links).map(LinkPlan::new).collect();
        plan
    }

    fn check(plan: &FabricPlan) -> Result<(), FabricError> {
        let ends = Ends::of(plan);
        let routes = Routes::new(plan, &ends)?;
        refuse_loops(plan, &ends, &routes)
    }

    #[test]
    fn all_shortest_paths_are_found() {
        let plan = FabricPlan::two_tier(4, 4, 3);
        let ends = Ends::of(&plan);
        let routes = Routes::new(&plan, &ends).expect("all are joined");
        assert_eq!(routes.choices(0, 3).len(), 1, "its own host");
        assert_eq!(routes.choices(0, 4).len(), 3, "each spine");
        assert_eq!(routes.choices(5, 4).len(), 1, "down from a spine");
        assert_eq!(check(&plan), Ok(()));
    }

    #[test]
    fn a_loop_is_refused_where_pfc_could_stop_it() {
        assert_eq!(
            check(&ring(3)),
            Ok(()),
            "no path has two switches of the ring between"
        );
        let error = check(&ring(5)).expect_err("a loop");
        assert!(matches!(&error, FabricError::Loop { switches } if switches.contains("s3")));
        let mut without = ring(5);
        without.for_each_switch(|switch| switch.pfc = None);
        assert_eq!(check(&without), Ok(()));
    }

    #[test]
    fn an_island_is_refused() {
        let mut plan = FabricPlan::two_tier(2, 1, 1);
        plan.links.pop();
        let error = check(&plan).expect_err("no path");
        assert!(matches!(error, FabricError::NoPath { .. }), "{error}");
    }
}

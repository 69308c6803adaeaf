//! Checks memory at the end of a round.
//!
//! Requests of a reliable connection are executed once and in order. Requests that completed with
//! success, and all earlier ones, were executed. Of the others, the first ones may have been
//! executed, the next one partly (whole packets from its start), and the rest not.

use crate::error::Wrong;
use crate::flow::{Flow, Posted};
use crate::layout::COUNT_BITS;
use crate::memory::{first_difference, is_prefix};
use crate::program::{Kind, direction};
use crate::state::State;

/// Maximum value of one counter.
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

impl State {
    /// Checks all effects of a round, and stores the new contents of memory.
    pub fn check_round(&mut self) -> Result<(), Wrong> {
        for connection in 0..self.links.len() {
            for side in 0..2 {
                let number = direction(connection, side);
                let result = if self.links[connection].plan.transport.is_reliable() {
                    self.check_reliable(number)
                } else {
                    self.check_unreliable(number)
                };
                result.map_err(|w| w.at(format!("connection {connection}, side {side}")))?;
            }
        }
        self.check_counters()?;
        self.check_rest()
    }

    fn check_reliable(&mut self, number: usize) -> Result<(), Wrong> {
        let flow = &self.flows[number];
        let link = &self.links[number / 2];
        let mtu = link.plan.mtu.bytes() as usize;
        let own = link.ends[number % 2].host;
        let peer = link.ends[1 - number % 2].host;
        if let Some(range) = self.hosts[peer].layout.targets.get(&number).cloned() {
            let host = &self.hosts[peer];
            let seen = host.memory.bytes(range.clone());
            check_target(flow, &host.known[range.clone()], &seen, mtu)?;
            self.hosts[peer].learn(range);
        }
        let host = &mut self.hosts[own];
        for posted in &flow.posted {
            let Some(range) = host.layout.landings.get(&posted.operation.index).cloned() else {
                continue;
            };
            let seen = host.memory.bytes(range.clone());
            check_landing(posted, &host.known[range.clone()], &seen, mtu)?;
            host.learn(range);
        }
        Ok(())
    }

    fn check_unreliable(&mut self, number: usize) -> Result<(), Wrong> {
        let flow = &self.flows[number];
        let link = &self.links[number / 2];
        let mtu = link.plan.mtu.bytes() as usize;
        let host = &mut self.hosts[link.ends[1 - number % 2].host];
        let Some(target) = host.layout.targets.get(&number).cloned() else {
            return Ok(());
        };
        for posted in &flow.posted {
            let Some((offset, data)) = &posted.write else {
                continue;
            };
            let start = target.start + offset;
            let range = start..start + data.len();
            let seen = host.memory.bytes(range.clone());
            let must_arrive = !self.disturbs && posted.operation.kind == Kind::Write;
            let is_right = if must_arrive {
                seen == *data
            } else {
                is_prefix(&seen, &host.known[range.clone()], data, mtu)
            };
            if !is_right {
                let operation = &posted.operation;
                return Err(Wrong::new(format!("the data of {operation} is wrong")));
            }
            host.learn(range);
        }
        Ok(())
    }

    /// Checks how often each fetch and add was executed, and what it returned.
    fn check_counters(&mut self) -> Result<(), Wrong> {
        for (number, flow) in self.flows.iter().enumerate() {
            let link = &self.links[number / 2];
            let own = &self.hosts[link.ends[number % 2].host];
            let peer = &self.hosts[link.ends[1 - number % 2].host];
            // The counters of this direction's earlier requests.
            let mut earlier = Vec::new();
            for posted in &flow.posted {
                let operation = &posted.operation;
                let Some(&(word, shift)) = self.layouts.counters.get(&operation.index) else {
                    continue;
                };
                let offset = peer.layout.counters.start + 8 * word;
                let before = word_of(&peer.known, offset);
                let now = peer.memory.word(offset);
                let count = executions(before, now, shift);
                if count > 1 || count == 0 && posted.is_done {
                    return Err(Wrong::new(format!(
                        "{operation} was executed {count} times"
                    )));
                }
                let landing = own.layout.landings[&operation.index].start;
                let original = own.memory.word(landing);
                let is_after = |counter: &(usize, u32)| {
                    counter.0 != word || executions(before, original, counter.1) == 1
                };
                let is_right =
                    is_between(before, original, now, shift) && earlier.iter().all(is_after);
                if posted.is_done && !is_right {
                    return Err(Wrong::new(format!(
                        "{operation} returned {original:#x}: memory was {before:#x}, is {now:#x}"
                    )));
                }
                earlier.push((word, shift));
            }
        }
        for host in &mut self.hosts {
            let range = host.layout.counters.clone();
            host.learn(range);
        }
        Ok(())
    }

    /// Checks that no other memory was written.
    fn check_rest(&mut self) -> Result<(), Wrong> {
        for (number, host) in self.hosts.iter_mut().enumerate() {
            // Unfinished messages may have left some bytes there.
            for buffer in host.buffers_in_use() {
                host.learn(buffer..buffer + host.layout.receive);
            }
            let seen = host.memory.copy();
            if let Some(offset) = first_difference(&seen, &host.known) {
                return Err(Wrong::new(format!(
                    "host {number} has byte {offset:#x} written, which no request names: {:#x}, \
                     not {:#x}",
                    seen[offset], host.known[offset]
                )));
            }
        }
        Ok(())
    }
}

/// Checks the memory that a direction writes, and how many messages were received.
fn check_target(flow: &Flow, before: &[u8], seen: &[u8], mtu: usize) -> Result<(), Wrong> {
    let done = flow.posted.iter().rposition(|posted| posted.is_done);
    let done = done.map_or(0, |last| last + 1);
    let mut state = before.to_vec();
    let mut messages = 0;
    let mut nearest = String::new();
    for (number, posted) in flow.posted.iter().map(Some).chain([None]).enumerate() {
        if number >= done && flow.received == messages {
            if is_state(&state, posted, seen, mtu) {
                return Ok(());
            }
            let offset = first_difference(seen, &state).unwrap_or_default();
            nearest = format!(
                "; after request {number} byte {offset:#x} is {:#x}, not {:#x}",
                seen[offset], state[offset]
            );
        }
        let Some(posted) = posted else { break };
        if posted.operation.kind == Kind::WrongKey {
            break;
        }
        apply(&mut state, posted);
        messages += usize::from(posted.operation.kind.takes_receive());
    }
    Err(Wrong::new(format!(
        "memory is in no state that {} requests leave, of which {done} are done and {} were \
         received{nearest}",
        flow.posted.len(),
        flow.received
    )))
}

/// Returns true if memory equals `state`, with a part of the next request executed.
fn is_state(state: &[u8], next: Option<&Posted>, seen: &[u8], mtu: usize) -> bool {
    let next = next.filter(|posted| posted.operation.kind != Kind::WrongKey);
    let Some((offset, data)) = next.and_then(|posted| posted.write.as_ref()) else {
        return seen == state;
    };
    let range = *offset..offset + data.len();
    let is_outside = |bytes: &[u8]| (bytes[..range.start].to_vec(), bytes[range.end..].to_vec());
    is_outside(seen) == is_outside(state)
        && is_prefix(&seen[range.clone()], &state[range.clone()], data, mtu)
}

fn apply(state: &mut [u8], posted: &Posted) {
    if let Some((offset, data)) = &posted.write {
        state[*offset..][..data.len()].copy_from_slice(data);
    }
}

/// Checks the returned data.
fn check_landing(posted: &Posted, before: &[u8], seen: &[u8], mtu: usize) -> Result<(), Wrong> {
    let operation = &posted.operation;
    if posted
        .returned
        .as_deref()
        .is_some_and(|bytes| bytes != seen)
    {
        return Err(Wrong::new(format!(
            "the data of {operation} has changed after its completion"
        )));
    }
    let is_right = match &posted.expected {
        Some(expected) if posted.is_done => seen == expected,
        Some(expected) => is_prefix(seen, before, expected, mtu),
        None => true,
    };
    if is_right {
        return Ok(());
    }
    let expected = posted.expected.as_deref().unwrap_or_default();
    let offset = first_difference(seen, expected).unwrap_or_default();
    Err(Wrong::new(format!(
        "the data of {operation} is wrong from byte {offset} on: {:#x}, not {:#x}",
        seen[offset], expected[offset]
    )))
}

fn word_of(bytes: &[u8], offset: usize) -> u64 {
    let word = bytes[offset..][..8].try_into();
    word.map_or(0, u64::from_ne_bytes)
}

/// Returns how often one was added to a counter.
fn executions(before: u64, now: u64, shift: u32) -> u64 {
    (now.wrapping_sub(before) >> shift) & COUNT_MASK
}

/// Returns true if a word was read between two others, before the counter at `shift` was increased.
fn is_between(before: u64, word: u64, now: u64, own: u32) -> bool {
    (0..u64::BITS).step_by(COUNT_BITS as usize).all(|shift| {
        let (so_far, all) = (
            executions(before, word, shift),
            executions(before, now, shift),
        );
        if shift == own {
            so_far == 0
        } else {
            so_far <= all
        }
    })
}

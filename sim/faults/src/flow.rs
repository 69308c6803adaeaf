//! Flows: the packets of one PSN sequence.

use std::collections::HashMap;

use ferroce_units::Instant;
use ferroce_units::random::mixed;
use ferroce_wire::{Gid, Psn};

use crate::chance::Transmission;
use crate::packet::{FlowKey, Packet};
use crate::plan::Plan;
use crate::process::Process;

/// Maximum number of known flows; beyond it, the oldest one is dropped.
pub const MAX_FLOWS: usize = 1024;
/// Maximum number of host pairs whose flows are counted separately; all others are counted
/// together.
pub const MAX_HOST_PAIRS: usize = 256;
/// Number of PSNs before the newest one of a flow whose transmissions are counted.
pub const SEEN_WINDOW: u64 = 1024;

/// A flow.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Its number among the flows between the same two hosts in the same direction.
    pub number: u64,
    /// The last packet.
    pub last: Packet,
    /// The PSN after the newest one.
    next_psn: Psn,
    /// Distance of that PSN from the first one.
    next_offset: u64,
    /// Number of transmissions of each recent PSN, by the lower bits of its offset.
    seen: Box<[u8; SEEN_WINDOW as usize]>,
    /// Number of older packets.
    older: u8,
    /// State for each fault of the plan.
    pub processes: Box<[Process]>,
    /// Jitter has delayed no packet beyond this time: later packets are not delivered earlier.
    pub in_order_from: Instant,
    /// No new packet up to this offset has an event.
    pub clear_until: u64,
}

impl Flow {
    fn new(first: &Packet, number: u64, is_forward: bool, plan: &Plan) -> Self {
        let class = u64::from(first.key.is_response) | u64::from(is_forward) << 1;
        let identity = mixed(number << 2 | class);
        let processes = plan.faults.iter().enumerate();
        Self {
            number,
            last: *first,
            next_psn: first.psn,
            next_offset: 0,
            seen: Box::new([0; SEEN_WINDOW as usize]),
            older: 0,
            processes: processes
                .map(|(index, fault)| Process::new(fault, plan.seed, index, identity))
                .collect(),
            in_order_from: Instant::ZERO,
            clear_until: 0,
        }
    }

    /// Returns the offset of the next new packet.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Records a packet, and returns its transmission number.
    #[inline]
    pub fn note(&mut self, packet: &Packet) -> Transmission {
        self.last = *packet;
        let psn = packet.psn;
        let ahead = psn.distance_from(self.next_psn);
        if ahead >= 0 {
            self.move_on(ahead as u64 + 1);
        }
        let behind = u64::from(self.next_psn.distance_from(psn).unsigned_abs());
        // A packet before the first one seen is older than the flow.
        if behind > SEEN_WINDOW || behind > self.next_offset {
            self.older = self.older.wrapping_add(1);
            let offset = self.next_offset.wrapping_sub(behind);
            let earlier = self.older;
            return Transmission { offset, earlier };
        }
        let offset = self.next_offset - behind;
        let count = &mut self.seen[(offset % SEEN_WINDOW) as usize];
        let earlier = *count;
        *count = count.wrapping_add(1);
        Transmission { offset, earlier }
    }

    /// Skips `packets` new packets.
    pub fn move_on(&mut self, packets: u64) {
        let places = packets.min(SEEN_WINDOW);
        for place in 0..places {
            let offset = self.next_offset + packets - 1 - place;
            self.seen[(offset % SEEN_WINDOW) as usize] = 0;
        }
        self.next_offset += packets;
        self.next_psn = self.next_psn.add((packets & u64::from(u32::MAX)) as u32);
    }

    /// Returns the PSN of the next new packet.
    pub fn next_psn(&self) -> Psn {
        self.next_psn
    }
}

/// The known flows.
#[derive(Debug, Default)]
pub(crate) struct FlowTable {
    flows: Vec<(FlowKey, Flow)>,
    places: HashMap<FlowKey, usize>,
    /// Numbers of flows, by hosts and direction.
    numbers: HashMap<(Gid, Gid, bool, bool), u64>,
    /// The flow of the last packet.
    last: usize,
    /// The index of the flow to drop next.
    oldest: usize,
}

impl FlowTable {
    /// Returns the flow of a packet, adding it if it is new. `is_forward` separates the two
    /// directions between queue pairs with one address.
    #[inline]
    pub fn find_or_add(&mut self, packet: &Packet, is_forward: bool, plan: &Plan) -> &mut Flow {
        let key = &packet.key;
        let is_last = self
            .flows
            .get(self.last)
            .is_some_and(|(last, _)| last == key);
        if !is_last {
            self.last = match self.places.get(key) {
                Some(place) => *place,
                None => self.add(packet, is_forward, plan),
            };
        }
        &mut self.flows[self.last].1
    }

    /// Returns a known flow.
    pub fn get_mut(&mut self, key: &FlowKey) -> Option<&mut Flow> {
        let place = *self.places.get(key)?;
        self.flows.get_mut(place).map(|(_, flow)| flow)
    }

    /// Returns the number of known flows.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    #[cold]
    fn add(&mut self, packet: &Packet, is_forward: bool, plan: &Plan) -> usize {
        let key = &packet.key;
        let number = self.next_number(key, is_forward);
        let flow = Flow::new(packet, number, is_forward, plan);
        let place = if self.flows.len() < MAX_FLOWS {
            self.flows.push((*key, flow));
            self.flows.len() - 1
        } else {
            let place = self.oldest;
            self.oldest = (place + 1) % MAX_FLOWS;
            let (forgotten, _) = std::mem::replace(&mut self.flows[place], (*key, flow));
            self.places.remove(&forgotten);
            place
        };
        self.places.insert(*key, place);
        place
    }

    fn next_number(&mut self, key: &FlowKey, is_forward: bool) -> u64 {
        let mut pair = (key.source, key.destination, key.is_response, is_forward);
        if self.numbers.len() >= MAX_HOST_PAIRS && !self.numbers.contains_key(&pair) {
            pair.0 = Gid::UNSPECIFIED;
            pair.1 = Gid::UNSPECIFIED;
        }
        let next = self.numbers.entry(pair).or_default();
        let number = *next;
        *next += 1;
        number
    }
}

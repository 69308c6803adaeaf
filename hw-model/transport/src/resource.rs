//! Responder resources: READs and atomics that are being answered or may have to be answered again.

use std::collections::VecDeque;

use ferroce_qp::PathMtu;
use ferroce_wire::{Operation, Position, Psn, RKey};

use crate::inbound::Inbound;
use crate::span::span;
use crate::step::AtomicOperation;
use crate::train::Train;
use crate::transmit::Payload;

/// The content of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Memory at the time at which the response leaves.
    Memory { length: u32 },
    /// Nothing: a FLUSH or an ATOMIC WRITE has been executed.
    Nothing { operation: Operation },
    /// The value of memory before the atomic.
    Original {
        operation: AtomicOperation,
        value: u64,
    },
}

/// One READ or atomic, and the progress of its response.
#[derive(Debug, Clone)]
struct Resource {
    first_psn: Psn,
    packets: u32,
    r_key: RKey,
    virtual_address: u64,
    content: Content,
    srqn: Option<u32>,
    /// The first packet of this round of responses.
    start: u32,
    /// The next packet to send; equals `packets` when all are sent.
    next: u32,
    /// A duplicate request has started this round.
    replay: bool,
}

impl Resource {
    const fn is_pending(&self) -> bool {
        self.next < self.packets
    }

    /// Returns true if `request` begins at packet `index` of this one.
    fn begins_at(&self, request: &Inbound, index: u32, mtu: PathMtu) -> bool {
        let offset = index << mtu.shift();
        let address = self.virtual_address.wrapping_add(u64::from(offset));
        request.reth.r_key == self.r_key && request.reth.virtual_address == address
    }

    /// Returns true if `request` repeats this request or the rest of it.
    fn is_of(&self, request: &Inbound, mtu: PathMtu) -> bool {
        let index = span(self.first_psn, request.psn);
        if index >= self.packets {
            return false;
        }
        let begins_here = self.begins_at(request, index, mtu);
        match self.content {
            Content::Memory { length } => {
                let rest = length - (index << mtu.shift());
                begins_here && request.is_read() && request.reth.dma_length == rest
            }
            // The answer is the same for all addresses, and soft-RoCE of Linux 6.12 repeats a FLUSH
            // or ATOMIC WRITE with address 0.
            Content::Nothing { operation } => {
                request.operation == operation && request.reth.r_key == self.r_key
            }
            Content::Original { operation, .. } => {
                begins_here && request.is_atomic() && request.atomic() == operation
            }
        }
    }

    /// Returns the number of packets of the response that `request` repeats, if it repeats a part
    /// of it: a duplicate READ request may request any part of the original one (IBTA vol 1,
    /// 9.7.5.1.4). Packets that have not been sent yet are not repeated.
    fn repeats(&self, request: &Inbound, mtu: PathMtu) -> Option<u32> {
        let index = span(self.first_psn, request.psn);
        if index >= self.next || !self.begins_at(request, index, mtu) {
            return None;
        }
        let Content::Memory { length } = self.content else {
            return None;
        };
        let rest = length - (index << mtu.shift());
        let packets = mtu.packets(request.reth.dma_length);
        let is_whole = request.reth.dma_length == rest
            || request.reth.dma_length < rest
                && request.reth.dma_length == packets << mtu.shift()
                && packets > 0;
        is_whole.then_some(packets.min(self.next - index))
    }

    /// Returns packet `index` of the response.
    fn packet(&self, index: u32, mtu: PathMtu) -> ResponsePacket {
        let position = Position::of(index - self.start, self.packets - self.start);
        self.packet_at(index, position, mtu)
    }

    /// Returns packet `index` with its position among the packets that are sent again.
    fn packet_at(&self, index: u32, position: Position, mtu: PathMtu) -> ResponsePacket {
        let psn = self.first_psn.add(index);
        match self.content {
            Content::Memory { length } => {
                let offset = index << mtu.shift();
                ResponsePacket::Read {
                    psn,
                    position,
                    r_key: self.r_key,
                    virtual_address: self.virtual_address.wrapping_add(u64::from(offset)),
                    length: mtu.bytes().min(length - offset),
                    srqn: self.srqn,
                }
            }
            Content::Nothing { .. } => ResponsePacket::Read {
                psn,
                position,
                r_key: self.r_key,
                virtual_address: self.virtual_address,
                length: 0,
                srqn: self.srqn,
            },
            Content::Original { value, .. } => ResponsePacket::Atomic {
                psn,
                original: value,
            },
        }
    }
}

/// A response packet to send.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ResponsePacket {
    /// Of a READ.
    Read {
        psn: Psn,
        position: Position,
        r_key: RKey,
        virtual_address: u64,
        length: u32,
        srqn: Option<u32>,
    },
    /// Of an atomic.
    Atomic { psn: Psn, original: u64 },
}

/// The newest READs and atomics in order of PSN, at most `max_dest_rd_atomic`.
#[derive(Debug, Clone)]
pub(crate) struct Resources {
    table: VecDeque<Resource>,
    /// Resources that have packets to send.
    pending: u32,
    /// The first resource with packets to send; meaningless if there is none.
    first_pending: usize,
}

impl Resources {
    pub(crate) const fn new() -> Resources {
        Resources {
            table: VecDeque::new(),
            pending: 0,
            first_pending: 0,
        }
    }

    pub(crate) const fn has_pending(&self) -> bool {
        self.pending > 0
    }

    /// Returns true if another READ or atomic may be accepted: a correct peer has at most `limit`
    /// unanswered ones. (A replay does not count: a peer that sends a new READ has received all old
    /// answers.)
    pub(crate) fn has_room(&self, limit: u8) -> bool {
        let limit = usize::from(limit);
        limit > 0
            && (self.table.len() < limit
                || self
                    .table
                    .front()
                    .is_none_or(|oldest| !oldest.is_pending() || oldest.replay))
    }

    /// Accepts a READ request with `packets` response packets.
    pub(crate) fn push_read(&mut self, request: &Inbound, packets: u32, limit: u8) {
        let content = Content::Memory {
            length: request.reth.dma_length,
        };
        self.push(request, packets, content, limit);
    }

    /// Keeps an executed FLUSH or ATOMIC WRITE.
    pub(crate) fn push_executed(&mut self, request: &Inbound, limit: u8) {
        let operation = request.operation;
        self.push(request, 1, Content::Nothing { operation }, limit);
    }

    /// Keeps the result of an executed atomic.
    pub(crate) fn push_atomic(&mut self, request: &Inbound, value: u64, limit: u8) {
        let operation = request.atomic();
        self.push(request, 1, Content::Original { operation, value }, limit);
    }

    fn push(&mut self, request: &Inbound, packets: u32, content: Content, limit: u8) {
        while self.table.len() >= usize::from(limit.max(1)) {
            self.pop_front();
        }
        if self.pending == 0 {
            self.first_pending = self.table.len();
        }
        self.pending += 1;
        self.table.push_back(Resource {
            first_psn: request.psn,
            packets,
            r_key: request.reth.r_key,
            virtual_address: request.reth.virtual_address,
            content,
            srqn: request.srqn,
            start: 0,
            next: 0,
            replay: false,
        });
    }

    fn pop_front(&mut self) {
        if self
            .table
            .pop_front()
            .is_some_and(|oldest| oldest.is_pending())
        {
            self.pending -= 1;
        }
        self.first_pending = self.first_pending.saturating_sub(1);
        self.find_pending();
    }

    fn find_pending(&mut self) {
        while self
            .table
            .get(self.first_pending)
            .is_some_and(|resource| !resource.is_pending())
        {
            self.first_pending += 1;
        }
    }

    /// Answers a duplicate READ again, from the requested packet on, or a duplicate atomic with its
    /// old result. Unknown requests are ignored.
    pub(crate) fn replay(&mut self, request: &Inbound, mtu: PathMtu) {
        let known = self
            .table
            .iter()
            .position(|resource| resource.is_of(request, mtu));
        let Some(position) = known else { return };
        let resource = &mut self.table[position];
        let index = span(resource.first_psn, request.psn);
        if resource.next <= index {
            return; // it is still on the way there
        }
        if !resource.is_pending() {
            resource.replay = true;
            self.pending += 1;
        }
        resource.start = index;
        resource.next = index;
        self.first_pending = if self.pending == 1 {
            position
        } else {
            self.first_pending.min(position)
        };
    }

    /// Returns the number of packets of a READ response that a duplicate READ request asks for.
    pub(crate) fn repeated_packets(&self, request: &Inbound, mtu: PathMtu) -> Option<u32> {
        self.table.iter().find_map(|one| one.repeats(request, mtu))
    }

    /// Returns the packet with `psn` of a READ response, for retransmission.
    pub(crate) fn packet_again(
        &self,
        psn: Psn,
        position: Position,
        mtu: PathMtu,
    ) -> Option<ResponsePacket> {
        let holds = |one: &&Resource| span(one.first_psn, psn) < one.packets;
        let resource = self.table.iter().find(holds)?;
        let index = span(resource.first_psn, psn);
        matches!(resource.content, Content::Memory { .. })
            .then(|| resource.packet_at(index, position, mtu))
    }

    /// Returns the PSN of the first READ or atomic after `psn`.
    pub(crate) fn first_after(&self, psn: Psn) -> Option<Psn> {
        self.table
            .iter()
            .map(|resource| resource.first_psn)
            .find(|first| first.is_after(psn))
    }

    /// Takes the next packet of the pending responses, in PSN order.
    pub(crate) fn next_packet(&mut self, mtu: PathMtu) -> Option<ResponsePacket> {
        if self.pending == 0 {
            return None;
        }
        let resource = self.table.get_mut(self.first_pending)?;
        let packet = resource.packet(resource.next, mtu);
        resource.next += 1;
        if !resource.is_pending() {
            self.pending -= 1;
            self.find_pending();
        }
        Some(packet)
    }

    /// Returns the next train of the READ response that is being sent for the first time, once its
    /// first packet has left.
    pub(crate) fn next_train(&self, mtu: PathMtu) -> Option<Train> {
        let resource = self.first_pending()?;
        let flows = resource.next > 0 && !resource.replay;
        if !flows || !matches!(resource.content, Content::Memory { .. }) {
            return None;
        }
        // The last packet is not included.
        let packets = resource.packets - resource.next - 1;
        let offset = u64::from(resource.next << mtu.shift());
        Some(Train {
            message: resource.first_psn,
            first: resource.first_psn.add(resource.next),
            packets,
            mtu,
            payload: Payload::ReadResponse {
                r_key: resource.r_key,
                virtual_address: resource.virtual_address.wrapping_add(offset),
                length: packets << mtu.shift(),
                srqn: resource.srqn,
            },
        })
    }

    /// Counts a train of that response as sent.
    pub(crate) fn send_train(&mut self, train: &Train) -> bool {
        if self.pending == 0 {
            return false;
        }
        match self.table.get_mut(self.first_pending) {
            Some(resource)
                if train.first == resource.first_psn.add(resource.next)
                    && train.packets < resource.packets - resource.next =>
            {
                resource.next += train.packets;
                true
            }
            _ => false,
        }
    }

    fn first_pending(&self) -> Option<&Resource> {
        let pending = self.table.get(self.first_pending);
        pending.filter(|_| self.pending > 0)
    }

    /// Drops all pending responses.
    pub(crate) fn clear(&mut self) {
        self.table.clear();
        self.pending = 0;
        self.first_pending = 0;
    }
}

#[cfg(test)]
mod tests {
    use ferroce_wire::{Operation, Reth};

    use super::*;

    fn read(psn: u32, virtual_address: u64, length: u32) -> Inbound {
        Inbound {
            psn: Psn::new(psn),
            operation: Operation::RdmaReadRequest,
            reth: Reth {
                virtual_address,
                r_key: RKey(7),
                dma_length: length,
            },
            ..Inbound::NONE
        }
    }

    fn drain(resources: &mut Resources) -> Vec<(u32, Position, u32)> {
        std::iter::from_fn(|| resources.next_packet(PathMtu::Mtu256))
            .map(|packet| match packet {
                ResponsePacket::Read {
                    psn,
                    position,
                    length,
                    ..
                } => (psn.value(), position, length),
                ResponsePacket::Atomic { psn, original } => {
                    (psn.value(), Position::Only, original as u32)
                }
            })
            .collect()
    }

    #[test]
    fn answers_in_order_and_again_from_the_middle() {
        let mut resources = Resources::new();
        resources.push_read(&read(10, 0x1000, 600), 3, 2);
        resources.push_read(&read(13, 0x2000, 0), 1, 2);
        assert!(!resources.has_room(2));
        let all = drain(&mut resources);
        assert_eq!(all[0], (10, Position::First, 256));
        assert_eq!(all[2], (12, Position::Last, 88));
        assert_eq!(all[3], (13, Position::Only, 0));
        assert!(resources.has_room(2));
        resources.replay(&read(11, 0x1100, 344), PathMtu::Mtu256);
        resources.replay(&read(13, 0x2000, 0), PathMtu::Mtu256);
        let again = drain(&mut resources);
        assert_eq!(again[0], (11, Position::First, 256));
        assert_eq!(again.len(), 3);
        assert!(!resources.has_pending());
    }

    #[test]
    fn a_duplicate_that_asks_for_other_memory_is_ignored() {
        let mut resources = Resources::new();
        resources.push_read(&read(10, 0x1000, 600), 3, 1);
        drain(&mut resources);
        resources.replay(&read(10, 0x1001, 600), PathMtu::Mtu256);
        resources.replay(&read(11, 0x1100, 345), PathMtu::Mtu256);
        resources.replay(&read(13, 0x1300, 1), PathMtu::Mtu256);
        assert!(!resources.has_pending());
    }

    #[test]
    fn an_atomic_is_answered_again_with_its_old_result() {
        let mut resources = Resources::new();
        let add = Inbound {
            operation: Operation::FetchAdd,
            swap_or_add: 3,
            ..read(10, 0x1000, 8)
        };
        resources.push_atomic(&add, 77, 2);
        assert_eq!(drain(&mut resources), [(10, Position::Only, 77)]);
        for other in [
            read(10, 0x1000, 8),
            Inbound {
                swap_or_add: 4,
                ..add
            },
            Inbound {
                psn: Psn::new(11),
                ..add
            },
        ] {
            resources.replay(&other, PathMtu::Mtu256);
            assert!(!resources.has_pending(), "{other:?}");
        }
        resources.replay(&add, PathMtu::Mtu256);
        assert_eq!(drain(&mut resources), [(10, Position::Only, 77)]);
    }

    #[test]
    fn a_flush_is_answered_again_whatever_its_address() {
        let mut resources = Resources::new();
        let flush = Inbound {
            operation: Operation::Flush,
            ..read(10, 0x1000, 8)
        };
        let at_zero = Inbound {
            operation: Operation::Flush,
            ..read(10, 0, 8)
        };
        let other_key = Inbound {
            reth: Reth {
                r_key: RKey(8),
                ..flush.reth
            },
            ..flush
        };
        resources.push_executed(&flush, 2);
        assert_eq!(drain(&mut resources), [(10, Position::Only, 0)]);
        for other in [
            read(10, 0x1000, 8),
            other_key,
            Inbound {
                operation: Operation::AtomicWrite,
                ..flush
            },
        ] {
            resources.replay(&other, PathMtu::Mtu256);
            assert!(!resources.has_pending(), "{other:?}");
        }
        resources.replay(&at_zero, PathMtu::Mtu256);
        assert_eq!(drain(&mut resources), [(10, Position::Only, 0)]);
    }

    #[test]
    fn a_replay_makes_room_for_a_new_read() {
        let mut resources = Resources::new();
        resources.push_read(&read(1, 0, 256), 1, 1);
        assert!(!resources.has_room(1));
        drain(&mut resources);
        resources.replay(&read(1, 0, 256), PathMtu::Mtu256);
        assert!(resources.has_room(1));
        resources.push_read(&read(2, 0, 256), 1, 1);
        assert_eq!(drain(&mut resources).len(), 1);
        assert!(!resources.has_room(0));
    }

    #[test]
    fn ranges_reach_across_the_wrap() {
        let mut resources = Resources::new();
        resources.push_read(&read(0xff_ffff, 0x1000, 512), 2, 4);
        assert_eq!(drain(&mut resources)[1].0, 0);
        assert_eq!(
            resources.first_after(Psn::new(0xff_fff0)),
            Some(Psn::new(0xff_ffff))
        );
        assert_eq!(resources.first_after(Psn::new(0)), None);
    }
}

//! One queue pair and hand-made packets from its peer.

use ferroce_transport::{
    Completion, CompletionStatus, Destination, Event, MemoryAnswer, MemoryOp, Qp, Remote,
    SendOperation, SendRequest, Step, Transmit,
};
use ferroce_units::Instant;
use ferroce_wire::{
    Aeth, AtomicEth, Bth, Connected, Extension, Immediate, Msn, NakCode, Opcode, Operation,
    Position, Psn, Qpn, RKey, ReadPart, Reth, SendPart, Syndrome, TransportHeaders, WritePart,
};

use super::{Setup, bring_up, destination};

/// A queue pair in RTS whose peer is the test. PSNs are relative: 0 is the first PSN of the
/// direction.
pub struct Script {
    pub qp: Qp,
    pub now: Instant,
    setup: Setup,
}

/// A packet in the form that scripts compare: opcode, relative PSN, AckReq, payload length.
pub type Seen = (Operation, Position, u32, bool, u32);

impl Script {
    pub fn new(setup: Setup) -> Script {
        let mut qp = Qp::new(Qpn::new(0x11), setup.services[0], setup.config);
        for transition in bring_up(&setup, 0) {
            qp.modify(Instant::ZERO, transition)
                .expect("the way up is legal");
        }
        Script {
            qp,
            now: Instant::ZERO,
            setup,
        }
    }

    pub fn mtu(&self) -> u32 {
        self.setup.mtu.bytes()
    }

    /// Returns the PSN of the queue pair's requests for `relative`.
    pub fn send_psn(&self, relative: u32) -> Psn {
        self.setup.psn[0].add(relative)
    }

    /// Returns the PSN of the peer's requests for `relative`.
    pub fn receive_psn(&self, relative: u32) -> Psn {
        self.setup.psn[1].add(relative)
    }

    // --- requester ---

    pub fn post(&mut self, id: u32, operation: SendOperation, length: u32) {
        self.post_request(SendRequest {
            signaled: true,
            destination: destination(&self.setup, 0),
            ..request(id, operation, length)
        });
    }

    pub fn post_request(&mut self, request: SendRequest) {
        self.qp.post_send(self.now, request);
    }

    /// Takes all packets that leave now.
    pub fn transmit(&mut self) -> Vec<Transmit> {
        let mut packets = Vec::new();
        while let Some(packet) = self.qp.poll_transmit(self.now) {
            packets.push(packet);
            assert!(packets.len() < 10_000);
        }
        packets
    }

    /// Takes all packets that leave now, in the form for comparison.
    pub fn sent(&mut self) -> Vec<Seen> {
        let packets = self.transmit();
        packets.iter().map(|packet| self.seen(packet)).collect()
    }

    pub fn seen(&self, packet: &Transmit) -> Seen {
        let bth = &packet.headers.bth;
        let known = bth.opcode.parse().expect("only known opcodes are sent");
        let base = self.setup.psn[usize::from(known.operation.is_response())];
        let psn = bth.psn.sub(base.value()).value();
        (
            known.operation,
            known.position,
            psn,
            bth.ack_request,
            packet.payload.length(),
        )
    }

    /// Takes the PSNs of the requests that leave now.
    pub fn sent_psns(&mut self) -> Vec<u32> {
        self.sent().iter().map(|seen| seen.2).collect()
    }

    pub fn handle(&mut self, headers: &TransportHeaders, payload_length: u32) -> Step {
        self.qp.handle_packet(self.now, headers, payload_length)
    }

    pub fn answer(&mut self, answer: MemoryAnswer) -> Step {
        self.qp.handle_memory(self.now, answer)
    }

    pub fn response_bth(&self, relative: u32) -> Bth {
        Bth::new(Opcode(0), self.qp.qpn(), self.send_psn(relative))
    }

    pub fn syndrome(&mut self, relative: u32, syndrome: Syndrome) {
        self.syndrome_msn(relative, syndrome, 0);
    }

    pub fn syndrome_msn(&mut self, relative: u32, syndrome: Syndrome, msn: u32) {
        let aeth = Aeth {
            syndrome,
            msn: Msn::new(msn),
        };
        let headers = TransportHeaders::acknowledge(self.response_bth(relative), aeth);
        assert_eq!(self.handle(&headers, 0), Step::Done);
    }

    pub fn ack(&mut self, relative: u32) {
        self.syndrome(relative, Syndrome::ACK_UNLIMITED);
    }

    pub fn nak(&mut self, relative: u32, code: NakCode) {
        self.syndrome(relative, Syndrome::Nak(code));
    }

    pub fn read_response(&mut self, relative: u32, position: Position, length: u32) -> Step {
        let aeth = Aeth {
            syndrome: Syndrome::ACK_UNLIMITED,
            msn: Msn::new(1),
        };
        let part = match position {
            Position::First => ReadPart::First(aeth),
            Position::Middle => ReadPart::Middle,
            Position::Last => ReadPart::Last(aeth),
            Position::Only => ReadPart::Only(aeth),
        };
        let headers = TransportHeaders::read_response(self.response_bth(relative), part);
        self.handle(&headers, length)
    }

    /// Delivers an expected READ response and writes it.
    pub fn good_read_response(&mut self, relative: u32, position: Position, length: u32) {
        match self.read_response(relative, position, length) {
            Step::Memory(MemoryOp::WriteReadResponse { length: asked, .. }) => {
                assert_eq!(asked, length);
                assert_eq!(self.answer(MemoryAnswer::Done), Step::Done);
            }
            step => panic!("{step:?} instead of a write"),
        }
    }

    // --- responder ---

    pub fn request_bth(&self, relative: u32) -> Bth {
        let mut bth = Bth::new(Opcode(0), self.qp.qpn(), self.receive_psn(relative));
        bth.ack_request = true;
        bth
    }

    pub fn send_part(&mut self, relative: u32, part: SendPart, length: u32) -> Step {
        let bth = self.request_bth(relative);
        self.handle(
            &TransportHeaders::send(bth, Connected::Reliable, part),
            length,
        )
    }

    pub fn write_part(&mut self, relative: u32, part: WritePart, length: u32) -> Step {
        let bth = self.request_bth(relative);
        self.handle(
            &TransportHeaders::write(bth, Connected::Reliable, part),
            length,
        )
    }

    pub fn read_request(&mut self, relative: u32, reth: Reth) -> Step {
        self.handle(
            &TransportHeaders::read_request(self.request_bth(relative), reth),
            0,
        )
    }

    pub fn fetch_add(&mut self, relative: u32, virtual_address: u64, add: u64) -> Step {
        let bth = self.request_bth(relative);
        self.handle(
            &TransportHeaders::fetch_add(bth, atomic_eth(virtual_address, add)),
            0,
        )
    }

    /// Executes everything with success; receives have `capacity` and ids from 0 on.
    pub fn execute(&mut self, mut step: Step, receive: u32, capacity: u32) -> Vec<MemoryOp> {
        let mut operations = Vec::new();
        while let Step::Memory(operation) = step {
            operations.push(operation);
            let answer = match operation {
                MemoryOp::Validate { .. } => MemoryAnswer::Valid,
                MemoryOp::Atomic { .. } => MemoryAnswer::Atomic(ORIGINAL),
                MemoryOp::TakeReceive | MemoryOp::TakeShared { .. } => MemoryAnswer::Receive {
                    id: receive,
                    capacity,
                },
                _ => MemoryAnswer::Done,
            };
            step = self.answer(answer);
        }
        operations
    }

    /// Delivers a SEND of one packet that is executed.
    pub fn good_send(&mut self, relative: u32, receive: u32) {
        let step = self.send_part(relative, SendPart::Only, 4);
        assert_eq!(self.execute(step, receive, 64).len(), 2);
    }

    /// Takes the responses that leave now: relative PSN and syndrome.
    pub fn responses(&mut self) -> Vec<(u32, Syndrome)> {
        let base = self.setup.psn[1];
        self.transmit()
            .iter()
            .map(|packet| match packet.headers.extension {
                Extension::Aeth(aeth) => (
                    packet.headers.bth.psn.sub(base.value()).value(),
                    aeth.syndrome,
                ),
                other => panic!("{other:?} instead of an AETH"),
            })
            .collect()
    }

    // --- both ---

    pub fn completions(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.qp.poll_completion()).collect()
    }

    pub fn statuses(&mut self) -> Vec<(u32, CompletionStatus)> {
        let completions = self.completions();
        completions
            .into_iter()
            .map(|completion| match completion {
                Completion::Send { id, status, .. } => (id, status),
                Completion::Receive {
                    receive, status, ..
                } => (receive, status),
            })
            .collect()
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.qp.poll_event()).collect()
    }

    /// Advances the time to the next timer.
    pub fn expire(&mut self) {
        self.now = self.qp.next_timeout().expect("a timer runs");
        self.qp.handle_timeout(self.now);
    }
}

pub fn request(id: u32, operation: SendOperation, length: u32) -> SendRequest {
    SendRequest {
        id,
        operation,
        length,
        signaled: false,
        solicited: false,
        fence: false,
        destination: Destination::Connected,
    }
}

pub const REMOTE: Remote = Remote {
    virtual_address: 0x4000,
    r_key: RKey(9),
};
pub const SEND: SendOperation = SendOperation::Send;
pub const WRITE: SendOperation = SendOperation::RdmaWrite { remote: REMOTE };
pub const READ: SendOperation = SendOperation::RdmaRead { remote: REMOTE };
pub const IMMEDIATE: Immediate = Immediate([1, 2, 3, 4]);

/// The value of a script's memory at the address of atomics.
pub const ORIGINAL: u64 = 0x1122_3344_5566_7788;

pub const FETCH_ADD: SendOperation = SendOperation::FetchAdd {
    remote: REMOTE,
    add: 5,
};

pub fn atomic_eth(virtual_address: u64, swap_or_add: u64) -> AtomicEth {
    AtomicEth {
        virtual_address,
        r_key: RKey(5),
        swap_or_add,
        compare: 0,
    }
}

pub fn reth(length: u32) -> Reth {
    Reth {
        virtual_address: 0x8000,
        r_key: RKey(5),
        dma_length: length,
    }
}

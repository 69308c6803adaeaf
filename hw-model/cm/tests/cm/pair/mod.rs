//! Two communication managers, and the messages of their tests.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod link;

use std::net::Ipv4Addr;

use ferroce_cm::{
    Accept, Cm, Config, Connect, Disposition, Ece, Event, Listen, ListenAddress, ListenerId, Path,
    PortSpace, SidrRequest, State, Transmit,
};
use ferroce_units::Instant;
use ferroce_wire::cm::{CommunicationId, IpCmHeader, Mad, Message, MessageKind, TransportService};
use ferroce_wire::{Gid, Psn, Qpn};

pub const PORT: u16 = 7174;

/// Returns the address of a side.
pub fn gid(side: usize) -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, side as u8 + 1))
}

/// Returns a REQ of a side to the other one.
pub fn connect(side: usize, qpn: u32, private_data: &[u8]) -> Connect {
    let addresses = [gid(side), gid(1 - side)].map(|gid| gid.to_ipv4().unwrap().into());
    Connect {
        service_id: PortSpace::Tcp.service_id(PORT),
        path: Path::new(gid(side), gid(1 - side)),
        transport: TransportService::Rc,
        local_ca_guid: 100 + side as u64,
        qpn: Qpn::new(qpn),
        starting_psn: Psn::new(7 * qpn),
        responder_resources: 3,
        initiator_depth: 4,
        retry_count: 7,
        rnr_retry_count: 6,
        flow_control: false,
        srq: false,
        ece: Ece::default(),
        is_peer: false,
        ip: Some(IpCmHeader::new(addresses[0], 40_000, addresses[1])),
        private_data: private_data.to_vec(),
    }
}

pub fn accept(side: usize, qpn: u32, private_data: &[u8]) -> Accept {
    Accept {
        local_ca_guid: 100 + side as u64,
        qpn: Qpn::new(qpn),
        starting_psn: Psn::new(11 * qpn),
        responder_resources: 2,
        initiator_depth: 1,
        rnr_retry_count: 5,
        flow_control: false,
        srq: false,
        ece: Ece::default(),
        private_data: private_data.to_vec(),
    }
}

pub fn sidr(side: usize, private_data: &[u8]) -> SidrRequest {
    let Connect { path, ip, .. } = connect(side, 0, &[]);
    SidrRequest {
        service_id: PortSpace::Udp.service_id(PORT),
        path,
        ip,
        private_data: private_data.to_vec(),
    }
}

pub fn listen(port_space: PortSpace, backlog: u32) -> Listen {
    Listen {
        port_space,
        port: PORT,
        address: ListenAddress::Any,
        backlog,
    }
}

/// Returns private data without its trailing zeros.
pub fn trimmed(data: &[u8]) -> &[u8] {
    let used = data.iter().rposition(|byte| *byte != 0);
    &data[..used.map_or(0, |last| last + 1)]
}

pub fn kind(transmit: &Transmit) -> MessageKind {
    Mad::parse(&transmit.mad[..]).unwrap().message.kind()
}

/// Two sides without a link: the test delivers each datagram.
pub struct Pair {
    pub now: Instant,
    pub sides: [Cm; 2],
    pub listener: ListenerId,
}

impl Pair {
    /// Returns a pair in which side 1 listens with a backlog of two requests.
    pub fn new() -> Self {
        let mut sides = [1, 2].map(|tag| Cm::new(Config::new(tag)));
        let listener = sides[1].listen(&listen(PortSpace::Tcp, 2)).unwrap();
        sides[1].listen(&listen(PortSpace::Udp, 2)).unwrap();
        let now = Instant::from_us(1);
        Self {
            now,
            sides,
            listener,
        }
    }

    pub fn connect(&mut self, qpn: u32) -> CommunicationId {
        let connect = connect(0, qpn, b"hello");
        self.sides[0].connect(self.now, &connect).unwrap()
    }

    /// Takes the datagrams that a side sends.
    pub fn sent(&mut self, side: usize) -> Vec<Transmit> {
        std::iter::from_fn(|| self.sides[side].poll_mad()).collect()
    }

    /// Takes the only datagram that a side sends.
    pub fn sent_one(&mut self, side: usize, expected: MessageKind) -> Transmit {
        let mut sent = self.sent(side);
        assert_eq!(sent.iter().map(kind).collect::<Vec<_>>(), [expected]);
        sent.remove(0)
    }

    pub fn deliver(&mut self, side: usize, transmit: &Transmit) -> Disposition {
        let Transmit { from, to, mad } = transmit;
        self.sides[side].handle_mad(self.now, *from, *to, &mad[..])
    }

    /// Delivers a message to a side as if the other one had sent it.
    pub fn inject(&mut self, side: usize, message: impl Into<Message>) -> Disposition {
        let mad = Box::new(Mad::new(1, message).to_bytes());
        let (from, to) = (gid(1 - side), gid(side));
        self.deliver(side, &Transmit { from, to, mad })
    }

    /// Delivers the only datagram of a side, of this kind, to the other side.
    pub fn carry(&mut self, side: usize, expected: MessageKind) -> Transmit {
        let transmit = self.sent_one(side, expected);
        assert_eq!(self.deliver(1 - side, &transmit), Disposition::Taken);
        transmit
    }

    pub fn event(&mut self, side: usize) -> Event {
        self.sides[side].poll_event().expect("an event")
    }

    pub fn no_event(&mut self, side: usize) {
        assert_eq!(self.sides[side].poll_event(), None);
    }

    pub fn state(&self, side: usize, id: CommunicationId) -> State {
        self.sides[side].state(id).unwrap()
    }

    /// Runs until the REQ has arrived; returns the connection on either side.
    pub fn requested(&mut self) -> [CommunicationId; 2] {
        let active = self.connect(0x11);
        self.carry(0, MessageKind::Req);
        let Event::ConnectRequest { id, .. } = self.event(1) else {
            panic!("a request");
        };
        [active, id]
    }

    /// Runs until the REP has arrived.
    pub fn replied(&mut self) -> [CommunicationId; 2] {
        let ids = self.requested();
        let accept = accept(1, 0x22, b"welcome");
        self.sides[1].accept(self.now, ids[1], &accept).unwrap();
        self.carry(1, MessageKind::Rep);
        assert!(matches!(self.event(0), Event::ConnectResponse { .. }));
        ids
    }

    /// Runs until the RTU has arrived.
    pub fn established(&mut self) -> [CommunicationId; 2] {
        let ids = self.replied();
        self.sides[0].establish(ids[0], &[]).unwrap();
        self.carry(0, MessageKind::Rtu);
        assert!(matches!(self.event(1), Event::Established { .. }));
        ids
    }

    /// Advances the time to a side's next timeout.
    pub fn expire(&mut self, side: usize) {
        self.now = self.sides[side].next_timeout().expect("a timer");
        self.sides[side].handle_timeout(self.now);
    }

    /// Ends TIMEWAIT on a side; nothing is left.
    pub fn timewait_ends(&mut self, side: usize, id: CommunicationId) {
        assert_eq!(self.state(side, id), State::Timewait);
        self.expire(side);
        assert_eq!(self.event(side), Event::TimewaitExit { id });
        assert!(self.sides[side].is_idle(), "{:?}", self.sides[side]);
    }
}

//! Two hosts, a network between them, and programs that write commands.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod abi;
#[path = "../../../../../hw-model/cm/tests/cm/pair/link.rs"]
pub mod link;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use abi::{Bytes, ConnParam, Event, RESPONSE, command, sockaddr};
use ferroce_rdma_cm::{
    Address, ChannelId, Config, Device, Disposition, Errno, Host, ListenAddress, PortSpace,
    PortTable, RdmaCm, Reply,
};
use ferroce_units::{Duration, Instant};
use ferroce_wire::Gid;
use link::{Faults, Link};

pub const PS_IPOIB: u16 = 0x0002;
pub const PS_TCP: u16 = 0x0106;
pub const PS_UDP: u16 = 0x0111;
pub const PS_IB: u16 = 0x013f;
pub const RC: u8 = 2;
pub const UC: u8 = 3;
pub const XRC_SEND: u8 = 9;
pub const XRC_RECV: u8 = 10;
pub const PORT: u16 = 7174;

/// Maximum number of steps of a run; more mean that it does not end.
const STEPS_MAX: usize = 200_000;

/// A host with devices, and all ports.
#[derive(Debug)]
pub struct FakeHost {
    pub devices: Vec<Device>,
    pub ports: PortTable,
    /// The address of the newest claim.
    pub claimed: Option<ListenAddress>,
    pub reachable: Vec<Gid>,
}

impl Host for FakeHost {
    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn claim_port(
        &mut self,
        space: PortSpace,
        port: Option<u16>,
        address: ListenAddress,
        share: bool,
    ) -> Result<u16, Errno> {
        self.claimed = Some(address);
        self.ports.claim(space, port, address, share)
    }

    fn release_port(&mut self, space: PortSpace, port: u16, address: ListenAddress) {
        self.ports.release(space, port, address);
    }

    fn resolve(&mut self, _from: Gid, to: Gid) -> Result<(), Errno> {
        if self.reachable.contains(&to) {
            Ok(())
        } else {
            Err(Errno::EHOSTUNREACH)
        }
    }
}

/// IPv4 address of a side.
pub fn v4(side: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, side as u8 + 1])
}

/// IPv6 address of a side.
pub fn v6(side: usize) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, side as u16 + 1).into()
}

fn link_local(side: usize) -> IpAddr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, side as u16 + 1).into()
}

/// The addresses of a side, in the order of its GID table.
fn addresses(side: usize) -> Vec<IpAddr> {
    let loopback = IpAddr::from([127, 0, 0, 1]);
    vec![link_local(side), loopback, v4(side), v6(side)]
}

pub fn guid(side: usize) -> u64 {
    0x5054_0000_0000_0100 + side as u64
}

pub fn host(side: usize) -> FakeHost {
    let gids = addresses(side).into_iter().map(Gid::from_ip).zip(0..);
    FakeHost {
        devices: vec![Device {
            node_guid: guid(side),
            index: side as u32 + 4,
            port_num: 1,
            active_mtu: 3,
            has_flush: side == 0,
            addresses: gids
                .map(|(gid, gid_index)| Address { gid, gid_index })
                .collect(),
        }],
        ports: PortTable::new(),
        claimed: None,
        reachable: addresses(1 - side).into_iter().map(Gid::from_ip).collect(),
    }
}

pub const NO_FAULTS: Faults = Faults {
    loss: 0,
    duplication: 0,
    reordering: 0,
    jitter: Duration::ZERO,
    blackout: Instant::MAX,
};

/// Two hosts, each with one program that has one channel.
pub struct Net {
    pub now: Instant,
    pub sides: [RdmaCm; 2],
    pub hosts: [FakeHost; 2],
    pub channels: [ChannelId; 2],
    pub link: Link,
}

impl Net {
    pub fn new() -> Self {
        Self::with_faults(NO_FAULTS, 0)
    }

    pub fn with_faults(faults: Faults, seed: u64) -> Self {
        let mut sides = [1, 2].map(|tag| RdmaCm::new(Config::functional(tag)));
        let channels = [0, 1].map(|side: usize| sides[side].open_channel().unwrap());
        Self {
            now: Instant::from_us(1),
            sides,
            hosts: [0, 1].map(host),
            channels,
            link: Link::new(faults, seed),
        }
    }

    /// Writes a command to a channel.
    pub fn write_to(
        &mut self,
        side: usize,
        channel: ChannelId,
        bytes: &[u8],
        option: &[u8],
    ) -> Result<Reply, Errno> {
        let host = &mut self.hosts[side];
        self.sides[side].command(self.now, host, channel, bytes, option)
    }

    pub fn write(&mut self, side: usize, number: u32, body: Bytes) -> Result<Reply, Errno> {
        let channel = self.channels[side];
        self.write_to(side, channel, &command(number, &body.0), &[])
    }

    fn collect(&mut self) {
        for side in 0..2 {
            while let Some(transmit) = self.sides[side].poll_mad() {
                let has_address = |host: &FakeHost| {
                    let all = &host.devices[0].addresses;
                    all.iter().any(|address| address.gid == transmit.to)
                };
                let other = 1 - side;
                let to = match has_address(&self.hosts[side]) {
                    true => side,
                    false if has_address(&self.hosts[other]) => other,
                    false => continue,
                };
                self.link.send(self.now, to, transmit);
            }
        }
    }

    fn deliver(&mut self) {
        while let Some((to, transmit)) = self.link.receive(self.now) {
            let (side, host) = (&mut self.sides[to], &mut self.hosts[to]);
            let bytes = &transmit.mad[..];
            let disposition = side.handle_mad(self.now, host, transmit.from, transmit.to, bytes);
            assert!(!matches!(disposition, Disposition::Malformed(_)));
            if disposition != Disposition::Taken {
                side.refuse(transmit.from, transmit.to, bytes);
            }
        }
    }

    /// Delivers every sent datagram and all replies. No time-out expires.
    pub fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            self.collect();
            let Some(next) = self.link.next_arrival() else {
                return;
            };
            self.now = self.now.max(next);
            self.deliver();
        }
        panic!("the sides do not come to rest");
    }

    /// Executes the next arrival or time-out. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        self.collect();
        let timers = self.sides.iter().filter_map(RdmaCm::next_timeout);
        let Some(next) = timers.chain(self.link.next_arrival()).min() else {
            return false;
        };
        self.now = self.now.max(next);
        self.deliver();
        for side in 0..2 {
            self.sides[side].handle_timeout(self.now, &mut self.hosts[side]);
        }
        true
    }

    /// Executes arrivals and time-outs until none is pending.
    pub fn finish(&mut self) {
        let ended = (0..STEPS_MAX).any(|_| !self.step());
        assert!(ended, "the sides do not come to an end");
    }

    /// Closes every channel and checks that nothing remains.
    pub fn close(mut self) {
        for side in 0..2 {
            for channel in 0..1000 {
                let host = &mut self.hosts[side];
                self.sides[side].close_channel(self.now, host, ChannelId(channel));
            }
        }
        self.finish();
        for side in 0..2 {
            assert!(self.sides[side].is_idle(), "{:#?}", self.sides[side]);
            assert!(self.hosts[side].ports.is_empty(), "{:?}", self.hosts[side]);
        }
    }

    pub fn create_typed(&mut self, side: usize, uid: u64, space: u16, qp_type: u8) -> u32 {
        let body = Bytes::default().u64(uid).u64(RESPONSE);
        let body = body.u16(space).u8(qp_type).zeros(5);
        let reply = self.write(side, abi::CREATE_ID, body).unwrap();
        assert_eq!((reply.address, reply.bytes.len()), (RESPONSE, 4));
        abi::u32_at(&reply.bytes, 0)
    }

    pub fn create(&mut self, side: usize, uid: u64, space: u16) -> u32 {
        self.create_typed(side, uid, space, 0)
    }

    /// Returns the number of events that the program has read.
    pub fn destroy(&mut self, side: usize, id: u32) -> Result<u32, Errno> {
        let body = Bytes::default().u64(RESPONSE).u32(id).u32(0);
        let reply = self.write(side, abi::DESTROY_ID, body)?;
        Ok(abi::u32_at(&reply.bytes, 0))
    }

    pub fn bind(&mut self, side: usize, id: u32, address: SocketAddr) -> Result<(), Errno> {
        let address = sockaddr(&address, 28);
        let body = Bytes::default().u64(0).bytes(&address).u32(id);
        self.write(side, abi::BIND_IP, body).map(|_| ())
    }

    pub fn listen(&mut self, side: usize, id: u32, backlog: u32) -> Result<(), Errno> {
        let body = Bytes::default().u32(id).u32(backlog);
        self.write(side, abi::LISTEN, body).map(|_| ())
    }

    pub fn resolve(&mut self, side: usize, id: u32, to: SocketAddr) -> Result<(), Errno> {
        let to = sockaddr(&to, 28);
        let body = Bytes::default().zeros(28).bytes(&to).u32(id).u32(2000);
        self.write(side, abi::RESOLVE_IP, body).map(|_| ())
    }

    pub fn resolve_route(&mut self, side: usize, id: u32) -> Result<(), Errno> {
        let body = Bytes::default().u32(id).u32(2000);
        self.write(side, abi::RESOLVE_ROUTE, body).map(|_| ())
    }

    pub fn connect(&mut self, side: usize, id: u32, param: &ConnParam) -> Result<(), Errno> {
        let body = Bytes::default().bytes(&param.to_bytes()).u32(id).u32(0);
        self.write(side, abi::CONNECT, body.zeros(8)).map(|_| ())
    }

    pub fn accept(
        &mut self,
        side: usize,
        id: u32,
        uid: u64,
        param: &ConnParam,
    ) -> Result<(), Errno> {
        let body = Bytes::default().u64(uid).bytes(&param.to_bytes());
        let body = body.u32(id).u32(0).zeros(8);
        self.write(side, abi::ACCEPT, body).map(|_| ())
    }

    pub fn reject(&mut self, side: usize, id: u32, reason: u8, data: &[u8]) -> Result<(), Errno> {
        let body = Bytes::default().u32(id).u8(data.len() as u8).u8(reason);
        let body = body.zeros(2).bytes(data).zeros(256 - data.len());
        self.write(side, abi::REJECT, body).map(|_| ())
    }

    pub fn disconnect(&mut self, side: usize, id: u32) -> Result<(), Errno> {
        let body = Bytes::default().u32(id);
        self.write(side, abi::DISCONNECT, body).map(|_| ())
    }

    /// INIT_QP_ATTR
    pub fn qp_attr(&mut self, side: usize, id: u32, qp_state: u32) -> Result<Vec<u8>, Errno> {
        let body = Bytes::default().u64(RESPONSE).u32(id).u32(qp_state);
        let reply = self.write(side, abi::INIT_QP_ATTR, body)?;
        assert_eq!(reply.bytes.len(), 144);
        Ok(reply.bytes)
    }

    pub fn query_route(&mut self, side: usize, id: u32) -> Vec<u8> {
        let body = Bytes::default().u64(RESPONSE).u32(id).u32(0);
        self.write(side, abi::QUERY_ROUTE, body).unwrap().bytes
    }

    pub fn set_option(
        &mut self,
        side: usize,
        id: u32,
        name: (u32, u32),
        option: &[u8],
    ) -> Result<(), Errno> {
        let body = Bytes::default().u64(0x1000).u32(id).u32(name.0).u32(name.1);
        let body = body.u32(option.len() as u32);
        let channel = self.channels[side];
        let bytes = command(abi::SET_OPTION, &body.0);
        self.write_to(side, channel, &bytes, option).map(|_| ())
    }

    pub fn try_event_of(&mut self, side: usize, channel: ChannelId) -> Result<Event, Errno> {
        let before = self.sides[side].waiting_events(channel);
        let bytes = command(abi::GET_EVENT, &Bytes::default().u64(RESPONSE).0);
        let reply = self.write_to(side, channel, &bytes, &[])?;
        assert_eq!(self.sides[side].waiting_events(channel), before - 1);
        assert_eq!((reply.address, reply.bytes.len()), (RESPONSE, 336));
        Ok(Event::parse(&reply.bytes))
    }

    pub fn try_event(&mut self, side: usize) -> Result<Event, Errno> {
        self.try_event_of(side, self.channels[side])
    }

    /// The next event, of this kind.
    pub fn event(&mut self, side: usize, expected: u32) -> Event {
        let event = self.try_event(side).expect("an event");
        assert_eq!(event.event, expected, "{event:?}");
        event
    }

    pub fn no_event(&mut self, side: usize) {
        assert_eq!(self.try_event(side), Err(Errno::EAGAIN));
    }

    /// A listener of side 1.
    pub fn listener(&mut self, uid: u64, space: u16, qp_type: u8, address: SocketAddr) -> u32 {
        let id = self.create_typed(1, uid, space, qp_type);
        self.bind(1, id, address).unwrap();
        self.listen(1, id, 0).unwrap();
        id
    }

    /// Resolves an id of side 0 up to the route.
    pub fn resolved(&mut self, id: u32, to: SocketAddr) {
        self.resolve(0, id, to).unwrap();
        assert_eq!(self.event(0, 0).status, 0);
        self.resolve_route(0, id).unwrap();
        assert_eq!(self.event(0, 2).status, 0);
    }

    /// An id of side 0 whose request has arrived at side 1: returns that id, and the id of the
    /// request.
    pub fn requested(&mut self, space: u16, to: SocketAddr, data: &[u8]) -> (u32, u32) {
        let id = self.create(0, 0xa, space);
        self.resolved(id, to);
        self.connect(0, id, &ConnParam::new(0x11, data)).unwrap();
        self.settle();
        (id, self.event(1, 4).id)
    }

    /// A listener for TCP at side 1, and a connection to it: the ids on both sides.
    pub fn established(&mut self) -> (u32, u32) {
        let to = SocketAddr::new(v4(1), PORT);
        self.listener(0xb, PS_TCP, 0, to);
        let (active, passive) = self.requested(PS_TCP, to, b"hello");
        self.accept_both(active, passive);
        (active, passive)
    }

    /// Accepts a request on both sides.
    pub fn accept_both(&mut self, active: u32, passive: u32) {
        let param = ConnParam::new(0x22, b"welcome");
        self.accept(1, passive, 0xc, &param).unwrap();
        self.settle();
        assert_eq!(self.event(0, 5).id, active);
        self.accept(0, active, 0, &ConnParam::invalid()).unwrap();
        self.settle();
        let event = self.event(1, 9);
        assert_eq!((event.id, event.uid), (passive, 0xc));
    }
}

/// Private data that begins with these bytes, followed by zeros.
pub fn begins_with(data: (&[u8], u8), expected: &[u8]) -> bool {
    let (used, rest) = data.0.split_at(expected.len());
    used == expected && rest.iter().all(|byte| *byte == 0)
}

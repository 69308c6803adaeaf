//! Commands and responses as bytes, by the offsets of `rdma/rdma_user_cm.h`.

use std::net::{IpAddr, SocketAddr};

pub const CREATE_ID: u32 = 0;
pub const DESTROY_ID: u32 = 1;
pub const BIND_IP: u32 = 2;
pub const RESOLVE_IP: u32 = 3;
pub const RESOLVE_ROUTE: u32 = 4;
pub const QUERY_ROUTE: u32 = 5;
pub const CONNECT: u32 = 6;
pub const LISTEN: u32 = 7;
pub const ACCEPT: u32 = 8;
pub const REJECT: u32 = 9;
pub const DISCONNECT: u32 = 10;
pub const INIT_QP_ATTR: u32 = 11;
pub const GET_EVENT: u32 = 12;
pub const SET_OPTION: u32 = 14;
pub const NOTIFY: u32 = 15;
pub const JOIN_IP_MCAST: u32 = 16;
pub const LEAVE_MCAST: u32 = 17;
pub const MIGRATE_ID: u32 = 18;
pub const QUERY: u32 = 19;
pub const BIND: u32 = 20;
pub const RESOLVE_ADDR: u32 = 21;
pub const JOIN_MCAST: u32 = 22;
pub const WRITE_CM_EVENT: u32 = 24;

/// Number, bytes of the body, bytes of the response, as written by rdma-core's programs.
pub const SIZES: &[(u32, usize, usize)] = &[
    (CREATE_ID, 24, 4),
    (DESTROY_ID, 16, 4),
    (BIND_IP, 40, 0),
    (RESOLVE_IP, 64, 0),
    (RESOLVE_ROUTE, 8, 0),
    (QUERY_ROUTE, 16, 208),
    (CONNECT, 288, 0),
    (LISTEN, 8, 0),
    (ACCEPT, 296, 0),
    (REJECT, 264, 0),
    (DISCONNECT, 4, 0),
    (INIT_QP_ATTR, 16, 144),
    (GET_EVENT, 8, 336),
    (SET_OPTION, 24, 0),
    (NOTIFY, 8, 0),
    (JOIN_IP_MCAST, 48, 4),
    (LEAVE_MCAST, 16, 4),
    (MIGRATE_ID, 16, 4),
    (QUERY, 16, 280),
    (BIND, 136, 0),
    (RESOLVE_ADDR, 272, 0),
    (JOIN_MCAST, 152, 4),
    (WRITE_CM_EVENT, 320, 0),
];

/// Address for the responses of a test.
pub const RESPONSE: u64 = 0x7fff_0000_1000;

/// A command with a body, and this much room for its response.
pub fn with_room(number: u32, body: &[u8], room: usize) -> Vec<u8> {
    let mut bytes = number.to_ne_bytes().to_vec();
    bytes.extend((body.len() as u16).to_ne_bytes());
    bytes.extend((room as u16).to_ne_bytes());
    bytes.extend(body);
    bytes
}

/// A command with enough room for its response.
pub fn command(number: u32, body: &[u8]) -> Vec<u8> {
    let entry = SIZES.iter().find(|(known, ..)| *known == number);
    let (_, length, room) = entry.expect("a command of the table");
    assert_eq!(body.len(), *length, "command {number}");
    with_room(number, body, *room)
}

/// Concatenated numbers and bytes.
#[derive(Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }
    pub fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }
    pub fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }
}

/// `struct sockaddr_in` or `sockaddr_in6`, with zeros up to a length.
pub fn sockaddr(address: &SocketAddr, length: usize) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    let mut bytes = match address.ip() {
        IpAddr::V4(ip) => Bytes::default().u16(2).bytes(&port).bytes(&ip.octets()).0,
        IpAddr::V6(ip) => {
            let start = Bytes::default().u16(10).bytes(&port).zeros(4);
            start.bytes(&ip.octets()).zeros(4).0
        }
    };
    bytes.resize(length, 0);
    bytes
}

pub fn sockaddr_length(address: &SocketAddr) -> u16 {
    if address.is_ipv4() { 16 } else { 28 }
}

/// `struct rdma_ucm_conn_param`
#[derive(Clone)]
pub struct ConnParam {
    pub qpn: u32,
    pub private_data: Vec<u8>,
    pub srq: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub valid: u8,
}

impl ConnParam {
    pub fn new(qpn: u32, private_data: &[u8]) -> Self {
        Self {
            qpn,
            private_data: private_data.to_vec(),
            srq: 0,
            responder_resources: 3,
            initiator_depth: 4,
            retry_count: 7,
            rnr_retry_count: 6,
            valid: 1,
        }
    }

    /// Nothing but "send the RTU".
    pub fn invalid() -> Self {
        Self {
            valid: 0,
            ..Self::new(0, &[])
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let length = self.private_data.len();
        let start = Bytes::default().u32(self.qpn).u32(0);
        let data = start.bytes(&self.private_data).zeros(256 - length);
        let data = data.u8(length as u8).u8(self.srq);
        let data = data.u8(self.responder_resources).u8(self.initiator_depth);
        let data = data.u8(0).u8(self.retry_count).u8(self.rnr_retry_count);
        data.u8(self.valid).0
    }
}

pub fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_ne_bytes(bytes[offset..][..2].try_into().expect("two bytes"))
}

pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(bytes[offset..][..4].try_into().expect("four bytes"))
}

pub fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_ne_bytes(bytes[offset..][..8].try_into().expect("eight bytes"))
}

/// `struct rdma_ucm_event_resp`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub uid: u64,
    pub id: u32,
    pub event: u32,
    pub status: i32,
    pub param: Vec<u8>,
    pub ece: (u32, u32),
}

impl Event {
    pub fn parse(bytes: &[u8]) -> Self {
        Self {
            uid: u64_at(bytes, 0),
            id: u32_at(bytes, 8),
            event: u32_at(bytes, 12),
            status: u32_at(bytes, 16) as i32,
            param: bytes[20..324].to_vec(),
            ece: (u32_at(bytes, 328), u32_at(bytes, 332)),
        }
    }

    pub fn qpn(&self) -> u32 {
        u32_at(&self.param, 0)
    }

    /// Private data and its length, of a connection.
    pub fn private_data(&self) -> (&[u8], u8) {
        (&self.param[8..264], self.param[264])
    }

    /// Responder resources, initiator depth.
    pub fn depths(&self) -> (u8, u8) {
        (self.param[266], self.param[267])
    }

    /// Private data and its length, of datagrams.
    pub fn ud_private_data(&self) -> (&[u8], u8) {
        (&self.param[40..296], self.param[296])
    }
}

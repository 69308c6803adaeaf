//! RDMA CM in simulated time: the agents of two hosts, and programs that write commands by hand.
//!
//! Method: the other side sees each step of a connection after a time that follows from the preset,
//! to the picosecond.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use crate::timed_support::*;
use ferroce_model::preset::Preset;
use ferroce_timed_protocol::cm::{ADDRESS_LENGTH, CmCall, INTERRUPT, result};
use ferroce_timed_protocol::request::Wait;

// Commands of the device file.
const CREATE_ID: u32 = 0;
const BIND_IP: u32 = 2;
const RESOLVE_IP: u32 = 3;
const RESOLVE_ROUTE: u32 = 4;
const CONNECT: u32 = 6;
const LISTEN: u32 = 7;
const ACCEPT: u32 = 8;
const GET_EVENT: u32 = 12;

// Events, `enum rdma_cm_event_type`.
const ADDR_RESOLVED: u32 = 0;
const ROUTE_RESOLVED: u32 = 2;
const CONNECT_REQUEST: u32 = 4;
const CONNECT_RESPONSE: u32 = 5;
const REJECTED: u32 = 8;
const ESTABLISHED: u32 = 9;
const DISCONNECTED: u32 = 10;

const EAGAIN: u32 = 11;
const EINVAL: u32 = 22;
/// `RDMA_PS_TCP`, and `IBV_QPT_RC`.
const TCP: u16 = 0x0106;
const RC: u8 = 2;
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 7174;
/// Bytes of a management datagram on the wire: its frame, and the frame's preamble, FCS and gap.
const WIRE_BYTES: f64 = 322.0 + 24.0;
/// Period of a request without an answer, in units of 4.096 us: the response time-out of Linux, and
/// twice the packet life time (IBTA vol 1, 12.7.5).
const RETRY_PS: u64 = 4_096_000 * ((1 << 20) + 2 * (1 << 16));

/// Time from a command that sends a datagram to the event at the other side.
fn way_ps() -> u64 {
    let preset = Preset::load("cx5-100g").expect("built in");
    let wire_ns = WIRE_BYTES * 8.0 / preset.mac.rate_gbps;
    let mac_ns = preset.mac.transmit_ns + preset.mac.receive_ns;
    let ns = wire_ns + mac_ns + preset.link.cable_ns + preset.host.cm_mad_ns;
    (ns * 1000.0).round() as u64
}

/// A program with one thread and one channel.
struct Side {
    program: Program,
    thread: ProgramThread,
    channel: u32,
}

impl Side {
    fn new(world: &TestWorld) -> Self {
        let program = join(&world.path);
        let thread = program.thread();
        assert!(thread.await_turn());
        let channel = result(thread.wait(&Wait::Cm(CmCall::Open))).expect("a channel");
        Self {
            program,
            thread,
            channel,
        }
    }

    /// Executes a command with a response of `room` bytes; returns them.
    fn command(&self, command: u32, body: &[u8], room: usize) -> Result<Vec<u8>, u32> {
        let mut bytes = command.to_le_bytes().to_vec();
        bytes.extend((body.len() as u16).to_le_bytes());
        bytes.extend((room as u16).to_le_bytes());
        bytes.extend(body);
        let message = &self.thread.page().cm_message;
        assert!(message.set(&bytes, &[]));
        let call = CmCall::Command {
            channel: self.channel,
            length: bytes.len() as u32,
            option_length: 0,
        };
        let length = result(self.thread.wait(&Wait::Cm(call)))?;
        Ok(message.get(length as usize).split_off(ADDRESS_LENGTH))
    }

    fn do_command(&self, command: u32, body: &[u8]) {
        self.command(command, body, 0).expect("accepted");
    }

    fn create_id(&self) -> u32 {
        let mut body = [0_u64.to_le_bytes(); 3];
        body[0][0] = 1;
        [body[2][0], body[2][1]] = TCP.to_le_bytes();
        body[2][2] = RC;
        let reply = self
            .command(CREATE_ID, body.as_flattened(), 4)
            .expect("an id");
        word(&reply, 0)
    }

    fn listen(&self, port: u16) -> u32 {
        let id = self.create_id();
        let body = [&[0; 8], &address(port)[..], &id.to_le_bytes()].concat();
        self.do_command(BIND_IP, &body);
        self.do_command(LISTEN, &[id.to_le_bytes(), [8, 0, 0, 0]].concat());
        id
    }

    /// Sends a request; returns the id, and when it was sent.
    fn connect(&self, port: u16) -> (u32, u64) {
        let id = self.create_id();
        let timeout = 2000_u32.to_le_bytes();
        let body = [&[0; 28], &address(port)[..], &id.to_le_bytes(), &timeout].concat();
        self.do_command(RESOLVE_IP, &body);
        assert_eq!(self.event(), ADDR_RESOLVED);
        self.do_command(RESOLVE_ROUTE, &[id.to_le_bytes(), timeout].concat());
        assert_eq!(self.event(), ROUTE_RESOLVED);
        self.do_command(
            CONNECT,
            &[&parameters()[..], &id.to_le_bytes(), &[0; 12]].concat(),
        );
        (id, self.thread.now())
    }

    /// Accepts a request; returns when.
    fn accept(&self, id: u32) -> u64 {
        self.answer(id, 2, &parameters())
    }

    /// Accepts a response; returns when.
    fn establish(&self, id: u32) -> u64 {
        self.answer(id, 0, &[0; 272])
    }

    fn answer(&self, id: u32, uid: u64, parameters: &[u8; 272]) -> u64 {
        let uid = uid.to_le_bytes();
        let body = [&uid, &parameters[..], &id.to_le_bytes(), &[0; 12]].concat();
        self.do_command(ACCEPT, &body);
        self.thread.now()
    }

    /// Returns the number of waiting events, as the world reports it.
    fn waiting(&self) -> u32 {
        let page = &self.program.pages.pages().program;
        page.cm_events[self.channel as usize].load(Ordering::Relaxed)
    }

    /// Sleeps until there is an event; returns when it came.
    fn await_event(&self) -> u64 {
        assert_eq!(self.command(GET_EVENT, &[0; 8], 336), Err(EAGAIN));
        assert_eq!(self.waiting(), 0);
        self.thread.wait(&Wait::OnInterrupt { wake_up_ps: 0 });
        let interrupts = self.thread.page().interrupts.load(Ordering::Relaxed);
        assert_eq!(interrupts & INTERRUPT, INTERRUPT);
        assert_eq!(self.waiting(), 1);
        self.thread.now()
    }

    /// Reads an event: its kind and its id.
    fn read_event(&self) -> (u32, u32) {
        let event = self.command(GET_EVENT, &[0; 8], 336).expect("an event");
        (word(&event, 12), word(&event, 8))
    }

    fn event(&self) -> u32 {
        self.read_event().0
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The server's address with this port, in the room of a `sockaddr_in6`.
fn address(port: u16) -> [u8; 28] {
    const AF_INET: u8 = 2;
    let mut address = [0; 28];
    address[0] = AF_INET;
    address[2..4].copy_from_slice(&port.to_be_bytes());
    address[4..8].copy_from_slice(&SERVER.octets());
    address
}

/// `struct rdma_ucm_conn_param` without private data.
fn parameters() -> [u8; 272] {
    const QPN: u32 = 0x105;
    const VALID: usize = 271;
    let mut parameters = [0; 272];
    parameters[..4].copy_from_slice(&QPN.to_le_bytes());
    parameters[VALID] = 1;
    parameters
}

/// Runs the server in another thread, and the client when `server` has sent something.
fn run<T: Send>(
    name: &str,
    server: impl FnOnce(&Side, &Sender<()>) -> T + Send,
    client: impl FnOnce(&Side) -> T,
) -> (T, T) {
    let world = TestWorld::new(name, 2);
    let (sender, receiver): (_, Receiver<()>) = mpsc::channel();
    thread::scope(|scope| {
        let own = &world;
        let server = scope.spawn(move || {
            let side = Side::new(own);
            let seen = server(&side, &sender);
            side.thread.end();
            seen
        });
        receiver.recv_timeout(limit()).expect("the server is there");
        let side = Side::new(&world);
        let seen = client(&side);
        side.thread.end();
        drop(side);
        (server.join().expect("no panic"), seen)
    })
}

/// Goal: request, response and RTU arrive at the times that the preset implies; the end of a
/// program ends its connections.
#[test]
fn each_datagram_takes_its_time() {
    let (server, client) = run(
        "cm_times",
        |side, ready| {
            side.listen(PORT);
            ready.send(()).expect("it waits");
            let request = side.await_event();
            let (event, id) = side.read_event();
            assert_eq!(event, CONNECT_REQUEST);
            let accepted = side.accept(id);
            let established = side.await_event();
            assert_eq!(side.event(), ESTABLISHED);
            side.await_event();
            assert_eq!(side.event(), DISCONNECTED);
            vec![request, accepted, established]
        },
        |side| {
            let (id, sent) = side.connect(PORT);
            let response = side.await_event();
            assert_eq!(side.event(), CONNECT_RESPONSE);
            vec![sent, response, side.establish(id)]
        },
    );
    let way = way_ps();
    assert_eq!(server[0] - client[0], way, "the request");
    assert_eq!(client[1] - server[1], way, "the response");
    assert_eq!(server[2] - client[2], way, "the last word");
}

#[test]
fn a_host_that_listens_refuses_other_requests() {
    let (_, client) = run(
        "cm_refusal",
        |side, ready| {
            side.listen(PORT);
            ready.send(()).expect("it waits");
            // Wait until the client has ended.
            side.thread.sleep_until(side.thread.now() + RETRY_PS);
            0
        },
        |side| {
            let (_, sent) = side.connect(PORT + 1);
            let refused = side.await_event();
            assert_eq!(side.event(), REJECTED);
            refused - sent
        },
    );
    assert_eq!(client, 2 * way_ps());
}

/// Goal: a server that listens too late for the first request gets the second one.
#[test]
fn a_request_is_sent_again_until_the_server_listens() {
    let (server, client) = run(
        "cm_late",
        |side, ready| {
            ready.send(()).expect("it waits");
            let thread = &side.thread;
            thread.sleep_until(thread.now() + RETRY_PS / 2);
            side.listen(PORT);
            let request = side.await_event();
            let (event, id) = side.read_event();
            assert_eq!(event, CONNECT_REQUEST);
            side.accept(id);
            request
        },
        |side| {
            let (_, sent) = side.connect(PORT);
            side.await_event();
            assert_eq!(side.event(), CONNECT_RESPONSE);
            sent
        },
    );
    assert_eq!((server - client) % RETRY_PS, way_ps());
}

#[test]
fn a_channel_belongs_to_its_program() {
    let world = TestWorld::new("cm_channels", 2);
    let side = Side::new(&world);
    let close = |channel| result(side.thread.wait(&Wait::Cm(CmCall::Close { channel })));
    assert_eq!(close(side.channel + 1), Err(EINVAL));
    assert_eq!(close(side.channel), Ok(0));
    assert_eq!(close(side.channel), Err(EINVAL));
    let again = result(side.thread.wait(&Wait::Cm(CmCall::Open)));
    assert_eq!(again, Ok(side.channel), "the number is free again");
    side.thread.end();
}

//! Random programs: connections between hosts, and operations on them.
//!
//! Each operation depends only on the seed and its number, so that removing some operations does
//! not change the others.

use std::collections::BTreeMap;
use std::fmt;

use ferroce_driver::{PathMtu, Service};
use ferroce_units::Duration;
use ferroce_units::random::Random;

use crate::scenario::Scenario;

/// Bytes of each host's constant data, which is the source of messages. This and the next two are
/// multiplied by the scale of the scenario.
pub(crate) const SOURCE: usize = 16 << 10;
/// Bytes at the target of a reliable connection that WRITEs and READs use.
pub(crate) const SHARED_TARGET: usize = 4096;
/// Bytes of the longest message.
pub(crate) const MAX_LENGTH: usize = 3000;
/// Maximum bytes of a datagram: its MTU is the smallest path MTU.
pub(crate) const MAX_DATAGRAM: usize = 1024;
/// Maximum bytes of inline data.
pub(crate) const MAX_INLINE: usize = 64;
/// Maximum data segments of a request.
pub(crate) const MAX_SEGMENTS: usize = 3;
/// The first streams of random numbers for connections and operations.
const CONNECTION_STREAM: u64 = 1 << 32;
const OPERATION_STREAM: u64 = 2 << 32;

/// A service between two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Transport {
    Rc,
    Uc,
    Ud,
    /// Only from side 0 to side 1.
    Xrc,
}

impl Transport {
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::Xrc)
    }

    /// Returns the service of the queue pair of a side.
    pub const fn service(self, side: usize) -> Service {
        match (self, side) {
            (Self::Rc, _) => Service::ReliableConnected,
            (Self::Uc, _) => Service::UnreliableConnected,
            (Self::Ud, _) => Service::UnreliableDatagram,
            (Self::Xrc, 0) => Service::XrcInitiator,
            (Self::Xrc, _) => Service::XrcTarget,
        }
    }
}

/// Two queue pairs that send to each other.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub transport: Transport,
    /// The hosts of both sides, which may be the same.
    pub hosts: [usize; 2],
    pub mtu: PathMtu,
    /// True if the receives of a side come from a shared receive queue.
    pub is_shared: [bool; 2],
    /// True if peers of a side write and read through a memory window.
    pub has_window: [bool; 2],
    /// Maximum outstanding send work requests.
    pub depth: u32,
    /// Maximum outstanding receives: later ones are posted when earlier ones are complete.
    pub receive_depth: usize,
    pub max_rd_atomic: u8,
    pub min_rnr_timer: u8,
    /// Local ACK timeout, 5-bit code.
    pub timeout: u8,
}

impl Connection {
    fn of(scenario: &Scenario, index: usize) -> Self {
        let random = Random::new(scenario.seed, CONNECTION_STREAM + index as u64);
        let hosts = scenario.hosts as u64;
        let one = random.below(hosts);
        let distance = if random.one_in(16) {
            0
        } else {
            1 + random.below(hosts - 1)
        };
        let transport = match random.below(8) {
            0 => Transport::Uc,
            1 => Transport::Ud,
            2 => Transport::Xrc,
            _ => Transport::Rc,
        };
        let mtus = match scenario.scale {
            1 => [PathMtu::Mtu256, PathMtu::Mtu512, PathMtu::Mtu1024],
            _ => [PathMtu::Mtu256, PathMtu::Mtu1024, PathMtu::Mtu4096],
        };
        let is_shared = [random.one_in(3), random.one_in(3)]
            .map(|shared| shared || transport == Transport::Xrc);
        let is_rc = transport == Transport::Rc;
        Self {
            transport,
            hosts: [one, (one + distance) % hosts].map(|host| host as usize),
            mtu: random.one_of(&mtus),
            is_shared,
            has_window: [is_rc && random.one_in(4), is_rc && random.one_in(4)],
            depth: 2 << random.below(4),
            receive_depth: 1 << random.below(5),
            max_rd_atomic: 1 << random.below(5),
            min_rnr_timer: 1 + random.below(6) as u8,
            timeout: 6 + random.below(3) as u8,
        }
    }

    /// Returns a random side that can send.
    fn sender(&self, random: &Random) -> usize {
        match self.transport {
            Transport::Xrc => 0,
            _ => random.below(2) as usize,
        }
    }
}

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Send,
    SendImmediate,
    /// Invalidates the window of the receiver.
    SendInvalidate,
    Write,
    WriteImmediate,
    Read,
    CompareSwap,
    FetchAdd,
    /// A WRITE with a nonexistent key.
    WrongKey,
    /// The sender deregisters the memory that its peer accesses.
    Deregister,
    /// The sender moves its queue pair to ERR.
    Fail,
}

impl Kind {
    pub const fn takes_receive(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendImmediate | Self::SendInvalidate | Self::WriteImmediate
        )
    }

    pub const fn has_immediate(self) -> bool {
        matches!(self, Self::SendImmediate | Self::WriteImmediate)
    }

    /// Returns true if it writes the memory that the peer has offered.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::WriteImmediate | Self::CompareSwap)
    }

    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }

    /// Returns true if it returns data.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::CompareSwap | Self::FetchAdd)
    }

    /// Returns true if it is a work request.
    pub const fn is_posted(self) -> bool {
        !matches!(self, Self::Deregister | Self::Fail)
    }

    /// Returns true if it makes its connection fail.
    pub const fn disrupts(self) -> bool {
        matches!(self, Self::WrongKey | Self::Deregister | Self::Fail)
    }
}

/// One operation of a program.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    /// Its number, which is the ID of its work request.
    pub index: usize,
    pub round: usize,
    pub connection: usize,
    /// The side that executes it.
    pub side: usize,
    pub kind: Kind,
    pub length: usize,
    /// Offset of the sent bytes in the constant data.
    pub source: usize,
    /// Offset in the memory that the peer has offered.
    pub target: usize,
    /// Compare and swap: true if the comparison will succeed.
    pub is_equal: bool,
    pub is_signaled: bool,
    pub is_solicited: bool,
    pub is_inline: bool,
    pub is_fenced: bool,
    pub segments: usize,
    /// Time since the last operation of the host.
    pub pause: Duration,
}

impl Operation {
    /// Returns the number of its direction.
    pub fn direction(&self) -> usize {
        direction(self.connection, self.side)
    }

    /// Returns the immediate data.
    pub fn immediate(&self) -> [u8; 4] {
        (self.index as u32 | 0x5eed_0000).to_be_bytes()
    }

    /// Returns its service and its kind.
    pub fn name(&self, program: &Program) -> String {
        let transport = program.connections[self.connection].transport;
        format!("{transport:?} {:?}", self.kind)
    }

    fn of(scenario: &Scenario, index: usize, connections: &[Connection]) -> Self {
        let random = Random::new(scenario.seed, OPERATION_STREAM + index as u64);
        let number = random.below(connections.len() as u64) as usize;
        let connection = &connections[number];
        let side = connection.sender(&random);
        let kind = kind(&random, scenario, connection.transport);
        let length = length(&random, scenario, kind, connection);
        let shared = SHARED_TARGET * scenario.scale;
        let pause_ns = match random.below(4) {
            0 => random.below(1_000),
            1 => random.below(30_000),
            _ => 0,
        };
        Self {
            index,
            round: index * scenario.rounds / scenario.operations,
            connection: number,
            side,
            kind,
            length,
            source: random.below(((SOURCE - MAX_LENGTH) * scenario.scale) as u64) as usize,
            target: match random.below((shared - length.max(8)) as u64) as usize {
                target if kind.is_atomic() => target & !7,
                target => target,
            },
            is_equal: random.one_in(2),
            is_signaled: random.one_in(2),
            is_solicited: random.one_in(8),
            is_inline: !kind.reads() && length <= MAX_INLINE && random.one_in(2),
            is_fenced: random.one_in(16),
            segments: if kind.is_atomic() {
                1
            } else {
                1 + random.below(MAX_SEGMENTS as u64) as usize
            },
            pause: Duration::from_ns(pause_ns),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            index,
            round,
            connection,
            side,
            kind,
            length,
            ..
        } = self;
        write!(f, "{index}: {kind:?} of {length} bytes, round {round}, ")?;
        write!(f, "connection {connection}, side {side}")
    }
}

/// Returns the number of a direction of a connection.
pub(crate) const fn direction(connection: usize, side: usize) -> usize {
    2 * connection + side
}

fn kind(random: &Random, scenario: &Scenario, transport: Transport) -> Kind {
    let weights = scenario.mix.weights().map(|(_, weight)| weight);
    let mut number = random.below(weights.iter().sum::<u64>().max(1));
    let class = weights.iter().position(|weight| {
        let is_it = number < *weight;
        number = number.saturating_sub(*weight);
        is_it
    });
    let pick = |kinds: &[Kind]| random.one_of(kinds);
    match (class, transport) {
        (_, Transport::Ud) => pick(&[Kind::Send, Kind::SendImmediate]),
        (Some(1..), Transport::Uc) => pick(&[Kind::Write, Kind::Write, Kind::WriteImmediate]),
        (_, Transport::Uc) => pick(&[Kind::Send, Kind::SendImmediate]),
        (Some(1), _) => pick(&[Kind::Write, Kind::Write, Kind::WriteImmediate]),
        (Some(2), _) => Kind::Read,
        (Some(3), _) => pick(&[Kind::CompareSwap, Kind::FetchAdd]),
        (Some(4), Transport::Xrc) => pick(&[Kind::WrongKey, Kind::Fail]),
        (Some(4), _) => pick(&[Kind::WrongKey, Kind::Deregister, Kind::Fail]),
        (_, Transport::Xrc) => pick(&[Kind::Send, Kind::SendImmediate]),
        _ => pick(&[Kind::Send, Kind::SendImmediate, Kind::SendInvalidate]),
    }
}

fn length(random: &Random, scenario: &Scenario, kind: Kind, connection: &Connection) -> usize {
    if kind.is_atomic() {
        return 8;
    }
    let mtu = connection.mtu.bytes() as usize;
    let longest = MAX_LENGTH * scenario.scale;
    let length = match random.below(5) {
        0 => 0,
        1 => random.below(65) as usize,
        2 => random.below(4) as usize * mtu,
        3 => (1 + random.below(3) as usize) * mtu + random.below(3) as usize - 1,
        _ => random.below(longest as u64) as usize,
    };
    let most = match connection.transport {
        // The port's MTU limits datagrams.
        Transport::Ud => MAX_DATAGRAM,
        _ => longest,
    };
    // A request of zero bytes needs no key (IBTA vol 1, 9.7.4.1.5).
    length.clamp(usize::from(kind == Kind::WrongKey), most)
}

/// A whole program.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub connections: Vec<Connection>,
    pub operations: Vec<Operation>,
    pub scale: usize,
}

impl Program {
    /// Returns the program of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let connections: Vec<_> = (0..scenario.connections)
            .map(|index| Connection::of(scenario, index))
            .collect();
        let is_left = |index: &usize| {
            let only = scenario.only.as_ref();
            only.is_none_or(|only| only.contains(index))
        };
        let operations = (0..scenario.operations).filter(is_left);
        let operations = operations.map(|index| Operation::of(scenario, index, &connections));
        let mut program = Self {
            operations: operations.collect(),
            connections,
            scale: scenario.scale,
        };
        program.signal_some();
        program.fence_writes();
        program.separate_unreliable();
        program
    }

    /// Gives each WRITE of an unreliable service its own location: messages may be lost, repeated
    /// and reordered, and the contents of a location must not depend on several of them.
    fn separate_unreliable(&mut self) {
        let mut ends = vec![0; 2 * self.connections.len()];
        for operation in &mut self.operations {
            if self.connections[operation.connection].transport == Transport::Uc {
                let end = &mut ends[operation.direction()];
                operation.target = *end;
                *end += operation.length;
            }
        }
    }

    /// Returns the number of target bytes that a direction accesses.
    pub fn target_bytes(&self, number: usize) -> usize {
        let transport = self.connections[number / 2].transport;
        if transport.is_reliable() {
            return SHARED_TARGET * self.scale;
        }
        let own = self.operations.iter().filter(|o| o.direction() == number);
        own.map(|o| o.target + o.length).max().unwrap_or(0).max(8)
    }

    /// Makes some requests signaled so that their completion is seen: the last one of each queue
    /// pair and round, and one before a queue is full of others.
    fn signal_some(&mut self) {
        let mut behind: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        for operation in self.operations.iter_mut().rev() {
            if !operation.kind.is_posted() {
                continue;
            }
            let key = (operation.round, operation.direction());
            let depth = self.connections[operation.connection].depth;
            let silent = behind.entry(key).or_insert(depth - 1);
            operation.is_signaled |= *silent == depth - 1;
            *silent = if operation.is_signaled {
                0
            } else {
                *silent + 1
            };
        }
    }

    /// Fences operations that change memory or keys after READs: a repeated READ reads memory again
    /// (IBTA vol 1, 9.7.5.1.2).
    fn fence_writes(&mut self) {
        let mut reads = vec![false; 2 * self.connections.len()];
        for operation in &mut self.operations {
            let has_read = &mut reads[operation.direction()];
            match operation.kind {
                Kind::Read => *has_read = true,
                kind if *has_read && (kind.writes() || kind == Kind::SendInvalidate) => {
                    operation.is_fenced = true;
                    *has_read = false;
                }
                _ => {}
            }
        }
    }

    /// Returns the operations of a round.
    pub fn round(&self, round: usize) -> impl Iterator<Item = &Operation> {
        self.operations.iter().filter(move |o| o.round == round)
    }

    /// Returns true if an operation makes a connection fail in a round.
    pub fn is_disrupted(&self, round: usize, connection: usize) -> bool {
        let mut operations = self.round(round);
        operations.any(|o| o.connection == connection && o.kind.disrupts())
    }
}

impl Scenario {
    /// Returns the operations of its program as text.
    pub fn operations(&self) -> Vec<String> {
        let operations = Program::of(self).operations;
        operations.iter().map(Operation::to_string).collect()
    }
}

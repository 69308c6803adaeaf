//! Layout of a host's memory.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::program::{Kind, MAX_LENGTH, Program, SOURCE, Transport, direction};

/// Alignment of each part.
pub(crate) const ALIGNMENT: usize = 64;
/// Bytes before a datagram: room for an IP header.
pub(crate) const GRH: usize = 40;
/// Receives of a host in addition to two per message: some are flushed, others are used by messages
/// that do not finish.
const SPARE_RECEIVES: usize = 8;
/// Bits of a counter for the executions of one fetch and add.
pub(crate) const COUNT_BITS: u32 = 4;

/// The parts of a host's memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// Constant data.
    pub source: Range<usize>,
    /// Words to which peers add.
    pub counters: Range<usize>,
    /// Memory that peers write and read, by the number of the direction.
    pub targets: BTreeMap<usize, Range<usize>>,
    /// Destinations of returned data, by operation.
    pub landings: BTreeMap<usize, Range<usize>>,
    /// Buffers of receives.
    pub receives: Range<usize>,
    /// Bytes of one: the longest message, and the IP header of a datagram.
    pub receive: usize,
    /// Total bytes.
    pub bytes: usize,
}

/// The word and the lowest bit of a fetch and add's counter.
pub(crate) type Counter = (usize, u32);

/// The memory of all hosts.
#[derive(Debug, Clone)]
pub(crate) struct Layouts {
    pub hosts: Vec<Layout>,
    /// The counters on the other side's host, by operation.
    pub counters: BTreeMap<usize, Counter>,
}

impl Layouts {
    /// Returns the memory that a program needs.
    pub fn of(program: &Program, hosts: usize) -> Self {
        let mut layouts = Self {
            hosts: vec![Layout::default(); hosts],
            counters: BTreeMap::new(),
        };
        for (host, layout) in layouts.hosts.iter_mut().enumerate() {
            layout.source = layout.take(SOURCE * program.scale);
            layout.add_counters(program, host, &mut layouts.counters);
            layout.add_targets(program, host);
            layout.add_landings(program, host);
            layout.add_receives(program, host);
        }
        layouts
    }
}

impl Layout {
    fn take(&mut self, bytes: usize) -> Range<usize> {
        let start = self.bytes.next_multiple_of(ALIGNMENT);
        self.bytes = start + bytes;
        start..self.bytes
    }

    fn add_counters(
        &mut self,
        program: &Program,
        host: usize,
        counters: &mut BTreeMap<usize, Counter>,
    ) {
        let per_word = u64::BITS / COUNT_BITS;
        let mut count = 0;
        for operation in &program.operations {
            let connection = &program.connections[operation.connection];
            let target = connection.hosts[1 - operation.side];
            if operation.kind == Kind::FetchAdd && target == host {
                let word = (count / per_word) as usize;
                counters.insert(operation.index, (word, count % per_word * COUNT_BITS));
                count += 1;
            }
        }
        self.counters = self.take(8 * count.div_ceil(per_word).max(1) as usize);
    }

    fn add_targets(&mut self, program: &Program, host: usize) {
        for (number, connection) in program.connections.iter().enumerate() {
            for side in 0..2 {
                let has_memory = connection.transport != Transport::Ud;
                if has_memory && connection.hosts[1 - side] == host {
                    let direction = direction(number, side);
                    let range = self.take(program.target_bytes(direction));
                    self.targets.insert(direction, range);
                }
            }
        }
    }

    fn add_landings(&mut self, program: &Program, host: usize) {
        for operation in &program.operations {
            let own = program.connections[operation.connection].hosts[operation.side];
            if operation.kind.reads() && own == host {
                let range = self.take(operation.length);
                self.landings.insert(operation.index, range);
            }
        }
    }

    fn add_receives(&mut self, program: &Program, host: usize) {
        let ends = program.connections.iter().flat_map(|c| c.hosts);
        let ends = ends.filter(|end| *end == host).count();
        let messages = program.operations.iter().filter(|o| {
            let to = program.connections[o.connection].hosts[1 - o.side];
            o.kind.takes_receive() && to == host
        });
        let receives = 2 * messages.count() + SPARE_RECEIVES * (ends + 1);
        self.receive = (MAX_LENGTH * program.scale + GRH).next_multiple_of(ALIGNMENT);
        self.receives = self.take(receives * self.receive);
    }
}

//! One of the two processes: connects its QPs to the other's, and executes the plan.

use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ferroce_tests::{TIMEOUT, eventually_some, time_limit};
use ferroce_verbs_client::address::{Ah, path_to};
use ferroce_verbs_client::bench::{Bench, Service};
use ferroce_verbs_client::context::{gid_bytes, gid_of};
use ferroce_verbs_client::cq::imm_data;
use ferroce_verbs_client::memory::{ALL_ACCESS, Buffer, Mr};
use ferroce_verbs_client::qp::{Q_KEY, Qp, QpConfig};
use ferroce_verbs_client::srq::Srq;
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::work_request::{ReceiveWr, SendWr};

use crate::paging::Paged;
use crate::plan::{Fault, HEADER, MEMORY, Operation, SLOT, SLOTS, memories, rounds};

const KEY_FAULT: u32 = 0x5a5a_5a00;
/// `wr_id` of a receive is the index of its operation; `wr_id` of a send is the index plus this.
const SEND_ID: u64 = 1000;

/// Data that each side sends to the other: GID, QP numbers, SRQ number, address and key of its
/// memory.
struct Address {
    gid: ibv_gid,
    qpns: [u32; 5],
    srqn: u32,
    memory: u64,
    rkey: u32,
}

const ADDRESS_WORDS: usize = 9;

/// The connection to the peer.
struct Line(UnixStream);

impl Line {
    fn open(which: usize, path: &Path) -> Self {
        let stream = if which == 0 {
            let listener = UnixListener::bind(path).expect("a socket");
            listener.accept().expect("the peer").0
        } else {
            eventually_some("the peer listens", TIMEOUT, || {
                UnixStream::connect(path).ok()
            })
        };
        stream
            .set_read_timeout(Some(time_limit(TIMEOUT)))
            .expect("a timeout");
        Self(stream)
    }

    fn exchange<const N: usize>(&mut self, mine: [u8; N]) -> [u8; N] {
        self.0.write_all(&mine).expect("the peer lives");
        let mut theirs = [0; N];
        self.0.read_exact(&mut theirs).expect("the peer lives");
        theirs
    }

    /// Waits until both sides have reached this point.
    fn barrier(&mut self) {
        self.exchange([0]);
    }
}

/// The QPs of one side: RC, UC, UD, XRC initiator, XRC target.
struct Side {
    which: usize,
    bench: Bench,
    buffer: Arc<Buffer>,
    /// `None`: the memory is pinned.
    paged: Option<Paged>,
    mr: Mr,
    qps: [Qp; 5],
    srq: Srq,
    peer: Option<(Address, Ah)>,
}

/// Regions to be deregistered, each after a number of polls.
type Regions = Vec<(u64, Mr)>;
/// Keys of the peer's regions, by slot.
type Keys = [u32; SLOTS];

/// Returns the index of the QP that sends, or receives.
fn index(service: Service, sends: bool) -> usize {
    match (service, sends) {
        (Service::Rc, _) => 0,
        (Service::Uc, _) => 1,
        (Service::Ud, _) => 2,
        (Service::Xrc, true) => 3,
        (Service::Xrc, false) => 4,
    }
}

impl Side {
    /// The seed also decides whether the memory of this side is on demand, if the device has that.
    fn new(which: usize, seed: u64) -> Self {
        let bench = Bench::new();
        let buffer = Buffer::new(MEMORY);
        let device = bench.context.query_device_ex(0).expect("it answers");
        let is_on_demand = device.odp_caps.general_caps != 0 && seed >> which & 1 == 1;
        let paged = is_on_demand.then(|| Paged::new(&buffer, seed));
        let mr = bench.pd.register(&buffer, access(paged.as_ref()));
        let mr = mr.expect("an MR");
        let xrcd = bench.context.private_xrcd().expect("an XRC domain");
        let srq = bench
            .context
            .create_xrc_srq(&bench.pd, &xrcd, &bench.receive_cq, 16)
            .expect("an XRC SRQ");
        let sender = |service: Service| {
            let config = QpConfig {
                send_ops: Some(service.send_ops()),
                ..bench.config(service.sender())
            };
            bench.context.create_qp(&config).expect("a QP").0
        };
        let qps = [
            sender(Service::Rc),
            sender(Service::Uc),
            sender(Service::Ud),
            sender(Service::Xrc),
            bench.target(&xrcd).expect("an XRC target"),
        ];
        Self {
            which,
            bench,
            buffer,
            paged,
            mr,
            qps,
            srq,
            peer: None,
        }
    }

    fn meet(&mut self, line: &mut Line) {
        let mut words = [0_u64; ADDRESS_WORDS];
        for (word, qp) in words.iter_mut().zip(&self.qps) {
            *word = u64::from(qp.number());
        }
        words[5] = u64::from(self.srq.number().expect("a number"));
        words[6] = self.buffer.address(0);
        words[7] = u64::from(self.mr.rkey());
        let mut mine = [0; ADDRESS_WORDS * 8 + 16];
        for (bytes, word) in mine.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        mine[ADDRESS_WORDS * 8..].copy_from_slice(&gid_bytes(&self.bench.gid));
        let theirs = line.exchange(mine);
        let word = |at: usize| {
            let bytes = theirs[at * 8..at * 8 + 8].try_into().expect("eight bytes");
            u64::from_ne_bytes(bytes)
        };
        let gid = gid_of(theirs[ADDRESS_WORDS * 8..].try_into().expect("a GID"));
        let address = Address {
            gid,
            qpns: [0, 1, 2, 3, 4].map(|at| word(at) as u32),
            srqn: word(5) as u32,
            memory: word(6),
            rkey: word(7) as u32,
        };
        let ah = self.bench.pd.create_ah(path_to(gid)).expect("an AH");
        self.peer = Some((address, ah));
        (0..5).for_each(|at| self.connect(at));
    }

    fn peer(&self) -> &(Address, Ah) {
        self.peer.as_ref().expect("they have met")
    }

    fn connect(&self, at: usize) {
        let (address, _) = self.peer();
        // An initiator is connected to a target.
        let other = [0, 1, 2, 4, 3][at];
        self.qps[at].connect(address.gid, address.qpns[other]);
    }

    /// Returns the memory of an operation, split into its number of segments.
    fn segments(&self, operation: &Operation) -> Vec<ibv_sge> {
        let piece = operation.length / operation.segments;
        let mut key = self.mr.lkey();
        if operation.fault == Fault::LKey {
            key ^= KEY_FAULT;
        }
        (0..operation.segments)
            .map(|at| ibv_sge {
                addr: self.buffer.address(operation.near + at * piece),
                length: if at + 1 == operation.segments {
                    operation.length - at * piece
                } else {
                    piece
                } as u32,
                lkey: key,
            })
            .filter(|sge| sge.length > 0)
            .collect()
    }

    /// Returns regions over the slots that the peer uses and this side deregisters, with the number
    /// of polls before that, and the keys of the peer's regions, by slot.
    fn exchange_regions(&self, operations: &[Operation], line: &mut Line) -> (Regions, Keys) {
        let mut mine = [0; SLOTS * 4];
        let mut regions = Vec::new();
        let theirs = |o: &&Operation| o.side != self.which && o.fault == Fault::Deregistered;
        for operation in operations.iter().filter(theirs) {
            let slot = operation.far / SLOT;
            let (pd, buffer) = (&self.bench.pd, &self.buffer);
            let access = access(self.paged.as_ref());
            let mr = pd.register_part(buffer, slot * SLOT, SLOT, access);
            let mr = mr.expect("an MR");
            mine[(slot - SLOTS) * 4..][..4].copy_from_slice(&mr.rkey().to_ne_bytes());
            regions.push((operation.polls_before, mr));
        }
        let bytes = line.exchange(mine);
        let key = |slot: usize| [0, 1, 2, 3].map(|at| bytes[slot * 4 + at]);
        (
            regions,
            std::array::from_fn(|slot| u32::from_ne_bytes(key(slot))),
        )
    }

    fn post(&self, id: usize, operation: &Operation, keys: &Keys) {
        let (address, ah) = self.peer();
        let rkey = match operation.fault {
            Fault::RKey => address.rkey ^ KEY_FAULT,
            Fault::Deregistered => keys[operation.near / SLOT],
            _ => address.rkey,
        };
        let remote = address.memory + operation.far as u64;
        let mut wr = SendWr::new(SEND_ID + id as u64, operation.opcode)
            .flags(operation.flags)
            .remote(remote, rkey)
            .immediate(operation.immediate)
            .operands(operation.operands.0, operation.operands.1);
        wr.sges = self.segments(operation);
        if operation.service == Service::Ud {
            wr = wr.datagram(ah, address.qpns[2], Q_KEY);
        }
        wr.srqn = address.srqn;
        let qp = &self.qps[index(operation.service, true)];
        let result = if operation.is_built {
            qp.post_built(&[wr])
        } else {
            qp.post_send(&wr)
        };
        result.unwrap_or_else(|code| panic!("post: {code}, {operation:?}"));
    }

    fn post_receive(&self, id: usize, operation: &Operation) {
        let (mut start, mut length) = (operation.far, operation.length);
        if operation.service == Service::Ud {
            (start, length) = (start - 40, length + 40);
        }
        if operation.fault == Fault::ShortReceive {
            length -= 1;
        }
        let sge = self.mr.sge(self.buffer.address(start), length as u32);
        let wr = ReceiveWr::new(id as u64, sge);
        match operation.service {
            Service::Xrc => self.srq.post_receive(&wr),
            service => self.qps[index(service, false)].post_receive(&wr),
        }
        .expect("post_recv");
    }

    /// Polls all expected completions; each QP's completions come in the order of posting.
    /// Meanwhile, deregisters the regions of the round.
    fn await_completions(&self, operations: &[Operation], mut regions: Regions) {
        let deadline = Instant::now() + time_limit(TIMEOUT);
        let mut sends: Vec<_> = self.chosen(operations, |o| o.side == self.which && o.completes());
        let mut receives: Vec<_> = self.chosen(operations, |o| {
            o.side != self.which && o.receive_status().is_some()
        });
        for poll in 0.. {
            if sends.is_empty() && receives.is_empty() {
                break;
            }
            regions.retain(|(polls_before, _)| poll < *polls_before);
            if let Some(paged) = &self.paged {
                paged.invalidate(&self.buffer);
            }
            assert!(
                Instant::now() < deadline,
                "missing sends {sends:?} and receives {receives:?} of {operations:#?}"
            );
            for wc in self.bench.send_cq.poll(8).expect("poll_cq") {
                let operation = take(&mut sends, wc.wr_id - SEND_ID, operations, &wc);
                let status = wc.status;
                assert!(operation.may_end_with(status), "{status}: {operation:?}");
                if wc.status == IBV_WC_SUCCESS {
                    assert_eq!(wc.opcode, operation.completion_opcode(), "{operation:?}");
                }
            }
            for wc in self.bench.receive_cq.poll(8).expect("poll_cq") {
                if wc.status == IBV_WC_WR_FLUSH_ERR {
                    continue;
                }
                let operation = take(&mut receives, wc.wr_id, operations, &wc);
                check_receive(operation, &wc);
            }
        }
    }

    fn chosen(&self, all: &[Operation], wanted: impl Fn(&Operation) -> bool) -> Vec<usize> {
        (0..all.len()).filter(|at| wanted(&all[*at])).collect()
    }

    /// Waits for the bytes of unreliable operations, which may arrive after their completions.
    fn await_memory(&self, expected: &[u8], operations: &[Operation]) {
        // A failed message may have arrived in part.
        let left_part = |o: &Operation| {
            if o.side == self.which {
                (o.fault == Fault::Deregistered).then_some(o.near / SLOT)
            } else {
                (o.fault != Fault::None).then_some(o.far / SLOT)
            }
        };
        let undefined: Vec<_> = operations.iter().filter_map(left_part).collect();
        let counts = |at: usize| !is_header(at) && !undefined.contains(&(at / SLOT));
        let deadline = Instant::now() + time_limit(TIMEOUT);
        loop {
            let found = self.buffer.read(0, MEMORY);
            let differs = (0..MEMORY).find(|at| found[*at] != expected[*at] && counts(*at));
            let Some(at) = differs else { return };
            // Polling an empty queue advances the device.
            assert!(
                self.bench.send_cq.try_next().is_none(),
                "a completion too many"
            );
            assert!(
                Instant::now() < deadline,
                "side {}, byte {at:#x} is {:#x} instead of {:#x} after {operations:#?}",
                self.which,
                found[at],
                expected[at]
            );
        }
    }

    /// Restarts QPs that have failed, or whose receives were not used.
    fn recover(&self, operations: &[Operation], line: &mut Line) {
        let mut failed = [false; 5];
        for operation in operations.iter().filter(|o| o.fault != Fault::None) {
            // On both sides, sender and receiver.
            for sends in [true, false] {
                failed[index(operation.service, sends)] = true;
            }
        }
        line.barrier();
        for at in (0..5).filter(|at| failed[*at]) {
            self.qps[at].to_state(IBV_QPS_RESET).expect("RESET");
        }
        line.barrier();
        for at in (0..5).filter(|at| failed[*at]) {
            self.connect(at);
        }
        line.barrier();
    }

    fn round(&self, operations: &[Operation], memory: &mut [Vec<u8>; 2], line: &mut Line) {
        let mine = |o: &Operation| o.side == self.which;
        for (id, operation) in operations.iter().enumerate() {
            // Unused receives would stay in an SRQ.
            let is_taken = operation.receive_status().is_some();
            if !mine(operation) && operation.takes_receive() && is_taken {
                self.post_receive(id, operation);
            }
        }
        let (regions, keys) = self.exchange_regions(operations, line);
        for (id, operation) in operations.iter().enumerate().filter(|(_, o)| mine(o)) {
            self.post(id, operation, &keys);
        }
        operations
            .iter()
            .for_each(|operation| operation.apply(memory));
        self.await_completions(operations, regions);
        self.await_memory(&memory[self.which], operations);
        line.barrier();
        self.bench.send_cq.expect_nothing();
        self.recover(operations, line);
        self.restore(&memory[self.which]);
        line.barrier();
    }

    /// Sets memory to the reference, also where the result is undefined.
    fn restore(&self, memory: &[u8]) {
        self.buffer.write(0, memory);
    }
}

/// Returns all rights, for pinned or for on-demand memory.
fn access(paged: Option<&Paged>) -> u32 {
    ALL_ACCESS | paged.map_or(0, |_| IBV_ACCESS_ON_DEMAND)
}

/// Returns true for the header of a datagram, whose content is not part of the reference.
fn is_header(at: usize) -> bool {
    at >= SLOTS * SLOT && at % SLOT < HEADER - 24
}

/// Removes the operation of a completion from the expected ones.
fn take<'a>(
    awaited: &mut Vec<usize>,
    id: u64,
    operations: &'a [Operation],
    wc: &ibv_wc,
) -> &'a Operation {
    let found = awaited.iter().position(|at| *at as u64 == id);
    let Some(found) = found else {
        panic!(
            "unexpected completion {id}, status {}: {operations:#?}",
            wc.status
        );
    };
    let operation = &operations[awaited.remove(found)];
    let overtaken = awaited[..found].iter().find(|at| {
        let other = &operations[**at];
        (other.side, other.service) == (operation.side, operation.service)
    });
    assert!(
        overtaken.is_none(),
        "{id} has overtaken {overtaken:?}: {operations:#?}"
    );
    operation
}

fn check_receive(operation: &Operation, wc: &ibv_wc) {
    assert_eq!(Some(wc.status), operation.receive_status(), "{operation:?}");
    if wc.status != IBV_WC_SUCCESS {
        return;
    }
    let is_write = operation.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    let opcode = if is_write {
        IBV_WC_RECV_RDMA_WITH_IMM
    } else {
        IBV_WC_RECV
    };
    let length = operation.length + operation.service.header();
    assert_eq!(
        (wc.opcode, wc.byte_len as usize),
        (opcode, length),
        "{operation:?}"
    );
    let with_immediate = is_write || operation.opcode == IBV_WR_SEND_WITH_IMM;
    assert_eq!(
        wc.wc_flags & IBV_WC_WITH_IMM != 0,
        with_immediate,
        "{operation:?}"
    );
    if with_immediate {
        assert_eq!(imm_data(wc), operation.immediate, "{operation:?}");
    }
}

/// Runs the plans of these seeds: all operations, or those that succeed despite packet faults.
pub fn run(which: usize, seeds: Range<u64>, survives: bool, path: &Path) {
    let mut line = Line::open(which, path);
    for seed in seeds {
        println!("seed {seed}");
        let mut side = Side::new(which, seed);
        side.meet(&mut line);
        let mut memory = memories(seed);
        side.restore(&memory[which]);
        line.barrier();
        for mut operations in rounds(seed) {
            operations.retain(|operation| !survives || operation.survives_packet_faults());
            side.round(&operations, &mut memory, &mut line);
        }
        line.barrier();
    }
}

/// Returns the last seed that either side has begun.
pub fn failed_seed(outputs: &[&str]) -> u64 {
    let last = |output: &&str| {
        let seeds = output.lines().filter_map(|line| line.strip_prefix("seed "));
        seeds.filter_map(|seed| seed.parse().ok()).next_back()
    };
    outputs.iter().filter_map(last).max().unwrap_or(0)
}

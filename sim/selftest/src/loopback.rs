//! Stage `loopback`: all operations of all services, from the device to itself.

use ferroce_driver::{
    CompletionOpcode, CompletionStatus, Destination, RKey, RemoteAddress, SendData, SendOperation,
    Service, WorkCompletion,
};

use super::bench::Bench;
use super::hint;
use super::outcome::{Failure, Outcome, Stop};
use super::pair::{Pair, SEGMENTS, refused};
use super::pattern::{Damage, Memory};

/// Offsets of the source and of the target.
const SOURCE: usize = 0x400;
pub(super) const TARGET: usize = 0x2_0000;
const MEMORY_LENGTH: usize = 0x4_0000;
/// Lengths of messages: empty, less than a word, around one path MTU, several packets.
pub(super) const LENGTHS: [usize; 10] = [0, 1, 3, 64, 1024, 4095, 4096, 4097, 20_001, 65_536];
const IMMEDIATE: [u8; 4] = [0xde, 0xad, 0xbe, 0xef];

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let limits = bench.opened()?.device.capabilities().clone();
    let mut done = Vec::new();
    let rc = Loopback::new(bench, Service::ReliableConnected)?;
    if limits.reliable_connected {
        done.push(format!("RC SEND {}", rc.check_sends(bench)?));
        done.push(format!("WRITE {}", rc.check_writes(bench)?));
        done.push(format!("READ {}", rc.check_reads(bench)?));
        rc.check_gather(bench)?;
        done.push("gather 1".to_owned());
    }
    if limits.reliable_connected && limits.atomics {
        done.push(format!("atomics {}", rc.check_atomics(bench)?));
    }
    if limits.unreliable_connected {
        let uc = Loopback::new(bench, Service::UnreliableConnected)?;
        done.push(format!("UC SEND {}", uc.check_sends(bench)?));
        done.push(format!("WRITE {}", uc.check_writes(bench)?));
    }
    if limits.unreliable_datagram {
        let ud = Loopback::new(bench, Service::UnreliableDatagram)?;
        done.push(format!("UD SEND {}", ud.check_datagrams(bench)?));
    }
    if limits.reliable_connected {
        // Last, because the queue pair is then in the error state.
        rc.check_wrong_key(bench)?;
        done.push("refused 1".to_owned());
    }
    bench.figure("messages", done.join(", "));
    Ok(())
}

pub(super) struct Loopback {
    service: &'static str,
    pub pair: Pair,
    pub memory: Memory,
}

/// Returns the byte at an offset of the source, different for each message.
pub(super) fn data(message: usize) -> impl Fn(usize) -> u8 {
    move |place| {
        let mixed = (place + 1).wrapping_mul(2_654_435_761) ^ message.wrapping_mul(0x9e37);
        (mixed >> 16) as u8 ^ mixed as u8
    }
}

impl Loopback {
    fn new(bench: &Bench, service: Service) -> Result<Self, Stop> {
        let memory = Memory::open(&bench.opened()?.pd, MEMORY_LENGTH)
            .map_err(|error| hint::of_driver("no memory region", &error, &*bench.bus))?;
        Ok(Self {
            service: match service {
                Service::UnreliableConnected => "UC",
                Service::UnreliableDatagram => "UD",
                _ => "RC",
            },
            pair: Pair::new(bench, service)?,
            memory,
        })
    }

    /// Prepares a source of `length` bytes and a guarded target.
    pub(super) fn prepare(&self, message: usize, length: usize) {
        let byte = data(message);
        self.memory
            .fill(SOURCE..SOURCE + length, |at| byte(at - SOURCE));
        self.memory.guard(TARGET, length);
    }

    fn check_data(
        &self,
        what: &str,
        message: usize,
        at: usize,
        length: usize,
    ) -> Result<(), Failure> {
        let checked = self.memory.check(at, length, data(message));
        checked.map_err(|damage| damaged(what, damage))
    }

    pub(super) fn post_receive(&self, at: usize, length: usize) -> Result<(), Failure> {
        let queue = self.pair.responder.receive_queue();
        let posted = queue.map(|queue| queue.post(2, &[self.memory.segment(at, length)]));
        match posted {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(refused("a receive", error)),
            None => Err(Failure::new("a queue pair has no receive queue")),
        }
    }

    pub(super) fn source(&self, length: usize) -> [ferroce_driver::DataSegment; 1] {
        [self.memory.segment(SOURCE, length)]
    }

    /// Returns the receive completion of a message of this pair.
    pub(super) fn received(
        &self,
        bench: &Bench,
        what: &str,
        length: usize,
    ) -> Result<WorkCompletion, Failure> {
        let what = format!("{what}, receive");
        let completion = bench.success(&self.pair.receive_cq, &what);
        let completion = completion.map_err(|failure| match self.service {
            "RC" => failure,
            _ => failure.look_at(
                "lost frames: UC and UD do not retransmit them (FIFO overflow in the loopback \
                 path, rx_icrc_errors, rx_no_receive)",
            ),
        })?;
        let seen = (
            completion.wr_id,
            completion.qpn,
            completion.byte_length as usize,
        );
        let expected = (2, self.pair.responder.number(), length);
        if seen != expected {
            return Err(Failure::new(format!(
                "{what}: the completion says wr_id, QPN and bytes {seen:?}, not {expected:?}"
            ))
            .look_at("the CQE: qpn, WQE index, byte_count"));
        }
        Ok(completion)
    }

    fn check_sends(&self, bench: &Bench) -> Result<usize, Failure> {
        for (message, length) in LENGTHS.into_iter().enumerate() {
            let what = format!("{} SEND of {length} bytes", self.service);
            let with_immediate = message % 2 == 1;
            self.prepare(message, length);
            self.post_receive(TARGET, length.max(1))?;
            let operation = if with_immediate {
                SendOperation::SendImmediate(IMMEDIATE)
            } else {
                SendOperation::Send
            };
            let source = SendData::ScatterGather(&self.source(length));
            self.pair.execute(bench, operation, source, &what)?;
            let completion = self.received(bench, &what, length)?;
            check_immediate(&completion, with_immediate.then_some(IMMEDIATE), &what)?;
            self.check_data(&what, message, TARGET, length)?;
        }
        Ok(LENGTHS.len())
    }

    fn check_writes(&self, bench: &Bench) -> Result<usize, Failure> {
        for (message, length) in LENGTHS.into_iter().enumerate() {
            let what = format!("{} RDMA WRITE of {length} bytes", self.service);
            let with_immediate = message % 2 == 1;
            self.prepare(message, length);
            let remote = self.memory.remote(TARGET);
            let operation = if with_immediate {
                self.post_receive(TARGET, 1)?;
                SendOperation::RdmaWriteImmediate(remote, IMMEDIATE)
            } else {
                SendOperation::RdmaWrite(remote)
            };
            let source = SendData::ScatterGather(&self.source(length));
            self.pair.execute(bench, operation, source, &what)?;
            if with_immediate {
                let completion = self.received(bench, &what, length)?;
                check_immediate(&completion, Some(IMMEDIATE), &what)?;
            } else {
                self.wait_for_data(bench, message, length);
            }
            self.check_data(&what, message, TARGET, length)?;
        }
        Ok(LENGTHS.len())
    }

    /// Waits for the data, because a UC requester completes when its frames have left, not when
    /// they have arrived.
    fn wait_for_data(&self, bench: &Bench, message: usize, length: usize) {
        if self.service == "UC" {
            let has_come = || self.memory.check(TARGET, length, data(message)).is_ok();
            bench.wait(bench.timeouts.completion, has_come);
        }
    }

    fn check_reads(&self, bench: &Bench) -> Result<usize, Failure> {
        for (message, length) in LENGTHS.into_iter().enumerate() {
            let what = format!("{} RDMA READ of {length} bytes", self.service);
            self.prepare(message, length);
            let operation = SendOperation::RdmaRead(self.memory.remote(SOURCE));
            let target = SendData::ScatterGather(&[self.memory.segment(TARGET, length)]);
            self.pair.execute(bench, operation, target, &what)?;
            self.check_data(&what, message, TARGET, length)?;
        }
        Ok(LENGTHS.len())
    }

    /// Checks that several segments form one message.
    fn check_gather(&self, bench: &Bench) -> Result<(), Failure> {
        const LENGTHS: [usize; SEGMENTS as usize] = [1, 4097, 63, 128];
        let pieces = (self.pair.requester.capacity().max_send_sge as usize).min(LENGTHS.len());
        let length = LENGTHS[..pieces].iter().sum();
        self.prepare(77, length);
        let mut segments = Vec::new();
        let mut at = SOURCE;
        for piece in &LENGTHS[..pieces] {
            segments.push(self.memory.segment(at, *piece));
            at += piece;
        }
        let what = format!("RC RDMA WRITE gathered from {pieces} pieces");
        let write = SendOperation::RdmaWrite(self.memory.remote(TARGET));
        self.pair
            .execute(bench, write, SendData::ScatterGather(&segments), &what)?;
        self.check_data(&what, 77, TARGET, length)
    }

    fn check_atomics(&self, bench: &Bench) -> Result<usize, Failure> {
        const START: u64 = 0x0102_0304_0506_0708;
        const SWAP: u64 = 0xffff_ffff_ffff_fffe;
        let remote = self.memory.remote(TARGET);
        let swap = |compare| SendOperation::CompareSwap {
            remote,
            compare,
            swap: SWAP,
        };
        let add = |add| SendOperation::FetchAdd { remote, add };
        self.memory.guard(TARGET, 8);
        self.memory.store_word(TARGET, START);
        let steps = [
            ("compare and swap that is not equal", swap(1), START, START),
            ("compare and swap that is equal", swap(START), START, SWAP),
            ("fetch and add", add(5), SWAP, SWAP.wrapping_add(5)),
            (
                "fetch and add of nothing",
                add(0),
                SWAP.wrapping_add(5),
                SWAP.wrapping_add(5),
            ),
        ];
        for (name, operation, original, left) in steps {
            let what = format!("RC {name}");
            let result = SendData::ScatterGather(&[self.memory.segment(SOURCE, 8)]);
            self.pair.execute(bench, operation, result, &what)?;
            let seen = (self.memory.load_word(SOURCE), self.memory.load_word(TARGET));
            if seen != (original, left) {
                return Err(Failure::new(format!(
                    "{what}: returned {:#x} and left {:#x}, not {original:#x} and {left:#x}",
                    seen.0, seen.1
                ))
                .look_at("byte order of AtomicETH and AtomicAckETH: big-endian on the wire")
                .look_at(
                    "reading, changing and writing back by DMA, or a PCIe AtomicOp that the \
                          root port does not complete",
                ));
            }
        }
        Ok(steps.len())
    }

    /// Checks that a wrong key is refused, and that nothing is written.
    fn check_wrong_key(&self, bench: &Bench) -> Result<(), Failure> {
        let what = "RC RDMA WRITE with a wrong key";
        self.prepare(99, 64);
        let right = self.memory.remote(TARGET);
        // Another variant: the table index is right, the key is stale.
        let wrong = RemoteAddress {
            r_key: RKey(right.r_key.0 ^ 0x80),
            ..right
        };
        let source = SendData::ScatterGather(&self.source(64));
        self.pair
            .post(
                SendOperation::RdmaWrite(wrong),
                Destination::Connected,
                source,
                1,
            )
            .map_err(|error| refused(what, error))?;
        let completion = bench.completion(&self.pair.send_cq, what)?;
        if completion.status != CompletionStatus::RemoteAccessError {
            return Err(Failure::new(format!(
                "{what} completed with {:?}, not with RemoteAccessError",
                completion.status
            ))
            .look_at(
                "the responder: all 32 bits of the key are compared with those in the MPT \
                      entry; NAK syndrome 2 of the AETH",
            ));
        }
        let guarded = self.memory.copy(TARGET..TARGET + 64);
        let first = guarded[0];
        if guarded.iter().any(|&byte| byte != first)
            || self.memory.check(TARGET, 64, data(99)).is_ok()
        {
            return Err(
                Failure::new(format!("{what} was refused and has written all the same"))
                    .look_at("the check must come before the DMA write"),
            );
        }
        Ok(())
    }
}

fn check_immediate(
    completion: &WorkCompletion,
    immediate: Option<[u8; 4]>,
    what: &str,
) -> Result<(), Failure> {
    if completion.immediate != immediate {
        return Err(Failure::new(format!(
            "{what}: the completion has immediate data {:?}, not {immediate:?}",
            completion.immediate
        ))
        .look_at("the CQE: with_immediate, and the four bytes in the order of the wire"));
    }
    let is_right = matches!(
        completion.opcode,
        CompletionOpcode::Receive | CompletionOpcode::ReceiveRdmaWithImmediate
    );
    if !is_right {
        return Err(Failure::new(format!(
            "{what}: the receive completed as {:?}",
            completion.opcode
        ))
        .look_at("the opcode of the CQE"));
    }
    Ok(())
}

fn damaged(what: &str, damage: Damage) -> Failure {
    Failure::new(format!("{what}: {}", damage.text()))
        .look_at_all(damage.hints(SOURCE % 4096))
        .look_at(
            "if the stage dma has passed: where a message is cut into packets, and put \
                  together again (path MTU, PSN)",
        )
}

//! Stage `counters`: known traffic, and the resulting counts.

use ferroce_driver::{Destination, SendData, SendOperation, Service};
use ferroce_spec::counter::Counter;

use super::bench::{Bench, Counts};
use super::hint;
use super::outcome::{Failure, Outcome, Stop};
use super::pair::{Pair, path_mtu, refused};
use super::pattern::Memory;

/// Messages of each kind.
const MESSAGES: u64 = 16;
/// Packets of a long message, and the bytes of the last one.
const PACKETS: u64 = 3;
const LAST: u64 = 208;
/// Bytes of a SEND.
const SEND_LENGTH: u64 = 100;

// Headers of a RoCEv2 frame over IPv6 (IBTA vol 1, annex A17, and chapter 9).
const ETHERNET: u64 = 14;
const IPV6: u64 = 40;
const UDP: u64 = 8;
const BTH: u64 = 12;
const ICRC: u64 = 4;
const RETH: u64 = 16;
const AETH: u64 = 4;
const ATOMIC_ETH: u64 = 28;
const ATOMIC_ACK_ETH: u64 = 8;
/// Bytes of every frame.
const FRAME: u64 = ETHERNET + IPV6 + UDP + BTH + ICRC;

/// Counters that must not change in this traffic.
const QUIET: [Counter; 23] = [
    Counter::tx_no_route,
    Counter::rx_malformed,
    Counter::rx_icrc_errors,
    Counter::rx_no_qp,
    Counter::rx_wrong_path,
    Counter::doorbell_errors,
    Counter::wqe_errors,
    Counter::cq_overruns,
    Counter::eqes,
    Counter::interrupts,
    Counter::commands,
    Counter::command_errors,
    Counter::dma_errors,
    Counter::packets_retransmitted,
    Counter::local_ack_timeouts,
    Counter::rnr_naks_sent,
    Counter::sequence_naks_sent,
    Counter::other_naks_sent,
    Counter::duplicate_requests,
    Counter::rx_q_key_violations,
    Counter::rx_no_receive,
    Counter::rx_out_of_sequence,
    Counter::protection_errors,
];

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let opened = bench.opened()?;
    let limits = opened.device.capabilities();
    if !limits.reliable_connected {
        return Err(Stop::NotApplicable("the device has no RC".to_owned()));
    }
    let atomics = if limits.atomics { MESSAGES } else { 0 };
    let mtu = u64::from(path_mtu(opened).bytes());
    let long = (PACKETS - 1) * mtu + LAST;
    let pair = Pair::new(bench, Service::ReliableConnected)?;
    let memory = Memory::open(&opened.pd, 2 * long as usize)
        .map_err(|error| hint::of_driver("no memory region", &error, &*bench.bus))?;
    let before = bench.counters();
    let traffic = Traffic {
        bench,
        pair: &pair,
        memory: &memory,
        long: long as usize,
    };
    traffic.run(atomics)?;
    let expected = Expected { long, atomics };
    let after = expected.wait(bench, &before);
    expected.check(&before, &after)?;
    for (name, counter) in [
        ("tx_frames", Counter::tx_frames),
        ("tx_bytes", Counter::tx_bytes),
        ("acks", Counter::acks_sent),
        ("cqes", Counter::cqes),
        ("doorbells", Counter::doorbells),
        ("dma_reads", Counter::dma_reads),
        ("dma_writes", Counter::dma_writes),
    ] {
        bench.figure(name, after.since(&before, counter));
    }
    Ok(())
}

struct Traffic<'a> {
    bench: &'a Bench,
    pair: &'a Pair,
    memory: &'a Memory,
    long: usize,
}

impl Traffic<'_> {
    /// Sends one message at a time, so that each doorbell is separate.
    fn run(&self, atomics: u64) -> Result<(), Failure> {
        let remote = self.memory.remote(self.long.next_multiple_of(8));
        for _ in 0..MESSAGES {
            self.execute(SendOperation::RdmaWrite(remote), self.long, "RDMA WRITE")?;
            self.execute(SendOperation::RdmaRead(remote), self.long, "RDMA READ")?;
            self.send()?;
        }
        for _ in 0..atomics {
            self.execute(
                SendOperation::FetchAdd { remote, add: 1 },
                8,
                "fetch and add",
            )?;
        }
        Ok(())
    }

    fn execute(&self, operation: SendOperation, length: usize, what: &str) -> Result<(), Failure> {
        let data = SendData::ScatterGather(&[self.memory.segment(0, length)]);
        self.pair
            .post(operation, Destination::Connected, data, 1)
            .map_err(|error| refused(what, error))?;
        self.bench.success(&self.pair.send_cq, what).map(|_| ())
    }

    fn send(&self) -> Result<(), Failure> {
        let length = SEND_LENGTH as usize;
        if let Some(queue) = self.pair.responder.receive_queue() {
            let target = [self.memory.segment(self.long, length)];
            queue
                .post(2, &target)
                .map_err(|error| refused("a receive", error))?;
        }
        self.execute(SendOperation::Send, length, "SEND")?;
        self.bench
            .success(&self.pair.receive_cq, "SEND, receive")
            .map(|_| ())
    }
}

/// The expected counts of the traffic.
struct Expected {
    long: u64,
    atomics: u64,
}

impl Expected {
    /// Returns frames and bytes without ACKs.
    fn frames(&self) -> (u64, u64) {
        let write = (PACKETS, PACKETS * FRAME + RETH + self.long);
        // A request, and responses whose first and last packets carry an AETH.
        let read = (
            1 + PACKETS,
            FRAME + RETH + PACKETS * FRAME + 2 * AETH + self.long,
        );
        let send = (1, FRAME + SEND_LENGTH);
        let atomic = (2, 2 * FRAME + ATOMIC_ETH + AETH + ATOMIC_ACK_ETH);
        let kinds =
            [write, read, send].map(|(frames, bytes)| (MESSAGES * frames, MESSAGES * bytes));
        let of_atomics = (self.atomics * atomic.0, self.atomics * atomic.1);
        let sum = |total: (u64, u64), kind: (u64, u64)| (total.0 + kind.0, total.1 + kind.1);
        kinds.into_iter().fold(of_atomics, sum)
    }

    /// Returns counters and values that follow from the number of ACKs.
    fn exact(&self, acks: u64) -> [(Counter, u64); 8] {
        let (frames, bytes) = self.frames();
        let requests = 3 * MESSAGES + self.atomics;
        [
            (Counter::tx_frames, frames + acks),
            (Counter::tx_bytes, bytes + acks * (FRAME + AETH)),
            (Counter::cqes, requests + MESSAGES),
            (Counter::doorbells, requests + MESSAGES),
            (Counter::receive_wqes, MESSAGES),
            (Counter::atomics, self.atomics),
            (Counter::rnr_naks_received, 0),
            (Counter::sequence_naks_received, 0),
        ]
    }

    /// Returns the counters when they match, or after the time limit.
    fn wait(&self, bench: &Bench, before: &Counts) -> Counts {
        bench.wait(bench.timeouts.counter, || {
            self.check(before, &bench.counters()).is_ok()
        });
        bench.counters()
    }

    fn check(&self, before: &Counts, after: &Counts) -> Result<(), Failure> {
        let moved = |counter| after.since(before, counter);
        // An error counter says more than a count that results from the error.
        for counter in QUIET {
            if moved(counter) != 0 {
                return Err(wrong(counter, moved(counter), "0"));
            }
        }
        let acks = moved(Counter::acks_sent);
        // Each WRITE and SEND is acknowledged, alone or together with other packets.
        let (least, most) = (2 * MESSAGES, (PACKETS + 1) * MESSAGES);
        if !(least..=most).contains(&acks) {
            return Err(wrong(
                Counter::acks_sent,
                acks,
                &format!("{least} to {most}"),
            ));
        }
        for (counter, expected) in self.exact(acks) {
            if moved(counter) != expected {
                return Err(wrong(counter, moved(counter), &expected.to_string()));
            }
        }
        let (sent, received) = (moved(Counter::tx_frames), moved(Counter::rx_frames));
        if received < sent || moved(Counter::rx_bytes) < moved(Counter::tx_bytes) {
            return Err(wrong(
                Counter::rx_frames,
                received,
                &format!("at least {sent}"),
            ));
        }
        self.check_dma(before, after)
    }

    fn check_dma(&self, before: &Counts, after: &Counts) -> Result<(), Failure> {
        let payload = MESSAGES * (2 * self.long + SEND_LENGTH);
        for (count, bytes) in [
            (Counter::dma_reads, Counter::dma_read_bytes),
            (Counter::dma_writes, Counter::dma_write_bytes),
        ] {
            if after.since(before, bytes) < payload {
                let least = format!("at least the payload, {payload}");
                return Err(wrong(bytes, after.since(before, bytes), &least));
            }
            if after.since(before, count) == 0 {
                return Err(wrong(count, 0, "more"));
            }
        }
        Ok(())
    }
}

fn wrong(counter: Counter, moved: u64, expected: &str) -> Failure {
    let failure = Failure::new(format!(
        "{counter:?} moved by {moved}, not by {expected}, for {MESSAGES} messages of each kind"
    ));
    match counter {
        Counter::packets_retransmitted
        | Counter::local_ack_timeouts
        | Counter::duplicate_requests
        | Counter::sequence_naks_sent => failure.look_at(
            "packets were sent twice: lost frames in the loopback path (FIFO overflow?), or an ACK \
             that comes late",
        ),
        Counter::tx_bytes | Counter::rx_frames => failure
            .look_at("which bytes are counted: from the Ethernet header to the ICRC, without FCS")
            .look_at("frames that come back twice, or with padding"),
        Counter::rx_icrc_errors => {
            failure.look_at("the ICRC of frames of some lengths: padding, last bytes of a flit")
        }
        _ => failure.look_at("where the block counts, and which counter register it drives"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_bytes_of_the_traffic() {
        // 208 bytes after two packets of 1024; as RoCEv2 over IPv6 each frame has 78 bytes.
        let expected = Expected {
            long: 2256,
            atomics: MESSAGES,
        };
        let (frames, bytes) = expected.frames();
        assert_eq!(frames, MESSAGES * (3 + 4 + 1 + 2));
        let each = (3 * 78 + 16 + 2256) + (94 + 3 * 78 + 8 + 2256) + 178 + (106 + 90);
        assert_eq!(bytes, MESSAGES * each);
    }
}

//! Regions that are removed while their bytes are in flight: deregistered, invalidated, rebound. A
//! request whose memory was removed completes with the status that names the side of the memory;
//! earlier requests succeed, later ones are flushed, and neither side needs a timeout to detect it.

use crate::pair::program::sent;
use crate::pair::{BASE, Pair, R_KEY, Receive, Setup, Vanishing, destination};
use ferroce_transport::{
    Completion, CompletionStatus, Config, Event, PathMtu, QpState, Remote, SendOperation,
    SendRequest, Service,
};
use ferroce_units::Duration;
use ferroce_wire::{Immediate, RKey};

/// Bytes of a node's memory.
const MEMORY: usize = 1 << 16;
/// Offset of the local buffers of requests, and of the destination of messages at the peer.
const LOCAL: usize = 0;
const REMOTE: usize = MEMORY / 2;
/// Bytes of a message: some packets, the last one not full.
const LENGTH: u32 = 5 * 256 + 17;
/// Distance between messages in bytes.
const SPACE: usize = 2048;
/// Requests of a run.
const REQUESTS: u32 = 6;
/// Packets taken from a queue pair before the first of them is gathered: one, and as a NIC does.
const BATCHES: [usize; 3] = [1, 3, 64];
/// More accesses to memory than any run has.
const MANY_ACCESSES: u32 = 1000;

/// Returns the place of the bytes of request `id`, in the half of the memory that begins at
/// `start`.
fn place(start: usize, id: u32) -> usize {
    start + id as usize * SPACE
}

fn remote(id: u32) -> Remote {
    Remote {
        virtual_address: BASE + place(REMOTE, id) as u64,
        r_key: R_KEY,
    }
}

/// The side whose memory is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The requester's memory.
    Local,
    /// The responder's memory: its regions for peers, or its receive buffers.
    Remote,
}

/// The removed memory: of all requests, or of one request, while the others stay readable.
#[derive(Debug)]
struct Gone {
    side: Side,
    only: Option<u32>,
}

impl Side {
    const fn node(self) -> usize {
        match self {
            Side::Local => 0,
            Side::Remote => 1,
        }
    }
}

impl Gone {
    fn range(&self) -> std::ops::Range<usize> {
        let start = match self.side {
            Side::Local => LOCAL,
            Side::Remote => REMOTE,
        };
        match self.only {
            Some(id) => place(start, id)..place(start, id + 1),
            None => start..start + MEMORY / 2,
        }
    }
}

/// An operation, and the reports if the responder's memory is removed: status at the requester,
/// status of the receive, event at the responder.
struct Case {
    name: &'static str,
    operation: fn(u32) -> SendOperation,
    length: u32,
    remote_status: CompletionStatus,
    receive_status: Option<CompletionStatus>,
    event: Option<Event>,
}

const CASES: [Case; 6] = [
    Case {
        name: "READ",
        operation: |id| SendOperation::RdmaRead { remote: remote(id) },
        length: LENGTH,
        remote_status: CompletionStatus::RemoteAccess,
        receive_status: None,
        event: Some(Event::AccessError),
    },
    Case {
        name: "WRITE",
        operation: |id| SendOperation::RdmaWrite { remote: remote(id) },
        length: LENGTH,
        remote_status: CompletionStatus::RemoteAccess,
        receive_status: None,
        event: Some(Event::AccessError),
    },
    Case {
        name: "WRITE with immediate",
        operation: |id| SendOperation::RdmaWriteImmediate {
            remote: remote(id),
            immediate: Immediate([1, 2, 3, 4]),
        },
        length: 200,
        remote_status: CompletionStatus::RemoteAccess,
        receive_status: Some(CompletionStatus::LocalAccess),
        event: None,
    },
    Case {
        name: "fetch and add",
        operation: |id| SendOperation::FetchAdd {
            remote: remote(id),
            add: 1,
        },
        length: 8,
        remote_status: CompletionStatus::RemoteAccess,
        receive_status: None,
        event: Some(Event::AccessError),
    },
    Case {
        name: "SEND",
        operation: |_| SendOperation::Send,
        length: LENGTH,
        remote_status: CompletionStatus::RemoteOperation,
        receive_status: Some(CompletionStatus::LocalProtection),
        event: None,
    },
    Case {
        name: "SEND with invalidate",
        operation: |id| SendOperation::SendInvalidate(RKey(id)),
        length: LENGTH,
        remote_status: CompletionStatus::RemoteOperation,
        receive_status: Some(CompletionStatus::LocalProtection),
        event: None,
    },
];

/// The services whose requests are acknowledged.
const SERVICES: [[Service; 2]; 2] = [
    [Service::ReliableConnected; 2],
    [Service::XrcInitiator, Service::XrcTarget],
];

struct Run {
    pair: Pair,
    requests: Vec<SendRequest>,
}

/// Runs a case in which the memory is removed before the access to it with number `at`.
fn run(case: &Case, services: [Service; 2], gone: &Gone, batch: usize, at: u32) -> Run {
    let setup = Setup {
        services,
        mtu: PathMtu::Mtu256,
        config: Config {
            ack_coalesce: 4,
            ack_delay: Duration::from_us(1),
            ..Config::default()
        },
        ..Setup::default()
    };
    let mut pair = Pair::plain(&setup);
    pair.batch = batch;
    pair.nodes[gone.side.node()].vanishing = Some(Vanishing {
        range: gone.range(),
        left: at,
        missed: false,
    });
    let requests: Vec<SendRequest> = (0..REQUESTS)
        .map(|id| SendRequest {
            id,
            operation: (case.operation)(id),
            length: case.length,
            signaled: true,
            solicited: false,
            fence: false,
            destination: destination(&setup, 0),
        })
        .collect();
    for request in &requests {
        pair.nodes[1].post_receive(Receive {
            id: request.id,
            address: place(REMOTE, request.id),
            capacity: LENGTH,
        });
        let address = place(LOCAL, request.id);
        pair.nodes[0].post(pair.now, address, *request);
    }
    pair.run();
    Run { pair, requests }
}

/// Asserts that earlier requests succeeded, one failed with `status`, and later ones were flushed.
fn assert_one_failed(run: &Run, status: CompletionStatus, what: &str) {
    let seen = &run.pair.nodes[0].completions;
    let culprit = seen
        .iter()
        .position(|completion| completion.status() != CompletionStatus::Success);
    let culprit = culprit.unwrap_or_else(|| panic!("{what}: nothing failed: {seen:?}"));
    let expected: Vec<Completion> = (0..)
        .zip(&run.requests)
        .map(|(number, request)| {
            let status = match number {
                _ if number < culprit => CompletionStatus::Success,
                _ if number == culprit => status,
                _ => CompletionStatus::WrFlush,
            };
            sent(request, status)
        })
        .collect();
    assert_eq!(*seen, expected, "{what}");
    let timeouts: u32 = run.pair.nodes[0]
        .statistics
        .iter()
        .map(|statistics| statistics.local_ack_timeouts)
        .sum();
    assert_eq!(timeouts, 0, "{what}: the requester was notified");
}

/// Checks what the responder reports when its memory is removed.
fn assert_responder_reports(run: &Run, case: &Case, what: &str) {
    let responder = &run.pair.nodes[1];
    assert_eq!(responder.qp.state(), QpState::Err, "{what}");
    let failed: Vec<CompletionStatus> = responder
        .completions
        .iter()
        .map(Completion::status)
        .filter(|status| *status != CompletionStatus::Success)
        .collect();
    assert_eq!(failed, Vec::from_iter(case.receive_status), "{what}");
    let reported = responder
        .events
        .iter()
        .copied()
        .filter(|event| *event != Event::LastWqeReached);
    assert_eq!(
        Vec::from_iter(reported),
        Vec::from_iter(case.event),
        "{what}"
    );
    let ends = responder.events.iter();
    let ends = ends
        .filter(|event| **event == Event::LastWqeReached)
        .count();
    assert_eq!(ends, 1, "{what}: a queue pair ends once");
}

/// Runs a case once for each access to its memory, which is removed before that access.
fn at_every_access(
    side: Side,
    services: &[[Service; 2]],
    case: &Case,
    check: fn(&Run, &Case, &str),
) {
    for services in services.iter().copied() {
        for batch in BATCHES {
            for only in [None, Some(0), Some(REQUESTS / 2)] {
                let gone = Gone { side, only };
                let mut ends = false;
                for at in 0..MANY_ACCESSES {
                    let run = run(case, services, &gone, batch, at);
                    let what = format!(
                        "{} of {:?}, {gone:?}, batches of {batch}, access {at}",
                        case.name, services[0]
                    );
                    if !run.pair.nodes[side.node()].has_missed_memory() {
                        assert!(at > 0, "{what}: the run had no accesses");
                        ends = true;
                        break;
                    }
                    check(&run, case, &what);
                }
                assert!(ends, "{}: more accesses than expected", case.name);
            }
        }
    }
}

#[test]
fn memory_of_the_responder_may_go_at_every_step() {
    for case in &CASES {
        at_every_access(Side::Remote, &SERVICES, case, |run, case, what| {
            assert_one_failed(run, case.remote_status, what);
            assert_responder_reports(run, case, what);
        });
    }
}

#[test]
fn memory_of_the_requester_may_go_at_every_step() {
    for case in &CASES {
        at_every_access(Side::Local, &SERVICES, case, |run, _, what| {
            assert_one_failed(run, CompletionStatus::LocalProtection, what);
            assert_eq!(run.pair.nodes[0].qp.state(), QpState::Err, "{what}");
        });
    }
}

/// A send queue without acknowledges ends alone: the receiving half of the queue pair continues.
#[test]
fn memory_of_an_unreliable_sender_may_go_at_every_step() {
    let case = Case {
        name: "unreliable SEND",
        operation: |_| SendOperation::Send,
        length: 200,
        remote_status: CompletionStatus::Success,
        receive_status: None,
        event: None,
    };
    let services = [
        [Service::UnreliableConnected; 2],
        [Service::UnreliableDatagram; 2],
    ];
    at_every_access(Side::Local, &services, &case, |run, _, what| {
        assert_one_failed(run, CompletionStatus::LocalProtection, what);
        assert_eq!(run.pair.nodes[0].qp.state(), QpState::Sqe, "{what}");
        let failed = |completion: &&Completion| completion.status() != CompletionStatus::Success;
        let received = &run.pair.nodes[1].completions;
        assert_eq!(received.iter().find(failed), None, "{what}");
    });
}

//! Management datagrams between the GSIs of functions: a host has several processes with the same
//! addresses, and each of them has QP 1.
//!
//! The other process runs this test binary again, with a variable that selects its role.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Node, Rendezvous, TIMEOUT};
use ferroce_driver::{
    AddressVector, CompletionOpcode, CompletionStatus, Qpn, QueuePair, WorkCompletion,
};
use ferroce_embed::capture::reader::for_each_frame;
use ferroce_embed::fabric::registry::{Registry, places};
use ferroce_embed::function::{HostIdentity, Options};
use ferroce_platform::host;
use ferroce_test_support::{Deadline, Process, eventually, stays};
use ferroce_test_verbs as verbs;
use ferroce_wire::{Extension, Frame, Gid, QKey};

/// Bytes of a MAD, and of the network header before it in a receive buffer.
const MAD: usize = 256;
const GRH: usize = 40;
/// Requests and receives of a GSI.
const DEPTH: u32 = 16;
/// Time after which the other process exits by itself.
const LIFE: Duration = Duration::from_secs(60);
/// Selects the other process, with the rendezvous directory.
const VARIABLE: &str = "FERROCE_TEST_GSI";

/// A process with its GSI open.
struct Manager {
    gsi: Arc<QueuePair>,
    node: Node,
}

impl Manager {
    fn new(options: &Options) -> Self {
        let node = Node::new(options);
        let gsi = verbs::new_gsi(&node.pd, &node.cq, DEPTH);
        assert_eq!(gsi.number(), Qpn::GSI);
        for wr_id in 100..104 {
            verbs::post_receive(&gsi, wr_id, node.segment(GRH + MAD));
        }
        Self { gsi, node }
    }

    fn send(&self, to: &Node) {
        let segment = verbs::segment(&self.node.region, 4096, MAD);
        verbs::send_to_gsi(&self.gsi, 1, &path(&self.node, &to.host), segment);
    }

    fn sent(&self) {
        let completion = wait(&self.node);
        assert_eq!(completion.opcode, CompletionOpcode::Send);
    }

    fn received(&self) {
        let completion = wait(&self.node);
        assert_eq!(completion.opcode, CompletionOpcode::Receive);
        assert_eq!(completion.qpn, Qpn::GSI);
        assert_eq!(completion.source_qpn, Qpn::GSI);
        assert_eq!(completion.byte_length as usize, GRH + MAD);
    }
}

fn path(from: &Node, host: &HostIdentity) -> AddressVector {
    let function = from.function.as_ref().expect("in process");
    let gid = host.gids[1].gid;
    verbs::path_to(gid, function.resolve_mac(gid).expect("on the fabric"))
}

/// Polls until a completion arrives.
fn wait(node: &Node) -> WorkCompletion {
    let deadline = Deadline::new("a completion", TIMEOUT);
    let mut found = None;
    while found.is_none() {
        node.cq.poll(1, |completion| found = Some(completion));
        deadline.check();
    }
    let completion = found.expect("just checked");
    assert_eq!(completion.status, CompletionStatus::Success);
    completion
}

fn gets_nothing(node: &Node) {
    assert!(stays(Duration::from_millis(5), || {
        node.cq.poll(1, |_| panic!("not for this one")) == 0
    }));
}

#[test]
fn every_process_of_a_host_with_an_open_gsi_gets_a_mad() {
    let rendezvous = Rendezvous::new("gsi");
    let [one, two] = [(); 2].map(|()| Manager::new(&rendezvous.options("a")));
    let without = Node::new(&rendezvous.options("a"));
    let far = Manager::new(&rendezvous.options("b"));
    far.send(&one.node);
    far.sent();
    one.received();
    two.received();
    gets_nothing(&without);
    gets_nothing(&far.node);

    // One function of the host sends to the host: it is among the receivers itself.
    one.send(&two.node);
    let mut opcodes = [wait(&one.node), wait(&one.node)].map(|done| done.opcode as u8);
    opcodes.sort_unstable();
    let mut expected = [CompletionOpcode::Send, CompletionOpcode::Receive].map(|code| code as u8);
    expected.sort_unstable();
    assert_eq!(opcodes, expected);
    two.received();
    gets_nothing(&far.node);

    // The GSI is closed and opened again.
    two.gsi.destroy().expect("it is free");
    far.send(&one.node);
    far.sent();
    one.received();
    gets_nothing(&two.node);
    let again = verbs::new_gsi(&two.node.pd, &two.node.cq, DEPTH);
    verbs::post_receive(&again, 7, two.node.segment(GRH + MAD));
    far.send(&one.node);
    assert_eq!(wait(&two.node).wr_id, 7);
}

/// Not a test: the other process.
#[test]
fn other_process() {
    let Some(directory) = std::env::var_os(VARIABLE) else {
        return;
    };
    let _manager = Manager::new(&options(Path::new(&directory), "a"));
    println!("here");
    // Runs until it is killed, or for this time in case the test that started it was killed.
    let end = Instant::now() + LIFE;
    while let Some(rest) = end.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(rest);
    }
}

fn options(directory: &Path, host: &str) -> Options {
    Options {
        directory: directory.to_owned(),
        host: host::named(host, None).expect("a name"),
        icrc: false,
        capture: None,
        record: None,
        port: None,
        faults: None,
        is_patient: false,
        relaxed_order: None,
        is_served: false,
    }
}

/// Goal: a process that died without closing its GSI receives nothing and blocks no sender. Method:
/// another process of the host is killed; then more MADs are sent than fit into a ring.
#[test]
fn a_dead_process_is_skipped() {
    const MADS: usize = 300;
    let rendezvous = Rendezvous::new("gsi-dead");
    let registry = Registry::open(rendezvous.0.path()).expect("usable");
    let program = std::env::current_exe().expect("a test binary");
    let mut command = Command::new(program);
    command.args(["--exact", "gsi::other_process", "--nocapture"]);
    command.env(VARIABLE, rendezvous.0.path());
    let mut other = Process::start(command, &rendezvous.0, "other", LIFE);
    other.expect_output("here");

    let here = Manager::new(&rendezvous.options("a"));
    let far = Manager::new(&rendezvous.options("b"));
    let address = Gid(here.node.host.gids[1].gid);
    let members = || {
        registry
            .gsi_members(address)
            .map_or(0, |set| places(set).count())
    };
    assert_eq!(members(), 2);
    far.send(&here.node);
    far.sent();
    here.received();
    other.kill();
    drop(other);
    eventually("its death is noticed", TIMEOUT, || members() == 1);
    for _ in 0..MADS {
        far.send(&here.node);
        far.sent();
        here.received();
        verbs::post_receive(&here.gsi, 100, here.node.segment(GRH + MAD));
    }
    // The same when no process is left.
    drop(here);
    assert_eq!(registry.gsi_members(address), None);
}

/// Goal: a capture of the GSI shows the same as Linux sends: Q_Key, source QP, AckReq, ICRC.
#[test]
fn mads_are_captured_as_on_a_wire() {
    let rendezvous = Rendezvous::new("gsi-capture");
    let path = rendezvous.0.join("mads.pcapng");
    let captured = Options {
        capture: Some(path.clone()),
        ..rendezvous.options("a")
    };
    let one = Manager::new(&captured);
    let other = Manager::new(&rendezvous.options("b"));
    one.send(&other.node);
    one.sent();
    other.received();
    other.send(&one.node);
    one.received();
    drop(one);
    let mut mads = 0;
    let read = for_each_frame(File::open(&path).expect("written"), &mut |captured| {
        let frame = Frame::parse(captured.bytes).expect("RoCEv2");
        assert!(frame.icrc_is_valid());
        assert!(frame.headers.bth.ack_request);
        let Extension::Deth(deth) = frame.headers.extension else {
            panic!("a datagram");
        };
        assert_eq!(
            (deth.q_key, deth.source_qp),
            (QKey::GSI, ferroce_wire::Qpn::GSI)
        );
        assert_eq!(frame.headers.bth.dest_qp, ferroce_wire::Qpn::GSI);
        assert_eq!(frame.payload_length(), MAD);
        mads += 1;
        ControlFlow::Continue(())
    });
    read.expect("a capture");
    assert_eq!(mads, 2);
}

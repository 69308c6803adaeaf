//! Datagrams to multicast groups, between functions of one process.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Node, Rendezvous, TIMEOUT};
use ferroce_driver::{
    AddressVector, CompletionStatus, Destination, ModifyQp, QueuePair, QueuePairConfig,
    ReceiveSource, SendData, SendOperation, SendRequest, Service, UdInit, UdRtr, UdRts,
};

const Q_KEY: u32 = 0x1234;
const LENGTH: usize = 32;
/// Bytes of the network header in a receive buffer.
const GRH: usize = 40;
const GROUP: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3];
const GROUP_MAC: [u8; 6] = [0x01, 0, 0x5e, 1, 2, 3];

/// Creates a UD QP of a node, ready to send.
fn datagrams(node: &Node) -> Arc<QueuePair> {
    let config = QueuePairConfig {
        service: Service::UnreliableDatagram,
        send_cq: Arc::clone(&node.cq),
        receive: ReceiveSource::Own {
            cq: Arc::clone(&node.cq),
            max_wr: 64,
            max_sge: 1,
        },
        max_send_wr: 64,
        max_send_sge: 1,
        max_inline_data: 0,
        signal_all: false,
    };
    let qp = QueuePair::create(&node.pd, &config).expect("small QP");
    let transitions = [
        ModifyQp::ToInitUd(UdInit {
            p_key_index: 0,
            port: 1,
            q_key: Q_KEY,
        }),
        ModifyQp::ToRtrUd(UdRtr::default()),
        ModifyQp::ToRtsUd(UdRts {
            sq_psn: 0,
            q_key: None,
        }),
    ];
    for transition in &transitions {
        qp.modify(transition).expect("a legal transition");
    }
    qp
}

fn receive(node: &Node, qp: &QueuePair, wr_id: u64) {
    let segments = [node.segment(GRH + LENGTH)];
    let queue = qp.receive_queue().expect("UD");
    queue.post(wr_id, &segments).expect("there is room");
}

fn send(node: &Node, qp: &QueuePair) {
    let segments = [node.segment(LENGTH)];
    let path = AddressVector {
        dest_gid: GROUP,
        dest_mac: GROUP_MAC,
        source_gid_index: 1,
        hop_limit: 1,
        udp_source_port: 0xc001,
        ..AddressVector::default()
    };
    let request = SendRequest {
        wr_id: 1,
        operation: SendOperation::Send,
        destination: Destination::Datagram {
            path: &path,
            qpn: ferroce_driver::Qpn(0xff_ffff),
            q_key: Q_KEY,
        },
        signaled: true,
        solicited: false,
        fence: false,
        data: SendData::ScatterGather(&segments),
    };
    let mut batch = qp.send_queue().expect("UD").lock();
    batch.post(&request).expect("there is room");
    batch.ring();
}

/// Takes completions until `count` have come. Returns their `wr_id`s, sorted.
fn completions(node: &Node, count: usize) -> Vec<u64> {
    let deadline = Instant::now() + TIMEOUT;
    let mut found = Vec::new();
    while found.len() < count {
        node.cq.poll(16, |completion| {
            assert_eq!(completion.status, CompletionStatus::Success);
            found.push(completion.wr_id);
        });
        assert!(Instant::now() < deadline, "{found:?} of {count}");
    }
    found.sort_unstable();
    found
}

#[test]
fn a_datagram_to_a_group_reaches_its_members_on_every_host() {
    let rendezvous = Rendezvous::new("multicast");
    let nodes = ["a", "b", "c"].map(|host| Node::new(&rendezvous.options(host)));
    let senders: Vec<_> = nodes.iter().map(datagrams).collect();
    // The node that sends has a second member of the group.
    let second = datagrams(&nodes[0]);
    for (node, qp) in nodes.iter().zip(&senders) {
        receive(node, qp, 7);
    }
    receive(&nodes[0], &second, 8);
    for qp in [&senders[0], &second, &senders[1]] {
        qp.attach_multicast(GROUP).expect("there is room");
    }
    send(&nodes[0], &senders[0]);
    assert_eq!(completions(&nodes[0], 2), [1, 8], "sent, and the second");
    assert_eq!(completions(&nodes[1], 1), [7]);

    // A QP that is not attached may send, and receives nothing.
    receive(&nodes[0], &second, 9);
    receive(&nodes[1], &senders[1], 10);
    send(&nodes[2], &senders[2]);
    assert_eq!(completions(&nodes[2], 1), [1]);
    assert_eq!(completions(&nodes[0], 2), [7, 9]);
    assert_eq!(completions(&nodes[1], 1), [10]);

    // Nor does a QP that has left.
    receive(&nodes[1], &senders[1], 11);
    senders[1].detach_multicast(GROUP).expect("it was attached");
    receive(&nodes[0], &second, 12);
    send(&nodes[2], &senders[2]);
    assert_eq!(completions(&nodes[0], 1), [12]);
    std::thread::sleep(Duration::from_millis(5));
    nodes[1].cq.poll(1, |_| panic!("it has left"));
}

//! Datagrams to multicast groups, between functions of one process.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Node, Rendezvous, TIMEOUT};
use ferroce_driver::{
    AddressVector, CompletionStatus, Destination, ModifyQp, QueuePair, QueuePairConfig, SendData,
    SendOperation, SendRequest, Service, UdInit, UdRtr, UdRts,
};
use ferroce_test_support::{Deadline, stays};
use ferroce_test_verbs as verbs;

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
        ..verbs::qp_config(&node.cq, 64)
    };
    let qp = verbs::new_qp(&node.pd, &config);
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
    verbs::modify(&qp, transitions);
    qp
}

fn receive(node: &Node, qp: &QueuePair, wr_id: u64) {
    verbs::post_receive(qp, wr_id, node.segment(GRH + LENGTH));
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
        destination: Destination::Datagram {
            path: &path,
            qpn: ferroce_driver::Qpn(0xff_ffff),
            q_key: Q_KEY,
        },
        ..verbs::request(1, SendOperation::Send, SendData::ScatterGather(&segments))
    };
    let mut batch = qp.send_queue().expect("UD").lock();
    batch.post(&request).expect("there is room");
    batch.ring();
}

/// Polls until `count` completions have arrived. Returns their `wr_id`s, sorted.
fn completions(node: &Node, count: usize) -> Vec<u64> {
    let deadline = Deadline::new(&format!("{count} completions"), TIMEOUT);
    let mut found = Vec::new();
    while found.len() < count {
        node.cq.poll(16, |completion| {
            assert_eq!(completion.status, CompletionStatus::Success);
            found.push(completion.wr_id);
        });
        deadline.check();
    }
    found.sort_unstable();
    found
}

#[test]
fn a_datagram_to_a_group_reaches_its_members_on_every_host() {
    let rendezvous = Rendezvous::new("multicast");
    let nodes = ["a", "b", "c"].map(|host| Node::new(&rendezvous.options(host)));
    let senders: Vec<_> = nodes.iter().map(datagrams).collect();
    // The sending node has a second member of the group.
    let second = datagrams(&nodes[0]);
    for (node, qp) in nodes.iter().zip(&senders) {
        receive(node, qp, 7);
    }
    receive(&nodes[0], &second, 8);
    for qp in [&senders[0], &second, &senders[1]] {
        qp.attach_multicast(GROUP).expect("there is room");
    }
    send(&nodes[0], &senders[0]);
    let at_sender = completions(&nodes[0], 3);
    assert_eq!(at_sender, [1, 7, 8], "sent, its own copy, and the second");
    assert_eq!(completions(&nodes[1], 1), [7]);

    // A QP that is not attached may send, but receives nothing.
    receive(&nodes[0], &second, 9);
    receive(&nodes[0], &senders[0], 13);
    receive(&nodes[1], &senders[1], 10);
    send(&nodes[2], &senders[2]);
    assert_eq!(completions(&nodes[2], 1), [1]);
    assert_eq!(completions(&nodes[0], 2), [9, 13]);
    assert_eq!(completions(&nodes[1], 1), [10]);

    // Neither does a QP that has detached.
    receive(&nodes[1], &senders[1], 11);
    senders[1].detach_multicast(GROUP).expect("it was attached");
    receive(&nodes[0], &second, 12);
    send(&nodes[2], &senders[2]);
    assert_eq!(completions(&nodes[0], 1), [12]);
    assert!(stays(Duration::from_millis(5), || {
        nodes[1].cq.poll(1, |_| panic!("it has left")) == 0
    }));
}

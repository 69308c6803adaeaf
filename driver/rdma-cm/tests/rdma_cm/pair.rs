//! Two hosts: connections and datagrams, and their refusal, loss and destruction.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::net::abi::{self, Bytes, ConnParam, Event, u16_at, u32_at};
use crate::net::{
    NO_FAULTS, Net, PORT, PS_IB, PS_TCP, PS_UDP, RC, UC, XRC_RECV, XRC_SEND, begins_with, guid, v4,
    v6,
};
use ferroce_rdma_cm::{Errno, State};
use ferroce_units::Instant;
use ferroce_wire::Gid;

const ANY_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY_V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

// Offsets in `struct ib_uverbs_qp_attr`
const MASK: usize = 0;
const PATH_MTU: usize = 12;
const RQ_PSN: usize = 24;
const SQ_PSN: usize = 28;
const DEST_QPN: usize = 32;
const ACCESS: usize = 36;
const AH: usize = 40;
const MAX_RD_ATOMIC: usize = 130;
const MAX_DEST_RD_ATOMIC: usize = 131;
const TIMEOUT: usize = 134;
const RETRY_CNT: usize = 135;
const RNR_RETRY: usize = 136;

const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;

/// A connection of RC from side 0 to a wildcard listener of side 1, from CREATE_ID to its end.
fn whole_life_of_a_connection(to: IpAddr, any: IpAddr) {
    let mut net = Net::new();
    let listener = net.listener(0xb, PS_TCP, 0, SocketAddr::new(any, PORT));
    let to = SocketAddr::new(to, PORT);
    let active = net.create(0, 0xa, PS_TCP);
    net.resolved(active, to);
    net.connect(0, active, &ConnParam::new(0x11, b"hello"))
        .unwrap();
    net.settle();

    let request = net.event(1, 4);
    assert_eq!((request.uid, request.status), (0xb, 0));
    assert_eq!(request.qpn(), 0x11);
    assert_eq!(request.depths(), (4, 3), "mirrored");
    assert_eq!(request.private_data().1, 56);
    assert!(begins_with(request.private_data(), b"hello"));
    let passive = request.id;
    let source = u16_at(&net.query_route(0, active), 138);
    let route = net.query_route(1, passive);
    assert_eq!(route[0..8], guid(1).to_be_bytes());
    assert_eq!(route[136..164], abi::sockaddr(&to, 28));
    assert_eq!(u16_at(&route, 166), source, "the peer's port");
    assert_eq!((u32_at(&route, 192), route[196]), (1, 1));

    let rtr = net.qp_attr(1, passive, RTR).unwrap();
    let rts = net.qp_attr(1, passive, RTS).unwrap();
    net.accept_both(active, passive);
    let active_rtr = net.qp_attr(0, active, RTR).unwrap();
    let active_rts = net.qp_attr(0, active, RTS).unwrap();
    assert_eq!(u32_at(&rtr, DEST_QPN), 0x11);
    assert_eq!(u32_at(&active_rtr, DEST_QPN), 0x22);
    assert_eq!(u32_at(&rtr, RQ_PSN), u32_at(&active_rts, SQ_PSN));
    assert_eq!(u32_at(&rts, SQ_PSN), u32_at(&active_rtr, RQ_PSN));

    net.disconnect(0, active).unwrap();
    net.settle();
    for (side, id, uid) in [(0, active, 0xa), (1, passive, 0xc)] {
        let event = net.event(side, 10);
        assert_eq!((event.id, event.uid, event.status), (id, uid, 0));
        net.disconnect(side, id).unwrap();
        net.no_event(side);
    }
    net.finish();
    for (side, id) in [(0, active), (1, passive)] {
        assert_eq!(net.event(side, 15).id, id);
    }
    assert_eq!(net.destroy(0, active), Ok(5));
    assert_eq!(net.destroy(1, passive), Ok(3));
    assert_eq!(net.destroy(1, listener), Ok(1), "the request");
    net.close();
}

#[test]
fn a_connection_over_ipv4_lives_and_ends() {
    whole_life_of_a_connection(v4(1), ANY_V4);
}

#[test]
fn a_connection_over_ipv6_lives_and_ends() {
    whole_life_of_a_connection(v6(1), ANY_V6);
}

#[test]
fn every_ipv6_address_includes_ipv4() {
    whole_life_of_a_connection(v4(1), ANY_V6);
}

#[test]
fn attributes_are_those_of_the_kernel() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    net.listener(0xb, PS_TCP, 0, to);
    let active = net.create(0, 0xa, PS_TCP);
    assert_eq!(
        net.qp_attr(0, active, INIT),
        Err(Errno::EINVAL),
        "no device"
    );
    net.resolved(active, to);
    let init = net.qp_attr(0, active, INIT).unwrap();
    assert_eq!((u32_at(&init, MASK), u32_at(&init, ACCESS)), (0x39, 0));
    net.connect(0, active, &ConnParam::new(0x11, &[])).unwrap();
    let init = net.qp_attr(0, active, INIT).unwrap();
    let access = u32_at(&init, ACCESS);
    assert_eq!((u32_at(&init, MASK), access), (0x39, 0x30e), "with FLUSH");
    assert_eq!(init[133], 1, "port");
    assert_eq!(net.qp_attr(0, active, RTR), Err(Errno::EINVAL));
    net.settle();

    let passive = net.event(1, 4).id;
    let init = net.qp_attr(1, passive, INIT).unwrap();
    assert_eq!(u32_at(&init, ACCESS), 0xe, "without FLUSH");
    let rtr = net.qp_attr(1, passive, RTR).unwrap();
    assert_eq!(u32_at(&rtr, MASK), 0x12_9181);
    assert_eq!(rtr[AH..AH + 16], Gid::from_ip(v4(0)).0);
    let source = u16_at(&net.query_route(0, active), 138);
    let source = u32::from(u16::from_be(source));
    let flow_label = (source * 31 + u32::from(PORT)) & 0xf_ffff;
    assert_eq!(u32_at(&rtr, AH + 16), flow_label);
    assert_eq!(rtr[AH + 20..AH + 24], [2, 64, 0, 0], "GID index, hop limit");
    assert_eq!(rtr[AH + 29..AH + 31], [1, 1], "global, port");
    assert_eq!((u32_at(&rtr, PATH_MTU), rtr[MAX_DEST_RD_ATOMIC]), (3, 4));
    let rts = net.qp_attr(1, passive, RTS).unwrap();
    assert_eq!(u32_at(&rts, MASK), 0x1_2e01);
    assert_eq!((rts[TIMEOUT], rts[RETRY_CNT], rts[RNR_RETRY]), (17, 7, 6));
    assert_eq!(rts[MAX_RD_ATOMIC], 3);

    let mut param = ConnParam::new(0x22, &[]);
    (param.responder_resources, param.initiator_depth) = (2, 1);
    param.rnr_retry_count = 200;
    net.accept(1, passive, 0xc, &param).unwrap();
    net.settle();
    let event = net.event(0, 5);
    assert_eq!((event.depths(), event.qpn()), ((1, 2), 0x22));
    assert_eq!(event.private_data().1, 196);
    net.set_option(0, active, (0, 3), &[20]).unwrap();
    let rts = net.qp_attr(0, active, RTS).unwrap();
    assert_eq!(
        (rts[MAX_RD_ATOMIC], rts[TIMEOUT], rts[RNR_RETRY]),
        (2, 20, 7)
    );
    for state in [0, 4, 5, 6, 7] {
        assert_eq!(net.qp_attr(0, active, state), Err(Errno::EINVAL), "{state}");
    }
    net.close();
}

/// Connects queue pairs of another kind. Returns the attribute masks for RTR and RTS, first of the
/// active side, then of the passive one.
fn masks(active: u8, passive: u8) -> [[u32; 2]; 2] {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    net.listener(0xb, PS_IB, passive, to);
    let id = net.create_typed(0, 0xa, PS_IB, active);
    net.resolved(id, to);
    net.connect(0, id, &ConnParam::new(0x11, b"hello")).unwrap();
    net.settle();
    let request = net.event(1, 4);
    assert!(begins_with(request.private_data(), b"hello"));
    net.accept(1, request.id, 0xc, &ConnParam::new(0x22, &[]))
        .unwrap();
    net.settle();
    assert_eq!(net.event(0, 5).qpn(), 0x22);
    net.accept(0, id, 0, &ConnParam::invalid()).unwrap();
    net.settle();
    net.event(1, 9);
    let rtr = net.qp_attr(0, id, RTR).unwrap();
    assert_eq!(u32_at(&rtr, DEST_QPN), 0x22);
    let found = [(0, id), (1, request.id)].map(|(side, id)| {
        [RTR, RTS].map(|state| u32_at(&net.qp_attr(side, id, state).unwrap(), MASK))
    });
    net.close();
    found
}

#[test]
fn uc_and_xrc_have_their_own_attributes() {
    assert_eq!(masks(RC, RC), [[0x12_9181, 0x1_2e01]; 2]);
    assert_eq!(masks(RC, 0), [[0x12_9181, 0x1_2e01]; 2]);
    assert_eq!(masks(UC, UC), [[0x10_1181, 0x1_0001]; 2]);
    let [send, recv] = [[0x10_1181, 0x1_2e01], [0x12_9181, 0x1_0201]];
    assert_eq!(masks(XRC_SEND, XRC_RECV), [send, recv]);
}

#[test]
fn another_kind_of_queue_pair_is_refused() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    net.listener(0xb, PS_IB, XRC_RECV, to);
    let id = net.create_typed(0, 0xa, PS_IB, RC);
    net.resolved(id, to);
    net.connect(0, id, &ConnParam::new(0x11, &[])).unwrap();
    net.settle();
    net.no_event(1);
    assert_eq!(net.event(0, 8).status, 28);
    let other = net.create_typed(0, 0xa, PS_IB, XRC_RECV);
    net.resolved(other, to);
    let refused = net.connect(0, other, &ConnParam::new(0x11, &[]));
    assert_eq!(refused, Err(Errno::EINVAL), "only the sender connects");
    net.close();
}

fn datagrams(to: IpAddr) {
    let mut net = Net::new();
    let to = SocketAddr::new(to, PORT);
    net.listener(0xb, PS_UDP, 0, to);
    let id = net.create(0, 0xa, PS_UDP);
    let mut param = ConnParam::new(0, b"hello");
    net.resolved(id, to);
    let init = net.qp_attr(0, id, INIT).unwrap();
    assert_eq!(
        (u32_at(&init, MASK), u32_at(&init, 20)),
        (0x71, 0x0123_4567)
    );
    net.connect(0, id, &param).unwrap();
    net.settle();
    let request = net.event(1, 4);
    assert_eq!((request.uid, request.ud_private_data().1), (0xb, 180));
    assert!(begins_with(request.ud_private_data(), b"hello"));
    assert_eq!(
        net.query_route(1, request.id)[136..164],
        abi::sockaddr(&to, 28)
    );

    param = ConnParam::new(0x33, b"welcome");
    net.accept(1, request.id, 0xc, &param).unwrap();
    net.settle();
    let event = net.event(0, 9);
    assert_eq!((event.uid, event.id, event.status), (0xa, id, 0));
    assert_eq!((event.qpn(), u32_at(&event.param, 4)), (0x33, 0x0123_4567));
    assert_eq!(event.ud_private_data().1, 136);
    assert!(begins_with(event.ud_private_data(), b"welcome"));
    assert_eq!(event.param[8..24], Gid::from_ip(to.ip()).0);
    assert_eq!(event.param[37..39], [1, 1], "global, port");
    net.no_event(1);
    let again = net.accept(1, request.id, 0xc, &param);
    assert_eq!(again, Err(Errno::EINVAL));
    net.finish();
    net.no_event(0);
    net.close();
}

#[test]
fn datagrams_find_their_queue_pair() {
    datagrams(v4(1));
    datagrams(v6(1));
}

#[test]
fn a_refused_service_is_unreachable() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    net.listener(0xb, PS_UDP, 0, to);
    let (_, request) = net.requested(PS_UDP, to, &[]);
    net.reject(1, request, 28, b"no").unwrap();
    net.settle();
    let event = net.event(0, 7);
    assert_eq!(event.status, 2, "SIDR status");
    assert!(begins_with(event.ud_private_data(), b"no"));

    let id = net.create(0, 0xa, PS_UDP);
    net.resolved(id, SocketAddr::new(v4(1), PORT + 1));
    net.connect(0, id, &ConnParam::new(0, &[])).unwrap();
    net.settle();
    assert_eq!(net.event(0, 7).status, 1, "no such service");
    net.close();
}

#[test]
fn a_reject_carries_private_data() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    net.listener(0xb, PS_TCP, 0, to);
    for (reason, status) in [(0, 28), (28, 28), (35, 35)] {
        let (active, passive) = net.requested(PS_TCP, to, &[]);
        assert_eq!(net.reject(1, passive, 5, &[]), Err(Errno::EINVAL));
        assert_eq!(net.reject(1, passive, 28, &[0; 149]), Err(Errno::EINVAL));
        net.reject(1, passive, reason, b"no").unwrap();
        net.settle();
        let event = net.event(0, 8);
        assert_eq!((event.id, event.status), (active, status));
        assert_eq!(event.private_data().1, 148);
        assert!(begins_with(event.private_data(), b"no"));
        let late = net.accept(1, passive, 0xc, &ConnParam::new(0x22, &[]));
        assert_eq!(late, Err(Errno::EINVAL));
        net.finish();
        net.no_event(0);
        net.no_event(1);
    }
    net.close();
}

#[test]
fn the_active_side_may_reject_too() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    net.listener(0xb, PS_TCP, 0, to);
    let (active, passive) = net.requested(PS_TCP, to, &[]);
    net.accept(1, passive, 0xc, &ConnParam::new(0x22, &[]))
        .unwrap();
    net.settle();
    net.event(0, 5);
    net.reject(0, active, 28, b"changed").unwrap();
    net.settle();
    let event = net.event(1, 8);
    assert_eq!((event.id, event.uid, event.status), (passive, 0xc, 28));
    net.close();
}

#[test]
fn too_much_private_data_is_refused() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    net.listener(0xb, PS_TCP, 0, to);
    let id = net.create(0, 0xa, PS_TCP);
    net.resolved(id, to);
    let connect = net.connect(0, id, &ConnParam::new(0x11, &[1; 57]));
    assert_eq!(connect, Err(Errno::EINVAL));
    net.connect(0, id, &ConnParam::new(0x11, &[1; 56])).unwrap();
    net.settle();
    let passive = net.event(1, 4).id;
    let accept = net.accept(1, passive, 0xc, &ConnParam::new(0x22, &[1; 197]));
    assert_eq!(accept, Err(Errno::EINVAL));
    net.settle();
    assert_eq!(
        net.event(0, 8).status,
        28,
        "what is not accepted is rejected"
    );
    net.close();
}

#[test]
fn without_a_listener_a_request_is_refused() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    let id = net.create(0, 0xa, PS_TCP);
    net.resolved(id, to);
    net.connect(0, id, &ConnParam::new(0x11, &[])).unwrap();
    net.settle();
    assert_eq!(net.event(0, 8).status, 8);
    assert_eq!(net.disconnect(0, id), Ok(()));
    net.finish();
    net.no_event(0);
    net.close();
}

#[test]
fn a_silent_peer_is_unreachable() {
    for space in [PS_TCP, PS_UDP] {
        let mut faults = NO_FAULTS;
        faults.blackout = Instant::ZERO;
        let mut net = Net::with_faults(faults, 0);
        let to = SocketAddr::new(v4(1), PORT);
        let id = net.create(0, 0xa, space);
        net.resolved(id, to);
        net.connect(0, id, &ConnParam::new(0x11, &[])).unwrap();
        net.finish();
        assert_eq!(net.event(0, 7).status, -110);
        net.no_event(0);
        net.close();
    }
}

#[test]
fn a_peer_that_does_not_answer_a_disconnect_is_left() {
    let mut net = Net::new();
    let (active, _) = net.established();
    net.link.faults.blackout = net.now;
    net.disconnect(0, active).unwrap();
    net.finish();
    assert_eq!(net.event(0, 10).status, -110);
    net.event(0, 15);
    net.close();
}

#[test]
fn requests_beyond_the_backlog_wait() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    let listener = net.create(1, 0xb, PS_TCP);
    net.bind(1, listener, to).unwrap();
    net.listen(1, listener, 1).unwrap();
    for qpn in [0x11, 0x12] {
        let id = net.create(0, u64::from(qpn), PS_TCP);
        net.resolved(id, to);
        net.connect(0, id, &ConnParam::new(qpn, &[])).unwrap();
        net.settle();
    }
    assert_eq!(net.sides[1].waiting_events(net.channels[1]), 1);
    assert_eq!(net.sides[1].listeners().next().unwrap().unread, 1);
    assert_eq!(net.event(1, 4).qpn(), 0x11);
    net.no_event(1);
    // The request is retransmitted.
    while net.sides[1].waiting_events(net.channels[1]) == 0 {
        assert!(net.step());
    }
    assert_eq!(net.event(1, 4).qpn(), 0x12);
    net.close();
}

#[test]
fn events_before_the_acceptance_are_dropped() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    net.listener(0xb, PS_TCP, 0, to);
    let (active, passive) = net.requested(PS_TCP, to, &[]);
    net.destroy(0, active).unwrap();
    net.settle();
    net.no_event(1);
    let accept = net.accept(1, passive, 0xc, &ConnParam::new(0x22, &[]));
    assert_eq!(accept, Err(Errno::EINVAL));
    assert_eq!(net.destroy(1, passive), Ok(0));
    net.close();
}

#[test]
fn an_early_packet_establishes_a_connection() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    net.listener(0xb, PS_TCP, 0, to);
    let (_, passive) = net.requested(PS_TCP, to, &[]);
    let notify =
        |net: &mut Net, event| net.write(1, abi::NOTIFY, Bytes::default().u32(passive).u32(event));
    assert_eq!(notify(&mut net, 4), Err(Errno::EINVAL));
    net.accept(1, passive, 0xc, &ConnParam::new(0x22, &[]))
        .unwrap();
    assert_eq!(notify(&mut net, 7), Err(Errno::EINVAL));
    notify(&mut net, 4).unwrap();
    assert_eq!(net.event(1, 9).id, passive);
    assert_eq!(notify(&mut net, 4), Err(Errno::EISCONN));
    net.close();
}

#[test]
fn options_of_a_vendor_are_passed_on() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    net.listener(0xb, PS_TCP, 0, to);
    let id = net.create(0, 0xa, PS_TCP);
    net.resolved(id, to);
    let param = ConnParam::new(0x11, &[]).to_bytes();
    let body = Bytes::default().bytes(&param).u32(id).u32(0);
    net.write(0, abi::CONNECT, body.u32(0x15b3).u32(7)).unwrap();
    net.settle();
    let request = net.event(1, 4);
    assert_eq!(request.ece, (0x15b3, 7));
    let body = Bytes::default().u64(0xc).bytes(&param);
    let body = body.u32(request.id).u32(0).u32(0x15b4).u32(8);
    net.write(1, abi::ACCEPT, body).unwrap();
    net.settle();
    assert_eq!(net.event(0, 5).ece, (0x15b4, 8));
    net.close();
}

#[test]
fn commands_before_ece_are_shorter() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    net.listener(0xb, PS_TCP, 0, to);
    let id = net.create(0, 0xa, PS_TCP);
    net.resolved(id, to);
    let param = ConnParam::new(0x11, &[]).to_bytes();
    let body = Bytes::default().bytes(&param).u32(id).u32(0).0;
    let short = abi::with_room(abi::CONNECT, &body[..279], 0);
    let refused = net.write_to(0, net.channels[0], &short, &[]);
    assert_eq!(refused, Err(Errno::EINVAL));
    let old = abi::with_room(abi::CONNECT, &body, 0);
    net.write_to(0, net.channels[0], &old, &[]).unwrap();
    net.settle();
    // The response to GET_EVENT did not have fields for ECE, either.
    let get = abi::with_room(abi::GET_EVENT, &abi::RESPONSE.to_ne_bytes(), 328);
    let reply = net.write_to(1, net.channels[1], &get, &[]).unwrap();
    assert_eq!((reply.bytes.len(), u32_at(&reply.bytes, 12)), (328, 4));
    let passive = u32_at(&reply.bytes, 8);
    let body = Bytes::default().u64(0xc).bytes(&param).u32(passive).u32(0);
    let old = abi::with_room(abi::ACCEPT, &body.0, 0);
    net.write_to(1, net.channels[1], &old, &[]).unwrap();
    net.settle();
    net.event(0, 5);
    net.close();
}

#[test]
fn a_program_connects_to_itself() {
    for to in [
        v4(0),
        v6(0),
        [127, 0, 0, 1].into(),
        Ipv6Addr::LOCALHOST.into(),
    ] {
        let mut net = Net::new();
        let to = SocketAddr::new(to, PORT);
        let listener = net.create(0, 0xb, PS_TCP);
        net.bind(0, listener, to).unwrap();
        let route = net.query_route(0, listener);
        assert_eq!(
            (route[0..8].to_vec(), u32_at(&route, 200)),
            (guid(0).to_be_bytes().to_vec(), 4)
        );
        net.listen(0, listener, 0).unwrap();
        let id = net.create(0, 0xa, PS_TCP);
        net.resolved(id, to);
        let [source, destination] =
            [140, 168].map(|at| net.query_route(0, id)[at..at + 20].to_vec());
        assert_eq!(source, destination, "both addresses are the same");
        net.connect(0, id, &ConnParam::new(0x11, &[])).unwrap();
        net.settle();
        let request = net.event(0, 4);
        assert_eq!(
            net.query_route(0, request.id)[136..164],
            abi::sockaddr(&to, 28)
        );
        net.accept(0, request.id, 0xc, &ConnParam::new(0x22, &[]))
            .unwrap();
        net.settle();
        net.event(0, 5);
        net.accept(0, id, 0, &ConnParam::invalid()).unwrap();
        net.settle();
        assert_eq!(net.event(0, 9).uid, 0xc);
        net.close();
    }
}

#[test]
fn a_listener_of_one_address_leaves_the_others() {
    let mut net = Net::new();
    net.listener(0xb, PS_TCP, 0, SocketAddr::new(v6(1), PORT));
    let id = net.create(0, 0xa, PS_TCP);
    net.resolved(id, SocketAddr::new(v4(1), PORT));
    net.connect(0, id, &ConnParam::new(0x11, &[])).unwrap();
    net.settle();
    assert_eq!(net.event(0, 8).status, 8);
    net.close();
}

#[test]
fn an_id_moves_with_its_events() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    let listener = net.listener(0xb, PS_TCP, 0, to);
    let id = net.create(0, 0xa, PS_TCP);
    net.resolved(id, to);
    net.connect(0, id, &ConnParam::new(0x11, &[])).unwrap();
    net.settle();
    let other = net.sides[1].open_channel().unwrap();
    let own = net.channels[1];
    let body = Bytes::default().u64(abi::RESPONSE).u32(listener).u32(99);
    let bytes = abi::command(abi::MIGRATE_ID, &body.0);
    let side = &mut net.sides[1];
    assert_eq!(
        side.migrate(other, &bytes, Err(Errno::ENOENT)),
        Err(Errno::ENOENT)
    );
    assert_eq!(side.migrate(other, &bytes, Ok(other)), Err(Errno::EINVAL));
    let reply = side.migrate(other, &bytes, Ok(own)).unwrap();
    assert_eq!(u32_at(&reply.bytes, 0), 0, "no event has been read");
    assert_eq!(
        (side.waiting_events(own), side.waiting_events(other)),
        (0, 1)
    );
    assert_eq!(
        net.listen(1, listener, 0),
        Err(Errno::EINVAL),
        "another channel's"
    );
    let request = net.try_event_of(1, other).unwrap();
    let accept = net.accept(1, request.id, 0xc, &ConnParam::new(0x22, &[]));
    assert_eq!(accept, Err(Errno::EINVAL), "another channel's");

    // Like rdma_accept of an id that its program has migrated back.
    let body = Bytes::default().u64(abi::RESPONSE).u32(request.id).u32(99);
    let bytes = abi::command(abi::MIGRATE_ID, &body.0);
    let side = &mut net.sides[1];
    assert_eq!(
        side.migrate(own, &bytes[..20], Ok(other)),
        Err(Errno::EINVAL)
    );
    side.migrate(own, &bytes, Ok(other)).unwrap();
    net.accept_both(id, request.id);
    net.close();
}

#[test]
fn a_request_that_is_destroyed_unread_takes_its_event_along() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    let listener = net.create(1, 0xb, PS_TCP);
    net.bind(1, listener, to).unwrap();
    net.listen(1, listener, 1).unwrap();
    for _ in 0..3 {
        let id = net.create(0, 0xa, PS_TCP);
        net.resolved(id, to);
        net.connect(0, id, &ConnParam::new(0x11, &[])).unwrap();
        net.settle();
        // A program that guesses the number of the id moves it away first.
        let request = net.sides[1].connections().next().unwrap().id;
        let own = net.channels[1];
        net.channels[1] = net.sides[1].open_channel().unwrap();
        let body = Bytes::default().u64(abi::RESPONSE).u32(request).u32(0);
        let bytes = abi::command(abi::MIGRATE_ID, &body.0);
        let other = net.channels[1];
        net.sides[1].migrate(other, &bytes, Ok(own)).unwrap();
        assert_eq!(net.destroy(1, request), Ok(0));
        net.channels[1] = own;
        net.no_event(1);
        net.settle();
        assert_eq!(net.event(0, 8).status, 28);
        net.finish();
    }
    assert_eq!(net.destroy(1, listener), Ok(0));
    net.close();
}

/// Destroys an id of each side in each state: the connection ends on the other side, too.
#[test]
fn an_id_is_destroyed_in_any_state() {
    for state in 0..8 {
        for side in 0..2 {
            let mut net = Net::new();
            let to = SocketAddr::new(v4(1), PORT);
            let listener = net.listener(0xb, PS_TCP, 0, to);
            let id = net.create(0, 0xa, PS_TCP);
            let mut passive = listener;
            if state > 0 {
                net.resolve(0, id, to).unwrap();
            }
            if state > 1 {
                net.event(0, 0);
                net.resolve_route(0, id).unwrap();
                net.event(0, 2);
            }
            if state > 2 {
                net.connect(0, id, &ConnParam::new(0x11, &[])).unwrap();
            }
            if state > 3 {
                net.settle();
                passive = net.event(1, 4).id;
            }
            if state > 4 {
                net.accept(1, passive, 0xc, &ConnParam::new(0x22, &[]))
                    .unwrap();
                net.settle();
            }
            if state > 5 {
                net.event(0, 5);
                net.accept(0, id, 0, &ConnParam::invalid()).unwrap();
                net.settle();
            }
            if state > 6 {
                net.disconnect(0, id).unwrap();
            }
            net.destroy(side, [id, passive][side]).unwrap();
            assert_eq!(net.destroy(side, [id, passive][side]), Err(Errno::ENOENT));
            net.finish();
            net.close();
        }
    }
}

#[test]
fn destroying_a_listener_refuses_its_requests() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    let listener = net.listener(0xb, PS_TCP, 0, to);
    let id = net.create(0, 0xa, PS_TCP);
    net.resolved(id, to);
    net.connect(0, id, &ConnParam::new(0x11, &[])).unwrap();
    net.settle();
    assert_eq!(net.destroy(1, listener), Ok(0), "none was read");
    assert_eq!(net.sides[1].waiting_events(net.channels[1]), 0);
    net.settle();
    assert_eq!(net.event(0, 8).status, 28);
    net.close();
}

#[test]
fn destroying_a_connection_disconnects_it() {
    let mut net = Net::new();
    let (active, passive) = net.established();
    let infos: Vec<_> = net.sides[1].connections().collect();
    assert_eq!((infos.len(), infos[0].state), (1, State::Connect));
    assert_eq!(infos[0].address, Some(SocketAddr::new(v4(1), PORT)));
    net.destroy(0, active).unwrap();
    net.settle();
    assert_eq!(net.event(1, 10).id, passive);
    net.finish();
    net.event(1, 15);
    net.close();
}

#[test]
fn a_removed_device_ends_its_ids() {
    let mut net = Net::new();
    let (active, passive) = net.established();
    let idle = net.create(1, 0xd, PS_TCP);
    let (side, host) = (&mut net.sides[1], &mut net.hosts[1]);
    side.remove_device(net.now, host, guid(1));
    let listener = net.event(1, 11);
    assert_eq!(listener.uid, 0xb);
    assert_eq!(net.event(1, 11).id, passive);
    net.no_event(1);
    assert_eq!(net.disconnect(1, passive), Err(Errno::ENXIO));
    assert_eq!(net.destroy(1, passive), Ok(2));
    assert_eq!(net.bind(1, idle, SocketAddr::new(v4(1), PORT)), Ok(()));
    net.settle();
    let Event { event, id, .. } = net.try_event(0).unwrap();
    assert_eq!((event, id), (10, active));
    net.close();
}

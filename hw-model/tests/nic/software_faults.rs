//! Failures of the software that uses a function, and addresses that its host takes away, as its
//! peer sees them.

use crate::common::objects::{Q_KEY, Request};
use crate::common::{Machine, REGION_START, all_rights, connected, place, run_both};
use ferroce_model::SoftwareFault;
use ferroce_spec::command::{CommandOpcode, CommandStatus, QpAttributeMask};
use ferroce_spec::context::{AddressEntry, PathMtuCode, QpContext, QpStateCode, ServiceCode};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::eqe::EventType;
use ferroce_spec::wqe::SendOpcode;

/// Bytes of a message.
const LENGTH: u32 = 64;
/// Longer than the time for which a requester waits after an RNR NAK.
const RNR_TIME_NS: u64 = 1_000_000_000;
/// Longer than the time for which a requester waits for an answer.
const TIMEOUT_NS: u64 = 20_000_000;
/// Bytes in front of a datagram.
const ROUTE_LENGTH: u32 = 40;

/// Lets `a` write to the region of `b` with this key.
fn write(a: &mut Machine, b: &mut Machine, key: u32) -> CqeStatus {
    a.post(
        SendOpcode::RDMA_WRITE,
        Some((REGION_START, key)),
        a.segment(0, LENGTH),
    );
    run_both(a, b, 20);
    CqeStatus(a.poll().expect("it completes").word.status())
}

/// Goal: present regions are gone for the peer, new ones work, and software can still remove the
/// old ones.
#[test]
fn revoked_regions_are_gone_and_new_ones_work() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let old = b.key;
    assert_eq!(write(&mut a, &mut b, old), CqeStatus::SUCCESS);
    b.nic.suffer(SoftwareFault::RevokeRegions);
    let new = b.create_region(all_rights()).expect("there is room");
    assert_eq!(write(&mut a, &mut b, new), CqeStatus::SUCCESS);
    assert_eq!(write(&mut a, &mut b, old), CqeStatus::REMOTE_ACCESS);
    for key in [old, new] {
        let destroyed = b.command(CommandOpcode::DESTROY_MR, u64::from(key), &[0u8; 0]);
        assert!(destroyed.is_ok(), "{key:#x}: {destroyed:?}");
    }
}

/// Goal: queue pairs in use flush their requests, and answer no more.
#[test]
fn queue_pairs_that_fail_flush_and_are_silent() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    b.post_receive(b.segment(0, LENGTH));
    run_both(&mut a, &mut b, 5);
    b.nic.suffer(SoftwareFault::FailQueuePairs);
    run_both(&mut a, &mut b, 5);
    let flushed = b.poll().expect("the receive is flushed");
    assert_eq!(CqeStatus(flushed.word.status()), CqeStatus::WR_FLUSH);
    let sent = b.nic.counters().value(Counter::tx_frames);
    a.post(
        SendOpcode::RDMA_WRITE,
        Some((REGION_START, b.key)),
        a.segment(0, LENGTH),
    );
    run_both(&mut a, &mut b, 20);
    assert_eq!(a.poll(), None);
    assert_eq!(b.nic.counters().value(Counter::tx_frames), sent);
}

/// Goal: receives that are withheld, also of a shared receive queue, are taken later.
#[test]
fn receives_that_are_withheld_come_back() {
    for is_shared in [false, true] {
        let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
        let mut srq = b.create_srq(0, None);
        let rc = ServiceCode::RELIABLE_CONNECTED;
        let mut sender = a.create_qp(rc, |_| ());
        let mut receiver = b.create_qp(rc, |context| {
            context.shape.set_uses_srq(is_shared);
            context.srqn = if is_shared { srq.srqn } else { 0 };
        });
        a.bring_to_rts(&sender, b.gid(), receiver.qpn);
        b.bring_to_rts(&receiver, a.gid(), sender.qpn);
        let data = b.segment(0, LENGTH);
        if is_shared {
            b.post_shared(&mut srq, 1, &[data]);
        } else {
            b.receive(&mut receiver, data);
        }
        b.nic.suffer(SoftwareFault::WithholdReceives);
        let data = [a.segment(0, LENGTH)];
        let request = Request {
            data: &data,
            ..Request::default()
        };
        a.send(&mut sender, SendOpcode::SEND, request);
        run_both(&mut a, &mut b, 20);
        assert_eq!((a.poll(), b.poll()), (None, None), "shared: {is_shared}");
        b.nic.suffer(SoftwareFault::ReturnReceives);
        a.run(RNR_TIME_NS);
        run_both(&mut a, &mut b, 20);
        let status = a.poll().map(|cqe| CqeStatus(cqe.word.status()));
        assert_eq!(status, Some(CqeStatus::SUCCESS), "shared: {is_shared}");
    }
}

/// Returns the entry of the GID table that all paths use.
fn address(machine: &mut Machine) -> AddressEntry {
    machine
        .command(CommandOpcode::QUERY_ADDRESS, 0, &[0u8; 0])
        .expect("there is an entry");
    machine.host.read(place::OUTPUT)
}

/// Goal: an address that is gone is reported, nothing is sent from it or taken for it, and a
/// request under way succeeds once it is back. Method: each side loses it in turn, the requester
/// and the responder.
#[test]
fn requests_wait_for_an_address_that_comes_back() {
    for loses_requester in [true, false] {
        let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
        let key = b.key;
        assert_eq!(write(&mut a, &mut b, key), CqeStatus::SUCCESS);
        let victim = if loses_requester { &mut a } else { &mut b };
        let before = address(victim);
        victim.nic.suffer(SoftwareFault::RemoveAddresses);
        victim.run(1);
        assert_eq!(victim.poll_event(), Some((EventType::GID_CHANGE, 0)));
        assert_eq!(address(victim).gid, [0; 16]);
        let sent = victim.nic.counters().value(Counter::tx_frames);
        a.post(
            SendOpcode::RDMA_WRITE,
            Some((REGION_START, key)),
            a.segment(0, LENGTH),
        );
        run_both(&mut a, &mut b, 20);
        assert_eq!(a.poll(), None, "requester: {loses_requester}");
        let (victim, lost) = if loses_requester {
            (&mut a, Counter::tx_no_route)
        } else {
            (&mut b, Counter::rx_wrong_path)
        };
        let counters = victim.nic.counters();
        assert_eq!(counters.value(Counter::tx_frames), sent);
        assert_eq!(counters.value(lost), 1);
        victim.nic.suffer(SoftwareFault::ReturnAddresses);
        victim.run(1);
        assert_eq!(victim.poll_event(), Some((EventType::GID_CHANGE, 0)));
        assert_eq!(address(victim), before);
        a.run(TIMEOUT_NS);
        run_both(&mut a, &mut b, 20);
        let status = a.poll().map(|cqe| CqeStatus(cqe.word.status()));
        assert_eq!(status, Some(CqeStatus::SUCCESS), "{loses_requester}");
    }
}

/// Goal: queue pairs cannot be connected from an address that is gone.
#[test]
fn an_address_that_is_gone_is_no_source() {
    use QpAttributeMask as Mask;
    let (mut a, b) = connected(PathMtuCode::MTU_1024);
    let qp = a.create_qp(ServiceCode::RELIABLE_CONNECTED, |_| ());
    let context = QpContext {
        port: 1,
        path: a.path_to(b.gid()),
        path_mtu: PathMtuCode::MTU_1024,
        ..QpContext::default()
    };
    let init: &[fn(&mut Mask, bool)] = &[Mask::set_p_key, Mask::set_port, Mask::set_access];
    let rtr: &[fn(&mut Mask, bool)] = &[
        Mask::set_path,
        Mask::set_path_mtu,
        Mask::set_dest_qpn,
        Mask::set_receive_psn,
        Mask::set_max_dest_rd_atomic,
        Mask::set_min_rnr_timer,
    ];
    a.modify_qp(&qp, QpStateCode::INIT, init, context)
        .expect("a legal transition");
    a.nic.suffer(SoftwareFault::RemoveAddresses);
    a.run(1);
    let refused = a.modify_qp(&qp, QpStateCode::RTR, rtr, context);
    assert_eq!(refused, Err(CommandStatus::BAD_PARAMETER));
    a.nic.suffer(SoftwareFault::ReturnAddresses);
    a.run(1);
    assert_eq!(a.modify_qp(&qp, QpStateCode::RTR, rtr, context), Ok(0));
}

/// Goal: a datagram from an address that is gone is lost, and its queue pair goes on.
#[test]
fn datagrams_from_an_address_that_is_gone_are_lost() {
    let (mut a, mut b) = connected(PathMtuCode::MTU_1024);
    let ud = ServiceCode::UNRELIABLE_DATAGRAM;
    let (mut sender, mut receiver) = (a.create_qp(ud, |_| ()), b.create_qp(ud, |_| ()));
    a.bring_to_rts(&sender, b.gid(), receiver.qpn);
    b.bring_to_rts(&receiver, a.gid(), sender.qpn);
    b.receive(&mut receiver, b.segment(0, ROUTE_LENGTH + LENGTH));
    let data = [a.segment(0, LENGTH)];
    let request = Request {
        data: &data,
        datagram: a.datagram(b.gid(), receiver.qpn, Q_KEY),
        ..Request::default()
    };
    for (fault, arrives) in [
        (SoftwareFault::RemoveAddresses, false),
        (SoftwareFault::ReturnAddresses, true),
    ] {
        a.nic.suffer(fault);
        a.send(&mut sender, SendOpcode::SEND, request);
        run_both(&mut a, &mut b, 20);
        let status = a.poll().map(|cqe| CqeStatus(cqe.word.status()));
        assert_eq!(status, Some(CqeStatus::SUCCESS), "{fault:?}");
        assert_eq!(b.poll().is_some(), arrives, "{fault:?}");
    }
}

/// Goal: what software writes into the GID table stays when an address comes back.
#[test]
fn software_has_the_last_word_on_the_gid_table() {
    let (mut a, b) = connected(PathMtuCode::MTU_1024);
    let before = address(&mut a);
    a.nic.suffer(SoftwareFault::RemoveAddresses);
    a.run(1);
    let other = AddressEntry {
        gid: b.gid().0,
        ..before
    };
    a.command(CommandOpcode::SET_ADDRESS, 0, &other)
        .expect("there is an entry");
    a.nic.suffer(SoftwareFault::ReturnAddresses);
    a.run(1);
    assert_eq!(address(&mut a), other);
}

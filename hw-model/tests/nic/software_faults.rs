//! Failures of the software that uses a function, as its peer sees them.

use crate::common::objects::Request;
use crate::common::{Machine, REGION_START, all_rights, connected, run_both};
use ferroce_model::SoftwareFault;
use ferroce_spec::command::CommandOpcode;
use ferroce_spec::context::{PathMtuCode, ServiceCode};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::wqe::SendOpcode;

/// Bytes of a message.
const LENGTH: u32 = 64;
/// Longer than the time for which a requester waits after an RNR NAK.
const RNR_TIME_NS: u64 = 1_000_000_000;

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

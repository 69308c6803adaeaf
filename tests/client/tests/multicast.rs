//! Multicast groups.

use ferroce_verbs_client::address::path_to;
use ferroce_verbs_client::bench::{Bench, GRH, TARGET, pattern};
use ferroce_verbs_client::context::gid_of;
use ferroce_verbs_client::qp::{Q_KEY, Qp, QpConfig};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::{ReceiveWr, SendWr};

/// The QP number of every multicast packet.
const MULTICAST_QPN: u32 = 0xff_ffff;

/// 239.1.2.`last`, as RoCE v2 writes it.
fn group(last: u8) -> ibv_gid {
    gid_of([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, last])
}

fn ud(bench: &Bench) -> Qp {
    let qp = bench.qp(IBV_QPT_UD).expect("a UD QP");
    qp.connect(bench.gid, 0);
    qp
}

fn receive(bench: &Bench, qp: &Qp, id: u64) {
    let wr = ReceiveWr::new(id, bench.sge(TARGET + id as usize * 1024, 1024));
    qp.post_receive(&wr).expect("post_recv");
}

fn send(bench: &Bench, from: &Qp, to: ibv_gid, length: usize) {
    let ah = bench.pd.create_ah(path_to(to)).expect("create_ah");
    let wr = SendWr::new(100, IBV_WR_SEND).sge(bench.sge(0, length));
    from.post_send(&wr.datagram(&ah, MULTICAST_QPN, Q_KEY))
        .expect("post_send");
    bench.send_cq.expect(100, IBV_WC_SUCCESS);
}

verbs_tests! {
    /// Every attached QP gets a copy, and no other QP does.
    fn every_member_gets_a_copy() {
        let bench = Bench::new();
        let (sender, other) = (ud(&bench), ud(&bench));
        let members = [ud(&bench), ud(&bench), ud(&bench)];
        for (id, member) in members.iter().enumerate() {
            member.attach(&group(1), 0).expect("attach_mcast");
            receive(&bench, member, id as u64);
        }
        other.attach(&group(2), 0).expect("attach_mcast");
        receive(&bench, &other, 9);
        bench.buffer.write(0, &pattern(300, 4));
        send(&bench, &sender, group(1), 300);
        let mut ids = Vec::new();
        for _ in &members {
            let wc = bench.receive_cq.next();
            assert_eq!((wc.status, wc.byte_len), (IBV_WC_SUCCESS, 340));
            assert_eq!((wc.src_qp, wc.wc_flags), (sender.number(), IBV_WC_GRH));
            let place = TARGET + wc.wr_id as usize * 1024 + GRH;
            assert_eq!(bench.buffer.read(place, 300), pattern(300, 4));
            ids.push(wc.wr_id);
        }
        ids.sort_unstable();
        assert_eq!(ids, [0, 1, 2]);
        bench.receive_cq.expect_nothing();
    }

    /// A member that sends gets its own copy (`man mckey`, rdma-core#1100), unless its QP was
    /// created with `IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`. The flag excludes no other member.
    fn a_member_gets_what_it_sends() {
        let bench = Bench::new();
        let block = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
        let [member, unflagged, blocking] = [None, Some(0), Some(block)].map(|create_flags| {
            let config = QpConfig { create_flags, ..bench.config(IBV_QPT_UD) };
            let qp = bench.context.create_qp(&config).expect("a UD QP").0;
            qp.connect(bench.gid, 0);
            qp.attach(&group(1), 0).expect("attach_mcast");
            qp
        });
        for (sender, expected) in [
            (&member, vec![1, 2, 3]),
            (&unflagged, vec![1, 2, 3]),
            (&blocking, vec![1, 2]),
        ] {
            for (id, qp) in [(1, &member), (2, &unflagged), (3, &blocking)] {
                receive(&bench, qp, id);
            }
            send(&bench, sender, group(1), 8);
            let mut ids: Vec<_> = expected.iter().map(|_| bench.receive_cq.next()).collect();
            assert!(ids.iter().all(|wc| wc.status == IBV_WC_SUCCESS));
            assert!(ids.iter().all(|wc| wc.src_qp == sender.number()));
            ids.sort_by_key(|wc| wc.wr_id);
            let ids: Vec<_> = ids.into_iter().map(|wc| wc.wr_id).collect();
            assert_eq!(ids, expected);
            bench.receive_cq.expect_nothing();
        }
    }

    /// The flag is for UD QPs only, and other creation flags are not supported.
    fn flags_of_creation_are_refused() {
        let bench = Bench::new();
        let block = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
        for (qp_type, flags) in [
            (IBV_QPT_RC, block),
            (IBV_QPT_UC, block),
            (IBV_QPT_UD, block | IBV_QP_CREATE_SCATTER_FCS),
            (IBV_QPT_UD, IBV_QP_CREATE_CVLAN_STRIPPING),
            (IBV_QPT_UD, IBV_QP_CREATE_SOURCE_QPN),
            (IBV_QPT_UD, 1 << 31),
        ] {
            let create_flags = Some(flags);
            let config = QpConfig { create_flags, ..bench.config(qp_type) };
            let refused = bench.context.create_qp(&config).err();
            assert_eq!(refused, Some(libc::EOPNOTSUPP), "type {qp_type}, {flags:#x}");
        }
    }

    fn a_member_that_has_left_gets_nothing() {
        let bench = Bench::new();
        let (sender, member) = (ud(&bench), ud(&bench));
        member.attach(&group(1), 0).expect("attach_mcast");
        receive(&bench, &member, 0);
        receive(&bench, &member, 1);
        send(&bench, &sender, group(1), 8);
        bench.receive_cq.expect(0, IBV_WC_SUCCESS);
        member.detach(&group(1), 0).expect("detach_mcast");
        send(&bench, &sender, group(1), 8);
        bench.receive_cq.expect_nothing();
    }

    fn attach_and_detach_refuse() {
        let bench = Bench::new();
        let qp = ud(&bench);
        assert!(qp.detach(&group(1), 0).is_err(), "never attached");
        assert_eq!(qp.attach(&bench.gid, 0), Err(libc::EINVAL), "no multicast GID");
        let rc = bench.qp(IBV_QPT_RC).expect("an RC QP");
        assert_eq!(rc.attach(&group(1), 0), Err(libc::EINVAL), "RC has no multicast");
        qp.attach(&group(1), 0).expect("attach_mcast");
        qp.detach(&group(1), 0).expect("detach_mcast");
        assert!(qp.detach(&group(1), 0).is_err(), "already gone");
    }

    fn destroying_a_qp_takes_it_out_of_its_groups() {
        let bench = Bench::new();
        let (sender, member) = (ud(&bench), ud(&bench));
        member.attach(&group(1), 0).expect("attach_mcast");
        let result = member.destroy();
        if result == Err(libc::EBUSY) {
            // The man page allows it: detach first.
            member.detach(&group(1), 0).expect("detach_mcast");
            member.destroy().expect("destroy_qp");
        }
        send(&bench, &sender, group(1), 8);
    }

    /// A message with a wrong Q_Key is dropped at every member.
    fn the_q_key_counts_for_groups_too() {
        let bench = Bench::new();
        let (sender, member) = (ud(&bench), ud(&bench));
        member.attach(&group(1), 0).expect("attach_mcast");
        receive(&bench, &member, 0);
        let ah = bench.pd.create_ah(path_to(group(1))).expect("create_ah");
        let wr = SendWr::new(1, IBV_WR_SEND).sge(bench.sge(0, 8));
        let wr = wr.datagram(&ah, MULTICAST_QPN, Q_KEY + 1);
        sender.post_send(&wr).expect("post_send");
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        bench.receive_cq.expect_nothing();
    }

    fn max_mcast_grp_is_true() {
        let bench = Bench::new();
        let attr = bench.context.query_device().expect("query_device");
        let qp = ud(&bench);
        let max = attr.max_mcast_grp.min(1 << 12);
        let numbered = |index: i32| {
            let [high, low] = (index as u16).to_be_bytes();
            gid_of([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 5, high, low])
        };
        for index in 0..max {
            qp.attach(&numbered(index), 0).expect("below max_mcast_grp");
        }
        if max == attr.max_mcast_grp {
            assert_eq!(qp.attach(&numbered(max), 0), Err(libc::ENOMEM));
        }
    }
}

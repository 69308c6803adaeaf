//! Address handles.

use ferroce_verbs_client::address::path_to;
use ferroce_verbs_client::bench::{Bench, GRH, Service};
use ferroce_verbs_client::qp::Q_KEY;
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

/// Returns the first 40 bytes of a receive buffer.
fn grh(bench: &Bench, offset: usize) -> [u8; 40] {
    bench.buffer.read(offset, GRH).try_into().expect("40 bytes")
}

verbs_tests! {
    fn paths_that_there_are_not_are_refused() {
        let bench = Bench::new();
        let good = path_to(bench.gid);
        bench.pd.create_ah(good).expect("create_ah");
        let refused = |what: &str, path: ibv_ah_attr| {
            assert_eq!(bench.pd.create_ah(path).err(), Some(libc::EINVAL), "{what}");
        };
        refused("no GRH", ibv_ah_attr { is_global: 0, ..good });
        refused("port 0", ibv_ah_attr { port_num: 0, ..good });
        refused("port 2", ibv_ah_attr { port_num: 2, ..good });
        let mut path = good;
        path.grh.sgid_index = 250;
        refused("sgid_index", path);
    }

    /// The path back to the sender of a datagram.
    fn an_ah_from_a_completion_leads_back() {
        let bench = Bench::new();
        let pair = bench.pair(Service::Ud);
        pair.post_receive(1, bench.sge(8192, 200));
        pair.post(SendWr::new(2, IBV_WR_SEND).sge(bench.sge(0, 16)));
        let wc = bench.receive_cq.expect(1, IBV_WC_SUCCESS);
        bench.send_cq.expect(2, IBV_WC_SUCCESS);
        let attr = bench.pd.init_ah_from_wc(&wc, grh(&bench, 8192)).expect("init_ah_from_wc");
        assert_eq!((attr.is_global, attr.port_num), (1, 1));
        assert_eq!(attr.grh.sgid_index, 1);
        let back = bench.pd.create_ah_from_wc(&wc, grh(&bench, 8192)).expect("create_ah_from_wc");
        pair.a
            .post_receive(&ferroce_verbs_client::work_request::ReceiveWr::new(
                3,
                bench.sge(16384, 200),
            ))
            .expect("post_recv");
        let wr = SendWr::new(4, IBV_WR_SEND).sge(bench.sge(0, 16));
        pair.b.post_send(&wr.datagram(&back, wc.src_qp, Q_KEY)).expect("post_send");
        bench.receive_cq.expect(3, IBV_WC_SUCCESS);
    }

    fn max_ah_is_reached() {
        let bench = Bench::new();
        let max = bench.context.query_device().expect("query_device").max_ah;
        assert!(max > 0);
        let count = max.min(1 << 16);
        let all: Vec<_> = (0..count)
            .map(|_| bench.pd.create_ah(path_to(bench.gid)).expect("below max_ah"))
            .collect();
        if count == max {
            assert_eq!(bench.pd.create_ah(path_to(bench.gid)).err(), Some(libc::ENOMEM));
        }
        drop(all);
    }
}

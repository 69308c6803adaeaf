//! Devices: the list, opening and closing, and the results of a query.

use ferroce_tests::{TIMEOUT, eventually};
use ferroce_verbs_client::context::{Context, devices};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;

verbs_tests! {
    fn the_list_names_the_device() {
        let found = devices().expect("a list");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "ferroce0");
        assert_ne!(found[0].1, 0, "node GUID");
    }

    fn two_devices_differ() ["--devices", "2"] {
        let found = devices().expect("a list");
        assert_eq!(found.len(), 2);
        assert_ne!(found[0].0, found[1].0, "names");
        assert_ne!(found[0].1, found[1].1, "GUIDs");
        let contexts = [0, 1].map(|index| Context::open_nth(index).expect("it opens"));
        let gids = contexts.each_ref().map(|context| {
            let gid = context.query_gid(1, 1).expect("a GID");
            ferroce_verbs_client::context::gid_bytes(&gid)
        });
        assert_ne!(gids[0], gids[1]);
    }

    fn a_device_opens_twice_and_closes() {
        let (first, second) = (Context::open(), Context::open());
        assert_eq!(first.name(), second.name());
        first.destroy().expect("close");
        second.query_device().expect("the other one lives on");
        second.destroy().expect("close");
        Context::open().query_device().expect("and opens again");
    }

    /// Goal: programs can rely on limits that are not 0, and on identities.
    fn query_device_returns_true_limits() {
        let attr = Context::open().query_device().expect("query_device");
        for (what, value) in [
            ("max_qp", attr.max_qp),
            ("max_qp_wr", attr.max_qp_wr),
            ("max_sge", attr.max_sge),
            ("max_sge_rd", attr.max_sge_rd),
            ("max_cq", attr.max_cq),
            ("max_cqe", attr.max_cqe),
            ("max_mr", attr.max_mr),
            ("max_pd", attr.max_pd),
            ("max_qp_rd_atom", attr.max_qp_rd_atom),
            ("max_qp_init_rd_atom", attr.max_qp_init_rd_atom),
            ("max_ah", attr.max_ah),
            ("max_mw", attr.max_mw),
            ("max_srq", attr.max_srq),
            ("max_srq_wr", attr.max_srq_wr),
            ("max_srq_sge", attr.max_srq_sge),
            ("max_mcast_grp", attr.max_mcast_grp),
            ("max_mcast_qp_attach", attr.max_mcast_qp_attach),
        ] {
            assert!(value > 0, "{what} is {value}");
        }
        assert!(attr.max_mr_size >= 1 << 30);
        assert_ne!(attr.page_size_cap & 4096, 0);
        assert_eq!(attr.phys_port_cnt, 1);
        assert!(attr.max_pkeys > 0);
        assert_ne!((attr.vendor_id, attr.node_guid, attr.sys_image_guid), (0, 0, 0));
        let wanted = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_XRC;
        assert_eq!(attr.device_cap_flags & wanted, wanted, "{:#x}", attr.device_cap_flags);
        let windows = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
        assert_eq!(attr.device_cap_flags & windows, IBV_DEVICE_MEM_WINDOW_TYPE_2B);
        assert_ne!(attr.atomic_cap, IBV_ATOMIC_NONE);
    }

    fn query_device_ex_agrees_with_query_device() {
        let context = Context::open();
        let (attr, ex) = (
            context.query_device().expect("query_device"),
            context.query_device_ex(0).expect("query_device_ex"),
        );
        assert_eq!(ex.orig_attr.max_qp, attr.max_qp);
        assert_eq!(ex.orig_attr.node_guid, attr.node_guid);
        assert_eq!(ex.orig_attr.device_cap_flags, attr.device_cap_flags);
        assert_eq!(ex.phys_port_cnt_ex, 1);
        assert!(ex.completion_timestamp_mask != 0 && ex.hca_core_clock != 0);
        assert!(ex.max_dm_size > 0, "device memory");
        assert_eq!(ex.tm_caps.max_num_tags, 0, "no tag matching");
        assert_eq!(ex.rss_caps.supported_qpts, 0, "no RSS");
        assert_eq!(ex.raw_packet_caps, 0, "no raw packets");
        assert_eq!(context.query_device_ex(1).err(), Some(libc::EINVAL), "an unknown mask");
    }

    /// Goal: the clock runs, in the unit that `hca_core_clock` (kHz) gives.
    fn the_raw_clock_runs() {
        let context = Context::open();
        let before = context.raw_clock().expect("query_rt_values_ex");
        eventually("the clock has run", TIMEOUT, || {
            let after = context.raw_clock().expect("query_rt_values_ex");
            assert!(after >= before, "{before} {after}");
            after > before
        });
    }

    fn nothing_happens_by_itself() {
        Context::open().expect_no_async_event();
    }
}

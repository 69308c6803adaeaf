//! The port, its GIDs and its P_Keys.

use ferroce_verbs_client::address::PORT;
use ferroce_verbs_client::context::{Context, gid_bytes};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;

verbs_tests! {
    fn the_port_is_active_and_ethernet() {
        let port = Context::open().query_port(PORT).expect("query_port");
        assert_eq!(port.state, IBV_PORT_ACTIVE);
        assert_eq!(u32::from(port.link_layer), IBV_LINK_LAYER_ETHERNET);
        assert!((IBV_MTU_1024..=IBV_MTU_4096).contains(&port.active_mtu));
        assert!(port.active_mtu <= port.max_mtu);
        assert!(port.max_msg_sz >= 1 << 20, "{}", port.max_msg_sz);
        assert!(port.gid_tbl_len >= 2 && port.pkey_tbl_len >= 1);
        assert!([1, 2, 4, 8, 16].contains(&port.active_width), "{}", port.active_width);
        assert_ne!(port.active_speed, 0);
        assert_eq!((port.lid, port.sm_lid), (0, 0), "RoCE has no LIDs");
    }

    fn other_ports_are_refused() {
        let context = Context::open();
        for port in [0, 2, 255] {
            assert_eq!(context.query_port(port).err(), Some(libc::EINVAL), "port {port}");
        }
    }

    fn every_index_of_the_gid_table_answers() {
        let context = Context::open();
        let length = context.query_port(PORT).expect("query_port").gid_tbl_len;
        for index in 0..length {
            context.query_gid(PORT, index).expect("an index below gid_tbl_len");
        }
        assert!(context.query_gid(PORT, length).is_err(), "behind the end");
        assert!(context.query_gid(PORT, -1).is_err());
        assert!(context.query_gid(2, 0).is_err(), "port 2");
    }

    fn gid_1_is_an_ipv4_address() {
        let gid = Context::open().query_gid(PORT, 1).expect("query_gid");
        assert_eq!(gid_bytes(&gid)[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    }

    fn query_gid_ex_says_roce_v2() {
        let context = Context::open();
        for index in 0..2 {
            let entry = context.query_gid_ex(1, index, 0).expect("query_gid_ex");
            assert_eq!(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
            assert_eq!((entry.gid_index, entry.port_num), (index, 1));
            assert_ne!(entry.ndev_ifindex, 0, "the netdev");
            let gid = context.query_gid(PORT, index as i32).expect("query_gid");
            assert_eq!(gid_bytes(&entry.gid), gid_bytes(&gid));
        }
    }

    fn query_gid_ex_refuses() {
        let context = Context::open();
        assert!(context.query_gid_ex(1, 0, 1).is_err(), "unknown flags");
        assert!(context.query_gid_ex(2, 0, 0).is_err(), "port 2");
        assert!(context.query_gid_ex(1, 100_000, 0).is_err(), "index behind the end");
    }

    fn query_gid_table_lists_what_is_there() {
        let context = Context::open();
        let table = context.query_gid_table(64, 0).expect("query_gid_table");
        assert!(table.len() >= 2);
        for entry in &table {
            let same = context.query_gid_ex(1, entry.gid_index, 0).expect("query_gid_ex");
            assert_eq!(gid_bytes(&same.gid), gid_bytes(&entry.gid));
        }
        assert_eq!(context.query_gid_table(1, 0).err(), Some(libc::EINVAL), "too little room");
        assert!(context.query_gid_table(64, 1).is_err(), "unknown flags");
    }

    fn the_default_pkey_is_there() {
        let context = Context::open();
        assert_eq!(context.query_pkey(PORT, 0), Ok(0xffff));
        assert_eq!(context.pkey_index(PORT, 0xffff), 0);
        assert!(context.pkey_index(PORT, 0x1234) < 0);
        let length = context.query_port(PORT).expect("query_port").pkey_tbl_len;
        assert!(context.query_pkey(PORT, i32::from(length)).is_err());
        assert!(context.query_pkey(2, 0).is_err());
    }
}

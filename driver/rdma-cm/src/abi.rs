//! Layouts of commands and responses in version 4 of the ABI, as `rdma/rdma_user_cm.h`,
//! `rdma/ib_user_verbs.h` and `rdma/ib_user_sa.h` declare them. Numbers are in host byte order
//! unless the name says otherwise.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The version in `/sys/class/misc/rdma_cm/abi_version`.
pub const ABI_VERSION: u32 = 4;

/// Declares a layout with its size: all its fields are numbers and bytes without gaps.
macro_rules! layouts {
    ($($(#[$about:meta])* struct $name:ident: $size:literal {
        $($(#[$about_field:meta])* $field:ident: $kind:ty,)*
    })*) => {
        $(
            $(#[$about])*
            #[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            pub(crate) struct $name {
                $($(#[$about_field])* pub(crate) $field: $kind,)*
            }

            const _: () = assert!(size_of::<$name>() == $size);
        )*
    };
}

/// `struct sockaddr_in6`, or a `sockaddr_in` in its place.
pub(crate) type SockaddrIn6 = [u8; 28];
/// `struct __kernel_sockaddr_storage`
pub(crate) type SockaddrStorage = [u8; 128];

layouts! {
    struct Header: 8 {
        command: u32,
        input: u16,
        output: u16,
    }
    struct CreateId: 24 {
        uid: u64,
        response: u64,
        port_space: u16,
        qp_type: u8,
        reserved: [u8; 5],
    }
    /// DESTROY_ID and LEAVE_MCAST.
    struct DestroyId: 16 {
        response: u64,
        id: u32,
        reserved: u32,
    }
    struct BindIp: 40 {
        response: u64,
        address: SockaddrIn6,
        id: u32,
    }
    struct Bind: 136 {
        id: u32,
        address_size: u16,
        reserved: u16,
        address: SockaddrStorage,
    }
    struct ResolveIp: 64 {
        source: SockaddrIn6,
        destination: SockaddrIn6,
        id: u32,
        timeout_ms: u32,
    }
    struct ResolveAddr: 272 {
        id: u32,
        timeout_ms: u32,
        source_size: u16,
        destination_size: u16,
        reserved: u32,
        source: SockaddrStorage,
        destination: SockaddrStorage,
    }
    struct ResolveRoute: 8 {
        id: u32,
        timeout_ms: u32,
    }
    /// QUERY and QUERY_ROUTE.
    struct Query: 16 {
        response: u64,
        id: u32,
        option: u32,
    }
    struct UserPath: 64 {
        dgid: [u8; 16],
        sgid: [u8; 16],
        dlid_be: [u8; 2],
        slid_be: [u8; 2],
        raw_traffic: u32,
        flow_label_be: [u8; 4],
        reversible: u32,
        mtu: u32,
        pkey_be: [u8; 2],
        hop_limit: u8,
        traffic_class: u8,
        numb_path: u8,
        sl: u8,
        mtu_selector: u8,
        rate_selector: u8,
        rate: u8,
        packet_life_time_selector: u8,
        packet_life_time: u8,
        preference: u8,
    }
    struct RouteResponse: 208 {
        node_guid_be: [u8; 8],
        paths: [UserPath; 2],
        source: SockaddrIn6,
        destination: SockaddrIn6,
        num_paths: u32,
        port_num: u8,
        reserved: [u8; 3],
        device_index: u32,
        reserved1: u32,
    }
    /// The response to QUERY for addresses and for GIDs.
    struct AddressResponse: 280 {
        node_guid_be: [u8; 8],
        port_num: u8,
        reserved: u8,
        pkey_be: [u8; 2],
        source_size: u16,
        destination_size: u16,
        source: SockaddrStorage,
        destination: SockaddrStorage,
        device_index: u32,
        reserved1: u32,
    }
    struct PathHeader: 8 {
        num_paths: u32,
        reserved: u32,
    }
    /// A path as a record of the subnet administrator (IBTA vol 1, table 181).
    struct PathData: 72 {
        flags: u32,
        reserved: u32,
        service_id_be: [u8; 8],
        dgid: [u8; 16],
        sgid: [u8; 16],
        lids: [u8; 4],
        /// Raw traffic, 3 reserved bits, flow label, hop limit.
        flow_and_hops_be: [u8; 4],
        traffic_class: u8,
        /// Reversible, number of paths.
        reversible: u8,
        pkey_be: [u8; 2],
        /// QoS class, service level.
        sl_be: [u8; 2],
        /// Selector in the upper two bits of this and the next two.
        mtu: u8,
        rate: u8,
        packet_life_time: u8,
        preference: u8,
        reserved_end: [u8; 6],
    }
    struct SockaddrIb: 48 {
        family: u16,
        pkey_be: [u8; 2],
        flow_info_be: [u8; 4],
        gid: [u8; 16],
        service_id_be: [u8; 8],
        service_id_mask_be: [u8; 8],
        scope_id: u64,
    }
    struct ConnParam: 272 {
        qp_num: u32,
        qkey: u32,
        private_data: [u8; 256],
        private_data_len: u8,
        srq: u8,
        responder_resources: u8,
        initiator_depth: u8,
        flow_control: u8,
        retry_count: u8,
        rnr_retry_count: u8,
        valid: u8,
    }
    struct AhAttr: 32 {
        dgid: [u8; 16],
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
        reserved_grh: u8,
        dlid: u16,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
        reserved: u8,
    }
    struct UdParam: 304 {
        qp_num: u32,
        qkey: u32,
        ah_attr: AhAttr,
        private_data: [u8; 256],
        private_data_len: u8,
        reserved: [u8; 7],
    }
    /// Enhanced connection establishment.
    struct EceParam: 8 {
        vendor_id: u32,
        attr_mod: u32,
    }
    struct Connect: 288 {
        conn_param: ConnParam,
        id: u32,
        reserved: u32,
        ece: EceParam,
    }
    struct Listen: 8 {
        id: u32,
        backlog: u32,
    }
    struct Accept: 296 {
        uid: u64,
        conn_param: ConnParam,
        id: u32,
        reserved: u32,
        ece: EceParam,
    }
    struct Reject: 264 {
        id: u32,
        private_data_len: u8,
        reason: u8,
        reserved: [u8; 2],
        private_data: [u8; 256],
    }
    struct Disconnect: 4 {
        id: u32,
    }
    struct InitQpAttr: 16 {
        response: u64,
        id: u32,
        qp_state: u32,
    }
    struct QpAttr: 144 {
        qp_attr_mask: u32,
        qp_state: u32,
        cur_qp_state: u32,
        path_mtu: u32,
        path_mig_state: u32,
        qkey: u32,
        rq_psn: u32,
        sq_psn: u32,
        dest_qp_num: u32,
        qp_access_flags: u32,
        ah_attr: AhAttr,
        alt_ah_attr: AhAttr,
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
        pkey_index: u16,
        alt_pkey_index: u16,
        en_sqd_async_notify: u8,
        sq_draining: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        reserved: [u8; 5],
    }
    struct GetEvent: 8 {
        response: u64,
    }
    struct EventResponse: 336 {
        uid: u64,
        id: u32,
        event: u32,
        status: i32,
        /// A `ConnParam`, a `UdParam`, or the argument of WRITE_CM_EVENT.
        param: [u8; 304],
        reserved: u32,
        ece: EceParam,
    }
    struct SetOption: 24 {
        value: u64,
        id: u32,
        level: u32,
        name: u32,
        length: u32,
    }
    struct Notify: 8 {
        id: u32,
        event: u32,
    }
    struct JoinIpMcast: 48 {
        response: u64,
        uid: u64,
        address: SockaddrIn6,
        id: u32,
    }
    struct JoinMcast: 152 {
        response: u64,
        uid: u64,
        id: u32,
        address_size: u16,
        join_flags: u16,
        address: SockaddrStorage,
    }
    struct MigrateId: 16 {
        response: u64,
        id: u32,
        fd: u32,
    }
    struct WriteCmEvent: 320 {
        id: u32,
        reserved: u32,
        event: u32,
        status: i32,
        param: [u8; 304],
    }
}

/// Returns a layout of zeros.
pub(crate) fn zeroed<T: FromZeros>() -> T {
    T::new_zeroed()
}

//! The public structs of `<infiniband/verbs.h>`, as `repr(C)` mirrors.
//!
//! They follow rdma-core 65 and are supersets: each older struct is a prefix of its mirror (a
//! suffix for `verbs_context`, which grows at its front). Sizes are asserted here; `tests/abi.rs`
//! compares every size and offset with the installed header, field by field from [`layouts`].

#![expect(
    non_camel_case_types,
    non_snake_case,
    reason = "names are spelled as in verbs.h"
)]

mod constants;
mod context;
mod device;
mod domains;
mod kernel;
mod objects;
mod work;

pub use constants::*;
pub use context::*;
pub use device::*;
pub use domains::*;
pub use kernel::*;
pub use objects::*;
pub use work::*;

/// Location of one field of a mirrored struct.
#[derive(Clone, Copy, Debug)]
pub struct FieldLayout {
    /// Name as C spells it; dots access unions and nested structs.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Bytes that the field takes.
    pub size: usize,
    /// First rdma-core release that has the field; 0: every release that is supported.
    pub since: u32,
}

/// Size of a mirrored struct and all its fields.
#[derive(Clone, Copy, Debug)]
pub struct StructLayout {
    /// Name after the C keyword `struct` (or `union`).
    pub name: &'static str,
    /// C keyword in front of the name.
    pub keyword: &'static str,
    /// `sizeof`.
    pub size: usize,
    /// First rdma-core release that has the struct; 0: every release that is supported.
    pub since: u32,
    /// True if new fields are added at the front, so that offsets count from the end.
    pub grows_up: bool,
    /// Header that declares it.
    pub header: &'static str,
    /// Its fields in order.
    pub fields: &'static [FieldLayout],
}

/// A struct of the verbs ABI that can be compared with its C original.
pub trait Mirror {
    /// Layout of the struct.
    const LAYOUT: StructLayout;
}

/// Declares mirrors: the struct, its documentation and its row for [`layouts`].
///
/// `since NN` after a field or struct names the release that introduced it.
macro_rules! mirror {
    ($(
        $(#[$attribute:meta])*
        $keyword:ident $name:ident
            $(since $struct_since:literal)? $(in $header:literal)? $(, $grows:ident)?
        {
            $( $field:ident: $type:ty $(, since $since:literal)?; )*
        }
    )*) => {$(
        $(#[$attribute])*
        #[doc = concat!("`", stringify!($keyword), " ", stringify!($name), "`.")]
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub $keyword $name {
            $(
                #[doc = concat!("`", stringify!($field), "`")]
                pub $field: $type,
            )*
        }

        impl $crate::abi::Mirror for $name {
            const LAYOUT: $crate::abi::StructLayout = $crate::abi::StructLayout {
                name: stringify!($name),
                keyword: stringify!($keyword),
                size: size_of::<$name>(),
                since: 0 $( + $struct_since )?,
                grows_up: false $( || mirror!(@ $grows) )?,
                header: mirror!(@header $($header)?),
                fields: &[$(
                    $crate::abi::FieldLayout {
                        name: stringify!($field),
                        offset: std::mem::offset_of!($name, $field),
                        size: size_of::<$type>(),
                        since: 0 $( + $since )?,
                    },
                )*],
            };
        }
    )*};
    (@ grows_up) => { true };
    (@header) => { "infiniband/verbs.h" };
    (@header $header:literal) => { $header };
}
use mirror;

/// Returns every mirrored struct, for the comparison with the C header.
pub fn layouts() -> Vec<StructLayout> {
    macro_rules! collect {
        ($($name:ident)*) => { vec![$( <$name as Mirror>::LAYOUT ),*] };
    }
    collect![
        ibv_gid ibv_gid_entry ibv_device ibv_device_attr ibv_query_device_ex_input ibv_odp_caps
        ibv_tso_caps ibv_rss_caps ibv_packet_pacing_caps ibv_tm_caps ibv_cq_moderation_caps
        ibv_pci_atomic_caps ibv_device_attr_ex ibv_port_attr ibv_async_event ibv_pd ibv_mr
        ibv_mr_init_attr ibv_mw ibv_global_route ibv_grh ibv_ah_attr ibv_ah ibv_srq_attr
        ibv_srq_init_attr ibv_srq ibv_comp_channel ibv_cq ibv_poll_cq_attr ibv_wc_tm_info ibv_cq_ex
        ibv_cq_init_attr_ex ibv_wc ibv_qp_cap ibv_qp_init_attr ibv_rx_hash_conf
        ibv_qp_init_attr_ex ibv_qp_attr ibv_qp ibv_qp_ex ibv_ece ibv_data_buf ibv_sge ibv_send_wr
        ibv_recv_wr ibv_mw_bind_info ibv_mw_bind ibv_values_ex ibv_td_init_attr ibv_td
        ibv_parent_domain_init_attr ibv_xrcd_init_attr ibv_xrcd ibv_qp_open_attr ibv_tm_cap
        ibv_srq_init_attr_ex ibv_alloc_dm_attr ibv_dm ibv_moderate_cq ibv_modify_cq_attr
        ibv_context_ops ibv_context verbs_context
        ib_uverbs_global_route ib_uverbs_ah_attr ib_uverbs_qp_attr ib_user_path_rec ibv_sa_path_rec
    ]
}

/// Sizes that programs were compiled with (x86-64). A change here is a change of the ABI.
#[cfg(target_arch = "x86_64")]
const _: () = {
    assert!(size_of::<ibv_device>() == 664);
    assert!(size_of::<ibv_context_ops>() == 256);
    assert!(size_of::<ibv_context>() == 328);
    // 648 in release 44; 6 entries have been added at the front since.
    assert!(size_of::<verbs_context>() == 648 + 6 * 8);
    assert!(size_of::<ibv_device_attr>() == 232);
    assert!(size_of::<ibv_device_attr_ex>() == 400);
    // 52 before release 49.
    assert!(size_of::<ibv_port_attr>() == 56);
    assert!(size_of::<ibv_gid_entry>() == 32);
    assert!(size_of::<ibv_pd>() == 16);
    assert!(size_of::<ibv_mr>() == 48);
    assert!(size_of::<ibv_mw>() == 32);
    assert!(size_of::<ibv_ah>() == 24);
    assert!(size_of::<ibv_comp_channel>() == 16);
    assert!(size_of::<ibv_cq>() == 128);
    assert!(size_of::<ibv_cq_ex>() == 288);
    assert!(size_of::<ibv_wc>() == 48);
    assert!(size_of::<ibv_srq>() == 128);
    assert!(size_of::<ibv_qp>() == 160);
    // 344 before release 44, 352 in 44.
    assert!(size_of::<ibv_qp_ex>() == 360);
    assert!(size_of::<ibv_qp_attr>() == 144);
    assert!(size_of::<ibv_qp_init_attr>() == 64);
    assert!(size_of::<ibv_qp_init_attr_ex>() == 136);
    assert!(size_of::<ibv_sge>() == 16);
    assert!(size_of::<ibv_send_wr>() == 128);
    assert!(size_of::<ibv_recv_wr>() == 32);
    assert!(size_of::<ibv_async_event>() == 16);
    assert!(std::mem::offset_of!(ibv_context, abi_compat) == 320);
    assert!(std::mem::offset_of!(ibv_context_ops, poll_cq) == 88);
    assert!(std::mem::offset_of!(ibv_context_ops, post_send) == 200);
    assert!(std::mem::offset_of!(ibv_qp, qp_num) == 52);
    assert!(std::mem::offset_of!(ibv_cq_ex, start_poll) == 144);
};

//! RoCEv2 and the layers below it, as bytes and as typed values.
//!
//! There are two levels. *Bytes* are checked once by the `parse` functions, which return a value or
//! a typed [`Error`] for any input and never panic. *Values* are plain structs: a value built by a
//! constructor can be emitted, and parses back to the same value. Reserved bits are kept, so that
//! everything accepted is emitted again byte for byte.
//!
//! - [`psn`], [`identifiers`], [`address`]: numbers and addresses as distinct types.
//! - [`opcode`]: the opcode byte; each property is computed from (transport, operation, position)
//!   of [`operation`].
//! - [`ethernet`], [`vlan`], [`ipv4`], [`ipv6`], [`udp`]: the layers below the transport; IP also
//!   carries ICMP, which has its [`checksum`].
//! - [`bth`], [`reth`], [`aeth`], [`deth`], [`atomic`], [`flush`], [`immediate`], [`xrc`]: the
//!   headers of the transport, one file each; [`headers`]: the BTH and the extension of its opcode.
//! - [`network_path`]: the headers below the transport. [`layout`]: the positions of the parts of a
//!   frame.
//! - [`frame`]: a whole frame. [`path`]: the fast way to emit frames. [`icrc`]: the invariant CRC.
//! - [`recovery`]: the reserved bits and the bitmap of selective repeat, an extension of Ferroce.
//! - [`cm`]: management datagrams on QP 1, and the messages of communication management in them.
//! - [`pcapng`]: frames in captures. [`pretty`]: a frame as text. [`check`]: checks this crate
//!   against foreign frames.
//!
//! The crate knows no clock, no thread and no memory except the buffers that it is given.
#![forbid(unsafe_code)]

pub mod address;
pub mod aeth;
pub mod atomic;
pub mod bth;
pub mod check;
pub mod checksum;
pub mod cm;
mod codec;
pub mod deth;
pub mod error;
pub mod ethernet;
pub mod flush;
pub mod frame;
pub mod header_set;
pub mod headers;
pub mod icrc;
pub mod identifiers;
pub mod immediate;
pub mod ipv4;
pub mod ipv6;
pub mod layout;
pub mod network_path;
pub mod opcode;
pub mod operation;
pub mod path;
pub mod pcapng;
pub mod pretty;
pub mod psn;
pub mod recovery;
pub mod reth;
pub mod udp;
pub mod vlan;
pub mod xrc;

pub use address::{Gid, Mac};
pub use aeth::{Aeth, CreditCount, NakCode, RnrTimer, Syndrome};
pub use atomic::{AtomicAckEth, AtomicEth};
pub use bth::{Bth, pad_count};
pub use checksum::internet_checksum;
pub use deth::Deth;
pub use error::{Error, NotRoce};
pub use ethernet::{EtherType, EthernetHeader};
pub use flush::{Feth, FlushRange};
pub use frame::{Frame, FrameKind, classify};
pub use header_set::HeaderSet;
pub use headers::{
    Connected, Extension, MessageEnd, ReadPart, RequestExtension, SendPart, TransportHeaders,
    WritePart,
};
pub use identifiers::{PKey, QKey, Qpn, RKey};
pub use immediate::{Ieth, Immediate};
pub use ipv4::Ipv4Header;
pub use ipv6::Ipv6Header;
pub use layout::FrameLayout;
pub use network_path::{Ip, IpVersion, NetworkPath, Station};
pub use opcode::{Opcode, OpcodeProperties};
pub use operation::{Operation, Position, Transport};
pub use path::{IcrcMode, PathTemplate, emit_frame, finish};
pub use pretty::Pretty;
pub use psn::{Msn, Psn};
pub use recovery::{Arrivals, REORDER_WINDOW_PACKETS, RecoveryBits};
pub use reth::Reth;
pub use udp::UdpHeader;
pub use vlan::VlanTag;
pub use xrc::XrcEth;

//! RoCEv2 and the layers below it, as bytes and as typed values.
//!
//! Two levels meet here. *Bytes* are judged once, by the `parse` functions, which answer any
//! input with a value or a typed [`Error`] and never panic. *Values* are plain structs: what can be
//! built by a constructor can be emitted, and parses back to the same value. Reserved bits are
//! kept, so that whatever was accepted is emitted again byte for byte.
//!
//! - [`psn`], [`identifiers`], [`address`]: numbers and addresses that must not be mixed up.
//! - [`opcode`]: the opcode byte; each property is computed from (transport, operation, position)
//!   of [`operation`].
//! - [`ethernet`], [`vlan`], [`ipv4`], [`ipv6`], [`udp`]: what carries the transport; IP carries
//!   ICMP, too, which has its [`checksum`].
//! - [`bth`], [`reth`], [`aeth`], [`deth`], [`atomic`], [`immediate`], [`xrc`]: the headers of the
//!   transport, one file each; [`headers`]: BTH and the extension that its opcode demands.
//! - [`network_path`]: the headers below the transport. [`layout`]: where the parts of a frame lie.
//! - [`frame`]: a whole frame. [`path`]: the fast way to emit frames. [`icrc`]: what protects them.
//! - [`recovery`]: the reserved bits and the bitmap of selective repeat, Ferroce's own.
//! - [`cm`]: management datagrams on QP 1, and the messages of communication management in them.
//! - [`pretty`]: a frame as text. [`check`]: checks this crate against foreign frames.
//!
//! The crate knows no clock, no thread and no memory but the buffer that it is given.
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
pub use network_path::{Ip, IpVersion, NetworkPath};
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

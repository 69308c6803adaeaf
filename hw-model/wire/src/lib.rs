//! RoCEv2 and the layers below it, as bytes and as typed values.
//!
//! Two levels meet here. *Bytes* are judged once, by the `parse` functions, which answer any
//! input with a value or a typed [`Error`] and never panic. *Values* are plain structs: what can be
//! built by a constructor can be emitted, and parses back to the same value. Reserved bits are
//! kept, so that whatever was accepted is emitted again byte for byte.
//!
//! - [`psn`], [`identifiers`], [`address`]: numbers and addresses that must not be mixed up.
//! - [`opcode`]: the opcode byte; each property is computed from (transport, operation, position).
//! - [`bth`], [`reth`], [`aeth`], [`deth`], [`atomic`], [`immediate`], [`xrc`]: one header each.
//! - [`headers`]: BTH and the extension that its opcode demands.
//!
//! The crate knows no clock, no thread and no memory but the buffer that it is given.
#![forbid(unsafe_code)]

pub mod address;
pub mod aeth;
pub mod atomic;
pub mod bth;
mod codec;
pub mod deth;
pub mod error;
pub mod header_set;
pub mod headers;
pub mod identifiers;
pub mod immediate;
pub mod opcode;
pub mod operation;
pub mod psn;
pub mod reth;
pub mod xrc;

pub use address::{Gid, Mac};
pub use aeth::{Aeth, CreditCount, NakCode, RnrTimer, Syndrome};
pub use atomic::{AtomicAckEth, AtomicEth};
pub use bth::{Bth, pad_count};
pub use deth::Deth;
pub use error::{Error, NotRoce};
pub use header_set::HeaderSet;
pub use headers::{
    Connected, Extension, MessageEnd, ReadPart, RequestExtension, SendPart, TransportHeaders,
    WritePart,
};
pub use identifiers::{PKey, QKey, Qpn, RKey};
pub use immediate::{Ieth, Immediate};
pub use opcode::{Opcode, OpcodeProperties};
pub use operation::{Operation, Position, Transport};
pub use psn::{Msn, Psn};
pub use reth::Reth;
pub use xrc::XrcEth;

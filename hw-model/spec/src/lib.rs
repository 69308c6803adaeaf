//! The contract between the Ferroce hardware and its software.
//!
//! Everything that both sides must agree on is declared here, once: [`register`] (BAR0),
//! [`doorbell`] and [`push`] (BAR2), [`command`]s, [`wqe`]s, [`cqe`]s, [`eqe`]s, [`context`]s and
//! [`counter`]s. The model decodes with these types and the driver builds with them; the
//! programmer's reference (`README.md` beside this crate) and the forms for other languages
//! (`generated/`) are printed from the same declarations by [`mod@reference`] and [`export`].
//!
//! All integers are little-endian; all structures have no padding. Values that the other side may
//! have written are open enums ([`open_enum`]).

#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

extern crate alloc;

#[cfg(target_endian = "big")]
compile_error!("the layouts of the contract are little-endian");

mod address_path;
pub mod command;
pub mod context;
pub mod contract;
pub mod counter;
pub mod cqe;
pub mod doorbell;
pub mod eqe;
pub mod export;
pub mod layout;
pub mod open_enum;
pub mod personality;
pub mod push;
mod qp;
pub mod reference;
pub mod register;
pub mod wqe;

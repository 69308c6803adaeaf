//! A card that is deliberately broken: the NIC model with a host, a cable and a register block of
//! its own, each of which can be wrong.

mod card;
mod fault;
mod host;

pub use card::Card;
pub use fault::Fault;

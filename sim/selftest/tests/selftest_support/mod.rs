//! A deliberately broken card: the NIC model with a separate host, cable and register block, each
//! of which can have a fault.

mod card;
mod fault;
mod host;

pub use card::Card;
pub use fault::Fault;

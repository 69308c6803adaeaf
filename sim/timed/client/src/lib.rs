//! Programs as they are, in simulated time: what is in the program.
//!
//! [`library`] is what keeps its time, [`membership`] its place in a world, [`bus`] the way to its
//! card, and [`processor`] what its calls cost.

pub mod bus;
pub mod library;
pub mod membership;
pub mod processor;
#[expect(unsafe_code, reason = "a symbol of another library")]
mod time_table;

pub use membership::{Membership, WorldSource};

/// Has this process use the card of its host in a simulated world, where the environment names one.
pub fn install() {
    ferroce_embed::attached::set_source(&WorldSource);
}

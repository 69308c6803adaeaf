//! Unmodified programs in simulated time: the program's side.
//!
//! [`library`] wraps the preloaded time library, [`membership`] joins a world, [`bus`] reaches the
//! card, `interrupts` calls the handlers of interrupts, `paging` does so while the program waits,
//! [`connection_manager`] reaches the host's RDMA CM agent, and [`processor`] charges the costs of
//! calls.

pub mod bus;
pub mod connection_manager;
mod interrupts;
pub mod library;
pub mod membership;
mod paging;
pub mod processor;
#[expect(unsafe_code, reason = "a symbol of another library")]
mod time_table;

pub use ferroce_timed_protocol::event_mark;

pub use connection_manager::{CmReply, ConnectionManager};
pub use membership::{Membership, WORLD_VARIABLE, WorldSource};

/// Lets this process use the card of its host in a simulated world, if the environment names one.
pub fn install() {
    ferroce_embed::attached::set_source(&WorldSource);
}

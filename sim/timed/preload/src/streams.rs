//! TCP between the programs of a world, in simulated time.
//!
//! The bytes go through the kernel at once. The world decides when they arrive: the sender reports
//! how many it has written ([`StoreKind::Send`]); the receiver waits until the world reports that
//! they have arrived ([`Wait::OnStream`]), reads them, and reports that ([`StoreKind::Receive`]). A
//! thread that has its turn never waits in the kernel for another program of the world, because
//! that program may need a turn first.
//!
//! - [`name`]: the common name of a direction at both ends.
//! - [`known`]: the connections within the world.
//! - [`set_up`]: connecting, accepting and closing.
//! - [`transfer`]: sending and receiving.
//!
//! The program's calls come from [`crate::sockets`] and [`crate::files`]. Connections to programs
//! outside of the world are treated like any other descriptor; connections from outside are refused
//! ([`crate::foreign_peers`]).
//!
//! [`StoreKind::Send`]: ferroce_timed_protocol::store::StoreKind::Send
//! [`StoreKind::Receive`]: ferroce_timed_protocol::store::StoreKind::Receive
//! [`Wait::OnStream`]: ferroce_timed_protocol::request::Wait::OnStream

pub mod known;
pub mod name;
pub mod set_up;
pub mod transfer;

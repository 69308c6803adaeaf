//! The two interfaces of the card: the [`host`] and the [`port`].

pub mod host;
pub mod port;

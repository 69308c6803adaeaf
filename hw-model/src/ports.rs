//! The two sides of the card: the [`host`] and the [`port`].

pub mod host;
pub mod port;

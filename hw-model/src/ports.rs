//! The two sides of the card, the [`host`] and the [`port`], and the card as a [`function`].

pub mod function;
pub mod host;
pub mod port;

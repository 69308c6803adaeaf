//! The forms of the contract. One program: the crate is compiled once for all.

mod export;
mod reference;
mod vectors;

//! Records. One program: the crate is compiled once for all.

mod compare;
mod files;

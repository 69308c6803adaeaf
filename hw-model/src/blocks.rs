//! Selects the implementation of each exchangeable block of a NIC.
//!
//! An exchangeable block has a trait for its ports. Another implementation, such as a twin in RTL,
//! has the same ports: the NIC is built with another [`Blocks`].

use std::fmt::Debug;

use crate::translation::mtt::{Mtt, TranslationTable};

/// The implementations of the exchangeable blocks.
pub trait Blocks: Debug {
    /// The memory translation table.
    type Mtt: TranslationTable;
}

/// The blocks of the model.
#[derive(Debug, Clone, Copy)]
pub struct Model;

impl Blocks for Model {
    type Mtt = Mtt;
}

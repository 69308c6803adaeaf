//! Objects of verbs: the device at the root, and what is created on it.

pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod dm;
pub(crate) mod health_check;
pub(crate) mod memory;
pub(crate) mod mr;
pub(crate) mod mw;
pub(crate) mod on_demand;
pub(crate) mod pd;
pub(crate) mod qp;
pub(crate) mod qp_config;
pub(crate) mod srq;
pub(crate) mod transition;
pub(crate) mod translation;
pub(crate) mod translation_range;
pub(crate) mod xrcd;

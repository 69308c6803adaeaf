//! Control of the device: registers, commands, events, numbers of objects, and its health.

pub(crate) mod bring_up;
pub(crate) mod command;
pub(crate) mod device_config;
pub(crate) mod event;
pub(crate) mod health;
pub(crate) mod mmio;
pub(crate) mod numbers;
pub(crate) mod page_fault;

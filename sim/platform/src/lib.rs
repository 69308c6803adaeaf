//! What a model needs of the machine that it runs on.
//!
//! - [`memory`]: memory of a process as the device reads and writes it by DMA. [`mapping`]: what a
//!   bus checks of a mapping before.
//! - [`shared_memory`]: files that two processes map. [`doorbells`]: BAR2, and doorbells that come
//!   through such files. [`interrupts`]: from the thread of the model to handlers.
//! - [`served`]: a model that another process uses as its card.
//! - [`host`]: name and addresses of a host; [`numbered_hosts`]: of one that only its number names.
//! - [`pcapng`]: blocks of captures. [`fork`]: what a child must not touch. [`log`]:
//!   diagnostics. [`os`]: system calls.
//!
//! `unsafe` is in [`memory`], [`shared_memory`] and [`os`] only.

pub mod doorbells;
pub mod fork;
pub mod host;
pub mod interrupts;
pub mod log;
pub mod mapping;
pub mod memory;
pub mod numbered_hosts;
pub mod os;
pub mod pcapng;
pub mod served;
pub mod shared_memory;

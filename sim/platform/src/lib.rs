//! The machine below a model: its process and its operating system.
//!
//! - [`memory`]: memory of a process as the device accesses it by DMA. [`mapping`]: checks of a bus
//!   before a mapping.
//! - [`shared_memory`]: files that two processes map. [`doorbells`]: BAR2, and doorbells that come
//!   through such files. [`interrupts`]: from the thread of the model to handlers.
//! - [`served`]: a model that another process uses as its card.
//! - [`host`]: name and addresses of a host; [`numbered_hosts`]: the same for a host with only a
//!   number.
//! - [`explain`]: refused verbs and failed completions, counted for the end of a program.
//! - [`pcapng`]: blocks of captures. [`fork`]: restrictions of a child process. [`log`]:
//!   diagnostics. [`os`]: system calls. [`prefetch`]: of the processor's cache.
//!
//! `unsafe` is in [`memory`], [`shared_memory`], [`prefetch`] and [`os`] only.

pub mod doorbells;
pub mod explain;
pub mod fork;
pub mod host;
pub mod interrupts;
pub mod log;
pub mod mapping;
pub mod memory;
pub mod numbered_hosts;
pub mod os;
pub mod pcapng;
pub mod prefetch;
pub mod served;
pub mod shared_memory;

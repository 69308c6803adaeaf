//! The machine below a model: its process and its operating system.
//!
//! - [`mapping`]: checks of a bus before a mapping. [`own_memory`]: memory of this process,
//!   whatever its rights to it are. [`mapped_file`]: memory that is a mapping of a known file.
//! - [`shared_memory`]: files that two processes map. [`doorbells`]: BAR2, and doorbells that come
//!   through such files.
//! - [`served`]: a model that another process uses as its card.
//! - [`host`]: name and addresses of this process's host.
//! - [`explain`]: refused verbs and failed completions, counted for the end of a program.
//! - [`capture_file`]: files of captures. [`fork`]: restrictions of a child process. [`log`]:
//!   diagnostics. [`os`]: system calls.
//!
//! What a model needs without an operating system is in [`ferroce_host`]. `unsafe` is in
//! [`shared_memory`] and [`os`] only.

pub mod capture_file;
pub mod doorbells;
pub mod explain;
pub mod fork;
pub mod host;
pub mod log;
pub mod mapped_file;
pub mod mapping;
pub mod os;
pub mod own_memory;
pub mod served;
pub mod shared_memory;

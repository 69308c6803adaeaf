//! The functions of libc that set timers.
//!
//! [`crate::timers`] handles timers that are due.
//!
//! - [`interval`]: `alarm` and `setitimer`.
//! - [`posix`]: `timer_create` and its relatives.
//! - [`descriptors`]: `timerfd_create` and its relatives.

mod descriptors;
mod interval;
mod posix;

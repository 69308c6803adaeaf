//! The functions of libc that set timers.
//!
//! What happens when a timer is due: [`crate::timers`].
//!
//! - [`interval`]: `alarm` and `setitimer`.
//! - [`posix`]: `timer_create` and its relatives.
//! - [`descriptors`]: `timerfd_create` and its relatives.

mod descriptors;
mod interval;
mod posix;

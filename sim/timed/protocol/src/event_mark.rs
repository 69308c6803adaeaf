//! The mark on descriptors of the verbs library.

/// The signal (`F_SETSIG`) that the verbs library gives the descriptors of its event queues. They
/// are pipes, which other programs use, too; by this the time library sees that what makes one
/// readable happens in simulated time. No signal is sent: that takes `O_ASYNC`, with which `SIGIO`
/// (29 in Linux) is what is sent anyway.
pub const EVENT_MARK: i32 = 29;
/// `F_SETSIG` and `F_GETSIG` of `<asm-generic/fcntl.h>`.
pub const SET_SIGNAL: i32 = 10;
/// See [`SET_SIGNAL`].
pub const GET_SIGNAL: i32 = 11;

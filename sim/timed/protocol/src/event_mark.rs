//! The mark on descriptors of the verbs library.

/// The signal (`F_SETSIG`) that the verbs library sets for the descriptors of its event queues.
/// They are pipes, which programs also use for other purposes; by this mark the time library knows
/// that such a pipe becomes readable in simulated time. No signal is sent: that needs `O_ASYNC`,
/// which by default sends `SIGIO` (29 in Linux) anyway.
pub const EVENT_MARK: i32 = 29;
/// `F_SETSIG` and `F_GETSIG` of `<asm-generic/fcntl.h>`.
pub const SET_SIGNAL: i32 = 10;
/// See [`SET_SIGNAL`].
pub const GET_SIGNAL: i32 = 11;

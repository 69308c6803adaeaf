//! The contract between a simulated world and the programs that run in its time.
//!
//! ```text
//!   program                                             world
//!   ┌───────────────┐   ThreadPage (shared memory)   ┌──────────────┐
//!   │ runs          │ ── stores, request, clock ───► │ goes on      │
//!   │               │ ◄── clock, interrupts ──────── │              │
//!   └───────────────┘   one of the two has the turn  └──────────────┘
//! ```
//!
//! The world runs the threads of all programs as coroutines: at any time either the world or
//! exactly one thread runs. A thread that has the turn runs at the machine's speed until it needs
//! the state of the world. Its clock is simulated: it advances by the costs of calls, not by the
//! time that they take. Its stores to the card are collected in its page with their times, and the
//! world executes them when the turn ends.
//!
//! So everything happens in the order of simulated time, independent of the machine's speed.
//!
//! - [`page`]: the pages, and passing the turn.
//! - [`spin_policy`]: waiting for the turn.
//! - [`request`]: what a thread waits for when it passes its turn.
//! - [`store`]: the stores of a thread during its turn.
//! - [`cm`]: commands of RDMA CM.
//! - [`children`]: the child processes of a program.
//! - [`inner_pipes`]: pipes between processes of a world.
//! - [`control`]: the socket over which programs join.
//! - [`host_name`]: the names of hosts and of their functions.
//! - [`table`]: functions of the time library for the verbs library.
//! - [`trust`]: whether a program's run can be repeated.
//! - [`event_mark`]: the mark on descriptors of the verbs library.

pub mod children;
pub mod cm;
pub mod control;
pub mod event_mark;
pub mod host_name;
pub mod inner_pipes;
pub mod map;
pub mod name;
pub mod page;
pub mod request;
pub mod spin_policy;
pub mod store;
pub mod table;
pub mod trust;

/// Version of this protocol; the sides communicate only if they have the same one.
pub const VERSION: u32 = 12;

/// Maximum number of programs of a world.
pub const MAX_PROGRAMS: usize = 64;
/// Maximum number of threads of a program at a time.
pub const MAX_THREADS: usize = 64;

/// Picoseconds of a nanosecond.
pub const PS_PER_NS: u64 = 1000;
/// Picoseconds of a cycle of the virtual time stamp counter: it runs at 1 GHz.
pub const PS_PER_CYCLE: u64 = 1000;
/// Value of `CLOCK_REALTIME` when the clock of a world is at zero: 2025-01-01T00:00:00Z, in
/// seconds.
pub const REALTIME_EPOCH_S: u64 = 1_735_689_600;
/// Value of `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME` when the clock of a world is at zero, in
/// seconds.
pub const MONOTONIC_EPOCH_S: u64 = 1000;
/// Time from a write to a stream socket until the other program can read the data.
pub const STREAM_LATENCY_PS: u64 = 20_000_000;
/// What a thread calls itself ([`page::ThreadPage::last_call`]) that lets time pass because it
/// computes for long.
pub const STUCK: &str = "a loop without a call";
/// Time by which a thread may be ahead of its card when it stores to it. Other traffic on the PCIe
/// link during that time queues after stores that have not been made yet: a few nanoseconds each.
pub const MOST_AHEAD_PS: u64 = 500_000;

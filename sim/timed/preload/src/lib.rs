//! Keeps the time of a program that runs in a simulated world.
//!
//! The library is loaded before all others (`LD_PRELOAD`). It does nothing until the verbs library
//! asks for the devices: then the program joins the world that `FERROCE_WORLD` names. From then on
//! all clocks that it can read are simulated, and all calls that wait do so in simulated time.
//!
//! - `table`: functions for the verbs library.
//! - `session`: joining and leaving of the program and its threads; `threads`: threads that it
//!   starts; `thread`: state of each thread.
//! - `caller`: the place from which a program polls.
//! - `turn`: passing the turn and waiting for it.
//! - `clock`: reading the time; `libc_time`, `vdso` and `tsc`: the ways in which programs read it;
//!   `cpuinfo`: the file that states the frequency of the time stamp counter.
//! - `sleep`, `timers`, `waits`, `ready`: waiting for a time, a signal, a thread, a descriptor;
//!   `yields`: threads that yield.
//! - `streams`, `files`: TCP between the programs of a world.
//! - `spin`: programs that wait for a change of memory without a call.
//! - `spawn`: other programs have the time of the machine; `faults`: the program still receives the
//!   signal that the time stamp counter needs.
//!
//! On x86-64 the time stamp counter is simulated, too. On other machines it is not: programs that
//! read it without the C library see the time of the machine.
//!
//! # Rules for this library
//!
//! Most of it may run in a signal handler of the program: no allocation, no lock that the
//! interrupted thread could hold, no system call through the C library (whose names may lead back
//! here). Nothing panics: the program would end without a message.

#[cfg(target_arch = "x86_64")]
mod caller;
mod clock;
mod connection;
mod cpuinfo;
mod descriptor;
mod faults;
mod files;
mod foreign_peers;
mod inside;
mod interrupts;
mod joined;
mod libc_time;
mod membership;
mod next;
mod os;
mod own;
mod ready;
mod real;
mod session;
mod signals;
mod sleep;
mod sockets;
mod spawn;
mod spin;
mod streams;
mod table;
mod thread;
mod threads;
mod time_formats;
mod timer_calls;
mod timers;
#[cfg(target_arch = "x86_64")]
mod tsc;
#[cfg(target_arch = "x86_64")]
mod tsc_trap;
mod turn;
mod vdso;
mod waits;
mod world_end;
mod yields;

//! Keeps the time of a program that runs in a simulated world.
//!
//! The library is loaded before all others (`LD_PRELOAD`). It does nothing until the program joins
//! the world that `FERROCE_WORLD` names: before `main` if it is linked with a library for RDMA
//! (`early`), otherwise when the verbs library asks for the devices. From then on all clocks that
//! it can read are simulated, and all calls that wait do so in simulated time.
//!
//! Each group of modules uses only the groups before it:
//!
//! 1. The machine: `next`, `real` and `os`, functions of the C library and of the kernel;
//!    `descriptor`, `signals`, `tsc_trap` (x86-64), `time_formats`.
//! 2. The state: `joined`, of the program; `thread`, of each thread; `thread_table` and
//!    `sleeper_counts`, of those that wait for one another; `interrupts`, the function that the
//!    verbs library has set; `trust`, whether the program has left simulated time; `inner_pipes`,
//!    of which both ends are in the world; `relatives`, processes with the same ancestor;
//!    `memory_map`.
//! 3. The world: `connection`; `world_end` notices its end; `timers`, the due times of timers;
//!    `foreign_peers`, connections from outside of the world.
//! 4. The turn: `turn` waits for it; `membership` lets threads join and leave; `inside` is a thread
//!    that has the turn, for the verbs library; `own` is the same for a call of the program.
//! 5. Reading the time: `clock`; `libc_time`, `vdso` and `tsc`, for each way of reading it;
//!    `faults`, because the program and the time stamp counter both need `SIGSEGV`.
//! 6. Waiting: `sleep`, `timer_calls`, `waits` and `yields`, for a time, a signal, a thread;
//!    `syscalls`, for any of these by its number; `inputs`, random numbers and thread IDs; `names`,
//!    of the host; `shared_memory`, which makes a run one that cannot be repeated;
//!    `streams`, TCP between the programs of a world; `ready`, `files` and `sockets`, for
//!    descriptors; `spin`, for a change of memory without a call; `caller`, the place from which a
//!    program polls.
//! 7. Other threads and programs: `threads`, which the program starts; `children`, its child
//!    processes.
//! 8. `session`: the program joins and leaves, and its forks; `early`, before `main`;
//!    `kernel_files`, files of the kernel that depend on the world. `table`: functions for the
//!    verbs library. `spawn` and `shell`: other programs.
//!
//! On x86-64 the time stamp counter is simulated, too. On other machines it is not: programs that
//! read it without the C library see real time.
//!
//! # Rules for this library
//!
//! Most of it may run in a signal handler of the program: no allocation, no lock that the
//! interrupted thread could hold, no system call through the C library (whose names may lead back
//! here). Nothing panics: the program would end without a message.

#[cfg(target_arch = "x86_64")]
mod caller;
mod child_signals;
mod children;
mod clock;
mod connection;
mod descriptor;
mod early;
mod faults;
mod files;
mod foreign_peers;
mod inner_pipes;
mod inputs;
mod inside;
mod interrupts;
mod joined;
mod kernel_files;
mod libc_time;
mod membership;
mod memory_map;
mod names;
mod next;
mod os;
mod own;
mod ready;
mod real;
mod relatives;
mod session;
mod shared_memory;
mod shell;
mod signals;
mod sleep;
mod sleeper_counts;
mod sockets;
mod spawn;
mod spin;
mod streams;
mod syscalls;
mod table;
mod thread;
mod thread_table;
mod threads;
mod time_formats;
mod timer_calls;
mod timers;
mod trust;
#[cfg(target_arch = "x86_64")]
mod tsc;
#[cfg(target_arch = "x86_64")]
mod tsc_trap;
mod turn;
mod vdso;
mod waits;
mod world_end;
mod yields;

//! Drop-in `libibverbs.so.1` for the Ferroce RDMA NIC.
//!
//! The crate is a static library that `link.sh` turns into the shared one: the whole public verbs
//! ABI of rdma-core (nodes IBVERBS_1.0 to 1.18) over the driver, so that programs linked against
//! any libibverbs since 1.1 run unchanged.
//!
//! [`ffi`] holds the C interface; the modules below it are the verbs themselves, in safe Rust, one
//! object in each file. Below these, [`abi`] mirrors the structs of C, and [`os`] makes system
//! calls. Unsafe code is in these three only.
//!
//! Compatible: struct layouts and inline calls of every release up to rdma-core 65, `errno` as in
//! the man pages, blocking and cancellation of event calls, level-triggered file descriptors,
//! `fork`. Not compatible: rdma-core's private ABI for its own providers; its names exist and
//! return `ENOSYS`.

#[expect(unsafe_code, reason = "values of structs of C that are all zeros")]
pub mod abi;
mod adapter;
mod address;
mod advice;
mod blocked_threads;
mod builder;
mod convert;
mod counter_files;
mod cq;
mod dm;
mod dma_buf;
mod domain;
mod errno;
mod event;
#[expect(
    unsafe_code,
    reason = "the C boundary: raw pointers of the program, system calls, errno"
)]
pub mod ffi;
mod gid_files;
mod gid_table;
mod host;
mod identity;
mod live_files;
mod log;
mod mr;
mod netlink;
mod on_demand;
mod open_error;
mod opening_thread;
#[expect(
    unsafe_code,
    reason = "system calls for descriptors, mappings and forks"
)]
mod os;
mod qp;
mod rdma_cm;
mod srq;
mod strings;
mod sysfs;
mod tenancy;
mod waiting;
mod wall_clock;
mod watch;
mod xrc;
mod xrc_domains;

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    /// Goal: numbers from the program that overflow do not wrap in release builds (the profile
    /// `release` of the workspace).
    #[test]
    fn sums_that_overflow_are_errors_in_every_profile() {
        let sum = std::panic::catch_unwind(|| black_box(u32::MAX) + black_box(1));
        assert!(sum.is_err());
    }
}

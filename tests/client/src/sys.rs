//! `<infiniband/verbs.h>` as bindgen reads it (`./generate`), and the distribution's library.
//!
//! We do not use the `rdma-sys` crate: its last release needs libclang on each machine that builds
//! the tests, and its bindgen fails with the libclang of Debian 13.

#![expect(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    clippy::undocumented_unsafe_blocks,
    reason = "generated code with the names of C"
)]

include!("../generated/bindings.rs");

#[link(name = "ibverbs")]
unsafe extern "C" {}

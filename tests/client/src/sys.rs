//! `<infiniband/verbs.h>` as bindgen reads it (`./generate`), and the distribution's library.
//!
//! Not the `rdma-sys` crate: its last release wants libclang on each machine that builds the tests,
//! and the bindgen that it asks for stops with an error at the libclang of Debian 13.

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

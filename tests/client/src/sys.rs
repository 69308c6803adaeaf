//! `<infiniband/verbs.h>` as bindgen reads it (`./generate`), linked with the distribution's library.
//!
//! Not the `rdma-sys` crate: its last release wants libclang on each machine that builds the tests,
//! and the bindgen that it asks for stops with an error at the libclang of Debian 13.

#![expect(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    clippy::useless_transmute,
    clippy::missing_safety_doc,
    clippy::ptr_offset_with_cast,
    clippy::allow_attributes_without_reason,
    reason = "generated code with the names of C"
)]

include!("../generated/bindings.rs");

#[link(name = "ibverbs")]
unsafe extern "C" {}

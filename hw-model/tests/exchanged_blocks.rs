//! Tests of whole NICs once more, with other implementations of the exchangeable blocks behind the
//! same ports: see `common/blocks.rs`.

#![expect(
    clippy::duplicate_mod,
    reason = "each file of tests has the harness as a module"
)]

#[path = "datagrams.rs"]
mod datagrams;
#[path = "operations.rs"]
mod operations;
#[path = "queue_pairs.rs"]
mod queue_pairs;
#[path = "regions.rs"]
mod regions;
#[path = "send_wqe.rs"]
mod send_wqe;
#[path = "shared_receive.rs"]
mod shared_receive;
#[path = "unreliable.rs"]
mod unreliable;
#[path = "vanishing.rs"]
mod vanishing;
#[path = "window_operations.rs"]
mod window_operations;
#[path = "xrc.rs"]
mod xrc;

//! Tests of whole NICs of the model, whose memory translation table is the one in RTL: the files
//! are those of hw-model's tests.

#![expect(
    clippy::duplicate_mod,
    reason = "each file of tests has the harness as a module"
)]

#[path = "../../tests/datagrams.rs"]
mod datagrams;
#[path = "../../tests/operations.rs"]
mod operations;
#[path = "../../tests/queue_pairs.rs"]
mod queue_pairs;
#[path = "../../tests/regions.rs"]
mod regions;
#[path = "../../tests/send_wqe.rs"]
mod send_wqe;
#[path = "../../tests/shared_receive.rs"]
mod shared_receive;
#[path = "../../tests/unreliable.rs"]
mod unreliable;
#[path = "../../tests/vanishing.rs"]
mod vanishing;
#[path = "../../tests/window_operations.rs"]
mod window_operations;
#[path = "../../tests/xrc.rs"]
mod xrc;

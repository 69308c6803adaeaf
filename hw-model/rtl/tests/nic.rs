//! Runs hw-model's tests of whole NICs, with the memory translation table in RTL.

#[path = "../../tests/common/mod.rs"]
mod common;

#[path = "../../tests/nic/datagrams.rs"]
mod datagrams;
#[path = "../../tests/nic/operations.rs"]
mod operations;
#[path = "../../tests/nic/queue_pairs.rs"]
mod queue_pairs;
#[path = "../../tests/nic/regions.rs"]
mod regions;
#[path = "../../tests/nic/send_wqe.rs"]
mod send_wqe;
#[path = "../../tests/nic/shared_receive.rs"]
mod shared_receive;
#[path = "../../tests/nic/unreliable.rs"]
mod unreliable;
#[path = "../../tests/nic/vanishing.rs"]
mod vanishing;
#[path = "../../tests/nic/window_operations.rs"]
mod window_operations;
#[path = "../../tests/nic/xrc.rs"]
mod xrc;

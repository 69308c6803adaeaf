//! Tests of whole NICs of the model, whose memory translation table is the one in RTL: the files
//! are those of hw-model's tests.

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

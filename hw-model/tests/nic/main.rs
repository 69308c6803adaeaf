//! Whole NICs, driven by the contract alone; their PCIe and their presets. One program: the model
//! is compiled once for all of them.

#[path = "../common/mod.rs"]
mod common;

mod atomics;
mod chosen_numbers;
mod completion_queues;
mod contract;
mod datagrams;
mod departures;
mod device_faults;
mod flush;
mod golden;
mod gsi;
mod hostile;
mod hostile_contexts;
mod hostile_queues;
mod many_queue_pairs;
mod multicast;
mod on_demand;
mod operations;
mod pcie;
mod pcie_effective_bandwidth;
mod pcie_rules;
mod preset_reference;
mod push;
mod queue_pairs;
mod recovery;
mod regions;
mod send_wqe;
mod shared_receive;
mod software_faults;
mod timed;
mod topology;
mod unreliable;
mod vanishing;
mod window_operations;
mod windows;
mod windows_random;
mod xrc;

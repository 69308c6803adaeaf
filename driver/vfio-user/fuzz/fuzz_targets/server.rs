//! Any bytes as what the server gets from its client.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ferroce_vfio_user::fuzz::server_input(bytes));

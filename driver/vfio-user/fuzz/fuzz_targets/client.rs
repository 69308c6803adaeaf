//! Any bytes as what the client gets from its server.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ferroce_vfio_user::fuzz::client_input(bytes));

//! Feeds any bytes to the server as its client's messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ferroce_vfio_user::fuzz::server_input(bytes));

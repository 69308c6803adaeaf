//! Feeds any bytes to the client as its server's messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ferroce_vfio_user::fuzz::client_input(bytes));

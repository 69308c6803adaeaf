//! See `ferroce_fuzz::wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ferroce_fuzz::wire::fuzz(bytes));

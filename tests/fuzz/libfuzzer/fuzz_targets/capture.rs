//! See `ferroce_fuzz::capture`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ferroce_fuzz::capture::fuzz(bytes));

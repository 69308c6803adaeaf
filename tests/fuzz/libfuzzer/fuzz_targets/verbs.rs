//! See `ferroce_fuzz::verbs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ferroce_fuzz::verbs::fuzz(bytes));

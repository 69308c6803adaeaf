//! See `ferroce_fuzz::model`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ferroce_fuzz::model::fuzz(bytes));

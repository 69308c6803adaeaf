//! The library that keeps a program's time, if it was loaded before the program.

use std::sync::OnceLock;

use ferroce_timed_protocol::table::{GetTable, SYMBOL, TimeTable};

/// What it offers; `None`: the program has the time of the machine.
pub fn time_table() -> Option<&'static TimeTable> {
    static TABLE: OnceLock<Option<&'static TimeTable>> = OnceLock::new();
    *TABLE.get_or_init(|| {
        // SAFETY: the name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: the symbol is a function of this type, whose name says its version.
        let get = unsafe { std::mem::transmute::<*mut libc::c_void, GetTable>(found) };
        Some(get())
    })
}

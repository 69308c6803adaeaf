//! The table of the time library, if it was loaded before the program.

use std::sync::OnceLock;

use ferroce_timed_protocol::table::{GetTable, SYMBOL, TimeTable};

/// Returns the table. `None`: the program runs in real time.
pub fn time_table() -> Option<&'static TimeTable> {
    static TABLE: OnceLock<Option<&'static TimeTable>> = OnceLock::new();
    *TABLE.get_or_init(|| {
        // SAFETY: `dlsym` requires a NUL-terminated name; `SYMBOL` is a `CStr`.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: the library that defines this versioned symbol defines it as a function of type
        // `GetTable`, and `found` is not null.
        let get = unsafe { std::mem::transmute::<*mut libc::c_void, GetTable>(found) };
        Some(get())
    })
}

//! The last line of a program that fails: how to find out why.

use std::ffi::{c_int, c_void};
use std::io::Write as _;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ferroce_driver::failed_completions;
use ferroce_platform::explain;

/// The process that prints the line; 0: none.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Verbs that were refused.
static REFUSED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Notes that a verb was refused.
pub(crate) fn note_refused() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
}

/// Prepares the line for the exit of this process.
pub(crate) fn prepare() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: the function lives as long as the process: this library is never unloaded. On
        // failure (no memory) the line is missing.
        unsafe { on_exit(say, std::ptr::null_mut()) };
    });
}

/// Prints the line if the program fails after something of RDMA has failed, unless its summary is
/// printed anyway.
extern "C" fn say(status: c_int, _: *mut c_void) {
    // A child inherits the handler.
    let is_own = PROCESS.load(Ordering::Relaxed) == std::process::id();
    if status == 0 || !is_own || explain::is_asked() {
        return;
    }
    if let Some(line) = line(REFUSED.load(Ordering::Relaxed), failed_completions()) {
        // The program may have closed its standard error.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Returns the line. `None`: nothing of RDMA has failed.
fn line(refused: u64, failed: u64) -> Option<String> {
    let counted = |count: u64, what: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{count} {what}s")),
    };
    let parts = [
        counted(refused, "refused verb"),
        counted(failed, "failed completion"),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| {
        format!(
            "ferroce: {}: `ferroce run --explain-errors -- PROGRAM` explains them",
            parts.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_counts_what_has_failed() {
        let said = |refused, failed| line(refused, failed).unwrap_or_default();
        assert_eq!(line(0, 0), None);
        assert!(said(1, 0).starts_with("ferroce: 1 refused verb: `"));
        assert!(said(0, 2).starts_with("ferroce: 2 failed completions: `"));
        assert!(said(3, 1).starts_with("ferroce: 3 refused verbs, 1 failed completion: `"));
    }
}

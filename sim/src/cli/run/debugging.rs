//! Options for sanitizers and valgrind that Ferroce's libraries require.
//!
//! If the program is linked with a sanitizer's run-time library, that library stays where the
//! linker put it, after Ferroce's libraries: for symbols that both define, Ferroce's functions call
//! the sanitizer's. Preloading the sanitizer as well would load it into each program that this one
//! starts, and programs without instrumentation fail with it: `sort`, `perl` and `gcc` fail with
//! ASan's. A sanitizer that the user has preloaded is loaded already, and stays first.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::Variables;
use crate::cli::library;

/// A variable with options of a tool, and the option to add.
struct Options {
    variable: &'static str,
    /// Separator of options.
    separator: &'static str,
    /// The option; if the user has set it, it is left unchanged.
    name: &'static str,
    /// True if it may be given more than once.
    is_list: bool,
}

/// ASan's run-time library is not the first library. It refuses to start without this option.
const ASAN: Options = Options {
    variable: "ASAN_OPTIONS",
    separator: ":",
    name: "verify_asan_link_order=",
    is_list: false,
};
const TSAN: Options = Options {
    variable: "TSAN_OPTIONS",
    separator: ":",
    name: "suppressions=",
    is_list: false,
};
const VALGRIND: Options = Options {
    variable: "VALGRIND_OPTS",
    separator: " ",
    name: "--suppressions=",
    is_list: true,
};

/// Prefixes of the file names of sanitizers: GCC's, and Clang's with `-shared-libsan`.
const SANITIZERS: [&str; 9] = [
    "libasan.so",
    "libhwasan.so",
    "liblsan.so",
    "libtsan.so",
    "libubsan.so",
    "libclang_rt.asan",
    "libclang_rt.hwasan",
    "libclang_rt.tsan",
    "libclang_rt.ubsan",
];

impl Options {
    /// Returns the variable with the option added to its existing value.
    fn with(&self, value: &OsStr, existing: Option<OsString>) -> (&'static str, OsString) {
        let mut options = existing.unwrap_or_default();
        if !self.is_list && options.to_string_lossy().contains(self.name) {
            return (self.variable, options);
        }
        if !options.is_empty() {
            options.push(self.separator);
        }
        options.push(self.name);
        options.push(value);
        (self.variable, options)
    }

    /// Returns the variable for the program.
    fn of_program(&self, value: &OsStr) -> (&'static str, OsString) {
        self.with(value, std::env::var_os(self.variable))
    }
}

/// Returns the variables for sanitizers and valgrind; processes that the program starts inherit
/// them.
pub fn variables() -> Variables {
    let files = [
        (TSAN, library::suppressions("tsan.supp")),
        (VALGRIND, library::suppressions("valgrind.supp")),
    ];
    let found = files.into_iter();
    let found = found.filter_map(|(options, file)| Some(options.of_program(file?.as_os_str())));
    std::iter::once(ASAN.of_program(OsStr::new("0")))
        .chain(found)
        .collect()
}

/// Returns the list for `LD_PRELOAD`. Ferroce's libraries come first, because the first library
/// that defines a symbol provides it; only a sanitizer that was first stays before them.
pub fn preload(libraries: &[PathBuf], existing: Option<OsString>) -> OsString {
    let existing = existing.unwrap_or_default();
    // ld.so accepts spaces and colons as separators.
    let names = existing.as_bytes().split(|byte| b": ".contains(byte));
    let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    let sanitizers = names.iter().take_while(|name| is_sanitizer(name)).count();
    let (first, last) = names.split_at(sanitizers);
    let ours = libraries
        .iter()
        .map(|library| library.as_os_str().as_bytes());
    let all = first
        .iter()
        .copied()
        .chain(ours)
        .chain(last.iter().copied());
    OsString::from_vec(all.collect::<Vec<_>>().join(&b':'))
}

/// Returns true for the name or path of a sanitizer's run-time library.
fn is_sanitizer(name: &[u8]) -> bool {
    let file = Path::new(OsStr::from_bytes(name)).file_name();
    let file = file.unwrap_or_default().to_string_lossy();
    SANITIZERS.iter().any(|begin| file.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_user_stay() {
        let with = |options: &Options, value: &str, existing: Option<&str>| {
            options
                .with(OsStr::new(value), existing.map(OsString::from))
                .1
        };
        assert_eq!(with(&ASAN, "0", None), "verify_asan_link_order=0");
        assert_eq!(
            with(&ASAN, "0", Some("detect_leaks=0")),
            "detect_leaks=0:verify_asan_link_order=0"
        );
        let chosen = "verify_asan_link_order=1";
        assert_eq!(with(&ASAN, "0", Some(chosen)), chosen);
        let own = "suppressions=/mine";
        assert_eq!(with(&TSAN, "/ours", Some(own)), own);
        assert_eq!(
            with(&VALGRIND, "/ours", Some("--suppressions=/mine")),
            "--suppressions=/mine --suppressions=/ours"
        );
    }

    #[test]
    fn what_was_preloaded_stays_preloaded() {
        let libraries = ["/l/libferroce_time.so", "/l/libibverbs.so.1"].map(PathBuf::from);
        let with = |existing: &str| preload(&libraries, Some(existing.into()));
        assert_eq!(preload(&libraries[1..], None), "/l/libibverbs.so.1");
        let ours = "/l/libferroce_time.so:/l/libibverbs.so.1";
        assert_eq!(with("/x.so /y.so"), *format!("{ours}:/x.so:/y.so"));
        assert_eq!(
            with("libasan.so.8:/x.so"),
            *format!("libasan.so.8:{ours}:/x.so")
        );
        let clang = "/usr/lib/libclang_rt.asan-x86_64.so";
        assert_eq!(with(clang), *format!("{clang}:{ours}"));
        // A sanitizer that was not first keeps its place.
        assert_eq!(
            with("/x.so:libasan.so.8"),
            *format!("{ours}:/x.so:libasan.so.8")
        );
    }
}

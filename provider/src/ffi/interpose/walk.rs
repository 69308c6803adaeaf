//! Calls that list a directory, walk through a tree or enter it.
//!
//! Inside them libc calls its own functions, which cannot be interposed. So the path where they
//! begin is redirected, and the program gets paths without the prefix.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use libc::{DIR, c_char, c_int, c_short, c_ushort, c_void, size_t};

use super::redirect::{redirect, room, root_length};
use super::{missing, passed_on, status};
use crate::ffi::next::next;

/// Selects entries of a directory, for `scandir`.
type Filter = Option<unsafe extern "C" fn(*const c_void) -> c_int>;
/// Compares two entries of a directory, for `scandir` and `fts_open`.
type Compare = Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>;

passed_on! {
    opendir(;) -> *mut DIR;
    scandir(; names: *mut *mut *mut c_void, filter: Filter, compare: Compare) -> c_int;
    scandir64(; names: *mut *mut *mut c_void, filter: Filter, compare: Compare) -> c_int;
    scandirat(directory: c_int; names: *mut *mut *mut c_void, filter: Filter, compare: Compare)
        -> c_int;
    scandirat64(directory: c_int; names: *mut *mut *mut c_void, filter: Filter, compare: Compare)
        -> c_int;
    chdir(;) -> c_int;
}

/// `glob_t` of `<glob.h>` with the functions that libc calls under `GLOB_ALTDIRFUNC`.
#[repr(C)]
pub struct Glob {
    path_count: size_t,
    paths: *mut *mut c_char,
    offset: size_t,
    flags: c_int,
    closedir: unsafe extern "C" fn(*mut DIR) -> c_int,
    readdir: unsafe extern "C" fn(*mut DIR) -> *mut libc::dirent64,
    opendir: unsafe extern "C" fn(*const c_char) -> *mut DIR,
    lstat: unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int,
    stat: unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int,
}
const _: () = assert!(size_of::<Glob>() == size_of::<libc::glob_t>());

/// Calls the functions in [`Glob`] in place of libc's own: `<glob.h>`.
const GLOB_ALTDIRFUNC: c_int = 1 << 9;

type GlobCall = unsafe extern "C" fn(*const c_char, c_int, *const c_void, *mut Glob) -> c_int;

/// Finds the paths that match a pattern, through the functions of this library.
///
/// # Safety
/// Contract of `glob`; `next` is libc's.
unsafe fn find_paths(
    next: Option<GlobCall>,
    pattern: *const c_char,
    flags: c_int,
    on_error: *const c_void,
    found: *mut Glob,
) -> c_int {
    let Some(next) = next else { return missing() };
    // SAFETY: the caller keeps the contract of `glob`. Without the flag the functions in `found`
    // are undefined on entry, so they may be written.
    unsafe {
        if flags & GLOB_ALTDIRFUNC != 0 {
            return next(pattern, flags, on_error, found);
        }
        (*found).closedir = libc::closedir;
        (*found).readdir = libc::readdir64;
        (*found).opendir = opendir;
        (*found).lstat = status::lstat;
        (*found).stat = status::stat;
        let result = next(pattern, flags | GLOB_ALTDIRFUNC, on_error, found);
        (*found).flags &= !GLOB_ALTDIRFUNC;
        result
    }
}

/// Declares the entries that find the paths that match a pattern.
macro_rules! glob_entries {
    ($($name:ident $entry:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of libc.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $entry(
            pattern: *const c_char,
            flags: c_int,
            on_error: *const c_void,
            found: *mut Glob,
        ) -> c_int {
            // SAFETY: the caller keeps the contract of `glob`, and the next function is libc's.
            unsafe { find_paths(next!($name as GlobCall), pattern, flags, on_error, found) }
        }
    )*};
}
glob_entries!(glob ferroce_glob glob64 ferroce_glob64);

/// `struct FTW` of `<ftw.h>`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Place {
    /// Offset of the file's name in its path.
    base: c_int,
    level: c_int,
}

/// The program's callback for each file of an `ftw` walk.
type Visit = unsafe extern "C" fn(*const c_char, *const libc::stat, c_int) -> c_int;
/// The program's callback for each file of an `nftw` walk.
type VisitPlace =
    unsafe extern "C" fn(*const c_char, *const libc::stat, c_int, *mut Place) -> c_int;

type Ftw = unsafe extern "C" fn(*const c_char, Visit, c_int) -> c_int;
type Nftw = unsafe extern "C" fn(*const c_char, VisitPlace, c_int, c_int) -> c_int;

thread_local! {
    /// The program's function in the walk of this thread through redirected paths.
    static VISIT: Cell<Option<Visit>> = const { Cell::new(None) };
    static VISIT_PLACE: Cell<Option<VisitPlace>> = const { Cell::new(None) };
}

/// Calls the program's function with the path as the program knows it.
unsafe extern "C" fn visit(path: *const c_char, status: *const libc::stat, kind: c_int) -> c_int {
    let Some(program) = VISIT.get() else { return 0 };
    // SAFETY: libc passes the arguments that the program's function expects, of the same type; the
    // shorter path is the end of the same C string.
    unsafe {
        let path = path.add(root_length(path));
        program(path, status, kind)
    }
}

/// Does the same for [`VisitPlace`].
unsafe extern "C" fn visit_place(
    path: *const c_char,
    status: *const libc::stat,
    kind: c_int,
    place: *mut Place,
) -> c_int {
    let Some(program) = VISIT_PLACE.get() else {
        return 0;
    };
    // SAFETY: libc passes a C string and a valid struct; the shorter path is the end of the string.
    unsafe {
        let root = root_length(path);
        // The root is shorter than PATH_MAX.
        let mut shorter = Place {
            base: (*place).base - root as c_int,
            ..*place
        };
        program(path.add(root), status, kind, &raw mut shorter)
    }
}

/// Declares the entries that call the program for each file of a tree.
macro_rules! walk_entries {
    ($($name:ident $next:ident $visit_type:ident $slot:ident $wrapper:ident
        ($($argument:ident: $type:ty),*);)*) =>
    {$(
        #[doc = concat!("`", stringify!($name), "` of libc.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            path: *const c_char,
            program: $visit_type,
            $($argument: $type,)*
        ) -> c_int {
            let Some(next) = next!($name as $next) else { return missing() };
            let mut room = room();
            // SAFETY: the caller keeps the contract of `ftw`, and the next function is libc's.
            unsafe {
                let redirected = redirect(path, &mut room);
                if redirected == path {
                    return next(path, program, $($argument,)*);
                }
                // The callback may start another walk.
                let before = $slot.replace(Some(program));
                let result = next(redirected, $wrapper, $($argument,)*);
                $slot.set(before);
                result
            }
        }
    )*};
}
walk_entries! {
    ftw Ftw Visit VISIT visit(descriptors: c_int);
    ftw64 Ftw Visit VISIT visit(descriptors: c_int);
    nftw Nftw VisitPlace VISIT_PLACE visit_place(descriptors: c_int, flags: c_int);
    nftw64 Nftw VisitPlace VISIT_PLACE visit_place(descriptors: c_int, flags: c_int);
}

/// The beginning of `FTS` of `<fts.h>`: a walk.
#[repr(C)]
pub struct Fts {
    current: *mut FtsEntry,
    child: *mut FtsEntry,
    array: *mut *mut FtsEntry,
    device: libc::dev_t,
    /// The buffer with the path of the current entry.
    path: *mut c_char,
}

/// The beginning of `FTSENT` of `<fts.h>`: a file that a walk has met.
#[repr(C)]
pub struct FtsEntry {
    cycle: *mut FtsEntry,
    parent: *mut FtsEntry,
    link: *mut FtsEntry,
    number: libc::c_long,
    pointer: *mut c_void,
    access_path: *mut c_char,
    path: *mut c_char,
    errno: c_int,
    symbolic_fd: c_int,
    path_length: c_ushort,
    name_length: c_ushort,
    inode: libc::ino_t,
    device: libc::dev_t,
    links: libc::nlink_t,
    level: c_short,
}

type FtsOpen = unsafe extern "C" fn(*const *const c_char, c_int, Compare) -> *mut Fts;
type FtsRead = unsafe extern "C" fn(*mut Fts) -> *mut FtsEntry;
type FtsChildren = unsafe extern "C" fn(*mut Fts, c_int) -> *mut FtsEntry;

/// Begins a walk at several paths.
///
/// # Safety
/// `paths` is an array of C strings that ends with null; `next` is libc's `fts_open`.
unsafe fn begin_walk(
    next: Option<FtsOpen>,
    paths: *const *const c_char,
    options: c_int,
    compare: Compare,
) -> *mut Fts {
    let Some(next) = next else { return missing() };
    let mut owned = Vec::new();
    let mut place = paths;
    // SAFETY: the caller guarantees C strings, and null after the last; libc copies them.
    unsafe {
        while !place.is_null() && !(*place).is_null() {
            let mut room = room();
            let redirected = redirect(*place, &mut room);
            owned.push(CStr::from_ptr(redirected).to_owned());
            place = place.add(1);
        }
        let pointers: Vec<*const c_char> =
            owned.iter().map(|path: &CString| path.as_ptr()).collect();
        let pointers = [&pointers[..], &[std::ptr::null()]].concat();
        next(pointers.as_ptr(), options, compare)
    }
}

/// Restores the redirected path of a walk's current entry, which libc expects.
///
/// # Safety
/// `walk` is a walk of libc.
unsafe fn lengthen_path(walk: *mut Fts) {
    // SAFETY: the caller guarantees a walk; an entry's path begins in the walk's buffer, at its
    // beginning or after the root.
    unsafe {
        let entry = (*walk).current;
        if entry.is_null() || (*entry).path.is_null() {
            return;
        }
        let root = (*entry).path.addr().wrapping_sub((*walk).path.addr());
        if let Ok(root) = c_ushort::try_from(root) {
            (*entry).path = (*walk).path;
            (*entry).path_length += root;
        }
    }
}

/// Removes the prefix from an entry's path, for the program.
///
/// # Safety
/// `entry` is null or an entry of a walk.
unsafe fn shorten_path(entry: *mut FtsEntry) -> *mut FtsEntry {
    // SAFETY: the caller guarantees an entry, whose path is a C string with the root in it.
    unsafe {
        if !entry.is_null() {
            let root = root_length((*entry).path);
            (*entry).path = (*entry).path.add(root);
            // The root is shorter than PATH_MAX, and the path longer than the root.
            (*entry).path_length -= root as c_ushort;
        }
    }
    entry
}

/// Declares the entries of a walk that the program steers.
macro_rules! fts_entries {
    ($($open:ident $read:ident $children:ident;)*) => {$(
        #[doc = concat!("`", stringify!($open), "` of libc.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $open(
            paths: *const *const c_char,
            options: c_int,
            compare: Compare,
        ) -> *mut Fts {
            // SAFETY: the caller keeps the contract of `fts_open`, and the next function is libc's.
            unsafe { begin_walk(next!($open as FtsOpen), paths, options, compare) }
        }

        #[doc = concat!("`", stringify!($read), "` of libc.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $read(walk: *mut Fts) -> *mut FtsEntry {
            match next!($read as FtsRead) {
                // SAFETY: the caller passes a walk of libc, and the next function is libc's.
                Some(next) => unsafe {
                    lengthen_path(walk);
                    shorten_path(next(walk))
                },
                None => null_mut(),
            }
        }

        #[doc = concat!("`", stringify!($children), "` of libc.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $children(walk: *mut Fts, options: c_int) -> *mut FtsEntry {
            match next!($children as FtsChildren) {
                // SAFETY: the caller passes a walk of libc, and the next function is libc's.
                Some(next) => unsafe {
                    lengthen_path(walk);
                    let children = next(walk, options);
                    shorten_path((*walk).current);
                    children
                },
                None => null_mut(),
            }
        }
    )*};
}
fts_entries! {
    fts_open fts_read fts_children;
    fts64_open fts64_read fts64_children;
}

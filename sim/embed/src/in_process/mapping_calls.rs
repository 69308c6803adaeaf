//! Keeps registered memory accessible to the device when the program changes its mappings: the
//! equivalent of pinned pages.
//!
//! The verbs library stands between the program and libc, and routes calls that change mappings to
//! this module. Before registered pages are unmapped or replaced by another mapping, they are moved
//! to another address with `mremap`, and the device uses the new address. They are unmapped when
//! their last registration ends.
//!
//! Unmapping inside of libc that bypasses its public functions (large blocks in `free` and
//! `realloc`) is not seen here; a later DMA access faults and is refused (`memory::guarded`).
//!
//! Allocators call `munmap` and `madvise`, perhaps with their own locks held. So nothing here
//! allocates memory, and a table lookup finds out quickly that memory has no registrations.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ferroce_host::memory::{MapError, MemoryMap, NewPlace};
use ferroce_platform::fork;
use ferroce_platform::os::areas;
use ferroce_platform::os::memory_calls::{
    self, Answer, map_apart, may_be_registered, register, system_call,
};
use libc::c_int;
use parking_lot::{Mutex, MutexGuard};

use super::InProcess;
use super::pinned::Held;

/// Maximum number of functions of this process; more than there are devices.
const MAX_FUNCTIONS: usize = 16;
/// Time limit for another thread that is changing mappings.
const TIMEOUT: Duration = Duration::from_millis(200);
const PAGE: usize = 4096;

/// The functions, and the process that opened them: its children do not use them.
struct Functions {
    list: Vec<Arc<InProcess>>,
    generation: u32,
}

static FUNCTIONS: Mutex<Functions> = Mutex::new(Functions {
    list: Vec::new(),
    generation: 0,
});

/// Pins the memory of this function from now on.
pub fn add(function: &Arc<InProcess>) {
    let Some(mut functions) = lock() else {
        return;
    };
    let generation = fork::generation();
    if functions.generation != generation {
        // These functions belong to the parent.
        std::mem::forget(std::mem::take(&mut functions.list));
        functions.generation = generation;
    }
    if functions.list.len() < MAX_FUNCTIONS {
        functions.list.push(function.clone());
    }
}

/// Removes the function.
pub fn remove(function: &Arc<InProcess>) {
    let Some(mut functions) = lock() else {
        return;
    };
    functions.list.retain(|other| !Arc::ptr_eq(other, function));
}

fn lock() -> Option<MutexGuard<'static, Functions>> {
    FUNCTIONS.try_lock_for(TIMEOUT)
}

/// Whether pages that move may leave a hole, into which another thread could map memory for a
/// moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hole {
    Allowed,
    Refused,
}

/// All mappings of this process.
struct All<'a> {
    held: [Option<Held<'a>>; MAX_FUNCTIONS],
}

impl<'a> All<'a> {
    /// Returns `None` if the locks are not free in time; the call is then made without protecting
    /// the registrations.
    fn hold(functions: &'a Functions) -> Option<Self> {
        if functions.generation != fork::generation() {
            return None;
        }
        // Checked before any lock is taken: a holder of another function's lock may do the same.
        if functions.list.iter().any(|function| function.is_caller()) {
            return None;
        }
        let mut held = [const { None }; MAX_FUNCTIONS];
        for (place, function) in held.iter_mut().zip(&functions.list) {
            *place = Some(function.hold()?);
        }
        Some(Self { held })
    }

    fn each(&mut self) -> impl Iterator<Item = &mut MemoryMap> {
        self.held.iter_mut().flatten().map(Held::mappings)
    }

    fn end(self) {
        for held in self.held.into_iter().flatten() {
            held.end();
        }
    }

    /// Splits the registrations of a range. Returns true if there are any.
    fn cut_out(&mut self, range: &Range<usize>) -> bool {
        let mut is_found = false;
        for map in self.each() {
            is_found |= map.cut_out(range);
        }
        is_found
    }

    /// Moves all registered pages of a range to another address.
    fn evict(&mut self, range: &Range<usize>, hole: Hole) {
        if !self.cut_out(range) {
            return;
        }
        let mut rest = range.clone();
        while let Some(run) = self.next_run(&rest) {
            self.move_away(run.clone(), hole);
            rest.start = run.end;
        }
    }

    /// Gives the device its own addresses for registered pages of shared mappings in a range: once
    /// the program cannot write these pages, there is no other way to reach them. It covers all
    /// pages of a registration in the same kernel mapping, so that this happens once.
    fn keep_shared(&mut self, range: &Range<usize>) {
        areas::each_shared(range, |area| {
            let part = range.start.max(area.start)..range.end.min(area.end);
            let wholes = self.each().filter_map(|map| map.whole(&part));
            let whole =
                wholes.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end));
            let Some(whole) = whole else { return };
            let part = whole.start.max(area.start)..whole.end.min(area.end);
            if self.each().any(|map| !map.has_room_to_cut(&part)) || !self.cut_out(&part) {
                return;
            }
            let mut rest = part;
            while let Some(run) = self.next_run(&rest) {
                if let Ok(place) = memory_calls::map_again(&run) {
                    let maps = self.each();
                    maps.for_each(|map| map.retarget(&run, NewPlace::Ours(place)));
                }
                rest.start = run.end;
            }
        });
    }

    /// Marks registrations in a range as lost.
    fn lose(&mut self, range: &Range<usize>) {
        if self.cut_out(range) {
            self.each()
                .for_each(|map| map.retarget(range, NewPlace::Nowhere));
        }
    }

    /// Returns the first contiguous registered part of a range.
    fn next_run(&mut self, range: &Range<usize>) -> Option<Range<usize>> {
        let first = self.each().filter_map(|map| map.first_pieces(range));
        let mut run = first.min_by_key(|run| run.start)?;
        loop {
            let end = self.each().map(|map| map.pieces_end(run.end)).max()?;
            let end = end.min(range.end);
            if end <= run.end {
                return Some(run);
            }
            run.end = end;
        }
    }

    /// Moves pages. A range that spans several kernel mappings is moved in parts.
    fn move_away(&mut self, run: Range<usize>, hole: Hole) {
        let pages = run.len() / PAGE;
        match move_pages(&run, hole) {
            Ok(place) => self
                .each()
                .for_each(|map| map.retarget(&run, NewPlace::Ours(place))),
            Err(_) if pages > 1 => {
                let middle = run.start + pages / 2 * PAGE;
                self.each().for_each(|map| {
                    map.cut_out(&(run.start..middle));
                });
                self.move_away(run.start..middle, hole);
                self.move_away(middle..run.end, hole);
            }
            Err(_) if hole == Hole::Refused => {}
            Err(_) => self
                .each()
                .for_each(|map| map.retarget(&run, NewPlace::Nowhere)),
        }
    }
}

/// Moves pages to a new address and leaves empty memory of the same kind in their place. If the
/// kernel cannot do that, it leaves a hole, or fails if that is refused.
fn move_pages(range: &Range<usize>, hole: Hole) -> Answer {
    /// Linux 5.7.
    const MREMAP_DONTUNMAP: c_int = 4;
    const RESERVE: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    const MOVE: c_int = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let length = range.len();
    let reserve = [
        0,
        length,
        libc::PROT_NONE as usize,
        RESERVE as usize,
        usize::MAX,
        0,
    ];
    let place = system_call(libc::SYS_mmap, reserve)?;
    let move_with = |flags: c_int| {
        let arguments = [range.start, length, length, flags as usize, place, 0];
        system_call(libc::SYS_mremap, arguments)
    };
    let moved = move_with(MOVE | MREMAP_DONTUNMAP).or_else(|error| match hole {
        Hole::Allowed => move_with(MOVE),
        Hole::Refused => Err(error),
    });
    if moved.is_err() {
        let _ = memory_calls::unmap(place, length);
    }
    moved
}

/// Runs `with` while all mappings are locked, or with `None` if the locks are not free in time.
fn with_all<T>(with: impl FnOnce(Option<&mut All<'_>>) -> T) -> T {
    let Some(functions) = lock() else {
        return with(None);
    };
    let Some(mut all) = All::hold(&functions) else {
        return with(None);
    };
    let result = with(Some(&mut all));
    all.end();
    result
}

fn pages_of(address: usize, length: usize) -> Range<usize> {
    address..address.saturating_add(length).div_ceil(PAGE) * PAGE
}

/// Returns true if a device uses memory in this range.
fn concerns(address: usize, length: usize) -> bool {
    address % PAGE == 0 && may_be_registered(address, length)
}

/// Moves the registered pages of a range, then makes the call that changes the range.
fn after_eviction(address: usize, length: usize, call: impl FnOnce() -> Answer) -> Answer {
    if !concerns(address, length) {
        return call();
    }
    with_all(|all| {
        if let Some(all) = all {
            all.evict(&pages_of(address, length), Hole::Allowed);
        }
        call()
    })
}

/// Makes `munmap`.
///
/// # Errors
/// The errno.
pub fn munmap(address: usize, length: usize) -> Answer {
    let call = || memory_calls::unmap(address, length);
    after_eviction(address, length, call)
}

/// Makes `mmap`.
///
/// # Errors
/// The errno.
pub fn mmap(address: usize, length: usize, how: [usize; 4]) -> Answer {
    let [protection, flags, file, offset] = how;
    let arguments = [address, length, protection, flags, file, offset];
    let call = || system_call(libc::SYS_mmap, arguments);
    if flags as c_int & libc::MAP_FIXED != 0 {
        return after_eviction(address, length, call);
    }
    let found = call()?;
    if !may_be_registered(found, length) {
        return Ok(found);
    }
    // The registered memory under a new mapping was unmapped without a call that is seen here.
    let is_reported = with_all(|all| all.map(|all| all.lose(&pages_of(found, length))));
    if is_reported.is_some() {
        return Ok(found);
    }
    // The allocation is for the model, which cannot be notified that other memory was unmapped.
    match map_apart(arguments) {
        Ok(apart) => {
            let _ = memory_calls::unmap(found, length);
            Ok(apart)
        }
        Err(_) => Ok(found),
    }
}

/// Makes `mremap`: the program's registered pages move.
///
/// # Errors
/// The errno.
pub fn mremap(from: usize, old: usize, new: usize, flags: c_int, to: usize) -> Answer {
    let arguments = [from, old, new, flags as usize, to, 0];
    let call = || system_call(libc::SYS_mremap, arguments);
    let is_fixed = flags & libc::MREMAP_FIXED != 0;
    let is_concerned = concerns(from, old) || is_fixed && concerns(to, new);
    if !is_concerned {
        return call();
    }
    with_all(|all| {
        let Some(all) = all else {
            return call();
        };
        if is_fixed && is_apart(from..from + old, to..to.saturating_add(new)) {
            all.evict(&pages_of(to, new), Hole::Allowed);
        }
        if new < old && new > 0 {
            let end = pages_of(from, new).end..pages_of(from, old).end;
            all.evict(&end, Hole::Allowed);
        }
        let moving = pages_of(from, old.min(new));
        all.cut_out(&moving);
        let place = call()?;
        if place != from {
            register(place, moving.len());
            all.each()
                .for_each(|map| map.retarget(&moving, NewPlace::OfProgram(place)));
        }
        Ok(place)
    })
}

fn is_apart(one: Range<usize>, other: Range<usize>) -> bool {
    one.end <= other.start || other.end <= one.start
}

/// Makes `madvise`: a program that discards registered pages gets empty ones, while the device
/// keeps the old ones.
///
/// # Errors
/// The errno.
pub fn madvise(address: usize, length: usize, advice: c_int) -> Answer {
    let arguments = [address, length, advice as usize, 0, 0, 0];
    let call = || system_call(libc::SYS_madvise, arguments);
    let gives_up = matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE);
    if !gives_up || !concerns(address, length) {
        return call();
    }
    with_all(|all| {
        let Some(all) = all else {
            return call();
        };
        let range = pages_of(address, length);
        if !all.cut_out(&range) {
            return call();
        }
        // Pages that a device uses are not free, and MADV_FREE lets the kernel decide.
        if advice == libc::MADV_FREE {
            return Ok(0);
        }
        all.evict(&range, Hole::Refused);
        call()
    })
}

/// Makes `mprotect`: the device is not affected.
///
/// # Errors
/// The errno.
pub fn mprotect(address: usize, length: usize, protection: c_int) -> Answer {
    let arguments = [address, length, protection as usize, 0, 0, 0];
    let call = || system_call(libc::SYS_mprotect, arguments);
    let all_rights = libc::PROT_READ | libc::PROT_WRITE;
    if protection & all_rights == all_rights || !concerns(address, length) {
        return call();
    }
    with_all(|all| {
        if let Some(all) = all {
            let range = pages_of(address, length);
            all.each().for_each(|map| map.force(&range));
            all.keep_shared(&range);
        }
        call()
    })
}

/// Removes a mapping of a function whose parts may have moved, and unmaps the moved pages that no
/// mapping uses any more.
///
/// # Errors
/// [`MapError::NotMapped`].
pub fn unmap(function: &InProcess, iova: u64, length: u64) -> Result<(), MapError> {
    let functions = FUNCTIONS.lock();
    let mut left = function.unmap_moved(iova, length)?;
    for other in &functions.list {
        left = other.unused(left);
    }
    for place in left {
        // On failure the pages stay mapped at an address that no program uses.
        let _ = memory_calls::unmap(place.start, place.len());
    }
    Ok(())
}

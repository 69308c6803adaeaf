//! Persistent memory of a host, and what a power failure leaves of it.
//!
//! ```text
//!  card ── posted write ──► visible ──► cache (DDIO) ──► FLUSH ──► persistence domain
//!                              └──────── without DDIO ────────────────►┘
//! ```
//!
//! While power is on, programs see one memory. For each line that the card has written and that has
//! not reached the persistence domain, its earlier content is kept; a power failure restores it.
//!
//! Without DDIO, a write goes to the memory controller, which has the power to finish it (ADR): it
//! is persistent when it is visible. With DDIO it stays in the last-level cache. A cache that is in
//! the persistence domain (eADR) keeps it; otherwise it is lost unless a FLUSH has written it back
//! before (rpma#1691). No line is evicted: that would save lines on which no program may rely.
//!
//! Stores of processors, and the instructions with which they write lines back, are not seen. What
//! they have stored to other lines is kept; in a line that is restored it is lost.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ferroce_host::mapping::FileIdentity;
use ferroce_host::memory::{MemoryMap, RemoteMemory};
use ferroce_units::Instant;

/// Bytes that a processor writes back at once: what persists as a whole, or not at all.
const LINE_BYTES: u64 = 64;
/// Size of the largest persistent memory: the earlier content of all of its lines may be kept.
pub const MAX_BYTES: u64 = 256 << 20;
/// Lines after whose number those that have become persistent are dropped for the first time.
const MIN_LINES: usize = 1024;

/// Persistent memory of a host.
#[derive(Debug, Clone)]
pub struct PersistentMemory {
    /// The file that programs map to use it.
    pub identity: FileIdentity,
    /// Its content. Programs that use it have mapped the same.
    pub content: Arc<dyn RemoteMemory>,
    /// Its bytes, a multiple of 4096, at most [`MAX_BYTES`].
    pub length: u64,
    /// True if the caches of the processors are in the persistence domain (eADR).
    pub has_persistent_caches: bool,
}

/// When a write of the card becomes persistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Domain {
    /// When it is visible.
    Visible,
    /// When it is flushed.
    Flushed,
}

/// A write to a line that is not persistent yet, or several of which none is.
#[derive(Debug)]
struct Pending {
    /// When the host sees it.
    visible: Instant,
    /// [`Instant::MAX`]: with the next FLUSH.
    persistent: Instant,
    /// The line before it.
    before: [u8; LINE_BYTES as usize],
}

/// IOVAs that are persistent memory from `offset` on.
#[derive(Debug)]
struct Mapped {
    end: u64,
    offset: u64,
}

/// The persistent memory of a host, as its card writes it.
#[derive(Debug)]
pub(super) struct Persistence {
    memory: PersistentMemory,
    domain: Domain,
    now: Instant,
    mapped: BTreeMap<u64, Mapped>,
    /// Writes by the number of their line, the oldest ones first.
    lines: BTreeMap<u64, Vec<Pending>>,
    /// Number of lines at which those that have become persistent are dropped.
    prune_at: usize,
}

impl Persistence {
    /// Returns memory that no card has written. `has_ddio`: the card's writes go to the cache.
    pub fn new(memory: PersistentMemory, has_ddio: bool) -> Self {
        let stays_in_cache = has_ddio && !memory.has_persistent_caches;
        Self {
            memory,
            domain: match stays_in_cache {
                true => Domain::Flushed,
                false => Domain::Visible,
            },
            now: Instant::ZERO,
            mapped: BTreeMap::new(),
            lines: BTreeMap::new(),
            prune_at: MIN_LINES,
        }
    }

    /// Begins an event.
    pub fn begin(&mut self, now: Instant) {
        self.now = now;
    }

    /// Records that IOVAs are mapped to `file` from `offset` on.
    pub fn map(&mut self, iovas: Range<u64>, file: FileIdentity, offset: u64) {
        if file == self.memory.identity {
            let end = iovas.end;
            self.mapped.insert(iovas.start, Mapped { end, offset });
        }
    }

    /// Forgets IOVAs that are no longer mapped.
    pub fn forget_unmapped(&mut self, map: &mut MemoryMap) {
        let is_mapped = |iova: &u64, _: &mut Mapped| map.place_to_read(*iova, 1).is_ok();
        self.mapped.retain(is_mapped);
    }

    /// Keeps the content of the lines that a write of the card is about to change.
    pub fn keep(&mut self, iova: u64, length: usize, visible: Instant) {
        let ranges: Vec<_> = self.lines_of(iova, length as u64).collect();
        for line in ranges.into_iter().flatten() {
            self.keep_line(line, visible);
        }
    }

    fn keep_line(&mut self, line: u64, visible: Instant) {
        let now = self.now;
        let persistent = match self.domain {
            Domain::Visible => visible,
            Domain::Flushed => Instant::MAX,
        };
        let pending = self.lines.get_mut(&line);
        let persistent = pending.map_or(persistent, |pending| {
            pending.retain(|write| write.persistent > now);
            // Writes to a line become persistent in their order.
            let last = pending.last_mut();
            last.map_or(persistent, |last| {
                last.visible = last.visible.max(visible);
                last.persistent.max(persistent)
            })
        });
        if persistent <= now || self.awaits_flush(line) {
            return;
        }
        let mut before = [0; LINE_BYTES as usize];
        if let Err(error) = self.memory.content.read(line * LINE_BYTES, &mut before) {
            tracing::error!(%error, "persistent memory cannot be read");
            return;
        }
        self.lines.entry(line).or_default().push(Pending {
            visible,
            persistent,
            before,
        });
        self.prune();
    }

    /// Returns true if the earlier content of a line is kept until a FLUSH.
    fn awaits_flush(&self, line: u64) -> bool {
        let last = self.lines.get(&line).and_then(|pending| pending.last());
        last.is_some_and(|last| last.persistent == Instant::MAX)
    }

    /// Drops what has become persistent, whenever there is twice as much as was left the last time.
    fn prune(&mut self) {
        if self.lines.len() < self.prune_at {
            return;
        }
        let now = self.now;
        self.lines.retain(|_, pending| {
            pending.retain(|write| write.persistent > now);
            !pending.is_empty()
        });
        self.prune_at = MIN_LINES.max(2 * self.lines.len());
    }

    /// Makes a range persistent that is written back from `at` on; returns when it is.
    pub fn flush(&mut self, at: Instant, iova: u64, length: u64) -> Instant {
        let mut done = at;
        let ranges: Vec<_> = self.lines_of(iova, length).collect();
        for range in ranges {
            for write in self.lines.range_mut(range).flat_map(|(_, pending)| pending) {
                write.persistent = write.persistent.min(at.max(write.visible));
                done = done.max(write.persistent);
            }
        }
        done
    }

    /// Restores all lines of which something is not persistent at `now`. Returns their number.
    pub fn fail(&mut self, now: Instant) -> usize {
        let mut lost = 0;
        for (line, pending) in std::mem::take(&mut self.lines) {
            let Some(first) = pending.iter().find(|write| write.persistent > now) else {
                continue;
            };
            lost += 1;
            let written = self.memory.content.write(line * LINE_BYTES, &first.before);
            if let Err(error) = written {
                tracing::error!(%error, "persistent memory cannot be restored");
            }
        }
        lost
    }

    /// Returns the numbers of the lines in a range of IOVAs, for each mapping that it touches.
    fn lines_of(&self, iova: u64, length: u64) -> impl Iterator<Item = Range<u64>> {
        let end = iova.saturating_add(length);
        let before_end = self.mapped.range(..end).rev();
        let touched = before_end.take_while(move |(_, mapped)| mapped.end > iova);
        let length = self.memory.length;
        touched.map(move |(start, mapped)| {
            let offset_of = |iova: u64| (mapped.offset + (iova - start)).min(length);
            let bytes = offset_of(iova.max(*start))..offset_of(end.min(mapped.end));
            bytes.start / LINE_BYTES..bytes.end.div_ceil(LINE_BYTES)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use parking_lot::Mutex;

    use super::*;

    const IOVA: u64 = 0x10_0000;
    const FILE: FileIdentity = FileIdentity {
        device: 1,
        inode: 2,
    };

    #[derive(Debug, Default)]
    struct Content(Mutex<Vec<u8>>);

    impl RemoteMemory for Content {
        fn read(&self, offset: u64, destination: &mut [u8]) -> io::Result<()> {
            let start = offset as usize;
            destination.copy_from_slice(&self.0.lock()[start..start + destination.len()]);
            Ok(())
        }

        fn write(&self, offset: u64, source: &[u8]) -> io::Result<()> {
            let start = offset as usize;
            self.0.lock()[start..start + source.len()].copy_from_slice(source);
            Ok(())
        }
    }

    /// A file of a page, mapped from its second half on.
    struct Bench {
        content: Arc<Content>,
        persistence: Persistence,
    }

    impl Bench {
        fn new(has_ddio: bool, has_persistent_caches: bool) -> Self {
            let content = Arc::new(Content(Mutex::new(vec![0; 4096])));
            let memory = PersistentMemory {
                identity: FILE,
                content: content.clone(),
                length: 4096,
                has_persistent_caches,
            };
            let mut persistence = Persistence::new(memory, has_ddio);
            persistence.map(IOVA..IOVA + 2048, FILE, 2048);
            Self {
                content,
                persistence,
            }
        }

        /// Writes `length` bytes `value` that are visible at `visible`, as the card does at `now`.
        fn write(&mut self, now: u64, visible: u64, at: u64, value: &[u8]) {
            self.persistence.begin(Instant(now));
            self.persistence
                .keep(IOVA + at, value.len(), Instant(visible));
            let written = self.content.write(2048 + at, value);
            written.expect("inside of the file");
        }

        fn flush(&mut self, now: u64, at: u64, length: u64) -> Instant {
            self.persistence.flush(Instant(now), IOVA + at, length)
        }

        fn byte(&self, at: usize) -> u8 {
            self.content.0.lock()[2048 + at]
        }
    }

    #[test]
    fn a_cache_loses_the_lines_that_were_not_flushed() {
        let mut bench = Bench::new(true, false);
        bench.write(0, 10, 0, &[1; 130]);
        bench.write(5, 15, 192, &[1; 64]);
        assert_eq!(bench.flush(20, 0, 128), Instant(20));
        bench.write(30, 40, 64, &[2; 8]);
        bench.write(35, 45, 64, &[3; 8]);
        assert_eq!(bench.persistence.fail(Instant(50)), 3);
        let found = [0, 64, 128, 192].map(|at| bench.byte(at));
        assert_eq!(found, [1, 1, 0, 0]);
        assert_eq!(bench.persistence.fail(Instant(60)), 0, "power is off");
    }

    #[test]
    fn a_flush_ends_when_the_last_write_of_its_range_is_visible() {
        let mut bench = Bench::new(true, false);
        bench.write(0, 70, 0, &[1; 64]);
        bench.write(0, 90, 64, &[1; 64]);
        assert_eq!(bench.flush(20, 0, 64), Instant(70));
        assert_eq!(bench.flush(20, 0, 65), Instant(90));
        assert_eq!(bench.persistence.fail(Instant(80)), 1);
        assert_eq!([bench.byte(0), bench.byte(64)], [1, 0]);
    }

    #[test]
    fn without_ddio_and_with_eadr_what_is_visible_is_persistent() {
        for (has_ddio, has_persistent_caches) in [(false, false), (true, true)] {
            let mut bench = Bench::new(has_ddio, has_persistent_caches);
            bench.write(0, 10, 0, &[1; 64]);
            bench.write(0, 20, 0, &[2; 64]);
            bench.write(0, 30, 0, &[3; 64]);
            bench.write(0, 10, 64, &[4; 64]);
            assert_eq!(bench.persistence.fail(Instant(25)), 1);
            assert_eq!([bench.byte(0), bench.byte(64)], [2, 4]);
        }
    }

    #[test]
    fn other_memory_is_not_touched() {
        let mut bench = Bench::new(true, false);
        let other = FileIdentity { inode: 3, ..FILE };
        bench.persistence.map(0..4096, other, 0);
        bench.persistence.keep(0, 4096, Instant(1));
        bench.persistence.keep(IOVA - 64, 64, Instant(1));
        bench.persistence.keep(IOVA + 2048, 64, Instant(1));
        assert_eq!(bench.persistence.fail(Instant(2)), 0);
    }

    /// Goal: what is kept has a bound. Method: many lines that are persistent soon.
    #[test]
    fn what_has_become_persistent_is_dropped() {
        let mut bench = Bench::new(false, false);
        for number in 0..10 * MIN_LINES as u64 {
            let now = 100 * number;
            bench.write(now, now + 50, number % 32 * 64, &[1; 64]);
            assert!(bench.persistence.lines.len() <= MIN_LINES);
        }
        bench.persistence.begin(Instant::MAX);
        bench.persistence.prune_at = 0;
        bench.persistence.prune();
        assert!(bench.persistence.lines.is_empty());
    }
}

//! A region of the card, a BAR or its configuration space: mapped where the kernel allows it,
//! otherwise read and written through the file.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use ferroce_driver::bus::PAGE_SIZE;
use ferroce_linux::shared_mapping::SharedMapping;

/// A region.
#[derive(Debug)]
pub(super) struct Region {
    windows: Vec<Window>,
    /// The device. Duplicated descriptors keep the card open like the original.
    file: File,
    /// Offset of the region in the file.
    offset: u64,
    size: u64,
}

/// A part of a region that is mapped.
#[derive(Debug)]
struct Window {
    range: Range<u64>,
    mapping: SharedMapping,
}

/// Type of a register.
pub(super) trait Word: Copy {
    /// Value of every read from a device that is gone.
    const ONES: Self;
    /// Reads the word at `offset` through the file.
    fn pread(file: &File, offset: u64) -> std::io::Result<Self>;
    /// Writes the word at `offset` through the file.
    fn pwrite(self, file: &File, offset: u64) -> std::io::Result<()>;
}

macro_rules! word {
    ($($word:ty),*) => { $(
        impl Word for $word {
            const ONES: Self = Self::MAX;
            fn pread(file: &File, offset: u64) -> std::io::Result<Self> {
                let mut bytes = [0; size_of::<Self>()];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(Self::from_le_bytes(bytes))
            }
            fn pwrite(self, file: &File, offset: u64) -> std::io::Result<()> {
                file.write_all_at(&self.to_le_bytes(), offset)
            }
        }
    )* };
}

word!(u8, u16, u32, u64);

impl Region {
    /// Creates the region of `size` bytes that begins at byte `offset` of the device's `file`;
    /// `areas` of it may be mapped. Where mapping fails, the file is used.
    pub(super) fn new(file: File, offset: u64, size: u64, areas: &[Range<u64>]) -> Self {
        let mut region = Self {
            windows: Vec::new(),
            file,
            offset,
            size,
        };
        region.windows = areas
            .iter()
            .filter_map(|area| region.window(area))
            .collect();
        region
    }

    fn window(&self, area: &Range<u64>) -> Option<Window> {
        let mapping = self.map(area)?;
        Some(Window {
            range: area.clone(),
            mapping,
        })
    }

    /// Maps one area. Returns `None` when it is empty or not inside the region, or when the kernel
    /// refuses, which is logged.
    fn map(&self, area: &Range<u64>) -> Option<SharedMapping> {
        let is_aligned = area.start % PAGE_SIZE as u64 == 0;
        let length = area.end.checked_sub(area.start)?;
        if length == 0 || area.end > self.size || !is_aligned {
            return None;
        }
        let offset = self.offset.checked_add(area.start)?;
        match SharedMapping::new(self.file.as_fd(), offset, usize::try_from(length).ok()?) {
            Ok(mapping) => Some(mapping),
            Err(error) => {
                tracing::warn!(?area, %error, "a part of a BAR cannot be mapped: it will be slow");
                None
            }
        }
    }

    /// Returns a separate mapping of the first `length` bytes, if all of them are mapped here.
    pub(super) fn map_start(&self, length: u64) -> Option<SharedMapping> {
        let whole = 0..length;
        let is_mapped = |window: &Window| window.range.start == 0 && window.range.end >= length;
        self.windows
            .iter()
            .any(is_mapped)
            .then(|| self.map(&whole))?
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns true if any part of the region is mapped.
    pub(super) fn is_mapped(&self) -> bool {
        !self.windows.is_empty()
    }

    /// Reads the word at `offset`: once, and all of it at once where the region is mapped. Returns
    /// all ones if the word lies outside or the kernel refuses.
    #[inline]
    pub(super) fn read<W: Word>(&self, offset: u64) -> W {
        match self.place::<W>(offset) {
            // SAFETY: `place` returns a mapped, aligned word.
            Some(place) => unsafe { place.read_volatile() },
            None if self.contains::<W>(offset) => {
                W::pread(&self.file, self.offset + offset).unwrap_or(W::ONES)
            }
            None => W::ONES,
        }
    }

    /// Writes the word at `offset`: once, and all of it at once where the region is mapped. A write
    /// outside of the region, or one that the kernel refuses, is dropped.
    ///
    /// Everything that this thread stored before is visible to the device before this write: x86
    /// orders plain memory and a BAR in this way (AMD64 manual volume 2, section 7.4), and the
    /// fence keeps the compiler from reordering.
    #[inline]
    pub(super) fn write<W: Word>(&self, offset: u64, value: W) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        match self.place::<W>(offset) {
            // SAFETY: `place` returns a mapped, aligned word.
            Some(place) => unsafe { place.write_volatile(value) },
            None if self.contains::<W>(offset) => {
                if let Err(error) = value.pwrite(&self.file, self.offset + offset) {
                    tracing::debug!(offset, %error, "a write to the card failed");
                }
            }
            None => {}
        }
    }

    /// Reads bytes, in words of 8 where they are aligned.
    pub(super) fn read_bytes(&self, offset: u64, destination: &mut [u8]) {
        let mut at = offset;
        let mut rest = destination;
        while !rest.is_empty() {
            let length = step(at, rest.len());
            let (now, later) = rest.split_at_mut(length);
            match length {
                8 => now.copy_from_slice(&self.read::<u64>(at).to_le_bytes()),
                _ => now[0] = self.read(at),
            }
            rest = later;
            at = at.saturating_add(length as u64);
        }
    }

    /// Writes bytes, in words of 8 where they are aligned.
    pub(super) fn write_bytes(&self, offset: u64, source: &[u8]) {
        let mut at = offset;
        let mut rest = source;
        while !rest.is_empty() {
            let length = step(at, rest.len());
            let (now, later) = rest.split_at(length);
            match <[u8; 8]>::try_from(now) {
                Ok(word) => self.write(at, u64::from_le_bytes(word)),
                Err(_) => self.write(at, now[0]),
            }
            rest = later;
            at = at.saturating_add(length as u64);
        }
    }

    fn contains<W>(&self, offset: u64) -> bool {
        let end = offset.checked_add(size_of::<W>() as u64);
        end.is_some_and(|end| end <= self.size)
    }

    /// Returns the address of an aligned word inside a window, valid for volatile reads and writes
    /// of this type while `self` lives.
    #[inline]
    fn place<W>(&self, offset: u64) -> Option<NonNull<W>> {
        let size = size_of::<W>() as u64;
        let end = offset.checked_add(size)?;
        if offset % size != 0 {
            return None;
        }
        let window = self
            .windows
            .iter()
            .find(|window| window.range.start <= offset && end <= window.range.end)?;
        let within = (offset - window.range.start) as usize;
        // SAFETY: the window is mapped, readable and writable, while `self` lives, and has `end -
        // start` bytes, including the word. It begins at a page and at a multiple of the page size
        // in the region, so the word is aligned in memory, too. No reference to it exists; the
        // device may change it at any time, so accesses are volatile.
        let place = unsafe { window.mapping.address().add(within) };
        Some(place.cast())
    }
}

/// Returns the number of bytes to copy next: a whole aligned word, or one byte.
fn step(at: u64, length: usize) -> usize {
    if at % 8 == 0 && length >= 8 { 8 } else { 1 }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of areas")]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const PAGE: u64 = PAGE_SIZE as u64;

    /// Returns an unnamed temporary file.
    fn file(length: u64) -> File {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ferroce-region-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        std::fs::remove_file(&path).expect("a file that was just made");
        let file = file.expect("a file in the temporary folder");
        file.set_len(length).expect("an empty file");
        file
    }

    /// Returns a device of four pages in a file: the region is the last three.
    fn region(areas: &[Range<u64>]) -> (Region, File) {
        let file = file(4 * PAGE);
        let copy = file.try_clone().expect("a descriptor");
        (Region::new(copy, PAGE, 3 * PAGE, areas), file)
    }

    /// Goal: accesses return the same bytes whether a place is mapped or not. Method: every layout
    /// of windows, against the file.
    #[test]
    fn mapped_or_not_words_are_the_same() {
        for areas in [
            &[][..],
            &[0..3 * PAGE],
            &[PAGE..2 * PAGE],
            &[0..PAGE, 2 * PAGE..3 * PAGE],
        ] {
            let (region, file) = region(areas);
            assert_eq!(region.is_mapped(), !areas.is_empty());
            for offset in [0, 8, PAGE - 8, PAGE, 2 * PAGE + 16, 3 * PAGE - 8] {
                region.write(offset, 0x1122_3344_5566_7788u64);
                let mut bytes = [0; 8];
                file.read_exact_at(&mut bytes, PAGE + offset)
                    .expect("inside");
                assert_eq!(u64::from_le_bytes(bytes), 0x1122_3344_5566_7788);
                assert_eq!(region.read::<u64>(offset), 0x1122_3344_5566_7788);
                assert_eq!(region.read::<u32>(offset + 4), 0x1122_3344);
                region.write(offset, 0xaabb_ccddu32);
                assert_eq!(region.read::<u64>(offset), 0x1122_3344_aabb_ccdd);
                assert_eq!(region.read::<u8>(offset + 3), 0xaa);
                region.write(offset + 2, 0x99u8);
                assert_eq!(region.read::<u16>(offset + 2), 0xaa99);
            }
        }
    }

    #[test]
    fn what_is_outside_reads_as_ones_and_is_not_written() {
        for areas in [&[][..], &[0..3 * PAGE]] {
            let (region, file) = region(areas);
            file.write_all_at(&[7; 8], 0).expect("inside");
            for offset in [3 * PAGE, 3 * PAGE - 4, u64::MAX - 7, u64::MAX - PAGE + 1] {
                assert_eq!(region.read::<u64>(offset), u64::MAX, "{offset:#x}");
                region.write(offset, 0u64);
            }
            let length = file.metadata().expect("its length").len();
            assert_eq!(length, 4 * PAGE);
            let mut first = [0; 8];
            file.read_exact_at(&mut first, 0).expect("inside");
            assert_eq!(first, [7; 8], "the page before the region");
        }
    }

    #[test]
    fn bytes_at_any_offset_and_length() {
        for areas in [&[][..], &[0..PAGE]] {
            let (region, _file) = region(areas);
            let source: Vec<u8> = (1..=40).collect();
            for (offset, length) in [(0, 40), (1, 1), (7, 18), (PAGE - 3, 20), (3 * PAGE - 9, 9)] {
                region.write_bytes(offset, &source[..length]);
                let mut copy = vec![0; length];
                region.read_bytes(offset, &mut copy);
                assert_eq!(copy, source[..length], "{length} bytes at {offset}");
            }
            let mut copy = [0; 12];
            region.write_bytes(3 * PAGE - 4, &[5; 12]);
            region.read_bytes(3 * PAGE - 4, &mut copy);
            assert_eq!(copy, [5, 5, 5, 5, 255, 255, 255, 255, 255, 255, 255, 255]);
        }
    }

    #[test]
    fn areas_that_make_no_sense_are_not_mapped() {
        let backwards = Range {
            start: PAGE,
            end: 0,
        };
        for area in [0..0, backwards, 0..4 * PAGE, 8..PAGE, 3 * PAGE..4 * PAGE] {
            let (region, _file) = region(std::slice::from_ref(&area));
            assert!(!region.is_mapped(), "{area:?}");
            region.write(0, 1u32);
            assert_eq!(region.read::<u32>(0), 1);
        }
        let (half, _file) = region(&[0..PAGE]);
        assert!(half.map_start(PAGE).is_some() && half.map_start(2 * PAGE).is_none());
    }

    /// Goal: a device that is gone only reads as ones. Method: the file is cut short.
    #[test]
    fn a_file_that_fails_reads_as_ones() {
        let (region, file) = region(&[]);
        file.set_len(0).expect("it can be cut");
        assert_eq!(region.read::<u32>(0), u32::MAX);
    }
}

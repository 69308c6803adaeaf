//! Determines the page size with which the kernel backs a range of addresses.

use std::io::{BufRead, BufReader};
use std::ops::Range;

/// Memory regions shorter than this are not examined: they would save few translations.
const LEAST_LENGTH: usize = 2 << 20;

/// Returns the base-2 logarithm of the largest page size that the whole range consists of and that
/// is among `page_sizes` (a sum of sizes): 12, 21 or 30.
pub fn log_page_size(address: usize, length: usize, page_sizes: u64) -> u8 {
    if length < LEAST_LENGTH || !uses_hugetlb() {
        return 12;
    }
    let Ok(file) = std::fs::File::open("/proc/self/smaps") else {
        return 12;
    };
    let end = address.saturating_add(length);
    let log = smallest_page(BufReader::new(file), &(address..end));
    if page_sizes >> log & 1 == 1 { log } else { 12 }
}

/// Returns true if this process has hugetlb pages. This check is cheap; `smaps` walks the page
/// tables of the whole process.
fn uses_hugetlb() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return false;
    };
    status
        .lines()
        .find_map(|line| line.strip_prefix("HugetlbPages:"))
        .is_some_and(|value| value.split_whitespace().next() != Some("0"))
}

/// Returns the base-2 logarithm of the smallest kernel page size of the mappings that hold `range`;
/// 12 when they do not hold all of it, or the text is malformed.
fn smallest_page(smaps: impl BufRead, range: &Range<usize>) -> u8 {
    let mut next = range.start;
    let mut smallest = u8::MAX;
    let mut mapping: Option<Range<usize>> = None;
    for line in smaps.lines().map_while(Result::ok) {
        if next >= range.end {
            break;
        }
        if let Some(found) = header(&line) {
            mapping = found.contains(&next).then_some(found);
        } else if let (Some(holder), Some(log)) = (&mapping, kernel_page_size(&line)) {
            smallest = smallest.min(log);
            next = holder.end;
            mapping = None;
        }
    }
    match smallest {
        21 | 30 if next >= range.end => smallest,
        _ => 12,
    }
}

/// Parses the range in a mapping's first line: `7f0000000000-7f0000200000 rw-p …`.
fn header(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let parse = |text| usize::from_str_radix(text, 16).ok();
    Some(parse(start)?..parse(end)?)
}

/// Returns the base-2 logarithm of the value in a line `KernelPageSize:     2048 kB`.
fn kernel_page_size(line: &str) -> Option<u8> {
    let value = line.strip_prefix("KernelPageSize:")?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let bytes = kib.checked_mul(1024)?;
    bytes
        .is_power_of_two()
        .then(|| bytes.trailing_zeros() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
10000000-10400000 rw-p 00000000 00:0f 5 /anon_hugepage
Size:               4096 kB
KernelPageSize:     2048 kB
MMUPageSize:        2048 kB
VmFlags: rd wr mr mw me de ht
10400000-10800000 rw-p 00000000 00:00 0
KernelPageSize:     2048 kB
10800000-10900000 rw-p 00000000 00:00 0
KernelPageSize:        4 kB
40000000-80000000 rw-p 00000000 00:00 0
KernelPageSize:  1048576 kB
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
KernelPageSize:        4 kB
";

    fn log(range: Range<usize>) -> u8 {
        smallest_page(SMAPS.as_bytes(), &range)
    }

    #[test]
    fn page_size_of_ranges() {
        assert_eq!(log(0x1000_1000..0x1020_0000), 21);
        assert_eq!(log(0x1000_1000..0x1080_0000), 21, "two mappings");
        assert_eq!(log(0x1000_1000..0x1080_0001), 12, "a small page at the end");
        assert_eq!(log(0x1000_1000..0x1090_0001), 12, "a hole at the end");
        assert_eq!(log(0x0fff_f000..0x1020_0000), 12, "a hole at the start");
        assert_eq!(log(0x4000_0000..0x8000_0000), 30);
    }

    #[test]
    fn garbage_is_a_small_page() {
        let garbage = "x-y\nKernelPageSize: kB\nKernelPageSize: 3 kB\n-\n\u{fffd}";
        assert_eq!(smallest_page(garbage.as_bytes(), &(0..1)), 12);
        let odd = "0-1000 r\nKernelPageSize: 64 kB\n";
        assert_eq!(
            smallest_page(odd.as_bytes(), &(0..1)),
            12,
            "not in the contract"
        );
    }

    #[test]
    fn ordinary_memory_of_this_process() {
        let memory = vec![1u8; 4 << 20];
        assert_eq!(
            log_page_size(memory.as_ptr() as usize, memory.len(), !0),
            12
        );
    }
}

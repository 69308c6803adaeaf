#![expect(unsafe_code, reason = "calls guarded copies, with memory and without")]

use super::*;

const PAGE: usize = 4096;

/// A mapped page, with an unmapped one behind it.
struct Edge(*mut u8);

impl Edge {
    fn new() -> Self {
        // SAFETY: a new mapping, of which the second page is unmapped again.
        let base = unsafe {
            let base = libc::mmap(
                std::ptr::null_mut(),
                2 * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(base, libc::MAP_FAILED);
            assert_eq!(
                libc::mprotect(base.byte_add(PAGE), PAGE, libc::PROT_NONE),
                0
            );
            base
        };
        Self(base.cast())
    }

    /// Returns the last `length` bytes of the mapped page.
    fn last(&self, length: usize) -> *mut u8 {
        self.0.wrapping_add(PAGE - length)
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // SAFETY: `new` has mapped it, and no pointer into it is used any more.
        unsafe { libc::munmap(self.0.cast(), 2 * PAGE) };
    }
}

fn lengths() -> impl Iterator<Item = usize> {
    (0..300).chain([511, 512, 513, 1000, 1024, 2048, 4000])
}

/// Goal: every byte is copied and none beside. Method: all short lengths, at each alignment of
/// either side, up to the last mapped byte, with registers of each width.
#[test]
fn copies_all_lengths_at_all_alignments() {
    for steps in 0.. {
        if !machine::prepare_narrower(steps) {
            break;
        }
        copy_all_lengths();
    }
    prepare();
}

fn copy_all_lengths() {
    let source: Vec<u8> = (0..5000u32).map(|n| (n * 7 + n / 251) as u8).collect();
    let edge = Edge::new();
    for length in lengths() {
        for shift in 0..65 {
            let mut copied = vec![0xee; 5000];
            // SAFETY: both ranges are inside of their vectors.
            let done = unsafe {
                let destination = copied.as_mut_ptr().add(64 + shift);
                copy(destination, source.as_ptr().add(shift * 3), length)
            };
            assert_eq!(done, Ok(()));
            let expected = &source[shift * 3..][..length];
            assert_eq!(
                &copied[64 + shift..][..length],
                expected,
                "{length} {shift}"
            );
            assert!(copied[..64 + shift].iter().all(|byte| *byte == 0xee));
            assert!(
                copied[64 + shift + length..]
                    .iter()
                    .all(|byte| *byte == 0xee)
            );
        }
        let last = edge.last(length);
        // SAFETY: the last bytes of the mapped page.
        unsafe {
            assert_eq!(copy(last, source.as_ptr(), length), Ok(()));
            assert_eq!(copy(last, source.as_ptr(), length), Ok(()));
            let found = std::slice::from_raw_parts(last, length);
            assert_eq!(found, &source[..length]);
        }
    }
}

#[test]
fn the_last_bytes_are_stored_behind_the_others() {
    let source: Vec<u8> = (1..=40).collect();
    for (head, tail) in [(0, 1), (2, 2), (4, 4), (8, 8), (32, 8), (6, 2), (7, 1)] {
        let mut copied = [0u64; 6];
        let destination = copied.as_mut_ptr().cast::<u8>();
        // SAFETY: inside of both.
        let done = unsafe { copy_and_store(destination, source.as_ptr(), head, tail) };
        assert_eq!(done, Ok(()));
        let bytes: Vec<u8> = copied.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(bytes[..head + tail], source[..head + tail]);
        assert!(bytes[head + tail..].iter().all(|byte| *byte == 0));
    }
}

/// Installs a handler that continues guarded instructions at their end. Returns false where no
/// instruction is guarded.
#[cfg(target_arch = "x86_64")]
fn resume_faults() -> bool {
    extern "C" fn resume(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel passes the context with which it continues; the test ends with an
        // abort, which a handler may call, if another instruction has faulted.
        unsafe {
            let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            let instruction = &mut registers[libc::REG_RIP as usize];
            match landing(*instruction as usize) {
                Some(landing) => *instruction = landing as i64,
                None => libc::abort(),
            }
        }
    }
    // SAFETY: all zero is an action without a mask; the handler calls what handlers may call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = resume as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()) == 0
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn resume_faults() -> bool {
    false
}

/// Goal: a copy that runs into unmapped memory returns a fault, wherever in the routine it occurs.
/// Method: all lengths end one byte behind the mapped page, in both directions.
#[test]
fn what_is_not_there_is_a_fault() {
    if !resume_faults() {
        return;
    }
    let edge = Edge::new();
    let mut bytes = vec![0; 5000];
    for length in lengths().filter(|length| *length > 0) {
        let last = edge.last(length - 1);
        // SAFETY: the vector is longer; nothing is mapped behind the page.
        unsafe {
            assert_eq!(copy(last, bytes.as_ptr(), length), Err(Fault), "{length}");
            assert_eq!(
                copy(bytes.as_mut_ptr(), last, length),
                Err(Fault),
                "{length}"
            );
        }
    }
    let words = [1u64; 3];
    let gone = edge.last(0).cast::<u64>();
    // SAFETY: nothing is mapped behind the page, and addresses are aligned.
    unsafe {
        assert_eq!(store_words(edge.last(16).cast(), &words), Err(Fault));
        assert_eq!(fetch_add(gone, 1), Err(Fault));
        assert_eq!(compare_swap(gone, 0, 1), Err(Fault));
        for tail in [1, 2, 4, 8] {
            let last = edge.last(8);
            assert_eq!(copy_and_store(last, bytes.as_ptr(), 8, tail), Err(Fault));
        }
        assert_eq!(store_words(gone.sub(1), &words[..1]), Ok(()));
        assert_eq!(fetch_add(gone.sub(1), 5), Ok(1));
        assert_eq!(compare_swap(gone.sub(1), 6, 9), Ok(6));
        assert_eq!(compare_swap(gone.sub(1), 6, 7), Ok(9));
    }
}

//! Files in memory, for buffers that another process maps.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const NAME: &CStr = c"ferroce-dma";

/// Creates a file of `length` zeros, which takes memory only where it is written. Its length is
/// sealed: a process that maps it may rely on that.
///
/// # Errors
///
/// The error of the operating system; `EMFILE` when the process has reached its limit of open
/// files.
pub fn create(length: usize) -> io::Result<OwnedFd> {
    let length =
        libc::off_t::try_from(length).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    let file = open(libc::MFD_NOEXEC_SEAL)
        // Linux before 6.3 does not know that flag.
        .or_else(|_| open(0))?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: both calls only change the descriptor's file, which this function has just created.
    let failed = unsafe {
        libc::ftruncate(file.as_raw_fd(), length) != 0
            || libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) != 0
    };
    if failed {
        Err(io::Error::last_os_error())
    } else {
        Ok(file)
    }
}

fn open(flags: libc::c_uint) -> io::Result<OwnedFd> {
    let flags = flags | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a string with a final zero.
    let file = unsafe { libc::memfd_create(NAME.as_ptr(), flags) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// Returns true if the file has at least `length` bytes and is sealed against shrinking.
pub fn cannot_shrink_below(file: BorrowedFd, length: u64) -> bool {
    // SAFETY: the call only reads the seals of a file.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    // Files that cannot be sealed return an error.
    let is_sealed = seals >= 0 && seals & libc::F_SEAL_SHRINK != 0;
    let size = file
        .try_clone_to_owned()
        .and_then(|file| File::from(file).metadata());
    is_sealed && size.is_ok_and(|size| size.len() >= length)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_length_is_sealed() {
        let file = create(8192).expect("a file in memory");
        assert!(cannot_shrink_below(file.as_fd(), 8192));
        assert!(!cannot_shrink_below(file.as_fd(), 8193));
        assert!(!cannot_shrink_below(io::stdin().as_fd(), 0));
        for length in [4096, 16_384] {
            // SAFETY: the call only changes the length of a file of this test.
            let result = unsafe { libc::ftruncate(file.as_raw_fd(), length) };
            assert_eq!(result, -1);
            assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));
        }
    }
}

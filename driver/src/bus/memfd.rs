//! Files in memory, for buffers that another process maps.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const NAME: &CStr = c"ferroce-dma";

/// A file of `length` zeros, which takes memory only where it is written. Nobody can change its
/// length: who maps it may rely on that.
///
/// # Errors
///
/// What the system says; `EMFILE` when the process has as many files open as it may.
pub(crate) fn create(length: usize) -> io::Result<OwnedFd> {
    let length =
        libc::off_t::try_from(length).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    let file = open(libc::MFD_NOEXEC_SEAL)
        // Linux before 6.3 does not know that flag.
        .or_else(|_| open(0))?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: both calls only change the file behind the descriptor, which is ours.
    let failed = unsafe {
        libc::ftruncate(file.as_raw_fd(), length) != 0
            || libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) != 0
    };
    match failed {
        true => Err(io::Error::last_os_error()),
        false => Ok(file),
    }
}

fn open(flags: libc::c_uint) -> io::Result<OwnedFd> {
    let flags = flags | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a string with a final zero.
    let file = unsafe { libc::memfd_create(NAME.as_ptr(), flags) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_sealed() {
        let file = create(8192).expect("a file in memory");
        for length in [4096, 16_384] {
            // SAFETY: only asks for another length of a file of this test.
            let result = unsafe { libc::ftruncate(file.as_raw_fd(), length) };
            assert_eq!(result, -1);
            assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));
        }
    }
}

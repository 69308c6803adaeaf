//! Waiting for descriptors, and the kernel's tap interfaces.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Waits until one of two descriptors can be read, has an error or was hung up, at most
/// `timeout_ms`. An interruption by a signal counts as the end of the time.
pub fn wait_readable(one: BorrowedFd<'_>, other: BorrowedFd<'_>, timeout_ms: i32) {
    let entry = |fd: BorrowedFd<'_>| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut entries = [entry(one), entry(other)];
    // SAFETY: both descriptors are open for the duration of the call, `entries` is a local array.
    unsafe {
        libc::poll(
            entries.as_mut_ptr(),
            entries.len() as libc::nfds_t,
            timeout_ms,
        )
    };
}

/// Opens a tap interface: an existing one that this user may use, or a new one if the user may
/// create interfaces. Frames have no additional header.
///
/// # Errors
/// `PermissionDenied` (EPERM): the user may neither use nor create it. `ResourceBusy`: another
/// process has it. Otherwise the error of the system.
pub fn open_tap(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open; TUNSETIFF reads and writes the local ifreq.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns true if a network interface is up.
///
/// # Errors
/// ENODEV if it does not exist in this network namespace.
pub fn interface_is_up(name: &str) -> io::Result<bool> {
    let mut request = interface_request(name)?;
    interface_ioctl(libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: SIOCGIFFLAGS has written the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(i32::from(flags) & libc::IFF_UP != 0)
}

/// Sets a network interface up.
///
/// # Errors
/// EPERM if this user may not.
pub fn set_interface_up(name: &str) -> io::Result<()> {
    let mut request = interface_request(name)?;
    interface_ioctl(libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: SIOCGIFFLAGS has written the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
    interface_ioctl(libc::SIOCSIFFLAGS, &mut request)
}

/// Returns the longest IP packet that a network interface sends, in bytes.
///
/// # Errors
/// ENODEV if there is none of this name.
pub fn interface_mtu(name: &str) -> io::Result<u32> {
    let mut request = interface_request(name)?;
    interface_ioctl(libc::SIOCGIFMTU, &mut request)?;
    // SAFETY: SIOCGIFMTU has written the MTU.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(mtu.unsigned_abs())
}

/// Changes the longest IP packet of a network interface.
///
/// # Errors
/// EPERM if this user may not, EINVAL if the interface cannot.
pub fn set_interface_mtu(name: &str, mtu: u16) -> io::Result<()> {
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_mtu = libc::c_int::from(mtu);
    interface_ioctl(libc::SIOCSIFMTU, &mut request)
}

fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is a plain C struct for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero: the kernel reads a C string.
    if name.len() >= request.ifr_name.len() || name.bytes().any(|byte| byte == 0) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn interface_ioctl(request: libc::c_ulong, argument: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: socket has no memory arguments.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and owned by nothing else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: the descriptor is open; the SIOC[GS]IF* requests read and write the caller's ifreq.
    match unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut *argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

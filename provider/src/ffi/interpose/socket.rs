//! `socket` of libc.

use libc::c_int;

use super::fail;
use crate::errno::Errno;
use crate::ffi::next::next;

/// Protocol of the kernel's RDMA subsystem: `<linux/netlink.h>`.
const NETLINK_RDMA: c_int = 20;

/// `socket` of libc. The kernel's list of RDMA devices (`NETLINK_RDMA`) is that of other devices:
/// with its numbers librdmacm would take the kernel's `/dev/infiniband/rdma_cm` for the right one.
/// Without the protocol it reads sysfs, as on a kernel that lacks RDMA.
#[unsafe(no_mangle)]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == libc::AF_NETLINK && protocol == NETLINK_RDMA {
        return fail(Errno::new(libc::EPROTONOSUPPORT));
    }
    // That of librspreload, for one, comes after this library.
    type Socket = extern "C" fn(c_int, c_int, c_int) -> c_int;
    match next!(socket as Socket) {
        Some(next) => next(domain, kind, protocol),
        // SAFETY: the system call reads no memory.
        None => unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) as c_int },
    }
}

//! Numbers of errors, as Linux has them (errno(3)): the driver reports them on any system.

pub(crate) const EBUSY: i32 = 16;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const EFAULT: i32 = 14;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const EIO: i32 = 5;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const ENOMEM: i32 = 12;
pub(crate) const EOPNOTSUPP: i32 = 95;
pub(crate) const ETIMEDOUT: i32 = 110;

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn numbers_are_those_of_linux() {
        let pairs = [
            (EBUSY, Errno::BUSY),
            (EEXIST, Errno::EXIST),
            (EFAULT, Errno::FAULT),
            (EINVAL, Errno::INVAL),
            (EIO, Errno::IO),
            (ENODEV, Errno::NODEV),
            (ENOENT, Errno::NOENT),
            (ENOMEM, Errno::NOMEM),
            (EOPNOTSUPP, Errno::OPNOTSUPP),
            (ETIMEDOUT, Errno::TIMEDOUT),
        ];
        for (number, errno) in pairs {
            assert_eq!(number, errno.raw_os_error());
        }
    }
}

//! Error numbers of Linux (errno(3)), which the driver reports on any system.

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
    use super::*;

    #[test]
    fn numbers_are_those_of_linux() {
        let pairs = [
            (EBUSY, libc::EBUSY),
            (EEXIST, libc::EEXIST),
            (EFAULT, libc::EFAULT),
            (EINVAL, libc::EINVAL),
            (EIO, libc::EIO),
            (ENODEV, libc::ENODEV),
            (ENOENT, libc::ENOENT),
            (ENOMEM, libc::ENOMEM),
            (EOPNOTSUPP, libc::EOPNOTSUPP),
            (ETIMEDOUT, libc::ETIMEDOUT),
        ];
        for (number, of_linux) in pairs {
            assert_eq!(number, of_linux);
        }
    }
}

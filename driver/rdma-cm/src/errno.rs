//! Why the kernel refuses a command.

use core::fmt;

use ferroce_cm::CommandError;

/// A positive error number of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub struct Errno(pub i32);

/// Declares the numbers with their names.
macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Self = Self($number);)*

            /// Returns the name, as in `errno(3)`; None for a number that this crate does not use.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    ENOENT = 2, "No such id";
    EIO = 5, "Input or output error";
    ENXIO = 6, "The device has been removed";
    EAGAIN = 11, "No event waits";
    ENOMEM = 12, "A table is full";
    EACCES = 13, "The port needs a privilege";
    ENODEV = 19, "No device";
    EINVAL = 22, "Invalid argument, or not in this state";
    ENOSPC = 28, "No room for the response";
    ENOSYS = 38, "No such command or option";
    EOPNOTSUPP = 95, "Not supported";
    EADDRINUSE = 98, "The port is in use";
    EADDRNOTAVAIL = 99, "No device has the address";
    ENETUNREACH = 101, "No device has an address to begin from";
    EISCONN = 106, "The connection is established";
    ETIMEDOUT = 110, "No answer";
    EHOSTUNREACH = 113, "No host has the address";
}

impl Errno {
    /// Returns the number, as `errno` has it.
    #[must_use]
    pub const fn to_raw(self) -> i32 {
        self.0
    }

    /// Returns the status that an event carries: the negative number.
    #[must_use]
    pub const fn to_status(self) -> i32 {
        -self.0
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl From<CommandError> for Errno {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::AddressInUse => Self::EADDRINUSE,
            CommandError::TooMany(_) => Self::ENOMEM,
            CommandError::UnknownListener(_)
            | CommandError::UnknownConnection(_)
            | CommandError::State(_)
            | CommandError::PrivateData { .. } => Self::EINVAL,
        }
    }
}

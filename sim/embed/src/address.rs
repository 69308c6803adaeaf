//! Device names, in the form that users write.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ferroce_vfio::pci::{Bdf, BdfError};

const IN_PROCESS: &str = "in-process";
const VFIO_USER: &str = "vfio-user:";
const VFIO: &str = "vfio:";
/// Longest path of a socket: `sockaddr_un.sun_path` without its final zero (unix(7)).
const SOCKET_PATH_MAX: usize = 107;

/// Location of a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeviceAddress {
    /// `in-process`: a model in this process.
    InProcess,
    /// `vfio-user:PATH`: a model in another process, which listens at this socket.
    VfioUser(PathBuf),
    /// `vfio:BDF`: a PCI function bound to the kernel's VFIO driver.
    Vfio(Bdf),
}

/// Error for text that is not the name of a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text begins with none of the known words.
    #[error(
        "`{0}` names no device; it would be `in-process`, `vfio-user:/path/of/socket` or \
         `vfio:0000:01:00.0`"
    )]
    UnknownKind(String),
    /// The path is missing.
    #[error("`vfio-user:` needs the path of a socket, for example vfio-user:/run/ferroce0.sock")]
    EmptyPath,
    /// The path does not fit the address of a socket.
    #[error(
        "the path of a socket has at most {SOCKET_PATH_MAX} bytes, `{0}` has {length}",
        length = .0.len()
    )]
    PathTooLong(String),
    /// The address of the PCI function is malformed.
    #[error(transparent)]
    Bdf(#[from] BdfError),
}

impl FromStr for DeviceAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text == IN_PROCESS {
            return Ok(Self::InProcess);
        }
        if let Some(path) = text.strip_prefix(VFIO_USER) {
            return match path.len() {
                0 => Err(AddressError::EmptyPath),
                1..=SOCKET_PATH_MAX => Ok(Self::VfioUser(path.into())),
                _ => Err(AddressError::PathTooLong(path.to_owned())),
            };
        }
        match text.strip_prefix(VFIO) {
            Some(bdf) => Ok(Self::Vfio(bdf.parse()?)),
            None => Err(AddressError::UnknownKind(text.to_owned())),
        }
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InProcess => f.write_str(IN_PROCESS),
            Self::VfioUser(path) => write!(f, "{VFIO_USER}{}", path.display()),
            Self::Vfio(bdf) => write!(f, "{VFIO}{bdf}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (text, written) in [
            ("in-process", "in-process"),
            ("vfio-user:/run/a b,c:d.sock", "vfio-user:/run/a b,c:d.sock"),
            ("vfio-user:relative.sock", "vfio-user:relative.sock"),
            ("vfio:0000:01:00.0", "vfio:0000:01:00.0"),
            ("vfio:01:1f.7", "vfio:0000:01:1f.7"),
            ("vfio:10000:01:00.0", "vfio:10000:01:00.0"),
        ] {
            let address: DeviceAddress = text.parse().expect(text);
            assert_eq!(address.to_string(), written);
            assert_eq!(written.parse(), Ok(address));
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_an_example() {
        let long = format!("vfio-user:/{}", "x".repeat(SOCKET_PATH_MAX));
        for (text, words) in [
            ("", "vfio-user:/path"),
            ("in-process0", "`in-process`"),
            ("/run/ferroce.sock", "vfio-user:/path"),
            ("VFIO:01:00.0", "vfio:0000:01:00.0"),
            ("vfio-user:", "/run/ferroce0.sock"),
            ("vfio:", "0000:01:00.0"),
            ("vfio:01:20.0", "0000:01:00.0"),
            (&long, "at most 107 bytes"),
        ] {
            let error = text.parse::<DeviceAddress>().expect_err(text);
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}

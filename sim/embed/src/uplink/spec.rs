//! Values of `--port` and `FERROCE_PORT`: the wire of a device.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ferroce_platform::host::EnvironmentError;

use crate::error::Error;

/// Longest name of a network interface (IFNAMSIZ without the final zero).
const MAX_INTERFACE_NAME: usize = 15;
/// Longest path of a Unix socket (`sun_path` without the final zero, unix(7)).
const MAX_SOCKET_PATH: usize = 107;
/// Separates the wires of several devices.
pub const SEPARATOR: char = ';';
/// No uplink: only the fabric of this machine.
const FABRIC_ONLY: &str = "shm";

/// Warning for users of UDP.
pub const UNAUTHENTICATED: &str = "it does not authenticate: any sender with the other end's address \
     reaches memory that programs have registered for remote access; use it on a separate network, \
     or in a tunnel";

/// A wire that leads out of the fabric of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UplinkSpec {
    /// A tap interface of the kernel.
    Tap {
        /// Name of the interface.
        name: String,
    },
    /// Unix datagram sockets: each datagram is a frame (QEMU's `-netdev dgram`).
    QemuDatagram {
        /// The local socket.
        local: PathBuf,
        /// The remote socket.
        remote: PathBuf,
    },
    /// A Unix stream socket: each frame follows its length in four bytes, big-endian (QEMU's
    /// `-netdev stream`).
    QemuStream {
        /// The socket.
        path: PathBuf,
        /// True if this end listens; otherwise it connects.
        listens: bool,
    },
    /// UDP: each datagram is a frame. There is no authentication.
    Udp {
        /// The local endpoint.
        local: Endpoint,
        /// The remote endpoint.
        remote: Endpoint,
    },
    /// Receives frames from a capture; sent frames are dropped.
    PcapReplay {
        /// A pcap or pcapng file.
        file: PathBuf,
    },
}

/// Host and UDP port. Names are resolved when the wire is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(String);

impl Endpoint {
    /// Returns its current addresses, at least one: a name may have addresses of IPv4 and of IPv6.
    ///
    /// # Errors
    /// The error of the resolver; `NotFound` if the name has no address.
    pub fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        let found: Vec<_> = self.0.to_socket_addrs()?.collect();
        if found.is_empty() {
            Err(std::io::ErrorKind::NotFound.into())
        } else {
            Ok(found)
        }
    }
}

impl FromStr for Endpoint {
    type Err = UplinkSpecError;

    fn from_str(text: &str) -> Result<Self, UplinkSpecError> {
        let refused = || UplinkSpecError::Endpoint(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
        let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
        if host.is_empty() || is_bare_ipv6 || port.parse::<u16>().map_or(true, |port| port == 0) {
            return Err(refused());
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reason why a text does not name a wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UplinkSpecError {
    /// Unknown kind.
    #[error(
        "there is no wire {0:?}; there are shm, tap:NAME, qemu-dgram:LOCAL,REMOTE, \
         qemu-stream:PATH, qemu-stream:listen:PATH, udp:LOCAL,REMOTE and pcap-replay:FILE"
    )]
    Kind(String),
    /// A missing part after the colon.
    #[error("{kind} needs {needs}")]
    Missing {
        /// The kind of wire.
        kind: &'static str,
        /// The missing part.
        needs: &'static str,
    },
    /// Not a name that an interface can have.
    #[error(
        "{0:?} cannot be the name of an interface: 1 to 15 printable characters without / and :"
    )]
    Interface(String),
    /// Not host:port.
    #[error("{0:?} is not ADDRESS:PORT, such as 192.0.2.1:4792, [2001:db8::1]:4792 or host-b:4792")]
    Endpoint(String),
    /// An invalid path of a socket.
    #[error("a socket's path has 1 to 107 bytes, and no {SEPARATOR:?} or comma: {0:?}")]
    SocketPath(String),
    /// Both ends are the same.
    #[error("both ends are {0}")]
    SameEnds(String),
}

impl UplinkSpec {
    /// Returns a warning for users of this wire.
    pub fn caveat(&self) -> Option<&'static str> {
        matches!(self, Self::Udp { .. }).then_some(UNAUTHENTICATED)
    }

    /// Parses one wire. Returns `None` for `shm`, which is only the fabric of this machine.
    ///
    /// # Errors
    /// [`UplinkSpecError`] with the remedy.
    pub fn parse(text: &str) -> Result<Option<Self>, UplinkSpecError> {
        if text == FABRIC_ONLY {
            return Ok(None);
        }
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let spec = match kind {
            "tap" => Self::Tap {
                name: interface_name(rest)?,
            },
            "qemu-dgram" => {
                let (local, remote) =
                    ends("qemu-dgram", rest, "the paths of two sockets: LOCAL,REMOTE")?;
                Self::QemuDatagram {
                    local: socket_path(local)?,
                    remote: socket_path(remote)?,
                }
            }
            "qemu-stream" => {
                let path = rest.strip_prefix("listen:");
                Self::QemuStream {
                    path: socket_path(path.unwrap_or(rest))?,
                    listens: path.is_some(),
                }
            }
            "udp" => {
                let (local, remote) = ends("udp", rest, "two ends: ADDRESS:PORT,ADDRESS:PORT")?;
                Self::Udp {
                    local: local.parse()?,
                    remote: remote.parse()?,
                }
            }
            "pcap-replay" => Self::PcapReplay {
                file: Some(rest)
                    .filter(|rest| !rest.is_empty())
                    .map(PathBuf::from)
                    .ok_or(UplinkSpecError::Missing {
                        kind: "pcap-replay",
                        needs: "the name of a capture file",
                    })?,
            },
            _ => return Err(UplinkSpecError::Kind(text.to_owned())),
        };
        Ok(Some(spec))
    }

    /// Parses the wires of several devices, in their order, separated by semicolons.
    ///
    /// # Errors
    /// The error of the first invalid one.
    pub fn parse_list(text: &str) -> Result<Vec<Option<Self>>, UplinkSpecError> {
        let parts = text.split(SEPARATOR).map(str::trim);
        parts.map(Self::parse).collect()
    }

    /// Returns the wire that `FERROCE_PORT` gives to a device. `None`: only the fabric of this
    /// machine.
    ///
    /// # Errors
    /// [`Error::Environment`] if the variable does not name a wire.
    pub fn from_environment(device: u8) -> Result<Option<Self>, Error> {
        let Some(text) = std::env::var("FERROCE_PORT")
            .ok()
            .filter(|text| !text.is_empty())
        else {
            return Ok(None);
        };
        let list = Self::parse_list(&text).map_err(|error| {
            Error::Environment(EnvironmentError {
                name: "FERROCE_PORT",
                value: text,
                reason: error.to_string(),
            })
        })?;
        Ok(list.into_iter().nth(usize::from(device)).flatten())
    }

    /// Returns the same wire for a process that may have another working directory.
    ///
    /// # Errors
    /// This process no longer has a working directory.
    pub fn absolute(self) -> std::io::Result<Self> {
        let absolute = |path: &Path| std::path::absolute(path);
        Ok(match self {
            Self::QemuDatagram { local, remote } => Self::QemuDatagram {
                local: absolute(&local)?,
                remote: absolute(&remote)?,
            },
            Self::QemuStream { path, listens } => Self::QemuStream {
                path: absolute(&path)?,
                listens,
            },
            Self::PcapReplay { file } => Self::PcapReplay {
                file: absolute(&file)?,
            },
            Self::Tap { .. } | Self::Udp { .. } => self,
        })
    }
}

impl fmt::Display for UplinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tap { name } => write!(f, "tap:{name}"),
            Self::QemuDatagram { local, remote } => {
                write!(f, "qemu-dgram:{},{}", local.display(), remote.display())
            }
            Self::QemuStream { path, listens } => {
                let listen = if *listens { "listen:" } else { "" };
                write!(f, "qemu-stream:{listen}{}", path.display())
            }
            Self::Udp { local, remote } => write!(f, "udp:{local},{remote}"),
            Self::PcapReplay { file } => write!(f, "pcap-replay:{}", file.display()),
        }
    }
}

fn interface_name(text: &str) -> Result<String, UplinkSpecError> {
    let is_legal = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':' | b'%');
    if text.is_empty() {
        let (kind, needs) = ("tap", "the name of an interface");
        return Err(UplinkSpecError::Missing { kind, needs });
    }
    if text.len() > MAX_INTERFACE_NAME || !text.bytes().all(is_legal) {
        return Err(UplinkSpecError::Interface(text.to_owned()));
    }
    Ok(text.to_owned())
}

fn ends<'a>(
    kind: &'static str,
    text: &'a str,
    needs: &'static str,
) -> Result<(&'a str, &'a str), UplinkSpecError> {
    let (local, remote) = text
        .split_once(',')
        .ok_or(UplinkSpecError::Missing { kind, needs })?;
    if local == remote {
        return Err(UplinkSpecError::SameEnds(local.to_owned()));
    }
    Ok((local, remote))
}

fn socket_path(text: &str) -> Result<PathBuf, UplinkSpecError> {
    if text.is_empty() || text.len() > MAX_SOCKET_PATH || text.contains([',', SEPARATOR, '\0']) {
        return Err(UplinkSpecError::SocketPath(text.to_owned()));
    }
    Ok(PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back() {
        for text in [
            "tap:ferroce0",
            "qemu-dgram:/run/a,/run/b",
            "qemu-stream:/run/q",
            "qemu-stream:listen:/run/q",
            "udp:10.0.0.1:4792,10.0.0.2:4792",
            "udp:[::1]:4792,host-b:4793",
            "pcap-replay:a:b.pcapng",
        ] {
            let spec = UplinkSpec::parse(text).expect(text).expect("a wire");
            assert_eq!(spec.to_string(), text);
        }
        assert_eq!(UplinkSpec::parse("shm"), Ok(None));
        let list = UplinkSpec::parse_list("shm; tap:a").expect("two");
        assert_eq!(list[0], None);
        assert_eq!(
            list[1].as_ref().map(ToString::to_string).as_deref(),
            Some("tap:a")
        );
    }

    #[test]
    fn errors_say_what_would_be_right() {
        for (text, expected) in [
            ("", "tap:NAME"),
            ("eth0", "there is no wire \"eth0\""),
            ("tap:", "needs the name of an interface"),
            ("tap:a-name-of-16-byte", "1 to 15"),
            ("tap:a/b", "1 to 15"),
            ("tap:t%d", "1 to 15"),
            ("qemu-dgram:/run/a", "LOCAL,REMOTE"),
            ("qemu-dgram:/run/a,", "1 to 107"),
            ("qemu-dgram:/run/a,/run/a", "both ends are /run/a"),
            ("qemu-stream:", "1 to 107"),
            ("qemu-stream:listen:", "1 to 107"),
            ("udp:10.0.0.1:4792", "ADDRESS:PORT,ADDRESS:PORT"),
            ("udp:10.0.0.1,10.0.0.2:1", "not ADDRESS:PORT"),
            ("udp:10.0.0.1:0,10.0.0.2:1", "not ADDRESS:PORT"),
            ("udp:::1:5,10.0.0.2:1", "not ADDRESS:PORT"),
            ("pcap-replay:", "capture file"),
            ("pcap-replay", "capture file"),
        ] {
            let message = UplinkSpec::parse(text).expect_err(text).to_string();
            assert!(message.contains(expected), "{text:?}: {message}");
        }
        let long = format!("qemu-stream:/{}", "x".repeat(107));
        assert!(UplinkSpec::parse(&long).is_err());
    }

    #[test]
    fn paths_become_absolute() {
        let spec = UplinkSpec::parse("qemu-dgram:a,/b")
            .expect("legal")
            .expect("a wire");
        let UplinkSpec::QemuDatagram { local, remote } = spec.absolute().expect("a folder") else {
            panic!("still a datagram socket")
        };
        assert!(local.is_absolute() && local.ends_with("a"));
        assert_eq!(remote, Path::new("/b"));
    }
}

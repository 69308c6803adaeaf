//! State that a process publishes as a communication manager, one line per entry with fields
//! separated by tabs. `ferroce cm` reads the lines in another process.

use std::fmt;

/// One published entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CmEntry {
    /// A listening id.
    Listener {
        /// Name of the port space: `tcp`.
        port_space: String,
        /// Address and port.
        address: String,
        /// Pending connection requests that the program has not read.
        unread: u64,
    },
    /// Another id.
    Connection {
        /// Name of the port space.
        port_space: String,
        /// Address and port, once known.
        address: Option<String>,
        /// Address and port of the peer, once known.
        peer: Option<String>,
        /// Its state.
        state: String,
    },
    /// Number of further connections, which are not listed.
    Others(u64),
    /// A request that was rejected.
    Rejection {
        /// GID of the requesting side.
        from: String,
        /// GID of the requested side.
        to: String,
        /// The requested service ID.
        service: u64,
        /// Reason code of the REJ.
        reason: u16,
        /// Name of the reason in the IBTA specification, if it has one.
        name: Option<String>,
    },
}

/// A field without a value.
const NONE: &str = "-";

impl CmEntry {
    /// Returns the line to publish.
    pub fn to_line(&self) -> String {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| NONE.to_owned());
        match self {
            Self::Listener {
                port_space,
                address,
                unread,
            } => format!("listener\t{port_space}\t{address}\t{unread}"),
            Self::Connection {
                port_space,
                address,
                peer,
                state,
            } => {
                let (address, peer) = (or_none(address), or_none(peer));
                format!("connection\t{port_space}\t{address}\t{peer}\t{state}")
            }
            Self::Others(count) => format!("others\t{count}"),
            Self::Rejection {
                from,
                to,
                service,
                reason,
                name,
            } => {
                let name = or_none(name);
                format!("rejection\t{from}\t{to}\t{service}\t{reason}\t{name}")
            }
        }
    }

    /// Parses a line. `None`: the line is not an entry.
    pub fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split('\t').collect();
        let text = |field: &&str| (**field).to_owned();
        let known = |field: &&str| (**field != *NONE).then(|| text(field));
        match &fields[..] {
            ["listener", port_space, address, unread] => Some(Self::Listener {
                port_space: text(port_space),
                address: text(address),
                unread: unread.parse().ok()?,
            }),
            ["connection", port_space, address, peer, state] => Some(Self::Connection {
                port_space: text(port_space),
                address: known(address),
                peer: known(peer),
                state: text(state),
            }),
            ["others", count] => count.parse().ok().map(Self::Others),
            ["rejection", from, to, service, reason, name] => Some(Self::Rejection {
                from: text(from),
                to: text(to),
                service: service.parse().ok()?,
                reason: reason.parse().ok()?,
                name: known(name),
            }),
            _ => None,
        }
    }
}

/// The form that `ferroce cm` prints.
impl fmt::Display for CmEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listener {
                port_space,
                address,
                unread,
            } => write!(
                f,
                "listener   {port_space:<5} {address}, {unread} requests unread"
            ),
            Self::Connection {
                port_space,
                address,
                peer,
                state,
            } => {
                let (address, peer) = (address.as_deref(), peer.as_deref());
                let (address, peer) = (address.unwrap_or(NONE), peer.unwrap_or(NONE));
                write!(f, "connection {port_space:<5} {address} {peer} {state}")
            }
            Self::Others(count) => write!(f, "connection and {count} more"),
            Self::Rejection {
                from,
                to,
                service,
                reason,
                name,
            } => {
                let name = name.as_deref().unwrap_or("unknown reason");
                write!(
                    f,
                    "rejected   {from} to {to}, service {service:#x}: {name} ({reason})"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let text = |text: &str| text.to_owned();
        let entries = [
            CmEntry::Listener {
                port_space: text("tcp"),
                address: text("0.0.0.0:7471"),
                unread: 2,
            },
            CmEntry::Connection {
                port_space: text("udp"),
                address: None,
                peer: Some(text("[::1]:5")),
                state: text("Connected"),
            },
            CmEntry::Others(7),
            CmEntry::Rejection {
                from: text("::1"),
                to: text("::2"),
                service: 0x0106_1d2f,
                reason: 28,
                name: Some(text("consumer defined")),
            },
        ];
        for entry in entries {
            assert_eq!(CmEntry::parse(&entry.to_line()), Some(entry.clone()));
            assert!(!entry.to_string().contains('\t'), "{entry}");
        }
        for bad in ["", "listener", "listener\ttcp\ta\tx", "others\t-1"] {
            assert_eq!(CmEntry::parse(bad), None, "{bad}");
        }
    }
}

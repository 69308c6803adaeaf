//! Errors of a fabric.

use super::{MAX_LINKS, MAX_SWITCHES};

/// Reason why a fabric cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// The file is not TOML, or has an unknown key or value.
    #[error("{message}")]
    File {
        /// The message of the parser, with the line.
        message: String,
    },
    /// A value does not fit the others.
    #[error("line {line}: {what}")]
    Line {
        /// The line, counted from one.
        line: usize,
        /// The fault.
        what: String,
    },
    /// Too many switches or links.
    #[error("a fabric has at most {MAX_SWITCHES} switches and {MAX_LINKS} links")]
    TooLarge,
    /// A link connects two hosts.
    #[error("a link joins two hosts; in a fabric, a host is joined to a switch")]
    HostToHost,
    /// A link connects a switch to itself.
    #[error("a link joins a switch with itself")]
    ToItself,
    /// A link ends at a missing switch.
    #[error("a link ends at a switch that is not there")]
    NoSwitch,
    /// A host has no link, or several.
    #[error("host n{host} has {links} links; each host from n0 on has one")]
    LinksOfHost {
        /// The host.
        host: usize,
        /// Its links.
        links: usize,
    },
    /// The world has no room for all functions.
    #[error(
        "line {line}: with {name} the fabric has {places} hosts and functions; there is room \
         for {most}"
    )]
    Places {
        /// The line.
        line: usize,
        /// The first host that does not fit.
        name: String,
        /// Number of hosts and functions up to it.
        places: usize,
        /// Maximum number.
        most: usize,
    },
    /// The rate of a host's link differs from the rate of its card.
    #[error("the link of host n{host} has the rate of its card, which the preset says")]
    RateOfHost {
        /// The host.
        host: usize,
    },
    /// A setting of a switch is out of range.
    #[error("switch {switch}: {what}")]
    Setting {
        /// The switch.
        switch: String,
        /// The fault.
        what: &'static str,
    },
    /// The headroom of all ports does not fit into the buffer.
    #[error(
        "switch {switch}: the headroom of its {ports} ports takes {headroom_bytes} bytes of a \
         buffer of {buffer_bytes}"
    )]
    Headroom {
        /// The switch.
        switch: String,
        /// Number of its ports.
        ports: usize,
        /// The total headroom.
        headroom_bytes: u64,
        /// The buffer.
        buffer_bytes: u64,
    },
    /// The world has a different number of hosts.
    #[error("the fabric has {fabric} hosts, and the world has {world}")]
    Hosts {
        /// Hosts of the fabric.
        fabric: usize,
        /// Hosts of the world.
        world: usize,
    },
    /// The world is functional: nothing takes time.
    #[error("a functional world has no fabric: in it, nothing takes time; choose a timed preset")]
    Functional,
    /// Two hosts are not connected.
    #[error("there is no path from switch {switch} to host n{host}")]
    NoPath {
        /// The switch.
        switch: String,
        /// The host.
        host: usize,
    },
    /// Pauses can wait for each other in a cycle.
    #[error(
        "PFC can deadlock this fabric: full buffers can wait for each other around a loop of \
         switches ({switches}); take a link out, or switch PFC off there"
    )]
    Loop {
        /// The switches of the loop.
        switches: String,
    },
    /// A pause storm names a missing host.
    #[error("a pause storm is at host n{host}, which is not there")]
    NoStormHost {
        /// The host.
        host: usize,
    },
}

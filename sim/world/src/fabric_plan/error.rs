//! What is wrong with a fabric.

use super::{MAX_LINKS, MAX_SWITCHES};

/// Why a fabric cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// The file is no TOML, or has a key or value that no fabric has.
    #[error("{message}")]
    File {
        /// What the reader says, with the line.
        message: String,
    },
    /// A value does not fit the others.
    #[error("line {line}: {what}")]
    Line {
        /// The line, from one on.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// Too many switches or links.
    #[error("a fabric has at most {MAX_SWITCHES} switches and {MAX_LINKS} links")]
    TooLarge,
    /// A link joins two hosts.
    #[error("a link joins two hosts; in a fabric, a host is joined to a switch")]
    HostToHost,
    /// A link joins a switch with itself.
    #[error("a link joins a switch with itself")]
    ToItself,
    /// A link ends at a switch that is not there.
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
    /// More functions than a world has room for.
    #[error(
        "line {line}: with {name} the fabric has {places} hosts and functions; there is room \
         for {most}"
    )]
    Places {
        /// The line.
        line: usize,
        /// The host at which the room ends.
        name: String,
        /// Hosts and functions up to it.
        places: usize,
        /// Most of them.
        most: usize,
    },
    /// The rate of a host's link is not that of its card.
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
        /// What is wrong.
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
        /// Its ports.
        ports: usize,
        /// The headroom of all of them.
        headroom_bytes: u64,
        /// The buffer.
        buffer_bytes: u64,
    },
    /// The world has another number of hosts.
    #[error("the fabric has {fabric} hosts, and the world has {world}")]
    Hosts {
        /// Hosts of the fabric.
        fabric: usize,
        /// Hosts of the world.
        world: usize,
    },
    /// Nothing takes time in the world.
    #[error("a functional world has no fabric: in it, nothing takes time; choose a timed preset")]
    Functional,
    /// Two hosts are not joined.
    #[error("there is no path from switch {switch} to host n{host}")]
    NoPath {
        /// The switch.
        switch: String,
        /// The host.
        host: usize,
    },
    /// Pauses can wait for each other in a circle.
    #[error(
        "PFC can deadlock this fabric: full buffers can wait for each other around a loop of \
         switches ({switches}); take a link out, or switch PFC off there"
    )]
    Loop {
        /// The switches of the loop.
        switches: String,
    },
    /// A storm is at a host that is not there.
    #[error("a pause storm is at host n{host}, which is not there")]
    NoStormHost {
        /// The host.
        host: usize,
    },
}

//! The values of the elements.

use super::super::section::{range, section};
use super::super::value::Range;

/// A rate; 0 forbids.
const GBPS: Range = Range::Between(0.0, 100_000.0);
/// A rate that something has.
const SOME_GBPS: Range = Range::Between(0.001, 100_000.0);

section! {
    /// Processor and memory controller: a NUMA node. Latency of its memory and size
    /// of its LLC are those of `[memory]`.
    Socket {
        /// Cores.
        cores: u32, "cores", Range::Between(1.0, 4096.0);
        /// Rate of its memory, for reads and writes together.
        dram_gbps: f64, "Gb/s", SOME_GBPS;
    }
}

section! {
    /// The link between each two sockets.
    SocketLink {
        /// One way.
        ns: f64, "ns", range::NS;
        /// Rate in each direction.
        gbps: f64, "Gb/s", SOME_GBPS;
    }
}

section! {
    /// A root port, with its part of the root complex.
    RootPort {
        /// Strictly ordered writes on their way to memory, in lines of 64 B; 0: no limit.
        strict_writes: u32, "lines", Range::Between(0.0, 65_536.0);
        /// From the arrival of such a write at the root complex until it is visible to all.
        commit_ns: f64, "ns", range::NS;
        /// From it to another root port, through the root complex.
        p2p_ns: f64, "ns", range::NS;
        /// Reads by cards below it from peers through the root complex; 0: it refuses them.
        p2p_read_gbps: f64, "Gb/s", GBPS;
        /// Writes by cards below it to peers through the root complex; 0: it drops them.
        p2p_write_gbps: f64, "Gb/s", GBPS;
    }
}

section! {
    /// A PCIe switch.
    Switch {
        /// Generation of its upstream link.
        generation: u32, "", Range::OneOf(&[1, 2, 3, 4, 5, 6]);
        /// Lanes of its upstream link.
        lanes: u32, "lanes", Range::OneOf(&[1, 2, 4, 8, 16]);
        /// From the pins of one port to those of another one.
        ns: f64, "ns", range::NS;
        /// PHY at the lower end of its upstream link, one way; its own are part of `ns`.
        link_ns: f64, "ns", range::NS;
        /// ACS redirects requests between peers to the root complex.
        acs: bool, "", range::FLAG;
    }
}

section! {
    /// A card of ours in its slot.
    Card {
        /// PHY at its end of its link, one way.
        link_ns: f64, "ns", range::NS;
        /// It requests with translated addresses (ATS), which ACS lets pass between peers.
        ats: bool, "", range::FLAG;
    }
}

section! {
    /// A GPU, or persistent memory behind PCIe.
    Peer {
        /// Generation of its link.
        generation: u32, "", Range::OneOf(&[1, 2, 3, 4, 5, 6]);
        /// Lanes of its link.
        lanes: u32, "lanes", Range::OneOf(&[1, 2, 4, 8, 16]);
        /// PHY at its end of its link, one way.
        link_ns: f64, "ns", range::NS;
        /// From a read at its port to the first completion there.
        read_ns: f64, "ns", range::NS;
        /// From a write at its port until its software can see it.
        write_ns: f64, "ns", range::NS;
        /// Rate of all reads by peers.
        read_gbps: f64, "Gb/s", SOME_GBPS;
        /// Rate of all writes by peers.
        write_gbps: f64, "Gb/s", SOME_GBPS;
        /// Read requests that it works on at once.
        read_requests: u32, "TLPs", range::SOME;
        /// Memory that peers can address through its BAR.
        bar_gib: f64, "GiB", Range::Between(0.001, 65_536.0);
    }
}

//! States of connections and of service resolutions.

/// States of a connection (IBTA vol 1, 12.9.7), and of a service resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// REQ Sent
    ReqSent,
    /// REP Received: the caller brings its queue pair to RTS
    RepReceived,
    /// REQ Received: the caller decides
    ReqReceived,
    /// REP Sent
    RepSent,
    /// Established
    Established,
    /// DREQ Sent
    DreqSent,
    /// TimeWait: answers late messages
    Timewait,
    /// SIDR_REQ sent
    SidrReqSent,
    /// SIDR_REQ received: the caller decides
    SidrReqReceived,
    /// SIDR_REP sent: answers duplicates
    SidrRepSent,
}

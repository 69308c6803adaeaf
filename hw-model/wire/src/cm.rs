//! Communication management: the messages on QP 1 that establish and release connections (IBTA vol
//! 1, chapters 12 and 13.4), and the header of the RDMA IP CM service (annex A11).
//!
//! Each message is declared like the table of the IBTA: its fields in order, with their widths and
//! the names of the IBTA. Reserved bits are kept, so that an accepted message is emitted again byte
//! for byte.

mod alternate;
mod connect;
mod disconnect;
mod ip;
mod layout;
mod mad;
mod reject;
mod service;

pub use alternate::{Apr, Lap};
pub use connect::{Rep, Req, ReqPath, Rtu, TransportService};
pub use disconnect::{Drep, Dreq};
pub use ip::IpCmHeader;
pub use layout::{CmTimeout, CommunicationId, PrivateData};
pub use mad::{Mad, MadError, MadHeader, Message, MessageKind};
pub use reject::{Mra, Rej, RejectReason};
pub use service::{ServiceId, SidrRep, SidrReq, SidrStatus};

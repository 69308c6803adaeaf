//! RDMA netlink: the kernel's reports about the devices, for `rdma` (iproute2) and for libraries.
//!
//! Requests are answered as in the kernel's `drivers/infiniband/core/nldev.c`, for the devices of
//! this process. Requests for objects in other processes that are not known here are refused with
//! `EOPNOTSUPP`, as by a kernel without the command.

use std::ffi::c_int;

use ferroce_driver::Service;
use ferroce_embed::queue_pairs::{self, ProgramQps};
use ferroce_platform::host::{HostIdentity, device_name};

use crate::abi::{IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND};
use crate::errno::Errno;
use crate::host;
use crate::identity::device_index;

mod message;

use message::{Answers, Attributes, Request};

/// Bytes of the longest datagram with requests: the programs known to us send less than 200.
pub const MAX_REQUEST: usize = 8192;
/// Maximum number of requests in a datagram.
const REQUESTS_LIMIT: usize = 64;
/// Maximum number of queue pairs in an answer, about 110 bytes each. The answer has to fit into the
/// socket's buffer of 208 KiB, and Linux charges a datagram with about twice its size.
const QPS_LIMIT: usize = 512;

/// Client of the commands below: `RDMA_NL_NLDEV` of `<rdma/rdma_netlink.h>`, as the others.
const NLDEV: u16 = 5;
/// Shift of the client in the type of a message.
const CLIENT_SHIFT: u16 = 10;

/// Commands: `enum rdma_nldev_command`.
mod command {
    pub const GET: u16 = 1;
    pub const PORT_GET: u16 = 5;
    pub const SYS_GET: u16 = 6;
    pub const RES_GET: u16 = 9;
    pub const RES_QP_GET: u16 = 10;
}

/// Attributes: `enum rdma_nldev_attr`.
mod attribute {
    pub const DEV_INDEX: u16 = 1;
    pub const DEV_NAME: u16 = 2;
    pub const PORT_INDEX: u16 = 3;
    pub const CAP_FLAGS: u16 = 4;
    pub const FW_VERSION: u16 = 5;
    pub const NODE_GUID: u16 = 6;
    pub const SYS_IMAGE_GUID: u16 = 7;
    pub const PORT_STATE: u16 = 12;
    pub const PORT_PHYS_STATE: u16 = 13;
    pub const DEV_NODE_TYPE: u16 = 14;
    pub const RES_SUMMARY: u16 = 15;
    pub const RES_SUMMARY_ENTRY: u16 = 16;
    pub const RES_SUMMARY_ENTRY_NAME: u16 = 17;
    pub const RES_SUMMARY_ENTRY_CURR: u16 = 18;
    pub const RES_QP: u16 = 19;
    pub const RES_QP_ENTRY: u16 = 20;
    pub const RES_LQPN: u16 = 21;
    pub const RES_RQPN: u16 = 22;
    pub const RES_RQ_PSN: u16 = 23;
    pub const RES_SQ_PSN: u16 = 24;
    pub const RES_TYPE: u16 = 26;
    pub const RES_STATE: u16 = 27;
    pub const RES_PID: u16 = 28;
    pub const NDEV_INDEX: u16 = 50;
    pub const NDEV_NAME: u16 = 51;
    pub const SYS_NETNS_MODE: u16 = 66;
    pub const DEV_PROTOCOL: u16 = 67;
    pub const SYS_COPY_ON_FORK: u16 = 93;
}

/// The only port of a device.
const PORT: u32 = 1;

/// Returns the datagrams that answer one from a program at this port.
pub fn answers(datagram: &[u8], port: u32) -> Vec<Vec<u8>> {
    let mut answers = Answers::to(port);
    let mut rest = datagram;
    for _ in 0..REQUESTS_LIMIT {
        let Some((request, after)) = Request::split(rest) else {
            break;
        };
        match found(&request) {
            Ok(messages) => answers.found(&request, &messages),
            Err(errno) => answers.result(&request, errno.number()),
        }
        rest = after;
    }
    answers.finish()
}

/// Returns what a request asks for.
///
/// # Errors
/// `EINVAL` for a device or port that does not exist, `EOPNOTSUPP` for any other command; errors of
/// listing the devices.
fn found(request: &Request<'_>) -> Result<Vec<Attributes>, Errno> {
    let (client, command) = (
        request.kind >> CLIENT_SHIFT,
        request.kind & ((1 << CLIENT_SHIFT) - 1),
    );
    if client != NLDEV {
        return Err(Errno::NOT_SUPPORTED);
    }
    match command {
        command::GET => each_device(request, |host| Ok(device(host))),
        command::PORT_GET => {
            let host = device_of(request)?;
            check_port(request)?;
            Ok(vec![link(host)])
        }
        command::SYS_GET => Ok(vec![system()]),
        command::RES_GET => each_device(request, summary),
        command::RES_QP_GET => qps(request),
        _ => Err(Errno::NOT_SUPPORTED),
    }
}

/// Returns a message for each device, or for the one that the request names.
fn each_device(
    request: &Request<'_>,
    message: impl Fn(&HostIdentity) -> Result<Attributes, Errno>,
) -> Result<Vec<Attributes>, Errno> {
    if request.is_dump() {
        host::identities()?.iter().map(message).collect()
    } else {
        Ok(vec![message(device_of(request)?)?])
    }
}

fn device_of(request: &Request<'_>) -> Result<&'static HostIdentity, Errno> {
    let index = request.number(attribute::DEV_INDEX);
    let index = index.ok_or(Errno::INVALID)?;
    let mut hosts = host::identities()?.iter();
    let found = hosts.find(|host| u32::try_from(device_index(host.device)) == Ok(index));
    found.ok_or(Errno::INVALID)
}

/// Checks the port of a request; a request for a list names none.
fn check_port(request: &Request<'_>) -> Result<(), Errno> {
    match request.number(attribute::PORT_INDEX) {
        Some(PORT) => Ok(()),
        None if request.is_dump() => Ok(()),
        _ => Err(Errno::INVALID),
    }
}

/// Returns the attributes with which each message about a device begins.
fn handle(host: &HostIdentity) -> Attributes {
    let mut message = Attributes::default();
    message
        .u32(attribute::DEV_INDEX, device_index(host.device) as u32)
        .text(attribute::DEV_NAME, &device_name(host.device));
    message
}

fn device(host: &HostIdentity) -> Attributes {
    /// `RDMA_NODE_IB_CA`: a channel adapter.
    const NODE_TYPE: u8 = 1;
    let guid = u64::from_be_bytes(host.node_guid);
    let mut message = handle(host);
    message
        .u32(attribute::PORT_INDEX, PORT)
        .u64(attribute::CAP_FLAGS, 0)
        .text(attribute::FW_VERSION, env!("CARGO_PKG_VERSION"))
        .u64(attribute::NODE_GUID, guid)
        .u64(attribute::SYS_IMAGE_GUID, guid)
        .u8(attribute::DEV_NODE_TYPE, NODE_TYPE)
        .text(attribute::DEV_PROTOCOL, "roce");
    message
}

fn link(host: &HostIdentity) -> Attributes {
    /// `IB_PORT_ACTIVE`.
    const ACTIVE: u8 = 4;
    /// `IB_PORT_PHYS_STATE_LINK_UP`.
    const LINK_UP: u8 = 5;
    let mut message = handle(host);
    message
        .u32(attribute::PORT_INDEX, PORT)
        .u8(attribute::PORT_STATE, ACTIVE)
        .u8(attribute::PORT_PHYS_STATE, LINK_UP);
    let mut entries = host.gids.iter();
    // An interface other than loopback first: loopback stands for addresses that no interface has.
    let real = entries.clone().find(|entry| entry.interface != "lo");
    if let Some(entry) = real.or(entries.next()) {
        let index = host::interface_index(&entry.interface);
        message
            .u32(attribute::NDEV_INDEX, index)
            .text(attribute::NDEV_NAME, &entry.interface);
    }
    message
}

fn system() -> Attributes {
    let mut message = Attributes::default();
    // Devices are in every network namespace, and pages of registered memory are copied by fork.
    message
        .u8(attribute::SYS_NETNS_MODE, 1)
        .u8(attribute::SYS_COPY_ON_FORK, 1);
    message
}

/// Returns the queue pairs of a device in all programs.
fn programs_of(host: &HostIdentity) -> Result<Vec<ProgramQps>, Errno> {
    let programs = queue_pairs::of_device(host.device);
    let programs = programs.map_err(|error| Errno::new(error.errno()))?;
    programs.ok_or(Errno::NOT_SUPPORTED)
}

/// Returns the number of objects of each kind; only queue pairs are known.
fn summary(host: &HostIdentity) -> Result<Attributes, Errno> {
    let count = programs_of(host)?.iter().map(|program| program.count).sum();
    let (mut entry, mut entries) = (Attributes::default(), Attributes::default());
    entry
        .text(attribute::RES_SUMMARY_ENTRY_NAME, "qp")
        .u64(attribute::RES_SUMMARY_ENTRY_CURR, count);
    entries.nested(attribute::RES_SUMMARY_ENTRY, &entry);
    let mut message = handle(host);
    message.nested(attribute::RES_SUMMARY, &entries);
    Ok(message)
}

/// Returns the type of a queue pair, numbered as in verbs.
fn type_of(service: Service) -> c_int {
    /// The kernel's number for QP 1, which verbs have no name for.
    const GSI: c_int = 1;
    match service {
        Service::Gsi => GSI,
        Service::ReliableConnected => IBV_QPT_RC,
        Service::UnreliableConnected => IBV_QPT_UC,
        Service::UnreliableDatagram => IBV_QPT_UD,
        Service::XrcInitiator => IBV_QPT_XRC_SEND,
        Service::XrcTarget => IBV_QPT_XRC_RECV,
    }
}

/// Returns a message for each queue pair of a device, or for the one that the request names.
fn qps(request: &Request<'_>) -> Result<Vec<Attributes>, Errno> {
    let host = device_of(request)?;
    let programs = programs_of(host)?;
    let wanted = request.number(attribute::RES_LQPN);
    let count: u64 = programs.iter().map(|program| program.count).sum();
    let all = programs
        .iter()
        .flat_map(|program| program.shown.iter().map(|qp| (program.pid, qp)));
    let messages: Vec<_> = all
        .filter(|(_, qp)| request.is_dump() || Some(qp.qpn.value()) == wanted)
        .take(QPS_LIMIT)
        .map(|(pid, qp)| {
            let (mut entry, mut list) = (Attributes::default(), Attributes::default());
            entry
                .u32(attribute::PORT_INDEX, PORT)
                .u32(attribute::RES_LQPN, qp.qpn.value());
            if qp.service != Service::UnreliableDatagram {
                entry
                    .u32(attribute::RES_RQPN, qp.peer.value())
                    .u32(attribute::RES_RQ_PSN, qp.rq_psn.value());
            }
            entry
                .u32(attribute::RES_SQ_PSN, qp.sq_psn.value())
                .u8(attribute::RES_TYPE, type_of(qp.service) as u8)
                .u8(attribute::RES_STATE, qp.state as u8)
                .u32(attribute::RES_PID, pid);
            list.nested(attribute::RES_QP_ENTRY, &entry);
            let mut message = handle(host);
            message.nested(attribute::RES_QP, &list);
            message
        })
        .collect();
    match request.is_dump() {
        true if count > messages.len() as u64 => {
            tracing::error!("only {} of {count} queue pairs are listed", messages.len());
        }
        false if messages.is_empty() => return Err(Errno::new(libc::ENOENT)),
        _ => {}
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with one attribute that is a number.
    fn request(kind: u16, flags: u16, number: Option<(u16, u32)>) -> Vec<u8> {
        let mut attributes = Vec::new();
        if let Some((kind, value)) = number {
            attributes.extend([8, kind].map(u16::to_ne_bytes).concat());
            attributes.extend(value.to_ne_bytes());
        }
        let length = 16 + attributes.len() as u32;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(
            [NLDEV << CLIENT_SHIFT | kind, flags]
                .map(u16::to_ne_bytes)
                .concat(),
        );
        bytes.extend([7, 0].map(u32::to_ne_bytes).concat());
        bytes.extend(attributes);
        bytes
    }

    /// Type of an answer, and the errno of an error.
    fn kinds(datagrams: &[Vec<u8>]) -> Vec<(u16, Option<i32>)> {
        let mut answers = Vec::new();
        for mut rest in datagrams.iter().map(Vec::as_slice) {
            while let Some(length) = rest.first_chunk().map(|length| u32::from_ne_bytes(*length)) {
                let (answer, after) = rest.split_at(length as usize);
                answers.push(answer);
                rest = after;
            }
        }
        let kind = |answer: &&[u8]| {
            let kind = u16::from_ne_bytes([answer[4], answer[5]]);
            assert_eq!(answer[8..12], 7_u32.to_ne_bytes(), "the sequence number");
            assert_eq!(answer[12..16], 99_u32.to_ne_bytes(), "the port");
            let errno = answer[16..20].try_into().map(i32::from_ne_bytes);
            (kind, (kind == 2).then(|| -errno.expect("four bytes")))
        };
        answers.iter().map(kind).collect()
    }

    #[test]
    fn a_list_has_an_end_and_a_refusal_an_errno() {
        const DUMP: u16 = 0x301;
        const NLDEV_GET: u16 = NLDEV << CLIENT_SHIFT | command::GET;
        let ask = |kind, flags, number| kinds(&answers(&request(kind, flags, number), 99));
        let index = Some((attribute::DEV_INDEX, 1));
        assert_eq!(
            ask(command::GET, DUMP, None),
            [(NLDEV_GET, None), (3, None)]
        );
        assert_eq!(ask(command::GET, 1, index), [(NLDEV_GET, None)]);
        let refused = |errno| [(2, Some(errno))];
        assert_eq!(ask(command::GET, 1, None), refused(libc::EINVAL));
        let wrong = Some((attribute::DEV_INDEX, 77));
        assert_eq!(ask(command::GET, 1, wrong), refused(libc::EINVAL));
        assert_eq!(ask(15, 1, index), refused(libc::EOPNOTSUPP));
    }

    #[test]
    fn requests_that_are_cut_off_are_not_answered() {
        let whole = [
            request(command::GET, 1, Some((attribute::DEV_INDEX, 1))),
            request(command::SYS_GET, 1, None),
        ]
        .concat();
        assert_eq!(kinds(&answers(&whole, 99)).len(), 2);
        for length in 0..whole.len() {
            assert!(kinds(&answers(&whole[..length], 99)).len() < 2, "{length}");
        }
        let mut lying = request(command::GET, 1, Some((attribute::DEV_INDEX, 1)));
        for length in [0_u16, 1, 3, 0xffff] {
            lying[16..18].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(kinds(&answers(&lying, 99)), [(2, Some(libc::EINVAL))]);
        }
    }
}

//! QUERY_ROUTE and QUERY.

use core::net::SocketAddr;

use ferroce_cm::Path;
use ferroce_wire::{Gid, PKey};
use zerocopy::IntoBytes;

use crate::abi;
use crate::body::{Body, Reply};
use crate::channel::ChannelId;
use crate::errno::Errno;
use crate::id::Id;
use crate::rdma_cm::RdmaCm;
use crate::sockaddr::{self, AF_IB};

// Options of QUERY
const ADDR: u32 = 0;
const PATH: u32 = 1;
const GID: u32 = 2;

/// Bytes of the responses in versions without the index of the device.
const ROUTE_BASE_LENGTH: usize = 200;
const ADDRESS_BASE_LENGTH: usize = 272;

/// Flags of a path: GMP, primary, bidirectional (`IB_PATH_…`).
const PATH_FLAGS: u32 = 1 | 1 << 1 | 1 << 3 | 1 << 5;
/// Selector for an exact value (IBTA vol 1, 15.2.5.16).
const EXACTLY: u8 = 2;

impl RdmaCm {
    /// QUERY_ROUTE
    pub(crate) fn query_route(&mut self, channel: ChannelId, body: &Body) -> Result<Reply, Errno> {
        body.expect_room(ROUTE_BASE_LENGTH)?;
        // Without the field `option`, which older versions do not have.
        let command: abi::Query = body.parse()?;
        let id = self.id(channel, command.id)?;
        let mut response: abi::RouteResponse = abi::zeroed();
        response.source = sockaddr::to_sockaddr_in6(id.source.as_ref());
        response.destination = sockaddr::to_sockaddr_in6(id.destination.as_ref());
        if let Some(attachment) = &id.attachment {
            response.node_guid_be = attachment.node_guid.to_be_bytes();
            response.port_num = attachment.port_num;
            response.device_index = attachment.device_index;
            response.num_paths = id.path.is_some().into();
            response.paths[0] = match &id.path {
                Some(path) => user_path(path),
                None => abi::UserPath {
                    dgid: remote_gid(id).0,
                    sgid: attachment.gid.0,
                    pkey_be: PKey::DEFAULT.0.to_be_bytes(),
                    ..abi::zeroed()
                },
            };
        }
        Ok(body.reply(command.response, &response))
    }

    /// QUERY
    pub(crate) fn query(&mut self, channel: ChannelId, body: &Body) -> Result<Reply, Errno> {
        let command: abi::Query = body.parse()?;
        let id = self.id(channel, command.id)?;
        match command.option {
            ADDR => {
                body.expect_room(ADDRESS_BASE_LENGTH)?;
                Ok(body.reply(command.response, &addresses(id)))
            }
            PATH => {
                body.expect_room(size_of::<abi::PathHeader>())?;
                let paths = paths(id, body.room);
                Ok(body.reply(command.response, paths.as_slice()))
            }
            GID => {
                body.expect_room(ADDRESS_BASE_LENGTH)?;
                Ok(body.reply(command.response, &gids(id)))
            }
            _ => Err(Errno::ENOSYS),
        }
    }
}

/// Returns the GID of the destination; zeros if it has none.
fn remote_gid(id: &Id) -> Gid {
    match (id.remote_gid, id.destination) {
        (Gid::UNSPECIFIED, Some(destination)) => sockaddr::gid(&destination),
        (known, _) => known,
    }
}

/// Returns the device of an id, with which both responses with addresses begin.
fn device(id: &Id) -> abi::AddressResponse {
    let mut response: abi::AddressResponse = abi::zeroed();
    if let Some(attachment) = &id.attachment {
        response.node_guid_be = attachment.node_guid.to_be_bytes();
        response.port_num = attachment.port_num;
        response.device_index = attachment.device_index;
        response.pkey_be = PKey::DEFAULT.0.to_be_bytes();
    }
    response
}

fn addresses(id: &Id) -> abi::AddressResponse {
    abi::AddressResponse {
        source_size: sockaddr::length(id.source.as_ref()),
        destination_size: sockaddr::length(id.destination.as_ref()),
        source: sockaddr::to_storage(id.source.as_ref()),
        destination: sockaddr::to_storage(id.destination.as_ref()),
        ..device(id)
    }
}

fn gids(id: &Id) -> abi::AddressResponse {
    let source = id.attachment.map_or(Gid::UNSPECIFIED, |at| at.gid);
    let size = size_of::<abi::SockaddrIb>() as u16;
    let response = device(id);
    let sockaddr = |gid: Gid, address: Option<SocketAddr>| {
        let port = address.map_or(0, |address| address.port());
        sockaddr::ib_to_storage(&abi::SockaddrIb {
            family: AF_IB,
            pkey_be: response.pkey_be,
            gid: gid.0,
            service_id_be: id.port_space.service_id(port).0.to_be_bytes(),
            ..abi::zeroed()
        })
    };
    abi::AddressResponse {
        source_size: size,
        destination_size: size,
        source: sockaddr(source, id.source),
        destination: sockaddr(remote_gid(id), id.destination),
        ..response
    }
}

/// Returns the paths that fit into the response.
fn paths(id: &Id, room: usize) -> Vec<u8> {
    let mut header: abi::PathHeader = abi::zeroed();
    header.num_paths = id.path.is_some().into();
    let mut bytes = header.as_bytes().to_vec();
    if let Some(path) = &id.path {
        let data = path_data(path);
        if bytes.len() + size_of_val(&data) <= room {
            bytes.extend_from_slice(data.as_bytes());
        }
    }
    bytes
}

fn user_path(path: &Path) -> abi::UserPath {
    abi::UserPath {
        dgid: path.remote_gid.0,
        sgid: path.local_gid.0,
        flow_label_be: path.flow_label.to_be_bytes(),
        reversible: 1,
        mtu: path.mtu.into(),
        pkey_be: path.p_key.0.to_be_bytes(),
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        sl: path.sl,
        mtu_selector: EXACTLY,
        rate_selector: EXACTLY,
        rate: path.packet_rate,
        packet_life_time_selector: EXACTLY,
        packet_life_time: path.packet_lifetime.code(),
        ..abi::zeroed()
    }
}

/// Returns a path as the subnet administrator's record.
fn path_data(path: &Path) -> abi::PathData {
    let exactly = |value: u8| EXACTLY << 6 | value & 0x3f;
    let flow_and_hops = path.flow_label << 8 | u32::from(path.hop_limit);
    abi::PathData {
        flags: PATH_FLAGS,
        dgid: path.remote_gid.0,
        sgid: path.local_gid.0,
        flow_and_hops_be: flow_and_hops.to_be_bytes(),
        traffic_class: path.traffic_class,
        reversible: 0x80,
        pkey_be: path.p_key.0.to_be_bytes(),
        sl_be: u16::from(path.sl & 0x0f).to_be_bytes(),
        mtu: exactly(path.mtu),
        rate: exactly(path.packet_rate),
        packet_life_time: exactly(path.packet_lifetime.code()),
        ..abi::zeroed()
    }
}

//! Multicast groups of ids. RoCE has no subnet administrator, so a join succeeds immediately. The
//! program itself attaches the queue pair.

use core::net::SocketAddr;

use ferroce_cm::Path;
use ferroce_wire::Qpn;
use zerocopy::IntoBytes;

use crate::abi;
use crate::attributes::address_handle;
use crate::body::{Body, Reply};
use crate::channel::ChannelId;
use crate::connect::UDP_Q_KEY;
use crate::errno::Errno;
use crate::event::{self, Event};
use crate::id::State;
use crate::rdma_cm::{MAX_MULTICASTS, Multicast, RdmaCm};
use crate::sockaddr;

/// The LID in the event: the first multicast LID of InfiniBand.
const MULTICAST_LID: u16 = 0xc000;
/// Hop Limit of datagrams to an IPv4 group, as in Linux; for IPv6 groups it is 1.
const HOP_LIMIT_IPV4: u8 = 64;
const HOP_LIMIT_IPV6: u8 = 1;

// `join_flags`
const FULL_MEMBER: u16 = 0;
const SEND_ONLY_FULL_MEMBER: u16 = 1;

impl RdmaCm {
    /// JOIN_IP_MCAST
    pub(crate) fn join_ip_mcast(
        &mut self,
        channel: ChannelId,
        body: &Body,
    ) -> Result<Reply, Errno> {
        body.expect_room(size_of::<u32>())?;
        let command: abi::JoinIpMcast = body.parse()?;
        let address = sockaddr::parse_given(&command.address)?;
        let multicast = self.join(channel, command.id, command.uid, &address)?;
        Ok(body.reply(command.response, &multicast))
    }

    /// JOIN_MCAST
    pub(crate) fn join_mcast(&mut self, channel: ChannelId, body: &Body) -> Result<Reply, Errno> {
        body.expect_room(size_of::<u32>())?;
        let command: abi::JoinMcast = body.parse()?;
        if !matches!(command.join_flags, FULL_MEMBER | SEND_ONLY_FULL_MEMBER) {
            return Err(Errno::EINVAL);
        }
        let address = sockaddr::parse_sized(&command.address, command.address_size)?;
        let multicast = self.join(channel, command.id, command.uid, &address)?;
        Ok(body.reply(command.response, &multicast))
    }

    /// Joins a group, and queues the event.
    fn join(
        &mut self,
        channel: ChannelId,
        handle: u32,
        uid: u64,
        address: &SocketAddr,
    ) -> Result<u32, Errno> {
        let (id, attachment) = self.attached_id(channel, handle)?;
        let is_resolved = matches!(id.state, State::AddrBound | State::AddrResolved);
        if !is_resolved || !id.is_ud() || address.ip().is_unspecified() {
            return Err(Errno::EINVAL);
        }
        let q_key = *id.q_key.get_or_insert(UDP_Q_KEY);
        let (own_uid, traffic_class) = (id.uid, id.options.traffic_class.unwrap_or(0));
        self.expect_event_room(channel)?;
        let multicast = self.add_multicast(handle)?;
        // In RoCEv2 the address is the GID of the group (IBTA vol 1, annex A17).
        let path = Path {
            hop_limit: match address {
                SocketAddr::V4(_) => HOP_LIMIT_IPV4,
                SocketAddr::V6(_) => HOP_LIMIT_IPV6,
            },
            traffic_class,
            ..Path::new(attachment.gid, sockaddr::gid(address))
        };
        let mut param: abi::UdParam = abi::zeroed();
        param.qp_num = Qpn::MULTICAST.value();
        param.qkey = q_key;
        param.ah_attr = address_handle(&attachment, &path);
        param.ah_attr.dlid = MULTICAST_LID;
        if own_uid != 0 {
            self.queue_join(handle, multicast, uid, &param);
        }
        Ok(multicast)
    }

    fn queue_join(&mut self, owner: u32, multicast: u32, uid: u64, param: &abi::UdParam) {
        let mut response: Box<abi::EventResponse> = Box::new(abi::zeroed());
        response.uid = uid;
        response.id = multicast;
        response.event = event::MULTICAST_JOIN;
        response.param.copy_from_slice(param.as_bytes());
        self.queue(Event {
            owner,
            multicast: Some(multicast),
            request: None,
            response,
        });
    }

    fn add_multicast(&mut self, owner: u32) -> Result<u32, Errno> {
        if self.multicasts.len() >= MAX_MULTICASTS {
            return Err(Errno::ENOMEM);
        }
        // There are more numbers than groups: the loop ends.
        while self.multicasts.contains_key(&self.next_multicast) {
            self.next_multicast = self.next_multicast.wrapping_add(1);
        }
        let multicast = self.next_multicast;
        self.next_multicast = multicast.wrapping_add(1);
        let events_reported = 0;
        let group = Multicast {
            owner,
            events_reported,
        };
        self.multicasts.insert(multicast, group);
        Ok(multicast)
    }

    /// LEAVE_MCAST
    pub(crate) fn leave_mcast(&mut self, channel: ChannelId, body: &Body) -> Result<Reply, Errno> {
        body.expect_room(size_of::<u32>())?;
        let command: abi::DestroyId = body.parse()?;
        let multicast = self.multicasts.get(&command.id).ok_or(Errno::ENOENT)?;
        let owner = self.ids.get(&multicast.owner);
        if owner.is_none_or(|id| id.channel != channel) {
            return Err(Errno::EINVAL);
        }
        let events_reported = multicast.events_reported;
        self.multicasts.remove(&command.id);
        if let Some(channel) = self.channels.get_mut(&channel) {
            let events = &mut channel.events;
            events.retain(|event| event.multicast != Some(command.id));
        }
        Ok(body.reply(command.response, &events_reported))
    }

    /// Leaves every group of an id.
    pub(crate) fn leave_all(&mut self, owner: u32) {
        self.multicasts.retain(|_, group| group.owner != owner);
    }
}

//! Creates, finds and destroys ids.

use ferroce_cm::PortSpace;
use ferroce_units::Instant;

use crate::abi;
use crate::body::{Body, Reply};
use crate::channel::ChannelId;
use crate::errno::Errno;
use crate::event::DEVICE_REMOVAL;
use crate::host::Host;
use crate::id::{Attachment, Id, QpType, State};
use crate::rdma_cm::{MAX_IDS, RdmaCm};

impl RdmaCm {
    /// CREATE_ID
    pub(crate) fn create_id(&mut self, channel: ChannelId, body: &Body) -> Result<Reply, Errno> {
        body.expect_room(size_of::<u32>())?;
        let command: abi::CreateId = body.parse()?;
        let (port_space, qp_type) = match command.port_space {
            0x0002 => (PortSpace::Ipoib, QpType::UD),
            0x0106 => (PortSpace::Tcp, QpType::RC),
            0x0111 => (PortSpace::Udp, QpType::UD),
            0x013f => (PortSpace::Ib, QpType(command.qp_type)),
            _ => return Err(Errno::EINVAL),
        };
        let handle = self.add_id(channel, port_space, qp_type)?;
        if let Some(id) = self.ids.get_mut(&handle) {
            id.uid = command.uid;
        }
        Ok(body.reply(command.response, &handle))
    }

    /// Adds an id.
    ///
    /// # Errors
    ///
    /// ENOMEM if the table is full.
    pub(crate) fn add_id(
        &mut self,
        channel: ChannelId,
        port_space: PortSpace,
        qp_type: QpType,
    ) -> Result<u32, Errno> {
        if self.ids.len() >= MAX_IDS {
            return Err(Errno::ENOMEM);
        }
        // There are more numbers than ids: the loop ends.
        while self.ids.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let handle = self.next_id;
        self.next_id = handle.wrapping_add(1);
        let mut id = Id::new(channel, port_space, qp_type);
        id.starting_psn = self.next_psn();
        self.ids.insert(handle, id);
        Ok(handle)
    }

    /// Returns the id of a command.
    ///
    /// # Errors
    ///
    /// ENOENT if there is none, EINVAL if it belongs to another channel, ENXIO if its device was
    /// removed.
    pub(crate) fn id(&mut self, channel: ChannelId, handle: u32) -> Result<&mut Id, Errno> {
        let id = self.ids.get_mut(&handle).ok_or(Errno::ENOENT)?;
        match id.state {
            _ if id.channel != channel => Err(Errno::EINVAL),
            State::DeviceRemoval => Err(Errno::ENXIO),
            _ => Ok(id),
        }
    }

    /// Returns the id of a command that needs a device.
    ///
    /// # Errors
    ///
    /// As above; also EINVAL if the id has no device.
    pub(crate) fn attached_id(
        &mut self,
        channel: ChannelId,
        handle: u32,
    ) -> Result<(&mut Id, Attachment), Errno> {
        let id = self.id(channel, handle)?;
        let attachment = id.attached()?;
        Ok((id, attachment))
    }

    /// DESTROY_ID
    pub(crate) fn destroy_id(
        &mut self,
        now: Instant,
        host: &mut impl Host,
        channel: ChannelId,
        body: &Body,
    ) -> Result<Reply, Errno> {
        body.expect_room(size_of::<u32>())?;
        let command: abi::DestroyId = body.parse()?;
        let id = self.ids.get(&command.id).ok_or(Errno::ENOENT)?;
        if id.channel != channel {
            return Err(Errno::EINVAL);
        }
        let events_reported = self.destroy(now, host, command.id);
        Ok(body.reply(command.response, &events_reported))
    }

    /// Destroys an id with its connection, multicast groups, port and unread events, and with the
    /// ids of unread requests. Returns the number of its events that user space has read.
    pub(crate) fn destroy(&mut self, now: Instant, host: &mut impl Host, handle: u32) -> u32 {
        self.release(now, host, handle);
        let unread = self.purge_events(handle);
        let reported = self.ids.remove(&handle).map_or(0, |id| id.events_reported);
        for request in unread {
            self.destroy(now, host, request);
        }
        reported
    }

    /// Ends the connection, listener, groups and port of an id, but keeps the id.
    pub(crate) fn release(&mut self, now: Instant, host: &mut impl Host, handle: u32) {
        self.leave_all(handle);
        let Some(id) = self.ids.get_mut(&handle) else {
            return;
        };
        let (port_space, claim) = (id.port_space, id.claim.take());
        let (listener, communication) = (id.listener.take(), id.communication.take());
        if let Some(communication) = communication {
            self.by_communication.remove(&communication);
            self.cm.destroy(now, communication);
        }
        if let Some(listener) = listener {
            self.by_listener.remove(&listener);
            // The group is in the table while the id refers to it.
            let _ = self.cm.stop_listening(listener);
        }
        if let Some((port, address)) = claim {
            host.release_port(port_space, port, address);
        }
    }

    /// The connection exchanges no more messages, so its identifier may be reused.
    pub(crate) fn forget_communication(&mut self, handle: u32) {
        let id = self.ids.get_mut(&handle);
        if let Some(communication) = id.and_then(|id| id.communication.take()) {
            self.by_communication.remove(&communication);
        }
    }

    /// Ends the activity of all ids of a device and reports DEVICE_REMOVAL to them. User space then
    /// destroys them.
    pub fn remove_device(&mut self, now: Instant, host: &mut impl Host, node_guid: u64) {
        let is_of_device = |id: &Id| {
            id.attachment
                .is_some_and(|attachment| attachment.node_guid == node_guid)
        };
        let ids = self.ids.iter().filter(|(_, id)| is_of_device(id));
        let handles: Vec<u32> = ids.map(|(handle, _)| *handle).collect();
        for handle in handles {
            self.report(handle, DEVICE_REMOVAL, 0, &[], abi::zeroed());
            self.release(now, host, handle);
            if let Some(id) = self.ids.get_mut(&handle) {
                id.state = State::DeviceRemoval;
                id.attachment = None;
            }
        }
    }
}

//! Queues, reads, moves and drops events.

use std::collections::VecDeque;

use zerocopy::IntoBytes;

use crate::abi;
use crate::body::{Body, Reply};
use crate::channel::ChannelId;
use crate::errno::Errno;
use crate::event::{Event, INTERNAL, USER};
use crate::rdma_cm::{MAX_EVENTS, RdmaCm};

/// Bytes of the response in every version of the ABI: up to the parameters.
const EVENT_BASE_LENGTH: usize = 324;

impl RdmaCm {
    /// Queues an event of an id. Events of a request's id are dropped until ACCEPT has set its
    /// `uid`: user space could not match them to an id.
    pub(crate) fn report(
        &mut self,
        handle: u32,
        event: u32,
        status: i32,
        param: &[u8],
        ece: abi::EceParam,
    ) {
        let Some(id) = self.ids.get(&handle) else {
            return;
        };
        if id.uid == 0 {
            return;
        }
        let mut response: Box<abi::EventResponse> = Box::new(abi::zeroed());
        response.uid = id.uid;
        response.id = handle;
        response.event = event;
        response.status = status;
        response.ece = ece;
        response.param[..param.len()].copy_from_slice(param);
        self.queue(Event {
            owner: handle,
            multicast: None,
            request: None,
            response,
        });
    }

    /// Queues an event on the channel of its owner.
    pub(crate) fn queue(&mut self, event: Event) {
        let owner = self.ids.get(&event.owner);
        let channel = owner.and_then(|id| self.channels.get_mut(&id.channel));
        if let Some(channel) = channel {
            channel.events.push_back(event);
        }
    }

    /// Returns an error if user space does not read its events.
    ///
    /// # Errors
    ///
    /// ENOMEM
    pub(crate) fn expect_event_room(&self, channel: ChannelId) -> Result<(), Errno> {
        if self.waiting_events(channel) < MAX_EVENTS {
            Ok(())
        } else {
            Err(Errno::ENOMEM)
        }
    }

    /// GET_EVENT
    pub(crate) fn read_event(&mut self, channel: ChannelId, body: &Body) -> Result<Reply, Errno> {
        body.expect_room(EVENT_BASE_LENGTH)?;
        let command: abi::GetEvent = body.parse()?;
        let events = self.channels.get_mut(&channel).ok_or(Errno::EINVAL)?;
        let event = events.events.pop_front().ok_or(Errno::EAGAIN)?;
        if let Some(owner) = self.ids.get_mut(&event.owner) {
            owner.events_reported += 1;
            if event.request.is_some() {
                owner.unread = owner.unread.saturating_sub(1);
            }
        }
        let multicast = event.multicast.and_then(|id| self.multicasts.get_mut(&id));
        if let Some(multicast) = multicast {
            multicast.events_reported += 1;
        }
        if let Some(id) = event.request.and_then(|id| self.ids.get_mut(&id)) {
            id.unread_of = None;
            if let Some(communication) = id.communication {
                self.cm.release_backlog(communication);
            }
        }
        Ok(body.reply(command.response, event.response.as_bytes()))
    }

    /// Drops the unread events of an id, and the unread event of the request for which it was
    /// created. Returns the ids of the requests among them.
    pub(crate) fn purge_events(&mut self, handle: u32) -> Vec<u32> {
        let Some(id) = self.ids.get(&handle) else {
            return Vec::new();
        };
        let (channel, listener) = (id.channel, id.unread_of);
        let mut requests = Vec::new();
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.events.retain(|event| {
                let is_own = event.owner == handle;
                requests.extend(event.request.filter(|_| is_own));
                !is_own
            });
        }
        if let Some(listener) = listener.and_then(|id| self.ids.get_mut(&id)) {
            listener.unread = listener.unread.saturating_sub(1);
            if let Some(channel) = self.channels.get_mut(&listener.channel) {
                let events = &mut channel.events;
                events.retain(|event| event.request != Some(handle));
            }
        }
        requests
    }

    /// Moves an id to another channel, with its events and the ids of requests among them.
    pub(crate) fn move_to_channel(&mut self, handle: u32, to: ChannelId) {
        let Some(id) = self.ids.get_mut(&handle) else {
            return;
        };
        let from = core::mem::replace(&mut id.channel, to);
        let Some(source) = self.channels.get_mut(&from).filter(|_| from != to) else {
            return;
        };
        let events = core::mem::take(&mut source.events).into_iter();
        let (moved, kept): (Vec<Event>, Vec<Event>) =
            events.partition(|event| event.owner == handle);
        source.events = VecDeque::from(kept);
        for request in moved.iter().filter_map(|event| event.request) {
            if let Some(id) = self.ids.get_mut(&request) {
                id.channel = to;
            }
        }
        if let Some(destination) = self.channels.get_mut(&to) {
            destination.events.extend(moved);
        }
    }

    /// WRITE_CM_EVENT: an event of the program, for itself.
    pub(crate) fn write_cm_event(&mut self, channel: ChannelId, body: &Body) -> Result<(), Errno> {
        let command: abi::WriteCmEvent = body.parse()?;
        if !matches!(command.event, USER | INTERNAL) {
            return Err(Errno::EINVAL);
        }
        let uid = self.id(channel, command.id)?.uid;
        self.expect_event_room(channel)?;
        let mut response: Box<abi::EventResponse> = Box::new(abi::zeroed());
        response.uid = uid;
        response.id = command.id;
        response.event = command.event;
        response.status = command.status;
        // The argument: eight bytes of the union.
        response.param[..8].copy_from_slice(&command.param[..8]);
        self.queue(Event {
            owner: command.id,
            multicast: None,
            request: None,
            response,
        });
        Ok(())
    }
}

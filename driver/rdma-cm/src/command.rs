//! Commands that user space writes to the device file, and their dispatch to handlers.

use ferroce_units::Instant;

use crate::abi;
use crate::body::{Body, Reply};
use crate::channel::ChannelId;
use crate::errno::Errno;
use crate::host::Host;
use crate::rdma_cm::RdmaCm;

const CREATE_ID: u32 = 0;
const DESTROY_ID: u32 = 1;
const BIND_IP: u32 = 2;
const RESOLVE_IP: u32 = 3;
const RESOLVE_ROUTE: u32 = 4;
const QUERY_ROUTE: u32 = 5;
const CONNECT: u32 = 6;
const LISTEN: u32 = 7;
const ACCEPT: u32 = 8;
const REJECT: u32 = 9;
const DISCONNECT: u32 = 10;
const INIT_QP_ATTR: u32 = 11;
const GET_EVENT: u32 = 12;
const GET_OPTION: u32 = 13;
const SET_OPTION: u32 = 14;
const NOTIFY: u32 = 15;
const JOIN_IP_MCAST: u32 = 16;
const LEAVE_MCAST: u32 = 17;
const MIGRATE_ID: u32 = 18;
const QUERY: u32 = 19;
const BIND: u32 = 20;
const RESOLVE_ADDR: u32 = 21;
const JOIN_MCAST: u32 = 22;
const RESOLVE_IB_SERVICE: u32 = 23;
const WRITE_CM_EVENT: u32 = 24;

/// Names of the commands, by number.
const NAMES: [&str; WRITE_CM_EVENT as usize + 1] = [
    "CREATE_ID",
    "DESTROY_ID",
    "BIND_IP",
    "RESOLVE_IP",
    "RESOLVE_ROUTE",
    "QUERY_ROUTE",
    "CONNECT",
    "LISTEN",
    "ACCEPT",
    "REJECT",
    "DISCONNECT",
    "INIT_QP_ATTR",
    "GET_EVENT",
    "GET_OPTION",
    "SET_OPTION",
    "NOTIFY",
    "JOIN_IP_MCAST",
    "LEAVE_MCAST",
    "MIGRATE_ID",
    "QUERY",
    "BIND",
    "RESOLVE_ADDR",
    "JOIN_MCAST",
    "RESOLVE_IB_SERVICE",
    "WRITE_CM_EVENT",
];

/// Work for the caller before it passes a command to [`RdmaCm::command`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Wait for an event ([`RdmaCm::waiting_events`]), unless the file is non-blocking.
    GetEvent,
    /// Read the option from the program's memory, for the argument `option` of [`RdmaCm::command`].
    SetOption {
        /// Its address in the program's memory
        address: u64,
        /// Its length; an option longer than [`Command::MAX_OPTION_LENGTH`] is invalid
        length: u32,
    },
    /// Find the channel of a file descriptor, and call [`RdmaCm::migrate`].
    MigrateId {
        /// The file descriptor of the channel that has the id
        fd: u32,
    },
    /// Nothing.
    Other,
}

impl Command {
    /// Maximum length of a valid option. The caller need not read a longer one, and passes it as
    /// empty.
    pub const MAX_OPTION_LENGTH: u32 = 4096;

    /// Returns the caller's work for a command. A malformed command needs none: [`RdmaCm::command`]
    /// refuses it.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let Ok((command, body)) = Body::split(bytes) else {
            return Self::Other;
        };
        match command {
            GET_EVENT => Self::GetEvent,
            SET_OPTION => body.parse().map_or(Self::Other, |it: abi::SetOption| {
                let (address, length) = (it.value, it.length);
                Self::SetOption { address, length }
            }),
            MIGRATE_ID => body
                .parse()
                .map_or(Self::Other, |it: abi::MigrateId| Self::MigrateId {
                    fd: it.fd,
                }),
            _ => Self::Other,
        }
    }

    /// Returns the name of a command, for diagnostics.
    #[must_use]
    pub fn name(bytes: &[u8]) -> &'static str {
        let command = Body::split(bytes).map(|(command, _)| usize::try_from(command));
        let name = command.map(|index| NAMES.get(index.unwrap_or(usize::MAX)).copied());
        name.ok().flatten().unwrap_or("unknown")
    }
}

impl RdmaCm {
    /// Executes one `write` to the device file. `option`: the bytes to which SET_OPTION points;
    /// empty for other commands ([`Command::of`]).
    ///
    /// # Errors
    ///
    /// The errno of `write`. [`Errno::EAGAIN`] if GET_EVENT finds no event; for a blocking file the
    /// caller then waits. [`Errno::EINVAL`] for MIGRATE_ID, which [`RdmaCm::migrate`] executes.
    pub fn command(
        &mut self,
        now: Instant,
        host: &mut impl Host,
        channel: ChannelId,
        bytes: &[u8],
        option: &[u8],
    ) -> Result<Reply, Errno> {
        let (command, body) = Body::split(bytes)?;
        if !self.channels.contains_key(&channel) {
            return Err(Errno::EINVAL);
        }
        let body = &body;
        let reply = match command {
            CREATE_ID => self.create_id(channel, body),
            DESTROY_ID => self.destroy_id(now, host, channel, body),
            BIND_IP => self.bind_ip(host, channel, body).map(empty),
            RESOLVE_IP => self.resolve_ip(host, channel, body).map(empty),
            RESOLVE_ROUTE => self.resolve_route(channel, body).map(empty),
            QUERY_ROUTE => self.query_route(channel, body),
            CONNECT => self.connect(now, channel, body).map(empty),
            LISTEN => self.listen(host, channel, body).map(empty),
            ACCEPT => self.accept(now, channel, body).map(empty),
            REJECT => self.reject(now, channel, body).map(empty),
            DISCONNECT => self.disconnect(now, channel, body).map(empty),
            INIT_QP_ATTR => self.init_qp_attr(channel, body),
            GET_EVENT => self.read_event(channel, body),
            GET_OPTION => Err(Errno::ENOSYS),
            SET_OPTION => self.set_option(channel, body, option).map(empty),
            NOTIFY => self.notify(channel, body).map(empty),
            JOIN_IP_MCAST => self.join_ip_mcast(channel, body),
            LEAVE_MCAST => self.leave_mcast(channel, body),
            QUERY => self.query(channel, body),
            BIND => self.bind_addr(host, channel, body).map(empty),
            RESOLVE_ADDR => self.resolve_addr(host, channel, body).map(empty),
            JOIN_MCAST => self.join_mcast(channel, body),
            RESOLVE_IB_SERVICE => Err(Errno::EOPNOTSUPP),
            WRITE_CM_EVENT => self.write_cm_event(channel, body).map(empty),
            // MIGRATE_ID names a channel by its file descriptor, which the caller knows.
            _ => Err(Errno::EINVAL),
        };
        self.take_reports(now, host);
        reply
    }

    /// Executes MIGRATE_ID: moves an id and its events from the channel `source` to the channel on
    /// which the command was written. `source`: the channel of [`Command::MigrateId`]'s file
    /// descriptor, or the error if there is none: ENOENT if the descriptor is not open, EINVAL if
    /// it is another file, as in the kernel.
    ///
    /// # Errors
    ///
    /// The error in `source`; EINVAL, ENOENT, ENOSPC.
    pub fn migrate(
        &mut self,
        channel: ChannelId,
        bytes: &[u8],
        source: Result<ChannelId, Errno>,
    ) -> Result<Reply, Errno> {
        let (command, body) = Body::split(bytes)?;
        if command != MIGRATE_ID || !self.channels.contains_key(&channel) {
            return Err(Errno::EINVAL);
        }
        body.expect_room(size_of::<u32>())?;
        let command: abi::MigrateId = body.parse()?;
        let source = source?;
        let events_reported = self.id(source, command.id)?.events_reported;
        self.move_to_channel(command.id, channel);
        Ok(body.reply(command.response, &events_reported))
    }
}

/// The reply to a command without a response.
fn empty((): ()) -> Reply {
    Reply::default()
}

//! Commands on multicast groups.

use ferroce_spec::command::{CommandEntry, CommandStatus, MulticastGroup};
use ferroce_spec::context::ServiceCode;
use ferroce_wire::Gid;

use crate::blocks::Blocks;
use crate::command::Failure;
use crate::nic::Nic;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::receive::multicast::{Change, TableFull};
use crate::time::timing::Timing;

impl From<TableFull> for Failure {
    fn from(_: TableFull) -> Self {
        Self::new(CommandStatus::NO_RESOURCES)
    }
}

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    pub(crate) fn attach_multicast<H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
        port: &mut P,
    ) -> Result<u64, Failure> {
        let (qp, group) = self.membership(entry, host)?;
        if self.multicast.attach(group, qp)? == Change::Group {
            port.join(group);
        }
        Ok(0)
    }

    pub(crate) fn detach_multicast<H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
        port: &mut P,
    ) -> Result<u64, Failure> {
        let (qp, group) = self.membership(entry, host)?;
        match self.multicast.detach(group, qp) {
            Some(Change::Group) => port.leave(group),
            Some(Change::Member) => {}
            None => return Err(Failure::new(CommandStatus::NO_OBJECT)),
        }
        Ok(0)
    }

    /// Index of the UD QP and group of a command.
    fn membership<H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
    ) -> Result<(u32, Gid), Failure> {
        let index = self.existing_qp(entry.argument)?;
        let input: MulticastGroup = self.input(entry, host)?;
        let group = Gid(input.gid);
        if !group.is_multicast() {
            let offset = core::mem::offset_of!(MulticastGroup, gid);
            return Err(Failure::parameter(offset));
        }
        // IBTA vol 1, 10.5.1: only UD queue pairs.
        match self.qps.get_mut(index) {
            Some(qp) if qp.context.service == ServiceCode::UNRELIABLE_DATAGRAM => {
                Ok((index, group))
            }
            _ => Err(Failure::new(CommandStatus::BAD_STATE)),
        }
    }
}

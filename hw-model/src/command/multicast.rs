//! Commands on multicast groups.

use ferroce_spec::command::{CommandEntry, CommandStatus, MulticastGroup};
use ferroce_spec::context::ServiceCode;
use ferroce_wire::Gid;

use crate::blocks::Blocks;
use crate::command::{CommandProcessor, Failure};
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::receive::multicast::{Change, TableFull};
use crate::time::timing::Timing;

impl From<TableFull> for Failure {
    fn from(_: TableFull) -> Self {
        Self::new(CommandStatus::NO_RESOURCES)
    }
}

impl<H: Host, T: Timing, P: Port, B: Blocks> CommandProcessor<'_, '_, H, T, P, B> {
    pub(super) fn attach_multicast(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let (qp, group) = self.membership(entry)?;
        if self.blocks.receive.multicast().attach(group, qp)? == Change::Group {
            self.port.join(group);
        }
        Ok(0)
    }

    pub(super) fn detach_multicast(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let (qp, group) = self.membership(entry)?;
        match self.blocks.receive.multicast().detach(group, qp) {
            Some(Change::Group) => self.port.leave(group),
            Some(Change::Member) => {}
            None => return Err(Failure::new(CommandStatus::NO_OBJECT)),
        }
        Ok(0)
    }

    /// Returns the index of the UD QP and the group of a command.
    fn membership(&mut self, entry: &CommandEntry) -> Result<(u32, Gid), Failure> {
        let index = self.existing_qp(entry.argument)?;
        let input: MulticastGroup = self.input(entry)?;
        let group = Gid(input.gid);
        if !group.is_multicast() {
            let offset = core::mem::offset_of!(MulticastGroup, gid);
            return Err(Failure::parameter(offset));
        }
        // IBTA vol 1, 10.5.1: only UD queue pairs.
        match self.blocks.contexts.qps.get_mut(index) {
            Some(qp) if qp.context.service == ServiceCode::UNRELIABLE_DATAGRAM => {
                Ok((index, group))
            }
            _ => Err(Failure::new(CommandStatus::BAD_STATE)),
        }
    }
}

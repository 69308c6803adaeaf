//! SET_OPTION.

use crate::abi;
use crate::body::Body;
use crate::channel::ChannelId;
use crate::errno::Errno;
use crate::id::{Id, QpType, State};
use crate::rdma_cm::RdmaCm;

// Levels and names
const ID: u32 = 0;
const IB: u32 = 1;
const ID_TOS: u32 = 0;
const ID_REUSEADDR: u32 = 1;
const ID_AFONLY: u32 = 2;
const ID_ACK_TIMEOUT: u32 = 3;
const IB_PATH: u32 = 1;

impl RdmaCm {
    /// SET_OPTION. `option`: the bytes at the address in the command.
    pub(crate) fn set_option(
        &mut self,
        channel: ChannelId,
        body: &Body,
        option: &[u8],
    ) -> Result<(), Errno> {
        let command: abi::SetOption = body.parse()?;
        let id = self.id(channel, command.id)?;
        let length = command.length as usize;
        let option = option.get(..length).ok_or(Errno::EINVAL)?;
        match (command.level, command.name) {
            (ID, ID_TOS) => id.options.traffic_class = Some(byte(option)?),
            (ID, ID_REUSEADDR) => set_reuse(id, flag(option)?)?,
            (ID, ID_AFONLY) => set_family_only(id, flag(option)?)?,
            (ID, ID_ACK_TIMEOUT) => set_ack_timeout(id, byte(option)?)?,
            // The option is a record of a subnet administrator, which RoCE does not have.
            (IB, IB_PATH) => return Err(Errno::EINVAL),
            _ => return Err(Errno::ENOSYS),
        }
        Ok(())
    }
}

fn byte(option: &[u8]) -> Result<u8, Errno> {
    let [byte] = option else {
        return Err(Errno::EINVAL);
    };
    Ok(*byte)
}

fn flag(option: &[u8]) -> Result<bool, Errno> {
    let number: [u8; 4] = option.try_into().map_err(|_| Errno::EINVAL)?;
    Ok(number != [0; 4])
}

/// Sharing of the port can be enabled until the id listens, and disabled until it is bound.
fn set_reuse(id: &mut Id, is_reuse: bool) -> Result<(), Errno> {
    if id.state != State::Idle && (!is_reuse || id.state == State::Listen) {
        return Err(Errno::EINVAL);
    }
    id.options.is_reuse = is_reuse;
    Ok(())
}

fn set_family_only(id: &mut Id, is_family_only: bool) -> Result<(), Errno> {
    if !matches!(id.state, State::Idle | State::AddrBound) {
        return Err(Errno::EINVAL);
    }
    id.options.is_family_only = Some(is_family_only);
    Ok(())
}

fn set_ack_timeout(id: &mut Id, timeout: u8) -> Result<(), Errno> {
    if !matches!(id.qp_type, QpType::RC | QpType::XRC_SEND) {
        return Err(Errno::EINVAL);
    }
    id.options.ack_timeout = Some(timeout);
    Ok(())
}

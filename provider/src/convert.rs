//! `ibv_modify_qp`: parses attributes and mask, once, to a typed transition.

use ferroce_driver::{
    AddressVector, InitAttributes, InitUpdate, ModifyQp, PathMtu, QpAccess, QpState, Qpn,
    RtrAttributes, RtsAttributes, RtsUpdate, Service, SqdUpdate, TransitionError, UcRtr, UcRts,
    UdInit, UdRtr, UdRts, XrcTargetRts, check_attributes,
};
use libc::c_int;

use crate::abi::*;
use crate::address::{self, Neighbours};
use crate::errno::{Errno, ONE_PORT, at_most, within};
use crate::on_demand::PAGING_FLAGS;

mod mask;

/// PSNs have 24 bits.
const PSN_MASK: u32 = 0xff_ffff;
/// Queue pair numbers have 24 bits.
const MAX_QPN: u32 = 0xff_ffff;

/// States that a program may assert as the QP's current one, by `IBV_QP_CUR_STATE`.
const ASSERTABLE_STATES: [QpState; 4] = [QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe];

/// Properties of a QP and its host for parsing.
pub struct Surroundings<'a> {
    /// Transport service of the QP.
    pub service: Service,
    /// State that the QP is in.
    pub state: QpState,
    /// The QP's number.
    pub qpn: u32,
    /// Largest `max_rd_atomic`.
    pub max_rd_atomic: u8,
    /// Largest `max_dest_rd_atomic`.
    pub max_dest_rd_atomic: u8,
    /// Largest path MTU, as `enum ibv_mtu`.
    pub max_path_mtu: u8,
    /// Source of GIDs and MAC addresses.
    pub host: &'a dyn Neighbours,
}

/// Parses the arguments of `ibv_modify_qp`; returns the new state of the QP, and the transition.
///
/// # Errors
/// `EINVAL` for a transition that does not exist, a missing attribute, one that the transition does
/// not allow, or a value out of range; `EOPNOTSUPP` for path migration; `EHOSTUNREACH` for an
/// unknown destination.
pub fn modify_qp(
    attr: &ibv_qp_attr,
    mask: c_int,
    around: &Surroundings<'_>,
) -> Result<(QpState, ModifyQp), Errno> {
    let mask = mask & !mask::ignored(around.service);
    let has = |bit: c_int| mask & bit != 0;
    let from = around.state;
    // An asserted state must be the QP's actual state.
    if has(IBV_QP_CUR_STATE)
        && (!ASSERTABLE_STATES.contains(&from) || state("cur_qp_state", attr.cur_qp_state)? != from)
    {
        let right = "the state that the QP is in, from RTR on";
        return Err(Errno::wrong("attr->cur_qp_state", attr.cur_qp_state, right));
    }
    let to = if has(IBV_QP_STATE) {
        state("attr->qp_state", attr.qp_state)?
    } else {
        from
    };
    let given = mask::attributes(mask)?;
    check_attributes(around.service, from, to, given).map_err(refused)?;
    if has(IBV_QP_ALT_PATH) || has(IBV_QP_PATH_MIG_STATE) && attr.path_mig_state != IBV_MIG_MIGRATED
    {
        return Err(Errno::NOT_SUPPORTED.because("path migration is not supported"));
    }
    let transition = Parser { attr, mask, around }.transition(from, to)?;
    Ok((to, transition))
}

/// Returns the error of a transition, in the names of verbs.h.
fn refused(error: TransitionError) -> Errno {
    let flag = match error {
        TransitionError::Missing { attribute, .. } => mask::flag_name(attribute),
        TransitionError::Attribute { attribute, .. } => mask::flag_name(attribute),
        TransitionError::Illegal { .. } => "",
    };
    Errno::transition(error, flag)
}

/// Parses `enum ibv_qp_state`.
fn state(name: &'static str, number: c_int) -> Result<QpState, Errno> {
    let known = u32::try_from(number).ok().and_then(QpState::from_number);
    known.ok_or_else(|| Errno::wrong(name, number, "a state of enum ibv_qp_state"))
}

/// Reads single attributes, each checked if it is in the mask.
struct Parser<'a> {
    attr: &'a ibv_qp_attr,
    mask: c_int,
    around: &'a Surroundings<'a>,
}

impl Parser<'_> {
    fn transition(&self, from: QpState, to: QpState) -> Result<ModifyQp, Errno> {
        Ok(match (from, to) {
            (_, QpState::Reset) => ModifyQp::ToReset,
            (_, QpState::Err) => ModifyQp::ToErr,
            (QpState::Reset, QpState::Init) => self.to_init()?,
            (QpState::Init, QpState::Init) => ModifyQp::InitToInit(InitUpdate {
                p_key_index: self.p_key_index()?,
                port: self.port()?,
                access: self.access()?,
                q_key: self.q_key(),
            }),
            (QpState::Init, QpState::Rtr) => self.to_rtr()?,
            (QpState::Rtr, QpState::Rts) => self.to_rts()?,
            (QpState::Rts, QpState::Rts) => ModifyQp::UpdateRts(self.rts_update()?),
            (QpState::Rts, QpState::Sqd) => ModifyQp::ToSqd {
                notify_drained: self.has(IBV_QP_EN_SQD_ASYNC_NOTIFY)
                    && self.attr.en_sqd_async_notify != 0,
            },
            (QpState::Sqd, QpState::Sqd) => ModifyQp::SqdUpdate(self.sqd_update()?),
            (QpState::Sqd, QpState::Rts) => ModifyQp::SqdToRts(self.rts_update()?),
            (QpState::Sqe, QpState::Rts) => ModifyQp::SqeToRts(self.rts_update()?),
            _ => return Err(refused(TransitionError::Illegal { from, to })),
        })
    }

    fn to_init(&self) -> Result<ModifyQp, Errno> {
        Ok(match self.around.service {
            Service::UnreliableDatagram | Service::Gsi => ModifyQp::ToInitUd(UdInit {
                p_key_index: required(self.p_key_index()?)?,
                port: required(self.port()?)?,
                q_key: required(self.q_key())?,
            }),
            _ => ModifyQp::ToInit(self.init()?),
        })
    }

    fn to_rtr(&self) -> Result<ModifyQp, Errno> {
        Ok(match self.around.service {
            Service::UnreliableDatagram | Service::Gsi => ModifyQp::ToRtrUd(UdRtr {
                p_key_index: self.p_key_index()?,
                q_key: self.q_key(),
            }),
            Service::UnreliableConnected | Service::XrcInitiator => ModifyQp::ToRtrUc(UcRtr {
                path_mtu: self.path_mtu()?,
                dest_qpn: self.dest_qpn()?,
                rq_psn: self.attr.rq_psn & PSN_MASK,
                path: required(self.path()?)?,
                access: self.access()?,
                p_key_index: self.p_key_index()?,
            }),
            _ => ModifyQp::ToRtr(self.rtr()?),
        })
    }

    fn to_rts(&self) -> Result<ModifyQp, Errno> {
        let sq_psn = self.attr.sq_psn & PSN_MASK;
        Ok(match self.around.service {
            Service::UnreliableDatagram | Service::Gsi => ModifyQp::ToRtsUd(UdRts {
                sq_psn,
                q_key: self.q_key(),
            }),
            Service::UnreliableConnected => ModifyQp::ToRtsUc(UcRts {
                sq_psn,
                access: self.access()?,
            }),
            Service::XrcTarget => ModifyQp::ToRtsXrcTarget(XrcTargetRts {
                sq_psn,
                timeout: required(self.timeout()?)?,
                access: self.access()?,
                min_rnr_timer: self.min_rnr_timer(),
            }),
            _ => ModifyQp::ToRts(self.rts()?),
        })
    }

    fn init(&self) -> Result<InitAttributes, Errno> {
        Ok(InitAttributes {
            p_key_index: required(self.p_key_index()?)?,
            port: required(self.port()?)?,
            access: required(self.access()?)?,
        })
    }

    fn rtr(&self) -> Result<RtrAttributes, Errno> {
        Ok(RtrAttributes {
            path_mtu: self.path_mtu()?,
            dest_qpn: self.dest_qpn()?,
            rq_psn: self.attr.rq_psn & PSN_MASK,
            max_dest_rd_atomic: required(self.max_dest_rd_atomic()?)?,
            min_rnr_timer: required(self.min_rnr_timer())?,
            path: required(self.path()?)?,
            access: self.access()?,
            p_key_index: self.p_key_index()?,
        })
    }

    fn rts(&self) -> Result<RtsAttributes, Errno> {
        Ok(RtsAttributes {
            sq_psn: self.attr.sq_psn & PSN_MASK,
            timeout: required(self.timeout()?)?,
            retry_count: required(self.retry_count()?)?,
            rnr_retry: required(self.rnr_retry()?)?,
            max_rd_atomic: required(self.max_rd_atomic()?)?,
            access: self.access()?,
            min_rnr_timer: self.min_rnr_timer(),
        })
    }

    fn rts_update(&self) -> Result<RtsUpdate, Errno> {
        Ok(RtsUpdate {
            access: self.access()?,
            min_rnr_timer: self.min_rnr_timer(),
            q_key: self.q_key(),
        })
    }

    fn sqd_update(&self) -> Result<SqdUpdate, Errno> {
        Ok(SqdUpdate {
            p_key_index: self.p_key_index()?,
            port: self.port()?,
            access: self.access()?,
            path: self.path()?,
            timeout: self.timeout()?,
            retry_count: self.retry_count()?,
            rnr_retry: self.rnr_retry()?,
            max_rd_atomic: self.max_rd_atomic()?,
            max_dest_rd_atomic: self.max_dest_rd_atomic()?,
            min_rnr_timer: self.min_rnr_timer(),
            q_key: self.q_key(),
        })
    }

    fn has(&self, bit: c_int) -> bool {
        self.mask & bit != 0
    }

    /// Returns a small number, checked against its maximum, if it is in the mask.
    fn small(
        &self,
        bit: c_int,
        name: &'static str,
        value: u8,
        largest: u8,
    ) -> Result<Option<u8>, Errno> {
        if self.has(bit) {
            at_most(name, value, largest).map(|()| Some(value))
        } else {
            Ok(None)
        }
    }

    /// Returns the path MTU, which the port must support.
    fn path_mtu(&self) -> Result<PathMtu, Errno> {
        const NAME: &str = "attr->path_mtu";
        let given = self.attr.path_mtu;
        let number = u32::try_from(given).unwrap_or_default();
        at_most(NAME, number, self.around.max_path_mtu)?;
        let mtu = PathMtu::from_number(number);
        mtu.ok_or_else(|| Errno::wrong(NAME, given, "a value of enum ibv_mtu"))
    }

    fn dest_qpn(&self) -> Result<Qpn, Errno> {
        at_most("attr->dest_qp_num", self.attr.dest_qp_num, MAX_QPN)?;
        Ok(Qpn(self.attr.dest_qp_num))
    }

    fn q_key(&self) -> Option<u32> {
        self.has(IBV_QP_QKEY).then_some(self.attr.qkey)
    }

    /// Returns the P_Key index; the port has one P_Key.
    fn p_key_index(&self) -> Result<Option<u16>, Errno> {
        match self.has(IBV_QP_PKEY_INDEX) {
            true if self.attr.pkey_index != 0 => Err(Errno::above(
                "attr->pkey_index",
                self.attr.pkey_index,
                0_u64,
            )),
            given => Ok(given.then_some(self.attr.pkey_index)),
        }
    }

    fn port(&self) -> Result<Option<u8>, Errno> {
        match self.has(IBV_QP_PORT) {
            true if self.attr.port_num != 1 => {
                Err(Errno::wrong("attr->port_num", self.attr.port_num, ONE_PORT))
            }
            given => Ok(given.then_some(self.attr.port_num)),
        }
    }

    /// Parses the access flags. Local write is allowed and has no effect; windows and zero based
    /// addresses are not rights of a QP.
    fn access(&self) -> Result<Option<QpAccess>, Errno> {
        const RIGHTS: u32 = IBV_ACCESS_LOCAL_WRITE
            | IBV_ACCESS_REMOTE_WRITE
            | IBV_ACCESS_REMOTE_READ
            | IBV_ACCESS_REMOTE_ATOMIC
            | IBV_ACCESS_FLUSH_GLOBAL
            | IBV_ACCESS_FLUSH_PERSISTENT;
        // Flags that apply to memory regions. Programs set them with the others, and NICs accept
        // them; they have no effect.
        const IGNORED: u32 = IBV_ACCESS_MW_BIND | PAGING_FLAGS;
        if !self.has(IBV_QP_ACCESS_FLAGS) {
            return Ok(None);
        }
        let flags = self.attr.qp_access_flags;
        within(
            Errno::INVALID,
            "attr->qp_access_flags",
            flags,
            RIGHTS | IGNORED,
        )?;
        Ok(Some(QpAccess {
            remote_write: flags & IBV_ACCESS_REMOTE_WRITE != 0,
            remote_read: flags & IBV_ACCESS_REMOTE_READ != 0,
            remote_atomic: flags & IBV_ACCESS_REMOTE_ATOMIC != 0,
            flush_global: flags & IBV_ACCESS_FLUSH_GLOBAL != 0,
            flush_persistent: flags & IBV_ACCESS_FLUSH_PERSISTENT != 0,
        }))
    }

    fn path(&self) -> Result<Option<AddressVector>, Errno> {
        if !self.has(IBV_QP_AV) {
            return Ok(None);
        }
        let seed = address::flow_seed(self.around.qpn, self.attr.dest_qp_num);
        address::parse(&self.attr.ah_attr, seed, self.around.host).map(Some)
    }

    fn timeout(&self) -> Result<Option<u8>, Errno> {
        self.small(IBV_QP_TIMEOUT, "attr->timeout", self.attr.timeout, 31)
    }

    fn retry_count(&self) -> Result<Option<u8>, Errno> {
        self.small(IBV_QP_RETRY_CNT, "attr->retry_cnt", self.attr.retry_cnt, 7)
    }

    fn rnr_retry(&self) -> Result<Option<u8>, Errno> {
        self.small(IBV_QP_RNR_RETRY, "attr->rnr_retry", self.attr.rnr_retry, 7)
    }

    /// Returns the timer, the low five bits. mlx5 and rxe ignore the other bits, and some programs
    /// set them.
    fn min_rnr_timer(&self) -> Option<u8> {
        const BITS: u8 = 0x1f;
        let given = self.attr.min_rnr_timer;
        self.has(IBV_QP_MIN_RNR_TIMER).then(|| {
            if given > BITS {
                tracing::warn!(
                    given,
                    used = given & BITS,
                    "attr->min_rnr_timer is above 31: its low five bits are used, as other NICs do"
                );
            }
            given & BITS
        })
    }

    fn max_rd_atomic(&self) -> Result<Option<u8>, Errno> {
        self.small(
            IBV_QP_MAX_QP_RD_ATOMIC,
            "attr->max_rd_atomic",
            self.attr.max_rd_atomic,
            self.around.max_rd_atomic,
        )
    }

    fn max_dest_rd_atomic(&self) -> Result<Option<u8>, Errno> {
        self.small(
            IBV_QP_MAX_DEST_RD_ATOMIC,
            "attr->max_dest_rd_atomic",
            self.attr.max_dest_rd_atomic,
            self.around.max_dest_rd_atomic,
        )
    }
}

/// Returns an attribute that the transition requires; `check_attributes` found it in the mask.
fn required<T>(value: Option<T>) -> Result<T, Errno> {
    value.ok_or(Errno::INVALID.because("attr_mask lacks an attribute"))
}

#[cfg(test)]
mod tests;

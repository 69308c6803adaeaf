//! MODIFY_QP: attributes and mask of the contract into a transition of the transport.

use ferroce_spec::command::{ANY_STATE, CommandStatus, ModifyQp, QpAttributeMask};
use ferroce_spec::context::{PathMtuCode, QpContext, QpStateCode};
use ferroce_transport::{
    AttributeUpdate, Attributes, InitAttributes, LocalAckTimeout, PathMtu, QpState, RemoteAccess,
    RetryCount, RtrAttributes, RtsAttributes, Transition,
};
use ferroce_wire::{PKey, Psn, QKey, Qpn, RnrTimer};

use crate::queue_pair::state_code;

/// The default partition key, the only entry of the P_Key table (IBTA vol 1, 10.9.1.2).
pub const DEFAULT_P_KEY: PKey = PKey(0xffff);

/// Why a MODIFY_QP is refused before the transport sees it: status and syndrome.
pub type Refusal = (CommandStatus, u32);

/// Ports of the function.
const PORTS: u8 = 1;

/// The transition that `input` asks of a QP in `state` with the attributes `present`.
pub fn transition(
    state: QpState,
    present: &Attributes,
    input: &ModifyQp,
) -> Result<Transition, Refusal> {
    if input.current_state != ANY_STATE && input.current_state != u32::from(state_code(state).0) {
        return Err((CommandStatus::BAD_TRANSITION, input.current_state));
    }
    check_values(input)?;
    let context = &input.context;
    let mask = input.mask;
    let target = u8::try_from(input.state)
        .map(QpStateCode)
        .map_err(|_| bad_state(input))?;
    Ok(match (state, target) {
        (_, QpStateCode::RESET) => Transition::Reset,
        (_, QpStateCode::ERR) => Transition::Err,
        (QpState::Init, QpStateCode::INIT) => {
            let access = if mask.access() {
                remote_access(context)
            } else {
                present.access
            };
            let port = if mask.port() {
                context.port
            } else {
                present.port
            };
            Transition::Init(InitAttributes {
                p_key: DEFAULT_P_KEY,
                access,
                port,
                q_key: QKey(context.q_key),
            })
        }
        (QpState::Reset, QpStateCode::INIT) => {
            require(mask, |m| {
                m.set_access(true);
                m.set_p_key(true);
                m.set_port(true);
            })?;
            let access = remote_access(context);
            Transition::Init(InitAttributes {
                p_key: DEFAULT_P_KEY,
                access,
                port: context.port,
                q_key: QKey(context.q_key),
            })
        }
        (QpState::Init, QpStateCode::RTR) => Transition::Rtr {
            attributes: rtr(mask, context)?,
            update: update(mask, context, true),
        },
        (QpState::Rtr, QpStateCode::RTS) => Transition::Rts {
            attributes: rts(mask, context)?,
            update: update(mask, context, true),
        },
        (QpState::Rts, QpStateCode::RTS) | (QpState::Sqd, QpStateCode::SQD) => {
            Transition::Update(update(mask, context, false))
        }
        (QpState::Sqd | QpState::Sqe, QpStateCode::RTS) => {
            Transition::Resume(update(mask, context, false))
        }
        (QpState::Rts, QpStateCode::SQD) => Transition::Drain {
            notify: mask.drained_event(),
        },
        _ => return Err(bad_state(input)),
    })
}

fn bad_state(input: &ModifyQp) -> Refusal {
    (CommandStatus::BAD_TRANSITION, input.state)
}

fn bad_field(offset: usize) -> Refusal {
    (
        CommandStatus::BAD_PARAMETER,
        (core::mem::offset_of!(ModifyQp, context) + offset) as u32,
    )
}

/// Values that no QP may have, whatever the transition.
fn check_values(input: &ModifyQp) -> Result<(), Refusal> {
    let (mask, context) = (input.mask, &input.context);
    if mask.port() && !(1..=PORTS).contains(&context.port) {
        return Err(bad_field(core::mem::offset_of!(QpContext, port)));
    }
    if mask.p_key() && context.p_key_index != 0 {
        return Err(bad_field(core::mem::offset_of!(QpContext, p_key_index)));
    }
    if mask.path_mtu() && path_mtu(context.path_mtu).is_none() {
        return Err(bad_field(core::mem::offset_of!(QpContext, path_mtu)));
    }
    Ok(())
}

fn path_mtu(code: PathMtuCode) -> Option<PathMtu> {
    PathMtu::from_code(code.0)
}

/// Refuses when a bit that `set` sets is missing in `mask`.
fn require(mask: QpAttributeMask, set: fn(&mut QpAttributeMask)) -> Result<(), Refusal> {
    let mut required = QpAttributeMask::default();
    set(&mut required);
    let missing = required.bits() & !mask.bits();
    if missing != 0 {
        return Err((CommandStatus::BAD_PARAMETER, missing));
    }
    Ok(())
}

fn remote_access(context: &QpContext) -> RemoteAccess {
    RemoteAccess {
        read: context.access.remote_read(),
        write: context.access.remote_write(),
        atomic: context.access.remote_atomic(),
    }
}

fn rtr(mask: QpAttributeMask, context: &QpContext) -> Result<RtrAttributes, Refusal> {
    require(mask, |m| {
        m.set_path(true);
        m.set_path_mtu(true);
        m.set_dest_qpn(true);
        m.set_receive_psn(true);
        m.set_max_dest_rd_atomic(true);
        m.set_min_rnr_timer(true);
    })?;
    let mtu_offset = core::mem::offset_of!(QpContext, path_mtu);
    Ok(RtrAttributes {
        path_mtu: path_mtu(context.path_mtu).ok_or(bad_field(mtu_offset))?,
        dest_qp: Qpn::new(context.dest_qpn),
        rq_psn: Psn::new(context.receive_psn),
        max_dest_rd_atomic: context.max_dest_rd_atomic,
        min_rnr_timer: RnrTimer::new(context.retry.min_rnr_timer()),
    })
}

fn rts(mask: QpAttributeMask, context: &QpContext) -> Result<RtsAttributes, Refusal> {
    require(mask, |m| {
        m.set_send_psn(true);
        m.set_timeout(true);
        m.set_retry_count(true);
        m.set_rnr_retry(true);
        m.set_max_rd_atomic(true);
    })?;
    Ok(RtsAttributes {
        sq_psn: Psn::new(context.send_psn),
        timeout: LocalAckTimeout::new(context.retry.timeout()),
        retry_count: RetryCount::new(context.retry.retry_count()),
        rnr_retry: RetryCount::new(context.retry.rnr_retry()),
        max_rd_atomic: context.max_rd_atomic,
    })
}

/// What the mask changes besides what the transition needs. `connecting`: on the way to RTR and
/// RTS the needed attributes stand elsewhere and are not repeated here.
fn update(mask: QpAttributeMask, context: &QpContext, connecting: bool) -> AttributeUpdate {
    let retry = context.retry;
    let also = |bit: bool| bit && !connecting;
    let min_rnr_timer = mask.min_rnr_timer() && !mask.path_mtu();
    AttributeUpdate {
        access: mask.access().then(|| remote_access(context)),
        p_key: mask.p_key().then_some(DEFAULT_P_KEY),
        port: also(mask.port()).then_some(context.port),
        min_rnr_timer: min_rnr_timer.then(|| RnrTimer::new(retry.min_rnr_timer())),
        timeout: also(mask.timeout()).then(|| LocalAckTimeout::new(retry.timeout())),
        retry_count: also(mask.retry_count()).then(|| RetryCount::new(retry.retry_count())),
        rnr_retry: also(mask.rnr_retry()).then(|| RetryCount::new(retry.rnr_retry())),
        max_rd_atomic: also(mask.max_rd_atomic()).then_some(context.max_rd_atomic),
        max_dest_rd_atomic: also(mask.max_dest_rd_atomic()).then_some(context.max_dest_rd_atomic),
        q_key: mask.q_key().then_some(QKey(context.q_key)),
    }
}

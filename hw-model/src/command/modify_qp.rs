//! MODIFY_QP: converts attributes and mask of the contract to a transition of the transport.

use ferroce_spec::command::{ANY_STATE, CommandStatus, ModifyQp, QpAttributeMask};
use ferroce_spec::context::{GSI_Q_KEY, QpContext, QpStateCode};
use ferroce_transport::{
    AttributeUpdate, Attributes, InitAttributes, LocalAckTimeout, PathMtu, QpState, RemoteAccess,
    RetryCount, RtrAttributes, RtsAttributes, Service, Transition, TransitionError,
    check_attributes,
};
use ferroce_wire::{PKey, Psn, QKey, Qpn, RnrTimer};

/// The default partition key, the only entry of the P_Key table (IBTA vol 1, 10.9.1.2).
pub const DEFAULT_P_KEY: PKey = PKey(0xffff);

/// Status and syndrome of a MODIFY_QP that is refused before it reaches the transport.
pub type Refusal = (CommandStatus, u32);

/// Ports of the function.
const PORTS: u8 = 1;

/// Returns the transition that `input` requests for a QP of `service` in `state` whose attributes
/// are `present`.
pub fn transition(
    service: Service,
    state: QpState,
    present: &Attributes,
    input: &ModifyQp,
) -> Result<Transition, Refusal> {
    let present_state = u32::from(QpStateCode::from(state).0);
    if input.current_state != ANY_STATE && input.current_state != present_state {
        return Err((CommandStatus::BAD_TRANSITION, input.current_state));
    }
    let target = u8::try_from(input.state)
        .ok()
        .and_then(|code| QpState::try_from(QpStateCode(code)).ok())
        .ok_or(bad_state(input))?;
    let (mask, context) = (input.mask, &input.context);
    check_attributes(service, state, target, mask.into()).map_err(|error| match error {
        TransitionError::Missing { .. } => (CommandStatus::BAD_PARAMETER, mask.bits()),
        _ => bad_state(input),
    })?;
    check_values(service, input)?;
    Ok(match (state, target) {
        (_, QpState::Reset) => Transition::Reset,
        (_, QpState::Err) => Transition::Err,
        (_, QpState::Init) => Transition::Init(init(mask, context, present)),
        (_, QpState::Rtr) => Transition::Rtr {
            attributes: rtr(service, context)?,
            update: update(mask, context, true),
        },
        (QpState::Rtr, QpState::Rts) => Transition::Rts {
            attributes: rts(context),
            update: update(mask, context, true),
        },
        (QpState::Rts, QpState::Rts) | (QpState::Sqd, QpState::Sqd) => {
            Transition::Update(update(mask, context, false))
        }
        (QpState::Sqd | QpState::Sqe, QpState::Rts) => {
            Transition::Resume(update(mask, context, false))
        }
        (QpState::Rts, QpState::Sqd) => Transition::Drain {
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

/// Checks the values that no QP of `service` may have, whatever the transition.
fn check_values(service: Service, input: &ModifyQp) -> Result<(), Refusal> {
    let (mask, context) = (input.mask, &input.context);
    if mask.port() && !(1..=PORTS).contains(&context.port) {
        return Err(bad_field(core::mem::offset_of!(QpContext, port)));
    }
    if mask.p_key() && context.p_key_index != 0 {
        return Err(bad_field(core::mem::offset_of!(QpContext, p_key_index)));
    }
    if mask.path_mtu() && PathMtu::try_from(context.path_mtu).is_err() {
        return Err(bad_field(core::mem::offset_of!(QpContext, path_mtu)));
    }
    if mask.q_key() && service == Service::Gsi && context.q_key != GSI_Q_KEY {
        return Err(bad_field(core::mem::offset_of!(QpContext, q_key)));
    }
    Ok(())
}

fn remote_access(context: &QpContext) -> RemoteAccess {
    RemoteAccess {
        read: context.access.remote_read(),
        write: context.access.remote_write(),
        atomic: context.access.remote_atomic(),
        flush_global: context.access.flush_global(),
        flush_persistent: context.access.flush_persistent(),
    }
}

/// Returns the attributes of INIT; attributes that are not in the mask keep their values.
fn init(mask: QpAttributeMask, context: &QpContext, present: &Attributes) -> InitAttributes {
    InitAttributes {
        p_key: DEFAULT_P_KEY,
        access: if mask.access() {
            remote_access(context)
        } else {
            present.access
        },
        port: if mask.port() {
            context.port
        } else {
            present.port
        },
        q_key: if mask.q_key() {
            QKey(context.q_key)
        } else {
            present.q_key
        },
    }
}

fn rtr(service: Service, context: &QpContext) -> Result<RtrAttributes, Refusal> {
    if service.is_datagram() {
        return Ok(RtrAttributes::default());
    }
    let mtu_offset = core::mem::offset_of!(QpContext, path_mtu);
    Ok(RtrAttributes {
        path_mtu: PathMtu::try_from(context.path_mtu).map_err(|_| bad_field(mtu_offset))?,
        dest_qp: Qpn::new(context.dest_qpn),
        rq_psn: Psn::new(context.receive_psn),
        max_dest_rd_atomic: context.max_dest_rd_atomic,
        min_rnr_timer: RnrTimer::new(context.retry.min_rnr_timer()),
    })
}

fn rts(context: &QpContext) -> RtsAttributes {
    RtsAttributes {
        sq_psn: Psn::new(context.send_psn),
        timeout: LocalAckTimeout::new(context.retry.timeout()),
        retry_count: RetryCount::new(context.retry.retry_count()),
        rnr_retry: RetryCount::new(context.retry.rnr_retry()),
        max_rd_atomic: context.max_rd_atomic,
    }
}

/// Applies the attributes of the mask that the transition does not require. `connecting`: on the
/// way to RTR and RTS, the required attributes are applied elsewhere and are skipped here.
fn update(mask: QpAttributeMask, context: &QpContext, connecting: bool) -> AttributeUpdate {
    let retry = context.retry;
    let also = |bit: bool| bit && !connecting;
    let min_rnr_timer = mask.min_rnr_timer() && !mask.path_mtu();
    AttributeUpdate {
        access: mask.access().then(|| remote_access(context)),
        p_key: mask.p_key().then_some(DEFAULT_P_KEY),
        q_key: mask.q_key().then_some(QKey(context.q_key)),
        port: also(mask.port()).then_some(context.port),
        min_rnr_timer: min_rnr_timer.then(|| RnrTimer::new(retry.min_rnr_timer())),
        timeout: also(mask.timeout()).then(|| LocalAckTimeout::new(retry.timeout())),
        retry_count: also(mask.retry_count()).then(|| RetryCount::new(retry.retry_count())),
        rnr_retry: also(mask.rnr_retry()).then(|| RetryCount::new(retry.rnr_retry())),
        max_rd_atomic: also(mask.max_rd_atomic()).then_some(context.max_rd_atomic),
        max_dest_rd_atomic: also(mask.max_dest_rd_atomic()).then_some(context.max_dest_rd_atomic),
    }
}

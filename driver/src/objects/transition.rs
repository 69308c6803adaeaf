//! Transitions of QPs as MODIFY_QP commands.

use ferroce_qp::{PathMtu, QpState, Service, TransitionError, check_attributes};
use ferroce_spec::command::{ANY_STATE, ModifyQp as ModifyQpInput, QpAttributeMask};
use ferroce_spec::context::{QpContext, QpStateCode};

use crate::attributes::{
    AddressVector, InitAttributes, InitUpdate, ModifyQp, QpAccess, QueuePairAttributes,
    RtrAttributes, RtsAttributes, RtsUpdate, SqdUpdate, UcRtr, UcRts, UdInit, UdRtr, UdRts,
    XrcTargetRts,
};
use crate::error::Error;
use crate::identifier::Qpn;

/// PSNs, QPNs: 24 bits.
const MASK_24: u32 = 0xff_ffff;

/// Collects attributes for a MODIFY_QP, and the mask of the ones that are set.
#[derive(Default)]
struct Attributes {
    mask: QpAttributeMask,
    context: QpContext,
}

macro_rules! setters {
    ( $(
        $name:ident($value:ident: $kind:ty): $set_mask:ident, |$context:ident| $store:expr;
    )* ) => {
        impl Attributes {
            $(
                fn $name(&mut self, $value: impl Into<Option<$kind>>) {
                    if let Some($value) = $value.into() {
                        self.mask.$set_mask(true);
                        let $context = &mut self.context;
                        $store;
                    }
                }
            )*
        }
    };
}

setters! {
    access(value: QpAccess): set_access, |c| c.access = value.into();
    p_key_index(value: u16): set_p_key, |c| c.p_key_index = value.into();
    port(value: u8): set_port, |c| c.port = value;
    q_key(value: u32): set_q_key, |c| c.q_key = value;
    path(value: AddressVector): set_path, |c| c.path = (&value).into();
    path_mtu(value: PathMtu): set_path_mtu, |c| c.path_mtu = value.into();
    timeout(value: u8): set_timeout, |c| c.retry.set_timeout(value & 0x1f);
    retry_count(value: u8): set_retry_count, |c| c.retry.set_retry_count(value & 7);
    rnr_retry(value: u8): set_rnr_retry, |c| c.retry.set_rnr_retry(value & 7);
    rq_psn(value: u32): set_receive_psn, |c| c.receive_psn = value & MASK_24;
    sq_psn(value: u32): set_send_psn, |c| c.send_psn = value & MASK_24;
    max_rd_atomic(value: u8): set_max_rd_atomic, |c| c.max_rd_atomic = value;
    max_dest_rd_atomic(value: u8): set_max_dest_rd_atomic, |c| c.max_dest_rd_atomic = value;
    min_rnr_timer(value: u8): set_min_rnr_timer, |c| c.retry.set_min_rnr_timer(value & 0x1f);
    dest_qpn(value: Qpn): set_dest_qpn, |c| c.dest_qpn = value.0 & MASK_24;
}

impl Attributes {
    fn init(&mut self, init: &InitAttributes) {
        self.p_key_index(init.p_key_index);
        self.port(init.port);
        self.access(init.access);
    }

    fn init_ud(&mut self, init: &UdInit) {
        self.p_key_index(init.p_key_index);
        self.port(init.port);
        self.q_key(init.q_key);
    }

    fn init_update(&mut self, update: &InitUpdate) {
        self.p_key_index(update.p_key_index);
        self.port(update.port);
        self.access(update.access);
        self.q_key(update.q_key);
    }

    fn rtr(&mut self, rtr: &RtrAttributes) {
        self.path_mtu(rtr.path_mtu);
        self.dest_qpn(rtr.dest_qpn);
        self.rq_psn(rtr.rq_psn);
        self.max_dest_rd_atomic(rtr.max_dest_rd_atomic);
        self.min_rnr_timer(rtr.min_rnr_timer);
        self.path(rtr.path);
        self.access(rtr.access);
        self.p_key_index(rtr.p_key_index);
    }

    fn rtr_uc(&mut self, rtr: &UcRtr) {
        self.path_mtu(rtr.path_mtu);
        self.dest_qpn(rtr.dest_qpn);
        self.rq_psn(rtr.rq_psn);
        self.path(rtr.path);
        self.access(rtr.access);
        self.p_key_index(rtr.p_key_index);
    }

    fn rtr_ud(&mut self, rtr: &UdRtr) {
        self.p_key_index(rtr.p_key_index);
        self.q_key(rtr.q_key);
    }

    fn rts(&mut self, rts: &RtsAttributes) {
        self.sq_psn(rts.sq_psn);
        self.timeout(rts.timeout);
        self.retry_count(rts.retry_count);
        self.rnr_retry(rts.rnr_retry);
        self.max_rd_atomic(rts.max_rd_atomic);
        self.access(rts.access);
        self.min_rnr_timer(rts.min_rnr_timer);
    }

    fn rts_uc(&mut self, rts: &UcRts) {
        self.sq_psn(rts.sq_psn);
        self.access(rts.access);
    }

    fn rts_ud(&mut self, rts: &UdRts) {
        self.sq_psn(rts.sq_psn);
        self.q_key(rts.q_key);
    }

    fn rts_xrc_target(&mut self, rts: &XrcTargetRts) {
        self.sq_psn(rts.sq_psn);
        self.timeout(rts.timeout);
        self.access(rts.access);
        self.min_rnr_timer(rts.min_rnr_timer);
    }

    fn rts_update(&mut self, update: &RtsUpdate) {
        self.access(update.access);
        self.min_rnr_timer(update.min_rnr_timer);
        self.q_key(update.q_key);
    }

    fn sqd_update(&mut self, update: &SqdUpdate) {
        self.p_key_index(update.p_key_index);
        self.port(update.port);
        self.access(update.access);
        self.path(update.path);
        self.timeout(update.timeout);
        self.retry_count(update.retry_count);
        self.rnr_retry(update.rnr_retry);
        self.max_rd_atomic(update.max_rd_atomic);
        self.max_dest_rd_atomic(update.max_dest_rd_atomic);
        self.min_rnr_timer(update.min_rnr_timer);
        self.q_key(update.q_key);
    }

    fn set(&mut self, transition: &ModifyQp) {
        match transition {
            ModifyQp::ToReset | ModifyQp::ToErr => {}
            ModifyQp::ToInit(init) => self.init(init),
            ModifyQp::ToInitUd(init) => self.init_ud(init),
            ModifyQp::InitToInit(update) => self.init_update(update),
            ModifyQp::ToRtr(rtr) => self.rtr(rtr),
            ModifyQp::ToRtrUc(rtr) => self.rtr_uc(rtr),
            ModifyQp::ToRtrUd(rtr) => self.rtr_ud(rtr),
            ModifyQp::ToRts(rts) => self.rts(rts),
            ModifyQp::ToRtsUc(rts) => self.rts_uc(rts),
            ModifyQp::ToRtsUd(rts) => self.rts_ud(rts),
            ModifyQp::ToRtsXrcTarget(rts) => self.rts_xrc_target(rts),
            ModifyQp::ToSqd { notify_drained } => self.mask.set_drained_event(*notify_drained),
            ModifyQp::SqdUpdate(update) => self.sqd_update(update),
            ModifyQp::UpdateRts(update)
            | ModifyQp::SqdToRts(update)
            | ModifyQp::SqeToRts(update) => self.rts_update(update),
        }
    }
}

/// Returns the first and last state of a transition; `None`: it begins in any state.
fn states(transition: &ModifyQp) -> (Option<QpState>, QpState) {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    match transition {
        ModifyQp::ToReset => (None, Reset),
        ModifyQp::ToInit(_) | ModifyQp::ToInitUd(_) => (Some(Reset), Init),
        ModifyQp::InitToInit(_) => (Some(Init), Init),
        ModifyQp::ToRtr(_) | ModifyQp::ToRtrUc(_) | ModifyQp::ToRtrUd(_) => (Some(Init), Rtr),
        ModifyQp::ToRts(_)
        | ModifyQp::ToRtsUc(_)
        | ModifyQp::ToRtsUd(_)
        | ModifyQp::ToRtsXrcTarget(_) => (Some(Rtr), Rts),
        ModifyQp::UpdateRts(_) => (Some(Rts), Rts),
        ModifyQp::ToSqd { .. } => (Some(Rts), Sqd),
        ModifyQp::SqdUpdate(_) => (Some(Sqd), Sqd),
        ModifyQp::SqdToRts(_) => (Some(Sqd), Rts),
        ModifyQp::SqeToRts(_) => (Some(Sqe), Rts),
        ModifyQp::ToErr => (None, Err),
    }
}

/// Checks that a transition has the attributes that a QP of `service` requires, and none that it
/// does not allow.
fn check(service: Service, transition: &ModifyQp, mask: QpAttributeMask) -> Result<(), Error> {
    let (Some(from), to) = states(transition) else {
        return Ok(()); // To RESET or ERR, which every service has, without attributes.
    };
    let refused = check_attributes(service, from, to, mask.into()).err();
    // These two require the same attribute, so the table cannot distinguish them.
    let is_other = match transition {
        ModifyQp::ToRtsUc(_) => service.is_datagram(),
        ModifyQp::ToRtsUd(_) => service == Service::UnreliableConnected,
        _ => false,
    };
    let what = match refused {
        Some(TransitionError::Attribute { .. }) => "the QP's service does not have an attribute",
        Some(_) => "the transition is not one of the QP's service",
        None if is_other => "the transition is not one of the QP's service",
        None => return Ok(()),
    };
    Err(Error::InvalidArgument { what })
}

fn code(state: QpState) -> u32 {
    QpStateCode::from(state).0.into()
}

/// Returns the last state of a transition, and the command for it.
///
/// # Errors
///
/// [`Error::InvalidArgument`] when the transition belongs to another service, or has attributes
/// that the service does not have.
pub(crate) fn input(
    service: Service,
    transition: &ModifyQp,
) -> Result<(QpState, ModifyQpInput), Error> {
    let mut attributes = Attributes::default();
    attributes.set(transition);
    check(service, transition, attributes.mask)?;
    let (from, to) = states(transition);
    let input = ModifyQpInput {
        state: code(to),
        current_state: from.map_or(ANY_STATE, code),
        mask: attributes.mask,
        reserved_0c: 0,
        reserved_10: [0; 6],
        context: attributes.context,
    };
    Ok((to, input))
}

/// Converts the device's report of a QP.
///
/// # Errors
///
/// [`Error::BadAnswer`] for a state that does not exist.
pub(crate) fn attributes(context: &QpContext) -> Result<QueuePairAttributes, Error> {
    let state = QpState::try_from(context.state);
    let state = state.map_err(|_| Error::BadAnswer { what: "QP state" })?;
    Ok(QueuePairAttributes {
        state,
        draining: context.draining != 0,
        path_mtu: PathMtu::try_from(context.path_mtu).ok(),
        q_key: context.q_key,
        rq_psn: context.receive_psn & MASK_24,
        sq_psn: context.send_psn & MASK_24,
        dest_qpn: Qpn(context.dest_qpn & MASK_24),
        access: context.access.into(),
        path: (&context.path).into(),
        p_key_index: context.p_key_index as u16,
        max_rd_atomic: context.max_rd_atomic,
        max_dest_rd_atomic: context.max_dest_rd_atomic,
        min_rnr_timer: context.retry.min_rnr_timer(),
        port: context.port,
        timeout: context.retry.timeout(),
        retry_count: context.retry.retry_count(),
        rnr_retry: context.retry.rnr_retry(),
    })
}

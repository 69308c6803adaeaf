//! Completion channels and completion queues. Reading events and destroying is in `blocking.rs`.

use std::sync::atomic::{AtomicI32, Ordering};

use ferroce_driver::Lease;
use libc::{c_int, c_void};

use super::super::boundary::{pointer, status};
use super::super::handle::{Handle, zeroed};
use super::super::objects::{Channel, Context, Cq};
use super::super::poll_api;
use crate::abi::*;
use crate::cq;
use crate::domain::Domain;
use crate::errno::Errno;
use crate::event::EventQueue;

/// `ibv_create_comp_channel`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    pointer("ibv_create_comp_channel", || {
        // SAFETY: contract of `ibv_create_comp_channel`: the program passes null or an open context
        // of this library; `borrow` refuses null.
        let body = unsafe { Context::borrow(context)? };
        body.adapter.check()?;
        let events = EventQueue::new()?;
        let public = ibv_comp_channel {
            context,
            fd: events.fd(),
            refcnt: 0,
        };
        Ok(Handle::give(
            public,
            Channel {
                adapter: body.adapter.clone(),
                events,
            },
        )
        .cast())
    })
}

/// `ibv_destroy_comp_channel`: `EBUSY` while CQs use it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    status("ibv_destroy_comp_channel", || {
        // SAFETY: contract of `ibv_destroy_comp_channel`: the program passes null or a channel of
        // this library, and does not use it any more if this succeeds; `claim` refuses one that is
        // not live.
        unsafe {
            let claim = Handle::<ibv_comp_channel, Channel>::claim(channel)?;
            claim.adapter.check()?;
            if users(channel).load(Ordering::Acquire) != 0 {
                return Err(Errno::BUSY.because("CQs use the channel"));
            }
            claim.free();
        }
        Ok(())
    })
}

/// Returns the number of CQs that use a channel, which is in the public struct.
///
/// # Safety
/// The channel is one of this library and alive for `'a`.
unsafe fn users<'a>(channel: *mut ibv_comp_channel) -> &'a AtomicI32 {
    // SAFETY: the caller guarantees that the channel is one of this library and alive for `'a`;
    // programs do not write it.
    unsafe { AtomicI32::from_ptr(&raw mut (*channel).refcnt) }
}

/// Removes a user of this channel, unless it is null, after a CQ was destroyed.
///
/// # Safety
/// `channel` is null or a channel of this library that is alive.
pub(in super::super) unsafe fn release_channel(channel: *mut ibv_comp_channel) {
    if !channel.is_null() {
        // SAFETY: the caller guarantees that `channel` is null or a channel of this library that is
        // alive.
        unsafe { users(channel) }.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Returns an argument that verbs.h declares as `int` and that is never negative.
fn unsigned(name: &'static str, value: c_int) -> Result<u32, Errno> {
    u32::try_from(value).map_err(|_| Errno::wrong(name, value, "not negative"))
}

fn create(
    context: *mut ibv_context,
    entries: u32,
    vector: u32,
    channel: *mut ibv_comp_channel,
    cq_context: *mut c_void,
    lease: Option<Lease>,
) -> Result<*mut ibv_cq_ex, Errno> {
    // SAFETY: contract of `ibv_create_cq`: the program passes null or an open context of this
    // library; `borrow` refuses null.
    let body = unsafe { Context::borrow(context)? };
    let events = match channel.is_null() {
        true => None,
        // SAFETY: contract of `ibv_create_cq`: the channel is null, which is handled above, or
        // a live one of this library.
        false => Some(
            unsafe { Handle::<ibv_comp_channel, Channel>::borrow(channel)? }
                .events
                .clone(),
        ),
    };
    let inner = cq::Cq::create(&body.adapter, &body.events, events, entries, vector)?;
    // SAFETY: the struct has integers, pointers, `Option`s of functions, and mutex and condition,
    // which zeros initialise.
    let mut public: ibv_cq_ex = unsafe { zeroed() };
    public.context = context;
    public.channel = channel;
    public.cq_context = cq_context;
    public.handle = super::next_handle();
    public.cqe = c_int::try_from(inner.queue.entries()).unwrap_or(c_int::MAX);
    poll_api::fill(&mut public);
    if let Some(clock) = body.adapter.program_clock() {
        poll_api::note_callers(&mut public, clock.as_ref());
    }
    let source = inner.source.clone();
    let cq: *mut ibv_cq_ex = Handle::give(public, Cq::new(inner, lease)).cast();
    source.set_address(cq.expose_provenance());
    if !channel.is_null() {
        // SAFETY: contract of `ibv_create_cq`: the channel is a live one of this library, and is
        // not null here.
        unsafe { users(channel) }.fetch_add(1, Ordering::AcqRel);
    }
    Ok(cq)
}

/// `ibv_create_cq`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    pointer("ibv_create_cq", || {
        let entries = unsigned("cqe", entries)?;
        let vector = unsigned("comp_vector", vector)?;
        Ok(create(context, entries, vector, channel, cq_context, None)?.cast())
    })
}

/// `ibv_create_cq_ex`.
pub(super) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    pointer("ibv_create_cq_ex", || {
        // SAFETY: contract of `ibv_create_cq_ex`: the struct is null or valid; null is refused.
        let attr = unsafe { attr.as_ref() }.ok_or_else(|| Errno::null("attr"))?;
        cq::check_extended(attr)?;
        let lease = match attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD {
            0 => None,
            // SAFETY: contract of `ibv_create_cq_ex`: the program passes null or a live PD of this
            // library; null is refused.
            _ => Some(unsafe { parent_lease(attr.parent_domain)? }),
        };
        create(
            context,
            attr.cqe,
            attr.comp_vector,
            attr.channel,
            attr.cq_context,
            lease,
        )
    })
}

/// Takes a lease of a parent domain.
///
/// # Errors
/// `EINVAL` for another domain.
///
/// # Safety
/// `pd` is null or a domain of this library.
unsafe fn parent_lease(pd: *mut ibv_pd) -> Result<Lease, Errno> {
    // SAFETY: the caller guarantees that `pd` is null or a domain of this library.
    let domain = unsafe { Handle::<ibv_pd, Domain>::look_up(pd)? };
    if domain.is_parent() {
        Ok(domain.lease())
    } else {
        Err(Errno::INVALID.because("cq_attr->parent_domain is no parent domain"))
    }
}

/// `ibv_resize_cq`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, entries: c_int) -> c_int {
    status("ibv_resize_cq", || {
        // SAFETY: contract of `ibv_resize_cq`: the program passes null or a live CQ of this
        // library; `look_up` refuses null.
        let body = unsafe { Handle::<ibv_cq_ex, Cq>::look_up(cq)? };
        let entries = body.resize(unsigned("cqe", entries)?)?;
        // SAFETY: `look_up` has accepted the CQ, which is alive during the call (contract of
        // `ibv_resize_cq`).
        unsafe { (*cq).cqe = c_int::try_from(entries).unwrap_or(c_int::MAX) };
        Ok(())
    })
}

/// `ibv_modify_cq`: moderation.
pub(super) unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    status("ibv_modify_cq", || {
        // SAFETY: contract of `ibv_modify_cq`: the CQ is null or a live CQ of this library, and the
        // struct null or valid; null is refused.
        let (body, attr) = unsafe { (Handle::<ibv_cq_ex, Cq>::look_up(cq)?, attr.as_ref()) };
        body.modify(attr.ok_or_else(|| Errno::null("attr"))?)
    })
}

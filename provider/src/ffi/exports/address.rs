//! Address handles and the verbs that help to make them.

use libc::c_int;

use super::super::boundary::{minus_one, pointer, status};
use super::super::handle::Handle;
use super::super::objects::{Ah, Context};
use crate::abi::*;
use crate::address::{self, Neighbours};
use crate::domain::Domain;
use crate::errno::{Errno, ONE_PORT};

/// VLAN of an untagged path in `ibv_resolve_eth_l2_from_gid`.
const NO_VLAN: u16 = 0xffff;

/// `ibv_create_ah`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    pointer("ibv_create_ah", || {
        // SAFETY: contract of `ibv_create_ah`: `pd` is null or a live domain of this library, and
        // `attr` null or valid; null is refused.
        let (body, attr) = unsafe { (Handle::<ibv_pd, Domain>::look_up(pd)?, attr.as_ref()) };
        body.adapter.check()?;
        let path = address::parse(attr.ok_or_else(|| Errno::null("attr"))?, 0, &*body.adapter)?;
        // SAFETY: `look_up` has accepted the PD, which is alive during the call (contract of
        // `ibv_create_ah`).
        let context = unsafe { (*pd).context };
        let public = ibv_ah {
            context,
            pd,
            handle: super::next_handle(),
        };
        let body = Ah {
            path,
            protection: body.protection.clone(),
            _leases: [body.lease(), body.adapter.address_handle()?],
        };
        Ok(Handle::give(public, body).cast())
    })
}

/// `ibv_destroy_ah`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    status("ibv_destroy_ah", || {
        // SAFETY: contract of `ibv_destroy_ah`: `ah` is null or a handle of this library, and no
        // thread uses it any more; `claim` refuses one that is not live.
        unsafe {
            Handle::<ibv_ah, Ah>::claim(ah)?.free();
        }
        Ok(())
    })
}

/// Returns the attributes of the path back to the sender of a received datagram.
///
/// # Safety
/// The pointers are null or valid.
unsafe fn from_completion(
    context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
) -> Result<ibv_ah_attr, Errno> {
    // SAFETY: the caller guarantees that the pointers are null or valid; the header is forty bytes.
    let (context, wc, header) = unsafe {
        (
            Context::borrow(context)?,
            wc.as_ref(),
            grh.cast::<[u8; 40]>().as_ref(),
        )
    };
    context.adapter.check()?;
    let (wc, header) = (
        wc.ok_or_else(|| Errno::null("wc"))?,
        header.ok_or_else(|| Errno::null("header"))?,
    );
    if port != 1 {
        return Err(Errno::wrong("port_num", port, ONE_PORT));
    }
    if wc.wc_flags & IBV_WC_GRH == 0 {
        return Err(Errno::INVALID.because("wc->wc_flags lacks IBV_WC_GRH"));
    }
    let reply = address::reply(header, &context.adapter.host().gids)?;
    let source = usize::from(reply.grh.sgid_index);
    if context.adapter.gid(source).is_none() {
        return Err(Errno::INVALID.because("the GID that the datagram was for is gone"));
    }
    Ok(reply)
}

/// `ibv_init_ah_from_wc`: 0, or -1 and errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    attr: *mut ibv_ah_attr,
) -> c_int {
    minus_one("ibv_init_ah_from_wc", || {
        // SAFETY: contract of `ibv_init_ah_from_wc`: the program's objects are null or live objects
        // of this library, and its structs null or valid; null is refused.
        unsafe {
            let result = from_completion(context, port, wc, grh)?;
            *attr.as_mut().ok_or_else(|| Errno::null("attr"))? = result;
        }
        Ok(0)
    })
}

/// `ibv_create_ah_from_wc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    let attr = pointer("ibv_create_ah_from_wc", || {
        // SAFETY: contract of `ibv_create_ah_from_wc`: the program's objects are null or live
        // objects of this library, and its structs null or valid; null is refused.
        unsafe {
            Handle::<ibv_pd, Domain>::look_up(pd)?;
            let attr = from_completion((*pd).context, port, wc, grh)?;
            Ok(Box::into_raw(Box::new(attr)))
        }
    });
    if attr.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: `attr` came from `Box::into_raw` above and was not freed.
    let mut attr = unsafe { Box::from_raw(attr) };
    // SAFETY: contract of `ibv_create_ah_from_wc`: `pd` is null or a live domain of this library.
    unsafe { ibv_create_ah(pd, &raw mut *attr) }
}

/// `ibv_resolve_eth_l2_from_gid`: MAC address and VLAN of the next hop; 0, or -1 and errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(
    context: *mut ibv_context,
    attr: *mut ibv_ah_attr,
    mac: *mut u8,
    vlan: *mut u16,
) -> c_int {
    minus_one("ibv_resolve_eth_l2_from_gid", || {
        // SAFETY: contract of `ibv_resolve_eth_l2_from_gid`: the context is null or an open context
        // of this library, and the pointers are null or valid, the address for six bytes; null is
        // refused.
        let (context, attr, mac, vlan) = unsafe {
            (
                Context::borrow(context)?,
                attr.as_ref(),
                mac.cast::<[u8; 6]>().as_mut(),
                vlan.as_mut(),
            )
        };
        context.adapter.check()?;
        let gid = attr.ok_or_else(|| Errno::null("attr"))?.grh.dgid.raw;
        let found = context
            .adapter
            .resolve_mac(gid)
            .ok_or_else(|| Errno::unreachable(gid))?;
        *mac.ok_or_else(|| Errno::null("mac"))? = found;
        if let Some(vlan) = vlan {
            *vlan = NO_VLAN;
        }
        Ok(0)
    })
}

//! Memory windows.

use ferroce_driver::{Destination, MemoryWindow, SendData, WindowType};
use libc::c_int;

use super::super::boundary::{pointer, status};
use super::super::handle::Handle;
use super::super::objects::{Mw, Qp};
use super::super::request::binding;
use crate::abi::*;
use crate::builder::request;
use crate::domain::Domain;
use crate::errno::Errno;

/// `ibv_alloc_mw`.
pub(super) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: c_int) -> *mut ibv_mw {
    pointer("ibv_alloc_mw", || {
        // SAFETY: contract of `ibv_alloc_mw`: the program passes null or a live PD of this library;
        // `look_up` refuses null.
        let domain = unsafe { Handle::<ibv_pd, Domain>::look_up(pd)? };
        domain.adapter.check()?;
        let window_type = match kind {
            IBV_MW_TYPE_1 => WindowType::One,
            IBV_MW_TYPE_2 => WindowType::Two,
            _ => {
                let right = "IBV_MW_TYPE_1 or IBV_MW_TYPE_2";
                return Err(Errno::wrong("type", kind, right));
            }
        };
        let window = MemoryWindow::alloc(&domain.protection, window_type)?;
        domain.adapter.keys.add_window(&window);
        let public = ibv_mw {
            // SAFETY: `look_up` has accepted the PD, which is alive during the call (contract of
            // `ibv_alloc_mw`).
            context: unsafe { (*pd).context },
            pd,
            rkey: window.rkey().0,
            handle: super::next_handle(),
            r#type: kind,
        };
        let body = Mw {
            adapter: domain.adapter.clone(),
            window,
            kind,
            _lease: domain.lease(),
        };
        Ok(Handle::give(public, body).cast())
    })
}

/// `ibv_dealloc_mw`, bound or not.
pub(super) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    status("ibv_dealloc_mw", || {
        // SAFETY: contract of `ibv_dealloc_mw`: the program passes null or a window of this
        // library, and does not use it any more if this succeeds; `claim` refuses one that is not
        // live.
        unsafe {
            let claim = Handle::<ibv_mw, Mw>::claim(mw)?;
            claim.adapter.check()?;
            claim.adapter.keys.forget_window(&claim.window);
            claim.window.dealloc()?;
            claim.free();
        }
        Ok(())
    })
}

/// Returns the key of a window after its next bind: the same index with the next variant.
fn next_key(r_key: u32) -> u32 {
    r_key & !0xff | r_key.wrapping_add(1) & 0xff
}

/// Why `ibv_bind_mw` refuses a window.
const OTHER_TYPE: &str = "the window is of type 2, which IBV_WR_BIND_MW binds";

/// `ibv_bind_mw`: windows of type 1, which get a new key.
pub(super) unsafe extern "C" fn bind_mw(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind: *mut ibv_mw_bind,
) -> c_int {
    status("ibv_bind_mw", || {
        // SAFETY: contract of `ibv_bind_mw`: the program's objects are null or live objects of this
        // library, and its struct null or valid; null is refused.
        let (body, window, bind) = unsafe {
            (
                Handle::<ibv_qp_ex, Qp>::borrow(qp)?,
                Handle::<ibv_mw, Mw>::borrow(mw)?,
                bind.as_ref().ok_or_else(|| Errno::null("bind"))?,
            )
        };
        body.adapter.check()?;
        if window.kind != IBV_MW_TYPE_1 {
            return Err(Errno::INVALID.because(OTHER_TYPE));
        }
        // SAFETY: `borrow` has accepted the window, which is alive during the call (contract of
        // `ibv_bind_mw`).
        let r_key = next_key(unsafe { (*mw).rkey });
        // SAFETY: contract of `ibv_bind_mw`: window and region are null or live objects of this
        // library.
        let operation = unsafe { binding(mw, r_key, &bind.bind_info)? };
        let no_data = SendData::ScatterGather(&[]);
        let unused_destination = Destination::Connected;
        let mut batch = body.send_queue()?.lock();
        batch
            .post(&request(
                bind.wr_id,
                bind.send_flags,
                operation,
                unused_destination,
                no_data,
            ))
            .map_err(|error| Errno::post(error, Some("IBV_WR_BIND_MW"), 0))?;
        // SAFETY: `borrow` has accepted the window, and a program that binds it from two threads
        // must serialise the calls (contract of `ibv_bind_mw`).
        unsafe { (*mw).rkey = r_key };
        Ok(())
    })
}

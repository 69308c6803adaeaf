//! XRC domains.

use libc::c_int;

use super::super::boundary::{pointer, status};
use super::super::handle::Handle;
use super::super::objects::Context;
use crate::abi::*;
use crate::errno::Errno;
use crate::xrc::Xrcd;

/// `ibv_open_xrcd`.
pub(super) unsafe extern "C" fn open_xrcd(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    pointer("ibv_open_xrcd", || {
        // SAFETY: contract of `ibv_open_xrcd`: the context is null or an open context of this
        // library, and the struct null or valid; null is refused.
        let (body, attr) = unsafe { (Context::borrow(context)?, attr.as_ref()) };
        let xrcd = Xrcd::open(&body.adapter, attr.ok_or_else(|| Errno::null("attr"))?)?;
        Ok(Handle::give(ibv_xrcd { context }, xrcd).cast())
    })
}

/// `ibv_close_xrcd`.
pub(super) unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    status("ibv_close_xrcd", || {
        // SAFETY: contract of `ibv_close_xrcd`: the program passes null or a domain of this
        // library, and does not use it any more if this succeeds; `claim` refuses one that is not
        // live.
        unsafe {
            let claim = Handle::<ibv_xrcd, Xrcd>::claim(xrcd)?;
            claim.close()?;
            claim.free();
        }
        Ok(())
    })
}

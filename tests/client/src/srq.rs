//! Shared receive queues and XRC domains.

use std::ffi::c_int;
use std::ptr::null_mut;

use crate::context::Context;
use crate::cq::Cq;
use crate::memory::{Pd, extended};
use crate::object::{Object, Outcome, check, check_pointer, handle, operation};
use crate::sys::*;

handle! {
    /// A shared receive queue.
    Srq, ibv_srq
}
handle! {
    /// An XRC domain.
    Xrcd, ibv_xrcd
}

unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    // SAFETY: the inline function of the header does just this.
    unsafe { operation!(extended((*xrcd).context), close_xrcd)(xrcd) }
}

impl Context {
    /// Calls `ibv_open_xrcd`.
    pub fn open_xrcd(&self, fd: c_int, oflags: c_int) -> Outcome<Xrcd> {
        let mut attr = ibv_xrcd_init_attr {
            comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
            fd,
            oflags,
        };
        // SAFETY: the context is open.
        let raw = check_pointer(unsafe {
            operation!(self.extended(), open_xrcd)(self.raw(), &mut attr)
        })?;
        Ok(Xrcd(Object::new(raw, close_xrcd, vec![self.parent()])))
    }

    /// Returns an XRC domain of this context alone.
    pub fn private_xrcd(&self) -> Outcome<Xrcd> {
        self.open_xrcd(-1, libc::O_CREAT)
    }

    /// Calls `ibv_create_srq_ex` of type XRC.
    pub fn create_xrc_srq(&self, pd: &Pd, xrcd: &Xrcd, cq: &Cq, max_wr: u32) -> Outcome<Srq> {
        let mut attr = ibv_srq_init_attr_ex {
            attr: srq_attr(max_wr, 2),
            comp_mask: IBV_SRQ_INIT_ATTR_TYPE
                | IBV_SRQ_INIT_ATTR_PD
                | IBV_SRQ_INIT_ATTR_XRCD
                | IBV_SRQ_INIT_ATTR_CQ,
            srq_type: IBV_SRQT_XRC,
            pd: pd.raw(),
            xrcd: xrcd.raw(),
            cq: cq.raw(),
            ..Default::default()
        };
        // SAFETY: the attributes name living objects.
        let raw = check_pointer(unsafe {
            operation!(self.extended(), create_srq_ex)(self.raw(), &mut attr)
        })?;
        let parents = vec![pd.parent(), xrcd.parent(), cq.parent()];
        Ok(Srq(Object::new(raw, ibv_destroy_srq, parents)))
    }
}

fn srq_attr(max_wr: u32, max_sge: u32) -> ibv_srq_attr {
    ibv_srq_attr {
        max_wr,
        max_sge,
        srq_limit: 0,
    }
}

impl Pd {
    /// Calls `ibv_create_srq`: also returns the granted sizes.
    pub fn create_srq(&self, max_wr: u32, max_sge: u32) -> Outcome<(Srq, ibv_srq_attr)> {
        let mut init = ibv_srq_init_attr {
            srq_context: null_mut(),
            attr: srq_attr(max_wr, max_sge),
        };
        // SAFETY: the PD is alive.
        let raw = check_pointer(unsafe { ibv_create_srq(self.raw(), &mut init) })?;
        let srq = Srq(Object::new(raw, ibv_destroy_srq, vec![self.parent()]));
        Ok((srq, init.attr))
    }
}

impl Srq {
    /// Calls `ibv_modify_srq`.
    pub fn modify(&self, max_wr: u32, limit: u32, mask: u32) -> Outcome<()> {
        let mut attr = ibv_srq_attr {
            max_wr,
            max_sge: 0,
            srq_limit: limit,
        };
        // SAFETY: alive.
        check(unsafe { ibv_modify_srq(self.raw(), &mut attr, mask as c_int) })
    }

    /// Calls `ibv_query_srq`.
    pub fn query(&self) -> Outcome<ibv_srq_attr> {
        let mut attr = ibv_srq_attr::default();
        // SAFETY: alive.
        check(unsafe { ibv_query_srq(self.raw(), &mut attr) })?;
        Ok(attr)
    }

    /// Calls `ibv_get_srq_num`.
    pub fn number(&self) -> Outcome<u32> {
        let mut number = 0;
        // SAFETY: alive.
        check(unsafe {
            let table = extended((*self.raw()).context);
            operation!(table, get_srq_num)(self.raw(), &mut number)
        })?;
        Ok(number)
    }
}

//! Work requests, and posting lists of them by the old and the new send API.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::address::Ah;
use crate::memory::{Mr, Mw};
use crate::object::{Errno, Outcome, check, operation};
use crate::qp::Qp;
use crate::srq::Srq;
use crate::sys::*;

/// A send work request.
#[derive(Clone)]
pub struct SendWr {
    /// Returned in the completion.
    pub id: u64,
    /// The opcode.
    pub opcode: ibv_wr_opcode,
    /// `IBV_SEND_*`; signaled at first.
    pub flags: u32,
    /// Local memory.
    pub sges: Vec<ibv_sge>,
    /// Immediate data in network byte order, or the key to invalidate.
    pub immediate: u32,
    /// Remote memory.
    pub remote: (u64, u32),
    /// Compare or add, and swap.
    pub operands: (u64, u64),
    /// Address handle, QP number and Q_Key of a datagram.
    pub datagram: Option<(Ah, u32, u32)>,
    /// SRQ number of XRC.
    pub srqn: u32,
    /// Window, its new key, and the memory that is bound to it.
    pub bind: Option<(Mw, u32, Bind)>,
}

/// The memory to which a window is bound.
#[derive(Clone)]
pub struct Bind {
    /// Region; none unbinds.
    pub mr: Option<Mr>,
    /// First address.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Rights of the window.
    pub access: u32,
}

impl Bind {
    fn raw(&self) -> ibv_mw_bind_info {
        ibv_mw_bind_info {
            mr: self.mr.as_ref().map_or(null_mut(), Mr::raw),
            addr: self.address,
            length: self.length,
            mw_access_flags: self.access,
        }
    }
}

impl SendWr {
    /// Returns a signaled request without data.
    pub fn new(id: u64, opcode: ibv_wr_opcode) -> Self {
        Self {
            id,
            opcode,
            flags: IBV_SEND_SIGNALED,
            sges: Vec::new(),
            immediate: 0,
            remote: (0, 0),
            operands: (0, 0),
            datagram: None,
            srqn: 0,
            bind: None,
        }
    }

    /// With one more data segment.
    pub fn sge(mut self, sge: ibv_sge) -> Self {
        self.sges.push(sge);
        self
    }

    /// With these flags instead.
    pub fn flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    /// At this remote address.
    pub fn remote(mut self, address: u64, rkey: u32) -> Self {
        self.remote = (address, rkey);
        self
    }

    /// With immediate data, or the key to invalidate.
    pub fn immediate(mut self, value: u32) -> Self {
        self.immediate = value;
        self
    }

    /// Operands of an atomic operation.
    pub fn operands(mut self, compare_add: u64, swap: u64) -> Self {
        self.operands = (compare_add, swap);
        self
    }

    /// To this QP.
    pub fn datagram(mut self, ah: &Ah, qpn: u32, q_key: u32) -> Self {
        self.datagram = Some((ah.clone(), qpn, q_key));
        self
    }

    /// Binds a window.
    pub fn bind(mut self, window: &Mw, rkey: u32, bind: Bind) -> Self {
        self.bind = Some((window.clone(), rkey, bind));
        self
    }

    fn raw(&mut self) -> ibv_send_wr {
        let mut wr = ibv_send_wr {
            wr_id: self.id,
            sg_list: self.sges.as_mut_ptr(),
            num_sge: self.sges.len() as c_int,
            opcode: self.opcode,
            send_flags: self.flags,
            ..Default::default()
        };
        wr.__bindgen_anon_1.imm_data = self.immediate;
        wr.qp_type.xrc.remote_srqn = self.srqn;
        let is_atomic =
            [IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD].contains(&self.opcode);
        if let Some((ah, qpn, q_key)) = &self.datagram {
            wr.wr.ud.ah = ah.raw();
            wr.wr.ud.remote_qpn = *qpn;
            wr.wr.ud.remote_qkey = *q_key;
        } else if is_atomic {
            wr.wr.atomic.remote_addr = self.remote.0;
            wr.wr.atomic.rkey = self.remote.1;
            wr.wr.atomic.compare_add = self.operands.0;
            wr.wr.atomic.swap = self.operands.1;
        } else {
            wr.wr.rdma.remote_addr = self.remote.0;
            wr.wr.rdma.rkey = self.remote.1;
        }
        if let Some((window, rkey, bind)) = &self.bind {
            wr.__bindgen_anon_2.bind_mw.mw = window.raw();
            wr.__bindgen_anon_2.bind_mw.rkey = *rkey;
            wr.__bindgen_anon_2.bind_mw.bind_info = bind.raw();
        }
        wr
    }

    /// # Safety
    /// Between `wr_start` and `wr_complete` of this QP.
    unsafe fn build(&self, qp: *mut ibv_qp_ex) {
        let (address, rkey) = self.remote;
        let (first, second) = self.operands;
        // SAFETY: the caller's promise; the data outlives the batch.
        unsafe {
            (*qp).wr_id = self.id;
            (*qp).wr_flags = self.flags & !IBV_SEND_INLINE;
            match self.opcode {
                IBV_WR_SEND => operation!(qp, wr_send)(qp),
                IBV_WR_SEND_WITH_IMM => operation!(qp, wr_send_imm)(qp, self.immediate),
                IBV_WR_SEND_WITH_INV => operation!(qp, wr_send_inv)(qp, self.immediate),
                IBV_WR_RDMA_WRITE => operation!(qp, wr_rdma_write)(qp, rkey, address),
                IBV_WR_RDMA_WRITE_WITH_IMM => {
                    operation!(qp, wr_rdma_write_imm)(qp, rkey, address, self.immediate);
                }
                IBV_WR_RDMA_READ => operation!(qp, wr_rdma_read)(qp, rkey, address),
                IBV_WR_ATOMIC_CMP_AND_SWP => {
                    operation!(qp, wr_atomic_cmp_swp)(qp, rkey, address, first, second);
                }
                IBV_WR_ATOMIC_FETCH_AND_ADD => {
                    operation!(qp, wr_atomic_fetch_add)(qp, rkey, address, first);
                }
                IBV_WR_LOCAL_INV => operation!(qp, wr_local_inv)(qp, self.immediate),
                IBV_WR_BIND_MW => {
                    let (window, rkey, bind) = self.bind.as_ref().expect("what to bind");
                    operation!(qp, wr_bind_mw)(qp, window.raw(), *rkey, &bind.raw());
                }
                other => panic!("no builder for opcode {other}"),
            }
            self.set_address(qp);
            self.set_data(qp);
        }
    }

    /// # Safety
    /// As of `build`.
    unsafe fn set_address(&self, qp: *mut ibv_qp_ex) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some((ah, qpn, q_key)) = &self.datagram {
                operation!(qp, wr_set_ud_addr)(qp, ah.raw(), *qpn, *q_key);
            }
            if (*qp).qp_base.qp_type == IBV_QPT_XRC_SEND {
                operation!(qp, wr_set_xrc_srqn)(qp, self.srqn);
            }
        }
    }

    /// # Safety
    /// As of `build`.
    unsafe fn set_data(&self, qp: *mut ibv_qp_ex) {
        let inline = self.flags & IBV_SEND_INLINE != 0;
        let pieces: Vec<_> = self
            .sges
            .iter()
            .map(|sge| ibv_data_buf {
                addr: sge.addr as *mut c_void,
                length: sge.length as usize,
            })
            .collect();
        // SAFETY: the caller's promise.
        unsafe {
            match (inline, &self.sges[..], &pieces[..]) {
                (_, [], _) => {}
                (false, [sge], _) => {
                    operation!(qp, wr_set_sge)(qp, sge.lkey, sge.addr, sge.length);
                }
                (false, sges, _) => operation!(qp, wr_set_sge_list)(qp, sges.len(), sges.as_ptr()),
                (true, _, [one]) => operation!(qp, wr_set_inline_data)(qp, one.addr, one.length),
                (true, _, all) => {
                    operation!(qp, wr_set_inline_data_list)(qp, all.len(), all.as_ptr());
                }
            }
        }
    }
}

/// A receive work request.
#[derive(Clone, Default)]
pub struct ReceiveWr {
    /// Returned in the completion.
    pub id: u64,
    /// Target of the message.
    pub sges: Vec<ibv_sge>,
}

impl ReceiveWr {
    /// Returns a receive of this memory; none if the length is 0.
    pub fn new(id: u64, sge: ibv_sge) -> Self {
        let sges = if sge.length == 0 { vec![] } else { vec![sge] };
        Self { id, sges }
    }
}

/// The request of a list that was refused, and the reason.
pub type Refused = (Errno, usize);

/// Links the requests to a list of C; its pointers live as long as `wrs` and the result.
fn chain_receives(wrs: &mut [ReceiveWr]) -> Vec<ibv_recv_wr> {
    let mut raw: Vec<_> = wrs
        .iter_mut()
        .map(|wr| ibv_recv_wr {
            wr_id: wr.id,
            next: null_mut(),
            sg_list: wr.sges.as_mut_ptr(),
            num_sge: wr.sges.len() as c_int,
        })
        .collect();
    for index in 1..raw.len() {
        raw[index - 1].next = &raw mut raw[index];
    }
    raw
}

/// `bad_wr` as an index.
fn refused<T>(result: c_int, bad: *mut T, raw: &[T]) -> Result<(), Refused> {
    check(result).map_err(|code| {
        let index = raw.iter().position(|wr| std::ptr::eq(wr, bad));
        (code, index.expect("bad_wr names one of the requests"))
    })
}

impl Qp {
    /// `ibv_post_send` of a list.
    pub fn post_sends(&self, wrs: &[SendWr]) -> Result<(), Refused> {
        let mut wrs = wrs.to_vec();
        let mut raw: Vec<_> = wrs.iter_mut().map(SendWr::raw).collect();
        for index in 1..raw.len() {
            raw[index - 1].next = &raw mut raw[index];
        }
        let mut bad = null_mut();
        // SAFETY: the list is well formed; the device checks keys and addresses.
        let result = unsafe {
            let ops = &raw const (*(*self.raw()).context).ops;
            operation!(ops, post_send)(self.raw(), raw.as_mut_ptr(), &mut bad)
        };
        refused(result, bad, &raw)
    }

    /// `ibv_post_send` of one.
    pub fn post_send(&self, wr: &SendWr) -> Outcome<()> {
        self.post_sends(std::slice::from_ref(wr))
            .map_err(|(code, _)| code)
    }

    /// Posts the same list through `ibv_wr_start` … `ibv_wr_complete`.
    pub fn post_built(&self, wrs: &[SendWr]) -> Outcome<()> {
        // SAFETY: the QP was created with the new send API.
        unsafe {
            let qp = self.extended();
            operation!(qp, wr_start)(qp);
            for wr in wrs {
                wr.build(qp);
            }
            check(operation!(qp, wr_complete)(qp))
        }
    }

    /// The list through `ibv_wr_start` … `ibv_wr_abort`.
    pub fn build_and_abort(&self, wrs: &[SendWr]) {
        // SAFETY: the QP was created with the new send API.
        unsafe {
            let qp = self.extended();
            operation!(qp, wr_start)(qp);
            for wr in wrs {
                wr.build(qp);
            }
            operation!(qp, wr_abort)(qp);
        }
    }

    fn extended(&self) -> *mut ibv_qp_ex {
        // SAFETY: the QP is alive.
        let qp = unsafe { ibv_qp_to_qp_ex(self.raw()) };
        assert!(!qp.is_null(), "created without the new send API");
        qp
    }

    /// `ibv_post_recv` of a list.
    pub fn post_receives(&self, wrs: &[ReceiveWr]) -> Result<(), Refused> {
        let mut wrs = wrs.to_vec();
        let mut raw = chain_receives(&mut wrs);
        let mut bad = null_mut();
        // SAFETY: as of `post_sends`.
        let result = unsafe {
            let ops = &raw const (*(*self.raw()).context).ops;
            operation!(ops, post_recv)(self.raw(), raw.as_mut_ptr(), &mut bad)
        };
        refused(result, bad, &raw)
    }

    /// `ibv_post_recv` of one.
    pub fn post_receive(&self, wr: &ReceiveWr) -> Outcome<()> {
        self.post_receives(std::slice::from_ref(wr))
            .map_err(|(code, _)| code)
    }

    /// Calls `ibv_bind_mw`, with the checks of the header's inline function.
    pub fn bind_mw(&self, window: &Mw, id: u64, flags: u32, bind: &Bind) -> Outcome<()> {
        let mut raw = ibv_mw_bind {
            wr_id: id,
            send_flags: flags,
            bind_info: bind.raw(),
        };
        // SAFETY: all objects are alive.
        check(unsafe {
            let mw = window.raw();
            let info = raw.bind_info;
            if (*mw).type_ != IBV_MW_TYPE_1
                || (info.mr.is_null() && (info.addr != 0 || info.length != 0))
            {
                libc::EINVAL
            } else if !info.mr.is_null() && (*mw).pd != (*info.mr).pd {
                libc::EPERM
            } else {
                operation!(&raw const (*(*mw).context).ops, bind_mw)(self.raw(), mw, &mut raw)
            }
        })
    }
}

impl Srq {
    /// `ibv_post_srq_recv` of a list.
    pub fn post_receives(&self, wrs: &[ReceiveWr]) -> Result<(), Refused> {
        let mut wrs = wrs.to_vec();
        let mut raw = chain_receives(&mut wrs);
        let mut bad = null_mut();
        // SAFETY: as of `Qp::post_sends`.
        let result = unsafe {
            let ops = &raw const (*(*self.raw()).context).ops;
            operation!(ops, post_srq_recv)(self.raw(), raw.as_mut_ptr(), &mut bad)
        };
        refused(result, bad, &raw)
    }

    /// `ibv_post_srq_recv` of one.
    pub fn post_receive(&self, wr: &ReceiveWr) -> Outcome<()> {
        self.post_receives(std::slice::from_ref(wr))
            .map_err(|(code, _)| code)
    }
}

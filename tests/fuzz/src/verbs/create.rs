//! Verbs that create objects.

use std::mem::zeroed;
use std::ptr::null_mut;

use ferroce_provider::abi::*;
use libc::c_int;

use super::ffi::*;
use super::objects::call;
use super::{Session, is_on_demand, table};
use crate::input::Input;

/// Types of queue pairs: existing ones, and others.
const TYPES: [c_int; 12] = [
    IBV_QPT_RC,
    IBV_QPT_RC,
    IBV_QPT_RC,
    IBV_QPT_UC,
    IBV_QPT_UD,
    IBV_QPT_UD,
    IBV_QPT_XRC_SEND,
    IBV_QPT_XRC_RECV,
    IBV_QPT_RAW_PACKET,
    IBV_QPT_DRIVER,
    0,
    -1,
];

/// All operations that a queue pair can have.
pub(super) const ALL_OPERATIONS: u64 = 0x3ff | IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE;

/// Returns a mask that contains `usual`, or any mask.
fn mask(input: &mut Input<'_>, usual: u64) -> u64 {
    match input.u8() {
        0..=0xc0 => usual,
        0xc1..=0xe0 => usual ^ 1 << input.below(32),
        _ => input.number(),
    }
}

/// Returns a size: small most of the time, so that it is available.
fn size(input: &mut Input<'_>) -> u32 {
    match input.u8() {
        0xe0.. => input.number() as u32,
        small => u32::from(small % 32),
    }
}

/// Returns the capabilities of a queue pair.
fn capabilities(input: &mut Input<'_>) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: size(input),
        max_recv_wr: size(input),
        max_send_sge: size(input) % 40,
        max_recv_sge: size(input) % 40,
        max_inline_data: size(input).wrapping_mul(8),
    }
}

impl Session {
    /// Creates an object of the kind that the input names, if there are not too many.
    pub(super) fn create(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0..=3 => self.create_qp(input),
            4 => self.create_cq(input),
            5 => self.create_cq_extended(input),
            6 | 7 => self.register(input),
            8 => self.register_extended(input),
            9 => self.create_srq(input),
            10 => self.create_srq_extended(input),
            11 => self.create_window(input),
            12 => self.create_address(input),
            13 => self.create_domain(input),
            14 => self.open_xrc_domain(input),
            _ => self.allocate_device_memory(input),
        }
    }

    fn create_qp(&mut self, input: &mut Input<'_>) {
        if !self.objects.qps.has_room() {
            return;
        }
        // SAFETY: zeros are a valid attribute; all objects are null or alive.
        unsafe {
            let mut attr: ibv_qp_init_attr_ex = zeroed();
            attr.qp_type = input.choose(&TYPES);
            attr.cap = capabilities(input);
            attr.sq_sig_all = c_int::from(input.u8());
            attr.pd = self.objects.pds.pick(input);
            (attr.send_cq, attr.recv_cq) =
                (self.objects.cqs.pick(input), self.objects.cqs.pick(input));
            if input.flag() {
                attr.srq = self.objects.srqs.pick(input);
            }
            let is_xrc = attr.qp_type == IBV_QPT_XRC_RECV;
            attr.xrcd = self.objects.xrcds.pick(input);
            let usual = if is_xrc {
                IBV_QP_INIT_ATTR_XRCD
            } else {
                IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
            };
            attr.comp_mask = mask(input, u64::from(usual)) as u32;
            attr.send_ops_flags = mask(input, ALL_OPERATIONS);
            attr.create_flags = input.number() as u32;
            let table = table(self.program.context);
            let qp = call!(table.create_qp_ex)(self.program.context, &mut attr);
            self.objects.qps.keep(qp);
        }
    }

    fn create_cq(&mut self, input: &mut Input<'_>) {
        if !self.objects.cqs.has_room() {
            return;
        }
        let (entries, vector) = (size(input) as c_int, c_int::from(input.below(4)) - 1);
        let channel = self.channel(input);
        // SAFETY: the context is open, the channel null or alive.
        let cq =
            unsafe { ibv_create_cq(self.program.context, entries, null_mut(), channel, vector) };
        self.objects.cqs.keep(cq);
    }

    /// Returns a completion channel; creates one if there is none.
    fn channel(&mut self, input: &mut Input<'_>) -> *mut ibv_comp_channel {
        if input.flag() && self.objects.channels.has_room() {
            // SAFETY: the context is open.
            let channel = unsafe { ibv_create_comp_channel(self.program.context) };
            self.objects.channels.keep(channel);
        }
        self.objects.channels.pick(input)
    }

    fn create_cq_extended(&mut self, input: &mut Input<'_>) {
        if !self.objects.cqs.has_room() {
            return;
        }
        let mut attr = ibv_cq_init_attr_ex {
            cqe: size(input),
            cq_context: null_mut(),
            channel: self.channel(input),
            comp_vector: u32::from(input.below(3)),
            wc_flags: mask(input, IBV_CREATE_CQ_SUP_WC_FLAGS),
            comp_mask: mask(input, u64::from(IBV_CQ_INIT_ATTR_MASK_FLAGS)) as u32,
            flags: input.below(4).into(),
            parent_domain: self.objects.parents.pick(input),
        };
        let table = table(self.program.context);
        // SAFETY: all objects are null or alive.
        let cq = unsafe { call!(table.create_cq_ex)(self.program.context, &mut attr) };
        self.objects.cqs.keep(cq.cast());
    }

    fn register(&mut self, input: &mut Input<'_>) {
        if !self.objects.mrs.has_room() {
            return;
        }
        let (address, length) = self.program.range(input);
        let iova = if input.flag() {
            address.addr() as u64
        } else {
            input.number()
        };
        let access = mask(input, 0x11f);
        let length = self.program.length(address, length, is_on_demand(access));
        let access = access as u32;
        let pd = self.objects.pds.pick(input);
        // SAFETY: the memory exists, or the length extends into inaccessible memory.
        let mr = unsafe { ibv_reg_mr_iova2(pd, address, length, iova, access) };
        self.objects.mrs.keep(mr);
    }

    fn register_extended(&mut self, input: &mut Input<'_>) {
        if !self.objects.mrs.has_room() {
            return;
        }
        let (pd, table) = (self.objects.pds.pick(input), table(self.program.context));
        let (address, length) = self.program.range(input);
        let access = mask(input, 0xf);
        let length = self.program.length(address, length, is_on_demand(access));
        // SAFETY: as in `register`; zeros are a valid attribute.
        let mr = unsafe {
            match input.below(3) {
                0 => {
                    let mut attr: ibv_mr_init_attr = zeroed();
                    (attr.addr, attr.length) = (address, length);
                    (attr.access, attr.iova) = (access as c_int, input.number());
                    (attr.fd, attr.fd_offset) = (-1, input.number());
                    attr.comp_mask = mask(input, IBV_REG_MR_MASK_ADDR);
                    ibv_reg_mr_ex(pd, &mut attr)
                }
                1 => call!(table.alloc_null_mr)(pd),
                _ => {
                    let dm = self.objects.dms.pick(input);
                    call!(table.reg_dm_mr)(pd, dm, input.number(), length, access as u32)
                }
            }
        };
        self.objects.mrs.keep(mr);
    }

    fn create_srq(&mut self, input: &mut Input<'_>) {
        if !self.objects.srqs.has_room() {
            return;
        }
        let mut attr = ibv_srq_init_attr {
            srq_context: null_mut(),
            attr: srq_attributes(input),
        };
        // SAFETY: the PD is null or alive.
        let srq = unsafe { ibv_create_srq(self.objects.pds.pick(input), &mut attr) };
        self.objects.srqs.keep(srq);
    }

    fn create_srq_extended(&mut self, input: &mut Input<'_>) {
        if !self.objects.srqs.has_room() {
            return;
        }
        let mut attr = ibv_srq_init_attr_ex {
            srq_context: null_mut(),
            attr: srq_attributes(input),
            comp_mask: mask(input, 0xf) as u32,
            srq_type: c_int::from(input.below(4)),
            pd: self.objects.pds.pick(input),
            xrcd: self.objects.xrcds.pick(input),
            cq: self.objects.cqs.pick(input),
            tm_cap: ibv_tm_cap {
                max_num_tags: 1,
                max_ops: 1,
            },
        };
        let table = table(self.program.context);
        // SAFETY: all objects are null or alive.
        let srq = unsafe { call!(table.create_srq_ex)(self.program.context, &mut attr) };
        self.objects.srqs.keep(srq);
    }

    fn create_window(&mut self, input: &mut Input<'_>) {
        if !self.objects.mws.has_room() {
            return;
        }
        let (pd, kind) = (self.objects.pds.pick(input), c_int::from(input.below(4)));
        let table = table(self.program.context);
        // SAFETY: the PD is null or alive.
        let mw = unsafe { call!(table.context.ops.alloc_mw)(pd, kind) };
        self.objects.mws.keep(mw);
    }

    fn create_address(&mut self, input: &mut Input<'_>) {
        if !self.objects.ahs.has_room() {
            return;
        }
        let mut attr = self.address(input);
        // SAFETY: the PD is null or alive.
        let ah = unsafe { ibv_create_ah(self.objects.pds.pick(input), &mut attr) };
        self.objects.ahs.keep(ah);
    }

    /// Returns an address: this device's own, or any.
    pub(super) fn address(&self, input: &mut Input<'_>) -> ibv_ah_attr {
        let index = input.below(8);
        let mut gid = ibv_gid::default();
        // SAFETY: the context is open; zeros are a valid attribute.
        let mut attr: ibv_ah_attr = unsafe {
            ibv_query_gid(self.program.context, 1, index.into(), &mut gid);
            zeroed()
        };
        if input.u8() > 0xe0 {
            let bytes = input.bytes(gid.raw.len());
            gid.raw[..bytes.len()].copy_from_slice(bytes);
        }
        attr.grh.dgid = gid;
        attr.grh.sgid_index = input.choose(&[0, 0, 0, 1, 2, 0xff]);
        attr.grh.hop_limit = input.u8();
        attr.grh.flow_label = input.number() as u32;
        attr.grh.traffic_class = input.u8();
        attr.is_global = input.choose(&[1, 1, 1, 0, 0xff]);
        attr.port_num = input.choose(&[1, 1, 1, 1, 0, 2]);
        attr.static_rate = input.u8();
        attr.sl = input.u8();
        attr
    }

    fn create_domain(&mut self, input: &mut Input<'_>) {
        let (context, table) = (self.program.context, table(self.program.context));
        let mask = mask(input, 0) as u32;
        // SAFETY: all objects are null or alive; without allocators none are called.
        unsafe {
            match input.below(3) {
                0 if self.objects.pds.has_room() => self.objects.pds.keep(ibv_alloc_pd(context)),
                1 if self.objects.tds.has_room() => {
                    let mut attr = ibv_td_init_attr { comp_mask: mask };
                    self.objects
                        .tds
                        .keep(call!(table.alloc_td)(context, &mut attr));
                }
                2 if self.objects.parents.has_room() => {
                    let mut attr: ibv_parent_domain_init_attr = zeroed();
                    attr.pd = self.objects.pds.pick(input);
                    attr.td = self.objects.tds.pick(input);
                    attr.comp_mask = mask;
                    let parent = call!(table.alloc_parent_domain)(context, &mut attr);
                    self.objects.parents.keep(parent);
                }
                _ => {}
            }
        }
    }

    fn open_xrc_domain(&mut self, input: &mut Input<'_>) {
        if !self.objects.xrcds.has_room() {
            return;
        }
        let mut attr = ibv_xrcd_init_attr {
            comp_mask: mask(input, 3) as u32,
            fd: -1,
            oflags: match input.u8() {
                0xe0.. => input.number() as c_int,
                _ => libc::O_CREAT,
            },
        };
        let table = table(self.program.context);
        // SAFETY: the context is open.
        let xrcd = unsafe { call!(table.open_xrcd)(self.program.context, &mut attr) };
        self.objects.xrcds.keep(xrcd);
    }

    fn allocate_device_memory(&mut self, input: &mut Input<'_>) {
        if !self.objects.dms.has_room() {
            return;
        }
        let mut attr = ibv_alloc_dm_attr {
            length: input.number() as usize,
            log_align_req: input.number() as u32,
            comp_mask: mask(input, 0) as u32,
        };
        let table = table(self.program.context);
        // SAFETY: the context is open.
        let dm = unsafe { call!(table.alloc_dm)(self.program.context, &mut attr) };
        self.objects.dms.keep(dm);
    }
}

fn srq_attributes(input: &mut Input<'_>) -> ibv_srq_attr {
    ibv_srq_attr {
        max_wr: size(input),
        max_sge: size(input),
        srq_limit: size(input),
    }
}

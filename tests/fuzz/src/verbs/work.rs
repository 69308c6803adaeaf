//! Verbs that modify, query, post and poll.

use std::mem::zeroed;
use std::ptr::null_mut;

use ferroce_provider::abi::*;
use libc::{c_int, c_void};

use super::ffi::*;
use super::objects::call;
use super::{ARENA, Session, is_on_demand, table};
use crate::input::Input;

/// Maximum number of requests in one list.
const LIST: usize = 6;
/// Scatter/gather elements of each request: more than any queue accepts, so that a count that is
/// refused too late still stays within our memory.
const ELEMENTS: usize = 300;
/// Maximum number of completions that one poll requests.
const COMPLETIONS: usize = 32;

/// Attributes of legal transitions, by the new state.
pub(super) const MASKS: [(c_int, c_int); 7] = [
    (
        IBV_QPS_INIT,
        1 | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
    ),
    (
        IBV_QPS_INIT,
        1 | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
    ),
    (
        IBV_QPS_RTR,
        1 | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER,
    ),
    (IBV_QPS_RTR, 1),
    (
        IBV_QPS_RTS,
        1 | IBV_QP_SQ_PSN
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_MAX_QP_RD_ATOMIC,
    ),
    (IBV_QPS_RTS, 1 | IBV_QP_SQ_PSN),
    (IBV_QPS_ERR, 1),
];

const OPCODES: [c_int; 15] = [
    IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_WR_SEND,
    IBV_WR_SEND_WITH_IMM,
    IBV_WR_RDMA_READ,
    IBV_WR_ATOMIC_CMP_AND_SWP,
    IBV_WR_ATOMIC_FETCH_AND_ADD,
    IBV_WR_LOCAL_INV,
    IBV_WR_BIND_MW,
    IBV_WR_SEND_WITH_INV,
    IBV_WR_TSO,
    IBV_WR_FLUSH,
    IBV_WR_ATOMIC_WRITE,
    -1,
    0x7f,
];

/// Returns a number of elements, mostly a small one.
fn count(input: &mut Input<'_>) -> c_int {
    match input.u8() {
        0xf0.. => input.number() as c_int,
        small => c_int::from(small % 6),
    }
}

impl Session {
    pub(super) fn modify_qp(&mut self, input: &mut Input<'_>) {
        let qp = self.objects.qps.pick(input);
        let peer = self.objects.qps.pick(input);
        let (state, usual) = input.choose(&MASKS);
        // SAFETY: zeros are a valid attribute; the queue pairs are null or alive.
        unsafe {
            let mut attr: ibv_qp_attr = zeroed();
            attr.qp_state = state;
            let mut mask = usual;
            match input.u8() {
                0xf0.. => mask = input.number() as c_int,
                0xe0.. => mask ^= 1 << input.below(31),
                0xd0.. => attr.qp_state = c_int::from(input.below(9)) - 1,
                _ => {}
            }
            attr.cur_qp_state = c_int::from(input.below(8));
            attr.path_mtu = c_int::from(input.choose(&[1u8, 3, 5, 0, 6]));
            attr.qkey = input.number() as u32;
            (attr.rq_psn, attr.sq_psn) = (input.below(2).into(), input.below(2).into());
            attr.dest_qp_num = if peer.is_null() {
                input.number() as u32
            } else {
                (*peer).qp_num
            };
            attr.qp_access_flags = input.choose(&[0x10f, 0xe, 0, 0xff, u32::MAX]);
            attr.ah_attr = self.address(input);
            attr.alt_ah_attr = attr.ah_attr;
            attr.pkey_index = u16::from(input.choose(&[0u8, 0, 0, 1]));
            attr.port_num = input.choose(&[1, 1, 1, 0, 2]);
            attr.max_rd_atomic = input.below(20);
            attr.max_dest_rd_atomic = input.below(20);
            attr.min_rnr_timer = input.below(40);
            // The shortest time-outs, or none at all: nothing waits for long.
            attr.timeout = input.choose(&[1, 1, 1, 0, 32]);
            (attr.retry_cnt, attr.rnr_retry) = (input.below(9), input.below(9));
            ibv_modify_qp(qp, &mut attr, mask);
        }
    }

    /// Returns one element: in a region, or anywhere with any key.
    fn element(&self, input: &mut Input<'_>) -> ibv_sge {
        let mr = self.objects.mrs.pick(input);
        let lkey = match mr.is_null() {
            true => input.number() as u32,
            // SAFETY: the region is alive.
            false => unsafe { (*mr).lkey },
        };
        ibv_sge {
            addr: match input.u8() {
                0xf0.. => input.number(),
                _ => self.program.place(input).addr() as u64,
            },
            length: match input.u8() {
                0xf0.. => input.number() as u32,
                small => u32::from(small) * 8,
            },
            lkey,
        }
    }

    fn elements(&self, input: &mut Input<'_>, is_inline: bool) -> Vec<ibv_sge> {
        let some: Vec<_> = (0..3).map(|_| self.element(input)).collect();
        let mut elements: Vec<_> = some.iter().copied().cycle().take(ELEMENTS).collect();
        if is_inline {
            // The processor reads these: they are mapped, or so long that they must be refused.
            for element in &mut elements {
                element.addr = self.program.place(input).addr() as u64;
                element.length = element.length.min((ARENA / 2) as u32);
            }
        }
        elements
    }

    /// Address and key of a region of this program.
    fn remote(&self, input: &mut Input<'_>) -> (u64, u32) {
        let mr = self.objects.mrs.pick(input);
        let rkey = match mr.is_null() {
            true => input.number() as u32,
            // SAFETY: the region is alive.
            false => unsafe { (*mr).rkey },
        };
        (self.program.place(input).addr() as u64, rkey)
    }

    /// Posts a list of send requests.
    pub(super) fn post_send(&mut self, input: &mut Input<'_>) {
        let qp = self.objects.qps.pick(input);
        // SAFETY: the queue pair is null or alive.
        let is_datagram = unsafe { qp.as_ref().is_some_and(|qp| qp.qp_type == IBV_QPT_UD) };
        let requests = 1 + usize::from(input.below(LIST as u8));
        let mut list = Vec::with_capacity(requests);
        let mut elements = Vec::with_capacity(requests);
        for number in 0..requests {
            let flags = match input.u8() {
                0xf0.. => input.number() as u32,
                small => u32::from(small & 0xf),
            };
            elements.push(self.elements(input, flags & IBV_SEND_INLINE != 0));
            let (wr, bind_mw) = (self.operation(is_datagram, input), self.window(input));
            // SAFETY: zeros are a valid request.
            let mut request: ibv_send_wr = unsafe { zeroed() };
            request.wr_id = number as u64;
            request.sg_list = elements[number].as_mut_ptr();
            request.num_sge = count(input);
            request.opcode = input.choose(&OPCODES);
            request.send_flags = flags;
            request.imm_data = input.u32();
            (request.wr, request.bind_mw) = (wr, bind_mw);
            list.push(request);
        }
        for number in 1..requests {
            let next: *mut _ = &mut list[number];
            list[number - 1].next = next;
        }
        let mut bad = null_mut();
        let table = table(self.program.context);
        // SAFETY: the list ends with null; its elements are there; the queue pair is null or alive.
        let answer = unsafe { call!(table.context.ops.post_send)(qp, list.as_mut_ptr(), &mut bad) };
        let is_of_list = list.as_mut_ptr_range().contains(&bad);
        assert_eq!(answer != 0, is_of_list, "bad_wr of {answer}");
    }

    /// Returns the operation of a request. A datagram's operation has an address handle, or null.
    fn operation(&self, is_datagram: bool, input: &mut Input<'_>) -> ibv_wr_operation {
        let (remote_addr, rkey) = self.remote(input);
        match input.below(4) {
            _ if is_datagram => ibv_wr_operation {
                ud: ibv_wr_ud {
                    ah: self.objects.ahs.pick(input),
                    remote_qpn: self.qp_number(input),
                    remote_qkey: input.number() as u32,
                },
            },
            1 => ibv_wr_operation {
                atomic: ibv_wr_atomic {
                    remote_addr: remote_addr & !u64::from(input.below(8)),
                    compare_add: input.number(),
                    swap: input.number(),
                    rkey,
                },
            },
            _ => ibv_wr_operation {
                rdma: ibv_wr_rdma { remote_addr, rkey },
            },
        }
    }

    fn qp_number(&self, input: &mut Input<'_>) -> u32 {
        let qp = self.objects.qps.pick(input);
        match qp.is_null() {
            true => input.number() as u32,
            // SAFETY: the queue pair is alive.
            false => unsafe { (*qp).qp_num },
        }
    }

    fn bind_info(&self, input: &mut Input<'_>) -> ibv_mw_bind_info {
        ibv_mw_bind_info {
            mr: self.objects.mrs.pick(input),
            addr: self.program.place(input).addr() as u64,
            length: input.number(),
            mw_access_flags: input.choose(&[0xe, 2, 0, 0x2f, u32::MAX]),
        }
    }

    fn window(&self, input: &mut Input<'_>) -> ibv_wr_bind_mw {
        ibv_wr_bind_mw {
            mw: self.objects.mws.pick(input),
            rkey: input.number() as u32,
            bind_info: self.bind_info(input),
        }
    }

    /// Posts a list of receive requests, to a queue pair or to a shared queue.
    pub(super) fn post_receive(&mut self, input: &mut Input<'_>) {
        let requests = 1 + usize::from(input.below(LIST as u8));
        let mut elements: Vec<_> = (0..requests).map(|_| self.elements(input, false)).collect();
        let mut list: Vec<_> = elements
            .iter_mut()
            .map(|elements| ibv_recv_wr {
                wr_id: 1,
                next: null_mut(),
                sg_list: elements.as_mut_ptr(),
                num_sge: count(input),
            })
            .collect();
        for number in 1..requests {
            let next: *mut _ = &mut list[number];
            list[number - 1].next = next;
        }
        let mut bad = null_mut();
        let ops = &table(self.program.context).context.ops;
        // SAFETY: as in `post_send`.
        let answer = unsafe {
            if input.flag() {
                let qp = self.objects.qps.pick(input);
                call!(ops.post_recv)(qp, list.as_mut_ptr(), &mut bad)
            } else {
                let srq = self.objects.srqs.pick(input);
                call!(ops.post_srq_recv)(srq, list.as_mut_ptr(), &mut bad)
            }
        };
        let is_of_list = list.as_mut_ptr_range().contains(&bad);
        assert_eq!(answer != 0, is_of_list, "bad_wr of {answer}");
    }

    /// Posts requests through the functions of a queue pair, not necessarily in the right order.
    pub(super) fn post_extended(&mut self, input: &mut Input<'_>) {
        let qp = self.objects.qps.pick(input);
        if qp.is_null() {
            return;
        }
        // SAFETY: the queue pair is alive; its functions get living objects and existing memory.
        unsafe {
            let qp = ibv_qp_to_qp_ex(qp);
            let Some(table) = qp.as_ref().filter(|table| table.wr_start.is_some()) else {
                return;
            };
            call!(table.wr_start)(qp);
            for _ in 0..input.below(8) {
                (*qp).wr_id = input.number();
                (*qp).wr_flags = u32::from(input.below(16));
                self.operate(qp, input);
                self.set_data(qp, input);
            }
            if input.flag() {
                call!(table.wr_complete)(qp);
            } else {
                call!(table.wr_abort)(qp);
            }
        }
    }

    /// # Safety
    /// `qp` is alive and started.
    unsafe fn operate(&self, qp: *mut ibv_qp_ex, input: &mut Input<'_>) {
        let (address, rkey) = self.remote(input);
        // SAFETY: by the contract; objects are null or alive.
        unsafe {
            let table = &*qp;
            // A queue pair has no functions for operations that were not asked for.
            macro_rules! operate {
                ($name:ident, $($argument:expr),*) => {
                    if let Some(function) = table.$name {
                        function(qp, $($argument),*);
                    }
                };
            }
            match input.below(14) {
                0 => operate!(wr_send,),
                1 => operate!(wr_send_imm, input.u32()),
                2 => operate!(wr_send_inv, rkey),
                3 => operate!(wr_rdma_write, rkey, address),
                4 => operate!(wr_rdma_write_imm, rkey, address, input.u32()),
                5 => operate!(wr_rdma_read, rkey, address),
                6 => operate!(wr_atomic_cmp_swp, rkey, address, input.number(), 1),
                7 => operate!(wr_atomic_fetch_add, rkey, address, input.number()),
                8 => operate!(wr_local_inv, rkey),
                9 => {
                    let (mw, info) = (self.objects.mws.pick(input), self.bind_info(input));
                    operate!(wr_bind_mw, mw, input.number() as u32, &info);
                }
                10 => {
                    let ah = self.objects.ahs.pick(input);
                    operate!(wr_set_ud_addr, ah, self.qp_number(input), 1);
                }
                11 => operate!(wr_set_xrc_srqn, input.number() as u32),
                12 => {
                    let (kind, level) = (input.below(4), input.below(3));
                    let length = input.number() as usize;
                    operate!(wr_flush, rkey, address, length, kind, level);
                }
                _ => {
                    let value = input.u64().to_ne_bytes();
                    operate!(wr_atomic_write, rkey, address, value.as_ptr().cast());
                }
            }
        }
    }

    /// # Safety
    /// `qp` is alive and started.
    unsafe fn set_data(&self, qp: *mut ibv_qp_ex, input: &mut Input<'_>) {
        let (place, length) = self.program.range(input);
        let elements = self.elements(input, false);
        let buffers = [ibv_data_buf {
            addr: place,
            length,
        }; 4];
        // SAFETY: by the contract; memory that the processor reads exists, or is too long to be
        // accepted.
        unsafe {
            let table = &*qp;
            match input.below(6) {
                0 | 1 => {
                    let ibv_sge { addr, length, lkey } = elements[0];
                    call!(table.wr_set_sge)(qp, lkey, addr, length);
                }
                2 => {
                    let count = count(input).unsigned_abs() as usize;
                    call!(table.wr_set_sge_list)(qp, count.min(ELEMENTS), elements.as_ptr());
                }
                3 => call!(table.wr_set_inline_data)(qp, place, length),
                4 => {
                    let count = usize::from(input.below(5));
                    call!(table.wr_set_inline_data_list)(qp, count, buffers.as_ptr());
                }
                _ => {}
            }
        }
    }

    /// Takes completions, in one of the two ways.
    pub(super) fn poll(&mut self, input: &mut Input<'_>) {
        let cq = self.objects.cqs.pick(input);
        let ops = &table(self.program.context).context.ops;
        // SAFETY: the CQ is null or alive, and there is room for this many completions.
        unsafe {
            let mut completions: [ibv_wc; COMPLETIONS] = zeroed();
            let asked = match input.u8() {
                0xf0.. => -1 - c_int::from(input.u8()),
                small => c_int::from(small % COMPLETIONS as u8),
            };
            let found = call!(ops.poll_cq)(cq, asked, completions.as_mut_ptr());
            assert!(found <= asked.max(0), "{found} of {asked}");
            for completion in completions.iter().take(found.max(0) as usize) {
                assert!(!ibv_wc_status_str(completion.status).is_null());
            }
            call!(ops.req_notify_cq)(cq, c_int::from(input.u8()));
        }
    }

    /// Modifies existing objects.
    pub(super) fn change(&mut self, input: &mut Input<'_>) {
        let table = table(self.program.context);
        let (address, length) = self.program.range(input);
        // SAFETY: all objects are null or alive; memory is there or too long.
        unsafe {
            match input.below(7) {
                0 => {
                    let (mr, pd) = (self.objects.mrs.pick(input), self.objects.pds.pick(input));
                    let (flags, access) = (input.number() as c_int, input.number() as c_int);
                    // Without new access flags it stays what it is.
                    let is_pinned =
                        flags & IBV_REREG_MR_CHANGE_ACCESS != 0 && !is_on_demand(access as u64);
                    let length = self.program.length(address, length, !is_pinned);
                    ibv_rereg_mr(mr, flags, pd, address, length, access);
                }
                1 => drop(ibv_resize_cq(
                    self.objects.cqs.pick(input),
                    count(input).wrapping_mul(8),
                )),
                2 => {
                    let mut attr = ibv_modify_cq_attr {
                        attr_mask: input.number() as u32,
                        moderate: ibv_moderate_cq {
                            cq_count: input.u16(),
                            cq_period: input.u16(),
                        },
                    };
                    call!(table.modify_cq)(self.objects.cqs.pick(input), &mut attr);
                }
                3 => {
                    let mut attr = ibv_srq_attr {
                        max_wr: input.number() as u32,
                        max_sge: input.number() as u32,
                        srq_limit: input.number() as u32,
                    };
                    let mask = input.number() as c_int;
                    ibv_modify_srq(self.objects.srqs.pick(input), &mut attr, mask);
                }
                4 => self.change_group(input),
                5 => self.bind(input),
                _ => self.copy_device_memory(address, length, input),
            }
        }
    }

    fn change_group(&mut self, input: &mut Input<'_>) {
        let mut group = ibv_gid::default();
        group.raw[..2].copy_from_slice(&[0xff, 0x0e]);
        group.raw[10..].copy_from_slice(&[0xff, 0xff, 224, 0, 0, input.below(4)]);
        if input.u8() > 0xe0 {
            group.raw = [input.u8(); 16];
        }
        let qp = self.objects.qps.pick(input);
        // SAFETY: the queue pair is null or alive.
        unsafe {
            match input.flag() {
                true if ibv_attach_mcast(qp, &group, input.u16()) == 0 => {
                    self.objects.groups.push((qp, group));
                }
                true => {}
                false => drop(ibv_detach_mcast(qp, &group, input.u16())),
            }
        }
    }

    /// Binds a window of type 1.
    fn bind(&self, input: &mut Input<'_>) {
        let (qp, mw) = (self.objects.qps.pick(input), self.objects.mws.pick(input));
        let mut bind = ibv_mw_bind {
            wr_id: input.number(),
            send_flags: u32::from(input.u8()),
            bind_info: self.bind_info(input),
        };
        let table = table(self.program.context);
        // SAFETY: all objects are null or alive.
        unsafe { call!(table.context.ops.bind_mw)(qp, mw, &mut bind) };
    }

    fn copy_device_memory(&self, memory: *mut c_void, length: usize, input: &mut Input<'_>) {
        let dm = self.objects.dms.pick(input);
        // SAFETY: the device memory is alive; the other memory exists, or is too long to be
        // accepted.
        unsafe {
            let Some(functions) = dm.as_ref() else { return };
            if input.flag() {
                call!(functions.memcpy_to_dm)(dm, input.number(), memory, length)
            } else {
                call!(functions.memcpy_from_dm)(memory, dm, input.number(), length)
            };
        }
    }

    /// Queries existing objects.
    pub(super) fn query(&mut self, input: &mut Input<'_>) {
        let context = self.program.context;
        let (port, index) = (input.choose(&[1, 1, 0, 2]), input.number() as c_int);
        // SAFETY: all objects are null or alive, and the answers have room.
        unsafe {
            match input.below(8) {
                0 => drop(ibv_query_port(context, port, &mut zeroed())),
                1 => drop(ibv_query_gid(context, port, index, &mut zeroed())),
                2 => drop(ibv_query_pkey(context, port, index, &mut 0)),
                3 => {
                    let (qp, mask) = (self.objects.qps.pick(input), input.number() as c_int);
                    ibv_query_qp(qp, &mut zeroed(), mask, &mut zeroed());
                }
                4 => drop(ibv_query_srq(self.objects.srqs.pick(input), &mut zeroed())),
                5 => {
                    let mut entries: [ibv_gid_entry; 4] = zeroed();
                    let (flags, size) = (input.number() as u32, input.number() as usize);
                    let count = usize::from(input.below(5));
                    let size = size.min(size_of::<ibv_gid_entry>());
                    _ibv_query_gid_table(context, entries.as_mut_ptr(), count, flags, size);
                }
                6 => {
                    let table = table(context);
                    let ask = ibv_query_device_ex_input {
                        comp_mask: u32::from(input.below(2)),
                    };
                    let mut attr: ibv_device_attr_ex = zeroed();
                    let size = (input.number() as usize).min(size_of_val(&attr));
                    call!(table.query_device_ex)(context, &ask, &mut attr, size);
                }
                _ => {
                    assert!(!ibv_wc_status_str(index).is_null());
                    assert!(!ibv_event_type_str(index).is_null());
                    let _ = (ibv_rate_to_mbps(index), mbps_to_ibv_rate(index));
                }
            }
        }
    }
}

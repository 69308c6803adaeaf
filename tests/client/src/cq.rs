//! Completion channels, completion queues, and work completions, with both polling APIs.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::Duration;

use ferroce_tests::{Deadline, time_limit};

use crate::context::{Context, readable};
use crate::memory::{Pd, extended};
use crate::object::{Object, Outcome, check, check_pointer, handle, operation};
use crate::sys::*;

/// Time limit for a completion.
pub const COMPLETION_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of empty polls after which a test concludes that no completion comes.
const EMPTY_POLLS: u32 = 2000;

handle! {
    /// A completion channel.
    Channel, ibv_comp_channel
}
handle! {
    /// A completion queue, extended or not.
    Cq, ibv_cq
}

impl Context {
    /// Calls `ibv_create_comp_channel`.
    pub fn create_channel(&self) -> Outcome<Channel> {
        // SAFETY: the context is open.
        let raw = check_pointer(unsafe { ibv_create_comp_channel(self.raw()) })?;
        let parents = vec![self.parent()];
        Ok(Channel(Object::new(raw, ibv_destroy_comp_channel, parents)))
    }

    /// Calls `ibv_create_cq`.
    pub fn create_cq(&self, cqe: c_int, channel: Option<&Channel>, vector: c_int) -> Outcome<Cq> {
        let raw_channel = channel.map_or(null_mut(), Channel::raw);
        // SAFETY: context and channel are alive.
        let raw = unsafe { ibv_create_cq(self.raw(), cqe, null_mut(), raw_channel, vector) };
        self.adopt_cq(raw, channel)
    }

    fn adopt_cq(&self, raw: *mut ibv_cq, channel: Option<&Channel>) -> Outcome<Cq> {
        let raw = check_pointer(raw)?;
        let mut parents = vec![self.parent()];
        parents.extend(channel.map(Channel::parent));
        Ok(Cq(Object::new(raw, ibv_destroy_cq, parents)))
    }

    /// Calls `ibv_create_cq_ex`; the caller fills what it needs.
    pub fn create_cq_ex(
        &self,
        channel: Option<&Channel>,
        fill: impl FnOnce(&mut ibv_cq_init_attr_ex),
    ) -> Outcome<Cq> {
        let mut attr = ibv_cq_init_attr_ex {
            cqe: 64,
            channel: channel.map_or(null_mut(), Channel::raw),
            ..Default::default()
        };
        fill(&mut attr);
        // SAFETY: the context is open; the channel is alive.
        let raw = unsafe { operation!(self.extended(), create_cq_ex)(self.raw(), &mut attr) };
        self.adopt_cq(raw.cast(), channel)
    }

    /// Calls `ibv_create_cq_ex` below a parent domain.
    pub fn create_cq_under(&self, domain: &Pd) -> Outcome<Cq> {
        self.create_cq_ex(None, |attr| {
            attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
            attr.parent_domain = domain.raw();
        })
    }
}

impl Channel {
    /// Returns the file descriptor.
    pub fn fd(&self) -> c_int {
        // SAFETY: alive.
        unsafe { (*self.raw()).fd }
    }

    /// Returns the next event's CQ, not yet acknowledged; `None` if none comes in `timeout`.
    pub fn event(&self, timeout: Duration) -> Option<*mut ibv_cq> {
        if !readable(self.fd(), timeout) {
            return None;
        }
        let (mut cq, mut context) = (null_mut(), null_mut());
        // SAFETY: the verb fills both.
        let result = unsafe { ibv_get_cq_event(self.raw(), &mut cq, &mut context) };
        (result == 0).then_some(cq)
    }

    /// Waits for an event of this CQ and acknowledges it.
    pub fn expect_event(&self, cq: &Cq) {
        let timeout = time_limit(COMPLETION_TIMEOUT);
        let found = self.event(timeout);
        let found =
            found.unwrap_or_else(|| panic!("timed out after {timeout:?}: no completion event"));
        assert_eq!(found, cq.raw(), "an event of another CQ");
        cq.acknowledge(1);
    }

    /// Fails the test if an event comes.
    pub fn expect_no_event(&self) {
        assert!(self.event(Duration::from_millis(100)).is_none());
    }
}

impl Cq {
    /// Returns the number of entries from the structure.
    pub fn cqe(&self) -> c_int {
        // SAFETY: alive.
        unsafe { (*self.raw()).cqe }
    }

    /// Calls `ibv_ack_cq_events`.
    pub fn acknowledge(&self, count: u32) {
        // SAFETY: alive.
        unsafe { ibv_ack_cq_events(self.raw(), count) };
    }

    /// Calls `ibv_req_notify_cq`.
    pub fn request_notify(&self, solicited_only: bool) -> Outcome<()> {
        // SAFETY: the inline function of the header does just this.
        check(unsafe {
            let ops = &raw const (*(*self.raw()).context).ops;
            operation!(ops, req_notify_cq)(self.raw(), c_int::from(solicited_only))
        })
    }

    /// Calls `ibv_resize_cq`.
    pub fn resize(&self, cqe: c_int) -> Outcome<()> {
        // SAFETY: alive.
        check(unsafe { ibv_resize_cq(self.raw(), cqe) })
    }

    /// Calls `ibv_modify_cq` with the caller's mask.
    pub fn modify_moderation(&self, mask: u32, count: u16, period_us: u16) -> Outcome<()> {
        let mut attr = ibv_modify_cq_attr {
            attr_mask: mask,
            moderate: ibv_moderate_cq {
                cq_count: count,
                cq_period: period_us,
            },
        };
        // SAFETY: alive.
        check(unsafe {
            let table = extended((*self.raw()).context);
            operation!(table, modify_cq)(self.raw(), &mut attr)
        })
    }

    /// Calls `ibv_poll_cq`: returns the completions, or the negative number that the verb returned.
    pub fn poll(&self, max: usize) -> Result<Vec<ibv_wc>, c_int> {
        let mut found = vec![ibv_wc::default(); max];
        // SAFETY: there is room for `max` entries.
        let count = unsafe {
            let ops = &raw const (*(*self.raw()).context).ops;
            operation!(ops, poll_cq)(self.raw(), max as c_int, found.as_mut_ptr())
        };
        if count < 0 {
            return Err(count);
        }
        found.truncate(count as usize);
        Ok(found)
    }

    /// Returns one completion if there is one.
    pub fn try_next(&self) -> Option<ibv_wc> {
        self.poll(1).expect("polling works").pop()
    }

    /// Returns the next completion.
    #[track_caller]
    pub fn next(&self) -> ibv_wc {
        // Polling advances the device, so there is no pause.
        let deadline = Deadline::new("a completion", COMPLETION_TIMEOUT);
        loop {
            if let Some(wc) = self.try_next() {
                return wc;
            }
            deadline.check();
        }
    }

    /// Returns the next completion, which must be this one.
    #[track_caller]
    pub fn expect(&self, wr_id: u64, status: ibv_wc_status) -> ibv_wc {
        let wc = self.next();
        assert_eq!(
            (wc.wr_id, wc.status),
            (wr_id, status),
            "(wr_id, status), with vendor_err {:#x}",
            wc.vendor_err
        );
        wc
    }

    /// Fails the test if a completion comes.
    #[track_caller]
    pub fn expect_nothing(&self) {
        for _ in 0..EMPTY_POLLS {
            if let Some(wc) = self.try_next() {
                panic!(
                    "unexpected completion of {}: status {}",
                    wc.wr_id, wc.status
                );
            }
        }
    }

    fn extended(&self) -> *mut ibv_cq_ex {
        self.raw().cast()
    }

    /// Returns the next completion through `ibv_start_poll` … `ibv_end_poll`, read by `read`.
    #[track_caller]
    pub fn next_extended<T>(&self, read: impl FnOnce(&Reader) -> T) -> T {
        let deadline = Deadline::new("a completion", COMPLETION_TIMEOUT);
        let cq = self.extended();
        while self.start_poll(0) == libc::ENOENT {
            deadline.check();
        }
        let result = read(&Reader(cq));
        // SAFETY: a poll was started.
        unsafe { operation!(cq, end_poll)(cq) };
        result
    }

    /// Calls `ibv_start_poll` alone. If it returns 0, and only then, the poll must be ended.
    pub fn start_poll(&self, comp_mask: u32) -> c_int {
        let mut attr = ibv_poll_cq_attr { comp_mask };
        let cq = self.extended();
        // SAFETY: an extended CQ.
        unsafe { operation!(cq, start_poll)(cq, &mut attr) }
    }

    /// Calls `ibv_next_poll`, between start and end.
    pub fn next_poll(&self) -> c_int {
        let cq = self.extended();
        // SAFETY: an extended CQ.
        unsafe { operation!(cq, next_poll)(cq) }
    }

    /// Calls `ibv_end_poll`.
    pub fn end_poll(&self) {
        let cq = self.extended();
        // SAFETY: an extended CQ.
        unsafe { operation!(cq, end_poll)(cq) };
    }

    /// Reads the current completion of a started poll.
    pub fn reader(&self) -> Reader {
        Reader(self.extended())
    }
}

/// The current completion of `ibv_start_poll` or `ibv_next_poll`.
pub struct Reader(*mut ibv_cq_ex);

/// Declares readers of one field each.
macro_rules! readers {
    ($( $name:ident: $operation:ident -> $result:ty; )*) => {
        impl Reader {
            $(
                #[doc = concat!("`ibv_wc_", stringify!($operation), "`.")]
                pub fn $name(&self) -> $result {
                    // SAFETY: between the start and the end of a poll.
                    unsafe { operation!(self.0, $operation)(self.0) }
                }
            )*
        }
    };
}

readers! {
    opcode: read_opcode -> ibv_wc_opcode;
    vendor_err: read_vendor_err -> u32;
    byte_len: read_byte_len -> u32;
    imm_data: read_imm_data -> u32;
    qp_num: read_qp_num -> u32;
    src_qp: read_src_qp -> u32;
    wc_flags: read_wc_flags -> u32;
    slid: read_slid -> u32;
    sl: read_sl -> u8;
    dlid_path_bits: read_dlid_path_bits -> u8;
    completion_ts: read_completion_ts -> u64;
    wallclock_ns: read_completion_wallclock_ns -> u64;
}

impl Reader {
    /// Returns `wr_id`.
    pub fn wr_id(&self) -> u64 {
        // SAFETY: between the start and the end of a poll.
        unsafe { (*self.0).wr_id }
    }

    /// Returns `status`.
    pub fn status(&self) -> ibv_wc_status {
        // SAFETY: between the start and the end of a poll.
        unsafe { (*self.0).status }
    }
}

/// Returns `imm_data` of a completion, in network byte order.
pub fn imm_data(wc: &ibv_wc) -> u32 {
    // SAFETY: any number is valid.
    unsafe { wc.__bindgen_anon_1.imm_data }
}

/// Returns `invalidated_rkey` of a completion.
pub fn invalidated_rkey(wc: &ibv_wc) -> u32 {
    // SAFETY: any number is valid.
    unsafe { wc.__bindgen_anon_1.invalidated_rkey }
}

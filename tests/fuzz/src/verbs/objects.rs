//! The objects of a program. All are destroyed at the end, children first.

use std::ptr::null_mut;

use ferroce_provider::abi::*;
use libc::c_int;

use super::ffi::*;
use super::table;
use crate::input::Input;

/// Maximum number of objects of one kind.
const MOST: usize = 6;

/// Objects of one kind.
pub(super) struct Pool<T>(Vec<*mut T>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Pool<T> {
    /// Returns true if there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.0.len() < MOST
    }

    /// Keeps an object that a verb has created.
    pub(super) fn keep(&mut self, object: *mut T) {
        if !object.is_null() {
            self.0.push(object);
        }
    }

    /// Returns one of them, or null if there is none; sometimes returns null although there is one.
    pub(super) fn pick(&self, input: &mut Input<'_>) -> *mut T {
        match (input.u8(), self.0.len()) {
            (0xff, _) | (_, 0) => null_mut(),
            (number, count) => self.0[usize::from(number) % count],
        }
    }

    /// Destroys one, which may be refused because it is in use.
    fn destroy_one(&mut self, input: &mut Input<'_>, destroy: impl Fn(*mut T) -> c_int) {
        let object = self.pick(input);
        match destroy(object) {
            0 => self.0.retain(|other| *other != object),
            _ => assert!(object.is_null() || self.0.contains(&object)),
        }
    }

    /// Destroys all of them.
    fn destroy_all(&mut self, what: &str, destroy: impl Fn(*mut T) -> c_int) {
        for object in self.0.drain(..) {
            assert_eq!(destroy(object), 0, "{what} is left");
        }
    }
}

/// All objects of a program in one context.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) pds: Pool<ibv_pd>,
    pub(super) tds: Pool<ibv_td>,
    pub(super) parents: Pool<ibv_pd>,
    pub(super) channels: Pool<ibv_comp_channel>,
    pub(super) cqs: Pool<ibv_cq>,
    pub(super) mrs: Pool<ibv_mr>,
    pub(super) mws: Pool<ibv_mw>,
    pub(super) srqs: Pool<ibv_srq>,
    pub(super) qps: Pool<ibv_qp>,
    pub(super) ahs: Pool<ibv_ah>,
    pub(super) xrcds: Pool<ibv_xrcd>,
    pub(super) dms: Pool<ibv_dm>,
    /// Groups to which queue pairs were attached; attached queue pairs cannot be destroyed.
    pub(super) groups: Vec<(*mut ibv_qp, ibv_gid)>,
}

/// Applies an action to each pool with its verb, children before their parents.
macro_rules! each_pool {
    ($objects:expr, $table:expr, $action:ident $(, $argument:expr)*) => {{
        let (objects, table) = ($objects, $table);
        // SAFETY: the pools hold what the verbs of their kinds have made and not destroyed.
        unsafe {
            $action!(objects.qps, "a QP", |qp| ibv_destroy_qp(qp) $(, $argument)*);
            $action!(objects.mws, "a window", |mw| call!(table.context.ops.dealloc_mw)(mw)
                $(, $argument)*);
            $action!(objects.mrs, "a region", |mr| ibv_dereg_mr(mr) $(, $argument)*);
            $action!(objects.srqs, "an SRQ", |srq| ibv_destroy_srq(srq) $(, $argument)*);
            $action!(objects.cqs, "a CQ", |cq| ibv_destroy_cq(cq) $(, $argument)*);
            $action!(objects.channels, "a channel", |it| ibv_destroy_comp_channel(it)
                $(, $argument)*);
            $action!(objects.ahs, "an AH", |ah| ibv_destroy_ah(ah) $(, $argument)*);
            $action!(objects.xrcds, "an XRC domain", |it| call!(table.close_xrcd)(it)
                $(, $argument)*);
            $action!(objects.dms, "device memory", |dm| call!(table.free_dm)(dm) $(, $argument)*);
            $action!(objects.parents, "a parent domain", |pd| ibv_dealloc_pd(pd) $(, $argument)*);
            $action!(objects.tds, "a thread domain", |td| call!(table.dealloc_td)(td)
                $(, $argument)*);
            $action!(objects.pds, "a PD", |pd| ibv_dealloc_pd(pd) $(, $argument)*);
        }
    }};
}

/// A function of a table, which must be there.
macro_rules! call {
    ($table:ident . $($name:ident).+) => {
        $table.$($name).+.expect(concat!("the library has ", stringify!($($name).+)))
    };
}
pub(super) use call;

impl Objects {
    /// Destroys one object, of the kind that the input names.
    pub(super) fn destroy_one(&mut self, context: *mut ibv_context, input: &mut Input<'_>) {
        let chosen = input.below(12);
        let mut kind = 0;
        macro_rules! if_chosen {
            ($pool:expr, $what:literal, $destroy:expr, $input:expr) => {
                if kind == chosen {
                    $pool.destroy_one($input, $destroy);
                }
                kind += 1;
            };
        }
        each_pool!(self, table(context), if_chosen, input);
        assert_eq!(kind, 12, "kinds of objects");
    }

    /// Destroys everything; nothing may refuse when its children are gone.
    pub(super) fn destroy_all(&mut self, context: *mut ibv_context) {
        for (qp, group) in self.groups.drain(..) {
            if self.qps.0.contains(&qp) {
                // SAFETY: the queue pair is alive. It may have been detached before.
                unsafe { ibv_detach_mcast(qp, &group, 0) };
            }
        }
        macro_rules! all {
            ($pool:expr, $what:literal, $destroy:expr) => {
                $pool.destroy_all($what, $destroy);
            };
        }
        each_pool!(self, table(context), all);
    }
}

//! Contexts: devices that a program has opened.

use std::os::fd::{AsRawFd, OwnedFd};

use libc::c_int;

use super::super::boundary::{pointer, status};
use super::super::handle::{Handle, zeroed};
use super::super::objects::{Context, PRIVATE_WORDS};
use super::device::device_index;
use super::ops;
use crate::abi::*;
use crate::adapter::Adapter;
use crate::event::EventQueue;
use crate::open_error;

/// `ibv_open_device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer("ibv_open_device", || {
        // SAFETY: contract of `ibv_open_device`: the program passes null or a live device of this
        // library; `device_index` refuses null.
        let adapter = Adapter::open(unsafe { device_index(device)? })?;
        let events = EventQueue::new().map_err(|errno| {
            let error = std::io::Error::from_raw_os_error(errno.number());
            open_error::report_system("cannot make a descriptor for events", &error)
        })?;
        adapter.add_context(&events);
        let null = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null");
        let command_fd = OwnedFd::from(
            null.map_err(|error| open_error::report_system("cannot open /dev/null", &error))?,
        );
        let mut private = Box::new([0_u64; PRIVATE_WORDS]);
        // SAFETY: the struct has integers, pointers, `Option`s of functions, and a mutex that zeros
        // initialise.
        let mut public: verbs_context = unsafe { zeroed() };
        public.sz = size_of::<verbs_context>();
        public.r#priv = private.as_mut_ptr().cast();
        public.context.device = device;
        public.context.cmd_fd = command_fd.as_raw_fd();
        public.context.async_fd = events.fd();
        let vectors = adapter.device()?.capabilities().completion_vectors;
        public.context.num_comp_vectors = c_int::from(vectors.min(c_int::MAX as u16));
        // Marks a context that is the end of a `verbs_context`.
        public.context.abi_compat = std::ptr::without_provenance_mut(usize::MAX);
        ops::fill(&mut public);
        if let Some(clock) = adapter.program_clock() {
            ops::note_callers(&mut public, clock.as_ref());
        }
        let body = Context {
            adapter,
            events,
            _command_fd: command_fd,
            _private: private,
        };
        let context = Handle::give(public, body);
        // SAFETY: the context was made above and is alive.
        Ok(unsafe { &raw mut (*context).public.context })
    })
}

/// `ibv_close_device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    status("ibv_close_device", || {
        // SAFETY: contract of `ibv_close_device`: the context is null or one of this library, and
        // no thread uses it any more; `claim` refuses one that is not open.
        unsafe {
            let claim = Handle::<verbs_context, Context>::claim(Context::outer(context))?;
            claim.adapter.check()?;
            claim.free();
        }
        Ok(())
    })
}

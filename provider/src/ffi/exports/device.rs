//! The list of devices, contexts, and what a device says of itself.

use super::super::boundary::{guard, pointer, set_errno, status};
use super::super::handle::{Handle, zeroed};
use super::super::objects::{Context, PRIVATE_WORDS};
use super::super::ops;
use crate::adapter::Adapter;
use crate::errno::Errno;
use crate::event::EventQueue;
use crate::ffi::abi::*;
use crate::host;
use crate::identity;
use libc::{c_char, c_int, size_t};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;

/// Zero bytes behind the public struct of a device: libmlx5 and libefa look there for the table of
/// their own devices.
const DEVICE_TAIL: usize = 512;

/// The only device. It stays for the life of the process: programs keep its address beyond the
/// list.
struct SharedDevice(*mut ibv_device);

// SAFETY: nobody writes to the device after it was made.
unsafe impl Send for SharedDevice {}
// SAFETY: as above.
unsafe impl Sync for SharedDevice {}

fn device() -> *mut ibv_device {
    static DEVICE: OnceLock<SharedDevice> = OnceLock::new();
    DEVICE
        .get_or_init(|| {
            // SAFETY: the struct has integers, arrays of them and pointers.
            let mut public: ibv_device = unsafe { zeroed() };
            public.node_type = IBV_NODE_CA;
            public.transport_type = IBV_TRANSPORT_IB;
            identity::copy_text(&mut public.name, identity::DEVICE_NAME);
            identity::copy_text(&mut public.dev_name, identity::UVERBS_NAME);
            let path = |class: &str, name: &str| format!("/sys/class/{class}/{name}");
            let uverbs = path("infiniband_verbs", identity::UVERBS_NAME);
            identity::copy_text(&mut public.dev_path, &uverbs);
            let device = path("infiniband", identity::DEVICE_NAME);
            identity::copy_text(&mut public.ibdev_path, &device);
            SharedDevice(Handle::give(public, [0_u8; DEVICE_TAIL]).cast())
        })
        .0
}

/// `ibv_get_device_list`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    pointer(|| {
        crate::sysfs::root();
        let list = Box::into_raw(Box::new([device(), std::ptr::null_mut()]));
        // SAFETY: the program's counter.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = 1;
        }
        Ok(list.cast())
    })
}

/// `ibv_free_device_list`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    if !list.is_null() {
        // SAFETY: the list came from `ibv_get_device_list`.
        drop(unsafe { Box::from_raw(list.cast::<[*mut ibv_device; 2]>()) });
    }
}

/// `ibv_get_device_name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    if device.is_null() {
        return std::ptr::null();
    }
    // SAFETY: the program passes a device of this library.
    unsafe { (&raw const (*device).name).cast() }
}

/// `ibv_get_device_index`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_index(_device: *mut ibv_device) -> c_int {
    identity::DEVICE_INDEX
}

/// `ibv_get_device_guid`, in network byte order; 0 and errno when the host has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(_device: *mut ibv_device) -> u64 {
    guard(|| Ok(u64::from_ne_bytes(host::identity()?.node_guid))).unwrap_or_else(|errno| {
        set_errno(errno);
        0
    })
}

/// `ibv_open_device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer(|| {
        if device.is_null() {
            return Err(Errno::INVALID);
        }
        let adapter = Adapter::open()?;
        let events = EventQueue::new()?;
        adapter.add_context(&events);
        let null = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null");
        let command_fd = OwnedFd::from(null.map_err(|_| Errno::IO)?);
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
        // The mark of a context that is the end of a `verbs_context`.
        public.context.abi_compat = std::ptr::without_provenance_mut(usize::MAX);
        ops::fill_context(&mut public);
        let body = Context {
            adapter,
            events,
            _command_fd: command_fd,
            _private: private,
        };
        let context = Handle::give(public, body);
        // SAFETY: the context is new and alive.
        Ok(unsafe { &raw mut (*context).public.context })
    })
}

/// `ibv_close_device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    status(|| {
        // SAFETY: the program passes a context that it does not use any more.
        unsafe {
            Context::borrow(context)?.adapter.check()?;
            Handle::<verbs_context, Context>::take(Context::outer(context));
        }
        Ok(())
    })
}

/// `ibv_query_device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    status(|| {
        // SAFETY: the program's context and struct.
        let (context, attr) = unsafe { (Context::borrow(context)?, attr.as_mut()) };
        let device = context.adapter.device()?;
        let attributes = identity::device_attributes(device.capabilities(), context.adapter.host());
        *attr.ok_or(Errno::INVALID)? = attributes;
        Ok(())
    })
}

/// `ibv_query_device_ex`: as many bytes as the program's struct has.
pub(in super::super) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: size_t,
) -> c_int {
    status(|| {
        // SAFETY: the program's context and struct.
        let (context, input) = unsafe { (Context::borrow(context)?, input.as_ref()) };
        // A program cannot ask for less than the plain attributes.
        if size < size_of::<ibv_device_attr>() || input.is_some_and(|input| input.comp_mask != 0) {
            return Err(Errno::INVALID);
        }
        let device = context.adapter.device()?;
        let mut attributes = zeroed_device_attr_ex();
        attributes.orig_attr =
            identity::device_attributes(device.capabilities(), context.adapter.host());
        attributes.device_cap_flags_ex = u64::from(attributes.orig_attr.device_cap_flags);
        attributes.phys_port_cnt_ex = 1;
        attributes.completion_timestamp_mask = u64::MAX;
        attributes.hca_core_clock = identity::CLOCK_KHZ;
        // SAFETY: the program's struct has `size` bytes.
        unsafe { super::copy_sized(attr, &attributes, size) }
    })
}

/// `ibv_query_rt_values_ex`: the device's clock, in its own units.
pub(in super::super) unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    status(|| {
        // SAFETY: the program's context and struct.
        let (context, values) = unsafe { (Context::borrow(context)?, values.as_mut()) };
        let device = context.adapter.device()?;
        let values = values.ok_or(Errno::INVALID)?;
        // What is not known is not answered; the mask says what was.
        values.comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
        if values.comp_mask != 0 {
            let clock = libc::c_long::try_from(device.clock_ns()).unwrap_or(libc::c_long::MAX);
            values.raw_clock = libc::timespec {
                tv_sec: 0,
                tv_nsec: clock,
            };
        }
        Ok(())
    })
}

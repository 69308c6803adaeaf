//! The list of devices, and the attributes of a device.

use std::sync::OnceLock;

use ferroce_platform::host::device_name;
use libc::{c_char, c_int, size_t};

use super::super::boundary::{guard, minus_one, pointer, status};
use super::super::handle::{Handle, zeroed};
use super::super::loading;
use super::super::objects::Context;
use crate::abi::*;
use crate::errno::Errno;
use crate::host;
use crate::identity;
use crate::os::set_errno;

/// Zero bytes after the public struct of a device: libmlx5 and libefa read their own device's table
/// of functions there.
const DEVICE_TAIL: usize = 512;

/// Body of `struct ibv_device`.
#[repr(C)]
struct DeviceBody {
    tail: [u8; DEVICE_TAIL],
    index: u8,
}

/// The devices. They are never freed: programs keep their addresses beyond the list.
struct SharedDevices(Vec<*mut ibv_device>);

// SAFETY: a device is never written after it was made, so shared reads are not a race.
unsafe impl Send for SharedDevices {}
// SAFETY: as for `Send`: shared references only read.
unsafe impl Sync for SharedDevices {}

fn devices() -> Result<&'static [*mut ibv_device], Errno> {
    static DEVICES: OnceLock<SharedDevices> = OnceLock::new();
    let hosts = host::identities()?;
    let made = DEVICES
        .get_or_init(|| SharedDevices(hosts.iter().map(|host| make_device(host.device)).collect()));
    Ok(&made.0)
}

fn make_device(index: u8) -> *mut ibv_device {
    // SAFETY: the struct consists of integers, arrays of them and pointers, for which zeros are
    // valid.
    let mut public: ibv_device = unsafe { zeroed() };
    let (name, uverbs) = (device_name(index), identity::uverbs_name(index));
    public.node_type = IBV_NODE_CA;
    public.transport_type = IBV_TRANSPORT_IB;
    identity::copy_text(&mut public.name, &name);
    identity::copy_text(&mut public.dev_name, &uverbs);
    let path = |class: &str, name: &str| format!("/sys/class/{class}/{name}");
    identity::copy_text(&mut public.dev_path, &path("infiniband_verbs", &uverbs));
    identity::copy_text(&mut public.ibdev_path, &path("infiniband", &name));
    let tail = [0; DEVICE_TAIL];
    Handle::give(public, DeviceBody { tail, index }).cast()
}

/// Returns the index of a device.
///
/// # Safety
/// `device` is null or a device of this library.
pub(super) unsafe fn device_index(device: *mut ibv_device) -> Result<u8, Errno> {
    // SAFETY: the caller guarantees that `device` is null or a device of this library.
    Ok(unsafe { Handle::<ibv_device, DeviceBody>::borrow(device)? }.index)
}

/// `ibv_get_device_list`. The number of devices is stored in front of the returned pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    pointer("ibv_get_device_list", || {
        loading::note_use();
        crate::sysfs::root();
        let devices = devices()?;
        let mut list: Vec<*mut ibv_device> = Vec::with_capacity(devices.len() + 2);
        list.push(std::ptr::without_provenance_mut(devices.len()));
        list.extend(devices);
        list.push(std::ptr::null_mut());
        // SAFETY: contract of `ibv_get_device_list`: `count` is null or valid; null is skipped.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = c_int::try_from(devices.len()).unwrap_or(c_int::MAX);
        }
        let list: *mut *mut ibv_device = Box::into_raw(list.into_boxed_slice()).cast();
        Ok(list.wrapping_add(1))
    })
}

/// `ibv_free_device_list`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    if list.is_null() {
        return;
    }
    let first = list.wrapping_sub(1);
    // SAFETY: contract of `ibv_free_device_list`: the list came from `ibv_get_device_list`, which
    // puts the number of devices first and a null last.
    unsafe {
        let length = (*first).addr() + 2;
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(
            first, length,
        )));
    }
}

/// `ibv_get_device_name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    if device.is_null() {
        return std::ptr::null();
    }
    // SAFETY: contract of `ibv_get_device_name`: the program passes null or a live device of this
    // library; null is refused above.
    unsafe { (&raw const (*device).name).cast() }
}

/// `ibv_get_device_index`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_index(device: *mut ibv_device) -> c_int {
    minus_one("ibv_get_device_index", || {
        // SAFETY: contract of `ibv_get_device_index`: the program passes null or a live device of
        // this library; `device_index` refuses null.
        let index = unsafe { device_index(device)? };
        Ok(identity::device_index(index))
    })
}

/// `ibv_get_device_guid`, in network byte order; 0 and errno when the host has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    let guid = guard(|| {
        // SAFETY: contract of `ibv_get_device_guid`: the program passes null or a live device of
        // this library; `device_index` refuses null.
        let index = unsafe { device_index(device)? };
        let host = host::identities()?.get(usize::from(index));
        Ok(u64::from_ne_bytes(
            host.ok_or_else(|| Errno::null("host"))?.node_guid,
        ))
    });
    guid.unwrap_or_else(|errno| {
        set_errno(errno);
        0
    })
}

/// `ibv_query_device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    status("ibv_query_device", || {
        // SAFETY: contract of `ibv_query_device`: the context is null or an open context of this
        // library, and the struct null or valid; null is refused.
        let (context, attr) = unsafe { (Context::borrow(context)?, attr.as_mut()) };
        let device = context.adapter.device()?;
        let attributes = identity::device_attributes(
            device.capabilities(),
            context.adapter.host(),
            context.adapter.part_id(),
        );
        *attr.ok_or_else(|| Errno::null("attr"))? = attributes;
        Ok(())
    })
}

/// `ibv_query_device_ex`: fills as many bytes as the program's struct has.
pub(super) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: size_t,
) -> c_int {
    status("ibv_query_device_ex", || {
        // SAFETY: contract of `ibv_query_device_ex`: the context is null or an open context of this
        // library, and the struct null or valid; null is refused.
        let (context, input) = unsafe { (Context::borrow(context)?, input.as_ref()) };
        // A program cannot request less than the plain attributes.
        if size < size_of::<ibv_device_attr>() || input.is_some_and(|input| input.comp_mask != 0) {
            let least = "the size of struct ibv_device_attr, and no flag in input";
            return Err(Errno::wrong("attr_size", size, least));
        }
        let device = context.adapter.device()?;
        let attributes = identity::device_attributes_ex(
            device.capabilities(),
            context.adapter.host(),
            context.adapter.part_id(),
        );
        // SAFETY: contract of `ibv_query_device_ex`: the program's struct has `size` bytes.
        unsafe { super::copy_sized(attr, &attributes, size) }
    })
}

/// `ibv_query_rt_values_ex`: the device's clock, in its own units.
pub(super) unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    status("ibv_query_rt_values_ex", || {
        // SAFETY: contract of `ibv_query_rt_values_ex`: the context is null or an open context of
        // this library, and the struct null or valid; null is refused.
        let (context, values) = unsafe { (Context::borrow(context)?, values.as_mut()) };
        let device = context.adapter.device()?;
        let values = values.ok_or_else(|| Errno::null("values"))?;
        // Unknown values are not returned; the mask names those that are.
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

//! Ports, GIDs and P_Keys.

use ferroce_platform::host::GidEntry;
use libc::{c_int, c_uint, size_t, ssize_t};

use super::super::boundary::{guard, minus_one, refused, status};
use super::super::objects::Context;
use crate::abi::*;
use crate::errno::{Errno, ONE_PORT, Shown, at_most, within};
use crate::host;
use crate::identity;

/// Returns an entry of the port's GID table; `None`: it is empty.
fn gid(context: &Context, port: u32, index: usize) -> Result<Option<&GidEntry>, Errno> {
    let capabilities = context.adapter.device()?.capabilities();
    let host = context.adapter.host();
    check_port(port)?;
    let last = identity::gid_table_length(capabilities, host).saturating_sub(1);
    at_most("index", index as u64, last as u64)?;
    Ok(context.adapter.gid(index))
}

fn check_port(port: u32) -> Result<(), Errno> {
    match port {
        1 => Ok(()),
        _ => Err(Errno::wrong("port_num", port, ONE_PORT)),
    }
}

fn gid_entry(entry: &GidEntry, index: usize) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: ibv_gid { raw: entry.gid },
        gid_index: u32::try_from(index).unwrap_or(u32::MAX),
        port_num: 1,
        gid_type: IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex: host::interface_index(&entry.interface),
    }
}

fn attributes(context: *mut ibv_context, port: u8) -> Result<ibv_port_attr, Errno> {
    // SAFETY: contract of `attributes`: the program passes null or an open context of this library;
    // `borrow` refuses null.
    let context = unsafe { Context::borrow(context)? };
    let device = context.adapter.device()?;
    check_port(port.into())?;
    let capabilities = device.capabilities();
    Ok(identity::port_attributes(
        capabilities,
        context.adapter.host(),
        context.adapter.active_mtu(capabilities.max_path_mtu),
        context.adapter.speed_100mbps(),
        device.link_is_up(),
    ))
}

/// `ibv_query_port` as a function: the struct ends before `port_cap_flags2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    const SIZE: size_t = std::mem::offset_of!(ibv_port_attr, port_cap_flags2);
    // SAFETY: contract of `ibv_query_port`: the program's struct has at least the bytes of the
    // first release.
    unsafe { query_port(context, port, attr, SIZE) }
}

/// `ibv_query_port` as the macro of verbs.h calls it, with the size of the program's struct.
pub(super) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
    size: size_t,
) -> c_int {
    status("ibv_query_port", || {
        let attributes = attributes(context, port)?;
        // SAFETY: contract of `ibv_query_port`: the program's struct has `size` bytes.
        unsafe { super::copy_sized(attr, &attributes, size) }
    })
}

/// `ibv_query_port_speed`, in units of 100 Mb/s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port_speed(
    context: *mut ibv_context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    status("ibv_query_port_speed", || {
        attributes(context, u8::try_from(port).unwrap_or(u8::MAX))?;
        // SAFETY: contract of `ibv_query_port_speed`: the program passes null or an open context of
        // this library; `borrow` refuses null.
        let context = unsafe { Context::borrow(context)? };
        // SAFETY: contract of `ibv_query_port_speed`: the pointer is null or valid; null is
        // refused.
        *unsafe { speed.as_mut() }.ok_or_else(|| Errno::null("speed"))? =
            context.adapter.speed_100mbps();
        Ok(())
    })
}

/// `ibv_query_gid`: 0, or -1 and errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    result: *mut ibv_gid,
) -> c_int {
    minus_one("ibv_query_gid", || {
        // SAFETY: contract of `ibv_query_gid`: the context is null or an open context of this
        // library, and the struct null or valid; null is refused.
        let (context, result) = unsafe { (Context::borrow(context)?, result.as_mut()) };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let entry = gid(context, u32::from(port), index)?;
        let raw = entry.map_or([0; 16], |entry| entry.gid);
        *result.ok_or_else(|| Errno::null("result"))? = ibv_gid { raw };
        Ok(0)
    })
}

/// `ibv_query_gid_ex`: 0 or the errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    result: *mut ibv_gid_entry,
    flags: u32,
    entry_size: size_t,
) -> c_int {
    status("ibv_query_gid_ex", || {
        // SAFETY: contract of `ibv_query_gid_ex`: the program passes null or an open context of
        // this library; `borrow` refuses null.
        let context = unsafe { Context::borrow(context)? };
        within(Errno::NOT_SUPPORTED, "flags", flags, 0_u64)?;
        let index = index as usize;
        let entry = gid(context, port, index)?.ok_or(Errno::NO_DATA)?;
        let entry = gid_entry(entry, index);
        // SAFETY: contract of `ibv_query_gid_ex`: the program's struct has `entry_size` bytes.
        unsafe { super::copy_sized(result, &entry, entry_size) }
    })
}

/// `ibv_query_gid_table`: the number of entries, or the negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: size_t,
    flags: u32,
    entry_size: size_t,
) -> ssize_t {
    let count = guard(|| {
        // SAFETY: contract of `ibv_query_gid_table`: the program passes null or an open context of
        // this library; `borrow` refuses null.
        let context = unsafe { Context::borrow(context)? };
        context.adapter.check()?;
        within(Errno::NOT_SUPPORTED, "flags", flags, 0_u64)?;
        let count = context.adapter.host().gids.len();
        let valid = (0..count).filter_map(|index| Some((index, context.adapter.gid(index)?)));
        let gids: Vec<_> = valid.collect();
        if max_entries < gids.len() || entries.is_null() {
            let needed = "an array with room for all GIDs";
            return Err(Errno::wrong("max_entries", max_entries, needed));
        }
        for (place, (index, entry)) in gids.iter().enumerate() {
            let slot = entries.wrapping_byte_add(place * entry_size);
            // SAFETY: contract of `ibv_query_gid_table`: the program's array has `max_entries`
            // structs of `entry_size` bytes, and this is one of them.
            unsafe { super::copy_sized(slot, &gid_entry(entry, *index), entry_size)? };
        }
        Ok(gids.len() as ssize_t)
    });
    count.unwrap_or_else(|errno| {
        refused("ibv_query_gid_table", errno);
        -(errno.number() as ssize_t)
    })
}

/// `ibv_query_gid_type`, private to rdma-core and used by its tools: 0, or -1 and errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_ibv_query_gid_type(
    context: *mut ibv_context,
    port: u8,
    index: c_uint,
    kind: *mut c_int,
) -> c_int {
    minus_one("ibv_query_gid_type", || {
        // SAFETY: contract of `ibv_query_gid_type`: the context is null or an open context of this
        // library, and the pointer null or valid; null is refused.
        let (context, kind) = unsafe { (Context::borrow(context)?, kind.as_mut()) };
        gid(context, u32::from(port), index as usize)?.ok_or(Errno::NO_DATA)?;
        *kind.ok_or_else(|| Errno::null("kind"))? = IBV_GID_TYPE_SYSFS_ROCE_V2;
        Ok(0)
    })
}

/// `ibv_query_pkey`, in network byte order: 0, or -1 and errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    p_key: *mut u16,
) -> c_int {
    minus_one("ibv_query_pkey", || {
        // SAFETY: contract of `ibv_query_pkey`: the context is null or an open context of this
        // library, and the pointer null or valid; null is refused.
        let (context, p_key) = unsafe { (Context::borrow(context)?, p_key.as_mut()) };
        context.adapter.check()?;
        check_port(port.into())?;
        if index != 0 {
            return Err(Errno::wrong("index", index, "0, the port has one P_Key"));
        }
        *p_key.ok_or_else(|| Errno::null("p_key"))? = identity::P_KEY.to_be();
        Ok(0)
    })
}

/// `ibv_get_pkey_index`: the index, or -1 and errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_pkey_index(
    context: *mut ibv_context,
    port: u8,
    p_key: u16,
) -> c_int {
    minus_one("ibv_get_pkey_index", || {
        // SAFETY: contract of `ibv_get_pkey_index`: the program passes null or an open context of
        // this library; `borrow` refuses null.
        unsafe { Context::borrow(context)? }.adapter.check()?;
        check_port(port.into())?;
        if u16::from_be(p_key) == identity::P_KEY {
            Ok(0)
        } else {
            let given = Shown::Bits(u16::from_be(p_key).into());
            Err(Errno::wrong(
                "pkey",
                given,
                "0xffff, the port has one P_Key",
            ))
        }
    })
}

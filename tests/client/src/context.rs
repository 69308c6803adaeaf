//! Devices and contexts: queries of the device itself.

use std::ffi::{CStr, c_int};
use std::mem::{offset_of, zeroed};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use crate::object::{Errno, Object, Outcome, check, check_pointer, errno, handle, operation};
use crate::sys::*;

/// Time limit for an event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

handle! {
    /// An open device.
    Context, ibv_context
}

/// Returns name and GUID (host byte order) of every device.
pub fn devices() -> Outcome<Vec<(String, u64)>> {
    let mut count: c_int = -1;
    // SAFETY: the list ends after `count` entries and is freed once, after its last use.
    unsafe {
        let list = check_pointer(ibv_get_device_list(&mut count))?;
        let found = (0..count as usize).map(|index| {
            let device = *list.add(index);
            let name = CStr::from_ptr(ibv_get_device_name(device));
            let guid = u64::from_be(ibv_get_device_guid(device));
            (name.to_string_lossy().into_owned(), guid)
        });
        let found = found.collect();
        ibv_free_device_list(list);
        Ok(found)
    }
}

impl Context {
    /// Opens the first device.
    pub fn open() -> Self {
        Self::open_nth(0).expect("there is a device, and it opens")
    }

    /// Opens the device with this index.
    pub fn open_nth(index: usize) -> Outcome<Self> {
        let mut count: c_int = 0;
        // SAFETY: `index` is checked against the length of the list.
        let raw = unsafe {
            let list = check_pointer(ibv_get_device_list(&mut count))?;
            let raw = if index < count as usize {
                check_pointer(ibv_open_device(*list.add(index)))
            } else {
                Err(libc::ENODEV)
            };
            ibv_free_device_list(list);
            raw?
        };
        Ok(Self(Object::new(raw, ibv_close_device, Vec::new())))
    }

    /// Returns the device's name.
    pub fn name(&self) -> String {
        // SAFETY: the context is open; the name lives as long as the device.
        let name = unsafe { CStr::from_ptr(ibv_get_device_name((*self.raw()).device)) };
        name.to_string_lossy().into_owned()
    }

    /// Returns the function table of the context, if it has a given field (`verbs_get_ctx_op` of
    /// the header).
    pub(crate) fn extended(&self) -> *mut verbs_context {
        let raw = self.raw();
        // SAFETY: `abi_compat` says that the context stands inside a `verbs_context`.
        unsafe {
            assert_eq!(
                (*raw).abi_compat as usize,
                usize::MAX,
                "an extended context"
            );
            raw.byte_sub(offset_of!(verbs_context, context)).cast()
        }
    }

    /// Calls `ibv_query_device`.
    pub fn query_device(&self) -> Outcome<ibv_device_attr> {
        let mut attr = ibv_device_attr::default();
        // SAFETY: the verb fills the structure.
        check(unsafe { ibv_query_device(self.raw(), &mut attr) })?;
        Ok(attr)
    }

    /// Calls `ibv_query_device_ex`, with a `comp_mask` in the input.
    pub fn query_device_ex(&self, comp_mask: u32) -> Outcome<ibv_device_attr_ex> {
        let mut attr = ibv_device_attr_ex::default();
        let input = ibv_query_device_ex_input { comp_mask };
        let size = size_of_val(&attr);
        // SAFETY: the verb fills as much as `size` allows.
        check(unsafe {
            let table = self.extended();
            operation!(table, query_device_ex)(self.raw(), &input, &mut attr, size)
        })?;
        Ok(attr)
    }

    /// Calls `ibv_query_port`.
    pub fn query_port(&self, port: u8) -> Outcome<ibv_port_attr> {
        let mut attr = ibv_port_attr::default();
        let size = size_of_val(&attr);
        // SAFETY: the verb fills as much as `size` allows.
        check(unsafe {
            let table = self.extended();
            operation!(table, query_port)(self.raw(), port, &mut attr, size)
        })?;
        Ok(attr)
    }

    /// Calls `ibv_query_gid`.
    pub fn query_gid(&self, port: u8, index: c_int) -> Outcome<ibv_gid> {
        let mut gid = ibv_gid::default();
        // SAFETY: the verb fills the GID.
        check(unsafe { ibv_query_gid(self.raw(), port, index, &mut gid) })?;
        Ok(gid)
    }

    /// Calls `ibv_query_gid_ex`.
    pub fn query_gid_ex(&self, port: u32, index: u32, flags: u32) -> Outcome<ibv_gid_entry> {
        let mut entry = ibv_gid_entry::default();
        let size = size_of_val(&entry);
        // SAFETY: the verb fills as much as `size` allows.
        check(unsafe { _ibv_query_gid_ex(self.raw(), port, index, &mut entry, flags, size) })?;
        Ok(entry)
    }

    /// Calls `ibv_query_gid_table` with room for `max` entries.
    pub fn query_gid_table(&self, max: usize, flags: u32) -> Outcome<Vec<ibv_gid_entry>> {
        let mut entries = vec![ibv_gid_entry::default(); max];
        let size = size_of::<ibv_gid_entry>();
        // SAFETY: there is room for `max` entries of `size`.
        let found =
            unsafe { _ibv_query_gid_table(self.raw(), entries.as_mut_ptr(), max, flags, size) };
        if found < 0 {
            return Err(-found as Errno);
        }
        entries.truncate(found as usize);
        Ok(entries)
    }

    /// Calls `ibv_query_pkey`, in host byte order.
    pub fn query_pkey(&self, port: u8, index: c_int) -> Outcome<u16> {
        let mut pkey = 0;
        // SAFETY: the verb fills the key.
        check(unsafe { ibv_query_pkey(self.raw(), port, index, &mut pkey) })?;
        Ok(u16::from_be(pkey))
    }

    /// Calls `ibv_get_pkey_index`: the index, or a negative number.
    pub fn pkey_index(&self, port: u8, pkey: u16) -> c_int {
        // SAFETY: plain values.
        unsafe { ibv_get_pkey_index(self.raw(), port, pkey.to_be()) }
    }

    /// Calls `ibv_query_rt_values_ex`: the raw clock.
    pub fn raw_clock(&self) -> Outcome<u64> {
        let mut values = ibv_values_ex {
            comp_mask: IBV_VALUES_MASK_RAW_CLOCK,
            ..Default::default()
        };
        // SAFETY: the verb fills the structure.
        check(unsafe {
            let table = self.extended();
            operation!(table, query_rt_values)(self.raw(), &mut values)
        })?;
        assert_eq!(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
        let clock = values.raw_clock;
        Ok(clock.tv_sec as u64 * 1_000_000_000 + clock.tv_nsec as u64)
    }

    /// Returns the descriptor on which asynchronous events arrive.
    pub fn async_fd(&self) -> c_int {
        // SAFETY: the context is open.
        unsafe { (*self.raw()).async_fd }
    }

    /// Returns the next asynchronous event, acknowledged; its element as a number.
    pub fn async_event(&self) -> (ibv_event_type, usize) {
        assert!(readable(self.async_fd(), EVENT_TIMEOUT), "no async event");
        // SAFETY: the verb fills the event, which is acknowledged once.
        unsafe {
            let mut event: ibv_async_event = zeroed();
            assert_eq!(ibv_get_async_event(self.raw(), &mut event), 0);
            let element =
                if (IBV_EVENT_DEVICE_FATAL..=IBV_EVENT_SM_CHANGE).contains(&event.event_type) {
                    event.element.port_num as usize
                } else {
                    event.element.qp as usize
                };
            ibv_ack_async_event(&mut event);
            (event.event_type, element)
        }
    }

    /// Fails the test unless no event comes within a moment.
    pub fn expect_no_async_event(&self) {
        assert!(!readable(self.async_fd(), Duration::from_millis(100)));
    }
}

/// Returns true if a descriptor becomes readable in time.
pub fn readable(fd: c_int, timeout: Duration) -> bool {
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // SAFETY: one entry.
        match unsafe { libc::poll(&mut entry, 1, left.as_millis() as c_int) } {
            -1 if errno() == libc::EINTR => {}
            found => return found == 1 && entry.revents & libc::POLLIN != 0,
        }
    }
}

/// Returns a GID as bytes.
pub fn gid_bytes(gid: &ibv_gid) -> [u8; 16] {
    // SAFETY: any bytes are valid.
    unsafe { gid.raw }
}

/// Returns a GID from bytes.
pub fn gid_of(raw: [u8; 16]) -> ibv_gid {
    ibv_gid { raw }
}

/// Returns the null pointer of a type, for calls of verbs without an object.
pub fn nothing<T>() -> *mut T {
    null_mut()
}

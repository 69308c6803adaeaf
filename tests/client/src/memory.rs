//! Protection domains, memory regions, windows and device memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{c_int, c_uint};
use std::ptr::{copy_nonoverlapping, null_mut};
use std::sync::Arc;

use crate::context::Context;
use crate::object::{Object, Outcome, check, check_pointer, handle, operation};
use crate::sys::*;

/// All access rights of a region.
pub const ALL_ACCESS: c_uint = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND;

/// `IBV_ACCESS_OPTIONAL_RANGE`, which is no constant for bindgen.
const OPTIONAL_ACCESS: c_uint = 0x3ff0_0000;
const PAGE: usize = 4096;

/// Memory that a device may write while the program reads it.
pub struct Buffer {
    base: *mut u8,
    layout: Layout,
}

// SAFETY: accessed through copies only; data races with the device are inherent in RDMA.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates zeroed memory at the start of a page.
    pub fn new(length: usize) -> Arc<Self> {
        let layout = Layout::from_size_align(length, PAGE).expect("a sane length");
        // SAFETY: the length is not 0.
        let base = unsafe { alloc_zeroed(layout) };
        assert!(!base.is_null());
        Arc::new(Self { base, layout })
    }

    /// Address of a byte.
    pub fn address(&self, offset: usize) -> u64 {
        assert!(offset <= self.layout.size());
        self.base as u64 + offset as u64
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.layout.size()
    }

    /// Copies bytes out.
    pub fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= self.length());
        let mut bytes = vec![0; length];
        // SAFETY: bounds are checked.
        unsafe { copy_nonoverlapping(self.base.add(offset), bytes.as_mut_ptr(), length) };
        bytes
    }

    /// Copies bytes in.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length());
        // SAFETY: bounds are checked.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), self.base.add(offset), bytes.len()) };
    }

    /// Sets every byte of a range.
    pub fn fill(&self, offset: usize, length: usize, byte: u8) {
        self.write(offset, &vec![byte; length]);
    }

    /// Returns a number as an atomic operation sees it.
    pub fn read_u64(&self, offset: usize) -> u64 {
        let bytes = self.read(offset, 8).try_into().expect("eight bytes");
        u64::from_ne_bytes(bytes)
    }

    /// Writes a number for an atomic operation.
    pub fn write_u64(&self, offset: usize, value: u64) {
        self.write(offset, &value.to_ne_bytes());
    }

    /// Returns the number as an atomic of the CPU.
    pub fn atomic(&self, offset: usize) -> &std::sync::atomic::AtomicU64 {
        assert!(offset + 8 <= self.length() && offset.is_multiple_of(8));
        // SAFETY: aligned, inside, and shared with atomic accesses only, as the caller guarantees.
        unsafe { std::sync::atomic::AtomicU64::from_ptr(self.base.add(offset).cast()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base, self.layout) };
    }
}

handle! {
    /// A protection domain, or a parent domain.
    Pd, ibv_pd
}
handle! {
    /// A memory region.
    Mr, ibv_mr
}
handle! {
    /// A memory window.
    Mw, ibv_mw
}
handle! {
    /// Memory of the device.
    Dm, ibv_dm
}
handle! {
    /// A thread domain.
    Td, ibv_td
}

unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    // SAFETY: the inline function of the header does just this.
    unsafe { operation!(&raw const (*(*mw).context).ops, dealloc_mw)(mw) }
}

unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    // SAFETY: the inline function of the header does just this.
    unsafe { operation!(extended((*dm).context), free_dm)(dm) }
}

unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    // SAFETY: the inline function of the header does just this.
    unsafe { operation!(extended((*td).context), dealloc_td)(td) }
}

/// # Safety
/// The context is an open one of a library with extended contexts.
pub(crate) unsafe fn extended(context: *mut ibv_context) -> *mut verbs_context {
    // SAFETY: the caller's promise.
    unsafe {
        context
            .byte_sub(std::mem::offset_of!(verbs_context, context))
            .cast()
    }
}

impl Context {
    /// Calls `ibv_alloc_pd`.
    pub fn alloc_pd(&self) -> Outcome<Pd> {
        // SAFETY: the context is open.
        let raw = check_pointer(unsafe { ibv_alloc_pd(self.raw()) })?;
        Ok(Pd(Object::new(raw, ibv_dealloc_pd, vec![self.parent()])))
    }

    /// Calls `ibv_alloc_td`.
    pub fn alloc_td(&self, comp_mask: u32) -> Outcome<Td> {
        let mut attr = ibv_td_init_attr { comp_mask };
        // SAFETY: the context is open.
        let raw =
            check_pointer(unsafe { operation!(self.extended(), alloc_td)(self.raw(), &mut attr) })?;
        Ok(Td(Object::new(raw, dealloc_td, vec![self.parent()])))
    }

    /// Calls `ibv_alloc_parent_domain`.
    pub fn alloc_parent_domain(&self, pd: &Pd, td: Option<&Td>) -> Outcome<Pd> {
        let mut attr = ibv_parent_domain_init_attr {
            pd: pd.raw(),
            td: td.map_or(null_mut(), Td::raw),
            ..Default::default()
        };
        // SAFETY: the attributes name living objects.
        let raw = check_pointer(unsafe {
            operation!(self.extended(), alloc_parent_domain)(self.raw(), &mut attr)
        })?;
        let mut parents = vec![pd.parent()];
        parents.extend(td.map(Td::parent));
        Ok(Pd(Object::new(raw, ibv_dealloc_pd, parents)))
    }

    /// Calls `ibv_alloc_dm`.
    pub fn alloc_dm(&self, length: usize, log_align: u32) -> Outcome<Dm> {
        let mut attr = ibv_alloc_dm_attr {
            length,
            log_align_req: log_align,
            comp_mask: 0,
        };
        // SAFETY: the context is open.
        let raw =
            check_pointer(unsafe { operation!(self.extended(), alloc_dm)(self.raw(), &mut attr) })?;
        Ok(Dm(Object::new(raw, free_dm, vec![self.parent()])))
    }
}

impl Dm {
    /// Calls `ibv_memcpy_to_dm`.
    pub fn copy_in(&self, offset: u64, bytes: &[u8]) -> Outcome<()> {
        // SAFETY: as many bytes as are named.
        check(unsafe {
            operation!(self.raw(), memcpy_to_dm)(
                self.raw(),
                offset,
                bytes.as_ptr().cast(),
                bytes.len(),
            )
        })
    }

    /// Calls `ibv_memcpy_from_dm`.
    pub fn copy_out(&self, offset: u64, length: usize) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0_u8; length];
        // SAFETY: as many bytes as are named.
        check(unsafe {
            operation!(self.raw(), memcpy_from_dm)(
                bytes.as_mut_ptr().cast(),
                self.raw(),
                offset,
                length,
            )
        })?;
        Ok(bytes)
    }
}

impl Pd {
    fn region(&self, raw: *mut ibv_mr, more: Option<crate::object::Parent>) -> Outcome<Mr> {
        let raw = check_pointer(raw)?;
        let mut parents = vec![self.parent()];
        parents.extend(more);
        Ok(Mr(Object::new(raw, ibv_dereg_mr, parents)))
    }

    /// Calls `ibv_reg_mr` of a whole buffer.
    pub fn register(&self, buffer: &Arc<Buffer>, access: c_uint) -> Outcome<Mr> {
        self.register_part(buffer, 0, buffer.length(), access)
    }

    /// Calls `ibv_reg_mr` of a part.
    pub fn register_part(
        &self,
        buffer: &Arc<Buffer>,
        offset: usize,
        length: usize,
        access: c_uint,
    ) -> Outcome<Mr> {
        let raw = self.register_raw(buffer.address(offset), length, access);
        self.region(raw, Some(buffer.clone()))
    }

    /// Calls `ibv_reg_mr` with any address; it must fail if there is no memory.
    pub fn register_raw(&self, address: u64, length: usize, access: c_uint) -> *mut ibv_mr {
        let iova = address;
        // SAFETY: registering does not access the memory.
        unsafe {
            if access & OPTIONAL_ACCESS == 0 {
                ibv_reg_mr(self.raw(), address as *mut _, length, access as c_int)
            } else {
                ibv_reg_mr_iova2(self.raw(), address as *mut _, length, iova, access)
            }
        }
    }

    /// Calls `ibv_reg_mr_iova`.
    pub fn register_iova(&self, buffer: &Arc<Buffer>, iova: u64, access: c_uint) -> Outcome<Mr> {
        let (address, length) = (buffer.address(0) as *mut _, buffer.length());
        // SAFETY: the buffer lives as long as the region.
        let raw = unsafe { ibv_reg_mr_iova(self.raw(), address, length, iova, access as c_int) };
        self.region(raw, Some(buffer.clone()))
    }

    /// Calls `ibv_reg_dmabuf_mr`.
    pub fn register_dmabuf(&self, fd: c_int, length: usize) -> Outcome<Mr> {
        let access = IBV_ACCESS_LOCAL_WRITE as c_int;
        // SAFETY: plain values.
        let raw = unsafe { ibv_reg_dmabuf_mr(self.raw(), 0, length, 0, fd, access) };
        self.region(raw, None)
    }

    /// Calls `ibv_alloc_null_mr`.
    pub fn alloc_null_mr(&self) -> Outcome<Mr> {
        // SAFETY: the PD is alive.
        let raw = unsafe { operation!(extended((*self.raw()).context), alloc_null_mr)(self.raw()) };
        self.region(raw, None)
    }

    /// Calls `ibv_reg_dm_mr`.
    pub fn register_dm(&self, dm: &Dm, offset: u64, length: usize, access: c_uint) -> Outcome<Mr> {
        // SAFETY: both are alive.
        let raw = unsafe {
            let table = extended((*self.raw()).context);
            operation!(table, reg_dm_mr)(self.raw(), dm.raw(), offset, length, access)
        };
        self.region(raw, Some(dm.parent()))
    }

    /// Calls `ibv_advise_mr`.
    pub fn advise(&self, advice: u32, flags: u32, sges: &mut [ibv_sge]) -> Outcome<()> {
        // SAFETY: as many elements as are named.
        check(unsafe {
            let table = extended((*self.raw()).context);
            let count = sges.len() as u32;
            match (*table).advise_mr {
                Some(advise) => advise(self.raw(), advice, flags, sges.as_mut_ptr(), count),
                None => libc::EOPNOTSUPP,
            }
        })
    }

    /// Calls `ibv_alloc_mw`.
    pub fn alloc_mw(&self, window_type: ibv_mw_type) -> Outcome<Mw> {
        // SAFETY: the PD is alive.
        let raw = check_pointer(unsafe {
            let ops = &raw const (*(*self.raw()).context).ops;
            operation!(ops, alloc_mw)(self.raw(), window_type)
        })?;
        // Does the same as the header's inline function.
        Ok(Mw(Object::new(raw, dealloc_mw, vec![self.parent()])))
    }
}

impl Mr {
    /// Returns the local key.
    pub fn lkey(&self) -> u32 {
        // SAFETY: alive.
        unsafe { (*self.raw()).lkey }
    }

    /// Returns the remote key.
    pub fn rkey(&self) -> u32 {
        // SAFETY: alive.
        unsafe { (*self.raw()).rkey }
    }

    /// Returns address and length from the structure.
    pub fn range(&self) -> (u64, usize) {
        // SAFETY: alive.
        unsafe { ((*self.raw()).addr as u64, (*self.raw()).length) }
    }

    /// Returns a data segment.
    pub fn sge(&self, address: u64, length: u32) -> ibv_sge {
        ibv_sge {
            addr: address,
            length,
            lkey: self.lkey(),
        }
    }

    /// Calls `ibv_rereg_mr`; returns one of `ibv_rereg_mr_err_code`, and errno.
    pub fn reregister(
        &self,
        flags: c_uint,
        pd: Option<&Pd>,
        range: Option<(u64, usize)>,
        access: c_uint,
    ) -> Result<(), (c_int, i32)> {
        let (address, length) = range.unwrap_or((0, 0));
        let pd = pd.map_or(null_mut(), Pd::raw);
        // SAFETY: the caller keeps the memory for as long as the region.
        let result = unsafe {
            let flags = flags as c_int;
            ibv_rereg_mr(
                self.raw(),
                flags,
                pd,
                address as *mut _,
                length,
                access as c_int,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err((result, crate::object::errno()))
        }
    }
}

impl Mw {
    /// Returns the remote key in the structure.
    pub fn rkey(&self) -> u32 {
        // SAFETY: alive.
        unsafe { (*self.raw()).rkey }
    }

    /// Calls `ibv_inc_rkey`: the key with the next low byte.
    pub fn next_rkey(&self) -> u32 {
        let key = self.rkey();
        (key & 0xffff_ff00) | (key.wrapping_add(1) & 0xff)
    }
}

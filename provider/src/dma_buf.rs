//! Regions of dma-bufs: memory that another driver, a program or this device exports as a
//! descriptor.
//!
//! The kernel makes the same checks in the same order: clients find out by calls with wrong
//! arguments whether dma-bufs are supported. A dma-buf is mapped into this process and then
//! registered like memory, at the IOVA of the program's choice.

use ferroce_driver::bus::{BusError, DmaFile, PAGE_SIZE};
use ferroce_driver::{Error, MemoryRange, MemoryRegion};
use ferroce_embed::dma_buf::{self, Stand};
use libc::c_int;

use crate::abi::*;
use crate::domain::Domain;
use crate::errno::{Errno, Shown, within};
use crate::mr::{self, Mr};
use crate::os::descriptor::{FileKind, ProgramFile};
use crate::os::memory::{FileMapping, populate};

/// Access flags of these regions. Unlike for memory, all others are errors, even optional ones.
const KNOWN: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_RELAXED_ORDERING;
const PAGE_MASK: u64 = PAGE_SIZE as u64 - 1;

/// Arguments of `ibv_reg_dmabuf_mr`.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub descriptor: c_int,
    /// First byte of the region in the dma-buf.
    pub offset: u64,
    pub length: usize,
    /// Address of the first byte for work requests and the peer.
    pub iova: u64,
    /// `enum ibv_access_flags`.
    pub flags: u32,
}

/// Registers a dma-buf.
///
/// # Errors
/// In the kernel's order: `EINVAL` for `iova` and `offset` that differ within a page, for rights
/// that such regions do not have, and for a range that wraps around; `EBADF`; `EINVAL` for a file
/// that is no dma-buf, and for a range that is empty or not in it. Then `EOPNOTSUPP` for a dma-buf
/// that this process, or the device, cannot map.
pub fn register(domain: &Domain, request: &Request) -> Result<Mr, Errno> {
    domain.adapter.check()?;
    let Request { offset, length, .. } = *request;
    if (offset ^ request.iova) & PAGE_MASK != 0 {
        let right = "an address with the page offset of offset";
        return Err(Errno::wrong("iova", Shown::Bits(request.iova), right));
    }
    within(Errno::INVALID, "access", request.flags, KNOWN)?;
    let access = mr::access(request.flags)?;
    mr::check_range(offset, length)?;
    let file = ProgramFile::of(request.descriptor)?;
    check_kind(&file)?;
    let size = file.size()?;
    if offset + length as u64 > size {
        return Err(Errno::above(
            "offset + length",
            offset + length as u64,
            size,
        ));
    }
    if length == 0 {
        return Err(Errno::wrong("length", length, "at least 1"));
    }
    let mapping = FileMapping::new(&file, offset, length, access.local_write)?;
    if file.kind() != FileKind::DmaBuf {
        // The pages of a dma-buf are there.
        populate(mapping.address(), length, access.local_write)?;
    }
    let range = MemoryRange {
        address: mapping.address(),
        length,
        virtual_address: request.iova,
    };
    let descriptor = request.descriptor;
    let file = DmaFile { descriptor, offset };
    let region = MemoryRegion::register_file(&domain.protection, range, file, access);
    Ok(Mr::of_dma_buf(domain, region.map_err(refusal)?, mapping))
}

/// Checks that a file is a dma-buf, or may stand for one.
///
/// # Errors
/// `EINVAL`.
fn check_kind(file: &ProgramFile) -> Result<(), Errno> {
    let memfd = match dma_buf::from_environment() {
        Ok(stand) => stand == Stand::Memfd,
        Err(_) => {
            let text = "FERROCE_DMA_BUF has a wrong value; right: kernel, memfd, or not set";
            return Err(Errno::INVALID.because(text));
        }
    };
    match file.kind() {
        FileKind::DmaBuf | FileKind::Export => Ok(()),
        FileKind::Memory if memfd => Ok(()),
        FileKind::Memory => {
            let text = "fd is a memory file; right: a dma-buf, or `ferroce run --dma-buf memfd`";
            Err(Errno::INVALID.because(text))
        }
        FileKind::Other => Err(Errno::INVALID.because("fd is not a dma-buf")),
    }
}

/// Converts the driver's error: a bus that does not map the file does not support it.
fn refusal(error: Error) -> Errno {
    match error {
        Error::Bus(BusError::InvalidMapping | BusError::BadAddress | BusError::Os(_)) => {
            let text = "the device, which is not in this process, cannot map this dma-buf";
            Errno::NOT_SUPPORTED.because(text)
        }
        error => error.into(),
    }
}

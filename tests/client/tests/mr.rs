//! Memory regions: rights, ranges, keys, pages, rereg, null, device memory, paging.

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use ferroce_verbs_client::bench::{BUFFER, Bench, Service, TARGET, pattern};
use ferroce_verbs_client::harness::is_served;
use ferroce_verbs_client::memory::{ALL_ACCESS, Buffer, Mr};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

/// Returns the status of an operation on `length` bytes at `address` under `rkey`.
fn remote(bench: &Bench, opcode: ibv_wr_opcode, address: u64, rkey: u32, length: usize) -> u32 {
    let pair = bench.pair(Service::Rc);
    pair.post(
        SendWr::new(1, opcode)
            .sge(bench.sge(0, length))
            .remote(address, rkey),
    );
    bench.send_cq.next().status
}

fn write(bench: &Bench, address: u64, rkey: u32, length: usize) -> u32 {
    remote(bench, IBV_WR_RDMA_WRITE, address, rkey, length)
}

/// Returns the status of a local READ into this region.
fn read_into(bench: &Bench, mr: &Mr, address: u64) -> u32 {
    let pair = bench.pair(Service::Rc);
    let (source, key) = bench.remote(TARGET);
    pair.post(
        SendWr::new(1, IBV_WR_RDMA_READ)
            .sge(mr.sge(address, 8))
            .remote(source, key),
    );
    bench.send_cq.next().status
}

/// Size of a region whose pages are looked up before they are written.
const LARGE: usize = 8 << 20;
const PAGE: usize = 4096;

/// Maps a file in memory, of `pages` pages, in place of a buffer's pages. The pages are in memory,
/// but have not been accessed through the buffer's addresses.
fn map_file(buffer: &Buffer, pages: usize) -> File {
    // SAFETY: the name ends with NUL; the file has no other owner.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"mr".as_ptr(), libc::MFD_CLOEXEC)) };
    file.write_all_at(&vec![0; pages * PAGE], 0)
        .expect("room for the pages");
    let (address, length) = (buffer.address(0) as *mut _, buffer.length());
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: the pages of the buffer, which is accessed through copies only.
    let mapped = unsafe { libc::mmap(address, length, rights, flags, file.as_raw_fd(), 0) };
    assert_eq!(mapped, address);
    file
}

/// Returns the page faults of this thread so far.
fn faults() -> usize {
    // SAFETY: all zero is a valid value; the kernel fills in the structure.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage
    };
    usage.ru_minflt as usize
}

verbs_tests! {
    fn the_structure_has_address_and_length() {
        let bench = Bench::new();
        let mr = bench.pd.register_part(&bench.buffer, 100, 1000, 0).expect("reg_mr");
        assert_eq!(mr.range(), (bench.buffer.address(100), 1000));
        assert_ne!(mr.lkey(), bench.mr.lkey());
    }

    fn rights_that_contradict_are_refused() {
        let bench = Bench::new();
        for access in [IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC] {
            let result = bench.pd.register(&bench.buffer, access);
            assert_eq!(result.err(), Some(libc::EINVAL), "{access:#x} without LOCAL_WRITE");
        }
        assert!(bench.pd.register(&bench.buffer, 1 << 19).is_err(), "an unknown right");
    }

    /// A region of no bytes has keys, which work for transfers of no bytes.
    fn a_region_of_no_bytes() {
        let bench = Bench::new();
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        for start in [0, 100, 4096] {
            let mr = bench.pd.register_part(&bench.buffer, start, 0, access).expect("reg_mr");
            let address = bench.buffer.address(start);
            assert_eq!(mr.range(), (address, 0));
            for opcode in [IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ] {
                let status = |length| remote(&bench, opcode, address, mr.rkey(), length);
                assert_eq!(status(0), IBV_WC_SUCCESS);
                assert_eq!(status(1), IBV_WC_REM_ACCESS_ERR);
            }
            let pair = bench.pair(Service::Rc);
            pair.post(SendWr::new(1, IBV_WR_SEND).sge(mr.sge(address, 1)));
            bench.send_cq.expect(1, IBV_WC_LOC_PROT_ERR);
        }
    }

    fn memory_that_is_not_there_is_refused() {
        let bench = Bench::new();
        assert!(bench.pd.register_raw(0x1000, 4096, IBV_ACCESS_LOCAL_WRITE).is_null());
        assert_eq!(ferroce_verbs_client::object::errno(), libc::EFAULT);
    }

    /// Goal: a large region is refused if any page does not allow the access, although the pages
    /// before it are in memory.
    fn large_memory_that_is_not_there_is_refused() {
        let bench = Bench::new();
        let register = |buffer, access| bench.pd.register(buffer, access).err();
        let short = Buffer::new(LARGE);
        let _file = map_file(&short, LARGE / PAGE - 1);
        for access in [0, ALL_ACCESS] {
            let result = register(&short, access);
            assert_eq!(result, Some(libc::EFAULT), "the end of the file");
        }
        let buffer = Buffer::new(LARGE);
        let protect = |rights| {
            let last = buffer.address(LARGE - PAGE) as *mut _;
            // SAFETY: a page of the buffer, which is not accessed before it may be written again.
            assert_eq!(unsafe { libc::mprotect(last, PAGE, rights) }, 0);
        };
        protect(libc::PROT_NONE);
        assert_eq!(register(&buffer, 0), Some(libc::EFAULT), "no rights");
        protect(libc::PROT_READ);
        assert_eq!(register(&buffer, 0), None);
        assert_eq!(register(&buffer, ALL_ACCESS), Some(libc::EFAULT), "read only");
        protect(libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(register(&buffer, ALL_ACCESS), None);
    }

    /// Goal: registering pages that are in memory causes no page fault, and the device writes these
    /// pages. Method: pages of a file, each of which causes a fault at its first access.
    fn pages_that_are_there_cost_no_fault() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let buffer = Buffer::new(LARGE);
        let file = map_file(&buffer, LARGE / PAGE);
        let before = faults();
        let mr = bench.pd.register(&buffer, ALL_ACCESS).expect("reg_mr");
        let count = faults() - before;
        // The driver and its tables cause some faults.
        assert!(count < LARGE / PAGE / 8, "{count} faults");
        bench.buffer.write(0, &pattern(64, 5));
        let at = LARGE - 64;
        assert_eq!(write(&bench, buffer.address(at), mr.rkey(), 64), IBV_WC_SUCCESS);
        let mut bytes = [0; 64];
        file.read_exact_at(&mut bytes, at as u64).expect("the end of the file");
        assert_eq!(bytes[..], pattern(64, 5));
    }

    /// Goal: registration brings pages into memory, as pinning for a card does.
    fn pages_that_are_not_there_are_brought_in() {
        let bench = Bench::new();
        let buffer = Buffer::new(LARGE);
        let (address, half) = (buffer.address(0) as *mut _, LARGE / 2);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: new pages in place of the buffer's, which is accessed through copies only.
        assert_eq!(unsafe { libc::mmap(address, LARGE, rights, flags, -1, 0) }, address);
        let touch = |part: Range<usize>| part.step_by(PAGE).for_each(|at| buffer.write(at, &[1]));
        touch(0..half);
        let mr = bench.pd.register(&buffer, ALL_ACCESS).expect("reg_mr");
        let before = faults();
        touch(half..LARGE);
        let count = faults() - before;
        assert!(count < half / PAGE / 8, "{count} faults");
        mr.destroy().expect("dereg_mr");
    }

    /// The result of each operation with each single right.
    fn each_right_counts() {
        let bench = Bench::new();
        let local = IBV_ACCESS_LOCAL_WRITE;
        for (access, written, read, atomic) in [
            (local, false, false, false),
            (local | IBV_ACCESS_REMOTE_WRITE, true, false, false),
            (local | IBV_ACCESS_REMOTE_READ, false, true, false),
            (IBV_ACCESS_REMOTE_READ, false, true, false),
            (local | IBV_ACCESS_REMOTE_ATOMIC, false, false, true),
        ] {
            let mr = bench.pd.register(&bench.buffer, access).expect("reg_mr");
            let address = bench.buffer.address(TARGET);
            for (opcode, allowed) in [
                (IBV_WR_RDMA_WRITE, written),
                (IBV_WR_RDMA_READ, read),
                (IBV_WR_ATOMIC_FETCH_AND_ADD, atomic),
                (IBV_WR_ATOMIC_CMP_AND_SWP, atomic),
            ] {
                let expected = if allowed { IBV_WC_SUCCESS } else { IBV_WC_REM_ACCESS_ERR };
                let status = remote(&bench, opcode, address, mr.rkey(), 8);
                assert_eq!(status, expected, "access {access:#x}, opcode {opcode}");
            }
        }
    }

    fn without_local_write_nothing_lands() {
        let bench = Bench::new();
        let mr = bench.pd.register(&bench.buffer, 0).expect("reg_mr");
        assert_eq!(read_into(&bench, &mr, bench.buffer.address(0)), IBV_WC_LOC_PROT_ERR);
        let pair = bench.pair(Service::Rc);
        pair.post_receive(5, mr.sge(bench.buffer.address(TARGET), 8));
        pair.post(SendWr::new(6, IBV_WR_SEND).sge(bench.sge(0, 8)));
        bench.send_cq.expect(6, IBV_WC_REM_OP_ERR);
        bench.receive_cq.expect(5, IBV_WC_LOC_PROT_ERR);
    }

    /// The first and the last byte are inside of the region, their neighbours are not.
    fn bounds_are_exact() {
        let bench = Bench::new();
        let (offset, length) = (TARGET + 100, 5000);
        let mr = bench.pd.register_part(&bench.buffer, offset, length, ALL_ACCESS).expect("reg_mr");
        let start = bench.buffer.address(offset);
        for (address, size, expected) in [
            (start, length, IBV_WC_SUCCESS),
            (start, 1, IBV_WC_SUCCESS),
            (start + length as u64 - 1, 1, IBV_WC_SUCCESS),
            (start - 1, 1, IBV_WC_REM_ACCESS_ERR),
            (start - 1, 2, IBV_WC_REM_ACCESS_ERR),
            (start + length as u64, 1, IBV_WC_REM_ACCESS_ERR),
            (start, length + 1, IBV_WC_REM_ACCESS_ERR),
            (u64::MAX, 8, IBV_WC_REM_ACCESS_ERR),
        ] {
            assert_eq!(write(&bench, address, mr.rkey(), size), expected, "{address:#x}, {size}");
        }
    }

    fn a_key_dies_with_its_region() {
        let bench = Bench::new();
        let mr = bench.pd.register(&bench.buffer, ALL_ACCESS).expect("reg_mr");
        let (key, address) = (mr.rkey(), bench.buffer.address(TARGET));
        assert_eq!(write(&bench, address, key, 8), IBV_WC_SUCCESS);
        mr.destroy().expect("dereg_mr");
        assert_eq!(write(&bench, address, key, 8), IBV_WC_REM_ACCESS_ERR);
        let again = bench.pd.register(&bench.buffer, ALL_ACCESS).expect("reg_mr");
        assert_ne!(again.rkey(), key, "a key is not given out again at once");
    }

    fn iova_and_zero_based() {
        let bench = Bench::new();
        for iova in [0, 0x1234_5000, 0xffff_0000_0000_0000] {
            let mr = bench.pd.register_iova(&bench.buffer, iova, ALL_ACCESS).expect("reg_mr_iova");
            bench.buffer.write(0, &pattern(64, 9));
            bench.buffer.fill(TARGET, 64, 0);
            assert_eq!(write(&bench, iova + TARGET as u64, mr.rkey(), 64), IBV_WC_SUCCESS);
            assert_eq!(bench.buffer.read(TARGET, 64), pattern(64, 9));
            let outside = write(&bench, iova + BUFFER as u64, mr.rkey(), 1);
            assert_eq!(outside, IBV_WC_REM_ACCESS_ERR);
        }
        let access = ALL_ACCESS | IBV_ACCESS_ZERO_BASED;
        let mr = bench.pd.register_part(&bench.buffer, TARGET + 24, 4096, access).expect("reg_mr");
        bench.buffer.fill(TARGET, 128, 0);
        assert_eq!(write(&bench, 8, mr.rkey(), 64), IBV_WC_SUCCESS);
        assert_eq!(bench.buffer.read(TARGET + 32, 64), pattern(64, 9));
    }

    fn relaxed_ordering_is_taken() {
        let bench = Bench::new();
        let access = ALL_ACCESS | IBV_ACCESS_RELAXED_ORDERING;
        let mr = bench.pd.register(&bench.buffer, access).expect("reg_mr");
        assert_eq!(write(&bench, bench.buffer.address(TARGET), mr.rkey(), 8), IBV_WC_SUCCESS);
    }

    /// The flag for huge pages is for explicit on-demand paging only (`ibv_reg_mr(3)`).
    fn huge_pages_without_paging_are_refused() {
        let bench = Bench::new();
        let result = bench.pd.register(&bench.buffer, ALL_ACCESS | IBV_ACCESS_HUGETLB).err();
        assert_eq!(result, Some(libc::EINVAL));
    }

    fn rereg_changes_rights() {
        let bench = Bench::new();
        let mr = bench.pd.register(&bench.buffer, ALL_ACCESS).expect("reg_mr");
        let address = bench.buffer.address(TARGET);
        mr.reregister(IBV_REREG_MR_CHANGE_ACCESS, None, None, IBV_ACCESS_LOCAL_WRITE)
            .expect("rereg_mr");
        assert_eq!(write(&bench, address, mr.rkey(), 8), IBV_WC_REM_ACCESS_ERR);
        mr.reregister(IBV_REREG_MR_CHANGE_ACCESS, None, None, ALL_ACCESS).expect("rereg_mr");
        assert_eq!(write(&bench, address, mr.rkey(), 8), IBV_WC_SUCCESS);
    }

    fn rereg_changes_the_domain() {
        let bench = Bench::new();
        let other = bench.context.alloc_pd().expect("a PD");
        let mr = bench.pd.register(&bench.buffer, ALL_ACCESS).expect("reg_mr");
        let address = bench.buffer.address(TARGET);
        mr.reregister(IBV_REREG_MR_CHANGE_PD, Some(&other), None, 0).expect("rereg_mr");
        assert_eq!(write(&bench, address, mr.rkey(), 8), IBV_WC_REM_ACCESS_ERR);
        assert_eq!(other.destroy(), Err(libc::EBUSY));
        mr.reregister(IBV_REREG_MR_CHANGE_PD, Some(&bench.pd), None, 0).expect("rereg_mr");
        assert_eq!(write(&bench, address, mr.rkey(), 8), IBV_WC_SUCCESS);
        other.destroy().expect("unused again");
    }

    fn rereg_changes_the_range() {
        let bench = Bench::new();
        let mr = bench.pd.register_part(&bench.buffer, 0, 4096, ALL_ACCESS).expect("reg_mr");
        let range = (bench.buffer.address(TARGET), 8192);
        mr.reregister(IBV_REREG_MR_CHANGE_TRANSLATION, None, Some(range), 0).expect("rereg_mr");
        assert_eq!(mr.range(), range);
        assert_eq!(write(&bench, range.0 + 8000, mr.rkey(), 192), IBV_WC_SUCCESS);
        let old = write(&bench, bench.buffer.address(0), mr.rkey(), 8);
        assert_eq!(old, IBV_WC_REM_ACCESS_ERR);
    }

    fn rereg_refuses() {
        let bench = Bench::new();
        let mr = bench.pd.register(&bench.buffer, ALL_ACCESS).expect("reg_mr");
        let refused = |flags, range, access| {
            let (code, errno) = mr.reregister(flags, None, range, access).expect_err("refused");
            assert_eq!((code, errno), (IBV_REREG_MR_ERR_INPUT, libc::EINVAL), "{flags:#x}");
        };
        refused(1 << 8, None, 0);
        refused(IBV_REREG_MR_CHANGE_TRANSLATION, Some((0, 0)), 0);
        refused(IBV_REREG_MR_CHANGE_TRANSLATION, Some((0, 64)), 0);
        // The region is unchanged.
        assert_eq!(write(&bench, bench.buffer.address(TARGET), mr.rkey(), 8), IBV_WC_SUCCESS);
    }

    /// A null region discards writes and reads as zeroes.
    fn null_regions() {
        let bench = Bench::new();
        let null = bench.pd.alloc_null_mr().expect("alloc_null_mr");
        let pair = bench.pair(Service::Rc);
        let (source, key) = bench.remote(TARGET);
        pair.post(SendWr::new(1, IBV_WR_RDMA_READ).sge(null.sge(0x123, 64)).remote(source, key));
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        pair.post_receive(2, null.sge(0, 4096));
        pair.post(SendWr::new(3, IBV_WR_SEND).sge(bench.sge(0, 4096)));
        bench.send_cq.expect(3, IBV_WC_SUCCESS);
        assert_eq!(bench.receive_cq.expect(2, IBV_WC_SUCCESS).byte_len, 4096);
        null.destroy().expect("dereg_mr");
    }

    fn paging_is_refused_unless_it_is_advertised() {
        let bench = Bench::new();
        let ex = bench.context.query_device_ex(0).expect("query_device_ex");
        let result = bench.pd.register(&bench.buffer, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
        let advertised = ex.odp_caps.general_caps & u64::from(IBV_ODP_SUPPORT) != 0;
        assert_eq!(result.is_ok(), advertised, "{:?}", result.err());
        if !advertised {
            assert_eq!(result.err(), Some(libc::EOPNOTSUPP));
        }
    }

    /// `tests/dma_buf.rs` has the whole list, and dma-bufs.
    fn what_is_no_dma_buf_is_refused() {
        let bench = Bench::new();
        let closed = bench.pd.register_dmabuf(-1, 4096);
        assert_eq!(closed.err(), Some(libc::EBADF));
        let file = File::open("/dev/null").expect("Linux has it");
        let other = bench.pd.register_dmabuf(file.as_raw_fd(), 4096);
        assert_eq!(other.err(), Some(libc::EINVAL));
    }

    /// Advice is for on-demand regions (tests/on_demand.rs).
    fn advice_is_refused_for_pinned_regions() {
        let bench = Bench::new();
        let mut sges = [bench.sge(0, 4096)];
        let result = bench.pd.advise(IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, 0, &mut sges);
        let ex = bench.context.query_device_ex(0).expect("query_device_ex");
        let is_lacking = ex.odp_caps.general_caps == 0;
        let expected = if is_lacking { libc::EOPNOTSUPP } else { libc::ENOENT };
        assert_eq!(result, Err(expected));
        assert_eq!(bench.pd.advise(77, 0, &mut sges), Err(libc::EOPNOTSUPP));
    }

    /// Goal: max_mr is correct. Method: register a small page many times, in one process.
    fn max_mr_is_true() {
        let bench = Bench::new();
        let max = bench.context.query_device().expect("query_device").max_mr;
        let buffer = Buffer::new(4096);
        // The bench has one region.
        let all: Vec<_> = (1..max)
            .map(|_| bench.pd.register(&buffer, 0).expect("below max_mr"))
            .collect();
        assert_eq!(bench.pd.register(&buffer, 0).err(), Some(libc::ENOMEM));
        all[0].destroy().expect("dereg_mr");
        bench.pd.register(&buffer, 0).expect("there is room again");
    }

    fn a_large_region_works_to_its_end() {
        let bench = Bench::new();
        let buffer = Buffer::new(256 << 20);
        let mr = bench.pd.register(&buffer, ALL_ACCESS).expect("reg_mr");
        let end = buffer.length() - 64;
        bench.buffer.write(0, &pattern(64, 3));
        assert_eq!(write(&bench, buffer.address(end), mr.rkey(), 64), IBV_WC_SUCCESS);
        assert_eq!(buffer.read(end, 64), pattern(64, 3));
    }
}

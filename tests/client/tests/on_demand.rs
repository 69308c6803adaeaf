//! On-demand paging: the device follows the program's page tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferroce_verbs_client::bench::{Bench, Pair, SERVICES, Service, TARGET, pattern};
use ferroce_verbs_client::harness::is_served;
use ferroce_verbs_client::memory::{ALL_ACCESS, Buffer, Mr, Pd};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::{Bind, SendWr};

const PAGE: usize = 4096;
const LENGTH: usize = 16 * PAGE;
const ON_DEMAND: u32 = ALL_ACCESS | IBV_ACCESS_ON_DEMAND;
const PREFETCH: u32 = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH;
const PREFETCH_WRITE: u32 = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
const PREFETCH_NO_FAULT: u32 = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
const FLUSH: u32 = IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
/// Memory of the program that no region names.
static NEVER_REGISTERED: AtomicU64 = AtomicU64::new(0);
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Maps new, empty pages in place of a buffer's.
fn map_anew(buffer: &Buffer) {
    let (address, length) = (buffer.address(0) as *mut _, buffer.length());
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the pages of the buffer, which is accessed through copies only.
    let mapped = unsafe { libc::mmap(address, length, READ_WRITE, flags, -1, 0) };
    assert_eq!(mapped, address);
}

fn unmap(buffer: &Buffer) {
    let (address, length) = (buffer.address(0) as *mut _, buffer.length());
    // SAFETY: the pages of the buffer; nothing but the device accesses them until `map_anew`.
    assert_eq!(unsafe { libc::munmap(address, length) }, 0);
}

fn protect(buffer: &Buffer, rights: i32) {
    let (address, length) = (buffer.address(0) as *mut _, buffer.length());
    // SAFETY: as in `unmap`; the test restores the rights before it accesses the buffer.
    assert_eq!(unsafe { libc::mprotect(address, length, rights) }, 0);
}

fn discard(buffer: &Buffer) {
    let (address, length) = (buffer.address(0) as *mut _, buffer.length());
    // SAFETY: the pages of the buffer, which is accessed through copies only.
    let status = unsafe { libc::madvise(address, length, libc::MADV_DONTNEED) };
    assert_eq!(status, 0);
}

/// Returns how many pages of a buffer are in memory.
fn resident(buffer: &Buffer) -> usize {
    let mut pages = vec![0u8; buffer.length() / PAGE];
    let (address, length) = (buffer.address(0) as *mut _, buffer.length());
    // SAFETY: one byte for each page.
    let status = unsafe { libc::mincore(address, length, pages.as_mut_ptr()) };
    assert_eq!(status, 0);
    pages.iter().filter(|page| **page & 1 != 0).count()
}

/// Returns a buffer of pages that were never touched, and a region of it.
fn on_demand(pd: &Pd) -> (Arc<Buffer>, Mr) {
    let buffer = Buffer::new(LENGTH);
    map_anew(&buffer);
    let mr = pd.register(&buffer, ON_DEMAND).expect("reg_mr");
    (buffer, mr)
}

/// Returns an implicit region.
fn implicit(pd: &Pd) -> *mut ibv_mr {
    pd.register_raw(0, usize::MAX, ON_DEMAND)
}

/// Returns the status of eight bytes between the bench's buffer and `address` of the peer.
fn remote(bench: &Bench, opcode: ibv_wr_opcode, address: u64, rkey: u32) -> u32 {
    let pair = bench.pair(Service::Rc);
    let request = SendWr::new(1, opcode).sge(bench.sge(0, 8));
    pair.post(request.remote(address, rkey));
    bench.send_cq.next().status
}

fn write(bench: &Bench, address: u64, rkey: u32) -> u32 {
    remote(bench, IBV_WR_RDMA_WRITE, address, rkey)
}

fn read(bench: &Bench, address: u64, rkey: u32) -> u32 {
    remote(bench, IBV_WR_RDMA_READ, address, rkey)
}

/// Sends eight bytes of `mr`; returns the status.
fn send_from(bench: &Bench, pair: &Pair, mr: &Mr, address: u64) -> u32 {
    pair.post_receive(5, bench.sge(TARGET, 64));
    pair.post(SendWr::new(6, IBV_WR_SEND).sge(mr.sge(address, 8)));
    bench.send_cq.next().status
}

verbs_tests! {
    fn capabilities_are_those_of_the_bus() {
        let bench = Bench::new();
        let caps = bench.context.query_device_ex(0).expect("query_device_ex").odp_caps;
        let xrc = bench.context.query_device_ex(0).expect("query_device_ex").xrc_odp_caps;
        let of = caps.per_transport_caps;
        if is_served() {
            assert_eq!((caps.general_caps, of.rc_odp_caps, of.ud_odp_caps, xrc), (0, 0, 0, 0));
            return;
        }
        assert_eq!(caps.general_caps, u64::from(IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT));
        assert_eq!((of.rc_odp_caps, xrc, of.uc_odp_caps), (0xff, 0xff, 0));
        let messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
        assert_eq!(of.ud_odp_caps, messages);
    }

    /// Goal: registration brings nothing into memory; an access brings in its own page.
    fn pages_come_with_the_access() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, mr) = on_demand(&bench.pd);
        assert_eq!(resident(&buffer), 0);
        bench.buffer.write(0, &pattern(8, 3));
        let at = 5 * PAGE + 100;
        assert_eq!(write(&bench, buffer.address(at), mr.rkey()), IBV_WC_SUCCESS);
        assert_eq!(resident(&buffer), 1);
        assert_eq!(buffer.read(at, 8), pattern(8, 3));
        assert_eq!(read(&bench, buffer.address(0), mr.rkey()), IBV_WC_SUCCESS);
        assert_eq!(bench.buffer.read(0, 8), [0; 8]);
        let add = remote(&bench, IBV_WR_ATOMIC_FETCH_AND_ADD, buffer.address(PAGE), mr.rkey());
        assert_eq!(add, IBV_WC_SUCCESS);
    }

    /// Goal: memory that is mapped later at the same address is what the device sees, never the
    /// old pages; between the two it sees an error.
    fn new_pages_at_the_same_address() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, mr) = on_demand(&bench.pd);
        let (address, key) = (buffer.address(64), mr.rkey());
        for round in 1..20 {
            bench.buffer.write(0, &pattern(8, round));
            assert_eq!(write(&bench, address, key), IBV_WC_SUCCESS);
            assert_eq!(buffer.read(64, 8), pattern(8, round));
            unmap(&buffer);
            for status in [write(&bench, address, key), read(&bench, address, key)] {
                assert_eq!(status, IBV_WC_REM_ACCESS_ERR);
            }
            let pair = bench.pair(Service::Rc);
            assert_eq!(send_from(&bench, &pair, &mr, address), IBV_WC_LOC_PROT_ERR);
            map_anew(&buffer);
            assert_eq!(read(&bench, address, key), IBV_WC_SUCCESS);
            assert_eq!(bench.buffer.read(0, 8), [0; 8], "pages that are gone");
        }
    }

    fn discarded_pages_are_empty() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, mr) = on_demand(&bench.pd);
        for round in 1..20 {
            buffer.fill(0, LENGTH, round);
            discard(&buffer);
            bench.buffer.fill(0, 8, 0xff);
            assert_eq!(read(&bench, buffer.address(8), mr.rkey()), IBV_WC_SUCCESS);
            assert_eq!(bench.buffer.read(0, 8), [0; 8]);
            bench.buffer.fill(0, 8, round);
            assert_eq!(write(&bench, buffer.address(8), mr.rkey()), IBV_WC_SUCCESS);
            assert_eq!(buffer.read(8, 8), [round; 8]);
        }
    }

    /// Goal: pinned and on-demand regions of the same pages each keep their rule. Method: discard
    /// the pages: the pinned region keeps the old ones.
    fn beside_a_pinned_region() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, mr) = on_demand(&bench.pd);
        let pinned = bench.pd.register(&buffer, ALL_ACCESS).expect("reg_mr");
        buffer.fill(0, LENGTH, 7);
        discard(&buffer);
        for (key, byte) in [(mr.rkey(), 0), (pinned.rkey(), 7)] {
            assert_eq!(read(&bench, buffer.address(0), key), IBV_WC_SUCCESS);
            assert_eq!(bench.buffer.read(0, 8), [byte; 8]);
        }
        bench.buffer.fill(0, 8, 9);
        assert_eq!(write(&bench, buffer.address(0), mr.rkey()), IBV_WC_SUCCESS);
        assert_eq!(buffer.read(0, 8), [9; 8]);
        protect(&buffer, libc::PROT_READ);
        assert_eq!(write(&bench, buffer.address(0), pinned.rkey()), IBV_WC_SUCCESS);
        let refused = write(&bench, buffer.address(0), mr.rkey());
        assert_eq!(refused, IBV_WC_REM_ACCESS_ERR);
        protect(&buffer, READ_WRITE);
    }

    /// Goal: the device has no rights that the program lacks.
    fn the_rights_of_the_program_count() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, mr) = on_demand(&bench.pd);
        let (address, key) = (buffer.address(0), mr.rkey());
        buffer.fill(0, PAGE, 1);
        protect(&buffer, libc::PROT_READ);
        assert_eq!(read(&bench, address, key), IBV_WC_SUCCESS);
        for opcode in [IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD] {
            assert_eq!(remote(&bench, opcode, address, key), IBV_WC_REM_ACCESS_ERR);
        }
        let pair = bench.pair(Service::Rc);
        assert_eq!(send_from(&bench, &pair, &mr, address), IBV_WC_SUCCESS);
        bench.receive_cq.expect(5, IBV_WC_SUCCESS);
        // As the place of a READ's data.
        let (source, source_key) = bench.remote(TARGET);
        let own = SendWr::new(7, IBV_WR_RDMA_READ).sge(mr.sge(address, 8));
        pair.post(own.remote(source, source_key));
        bench.send_cq.expect(7, IBV_WC_LOC_PROT_ERR);
        protect(&buffer, libc::PROT_NONE);
        assert_eq!(read(&bench, address, key), IBV_WC_REM_ACCESS_ERR);
        protect(&buffer, READ_WRITE);
        assert_eq!(buffer.read(0, 8), [1; 8], "nothing was written");
    }

    /// Goal: every service sends from and receives into on-demand memory, also through SRQs.
    fn every_service() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (source, from) = on_demand(&bench.pd);
        let (target, to) = on_demand(&bench.pd);
        for (service, round) in SERVICES.into_iter().zip(1..) {
            let pair = bench.pair(service);
            source.write(100, &pattern(512, round));
            discard(&target);
            pair.post_receive(1, to.sge(target.address(0), 1024));
            pair.post(SendWr::new(2, IBV_WR_SEND).sge(from.sge(source.address(100), 512)));
            bench.send_cq.expect(2, IBV_WC_SUCCESS);
            bench.receive_cq.expect(1, IBV_WC_SUCCESS);
            assert_eq!(target.read(service.header(), 512), pattern(512, round), "{service:?}");
        }
    }

    /// Goal: an implicit region reaches all of the program's memory, and nothing else.
    fn implicit_regions() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let raw = implicit(&bench.pd);
        assert!(!raw.is_null(), "errno {}", ferroce_verbs_client::object::errno());
        // SAFETY: it was registered just now.
        let (key, range) = unsafe { ((*raw).rkey, ((*raw).addr, (*raw).length)) };
        assert_eq!(range, (std::ptr::null_mut(), usize::MAX));
        let buffer = Buffer::new(LENGTH);
        for (address, round) in [(buffer.address(17), 1), (NEVER_REGISTERED.as_ptr() as u64, 2)] {
            bench.buffer.write(0, &pattern(8, round));
            assert_eq!(write(&bench, address, key), IBV_WC_SUCCESS);
        }
        assert_eq!(buffer.read(17, 8), pattern(8, 1));
        let number = NEVER_REGISTERED.load(Ordering::Relaxed);
        assert_eq!(number.to_ne_bytes()[..], pattern(8, 2));
        // The page at null, a hole, and what no program has: beyond 2^47 and beyond 2^64. The
        // device's own IOVAs are not reachable, either.
        let far = [1 << 47, 1 << 48, u64::MAX - 8, u64::MAX << 48 | 0x1_0000];
        for address in [0, 4096, 1 << 46].into_iter().chain(far) {
            assert_eq!(write(&bench, address, key), IBV_WC_REM_ACCESS_ERR, "{address:#x}");
        }
        let (all, huge) = (usize::MAX, IBV_ACCESS_HUGETLB);
        for (address, length, access) in [(0, PAGE, 0), (0x1000, all, 0), (0, all, huge)] {
            assert!(bench.pd.register_raw(address, length, ON_DEMAND | access).is_null());
            assert_eq!(ferroce_verbs_client::object::errno(), libc::EINVAL);
        }
        // SAFETY: registered above, and not used any more.
        assert_eq!(unsafe { ibv_dereg_mr(raw) }, 0);
        assert_eq!(write(&bench, buffer.address(0), key), IBV_WC_REM_ACCESS_ERR);
    }

    fn advice_brings_pages_in() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, mr) = on_demand(&bench.pd);
        let sge = |offset, pages| mr.sge(buffer.address(offset), (pages * PAGE) as u32);
        let advise = |advice, flags, sges: &[ibv_sge]| {
            bench.pd.advise(advice, flags, &mut sges.to_vec())
        };
        assert_eq!(advise(PREFETCH_NO_FAULT, FLUSH, &[sge(0, 16)]), Ok(()));
        assert_eq!(resident(&buffer), 0);
        assert_eq!(advise(PREFETCH_WRITE, FLUSH, &[sge(0, 1), sge(4 * PAGE, 2)]), Ok(()));
        assert_eq!(resident(&buffer), 3);
        assert_eq!(advise(PREFETCH, 0, &[sge(0, 16)]), Ok(()));
        assert_eq!(resident(&buffer), 16);
        protect(&buffer, libc::PROT_READ);
        assert_eq!(advise(PREFETCH, FLUSH, &[sge(0, 1)]), Ok(()));
        assert_eq!(advise(PREFETCH_WRITE, FLUSH, &[sge(0, 1)]), Err(libc::EFAULT));
        assert_eq!(advise(PREFETCH_WRITE, 0, &[sge(0, 1)]), Ok(()), "asynchronous");
        unmap(&buffer);
        assert_eq!(advise(PREFETCH, FLUSH, &[sge(0, 1)]), Err(libc::EFAULT));
        assert_eq!(advise(PREFETCH, 0, &[sge(0, 1)]), Ok(()), "asynchronous");
        map_anew(&buffer);
        for outside in [sge(PAGE, 16), mr.sge(buffer.address(0) - 1, 1), mr.sge(u64::MAX, 8)] {
            for advice in [PREFETCH, PREFETCH_NO_FAULT] {
                assert_eq!(advise(advice, FLUSH, &[outside]), Err(libc::EFAULT));
                assert_eq!(advise(advice, 0, &[outside]), Ok(()));
            }
        }
        let raw = implicit(&bench.pd);
        // SAFETY: it was registered just now.
        let all = ibv_sge { lkey: unsafe { (*raw).lkey }, ..sge(0, 16) };
        assert_eq!(resident(&buffer), 0);
        assert_eq!(advise(PREFETCH_WRITE, FLUSH, &[all]), Ok(()));
        assert_eq!(resident(&buffer), 16);
        // SAFETY: registered above, and not used any more.
        assert_eq!(unsafe { ibv_dereg_mr(raw) }, 0);
        assert_eq!(advise(PREFETCH, 0, &[all]), Err(libc::ENOENT));
    }

    fn a_region_of_no_bytes_can_be_prefetched() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, _) = on_demand(&bench.pd);
        let addr = buffer.address(16);
        let mr = bench.pd.register_raw(addr, 0, ON_DEMAND);
        assert!(!mr.is_null());
        // SAFETY: it was registered just now.
        let nothing = ibv_sge { addr, length: 0, lkey: unsafe { (*mr).lkey } };
        for advice in [PREFETCH, PREFETCH_WRITE, PREFETCH_NO_FAULT] {
            assert_eq!(bench.pd.advise(advice, 0, &mut [nothing]), Ok(()));
        }
        // SAFETY: registered above, and not used any more.
        assert_eq!(unsafe { ibv_dereg_mr(mr) }, 0);
    }

    fn advice_is_refused_for_other_keys() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, mr) = on_demand(&bench.pd);
        let key = |lkey| ibv_sge { lkey, ..mr.sge(buffer.address(0), 8) };
        let advise = |pd: &Pd, advice, flags, lkey| pd.advise(advice, flags, &mut [key(lkey)]);
        let of = |lkey| advise(&bench.pd, PREFETCH, 0, lkey);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_2).expect("alloc_mw");
        let null = bench.pd.alloc_null_mr().expect("alloc_null_mr");
        assert_eq!(of(mr.lkey()), Ok(()));
        assert_eq!(of(bench.mr.lkey()), Err(libc::ENOENT), "a pinned region");
        assert_eq!(of(mr.lkey() ^ 1), Err(libc::ENOENT), "another variant of the key");
        assert_eq!(of(u32::MAX), Err(libc::ENOENT));
        assert_eq!(of(window.rkey()), Err(libc::EINVAL));
        assert_eq!(of(null.lkey()), Err(libc::EINVAL));
        assert_eq!(advise(&bench.pd, 77, 0, mr.lkey()), Err(libc::EOPNOTSUPP));
        assert_eq!(advise(&bench.pd, PREFETCH, 2, mr.lkey()), Err(libc::EINVAL));
        assert_eq!(bench.pd.advise(PREFETCH, 0, &mut []), Err(libc::EINVAL));
        let other = bench.context.alloc_pd().expect("a PD");
        assert_eq!(advise(&other, PREFETCH, 0, mr.lkey()), Err(libc::EPERM));
        let access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND;
        let read_only = bench.pd.register(&buffer, access).expect("reg_mr");
        assert_eq!(of(read_only.lkey()), Ok(()));
        let refused = advise(&bench.pd, PREFETCH_WRITE, 0, read_only.lkey());
        assert_eq!(refused, Err(libc::EPERM));
        let gone = window.rkey();
        window.destroy().expect("dealloc_mw");
        assert_eq!(of(gone), Err(libc::ENOENT));
    }

    /// Goal: a region changes between pinned and on demand, and keeps its key.
    fn rereg_pins_and_releases() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, mr) = on_demand(&bench.pd);
        let key = mr.rkey();
        let change = |flags, range, access| mr.reregister(flags, None, range, access);
        change(IBV_REREG_MR_CHANGE_ACCESS, None, ALL_ACCESS).expect("pinned now");
        assert_eq!(resident(&buffer), LENGTH / PAGE);
        buffer.fill(0, 8, 5);
        discard(&buffer);
        assert_eq!(read(&bench, buffer.address(0), key), IBV_WC_SUCCESS);
        assert_eq!(bench.buffer.read(0, 8), [5; 8], "the old pages");
        change(IBV_REREG_MR_CHANGE_ACCESS, None, ON_DEMAND).expect("on demand again");
        assert_eq!(read(&bench, buffer.address(0), key), IBV_WC_SUCCESS);
        assert_eq!(bench.buffer.read(0, 8), [0; 8], "the new pages");
        let range = Some((bench.buffer.address(TARGET), 64));
        change(IBV_REREG_MR_CHANGE_TRANSLATION, range, 0).expect("other memory");
        assert_eq!(write(&bench, bench.buffer.address(TARGET), key), IBV_WC_SUCCESS);
        assert_eq!(write(&bench, buffer.address(0), key), IBV_WC_REM_ACCESS_ERR);
        assert_eq!(mr.rkey(), key);
        let raw = implicit(&bench.pd);
        // SAFETY: registered just now; a failure leaves it unchanged.
        let result = unsafe {
            let flags = IBV_REREG_MR_CHANGE_ACCESS as i32;
            ibv_rereg_mr(raw, flags, std::ptr::null_mut(), std::ptr::null_mut(), 0, 1)
        };
        assert_eq!(result, IBV_REREG_MR_ERR_INPUT, "all memory cannot be pinned");
        // SAFETY: registered above, and not used any more.
        assert_eq!(unsafe { ibv_dereg_mr(raw) }, 0);
    }

    fn windows_on_on_demand_regions() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, mr) = on_demand(&bench.pd);
        let pair = bench.pair(Service::Rc);
        let window = bench.pd.alloc_mw(IBV_MW_TYPE_1).expect("alloc_mw");
        let bind = Bind {
            mr: Some(mr.clone()),
            address: buffer.address(PAGE + 8),
            length: 64,
            access: IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
        };
        pair.b.bind_mw(&window, 90, IBV_SEND_SIGNALED, &bind).expect("bind_mw");
        bench.send_cq.expect(90, IBV_WC_SUCCESS);
        let key = window.rkey();
        bench.buffer.write(0, &pattern(8, 4));
        assert_eq!(write(&bench, buffer.address(PAGE + 8), key), IBV_WC_SUCCESS);
        assert_eq!(buffer.read(PAGE + 8, 8), pattern(8, 4));
        assert_eq!(write(&bench, buffer.address(PAGE), key), IBV_WC_REM_ACCESS_ERR);
        discard(&buffer);
        assert_eq!(read(&bench, buffer.address(PAGE + 8), key), IBV_WC_SUCCESS);
        assert_eq!(bench.buffer.read(0, 8), [0; 8]);
        assert_eq!(mr.destroy(), Err(libc::EBUSY));
    }

    fn iova_and_zero_based() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let buffer = Buffer::new(LENGTH);
        for iova in [0, 0x1234_5000, 0xffff_0000_0000_0000] {
            let mr = bench.pd.register_iova(&buffer, iova, ON_DEMAND).expect("reg_mr_iova");
            bench.buffer.write(0, &pattern(8, 9));
            buffer.fill(0, LENGTH, 0);
            assert_eq!(write(&bench, iova + 100, mr.rkey()), IBV_WC_SUCCESS);
            assert_eq!(buffer.read(100, 8), pattern(8, 9));
            let outside = write(&bench, iova + LENGTH as u64 - 7, mr.rkey());
            assert_eq!(outside, IBV_WC_REM_ACCESS_ERR);
            let mut sges = [mr.sge(iova, LENGTH as u32)];
            assert_eq!(bench.pd.advise(PREFETCH_WRITE, FLUSH, &mut sges), Ok(()));
        }
        let access = ON_DEMAND | IBV_ACCESS_ZERO_BASED;
        let mr = bench.pd.register_part(&buffer, 24, 4096, access).expect("reg_mr");
        assert_eq!(write(&bench, 8, mr.rkey()), IBV_WC_SUCCESS);
        assert_eq!(buffer.read(32, 8), pattern(8, 9));
    }

    /// Goal: after a fork the device writes the parent's pages, and the child keeps its copies.
    fn fork_with_on_demand_regions() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, mr) = on_demand(&bench.pd);
        buffer.fill(0, 8, 1);
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: the child reads one byte and its memory, and ends by `_exit`.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let mut byte = [0u8];
            // SAFETY: room for one byte; then the child ends.
            unsafe {
                libc::read(ends[0], byte.as_mut_ptr().cast(), 1);
                libc::_exit(i32::from(buffer.read(0, 8) != [1; 8]));
            }
        }
        bench.buffer.fill(0, 8, 2);
        assert_eq!(write(&bench, buffer.address(0), mr.rkey()), IBV_WC_SUCCESS);
        assert_eq!(buffer.read(0, 8), [2; 8]);
        let mut status = 0;
        // SAFETY: our own descriptor and child.
        unsafe {
            assert_eq!(libc::write(ends[1], [0u8].as_ptr().cast(), 1), 1);
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        }
        assert_eq!(status, 0, "the child's pages are its own");
    }

    /// Goal: a part of a message that is not there ends the message, and the QP, with an error.
    fn a_hole_in_the_middle() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, mr) = on_demand(&bench.pd);
        // SAFETY: a page of the buffer that only the device accesses from now on.
        unsafe { libc::munmap(buffer.address(8 * PAGE) as *mut _, PAGE) };
        let pair = bench.pair(Service::Rc);
        let all = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.sge(0, LENGTH));
        pair.post(all.remote(buffer.address(0), mr.rkey()));
        bench.send_cq.expect(1, IBV_WC_REM_ACCESS_ERR);
        let pair = bench.pair(Service::Rc);
        let own = SendWr::new(2, IBV_WR_RDMA_WRITE).sge(mr.sge(buffer.address(0), LENGTH as u32));
        let (target, key) = bench.remote(TARGET);
        pair.post(own.remote(target, key));
        bench.send_cq.expect(2, IBV_WC_LOC_PROT_ERR);
        map_anew(&buffer);
    }

    /// Goal: threads that map and discard pages while the device writes them disturb nothing else.
    fn invalidation_under_load() {
        if is_served() {
            return;
        }
        let bench = Bench::new();
        let (buffer, mr) = on_demand(&bench.pd);
        let pair = bench.pair(Service::Rc);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    discard(&buffer);
                    map_anew(&buffer);
                }
            });
            for id in 0..2000 {
                let request = SendWr::new(id, IBV_WR_RDMA_WRITE).sge(bench.sge(0, LENGTH));
                pair.post(request.remote(buffer.address(0), mr.rkey()));
                bench.send_cq.expect(id, IBV_WC_SUCCESS);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

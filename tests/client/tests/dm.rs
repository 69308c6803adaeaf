//! Device memory.

use ferroce_verbs_client::bench::{Bench, Service, pattern};
use ferroce_verbs_client::memory::ALL_ACCESS;
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

const ACCESS: u32 = ALL_ACCESS | IBV_ACCESS_ZERO_BASED;

verbs_tests! {
    fn copies_in_and_out() {
        let bench = Bench::new();
        let dm = bench.context.alloc_dm(4096, 0).expect("alloc_dm");
        dm.copy_in(0, &pattern(4096, 1)).expect("memcpy_to_dm");
        dm.copy_in(100, &pattern(64, 2)).expect("memcpy_to_dm");
        let all = dm.copy_out(0, 4096).expect("memcpy_from_dm");
        assert_eq!(all[..100], pattern(4096, 1)[..100]);
        assert_eq!(all[100..164], pattern(64, 2));
        assert_eq!(all[164..], pattern(4096, 1)[164..]);
    }

    fn what_is_outside_is_refused() {
        let bench = Bench::new();
        let dm = bench.context.alloc_dm(4096, 0).expect("alloc_dm");
        assert_eq!(dm.copy_in(4090, &[0; 8]), Err(libc::EFAULT));
        assert_eq!(dm.copy_out(4096, 1).err(), Some(libc::EFAULT));
        assert!(dm.copy_out(u64::MAX, 2).is_err());
        assert!(bench.context.alloc_dm(0, 0).is_err());
        let max = bench.context.query_device_ex(0).expect("query_device_ex").max_dm_size;
        let beyond = bench.context.alloc_dm(max as usize + 1, 0).err();
        assert!(matches!(beyond, Some(libc::EINVAL | libc::ENOMEM)), "{beyond:?}");
        assert!(bench.pd.register_dm(&dm, 0, 8192, ACCESS).is_err(), "longer than the memory");
        assert!(bench.pd.register_dm(&dm, 4096, 8, ACCESS).is_err(), "behind the end");
        let based = bench.pd.register_dm(&dm, 0, 4096, ALL_ACCESS).err();
        assert_eq!(based, Some(libc::EINVAL), "only zero based");
    }

    fn all_of_it_can_be_had_and_had_again() {
        let bench = Bench::new();
        let max = bench.context.query_device_ex(0).expect("query_device_ex").max_dm_size as usize;
        let dm = bench.context.alloc_dm(max, 0).expect("alloc_dm of all");
        assert_eq!(bench.context.alloc_dm(64, 0).err(), Some(libc::ENOMEM));
        dm.destroy().expect("free_dm");
        bench.context.alloc_dm(max, 6).expect("alloc_dm of all, aligned");
    }

    fn pieces_do_not_overlap() {
        let bench = Bench::new();
        let pieces: Vec<_> = (0..16_u8)
            .map(|piece| {
                let dm = bench.context.alloc_dm(1000, 3).expect("alloc_dm");
                dm.copy_in(0, &[piece; 1000]).expect("memcpy_to_dm");
                dm
            })
            .collect();
        for (piece, dm) in pieces.iter().enumerate() {
            assert_eq!(dm.copy_out(0, 1000).expect("memcpy_from_dm"), [piece as u8; 1000]);
        }
    }

    /// Device memory as source and target of RDMA, and of atomics.
    fn rdma_and_atomics_on_device_memory() {
        let bench = Bench::new();
        let dm = bench.context.alloc_dm(8192, 0).expect("alloc_dm");
        let mr = bench.pd.register_dm(&dm, 1024, 4096, ACCESS).expect("reg_dm_mr");
        assert_eq!(dm.destroy(), Err(libc::EBUSY), "a region stands on it");
        let pair = bench.pair(Service::Rc);
        bench.buffer.write(0, &pattern(3000, 8));
        let write = SendWr::new(1, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 3000));
        pair.post(write.remote(100, mr.rkey()));
        bench.send_cq.expect(1, IBV_WC_SUCCESS);
        assert_eq!(dm.copy_out(1124, 3000).expect("memcpy_from_dm"), pattern(3000, 8));
        // As a local buffer, for gather and scatter.
        let (address, key) = bench.remote(65536);
        let write = SendWr::new(2, IBV_WR_RDMA_WRITE).sge(mr.sge(100, 3000));
        pair.post(write.remote(address, key));
        bench.send_cq.expect(2, IBV_WC_SUCCESS);
        assert_eq!(bench.buffer.read(65536, 3000), pattern(3000, 8));
        let read = SendWr::new(3, IBV_WR_RDMA_READ).sge(mr.sge(0, 64)).remote(address, key);
        pair.post(read);
        bench.send_cq.expect(3, IBV_WC_SUCCESS);
        assert_eq!(dm.copy_out(1024, 64).expect("memcpy_from_dm"), pattern(64, 8));
        dm.copy_in(1024 + 256, &7_u64.to_ne_bytes()).expect("memcpy_to_dm");
        let add = SendWr::new(4, IBV_WR_ATOMIC_FETCH_AND_ADD).sge(bench.sge(0, 8));
        pair.post(add.remote(256, mr.rkey()).operands(5, 0));
        bench.send_cq.expect(4, IBV_WC_SUCCESS);
        assert_eq!(bench.buffer.read_u64(0), 7);
        assert_eq!(dm.copy_out(1280, 8).expect("memcpy_from_dm"), 12_u64.to_ne_bytes());
        let outside = SendWr::new(5, IBV_WR_RDMA_WRITE).sge(bench.sge(0, 8));
        pair.post(outside.remote(4092, mr.rkey()));
        bench.send_cq.expect(5, IBV_WC_REM_ACCESS_ERR);
    }
}

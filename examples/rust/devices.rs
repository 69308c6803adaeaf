//! Exercise 1 in Rust: which devices are there, and what can they do?

mod course;

use std::ffi::CStr;
use std::mem::zeroed;

use course::{PORT, check, need};
use rdma_sys::*;

fn main() {
    let mut count = 0;
    // SAFETY: the list has `count` devices and is freed last; all-zero attributes are valid.
    unsafe {
        let list = need(ibv_get_device_list(&mut count), "ibv_get_device_list");
        println!("{count} device{}", if count == 1 { "" } else { "s" });
        for index in 0..count as usize {
            let device = *list.add(index);
            let context = need(ibv_open_device(device), "ibv_open_device");
            let mut attr: ibv_device_attr = zeroed();
            check(ibv_query_device(context, &mut attr), "ibv_query_device");
            let mut port: ibv_port_attr = zeroed();
            check(
                ___ibv_query_port(context, PORT, &mut port),
                "ibv_query_port",
            );
            println!(
                "{}",
                CStr::from_ptr(ibv_get_device_name(device)).to_string_lossy()
            );
            println!(
                "  queue pairs: {}, with up to {} requests each",
                attr.max_qp, attr.max_qp_wr
            );
            let (queues, entries) = (attr.max_cq, attr.max_cqe);
            println!("  completion queues: {queues}, with up to {entries} entries each");
            let in_flight = attr.max_qp_rd_atom;
            println!("  READs and atomics in flight, of one queue pair: {in_flight}");
            let mtu = 128 << port.active_mtu;
            println!("  a packet holds at most {mtu} bytes of a message");
            check(ibv_close_device(context), "ibv_close_device");
        }
        ibv_free_device_list(list);
    }
}

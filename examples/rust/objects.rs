//! Exercise 2 in Rust: the objects of every RDMA program, and the states of a queue pair.

mod course;

use std::mem::zeroed;

use course::{LOCAL_WRITE, Side, check};
use rdma_sys::*;

fn show_state(side: &Side) {
    // SAFETY: all-zero attributes are valid, and the queue pair exists.
    let attr = unsafe {
        let (mut attr, mut init): (ibv_qp_attr, ibv_qp_init_attr) = (zeroed(), zeroed());
        let mask = ibv_qp_attr_mask::IBV_QP_STATE.0 as i32;
        check(
            ibv_query_qp(side.qp, &mut attr, mask, &mut init),
            "ibv_query_qp",
        );
        attr
    };
    let names = ["RESET", "INIT", "RTR", "RTS"];
    let name = names.get(attr.qp_state as usize).unwrap_or(&"?");
    println!("the queue pair is in {name}");
}

fn main() {
    let mut side = Side::new(4096, LOCAL_WRITE);
    show_state(&side);
    side.to_init();
    show_state(&side);
    // The queue pair is its own peer.
    side.to_rtr(&side.address());
    show_state(&side);
    side.to_rts();
    show_state(&side);
    side.set_text("hello");
    side.post_receive(2048, 2048);
    side.post(ibv_wr_opcode::IBV_WR_SEND, 0, 5, 0);
    side.wait_until(1, 1);
    println!("received \"{}\"", side.text(2048));
    side.close();
}

//! Exercise 4 in Rust: WRITE and READ, and the keys of memory.

mod course;

use course::{LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE, Side};
use rdma_sys::*;

const TEXT: usize = 64;

fn main() {
    let mut side = Side::new(4096, LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE);
    let is_client = side.connect(18534);
    if !is_client {
        side.set_text("kept by the server");
    }
    side.meet();
    if is_client {
        side.post(ibv_wr_opcode::IBV_WR_RDMA_READ, 0, TEXT, 0);
        side.wait_until(1, 0);
        println!("client: READ \"{}\"", side.text(0));
        side.set_text("written by the client");
        side.post(ibv_wr_opcode::IBV_WR_RDMA_WRITE, 0, TEXT, 0);
        side.wait_until(2, 0);
    }
    side.meet();
    if !is_client {
        println!("server: my memory says \"{}\"", side.text(0));
    }
    side.close();
}

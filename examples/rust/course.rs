//! What the exercises in Rust share: objects, a queue pair, and the meeting of two processes.
//!
//! ```text
//! PROGRAM [-p PORT]               the server
//! PROGRAM [-p PORT] 127.0.0.1     the client
//! ```

#![allow(dead_code, reason = "each exercise uses a part")]

use std::ffi::CStr;
use std::io::{Error, Read, Write};
use std::mem::zeroed;
use std::net::{TcpListener, TcpStream};
use std::ptr::null_mut;

use rdma_sys::*;

pub const PORT: u8 = 1;
/// Index of the port's IPv4 address.
pub const GID_INDEX: u8 = 1;
const DEPTH: u32 = 16;

pub const LOCAL_WRITE: u32 = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
pub const REMOTE_WRITE: u32 = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
pub const REMOTE_READ: u32 = ibv_access_flags::IBV_ACCESS_REMOTE_READ.0;

/// Ends the program if a verb that returns an errno has failed.
pub fn check(error: i32, what: &str) {
    assert!(error == 0, "{what}: {}", Error::from_raw_os_error(error));
}

/// Ends the program if a verb that returns a pointer has failed.
pub fn need<T>(object: *mut T, what: &str) -> *mut T {
    assert!(!object.is_null(), "{what}: {}", Error::last_os_error());
    object
}

/// What a side has to know about its peer.
#[derive(Clone, Copy)]
pub struct Remote {
    pub gid: [u8; 16],
    pub qpn: u32,
    pub rkey: u32,
    pub address: u64,
}

const REMOTE_BYTES: usize = 32;

impl Remote {
    fn to_bytes(self) -> [u8; REMOTE_BYTES] {
        let mut bytes = [0; REMOTE_BYTES];
        bytes[..16].copy_from_slice(&self.gid);
        bytes[16..20].copy_from_slice(&self.qpn.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[24..].copy_from_slice(&self.address.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; REMOTE_BYTES]) -> Self {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let mut gid = [0; 16];
        gid.copy_from_slice(&bytes[..16]);
        let address = u64::from(word(24)) << 32 | u64::from(word(28));
        Self {
            gid,
            qpn: word(16),
            rkey: word(20),
            address,
        }
    }
}

/// One process: its objects, its buffer, and its peer.
pub struct Side {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    pub qp: *mut ibv_qp,
    mr: *mut ibv_mr,
    rights: u32,
    /// Shared with the device: it reads and writes it while requests are in flight.
    buffer: Vec<u8>,
    gid: [u8; 16],
    pub peer: Remote,
    stream: Option<TcpStream>,
    requests: usize,
    messages: usize,
}

impl Side {
    pub fn new(bytes: usize, rights: u32) -> Self {
        let mut buffer = vec![0; bytes];
        // SAFETY: every object is created from those before it, which live as long as the `Side`.
        // The buffer lives as long, too, and is not resized. All-zero attributes are valid.
        unsafe {
            let list = need(ibv_get_device_list(null_mut()), "ibv_get_device_list");
            let context = need(ibv_open_device(*list), "ibv_open_device");
            ibv_free_device_list(list);
            let pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
            let access = rights as i32;
            let mr = ibv_reg_mr(pd, buffer.as_mut_ptr().cast(), bytes, access);
            let mr = need(mr, "ibv_reg_mr");
            let cq = ibv_create_cq(context, 8 * DEPTH as i32, null_mut(), null_mut(), 0);
            let cq = need(cq, "ibv_create_cq");
            let mut init: ibv_qp_init_attr = zeroed();
            init.send_cq = cq;
            init.recv_cq = cq;
            init.cap.max_send_wr = DEPTH;
            init.cap.max_recv_wr = DEPTH;
            init.cap.max_send_sge = 1;
            init.cap.max_recv_sge = 1;
            init.qp_type = ibv_qp_type::IBV_QPT_RC;
            let qp = need(ibv_create_qp(pd, &mut init), "ibv_create_qp");
            let mut gid: ibv_gid = zeroed();
            let error = ibv_query_gid(context, PORT, GID_INDEX.into(), &mut gid);
            check(error, "ibv_query_gid");
            let peer = Remote {
                gid: [0; 16],
                qpn: 0,
                rkey: 0,
                address: 0,
            };
            let gid = gid.raw;
            let (stream, requests, messages) = (None, 0, 0);
            Self {
                context,
                pd,
                cq,
                qp,
                mr,
                rights,
                buffer,
                gid,
                peer,
                stream,
                requests,
                messages,
            }
        }
    }

    /// Returns what the other side has to know.
    pub fn address(&self) -> Remote {
        // SAFETY: the objects live until `close`.
        let (qpn, rkey) = unsafe { ((*self.qp).qp_num, (*self.mr).rkey) };
        Remote {
            gid: self.gid,
            qpn,
            rkey,
            address: self.buffer.as_ptr() as u64,
        }
    }

    fn modify(&self, attr: &mut ibv_qp_attr, mask: ibv_qp_attr_mask, what: &str) {
        // SAFETY: the queue pair lives until `close`.
        let error = unsafe { ibv_modify_qp(self.qp, attr, mask.0 as i32) };
        check(error, what);
    }

    pub fn to_init(&self) {
        type Mask = ibv_qp_attr_mask;
        // SAFETY: all-zero attributes are valid; so in the next functions.
        let mut attr: ibv_qp_attr = unsafe { zeroed() };
        attr.qp_state = ibv_qp_state::IBV_QPS_INIT;
        attr.port_num = PORT;
        attr.qp_access_flags = self.rights;
        let mask = Mask::IBV_QP_STATE
            | Mask::IBV_QP_PKEY_INDEX
            | Mask::IBV_QP_PORT
            | Mask::IBV_QP_ACCESS_FLAGS;
        self.modify(&mut attr, mask, "ibv_modify_qp to INIT");
    }

    pub fn to_rtr(&self, peer: &Remote) {
        type Mask = ibv_qp_attr_mask;
        // SAFETY: see `to_init`.
        let mut attr: ibv_qp_attr = unsafe { zeroed() };
        attr.qp_state = ibv_qp_state::IBV_QPS_RTR;
        attr.path_mtu = ibv_mtu::IBV_MTU_1024;
        attr.dest_qp_num = peer.qpn;
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 12;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.dgid = ibv_gid { raw: peer.gid };
        attr.ah_attr.grh.sgid_index = GID_INDEX;
        attr.ah_attr.grh.hop_limit = 64;
        attr.ah_attr.port_num = PORT;
        let mask = Mask::IBV_QP_STATE
            | Mask::IBV_QP_AV
            | Mask::IBV_QP_PATH_MTU
            | Mask::IBV_QP_DEST_QPN
            | Mask::IBV_QP_RQ_PSN
            | Mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | Mask::IBV_QP_MIN_RNR_TIMER;
        self.modify(&mut attr, mask, "ibv_modify_qp to RTR");
    }

    pub fn to_rts(&self) {
        type Mask = ibv_qp_attr_mask;
        // SAFETY: see `to_init`.
        let mut attr: ibv_qp_attr = unsafe { zeroed() };
        attr.qp_state = ibv_qp_state::IBV_QPS_RTS;
        attr.timeout = 14;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = 1;
        let mask = Mask::IBV_QP_STATE
            | Mask::IBV_QP_TIMEOUT
            | Mask::IBV_QP_RETRY_CNT
            | Mask::IBV_QP_RNR_RETRY
            | Mask::IBV_QP_SQ_PSN
            | Mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(&mut attr, mask, "ibv_modify_qp to RTS");
    }

    /// Meets the other process, and connects the queue pair. Returns true for the client.
    pub fn connect(&mut self, tcp_port: u16) -> bool {
        let mut arguments: Vec<String> = std::env::args().skip(1).collect();
        let mut port = tcp_port;
        if arguments.first().is_some_and(|first| first == "-p") {
            port = arguments[1].parse().expect("-p has a port");
            arguments.drain(..2);
        }
        let is_client = !arguments.is_empty();
        let mut stream = match arguments.first() {
            Some(server) => TcpStream::connect((server.as_str(), port)),
            None => TcpListener::bind(("0.0.0.0", port))
                .and_then(|listener| listener.accept().map(|(stream, _)| stream)),
        }
        .expect("a TCP connection");
        let mut peer = [0; REMOTE_BYTES];
        let mine = self.address().to_bytes();
        stream
            .write_all(&mine)
            .and_then(|()| stream.read_exact(&mut peer))
            .expect("a peer");
        self.peer = Remote::from_bytes(&peer);
        self.stream = Some(stream);
        self.to_init();
        self.to_rtr(&self.peer);
        self.to_rts();
        is_client
    }

    /// Returns when both sides have called it.
    pub fn meet(&mut self) {
        let stream = self.stream.as_mut().expect("connected");
        let mut byte = [0];
        stream
            .write_all(&byte)
            .and_then(|()| stream.read_exact(&mut byte))
            .expect("a peer");
    }

    fn part(&self, place: usize, bytes: usize) -> ibv_sge {
        assert!(place + bytes <= self.buffer.len(), "a part of the buffer");
        // SAFETY: the region lives until `close`.
        let lkey = unsafe { (*self.mr).lkey };
        ibv_sge {
            addr: self.buffer.as_ptr() as u64 + place as u64,
            length: bytes as u32,
            lkey,
        }
    }

    pub fn post_receive(&self, place: usize, bytes: usize) {
        let mut part = self.part(place, bytes);
        let mut wr = ibv_recv_wr {
            wr_id: 0,
            next: null_mut(),
            sg_list: &mut part,
            num_sge: 1,
        };
        // SAFETY: the request is copied; its memory is registered and lives until `close`.
        check(
            unsafe { ibv_post_recv(self.qp, &mut wr, &mut null_mut()) },
            "ibv_post_recv",
        );
    }

    /// Posts a SEND, WRITE or READ; the last two with the part of the peer's buffer at
    /// `remote_place`.
    pub fn post(
        &self,
        opcode: ibv_wr_opcode::Type,
        place: usize,
        bytes: usize,
        remote_place: usize,
    ) {
        let mut part = self.part(place, bytes);
        // SAFETY: an all-zero request is valid, and the request is copied.
        unsafe {
            let mut wr: ibv_send_wr = zeroed();
            wr.sg_list = &mut part;
            wr.num_sge = 1;
            wr.opcode = opcode;
            wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
            wr.wr.rdma.remote_addr = self.peer.address + remote_place as u64;
            wr.wr.rdma.rkey = self.peer.rkey;
            check(
                ibv_post_send(self.qp, &mut wr, &mut null_mut()),
                "ibv_post_send",
            );
        }
    }

    /// Polls until `requests` requests are complete and `messages` messages have come, both since
    /// the start.
    pub fn wait_until(&mut self, requests: usize, messages: usize) {
        while self.requests < requests || self.messages < messages {
            // SAFETY: all-zero memory is a valid completion; one is polled.
            let mut wc: ibv_wc = unsafe { zeroed() };
            // SAFETY: the queue lives until `close`.
            let count = unsafe { ibv_poll_cq(self.cq, 1, &mut wc) };
            assert!(count >= 0, "ibv_poll_cq");
            if count == 0 {
                continue;
            }
            assert!(
                wc.status == ibv_wc_status::IBV_WC_SUCCESS,
                "a completion: {}",
                name(wc.status)
            );
            match wc.opcode {
                ibv_wc_opcode::IBV_WC_RECV => self.messages += 1,
                _ => self.requests += 1,
            }
        }
    }

    /// Writes a text, with zeroes after it, to the beginning of the buffer.
    pub fn set_text(&mut self, text: &str) {
        self.buffer.fill(0);
        self.buffer[..text.len()].copy_from_slice(text.as_bytes());
    }

    /// Returns the text at a place of the buffer. No request may be in flight.
    pub fn text(&self, place: usize) -> String {
        // SAFETY: the place is in the buffer. The device has written it: the compiler does not
        // know, so the bytes are read one by one with volatile reads.
        let bytes = (place..self.buffer.len())
            .map(|at| unsafe { std::ptr::read_volatile(&self.buffer[at]) });
        let text = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8(text).expect("a text")
    }

    /// Destroys the objects, in the reverse order of their creation.
    pub fn close(self) {
        // SAFETY: each is destroyed once, after those that use it.
        unsafe {
            check(ibv_destroy_qp(self.qp), "ibv_destroy_qp");
            check(ibv_destroy_cq(self.cq), "ibv_destroy_cq");
            check(ibv_dereg_mr(self.mr), "ibv_dereg_mr");
            check(ibv_dealloc_pd(self.pd), "ibv_dealloc_pd");
            check(ibv_close_device(self.context), "ibv_close_device");
        }
    }
}

fn name(status: ibv_wc_status::Type) -> String {
    // SAFETY: the function returns a constant string.
    let text = unsafe { CStr::from_ptr(ibv_wc_status_str(status)) };
    text.to_string_lossy().into_owned()
}

//! Peers that die or are stopped while a requester waits for their acknowledges.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ferroce_verbs_client::bench::{Bench, TARGET};
use ferroce_verbs_client::harness::is_for_one_client;
use ferroce_verbs_client::qp::{Qp, rts_attr};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

/// A local ACK timeout of 17 s (4.096 us times two to this power): eight of them take more than two
/// minutes, but a test has only one minute.
const LONG_TIMEOUT: u8 = 22;
/// A local ACK timeout of a millisecond.
const SHORT_TIMEOUT: u8 = 8;
/// Much longer than the retries with [`SHORT_TIMEOUT`].
const STOPPED: Duration = Duration::from_millis(500);

/// A process with a QP that answers, killed when dropped.
struct Peer {
    pid: libc::pid_t,
    socket: UnixStream,
}

/// Data that each side sends to the other: number of the QP, address and key of memory.
type Card = [u64; 3];

fn send_card(mut socket: &UnixStream, card: Card) {
    let bytes: Vec<u8> = card.iter().flat_map(|word| word.to_ne_bytes()).collect();
    socket.write_all(&bytes).expect("the other side listens");
}

fn hear(mut socket: &UnixStream) -> Card {
    let mut bytes = [0; 24];
    socket
        .read_exact(&mut bytes)
        .expect("the other side sends its card");
    let mut words = bytes
        .chunks(8)
        .map(|word| word.try_into().expect("eight bytes"));
    [(); 3].map(|()| u64::from_ne_bytes(words.next().expect("three words")))
}

impl Peer {
    /// Forks the peer, before this process opens a device.
    fn start() -> Self {
        let (socket, theirs) = UnixStream::pair().expect("a socket pair");
        // SAFETY: this process has one thread that matters, and the child ends by `_exit`.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork");
        if pid == 0 {
            drop(socket);
            let serve = || Self::serve(&theirs);
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(serve));
            // SAFETY: ends the child without destructors of the parent's objects.
            unsafe { libc::_exit(1) };
        }
        Self { pid, socket }
    }

    fn serve(socket: &UnixStream) {
        let bench = Bench::new();
        let qp = bench.qp(IBV_QPT_RC).expect("a QP");
        let [number, ..] = hear(socket);
        qp.connect(bench.gid, number as u32);
        let (address, key) = bench.remote(TARGET);
        send_card(socket, [qp.number().into(), address, key.into()]);
        // Wait until the other side ends or kills this process; the device works without it.
        let _ = (&*socket).read(&mut [0]);
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid, signal) }, 0);
    }

    /// Stops it, and waits until it has stopped.
    fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let mut status = 0;
        // SAFETY: our own child; with this flag it also returns for one that has stopped.
        let pid = unsafe { libc::waitpid(self.pid, &mut status, libc::WUNTRACED) };
        assert!(
            pid == self.pid && libc::WIFSTOPPED(status),
            "status {status:#x}"
        );
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        // SAFETY: our own child.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// A QP of this process, connected to the peer's QP.
struct Requester {
    bench: Bench,
    qp: Qp,
    target: (u64, u32),
}

impl Requester {
    fn connect(peer: &Peer, timeout: u8, retries: u8) -> Self {
        let bench = Bench::new();
        let qp = bench.qp(IBV_QPT_RC).expect("a QP");
        send_card(&peer.socket, [qp.number().into(), 0, 0]);
        let [number, address, key] = hear(&peer.socket);
        qp.to_init().expect("RESET to INIT");
        qp.to_rtr(bench.gid, number as u32).expect("INIT to RTR");
        let (mut attr, mask) = rts_attr(IBV_QPT_RC);
        (attr.timeout, attr.retry_cnt) = (timeout, retries);
        qp.modify(&attr, mask).expect("RTR to RTS");
        let requester = Self {
            bench,
            qp,
            target: (address, key as u32),
        };
        requester.write(0);
        requester.bench.send_cq.expect(0, IBV_WC_SUCCESS);
        requester
    }

    fn write(&self, id: u64) {
        let write = SendWr::new(id, IBV_WR_RDMA_WRITE).sge(self.bench.sge(0, 8));
        let (address, key) = self.target;
        self.qp
            .post_send(&write.remote(address, key))
            .expect("post_send");
    }
}

verbs_tests! {
    /// If a peer dies, a request that waits for it fails long before its ACK timeout.
    fn requests_to_a_killed_peer_end() {
        if is_for_one_client() {
            return;
        }
        let peer = Peer::start();
        let requester = Requester::connect(&peer, LONG_TIMEOUT, 7);
        peer.stop();
        requester.write(1);
        drop(peer);
        requester.bench.send_cq.expect(1, IBV_WC_RETRY_EXC_ERR);
        assert_eq!(requester.qp.state(), IBV_QPS_ERR);
    }

    /// A sleeping program also gets an event, because its device watches the peers.
    fn an_event_reports_a_killed_peer() {
        if is_for_one_client() {
            return;
        }
        let peer = Peer::start();
        let requester = Requester::connect(&peer, LONG_TIMEOUT, 7);
        peer.stop();
        let cq = &requester.bench.send_cq;
        cq.request_notify(false).expect("req_notify_cq");
        requester.write(1);
        drop(peer);
        requester.bench.channel.expect_event(cq);
        cq.expect(1, IBV_WC_RETRY_EXC_ERR);
    }

    /// A request to a peer that is already dead fails at once, even with an infinite ACK timeout.
    fn a_request_to_a_dead_peer_fails() {
        if is_for_one_client() {
            return;
        }
        for timeout in [LONG_TIMEOUT, 0] {
            let peer = Peer::start();
            let requester = Requester::connect(&peer, timeout, 7);
            drop(peer);
            requester.write(1);
            requester.bench.send_cq.expect(1, IBV_WC_RETRY_EXC_ERR);
        }
    }

    /// The requester waits for a stopped peer for longer than all retries; when the peer continues,
    /// the connection does, too.
    fn a_stopped_peer_keeps_its_connection() {
        if is_for_one_client() {
            return;
        }
        let peer = Peer::start();
        let requester = Requester::connect(&peer, SHORT_TIMEOUT, 7);
        peer.stop();
        requester.write(1);
        let until = Instant::now() + STOPPED;
        while Instant::now() < until {
            let early = requester.bench.send_cq.try_next();
            assert!(early.is_none(), "status {:?}", early.map(|wc| wc.status));
        }
        peer.signal(libc::SIGCONT);
        requester.bench.send_cq.expect(1, IBV_WC_SUCCESS);
        requester.write(2);
        requester.bench.send_cq.expect(2, IBV_WC_SUCCESS);
    }
}

//! The victim, a peer, and traffic that shows that the victim works.

use ferroce_spec::context::{AccessRights, PathMtuCode, RetryAttributes, ServiceCode};
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::wqe::{AtomicSegment, DataSegment, SendOpcode};
use ferroce_units::random::mixed;
use ferroce_wire::Gid;

use crate::machines::device::Kind;
use crate::machines::machine::{Machine, PAGES, RegionPlan, place};
use crate::machines::pair::Pair;
use crate::machines::queues::{Payload, Peer, QpPlan, SendWqe, TestCq, TestQp};

/// The side that is attacked; the other one is a model.
pub const VICTIM: usize = 0;
/// QPs of each side, connected one by one.
pub const QPS: usize = 2;
/// First address of the region, and its bytes. The other half of the data is in no region.
pub const REGION_START: u64 = 0x7_0000_0040;
pub const REGION_LENGTH: u64 = place::DATA_SIZE / 2;
const PD: u32 = 7;
const LOG_CQES: u8 = 7;
/// Operands of all atomics.
const OPERANDS: AtomicSegment = AtomicSegment {
    swap_add: 0x0102_0304_0506_0708,
    compare: 0,
};
/// Bytes of the messages of the traffic.
const MESSAGE: u32 = 3000;

/// Number of turns after which the victim is idle if there is no further input: each has at most
/// [`ferroce_rtl_card::CYCLES_PER_ADVANCE`] clock cycles, 131,072 in total.
pub const QUIET_TURNS_MAX: usize = 64;

/// Two machines with connected QPs.
pub struct Scene {
    pub pair: Pair,
    pub objects: [Objects; 2],
}

/// Objects of a machine.
pub struct Objects {
    pub qps: Vec<TestQp>,
    pub cq: TestCq,
    pub key: u32,
}

impl Scene {
    pub fn new(kind: Kind) -> Self {
        let pages: Vec<u64> = (0..PAGES).rev().collect();
        let sides = [(kind, 1), (Kind::Model, 2)].map(|(kind, number)| {
            let gid = Gid::from_ipv4([10, 0, 0, number].into());
            let mut machine = Machine::new(kind, number, gid, &pages);
            // The pages of the region: the upper half, because they are in reverse order.
            let region = place::DATA + REGION_LENGTH..place::DATA + place::DATA_SIZE;
            machine.host.writable.push(region);
            machine
        });
        let mut pair = Pair::new(sides);
        let objects = create(&mut pair);
        Self { pair, objects }
    }

    /// Runs until both sides are idle.
    ///
    /// # Panics
    /// If that takes more than [`QUIET_TURNS_MAX`].
    pub fn run_to_rest(&mut self) {
        for _ in 0..QUIET_TURNS_MAX {
            if !self.pair.turn() {
                return;
            }
        }
        panic!("neither progress nor rest after {QUIET_TURNS_MAX} turns");
    }

    /// Lets some timers expire.
    pub fn pass_time(&mut self, timers: usize) {
        for _ in 0..timers {
            self.run_to_rest();
            let now = self.pair.sides[VICTIM].now;
            let timeouts = self.pair.sides.iter();
            let timeouts = timeouts.filter_map(|side| side.device.next_timeout(now));
            let Some(next) = timeouts.min() else { return };
            for side in &mut self.pair.sides {
                side.now = next.max(now);
            }
        }
    }

    /// Takes all CQEs and events.
    pub fn poll(&mut self) {
        for (side, objects) in self.pair.sides.iter_mut().zip(&mut self.objects) {
            while side.poll(&mut objects.cq).is_some() {}
        }
    }

    /// Checks that the victim has only accessed permitted memory.
    ///
    /// # Panics
    /// If it has not.
    pub fn check_accesses(&self) {
        let host = &self.pair.sides[VICTIM].host;
        assert!(
            host.stray_writes.is_empty(),
            "writes to {:x?}",
            host.stray_writes
        );
        assert!(host.refused.is_empty(), "not mapped: {:x?}", host.refused);
    }

    /// Resets both sides, and checks that they work.
    ///
    /// # Panics
    /// If they do not.
    pub fn check_reset(&mut self) {
        let pages: Vec<u64> = (0..PAGES).rev().collect();
        for side in &mut self.pair.sides {
            side.host.faults = None;
            side.host.doorbells.clear();
            side.host.bytes_mut(place::CQ..place::MTT + 0x1000).fill(0);
            side.write_pages(&pages);
            side.port.sent.clear();
            side.bring_up();
            side.port.arriving.clear();
            side.host.stray_writes.clear();
            side.host.refused.clear();
        }
        self.objects = create(&mut self.pair);
        for from in [0, 1] {
            self.exchange(from);
        }
        self.check_accesses();
    }

    /// A WRITE, a SEND and a READ from one side.
    fn exchange(&mut self, from: usize) {
        let to = 1 - from;
        let seed = mixed(from as u64).to_le_bytes()[0];
        let bytes: Vec<u8> = (0..MESSAGE)
            .map(|at| (at as u8).wrapping_mul(seed | 1))
            .collect();
        self.data(from, 0).copy_from_slice(&bytes);
        (1..4).for_each(|slot| self.data(to, slot).fill(0));
        self.data(from, 3).fill(0);
        let remote = Some((segment(0, 1).address, self.objects[to].key));
        let receive = [segment(self.objects[to].key, 2)];
        let Self { pair, objects } = self;
        pair.sides[to].post_receive(&mut objects[to].qps[0], &receive);
        pair.sides[to].ring_receive(&objects[to].qps[0]);
        let requests = [
            (SendOpcode::RDMA_WRITE, remote, 0),
            (SendOpcode::SEND, None, 0),
            (SendOpcode::RDMA_READ, remote, 3),
        ];
        for (opcode, remote, slot) in requests {
            let wqe = request(opcode, remote, vec![segment(objects[from].key, slot)]);
            pair.sides[from].post_send(&mut objects[from].qps[0], &wqe);
        }
        pair.sides[from].ring_send(&objects[from].qps[0]);
        self.pair.settle().expect("rest");
        for (side, count) in [(from, 3), (to, 1)] {
            for number in 0..count {
                let cqe = self.pair.sides[side].poll(&mut self.objects[side].cq);
                let status = cqe.map(|cqe| CqeStatus(cqe.word.status()));
                assert_eq!(
                    status,
                    Some(CqeStatus::SUCCESS),
                    "CQE {number} of side {side}"
                );
            }
        }
        for (side, slot) in [(to, 1), (to, 2), (from, 3)] {
            assert!(
                *self.data(side, slot) == bytes[..],
                "slot {slot} of side {side}"
            );
        }
    }

    /// Returns the bytes of a slot of the region, which are in one page.
    fn data(&mut self, side: usize, slot: u64) -> &mut [u8] {
        let page = place::DATA + (PAGES - 1 - slot) * 4096;
        let start = page + 0x40;
        self.pair.sides[side]
            .host
            .bytes_mut(start..start + u64::from(MESSAGE))
    }
}

/// Returns a data segment over a slot of the region.
fn segment(l_key: u32, slot: u64) -> DataSegment {
    DataSegment {
        address: REGION_START + slot * 4096,
        length: MESSAGE,
        l_key,
    }
}

pub fn is_atomic(opcode: SendOpcode) -> bool {
    matches!(opcode, SendOpcode::COMPARE_SWAP | SendOpcode::FETCH_ADD)
}

/// Returns a signaled request.
pub fn request(
    opcode: SendOpcode,
    remote: Option<(u64, u32)>,
    segments: Vec<DataSegment>,
) -> SendWqe {
    SendWqe {
        opcode,
        signaled: true,
        solicited: false,
        fence: false,
        immediate: [1, 2, 3, 4],
        remote,
        atomic: is_atomic(opcode).then_some(OPERANDS),
        datagram: None,
        payload: Payload::Segments(segments),
        is_stale: false,
    }
}

/// Returns the configuration of the QPs.
pub fn plan() -> QpPlan {
    let mut access = AccessRights::default();
    access.set_remote_read(true);
    access.set_remote_write(true);
    access.set_remote_atomic(true);
    let mut retry = RetryAttributes::default();
    retry.set_retry_count(3);
    retry.set_rnr_retry(3);
    retry.set_timeout(8);
    retry.set_min_rnr_timer(1);
    QpPlan {
        service: ServiceCode::RELIABLE_CONNECTED,
        pd: PD,
        log_blocks: 6,
        log_receives: 5,
        log_stride: 6,
        access,
        retry,
        mtu: PathMtuCode::MTU_1024,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
    }
}

/// Returns all rights of a region.
fn rights() -> AccessRights {
    let mut access = plan().access;
    access.set_local_write(true);
    access
}

/// Creates and connects everything.
fn create(pair: &mut Pair) -> [Objects; 2] {
    let objects = pair.sides.each_mut().map(|machine| {
        let cq = machine.create_cq(0, LOG_CQES);
        let region = RegionPlan {
            start: REGION_START,
            data_offset: 0x40,
            length: REGION_LENGTH - 0x40,
            pd: PD,
            access: rights(),
            is_direct: false,
        };
        Objects {
            key: machine.create_region(&region),
            qps: (0..QPS as u32)
                .map(|number| machine.create_qp(number, plan(), cq.cqn, cq.cqn))
                .collect(),
            cq,
        }
    });
    for side in 0..2 {
        for number in 0..QPS {
            let other = &pair.sides[1 - side];
            let peer = Peer {
                qpn: objects[1 - side].qps[number].qpn,
                gid: other.gid,
                mac: other.mac,
                send_psn: 0xff_fffa,
                receive_psn: 0xff_fffa,
            };
            pair.sides[side].connect(&objects[side].qps[number], &peer);
        }
    }
    objects
}

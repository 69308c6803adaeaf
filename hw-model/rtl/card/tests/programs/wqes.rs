//! Requests as WQEs: keys and addresses of the regions of both sides.

use ferroce_spec::context::AccessRights;
use ferroce_spec::wqe::{AtomicSegment, DataSegment, SendOpcode};

use crate::machines::machine::{Machine, PAGES, RegionPlan};
use crate::machines::queues::{Payload, SendWqe};
use crate::program::{AREA, Area, Flaw, Program, Receive, Request, Step, area_start};

/// A protection domain of no QP.
const FOREIGN_PD: u32 = 99;
/// A variant that no key has.
const WRONG_VARIANT: u32 = 0xff;
const PAGE: u64 = crate::machines::machine::PAGE;

/// A region of a machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Region {
    pub key: u32,
    pub start: u64,
    pub length: u64,
}

impl Region {
    /// Returns an address from which `length` bytes end one byte past the region.
    fn too_far(&self, length: u64) -> u64 {
        (self.start + self.length + 1).wrapping_sub(length)
    }
}

/// The regions of a QP's end. A region that no step needs has the key zero.
#[derive(Debug, Clone, Copy, Default)]
pub struct Regions {
    /// All areas except the target.
    pub local: Region,
    pub target: Region,
    pub read_only: Region,
    pub write_only: Region,
    pub foreign: Region,
    pub absent: Region,
}

impl Regions {
    /// Creates the regions of the end of `qp` at `side`.
    pub fn new(program: &Program, qp: usize, side: usize, machine: &mut Machine) -> Self {
        let pd = program.connections[qp].plans[side].pd;
        let base = (1 + qp as u64) << 32;
        let has_order = !program.is_scattered[side];
        let local = RegionPlan {
            start: base + 0x30,
            data_offset: area_start(qp, Area::Source),
            length: 3 * AREA,
            pd,
            access: rights(true, false, false),
            is_direct: has_order && program.seed % 3 == 0,
        };
        let target = RegionPlan {
            start: base + 0x1_0000_0100,
            data_offset: area_start(qp, Area::Target),
            length: AREA,
            access: all_rights(),
            is_direct: has_order && program.seed % 2 == 0,
            ..local
        };
        let mut create = |plan: RegionPlan| Region {
            key: machine.create_region(&plan),
            start: plan.start,
            length: plan.length,
        };
        let mut regions = Self {
            local: create(local),
            target: create(target),
            ..Self::default()
        };
        let needs = |flaw: Flaw| program.steps.iter().any(|step| has_flaw(step, qp, flaw));
        if needs(Flaw::RemoteRights) {
            let access = rights(false, true, false);
            regions.read_only = create(RegionPlan { access, ..target });
            let access = rights(true, false, true);
            regions.write_only = create(RegionPlan { access, ..target });
        }
        if needs(Flaw::RemoteDomain) || needs(Flaw::LocalDomain) {
            let pd = FOREIGN_PD;
            regions.foreign = create(RegionPlan { pd, ..target });
        }
        if needs(Flaw::RemotePage) {
            regions.absent = create(RegionPlan {
                data_offset: PAGES * PAGE,
                is_direct: false,
                ..target
            });
        }
        regions
    }

    /// Returns the region with this key.
    pub fn name_of(&self, key: u32) -> &'static str {
        let all = [
            ("local", self.local),
            ("target", self.target),
            ("read-only", self.read_only),
            ("write-only", self.write_only),
            ("foreign", self.foreign),
            ("absent", self.absent),
        ];
        let known = all.iter().find(|(_, region)| region.key == key);
        known.map_or("unknown", |(name, _)| name)
    }
}

fn rights(local_write: bool, remote_read: bool, remote_write: bool) -> AccessRights {
    let mut access = AccessRights::default();
    access.set_local_write(local_write);
    access.set_remote_read(remote_read);
    access.set_remote_write(remote_write);
    access
}

fn all_rights() -> AccessRights {
    let mut access = rights(true, true, true);
    access.set_remote_atomic(true);
    access
}

fn has_flaw(step: &Step, qp: usize, flaw: Flaw) -> bool {
    let (its_qp, its_flaw) = match step {
        Step::Send { qp, request, .. } => (*qp, request.flaw),
        Step::Receive { qp, receive, .. } => (*qp, receive.flaw),
        _ => return false,
    };
    its_qp == qp && its_flaw == Some(flaw)
}

/// Returns the basic blocks of a request's WQE.
pub fn blocks(request: &Request) -> usize {
    let nothing = Regions::default();
    wqe(
        request,
        &nothing,
        &nothing,
        vec![0; request.length() as usize],
    )
    .blocks()
}

/// Returns the WQE of a request; `inlined` are the bytes of an inline payload.
pub fn wqe(request: &Request, own: &Regions, peer: &Regions, inlined: Vec<u8>) -> SendWqe {
    let area = match request.fetches() {
        true => Area::Landing,
        false => Area::Source,
    };
    let (swap_add, compare) = request.operands;
    let is_remote = request.is_remote();
    SendWqe {
        opcode: match request.flaw {
            Some(Flaw::Opcode) => SendOpcode(0x3f),
            _ => request.opcode,
        },
        signaled: request.signaled,
        solicited: request.solicited,
        fence: request.fence,
        immediate: request.immediate,
        remote: is_remote.then(|| remote(request, peer)),
        atomic: request
            .is_atomic()
            .then_some(AtomicSegment { swap_add, compare }),
        datagram: None,
        payload: if request.is_inline {
            Payload::Inline(inlined)
        } else {
            Payload::Segments(segments(&request.pieces, area, own, request.flaw))
        },
        is_stale: request.flaw == Some(Flaw::Stale),
    }
}

/// Returns the data segments of a receive WQE.
pub fn receive_segments(receive: &Receive, own: &Regions) -> Vec<DataSegment> {
    segments(&receive.pieces, Area::Received, own, receive.flaw)
}

/// Returns address and key of the remote memory.
fn remote(request: &Request, peer: &Regions) -> (u64, u32) {
    let is_read = request.opcode == SendOpcode::RDMA_READ;
    let at = u64::from(request.remote);
    let length = match request.is_atomic() {
        // The first word after the region.
        true => 1,
        false => u64::from(request.length()),
    };
    let region = match request.flaw {
        Some(Flaw::RemoteRights) if is_read => peer.write_only,
        Some(Flaw::RemoteRights) => peer.read_only,
        Some(Flaw::RemoteDomain) => peer.foreign,
        Some(Flaw::RemotePage) => peer.absent,
        _ => peer.target,
    };
    match request.flaw {
        Some(Flaw::RemoteKey) => (region.start + at, region.key ^ WRONG_VARIANT),
        Some(Flaw::RemoteAlignment) => (region.start + at + 1 + at / 8 % 7, region.key),
        Some(Flaw::RemoteBounds) => (region.too_far(length), region.key),
        _ => (region.start + at, region.key),
    }
}

/// Returns data segments; the last non-empty one has the fault.
fn segments(
    pieces: &[(u32, u32)],
    area: Area,
    own: &Regions,
    flaw: Option<Flaw>,
) -> Vec<DataSegment> {
    let region = own.local;
    let start = region.start + area_start(0, area);
    let mut segments: Vec<_> = pieces
        .iter()
        .map(|&(offset, length)| DataSegment {
            address: start + u64::from(offset),
            length,
            l_key: region.key,
        })
        .collect();
    let last = segments.iter_mut().rfind(|segment| segment.length > 0);
    if let Some(last) = last {
        match flaw {
            Some(Flaw::LocalKey) => last.l_key ^= WRONG_VARIANT,
            Some(Flaw::LocalBounds) => {
                last.address = region.too_far(last.length.into());
            }
            Some(Flaw::LocalDomain) => {
                last.l_key = own.foreign.key;
                last.address = own.foreign.start;
            }
            _ => {}
        }
    }
    segments
}

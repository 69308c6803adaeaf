//! A host of a measurement: its device, its doorbells, and the memory that its threads share.

use std::rc::Rc;
use std::sync::Arc;

use ferroce_driver::{Device, ProtectionDomain};
use ferroce_world::World;

use crate::error::Error;
use crate::lock::SpinLock;
use crate::plan::Plan;
use crate::region::{HostMemory, Region};
use crate::spec::PerfSpec;

/// An open device, and the objects that its threads share.
pub(super) struct Node {
    pub device: Arc<Device>,
    pub pd: Arc<ProtectionDomain>,
    /// Locks of doorbells that several threads use.
    doorbells: Vec<Option<Rc<SpinLock>>>,
    next_doorbell: usize,
    /// Regions of all threads (`Batch`): the local one, and the target of the peers.
    regions: [Option<Region>; 2],
}

impl Node {
    pub fn new(world: &World, spec: &PerfSpec, plan: &Plan, host: usize) -> Result<Self, Error> {
        let device = world.open(host)?;
        let bus = world.bus(host);
        for (offset, value) in &spec.registers {
            bus.write32(*offset, *value);
        }
        let pd = device
            .alloc_pd()
            .map_err(Error::driver("protection domain"))?;
        let count = spec
            .sharing
            .doorbells
            .unwrap_or(spec.preset.host.doorbells)
            .max(1);
        let threads = spec.threads / spec.sharing.threads_per_qp.min(spec.threads);
        let shape = (count, threads, plan.qps_per_thread);
        let shares_qps = spec.sharing.threads_per_qp > 1;
        let lock = |number| {
            let is_shared = shares_qps || is_shared(number, shape);
            is_shared.then(|| Rc::new(SpinLock::of_register()))
        };
        Ok(Self {
            device,
            pd,
            doorbells: (0..count).map(lock).collect(),
            next_doorbell: 0,
            regions: [None, None],
        })
    }

    /// Returns the doorbell of the next QP.
    pub fn doorbell(&mut self) -> Option<Rc<SpinLock>> {
        let number = self.next_doorbell;
        self.next_doorbell = (number + 1) % self.doorbells.len();
        self.doorbells[number].clone()
    }

    /// Returns the region that all clients of the host share, or all servers; the first call
    /// creates it.
    pub fn shared_region(
        &mut self,
        is_client: bool,
        length: u64,
        memory: RegionMemory,
    ) -> Result<Region, Error> {
        let place = &mut self.regions[usize::from(is_client)];
        if let Some(region) = place {
            return Ok(region.clone());
        }
        let region = match memory {
            RegionMemory::Host(host) => Region::new(&self.pd, length, host)?,
            RegionMemory::Card => Region::of_card(&self.pd, length)?,
        };
        *place = Some(region.clone());
        Ok(region)
    }
}

/// Memory of a region.
#[derive(Debug, Clone, Copy)]
pub(super) enum RegionMemory {
    /// The host's.
    Host(HostMemory),
    /// The card's.
    Card,
}

/// Returns the target memory of atomics.
pub(super) fn target_memory(spec: &PerfSpec) -> RegionMemory {
    if spec.atomics.device_memory {
        RegionMemory::Card
    } else {
        RegionMemory::Host(HostMemory::of(spec))
    }
}

/// Returns true if several threads use doorbell `number` of `count`, when each of `threads` threads
/// has `qps` QPs and QPs use the doorbells in round-robin order.
fn is_shared(number: u32, (count, threads, qps): (u32, u32, u32)) -> bool {
    let total = threads * qps;
    if number >= total {
        return false;
    }
    let last = number + (total - 1 - number) / count * count;
    number / qps != last / qps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorbells_that_threads_share() {
        assert!((0..16).all(|number| !is_shared(number, (16, 16, 1))));
        let shared = |shape| (0..16).filter(|n| is_shared(*n, shape)).count();
        assert_eq!(shared((16, 24, 1)), 8);
        assert_eq!(shared((16, 96, 1)), 16);
        assert_eq!(shared((16, 1, 64)), 0, "one thread");
        assert_eq!(shared((16, 2, 16)), 16);
        assert_eq!(shared((16, 2, 8)), 0);
    }
}

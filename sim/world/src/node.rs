//! A host with its NIC.

use ferroce_host::numbered_hosts;
use ferroce_host::prefetch::prefetch;
use ferroce_model::nic::Nic;
use ferroce_model::pcie::{Parameters, Pcie};
use ferroce_model::preset::costs::Costs;
use ferroce_model::time::timing::Timing;
use ferroce_model::{NicConfig, Progress};
use ferroce_spec::push::MAX_BLOCKS;
use ferroce_spec::register::offset;
use ferroce_units::{Duration, Instant};
use ferroce_wire::Qpn;

use super::config::WorldConfig;
use super::fabric::Fabric;
use super::host::WorldHost;
use super::persistence::Persistence;
use super::recorder::{Observation, PcieObservation, SharedRecorder};

/// QPN of the first queue pair of each NIC, after the reserved ones.
const FIRST_QPN: u32 = 0x100;

/// A host with its NIC.
pub struct Node<T: Timing> {
    pub nic: Nic<Fabric, T>,
    pub host: WorldHost,
    /// Blocks of the longest push: 0 without a write-combining mapping.
    pub push_blocks: u32,
    /// True if doorbells of send queues are fenced stores to the write-combining mapping, too.
    pub has_fenced_doorbells: bool,
    /// Threads that wait for an interrupt, and their wake-up times.
    pub sleepers: Vec<(usize, Duration)>,
    /// Producer index of the command queue, as last written by the driver.
    pub commands: u32,
    /// True if the device no longer answers: the driver waited for it while no event was pending.
    pub is_dead: bool,
    /// True while the program of the host is stopped or dead: its threads are held.
    pub is_stopped: bool,
    /// Threads whose turn came meanwhile.
    pub held: Vec<usize>,
    /// The queue pair that was prefetched last.
    expected: Option<Qpn>,
}

impl<T: Timing> Node<T> {
    pub fn new(config: &WorldConfig, number: usize, card: T) -> Self {
        let mac = numbered_hosts::mac_of(number).0;
        let preset = config.preset_of(number);
        let nic_config = preset.map_or_else(
            || NicConfig::functional(FIRST_QPN, mac),
            |preset| preset.nic_config(FIRST_QPN, mac),
        );
        let persistent = config.persistent_of(number).cloned();
        let nic_config = NicConfig {
            persistent_flush: persistent.is_some(),
            congestion: config
                .fabric
                .as_ref()
                .and_then(|fabric| fabric.congestion.clone()),
            ..nic_config
        };
        // A separate sequence of random numbers for each host.
        let seed = config
            .seed
            .wrapping_add(number as u64)
            .wrapping_mul(SEED_STEP);
        let push_blocks = preset.map_or(0, |preset| {
            if preset.host.write_combining {
                MAX_BLOCKS as u32
            } else {
                0
            }
        });
        let page_fault = preset.map(|preset| Costs::new(preset).page_fault);
        let page_fault = page_fault.unwrap_or(Duration::ZERO);
        let pcie = preset.map(|preset| Pcie::new(&Parameters::from(preset), seed));
        let host = WorldHost::new(number, pcie, config.elide_payload);
        let mut host = host.with_page_fault(page_fault);
        let has_ddio = preset.is_some_and(|preset| preset.memory.ddio);
        let persistence = persistent.map(|memory| Persistence::new(memory, has_ddio));
        host.posted.persistence = persistence.map(Box::new);
        Self {
            nic: Nic::with_timing(nic_config, card),
            host,
            push_blocks,
            has_fenced_doorbells: preset
                .is_some_and(|preset| preset.host.write_combining && !preset.host.push_inline_only),
            sleepers: Vec::new(),
            commands: 0,
            is_dead: false,
            is_stopped: false,
            held: Vec::new(),
            expected: None,
        }
    }

    /// Lets the NIC handle its events due at `now`.
    #[inline]
    pub fn advance(&mut self, now: Instant, fabric: &mut Fabric) -> Progress {
        self.host.begin(now);
        while let Some((register, value)) = self.host.next_register() {
            self.nic.write32(register, value);
        }
        self.nic.advance(now, &mut self.host, fabric)
    }

    /// Prefetches the state of a queue pair into the processor's cache because a doorbell or packet
    /// for it is in flight. With many queue pairs, each of its cache lines would otherwise be a
    /// separate miss.
    #[inline]
    pub fn expect(&mut self, qpn: Qpn) {
        if self.expected.replace(qpn) == Some(qpn) {
            return;
        }
        if let Some(qp) = self.nic.queue_pair(qpn) {
            prefetch(qp);
        }
    }

    /// Reports levels and counters to a recorder.
    #[cold]
    pub fn observe(&mut self, now: Instant, number: usize, recorder: &SharedRecorder) {
        let mut recorder = recorder.lock();
        if !recorder.observes() {
            return;
        }
        let (nic, memory) = (&self.nic, &mut self.host.memory);
        let read_record = |iova| {
            let mut word = [0; size_of::<u32>()];
            let read = memory.read(iova, &mut word);
            read.ok().map(|()| u32::from_ne_bytes(word))
        };
        let mut levels = Vec::new();
        nic.observe(read_record, &mut levels);
        let pcie = self.host.pcie.as_ref().map(|pcie| PcieObservation {
            reads: pcie.reads_in_flight(now),
            posted: pcie.posted_in_flight(now),
            free_at: pcie.free_at(),
            counters: pcie.counters(),
        });
        recorder.observe(&Observation {
            host: number,
            now,
            levels: &levels,
            counters: nic.counters(),
            pcie,
            rates: nic.limited_rates(),
        });
    }

    /// Returns the earliest known time at which the NIC must be advanced again.
    #[inline]
    pub fn next_event(&self, now: Instant, fabric: &Fabric, number: usize) -> Option<Instant> {
        let inside = self.nic.next_timeout(now);
        let store = self.host.next_store();
        let arrival = fabric.next_arrival(number, now);
        Instant::first([inside, store, arrival])
    }

    /// Returns true if the driver waits for a command.
    pub fn has_command(&self, now: Instant) -> bool {
        self.commands != self.nic.read32(now, offset::command_queue_consumer)
    }
}

/// An odd number without a pattern (2^64 divided by the golden ratio).
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

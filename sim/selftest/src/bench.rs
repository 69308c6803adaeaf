//! Shared parts of the stages: the bus, the opened device, waiting, and results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferroce_driver::bus::Bus;
use ferroce_driver::{
    AddressVector, CompletionQueue, CompletionStatus, Device, ProtectionDomain, WorkCompletion,
};
use ferroce_spec::counter::{COUNTERS, Counter};
use ferroce_spec::register::{COUNTERS_OFFSET, UNMAPPED_READ, offset};

use super::hint;
use super::observed::Observed;
use super::outcome::{Failure, Figure, Stop, Value};

/// Iterations of a wait between two reads of the clock.
const TURNS_PER_CHECK: u32 = 16;

/// Time limits of the check.
#[derive(Debug, Clone)]
pub struct Timeouts {
    /// A register, after a reset or enabling (the contract allows a reset one second).
    pub register: Duration,
    /// A command.
    pub command: Duration,
    /// A completion.
    pub completion: Duration,
    /// An interrupt, after its event.
    pub interrupt: Duration,
    /// A counter, after the counted event.
    pub counter: Duration,
    /// Time in which a forbidden event must not happen.
    pub quiet: Duration,
    /// Local ACK timeout of the queue pairs: 4.096 us x 2^n, three retries.
    pub ack_timeout: u8,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            register: Duration::from_secs(5),
            command: Duration::from_secs(5),
            completion: Duration::from_secs(5),
            interrupt: Duration::from_secs(2),
            counter: Duration::from_secs(2),
            quiet: Duration::from_millis(20),
            // 0.54 s
            ack_timeout: 17,
        }
    }
}

/// The device as the driver has brought it up.
pub(super) struct Opened {
    pub pd: Arc<ProtectionDomain>,
    pub device: Arc<Device>,
    pub observed: Arc<Observed>,
    /// The path to itself.
    pub path: AddressVector,
}

/// State that stages share.
pub(super) struct Bench {
    /// Set by the bring-up; dropped before the bus.
    pub opened: Option<Opened>,
    pub bus: Arc<dyn Bus>,
    pub timeouts: Timeouts,
    /// True if the device has answered once.
    pub was_there: bool,
    /// The stage in which it stopped answering.
    pub gone_since: Option<&'static str>,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

impl Bench {
    pub fn new(bus: Arc<dyn Bus>, timeouts: &Timeouts) -> Self {
        Self {
            opened: None,
            bus,
            timeouts: timeouts.clone(),
            was_there: false,
            gone_since: None,
            figures: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a figure, with its unit at the end of the name.
    pub fn figure(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.figures.push(Figure {
            name: name.into(),
            value: value.into(),
        });
    }

    /// Adds an observation that is not a failure.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Returns true if the device has answered before and no longer does.
    pub fn is_gone(&self) -> bool {
        let is_silent = |register| self.bus.read32(register) == UNMAPPED_READ;
        let registers = [offset::magic, offset::contract_version, offset::status];
        self.was_there && registers.into_iter().all(is_silent)
    }

    /// Returns the failure of a stage; if the device has disappeared meanwhile, that is the cause.
    pub fn explain(&mut self, stage: &'static str, failure: Failure) -> Failure {
        if !self.is_gone() {
            return failure;
        }
        self.gone_since = Some(stage);
        Failure::new(format!(
            "{}; the device is gone now: all registers read as all ones",
            failure.what
        ))
        .look_at(
            "why it is gone: link down (dmesg: AER, Surprise Down), power, a new bitstream; of \
             a model, whether its process has ended",
        )
    }

    /// Takes the findings of the stage.
    pub fn take_findings(&mut self) -> (Vec<Figure>, Vec<String>) {
        (
            std::mem::take(&mut self.figures),
            std::mem::take(&mut self.notes),
        )
    }

    /// Returns the device; stages that call this need the stage `bring-up`.
    pub fn opened(&self) -> Result<&Opened, Stop> {
        let none = || Failure::new("the driver has not brought the device up");
        self.opened.as_ref().ok_or_else(|| none().into())
    }

    /// Waits until `is_done`. Returns the time taken, or `None` after the time limit.
    pub fn wait(&self, timeout: Duration, mut is_done: impl FnMut() -> bool) -> Option<Duration> {
        let start = Instant::now();
        let mut turn = 0u32;
        loop {
            if is_done() {
                return Some(start.elapsed());
            }
            turn = turn.wrapping_add(1);
            if turn % TURNS_PER_CHECK == 0 && start.elapsed() > timeout {
                return None;
            }
            self.bus.relax();
        }
    }

    /// Waits for a time in which nothing must happen.
    pub fn stay_quiet(&self) {
        self.wait(self.timeouts.quiet, || false);
    }

    /// Reads the counters.
    pub fn counters(&self) -> Counts {
        let read = |index: u32| self.bus.read64(COUNTERS_OFFSET + 8 * index);
        Counts((0..COUNTERS.len() as u32).map(read).collect())
    }

    /// Returns the next completion of `cq`, of any status.
    pub fn completion(&self, cq: &CompletionQueue, of: &str) -> Result<WorkCompletion, Failure> {
        let mut found = None;
        self.wait(self.timeouts.completion, || {
            cq.poll(1, |completion| found = Some(completion));
            found.is_some()
        });
        found.ok_or_else(|| {
            let timeout = self.timeouts.completion;
            Failure::new(format!("{of}: no completion within {timeout:?}"))
                .look_at_all(hint::of_silence(&*self.bus))
                .look_at(
                    "which blocks it has passed, by the counters (ferroce reg dump): doorbells, \
                     wqe_fetches, tx_frames, rx_frames, acks_sent, cqes",
                )
        })
    }

    /// Returns the next completion of `cq`, which must be a success.
    pub fn success(&self, cq: &CompletionQueue, of: &str) -> Result<WorkCompletion, Failure> {
        let completion = self.completion(cq, of)?;
        match completion.status {
            CompletionStatus::Success => Ok(completion),
            status => Err(self.unsuccessful(status, completion.vendor_error, of)),
        }
    }

    fn unsuccessful(&self, status: CompletionStatus, detail: u32, of: &str) -> Failure {
        let counters = self.counters();
        let failure = Failure::new(format!(
            "{of}: completed with {status:?} (vendor error {detail:#x})"
        ));
        let hint = match status {
            CompletionStatus::RetryExceededError => {
                "nothing has answered. Frames to its own MAC address must come back: in the card, \
                 or by a loopback plug. Counters: tx_frames, tx_no_route, rx_frames, \
                 rx_icrc_errors, rx_malformed, rx_wrong_path"
            }
            CompletionStatus::LocalProtectionError
            | CompletionStatus::LocalAccessError
            | CompletionStatus::RemoteAccessError
            | CompletionStatus::RemoteOperationError => {
                "MPT entry (key, bounds, rights, PD) and MTT entries of the memory region: does the \
                 card read these tables right? If dma_errors moves, the host has refused the DMA"
            }
            CompletionStatus::LocalQpOperationError | CompletionStatus::LocalLengthError => {
                "the WQE as the card has fetched it: segment order, length, opcode"
            }
            _ => "the vendor error, and the counters of errors and NAKs",
        };
        let moved = |name: Counter| format!("{name:?} {}", counters.get(name));
        failure.look_at(hint).look_at(format!(
            "counters now: {}, {}, {}, {}",
            moved(Counter::tx_frames),
            moved(Counter::rx_frames),
            moved(Counter::dma_errors),
            moved(Counter::protection_errors)
        ))
    }
}

/// Values of all counters at one time.
#[derive(Clone)]
pub(super) struct Counts(Vec<u64>);

impl Counts {
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).copied().unwrap_or(0)
    }

    /// Returns the increase of a counter since `before`.
    pub fn since(&self, before: &Self, counter: Counter) -> u64 {
        self.get(counter).wrapping_sub(before.get(counter))
    }
}

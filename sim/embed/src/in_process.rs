//! The bus to a NIC model that lives in this process and runs in the application's threads.
//!
//! A doorbell and an empty poll run the model under one lock, for which no thread waits: a thread
//! that finds the lock taken leaves a mark, which the holder sees after it releases the lock. The
//! background thread takes over while the application does not poll.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Duration;

use ferroce_host::interrupts::Interrupts;
use ferroce_model::{Counters, Function, NicConfig, Progress};
use ferroce_platform::doorbells::Doorbells;
use ferroce_platform::{fork, os};
use ferroce_record::{Recorded, Recorder, Source};
use ferroce_units::Instant;
use parking_lot::{Mutex, MutexGuard};

use crate::clock::{Clock, Ticks};
use crate::fabric::registry::{MAX_COUNTERS, Registry};
use crate::port::FabricPort;
use crate::schedule::calls::Calls;
use crate::schedule::policy::Outlook;
use crate::schedule::shared::{Words, publish_work};
use crate::schedule::tunables::{
    POLLS_BEFORE_YIELD, RUNS_BEFORE_ACKNOWLEDGE, RUNS_PER_CALL, Spans, WATCH_SHARED_NS, after,
};

mod bus;
mod device_window;
mod faults;
mod health;
mod host;
pub mod mapping_calls;
mod pinned;
mod published;
mod relaxed;
mod served;
mod situations;
mod stopped;
mod waiting;

use device_window::DeviceWindow;
use health::HealthCheck;
use host::ProcessHost;
use published::Published;
use stopped::Stopped;

/// The counters are published after this many runs of the model.
const RUNS_PER_PUBLICATION: u32 = 256;
/// A due time in the past: the model has to run immediately.
const AT_ONCE: u64 = 0;
/// Value of the registers of a device that was removed.
const GONE: u64 = u64::MAX;

/// The function: the model's NIC, or the SystemVerilog card instead.
#[cfg(not(feature = "rtl"))]
type Card = ferroce_model::Nic<FabricPort>;
#[cfg(feature = "rtl")]
type Card = ferroce_rtl_card::RtlNic<FabricPort>;
/// The function, with a recorder at its edges if a record is requested.
type Nic = Recorded<Card>;
/// Whether records come from the model or from the card in RTL.
pub(crate) const SOURCE: Source = if cfg!(feature = "rtl") {
    Source::Rtl
} else {
    Source::Model
};

/// The model and its two ports.
#[derive(Debug)]
struct Model {
    nic: Nic,
    port: FabricPort,
    host: ProcessHost,
    /// The device's memory with its exports; `None` until the first export.
    window: Option<Arc<DeviceWindow>>,
    runs: u32,
    /// True if the last run found nothing to do.
    is_at_rest: bool,
    published: Published,
    /// True if the NIC has stopped with a fatal error and was not reset since.
    was_stopped: bool,
    /// True if delayed ACKs were already sent before the pending interrupts. This happens once, so
    /// that a peer that keeps sending cannot hold back the interrupts.
    has_flushed: bool,
}

impl Model {
    /// Returns true if a frame or a doorbell is pending (more doorbells may be in the bitmap).
    fn has_work(&self) -> bool {
        self.port.has_work() || !self.host.direct.is_empty() || !self.host.taker.is_idle()
    }

    /// Returns true if a run would find nothing to do except for timers.
    #[inline]
    fn stays_at_rest(&self) -> bool {
        // The card in RTL advances with every clock cycle.
        let runs_on_demand = !cfg!(feature = "rtl") && self.port.is_plain();
        self.is_at_rest && runs_on_demand && self.host.pages.is_none() && !self.has_work()
    }
}

/// A function in this process, as the driver sees it.
#[derive(Debug)]
pub struct InProcess {
    fork_generation: u32,
    clock: Clock,
    registry: &'static Registry,
    place: u8,
    doorbells: Arc<Doorbells>,
    interrupts: Interrupts,
    model: Mutex<Model>,
    /// Stack address of the thread that runs the model; 0 while none does.
    inside: AtomicUsize,
    /// Time at which the model has to run again, as of the last run; [`AT_ONCE`] if that run left
    /// frames that the function sent to itself.
    next_timeout: AtomicU64,
    /// True if the last run left nothing to do.
    rests: AtomicBool,
    /// True if an ACK is delayed.
    delayed_acks: AtomicBool,
    /// Time of the next check of the peers, in ticks, as of the last run.
    check_at: AtomicU64,
    /// End of the background thread's sleep; 0 while it is awake.
    wake_at: AtomicU64,
    words: Words<'static>,
    spans: Spans,
    calls: Calls,
    is_stopping: AtomicBool,
    /// True if the card is removed.
    is_removed: AtomicBool,
    /// The driver's health check of the device.
    health_check: HealthCheck,
    /// Whether the program is stopped while the card goes on.
    stopped: Stopped,
    /// True if the driver is in another process: doorbells may come through shared pages.
    is_served: bool,
}

impl InProcess {
    /// Creates a function on `port`, in its power-on state. `relaxed_order` is the seed of the
    /// order in which relaxed writes reach memory.
    pub fn new(
        config: NicConfig,
        port: FabricPort,
        clock: Clock,
        relaxed_order: Option<u64>,
    ) -> Self {
        let doorbells = Arc::new(Doorbells::new());
        let registry = port.place().registry();
        let place = port.place().number();
        let is_served = config.polled_doorbells;
        if is_served {
            registry.set_served(place);
        }
        let (words, spans) = (registry.words(place), Spans::new(&clock));
        let mut nic: Nic = Function::new(config);
        nic.attach(port.recorder().cloned());
        let host = ProcessHost::new(doorbells.clone(), relaxed_order);
        Self {
            fork_generation: fork::generation(),
            clock,
            registry,
            place,
            doorbells,
            interrupts: Interrupts::default(),
            model: Mutex::new(Model {
                nic,
                port,
                host,
                window: None,
                runs: 0,
                is_at_rest: false,
                published: Published::default(),
                was_stopped: false,
                has_flushed: false,
            }),
            inside: AtomicUsize::new(0),
            next_timeout: AtomicU64::new(u64::MAX),
            rests: AtomicBool::new(true),
            delayed_acks: AtomicBool::new(false),
            check_at: AtomicU64::new(u64::MAX),
            wake_at: AtomicU64::new(0),
            words,
            spans,
            calls: Calls::new(words, &spans),
            is_stopping: AtomicBool::new(false),
            is_removed: AtomicBool::new(false),
            health_check: HealthCheck::default(),
            stopped: Stopped::default(),
            is_served,
        }
    }

    /// Returns true in a forked child: the function belongs to the parent.
    #[inline]
    pub fn is_foreign(&self) -> bool {
        self.fork_generation != fork::generation()
    }

    /// Returns true if another process uses the function.
    pub fn is_served(&self) -> bool {
        self.is_served
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the time spans of its schedule.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// Returns the words that wake the threads of this function.
    pub fn words(&self) -> &Words<'static> {
        &self.words
    }

    /// Returns what the policy has learned from the calls of the program.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Returns true if requests wait for acknowledgements. It returns false while ACKs of this
    /// function are delayed, because the two cases cannot be distinguished.
    #[inline]
    fn has_requests_in_flight(&self) -> bool {
        self.next_timeout.load(Ordering::Relaxed) != u64::MAX
            && !self.delayed_acks.load(Ordering::Relaxed)
    }

    /// Returns true if the program counts as polling at `now`.
    #[inline]
    pub fn polls(&self, now: Ticks) -> bool {
        self.calls.polls(now)
    }

    /// Returns the recorder of its accesses.
    pub fn recorder(&self) -> Option<Recorder> {
        self.model.lock().nic.recorder().cloned()
    }

    /// Returns the clock cycles of a card in RTL, unless a thread runs it.
    pub fn cycles(&self) -> Option<u64> {
        self.model.try_lock()?.nic.cycles()
    }

    /// Returns its place in the registry.
    pub fn place(&self) -> (&'static Registry, u8) {
        (self.registry, self.place)
    }

    /// Runs the model unless another thread does. Returns true if something moved.
    #[inline]
    pub fn try_run(&self) -> bool {
        match self.model.try_lock() {
            Some(model) => self.run(model),
            None => false,
        }
    }

    /// Runs the model for the background thread, unless another thread runs it. It does not stay
    /// for doorbells that the application rings meanwhile, so that it notices when the application
    /// polls. Returns true if something moved.
    pub fn try_run_once(&self) -> bool {
        match self.model.try_lock() {
            Some(model) => self.run_once(model),
            None => false,
        }
    }

    /// Runs the model at `now` if there is something to do: most polls find nothing, and the
    /// duration of such a poll adds to the latency of the next frame. Returns true if something
    /// moved; `None`: another thread runs the model.
    #[inline]
    fn try_run_for_poll(&self, now: Ticks) -> Option<bool> {
        let mut model = self.model.try_lock()?;
        let runs = model.runs.wrapping_add(1);
        if runs % RUNS_PER_PUBLICATION == 0
            || !model.stays_at_rest()
            || now.0 >= self.check_at.load(Ordering::Relaxed)
            || self.clock.instant(now).as_ps() >= self.next_timeout.load(Ordering::Relaxed)
        {
            return Some(self.run(model));
        }
        model.runs = runs;
        self.unlock(model);
        Some(false)
    }

    /// Handles an empty poll at `now`: runs the model until it is idle, and sends ACKs that were
    /// delayed in case the application posts a request. Returns the number of runs if nothing
    /// moved, otherwise `None`.
    #[inline]
    fn run_until_rest(&self, now: Ticks) -> Option<u32> {
        let Some(mut worked) = self.try_run_for_poll(now) else {
            // Another thread does all pending work, and may need this processor.
            return Some(POLLS_BEFORE_YIELD);
        };
        worked |= self.run_to_rest();
        match worked {
            true => None,
            false if !self.delayed_acks.load(Ordering::Relaxed) => Some(1),
            // These runs count towards yielding, because the peer may need this processor.
            false => (!self.flush_acknowledges()).then_some(1 + RUNS_BEFORE_ACKNOWLEDGE),
        }
    }

    /// Runs the model until it is idle, within the limit for one call. Returns true if something
    /// moved.
    #[inline]
    fn run_to_rest(&self) -> bool {
        let mut worked = false;
        for _ in 1..RUNS_PER_CALL {
            if self.rests.load(Ordering::Relaxed) {
                break;
            }
            worked |= self.try_run();
        }
        worked
    }

    /// Sends delayed ACKs unless new work arrives immediately. Returns true if it arrived.
    fn flush_acknowledges(&self) -> bool {
        for _ in 0..RUNS_BEFORE_ACKNOWLEDGE {
            std::hint::spin_loop();
            if self.try_run() {
                return true;
            }
        }
        if let Some(mut model) = self.model.try_lock() {
            model.nic.flush_acknowledges();
            self.run(model);
        }
        false
    }

    /// Receives frames that the function has sent to itself, within the limit for one call. Waking
    /// the background thread for them would take longer, and on a single processor it would also
    /// keep a polling program from running.
    fn receive_own_frames(&self) {
        for _ in 0..RUNS_PER_CALL {
            if self.next_timeout.load(Ordering::Relaxed) != AT_ONCE || !self.try_run() {
                break;
            }
        }
    }

    /// Runs the model, and again for the work that other threads have left to this thread.
    #[inline]
    fn run<'a>(&'a self, mut model: MutexGuard<'a, Model>) -> bool {
        let mut worked = false;
        for _ in 0..RUNS_PER_CALL {
            worked |= self.run_once(model);
            if self.doorbells.is_empty() {
                return worked;
            }
            match self.model.try_lock() {
                Some(again) => model = again,
                None => return worked,
            }
        }
        // The threads that rang these doorbells continue with the work.
        self.words.wake_background(self.clock.ticks());
        worked
    }

    /// Runs the model, releases the lock, and delivers interrupts. After that, doorbells that other
    /// threads have left to this thread are visible.
    #[inline]
    fn run_once<'a>(&'a self, mut model: MutexGuard<'a, Model>) -> bool {
        self.inside
            .store(pinned::stack_pointer(), Ordering::Relaxed);
        let worked = self.advance(&mut model);
        if model.host.raised != 0
            && !std::mem::take(&mut model.has_flushed)
            && model.nic.holds_acknowledges()
        {
            self.acknowledge_events(model);
            return true;
        }
        self.inside.store(0, Ordering::Relaxed);
        let raised = std::mem::take(&mut model.host.raised);
        drop(model);
        if worked || raised != 0 {
            // Another thread may be waiting for the progress of this run.
            self.words.dozing.wake();
        }
        self.deliver(raised);
        // A thread that rings while the lock is held leaves its mark before it tries the lock. With
        // this fence, either that thread gets the lock or this thread sees the mark.
        fence(Ordering::SeqCst);
        worked
    }

    /// Sends delayed ACKs before interrupts are delivered. The ACK of a request must not arrive
    /// after the reply of an application that the interrupt wakes: other NICs send the ACK
    /// immediately, and a program that waits for events checks for the completion of its request
    /// only once, when the reply wakes it (`ib_send_lat -e`).
    ///
    /// This runs the model again rather than calling `advance` a second time in the run: a second
    /// call, even in a loop, reduces the message rate of small messages between processes by 5 %.
    #[cold]
    #[inline(never)]
    fn acknowledge_events<'a>(&'a self, mut model: MutexGuard<'a, Model>) {
        model.nic.flush_acknowledges();
        model.has_flushed = true;
        self.run_once(model);
    }

    #[inline]
    fn advance(&self, model: &mut Model) -> bool {
        let ticks = self.clock.ticks();
        let now = self.clock.instant(ticks);
        model.port.begin(ticks);
        if model.port.injected().concerns_device() {
            self.inject(model, now);
        }
        if model.port.may_have_steps() {
            self.take_steps(model, now);
        }
        let Model {
            nic,
            port,
            host,
            runs,
            is_at_rest,
            published,
            ..
        } = model;
        let Progress { worked, rests, .. } = nic.advance(now, host, port);
        let held = host.settle_old(now);
        self.rests.store(rests, Ordering::Relaxed);
        *is_at_rest = rests && !worked;
        port.finish(worked);
        let next = nic
            .next_timeout(now)
            .into_iter()
            .chain(port.next_delivery())
            .chain(held)
            .min();
        let next = if port.holds_own_frames() {
            AT_ONCE
        } else {
            next.map_or(u64::MAX, Instant::as_ps)
        };
        self.next_timeout.store(next, Ordering::Relaxed);
        self.check_at.store(port.check_at().0, Ordering::Relaxed);
        self.delayed_acks
            .store(nic.holds_acknowledges(), Ordering::Relaxed);
        *runs = runs.wrapping_add(1);
        if *runs % RUNS_PER_PUBLICATION == 0 {
            self.publish_counters(nic, port, published);
        }
        worked
    }

    #[cold]
    fn publish_counters(&self, nic: &mut Nic, port: &FabricPort, published: &mut Published) {
        let counters = published.counters(&Function::counters(nic));
        let values = counters.iter().flat_map(Counters::values);
        for (index, value) in values.enumerate().take(MAX_COUNTERS) {
            self.registry
                .counter(self.place, index)
                .store(*value, Ordering::Relaxed);
        }
        port.publish_faults();
    }

    /// Publishes the counters now. `limit` bounds the wait for a thread inside the model, because
    /// the caller may be a signal handler that interrupted that thread.
    pub fn publish(&self, limit: Duration) {
        if let Some(mut model) = self.model.try_lock_for(limit) {
            self.publish_all(&mut model);
        }
    }

    fn publish_all(&self, model: &mut Model) {
        let Model {
            nic,
            port,
            published,
            ..
        } = model;
        self.publish_counters(nic, port, published);
    }

    /// Publishes the counters before the function loses them.
    #[cold]
    fn keep_counters(&self, model: &mut Model) {
        self.publish_all(model);
        model.published.reset(&Function::counters(&mut model.nic));
    }

    /// Wakes the background thread in time for the work that the last run left, in case the
    /// application does not poll.
    fn notify_background(&self) {
        publish_work();
        if self.next_run() < self.wake_at.load(Ordering::SeqCst) {
            self.words.wake_background(self.clock.ticks());
        }
    }

    /// Wakes the background thread from a long sleep when the application begins to poll: the
    /// thread must notice soon when polling stops.
    #[inline]
    fn keep_background_near(&self, now: Ticks) {
        let wake_at = self.wake_at.load(Ordering::Relaxed);
        let long_ps = 2 * 1000 * WATCH_SHARED_NS;
        if wake_at > self.clock.instant(now).as_ps().saturating_add(long_ps) {
            self.words.wake_background(now);
        }
    }

    /// Lets a polling thread sleep until a frame arrives or something moves, at most `limit_ns`.
    #[cold]
    pub(crate) fn doze(&self, limit_ns: u64) {
        // Senders must not assume that this thread polls.
        self.words.set_polls_until(Ticks(0));
        self.words.dozing.announce();
        if let Some(mut model) = self.model.try_lock() {
            model.port.check_all(self.clock.ticks());
            self.check_at
                .store(model.port.check_at().0, Ordering::Relaxed);
            let mut has_work = model.has_work();
            drop(model);
            // A thread that rang while the lock was held has left its mark and relies on this
            // thread.
            fence(Ordering::SeqCst);
            has_work |= !self.doorbells.is_empty();
            let now = self.clock.now().as_ps();
            let time_ns = limit_ns.min(self.next_run().saturating_sub(now) / 1000);
            if !has_work && time_ns > 0 {
                self.words.dozing.sleep(time_ns);
            }
        } else {
            // Another thread is inside the model, possibly preempted there.
            os::yield_processor();
        }
        self.words.dozing.end();
        let until = after(self.clock.ticks(), self.spans.fresh);
        self.words.set_polls_until(until);
    }

    /// Returns the time at which the model has to run again or the peers have to be checked.
    fn next_run(&self) -> u64 {
        let check_at = match self.check_at.load(Ordering::Relaxed) {
            u64::MAX => u64::MAX,
            ticks => self.clock.instant(Ticks(ticks)).as_ps(),
        };
        self.next_timeout.load(Ordering::Relaxed).min(check_at)
    }

    /// Returns whether the background thread has work. It also publishes the counters and removes
    /// dead peers.
    pub fn outlook(&self) -> Outlook {
        let model = match self.is_served {
            // Unlike this process, a client does not check for marks after it leaves the model.
            true => Some(self.model.lock()),
            false => self.model.try_lock(),
        };
        let Some(mut model) = model else {
            return Outlook::Occupied;
        };
        let has_work = model.has_work() || !model.fall_asleep();
        model.port.prune();
        self.publish_all(&mut model);
        flush(&model.nic);
        drop(model);
        // A thread that rang while the lock was held has left its mark and relies on this thread.
        fence(Ordering::SeqCst);
        if has_work || !self.doorbells.is_empty() {
            Outlook::Work
        } else {
            Outlook::Nothing
        }
    }

    /// Returns the sleep time of the background thread: until the next timer of the model, limited
    /// to `least_ns ..= limit_ns`. Records the end of the sleep.
    pub fn sleep_time_ns(&self, least_ns: u64, limit_ns: u64) -> u64 {
        let now = self.clock.now().as_ps();
        let until = now.saturating_add(limit_ns.saturating_mul(1000));
        self.wake_at.store(until, Ordering::SeqCst);
        // Pairs with `notify_background`: either that function sees the end of the sleep, or this
        // thread sees the work.
        publish_work();
        let least = now.saturating_add(least_ns.saturating_mul(1000));
        let until = until.min(self.next_run().max(least));
        self.wake_at.store(until, Ordering::SeqCst);
        until.saturating_sub(now) / 1000
    }

    /// Records that the background thread is awake.
    pub fn woke(&self) {
        self.wake_at.store(0, Ordering::SeqCst);
        if self.is_served {
            self.model.lock().wake_up();
        }
    }

    /// Returns true if the background thread must exit.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Makes the background thread exit.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.words
            .woken_at
            .store(self.clock.ticks().0, Ordering::Relaxed);
        self.words.background.wake_always();
    }

    /// Marks a slot whose doorbell is not urgent, or whose lock was taken.
    #[inline]
    fn mark(&self, slot: u32) {
        self.doorbells.mark(slot);
    }

    /// Reads a register, under the lock.
    fn read(&self, read: impl FnOnce(&mut Nic, Instant) -> u64) -> u64 {
        if self.is_foreign() {
            return GONE;
        }
        let mut model = self.model.lock();
        let value = if self.is_removed() {
            GONE
        } else {
            read(&mut model.nic, self.clock.now())
        };
        // A card in RTL may have sent writes before its answer: they are executed first (PCIe base
        // specification, 2.4.1).
        if cfg!(feature = "rtl") {
            self.run(model);
        } else {
            self.unlock(model);
        }
        value
    }

    /// Releases the lock after a holder that did not run the model, and does the work that other
    /// threads left meanwhile.
    #[inline]
    fn unlock(&self, model: MutexGuard<'_, Model>) {
        drop(model);
        fence(Ordering::SeqCst);
        if !self.doorbells.is_empty() {
            self.try_run();
            self.notify_background();
        }
    }

    /// Writes registers, and runs the model for them.
    fn write(&self, write: impl FnOnce(&mut Model)) {
        if self.is_foreign() {
            return;
        }
        let mut model = self.model.lock();
        if !self.is_removed() {
            model.nic.set_time(|| self.clock.now());
            write(&mut model);
        }
        self.run(model);
        self.notify_background();
    }
}

/// Writes the recorded data to the file.
fn flush(nic: &Nic) {
    if let Some(recorder) = nic.recorder() {
        recorder.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ferroce_driver::bus::Bus;
    use ferroce_platform::doorbells::polled::DoorbellPages;
    use ferroce_spec::doorbell::SLEEPING_SLOT;
    use ferroce_test_support::temporary_directory;
    use ferroce_wire::Mac;

    use super::*;
    use crate::fabric::registry::Identity;

    fn function(directory: &Path, is_served: bool) -> InProcess {
        let registry = Registry::open(directory).expect("usable");
        let identity = Identity {
            host: "test".to_owned(),
            device: 0,
            mac: Mac([2, 0, 0, 0, 0, 1]),
            gids: Vec::new(),
            capture: 0,
        };
        let clock = Clock::start();
        let place = registry.claim(&identity).expect("free");
        let port = FabricPort::new(place, &clock, false, None);
        let config = NicConfig {
            polled_doorbells: is_served,
            ..NicConfig::functional(0x1_0000, identity.mac.0)
        };
        InProcess::new(config, port, clock, None)
    }

    /// Goal: no doorbell is lost while the lock is held for something other than a run of the
    /// model. Method: a doorbell is rung during each kind of hold.
    #[test]
    fn the_holder_of_the_model_does_the_work_left_to_it() {
        let directory = temporary_directory("left");
        let function = function(directory.path(), false);
        let ring = || function.doorbell(9, 1);

        function.read(|_, _| {
            ring();
            assert!(!function.doorbells.is_empty(), "left pending");
            0
        });
        assert!(function.doorbells.is_empty(), "after a register was read");
        function.with_mappings(|_| ring());
        assert!(function.doorbells.is_empty(), "after a mapping");
        function.write(|_| ring());
        assert!(
            function.doorbells.is_empty(),
            "after a register was written"
        );
        let model = function.model.lock();
        ring();
        drop(model);
        assert_eq!(function.outlook(), Outlook::Work, "a doorbell is left");
    }

    /// Goal: no request is left pending, whether or not the program polls. Method: check the
    /// pending doorbells of a program that has polled and then only posts.
    #[test]
    fn the_model_runs_for_each_request() {
        let directory = temporary_directory("requests");
        let function = function(directory.path(), false);
        for _ in 0..4 {
            function.relax();
        }
        for _ in 0..100 {
            function.doorbell(9, 1);
            assert!(function.model.lock().host.direct.is_empty());
        }
    }

    /// Goal: requests of a streaming program are batched, but only if the background thread shares
    /// its processor. Method: rounds of eight requests and one poll that finds completions.
    #[test]
    fn requests_of_a_stream_go_together() {
        let directory = temporary_directory("together");
        let function = function(directory.path(), false);
        let most_left = || {
            let round = || {
                let left = (0..8).map(|_| {
                    function.doorbell(9, 1);
                    function.model.lock().host.direct.len()
                });
                let most = left.max();
                function.note_poll();
                most
            };
            (0..20).filter_map(|_| round()).max()
        };
        assert_eq!(most_left(), Some(0), "helped");
        function.calls.set_helped(false);
        let most = most_left();
        assert!(most >= Some(2) && most < Some(8), "{most:?}");
        function.relax();
        assert!(function.model.lock().host.direct.is_empty(), "after a poll");
    }

    /// Goal: the first doorbell on new pages is not lost. Method: the background thread falls
    /// asleep before the pages exist, as it does while the function is unused.
    #[test]
    fn a_device_that_sleeps_when_it_gets_pages_says_so() {
        let directory = temporary_directory("new-pages");
        let function = function(directory.path(), true);
        assert_eq!(function.outlook(), Outlook::Nothing);
        let pages = Arc::new(DoorbellPages::new().expect("memory"));
        function.set_doorbell_pages(Some(pages.clone()));
        assert_eq!(pages.value(SLEEPING_SLOT), 1);
        function.wake();
        assert_eq!(pages.value(SLEEPING_SLOT), 0);
    }
}

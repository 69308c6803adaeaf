//! While `ferroce run --explain-errors` is on: a thread that looks at the queues of this process,
//! and reports what cannot go on, and that nothing has gone on for [`STALL`].
//!
//! It only sees the functional model: in simulated time a thread that waits for real time has no
//! place.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ferroce_driver::{CompletionQueue, QueuePair};
use ferroce_platform::explain::{self, STALL, Source};
use ferroce_platform::os;
use parking_lot::{Condvar, Mutex};

use crate::adapter::Adapter;
use crate::blocked_threads;
use crate::event::EventQueue;
use crate::log::WAITING;
use crate::os::fork::{Generation, ProcessLock};

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_millis(200);

/// A CQ and its channel.
#[derive(Clone)]
struct WatchedQueue {
    queue: Weak<CompletionQueue>,
    channel: Option<Weak<EventQueue>>,
}

/// The objects of this process.
struct Watched {
    /// The process, in a line of forks, that has the thread.
    thread_of: Option<Generation>,
    pairs: Vec<Weak<QueuePair>>,
    queues: Vec<WatchedQueue>,
}

static WATCHED: Mutex<Watched> = Mutex::new(Watched {
    thread_of: None,
    pairs: Vec::new(),
    queues: Vec::new(),
});

/// Watches a new QP, if errors are explained.
pub fn add_pair(adapter: &Adapter, pair: &Arc<QueuePair>) {
    add(adapter, |watched| {
        watched.pairs.retain(|pair| pair.strong_count() > 0);
        watched.pairs.push(Arc::downgrade(pair));
    });
}

/// Watches a new CQ, if errors are explained.
pub fn add_queue(
    adapter: &Adapter,
    queue: &Arc<CompletionQueue>,
    channel: Option<&Arc<EventQueue>>,
) {
    add(adapter, |watched| {
        watched.queues.retain(|one| one.queue.strong_count() > 0);
        watched.queues.push(WatchedQueue {
            queue: Arc::downgrade(queue),
            channel: channel.map(Arc::downgrade),
        });
    });
}

fn add(adapter: &Adapter, add: impl FnOnce(&mut Watched)) {
    if !explain::is_asked() || adapter.program_clock().is_some() {
        return;
    }
    // Prevents a fork meanwhile: the child would inherit WATCHED locked.
    let _no_fork = ProcessLock::enter();
    let mut watched = WATCHED.lock();
    if !watched.thread_of.is_some_and(Generation::is_current) {
        // Objects of the parent are dead here.
        watched.pairs.clear();
        watched.queues.clear();
        let builder = std::thread::Builder::new().name("ferroce-why".to_owned());
        let started = os::with_signals_blocked(|| builder.spawn(run));
        watched.thread_of = started.is_ok().then(Generation::current);
    }
    add(&mut watched);
}

/// A line of the summary: a QP, and what it waits for.
type Line = (Option<u32>, String);

/// Body of the thread. It ends with the process.
fn run() {
    let (lock, never) = (Mutex::new(()), Condvar::new());
    let mut watch = Watch {
        progress: 0,
        since: Instant::now(),
        seen: BTreeSet::new(),
        reported: BTreeSet::new(),
        has_stalled: false,
    };
    loop {
        never.wait_for(&mut lock.lock(), INTERVAL);
        watch.look();
    }
}

struct Watch {
    /// Sum of the indices of all queues.
    progress: u64,
    /// When it was last another one.
    since: Instant,
    /// The lines that held at the last look.
    seen: BTreeSet<Line>,
    /// The lines that are reported.
    reported: BTreeSet<Line>,
    has_stalled: bool,
}

impl Watch {
    fn look(&mut self) {
        // Prevents a fork meanwhile: the child would inherit locks of queues and of the log.
        let _no_fork = ProcessLock::enter();
        let (pairs, queues) = {
            let watched = WATCHED.lock();
            (watched.pairs.clone(), watched.queues.clone())
        };
        let pairs: Vec<_> = pairs.iter().filter_map(Weak::upgrade).collect();
        let progress = progress(&pairs, &queues);
        if progress != self.progress {
            self.progress = progress;
            self.since = Instant::now();
        }
        let is_stalled = !pairs.is_empty() && self.since.elapsed() >= STALL;
        let mut lines = BTreeSet::new();
        pairs
            .iter()
            .for_each(|pair| lines.extend(of_pair(pair, is_stalled)));
        queues
            .iter()
            .for_each(|queue| lines.extend(of_queue(queue, is_stalled)));
        // What is seen once may go on in the next moment.
        let seen = std::mem::replace(&mut self.seen, lines);
        let lines: BTreeSet<Line> = self.seen.intersection(&seen).cloned().collect();
        for (qpn, text) in lines.difference(&self.reported) {
            tracing::debug!(target: WAITING, qpn = *qpn, "{text}");
        }
        for (qpn, text) in self.reported.difference(&lines) {
            tracing::debug!(target: WAITING, qpn = *qpn, ended = true, "{text}");
        }
        self.reported = lines;
        self.report_stall(is_stalled);
    }

    fn report_stall(&mut self, is_stalled: bool) {
        const STALLED: &str = Source::Stalled.target();
        if std::mem::replace(&mut self.has_stalled, is_stalled) == is_stalled {
            return;
        }
        if is_stalled {
            tracing::debug!(target: STALLED, "no progress");
        } else {
            tracing::debug!(target: STALLED, ended = true, "no progress");
        }
    }
}

/// Returns a number that changes when the program posts or takes something.
fn progress(pairs: &[Arc<QueuePair>], queues: &[WatchedQueue]) -> u64 {
    let of_pair = |pair: &Arc<QueuePair>| {
        let sends = pair.send_queue().map_or(0, |queue| queue.backlog().posted);
        let receives = pair.receive_queue().map_or(0, |queue| queue.posted());
        u64::from(sends) + u64::from(receives)
    };
    let of_queue = |one: &WatchedQueue| one.queue.upgrade().map_or(0, |queue| queue.taken().into());
    let posted: u64 = pairs.iter().map(of_pair).sum();
    let taken: u64 = queues.iter().map(of_queue).sum();
    // New objects are progress, too.
    posted + taken + ((pairs.len() + queues.len()) as u64)
}

/// Returns what a send queue waits for.
fn of_pair(pair: &QueuePair, is_stalled: bool) -> Option<Line> {
    let backlog = pair.send_queue()?.backlog();
    let count = backlog.outstanding;
    let has_polled = pair.send_cq().is_none_or(|cq| cq.is_empty());
    if count == 0 || !has_polled {
        return None;
    }
    let text = match (backlog.signaled, backlog.is_full) {
        (0, true) => format!(
            "ibv_post_send: the {count} requests that fill the send queue make no completion, so \
             that none of their entries becomes free; right: IBV_SEND_SIGNALED on at least one of \
             {count} requests, or sq_sig_all"
        ),
        (0, false) if is_stalled => format!(
            "ibv_poll_cq: no completion comes of the newest requests, {count}: none has \
             IBV_SEND_SIGNALED; right: IBV_SEND_SIGNALED, or sq_sig_all"
        ),
        (1.., _) if is_stalled => format!(
            "ibv_poll_cq: {count} requests have no completion yet: the peer has not answered{}",
            without_timeout(pair)
        ),
        _ => return None,
    };
    Some((Some(pair.number().0), text))
}

/// Returns what is to be added for a QP that waits for its peer without end.
fn without_timeout(pair: &QueuePair) -> &'static str {
    if pair.query().is_ok_and(|now| now.timeout == 0) {
        "; with timeout 0 the QP never sends a lost request again; right: timeout 14 (67 ms) or \
         another one up to 31"
    } else {
        ""
    }
}

/// Returns what a CQ waits for.
fn of_queue(one: &WatchedQueue, is_stalled: bool) -> Option<Line> {
    let queue = one.queue.upgrade()?;
    let channel = one.channel.as_ref().and_then(Weak::upgrade);
    let unarmed = channel.filter(|channel| channel.is_unarmed());
    if unarmed.is_some_and(|channel| blocked_threads::wait_for(channel.fd())) {
        let text = "poll, epoll or select on the descriptor of a completion channel: no CQ of the \
                    channel is armed; right: ibv_req_notify_cq before each wait, and then a poll";
        return Some((None, text.to_owned()));
    }
    (is_stalled && !queue.is_empty()).then(|| {
        let text = "completions in a CQ: the program does not call ibv_poll_cq for it";
        (None, text.to_owned())
    })
}

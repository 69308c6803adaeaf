//! When the model runs and how its threads wait, as a pure state machine: no clock, no atomics, no
//! system calls. The program's threads and the background thread execute its decisions.
//!
//! - [`Attention`]: predicts the next call of the program from its last calls.
//! - [`Waiting`]: the decision of a program thread after a poll that found nothing.
//! - [`Background`]: the next step of the background thread.

use super::tunables::{
    IDLE_NS, LATE_TURNS, POLLS_AFTER_ARMING, POLLS_BEFORE_SWITCH, POLLS_BEFORE_YIELD,
    REQUESTS_TOGETHER, SHARED_TURNS, STREAM_ROUNDS, Spans, WATCH_ALONE_NS, WATCH_SHARED_NS, after,
};
use crate::clock::Ticks;

/// A call of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A doorbell that gives the function work.
    Request,
    /// A doorbell for receive WQEs: the function has no work until a frame arrives, and it takes
    /// doorbells before frames.
    Receive,
    /// The doorbell that arms a CQ.
    Arm,
    /// A CQ poll that found nothing.
    EmptyPoll,
    /// A poll that found completions. `in_flight`: requests wait for their acknowledgement.
    FullPoll {
        /// See [`Self::FullPoll`].
        in_flight: bool,
    },
}

/// Prediction of the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// The program polls, and will poll again soon.
    Polls,
    /// If the program polled recently, it still polls.
    Continues,
    /// The program is about to sleep.
    Sleeps,
}

/// Distance of the program from a polling loop: the number of polls that are still ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention(pub u32);

impl Attention {
    /// A program that has not polled yet.
    pub const NEW: Self = Self(POLLS_AFTER_ARMING);

    /// Returns the state after a call, and the prediction.
    #[inline]
    pub fn after(self, call: Call) -> (Self, Promise) {
        match (call, self.0) {
            (Call::Arm, _) => (Self(POLLS_AFTER_ARMING), Promise::Sleeps),
            (_, 0) => (self, Promise::Polls),
            (Call::EmptyPoll | Call::FullPoll { .. }, polls) => {
                (Self(polls - 1), Promise::Continues)
            }
            (Call::Request | Call::Receive, _) => (self, Promise::Continues),
        }
    }
}

/// Requests of a streaming program: it posts several requests between two polls, or finds
/// completions while others are in flight. Its next poll is expected after as many requests as
/// before the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Requests since the last poll.
    requests: u8,
    /// Requests before the last poll that found completions.
    expected: u8,
    /// Consecutive polls that found completions while streaming.
    rounds: u8,
}

impl Stream {
    /// A program that has made no call.
    pub const NEW: Self = Self {
        requests: 0,
        expected: 0,
        rounds: 0,
    };

    /// Returns the state after a call.
    #[inline]
    pub fn after(self, call: Call) -> Self {
        match call {
            Call::Request => Self {
                requests: self.requests.saturating_add(1),
                ..self
            },
            Call::Receive => self,
            Call::Arm => Self::NEW,
            Call::EmptyPoll => Self {
                requests: 0,
                ..self
            },
            Call::FullPoll { in_flight } => Self {
                requests: 0,
                expected: self.requests,
                rounds: if in_flight || self.requests >= 2 {
                    (self.rounds + 1).min(STREAM_ROUNDS)
                } else {
                    0
                },
            },
        }
    }

    /// Returns true if the program streams.
    #[inline]
    pub fn flows(self) -> bool {
        self.rounds >= STREAM_ROUNDS
    }

    /// Returns true if the request that was just posted should wait for the next request or poll,
    /// so that several requests are fetched and acknowledged together. `alone`: the background
    /// thread has a processor to itself and takes requests immediately.
    #[inline]
    pub fn waits(self, alone: bool) -> bool {
        let is_due = self.requests >= self.expected || self.requests % REQUESTS_TOGETHER == 0;
        self.flows() && !alone && !is_due
    }

    /// Encodes it as a word.
    pub fn to_bits(self) -> u32 {
        u32::from_le_bytes([self.requests, self.expected, self.rounds, 0])
    }

    /// Decodes a word of [`Self::to_bits`].
    pub fn from_bits(bits: u32) -> Self {
        let [requests, expected, rounds, _] = bits.to_le_bytes();
        Self {
            requests,
            expected,
            rounds,
        }
    }
}

/// Tracks whether yielding pays for a thread. It does next to threads that also yield. A program
/// that spins without yielding keeps the processor for its whole time slice; then sleeping is
/// better, because the kernel schedules a thread soon after it is woken.
#[derive(Debug)]
struct Yields {
    late_turns: u32,
    last_late: Ticks,
    resume_at: Ticks,
}

impl Yields {
    const NEW: Self = Self {
        late_turns: 0,
        last_late: Ticks(0),
        resume_at: Ticks(0),
    };

    fn pay(&self, now: Ticks) -> bool {
        now >= self.resume_at
    }

    /// Records that a thread that was runnable at `since` got its processor at `now`.
    fn note(&mut self, since: Ticks, now: Ticks, spans: &Spans) {
        if now.since(since) <= spans.late {
            return;
        }
        let goes_on = now.since(self.last_late) <= spans.pause;
        self.late_turns = if goes_on { self.late_turns + 1 } else { 1 };
        self.last_late = now;
        if self.late_turns >= LATE_TURNS {
            self.late_turns = LATE_TURNS;
            self.resume_at = after(now, spans.pause);
            // If the next one is late as well, the pause continues.
            self.last_late = self.resume_at;
        }
    }
}

/// Decision of a program thread after a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It returns to the program, which polls again.
    Spin,
    /// It yields its processor.
    Yield,
    /// It sleeps until a frame arrives or something moves.
    Doze,
}

/// The empty polls of a thread.
#[derive(Debug)]
pub struct Waiting {
    empty_polls: u32,
    polls_before_yield: u32,
    yields: Yields,
}

impl Waiting {
    /// A thread that has not polled yet.
    pub const NEW: Self = Self {
        empty_polls: 0,
        polls_before_yield: POLLS_BEFORE_YIELD,
        yields: Yields::NEW,
    };

    /// Records a poll that found or moved something.
    #[inline]
    pub fn found(&mut self) {
        self.empty_polls = 0;
    }

    /// Returns the decision after a poll at `now` that counts as `polls` empty ones.
    #[inline]
    pub fn found_nothing(&mut self, polls: u32, now: Ticks) -> Wait {
        if self.empty_polls < self.polls_before_yield {
            self.empty_polls += polls;
            return Wait::Spin;
        }
        self.empty_polls = 0;
        if self.yields.pay(now) {
            Wait::Yield
        } else {
            Wait::Doze
        }
    }

    /// Records a yield.
    pub fn yielded(&mut self, began: Ticks, ended: Ticks, spans: &Spans) {
        self.yields.note(began, ended, spans);
        self.polls_before_yield = if ended.since(began) > spans.switch {
            POLLS_BEFORE_SWITCH
        } else {
            POLLS_BEFORE_YIELD
        };
    }
}

/// The next step of the background thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It runs the model once.
    Run,
    /// It yields its processor.
    Yield,
    /// It moves to another processor, if there is one.
    Leave,
    /// It leaves the model to the program, and sleeps for this time or until it is woken.
    Watch(u64),
    /// It sleeps until a timer of the model is due, or until it is woken.
    Sleep,
}

/// State that the background thread finds after it has announced its sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// There is work now.
    Work,
    /// There is no work before the next timer of the model.
    Nothing,
    /// Another thread is inside the model, and may leave work.
    Occupied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Worked,
    FoundNothing,
    Yielded,
    Slept,
}

/// The background thread: it runs the model while the program does not poll.
#[derive(Debug)]
pub struct Background {
    last: Last,
    last_work: Ticks,
    yields: Yields,
    /// True if another thread wanted the processor at the last yield.
    is_shared: bool,
    /// Yields since `window_begin` that switched to another thread.
    shared_turns: u32,
    window_begin: Ticks,
    /// It does not change processors before this time.
    stays_until: Ticks,
}

impl Background {
    /// A thread that has just started.
    pub const NEW: Self = Self {
        last: Last::Slept,
        last_work: Ticks(0),
        yields: Yields::NEW,
        is_shared: false,
        shared_turns: 0,
        window_begin: Ticks(0),
        stays_until: Ticks(0),
    };

    /// Returns the next step at `now`. `polls`: the program polls. `streams`: the program streams;
    /// this thread takes its requests if it has a processor to itself.
    pub fn next(&mut self, now: Ticks, polls: bool, streams: bool, spans: &Spans) -> Step {
        let helps = streams && self.is_alone(now) && self.last != Last::Slept;
        if polls && !helps {
            return match self.last {
                // Find out whether the processor is shared.
                Last::Slept if self.yields.pay(now) => Step::Yield,
                _ => Step::Watch(self.watch_ns()),
            };
        }
        match self.last {
            Last::Worked | Last::Slept => Step::Run,
            Last::Yielded if self.is_crowded() && now >= self.stays_until => {
                self.shared_turns = 0;
                self.stays_until = after(now, spans.pause);
                Step::Leave
            }
            Last::Yielded => Step::Run,
            Last::FoundNothing
                if now.since(self.last_work) <= spans.spin && self.yields.pay(now) =>
            {
                Step::Yield
            }
            Last::FoundNothing => Step::Sleep,
        }
    }

    /// Returns how long it leaves the model to a polling program.
    pub fn watch_ns(&self) -> u64 {
        if self.is_shared {
            WATCH_SHARED_NS
        } else {
            WATCH_ALONE_NS
        }
    }

    /// Returns the minimum and the maximum sleep time in nanoseconds; the model's next timer ends
    /// the sleep in between. `None`: it does not sleep.
    pub fn sleeps_ns(&self, outlook: Outlook) -> Option<(u64, u64)> {
        match outlook {
            Outlook::Work => None,
            Outlook::Nothing => Some((0, IDLE_NS)),
            // The other thread also handles timers that are due, and may need this processor to
            // leave the model.
            Outlook::Occupied => Some((self.watch_ns(), self.watch_ns())),
        }
    }

    /// Records a run of the model that ended at `now`.
    pub fn ran(&mut self, worked: bool, now: Ticks) {
        if worked {
            self.last_work = now;
        }
        self.last = if worked {
            Last::Worked
        } else {
            Last::FoundNothing
        };
    }

    /// Records a yield.
    pub fn yielded(&mut self, began: Ticks, ended: Ticks, spans: &Spans) {
        self.last = Last::Yielded;
        self.yields.note(began, ended, spans);
        self.is_shared = ended.since(began) > spans.switch;
        if !self.is_shared {
            return;
        }
        if ended.since(self.window_begin) > spans.shared_window {
            self.window_begin = ended;
            self.shared_turns = 0;
        }
        self.shared_turns += 1;
    }

    /// Records the end of a sleep at `now`. Another thread ended the sleep at `woken_at`.
    pub fn slept(&mut self, woken_at: Option<Ticks>, now: Ticks, spans: &Spans) {
        self.last = Last::Slept;
        // A wake-up means work, and more work usually follows.
        self.last_work = now;
        if let Some(woken_at) = woken_at {
            self.yields.note(woken_at, now, spans);
        }
    }

    /// Returns true if it seems to have a processor to itself.
    pub fn is_alone(&self, now: Ticks) -> bool {
        !self.is_shared && self.yields.pay(now)
    }

    fn is_crowded(&self) -> bool {
        self.shared_turns >= SHARED_TURNS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPANS: fn() -> Spans = || Spans::with(|ns| ns);

    /// Lets a thread yield several times for the given time, `gap` apart. Returns its decision
    /// after the last yield.
    fn after_yields(count: u32, took: u64, gap: u64) -> Wait {
        let (mut waiting, mut now) = (Waiting::NEW, 1_000_000_000);
        for _ in 0..count {
            waiting.yielded(Ticks(now), Ticks(now + took), &SPANS());
            now += took + gap;
        }
        (0..=POLLS_BEFORE_YIELD)
            .map(|_| waiting.found_nothing(1, Ticks(now)))
            .find(|wait| *wait != Wait::Spin)
            .expect("it yields or sleeps after some polls")
    }

    /// Goal: a thread sleeps next to a program that keeps spinning, and yields next to others.
    #[test]
    fn repeated_late_turns_make_a_thread_sleep() {
        let (late, pause) = (2 * SPANS().late, SPANS().pause);
        assert_eq!(after_yields(LATE_TURNS, late, pause / 4), Wait::Doze);
        assert_eq!(after_yields(LATE_TURNS - 1, late, pause / 4), Wait::Yield);
        assert_eq!(
            after_yields(10, late, 2 * pause),
            Wait::Yield,
            "now and then"
        );
        assert_eq!(after_yields(10, SPANS().late, 0), Wait::Yield, "in time");
    }

    /// Goal: if another thread was preempted inside the model, the background thread gives up its
    /// own processor, even if a timer is due that it cannot handle.
    #[test]
    fn it_sleeps_while_another_thread_is_inside_the_model() {
        let mut background = Background::NEW;
        for is_shared in [false, true] {
            background.is_shared = is_shared;
            let (least_ns, _) = background.sleeps_ns(Outlook::Occupied).expect("it sleeps");
            assert_eq!(least_ns, background.watch_ns());
        }
        assert_eq!(background.sleeps_ns(Outlook::Work), None);
    }

    /// Goal: the calls of a polling program predict further polls, with or without an empty poll;
    /// calls after arming do not.
    #[test]
    fn polls_count_but_for_those_after_arming() {
        let full = Call::FullPoll { in_flight: false };
        let mut attention = Attention::NEW;
        let mut promise = |call| {
            let (next, promise) = attention.after(call);
            attention = next;
            promise
        };
        assert_eq!(
            promise(Call::Request),
            Promise::Continues,
            "it has never polled"
        );
        assert_eq!([full; 2].map(&mut promise), [Promise::Continues; 2]);
        assert_eq!(
            [full, Call::EmptyPoll, Call::Request].map(&mut promise),
            [Promise::Polls; 3]
        );
        assert_eq!(promise(Call::Arm), Promise::Sleeps);
        assert_eq!(
            [Call::EmptyPoll, full].map(&mut promise),
            [Promise::Continues; 2]
        );
        assert_eq!(promise(full), Promise::Polls);
    }
}

//! When the model runs and how its threads wait, as a pure state machine: no clock, no atomics, no
//! system calls. The program's threads and the background thread do what it says.
//!
//! - [`Attention`]: what a call of the program says about the next one.
//! - [`Waiting`]: what a thread of the program does after a poll that has found nothing.
//! - [`Background`]: what the background thread does next.

use super::tunables::{
    IDLE_NS, LATE_TURNS, POLLS_AFTER_ARMING, POLLS_BEFORE_SWITCH, POLLS_BEFORE_YIELD,
    REQUESTS_TOGETHER, SHARED_TURNS, STREAM_ROUNDS, Spans, WATCH_ALONE_NS, WATCH_SHARED_NS, after,
};
use crate::clock::Ticks;

/// A call of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A doorbell for which the function has something to do.
    Request,
    /// A doorbell for receive WQEs: the function has nothing to do before a frame comes, and takes
    /// doorbells before frames.
    Receive,
    /// The doorbell that asks for an event.
    Arm,
    /// A poll of a CQ that has found nothing.
    EmptyPoll,
    /// A poll that has found completions. `in_flight`: requests wait for their acknowledgement.
    FullPoll {
        /// See above.
        in_flight: bool,
    },
}

/// What a call says about the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// The program polls, and will again in a moment.
    Polls,
    /// If it has polled a moment ago, it still does.
    Continues,
    /// It is about to sleep.
    Sleeps,
}

/// How far the calls of a program are from a loop that polls: polls that have to come before calls
/// count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention(pub u32);

impl Attention {
    /// A program that has not polled yet.
    pub const NEW: Self = Self(POLLS_AFTER_ARMING);

    /// Returns that after a call, and what the call says.
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

/// Requests of a program that streams: it posts several between two polls, or finds completions
/// while others are in flight. Its next poll is due when it has posted as many as before the last
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Requests since the last poll.
    requests: u8,
    /// Requests before the last poll that has found completions.
    expected: u8,
    /// Polls in a row that have found completions of a stream.
    rounds: u8,
}

impl Stream {
    /// A program that has not called yet.
    pub const NEW: Self = Self {
        requests: 0,
        expected: 0,
        rounds: 0,
    };

    /// Returns that after a call.
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
                rounds: match in_flight || self.requests >= 2 {
                    true => (self.rounds + 1).min(STREAM_ROUNDS),
                    false => 0,
                },
            },
        }
    }

    /// Returns true if the program streams.
    #[inline]
    pub fn flows(self) -> bool {
        self.rounds >= STREAM_ROUNDS
    }

    /// Returns true if the request that was just posted waits for the next one, or for the next
    /// poll: requests that go together are fetched and acknowledged together. `alone`: the
    /// background thread has a processor for itself, and then takes requests at once.
    #[inline]
    pub fn waits(self, alone: bool) -> bool {
        let is_due = self.requests >= self.expected || self.requests % REQUESTS_TOGETHER == 0;
        self.flows() && !alone && !is_due
    }

    /// Returns it as a word.
    pub fn to_bits(self) -> u32 {
        u32::from_le_bytes([self.requests, self.expected, self.rounds, 0])
    }

    /// Returns what [`Self::to_bits`] has made a word of.
    pub fn from_bits(bits: u32) -> Self {
        let [requests, expected, rounds, _] = bits.to_le_bytes();
        Self {
            requests,
            expected,
            rounds,
        }
    }
}

/// Whether a thread gains from yields. Beside threads that yield, too, it does. A program that
/// spins without yielding keeps the processor for its time slice; then sleep is better, because a
/// thread that is woken gets the processor at once.
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

    /// Notes that a thread which could have had its processor at `since` has it at `now`.
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
            // If the next one is late, too, it goes on.
            self.last_late = self.resume_at;
        }
    }
}

/// What a thread of the program does after a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It returns to the program, which polls again.
    Spin,
    /// It yields its processor.
    Yield,
    /// It sleeps, and is woken when a frame comes or something has moved.
    Doze,
}

/// The polls of a thread that have found nothing.
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

    /// Notes a poll that has found something, or has moved something.
    #[inline]
    pub fn found(&mut self) {
        self.empty_polls = 0;
    }

    /// Returns what the thread does after a poll at `now` that counts as `polls` empty ones.
    #[inline]
    pub fn found_nothing(&mut self, polls: u32, now: Ticks) -> Wait {
        if self.empty_polls < self.polls_before_yield {
            self.empty_polls += polls;
            return Wait::Spin;
        }
        self.empty_polls = 0;
        match self.yields.pay(now) {
            true => Wait::Yield,
            false => Wait::Doze,
        }
    }

    /// Notes a yield.
    pub fn yielded(&mut self, began: Ticks, ended: Ticks, spans: &Spans) {
        self.yields.note(began, ended, spans);
        self.polls_before_yield = match ended.since(began) > spans.switch {
            true => POLLS_BEFORE_SWITCH,
            false => POLLS_BEFORE_YIELD,
        };
    }
}

/// What the background thread does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It runs the model once.
    Run,
    /// It yields its processor.
    Yield,
    /// It goes to another processor, if there is one.
    Leave,
    /// It sleeps for this time and leaves the model to the program, or until it is woken.
    Watch(u64),
    /// It sleeps until a timer of the model is due, or until it is woken.
    Sleep,
}

/// What the background thread finds when it has announced that it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// Something to do now.
    Work,
    /// Nothing before a timer of the model is due.
    Nothing,
    /// Another thread is inside the model, and may leave work when it leaves.
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
    /// True if another thread wanted the processor when this one last yielded.
    is_shared: bool,
    /// Yields with a switch since `window_begin`.
    shared_turns: u32,
    window_begin: Ticks,
    /// It does not leave its processor before this time.
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

    /// Returns what the thread does at `now`. `polls`: the program polls. `streams`: it streams,
    /// and this thread takes its requests if it has a processor for itself.
    pub fn next(&mut self, now: Ticks, polls: bool, streams: bool, spans: &Spans) -> Step {
        let helps = streams && self.is_alone(now) && self.last != Last::Slept;
        if polls && !helps {
            return match self.last {
                // Whether the processor is shared.
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

    /// Returns for how long it leaves the model to a program that polls.
    pub fn watch_ns(&self) -> u64 {
        match self.is_shared {
            true => WATCH_SHARED_NS,
            false => WATCH_ALONE_NS,
        }
    }

    /// Returns the least and the longest time for which it sleeps, in nanoseconds; in between it
    /// ends with the model's next timer. `None`: it does not sleep.
    pub fn sleeps_ns(&self, outlook: Outlook) -> Option<(u64, u64)> {
        match outlook {
            Outlook::Work => None,
            Outlook::Nothing => Some((0, IDLE_NS)),
            // Timers that are due are the other thread's as well, which may need this processor to
            // leave the model.
            Outlook::Occupied => Some((self.watch_ns(), self.watch_ns())),
        }
    }

    /// Notes a run of the model that has ended at `now`.
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

    /// Notes a yield.
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

    /// Notes the end of a sleep at `now`, which another thread has ended at `woken_at`.
    pub fn slept(&mut self, woken_at: Option<Ticks>, now: Ticks, spans: &Spans) {
        self.last = Last::Slept;
        // A wake-up comes with work, and more follows.
        self.last_work = now;
        if let Some(woken_at) = woken_at {
            self.yields.note(woken_at, now, spans);
        }
    }

    /// Returns true if it has a processor for itself, as far as it knows.
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

    /// Yields of a thread, of which each takes the given time, with `gap` between them. Returns
    /// what it does after the last one.
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

    /// Goal: a thread sleeps beside a program that goes on spinning, and yields beside others.
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

    /// Goal: beside a thread that has lost its processor inside the model, the background thread
    /// gives its own away, also while a timer is due that it cannot serve.
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

    /// Goal: the calls of a program that polls say that it polls on, with or without an empty poll;
    /// those after arming do not.
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

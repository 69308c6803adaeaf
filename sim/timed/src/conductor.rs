//! Lets the world go on: as fast as it can, in the time of the machine, or not at all.
//!
//! Long times in which nothing happens are skipped, unless somebody may still come: as long as a
//! host has no program, or a thread waits for something of which the world knows nothing, they pass
//! as on the machine. Otherwise watchdogs and retries would be over before that somebody is there.
//! When a program has gone, those that it has left are not kept waiting for another one for long.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration as RealDuration, Instant as RealInstant};

use ferroce_timed_protocol::page::Turn;
use ferroce_units::{Duration, Instant};

use super::program::Program;
use super::remote_thread::{Common, Outsider, RemoteThread};
use super::shared::{Event, Shared};
use ferroce_world::{Outcome, World};

/// Time that the world goes on in one piece.
const SLICE: Duration = Duration::from_ms(1);
/// Idle times longer than this are not skipped while somebody may come.
const PACED: Duration = Duration::from_ms(1);
/// How often outsiders are looked after while nothing happens.
const OUTSIDER_PERIOD: RealDuration = RealDuration::from_millis(1);
/// With nothing to come, and nobody to come: after so long that is said.
const DEADLOCK_PATIENCE: RealDuration = RealDuration::from_secs(5);
/// When a program has gone, those that it has left wait so long for another one.
const LOSS_PATIENCE: RealDuration = RealDuration::from_secs(2);
/// With nothing under way, each turn of the threads that poll is made, up to so many.
const MOST_IDLE_POLLS: u32 = 100_000;
/// Waiting for whatever comes.
const LONG: RealDuration = RealDuration::from_millis(500);

/// The world, and who is in it.
pub struct Conductor {
    world: World,
    common: Rc<Common>,
    shared: Arc<Shared>,
    /// Whether each host has a program.
    is_taken: Vec<bool>,
    idle_since: Option<RealInstant>,
    /// How often threads that poll have looked since, with nothing under way.
    idle_polls: u32,
    has_explained: bool,
    /// When a program has gone, and none has come since.
    lost_at: Option<RealInstant>,
    /// The only one left, when the other one was killed and nobody has come since.
    bereft: Option<Arc<Program>>,
}

impl Conductor {
    /// Of a new world.
    pub fn new(world: World, shared: &Arc<Shared>) -> Self {
        Self {
            common: Rc::new(Common::new(shared, world.waker())),
            shared: Arc::clone(shared),
            is_taken: vec![false; world.hosts()],
            idle_since: None,
            idle_polls: 0,
            has_explained: false,
            lost_at: None,
            bereft: None,
            world,
        }
    }

    /// Goes on until the world is to end.
    pub fn run(mut self) {
        loop {
            for event in self.shared.take_events() {
                self.handle(event);
            }
            if self.shared.is_stopping() {
                break;
            }
            self.shared.dump_if_wanted(|| self.dump());
            self.look_after_outsiders();
            self.go_on();
        }
        let places = self.common.places.borrow();
        places.iter().for_each(|place| place.program.end());
    }

    fn handle(&mut self, event: Event) {
        self.idle_since = None;
        match event {
            Event::Thread(program, number) => self.add(program, number),
            Event::Gone(program) => self.remove(&program),
            Event::Access => {}
        }
    }

    fn add(&mut self, program: Arc<Program>, number: usize) {
        if program.is_over() {
            return;
        }
        self.is_taken[program.host] = true;
        self.lost_at = None;
        let bereft = self.bereft.take_if(|bereft| bereft.id != program.id);
        bereft.inspect(|bereft| bereft.set_bereft(false));
        let bus = self.world.bus(program.host);
        let thread = RemoteThread::new(&self.common, Arc::clone(&program), number, bus);
        let thread = self.world.spawn(program.host, Box::new(thread));
        self.common.places.borrow_mut().push(Outsider {
            thread,
            program,
            number,
        });
    }

    fn remove(&mut self, program: &Arc<Program>) {
        let is_other = |place: &Outsider| place.program.id != program.id;
        let mut places = self.common.places.borrow_mut();
        for place in places.iter().filter(|place| !is_other(place)) {
            self.world.kill(place.thread);
        }
        places.retain(is_other);
        self.is_taken[program.host] = places
            .iter()
            .any(|place| place.program.host == program.host);
        self.common.outsiders.borrow_mut().retain(is_other);
        self.lost_at = Some(RealInstant::now());
        let now = self.world.now();
        let woken = self.common.streams.borrow_mut().forget(program.id, now);
        for (thread, at) in woken {
            self.world.wake(thread, at);
        }
        self.shared.take_interrupts(program.host);
        drop(places);
        if !program.has_exited() {
            self.tell_partner_of(program);
        }
    }

    /// A program was killed, or has crashed. If there is one other in the world, which does not wait
    /// for a connection, the two have worked together: what that one measures without it is no
    /// result. Its polls and posts fail until somebody else comes; all else goes its way, and ends
    /// as it does for whoever is left.
    fn tell_partner_of(&mut self, program: &Program) {
        let places = self.common.places.borrow();
        let mut others = places.iter().map(|place| &place.program);
        let Some(partner) = others.next() else { return };
        let is_alone = others.all(|other| other.id == partner.id);
        if !is_alone || partner.is_over() || self.common.streams.borrow().has_acceptor() {
            return;
        }
        eprintln!(
            "ferroce world: process {} on host {} has gone without exit (it was killed, or has \
             crashed); process {} on host {} cannot finish what the two have begun: its polls and \
             posts fail",
            program.pid, program.host, partner.pid, partner.host
        );
        partner.set_bereft(true);
        self.bereft = Some(Arc::clone(partner));
    }

    /// Those who are back get a turn.
    fn look_after_outsiders(&mut self) {
        let now = self.world.now();
        for outsider in &*self.common.outsiders.borrow() {
            if outsider.program.page(outsider.number).turn() != Turn::Thread {
                self.world.wake(outsider.thread, now);
            }
        }
    }

    fn go_on(&mut self) {
        let now = self.world.now();
        let Some(next) = self.world.next_event() else {
            return self.wait_for_anything();
        };
        if self.world.has_only_looks() {
            return self.let_pollers_look(now, next);
        }
        self.idle_since = None;
        self.idle_polls = 0;
        let gap = next.saturating_since(now);
        let outcome = match self.is_paced() {
            true if gap > PACED => self.pace(now, next),
            _ => self.world.run(next.max(now) + SLICE),
        };
        if outcome == Outcome::Stalled && self.world.next_event().is_some() {
            self.explain("its threads go round without time passing");
        }
    }

    /// Lets an idle time pass as on the machine, until something comes up.
    fn pace(&mut self, now: Instant, next: Instant) -> Outcome {
        let begun = RealInstant::now();
        let gap = RealDuration::from_nanos(next.saturating_since(now).as_ps() / 1000);
        self.shared.wait(gap.min(self.patience()));
        let passed = Duration::from_ns(begun.elapsed().as_nanos() as u64);
        self.world.run(next.min(now + passed))
    }

    /// How long may be waited without a look at outsiders.
    fn patience(&self) -> RealDuration {
        match self.common.outsiders.borrow().is_empty() {
            true => LONG,
            false => OUTSIDER_PERIOD,
        }
    }

    fn is_paced(&self) -> bool {
        let has_outsiders = !self.common.outsiders.borrow().is_empty();
        let has_room = self.is_taken.iter().any(|is_taken| !is_taken);
        has_outsiders || has_room && !self.is_left()
    }

    /// Nothing is going to happen, but threads poll, and one of them may do more than that after so
    /// many polls: at first each turn of their loops is made. Later they look round as seldom as
    /// they do when something is under way.
    fn let_pollers_look(&mut self, now: Instant, next: Instant) {
        let since = *self.idle_since.get_or_insert_with(RealInstant::now);
        if self.end_if_left() {
            return;
        }
        if since.elapsed() > DEADLOCK_PATIENCE {
            self.explain_polls();
        }
        if self.idle_polls < MOST_IDLE_POLLS {
            self.idle_polls += 1;
            for place in &*self.common.places.borrow() {
                self.common.waker.look_again(place.thread, now);
            }
            let next = self.world.next_event().unwrap_or(now);
            self.world.run(next.max(now));
        } else if self.is_paced() {
            self.pace(now, next);
        } else {
            self.world.run(next.max(now) + SLICE);
        }
    }

    /// Says once for what threads poll in vain.
    fn explain_polls(&mut self) {
        let free = self.is_taken.iter().position(|is_taken| !is_taken);
        match free {
            Some(host) => self.explain(&format!(
                "threads poll, and nothing is under way; host {host} has no program: it joins \
                 with the same --timed PRESET (and --seed, --set), or the same --world SOCKET"
            )),
            None => self.explain("threads poll for something that will not happen"),
        }
    }

    /// Ends the world if a program has gone, and what the others wait for will not happen.
    fn end_if_left(&mut self) -> bool {
        let is_left = self.is_left();
        if is_left {
            eprint!(
                "ferroce world: a program has gone, and what the others wait for will not happen: \
                 the world ends\n{}",
                self.dump()
            );
            self.shared.stop();
        }
        is_left
    }

    fn wait_for_anything(&mut self) {
        let since = *self.idle_since.get_or_insert_with(RealInstant::now);
        if self.end_if_left() {
            return;
        }
        if !self.is_paced() && since.elapsed() > DEADLOCK_PATIENCE {
            self.explain("all its threads wait for something that will not happen");
        }
        self.shared.wait(self.patience());
    }

    /// Whether programs are there that another one has left a while ago. Who waits for a connection
    /// waits for the next one.
    fn is_left(&self) -> bool {
        let is_long_ago = |at: RealInstant| at.elapsed() > LOSS_PATIENCE;
        self.lost_at.is_some_and(is_long_ago)
            && !self.common.places.borrow().is_empty()
            && self.common.outsiders.borrow().is_empty()
            && !self.common.streams.borrow().has_acceptor()
    }

    /// Says once what is wrong.
    fn explain(&mut self, what: &str) {
        if !std::mem::replace(&mut self.has_explained, true) {
            eprint!("ferroce world: {what}\n{}", self.dump());
        }
    }

    fn dump(&self) -> String {
        let mut text = self.world.dump();
        for place in &*self.common.places.borrow() {
            let Program { host, pid, .. } = *place.program;
            let (thread, number) = (place.thread, place.number);
            let page = place.program.page(number);
            let turns = page.turns.load(Ordering::Relaxed);
            let call = page.last_call.get();
            text.push_str(&format!(
                "{thread:?}: process {pid} on host {host}, page {number}, {turns} turns, last call \
                 {call}\n"
            ));
        }
        let outsiders = self.common.outsiders.borrow();
        text.push_str(&format!("{} threads are outside\n", outsiders.len()));
        text
    }
}

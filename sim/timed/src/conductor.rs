//! Advances the world: as fast as possible, at real-time pace, or not at all.
//!
//! Long idle times are skipped, unless a program may still join or return: while a host has no
//! program, or a thread waits for something that the world does not model, they pass in real time.
//! Otherwise watchdogs and retries would expire before the other program is there. After a program
//! has left, the remaining programs wait for another one only for a limited time.
//!
//! A world can hold its clock until a number of programs have joined. Meanwhile each program runs
//! up to its first wait: a server waits for connections, a client has connected and waits for the
//! answer. So all programs begin at the same time, whenever they were started.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration as RealDuration, Instant as RealInstant};

use ferroce_model::preset::Preset;
use ferroce_timed_protocol::host_name::HostName;
use ferroce_timed_protocol::page::Turn;
use ferroce_units::{Duration, Instant};
use ferroce_world::{Cpu, Outcome, World};

use super::cm_agent::CmAgents;
use super::program::Program;
use super::remote_thread::{Common, Outsider, RemoteThread};
use super::shared::{Event, Shared};

/// Time that the world advances in one piece.
const SLICE: Duration = Duration::from_ms(1);
/// Idle times longer than this are not skipped while a program may join or return.
const PACED: Duration = Duration::from_ms(1);
/// Period of checks for returning threads while nothing happens.
const OUTSIDER_PERIOD: RealDuration = RealDuration::from_millis(1);
/// Report a deadlock after this time without an event, if no program may join.
const DEADLOCK_LIMIT: RealDuration = RealDuration::from_secs(5);
/// After a program has left, the remaining programs wait this long for another one.
const LOSS_LIMIT: RealDuration = RealDuration::from_secs(2);
/// With nothing in progress, polling threads execute at most this many iterations.
const MOST_IDLE_POLLS: u32 = 100_000;
/// Wait for any event.
const LONG: RealDuration = RealDuration::from_millis(500);

/// The world and its programs.
pub struct Conductor {
    world: World,
    common: Rc<Common>,
    shared: Arc<Shared>,
    /// The names of the hosts.
    names: Vec<HostName>,
    /// For each host, true if it has a program.
    is_taken: Vec<bool>,
    /// The clock stands still until this many hosts have programs; zero: it runs.
    held_for: usize,
    idle_since: Option<RealInstant>,
    /// Iterations of polling threads since then, with nothing in progress.
    idle_polls: u32,
    has_explained: bool,
    /// Time at which a program left, if none has joined since.
    lost_at: Option<RealInstant>,
    /// The only program left, if the other one was killed and none has joined since.
    partner_of_lost: Option<Arc<Program>>,
}

impl Conductor {
    /// Creates the conductor of a new world, whose hosts have these names and presets. The clock
    /// stands still until `held_for` programs have joined.
    pub fn new(
        world: World,
        names: Vec<HostName>,
        presets: &[Preset],
        shared: &Arc<Shared>,
        held_for: usize,
    ) -> Self {
        let cm_agents = CmAgents::new(presets, world.wire(), world.waker());
        Self {
            common: Rc::new(Common::new(shared, world.waker(), cm_agents)),
            shared: Arc::clone(shared),
            names,
            is_taken: vec![false; world.hosts()],
            held_for,
            idle_since: None,
            idle_polls: 0,
            has_explained: false,
            lost_at: None,
            partner_of_lost: None,
            world,
        }
    }

    /// Runs until the world is to end.
    pub fn run(mut self) {
        loop {
            for event in self.shared.take_events() {
                self.handle(event);
            }
            if self.shared.is_stopping() {
                break;
            }
            self.shared.dump_if_wanted(|| self.dump());
            self.resume_outsiders();
            self.go_on();
            self.bury_killed();
        }
        let places = self.common.places.borrow();
        places.iter().for_each(|place| place.program.end());
    }

    fn handle(&mut self, event: Event) {
        self.idle_since = None;
        match event {
            Event::Thread(program, number) => self.add(program, number),
            Event::Gone(program) => self.remove(&program),
            Event::Replaced(program) => {
                self.remove_threads(&program);
                // The kernel has closed descriptors.
                self.common.notify(&program, self.world.now(), None);
            }
            Event::Wake(program, address) => {
                let now = self.world.now();
                self.common
                    .wake_address(&program, address, u32::MAX, u32::MAX, now);
            }
            Event::Notify(program) => self.common.notify(&program, self.world.now(), None),
            Event::Access => {}
            Event::Cm => self.start_cm_agents(),
        }
    }

    /// Makes the RDMA CM agents threads of the world, unless they are.
    fn start_cm_agents(&mut self) {
        let mut agents = self.common.cm_agents.borrow_mut();
        if agents.have_threads() {
            return;
        }
        for host in 0..self.is_taken.len() {
            let common = Rc::clone(&self.common);
            let step = move |cpu: &mut Cpu<'_>| {
                let next = common.cm_agents.borrow_mut().step(host, cpu);
                common.announce_cm_events(cpu.now());
                next
            };
            let thread = self.world.spawn_in_kernel(host, Box::new(step));
            agents.set_thread(host, thread);
        }
    }

    fn add(&mut self, program: Arc<Program>, number: usize) {
        if program.is_over() {
            return;
        }
        self.is_taken[program.host] = true;
        self.lost_at = None;
        program.set_held(self.held_for > 0);
        let partner_of_lost = self
            .partner_of_lost
            .take_if(|partner_of_lost| partner_of_lost.id != program.id);
        partner_of_lost.inspect(|partner_of_lost| partner_of_lost.set_lost_partner(false));
        let bus = self.world.bus(program.host);
        let thread = RemoteThread::new(&self.common, Arc::clone(&program), number, bus);
        let thread = self.world.spawn(program.host, Box::new(thread));
        let mut places = self.common.places.borrow_mut();
        // Sorted by host, so that the result does not depend on which program was faster.
        let key = |place: &Outsider| (place.program.host, place.program.id, place.number);
        let before = (program.host, program.id, number);
        let place = places.partition_point(|place| key(place) < before);
        let outsider = Outsider {
            thread,
            program,
            number,
        };
        places.insert(place, outsider);
    }

    fn remove(&mut self, program: &Arc<Program>) {
        self.remove_threads(program);
        let now = self.world.now();
        self.common.note_end(program, now);
        if self.common.parent_of(program).is_some() {
            // It knows that its child has ended.
            return;
        }
        self.lost_at = Some(RealInstant::now());
        if !program.has_exited() && !program.is_killed() {
            self.notify_partner_of(program);
        }
    }

    /// Removes what the world has of a program.
    fn remove_threads(&mut self, program: &Arc<Program>) {
        let is_other = |place: &Outsider| place.program.id != program.id;
        let mut places = self.common.places.borrow_mut();
        for place in places.iter().filter(|place| !is_other(place)) {
            self.world.kill(place.thread);
            self.common.addresses.borrow_mut().forget(place.thread);
        }
        places.retain(is_other);
        self.is_taken[program.host] = places
            .iter()
            .any(|place| place.program.host == program.host);
        self.common.outsiders.borrow_mut().retain(is_other);
        let now = self.world.now();
        let woken = self.common.streams.borrow_mut().forget(program.id, now);
        for (thread, at) in woken {
            self.world.wake(thread, at);
        }
        if program.owns_card() {
            self.shared.take_interrupts(program.host);
        }
        drop(places);
        let mut agents = self.common.cm_agents.borrow_mut();
        agents.forget(now, program);
        drop(agents);
        self.common.announce_cm_events(now);
    }

    /// Ends the processes of programs that a situation of the plan of faults has killed. Their
    /// partners go on: what they see is wanted.
    fn bury_killed(&mut self) {
        for host in self.world.take_killed() {
            let places = self.common.places.borrow();
            let on_host = places.iter().filter(|place| place.program.host == host);
            let mut programs: Vec<_> = on_host.map(|place| Arc::clone(&place.program)).collect();
            drop(places);
            programs.dedup_by_key(|program| program.id);
            for program in programs {
                program.kill();
                self.remove(&program);
            }
        }
    }

    /// Fails the polls and posts of the partner of a killed program.
    ///
    /// If exactly one other program is in the world, and it does not wait for a connection, the two
    /// have worked together, and its further measurements are invalid. Its polls and posts fail
    /// until another program joins. Everything else behaves as after a normal exit.
    fn notify_partner_of(&mut self, program: &Program) {
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
            program.pid, program.name, partner.pid, partner.name
        );
        partner.set_lost_partner(true);
        self.partner_of_lost = Some(Arc::clone(partner));
    }

    /// Gives a turn to threads that have returned from outside.
    fn resume_outsiders(&mut self) {
        let now = self.world.now();
        for outsider in &*self.common.outsiders.borrow() {
            if outsider.program.page(outsider.number).turn() != Turn::Thread {
                self.world.wake(outsider.thread, now);
            }
        }
    }

    fn go_on(&mut self) {
        let now = self.world.now();
        if self.held_for > 0 {
            return self.hold(now);
        }
        let Some(next) = self.world.next_event() else {
            return self.wait_for_anything();
        };
        if self.world.has_only_rechecks() {
            return self.let_pollers_check(now, next);
        }
        self.idle_since = None;
        self.idle_polls = 0;
        let gap = next.saturating_since(now);
        let outcome = match self.is_paced() {
            true if gap > PACED => self.pace(now, next),
            _ => self.world.run(next.max(now) + SLICE),
        };
        if outcome == Outcome::Stalled && self.world.next_event().is_some() {
            self.explain("its threads run without time passing");
        }
    }

    /// Runs everything that takes no time. Starts the clock when all programs have joined and wait.
    fn hold(&mut self, now: Instant) {
        if self.world.next_event().is_some_and(|next| next <= now) {
            self.world.run(now);
            return;
        }
        let joined = self.is_taken.iter().filter(|is_taken| **is_taken).count();
        if joined >= self.held_for {
            return self.release();
        }
        let since = *self.idle_since.get_or_insert_with(RealInstant::now);
        if joined > 0 && since.elapsed() > DEADLOCK_LIMIT && !self.has_explained {
            self.has_explained = true;
            eprintln!(
                "ferroce world: time begins with {} programs, and {joined} have joined; free: {}",
                self.held_for,
                self.free_hosts()
            );
        }
        self.shared.wait(self.wait_limit());
    }

    /// Starts the clock.
    fn release(&mut self) {
        self.held_for = 0;
        self.idle_since = None;
        self.lost_at = None;
        for place in &*self.common.places.borrow() {
            place.program.set_held(false);
        }
        self.world.order_by_host();
    }

    /// Returns the names of the hosts without programs.
    fn free_hosts(&self) -> String {
        let hosts = self.names.iter().zip(&self.is_taken);
        let free = hosts.filter(|(_, is_taken)| !**is_taken);
        let names: Vec<String> = free.map(|(name, _)| name.to_string()).collect();
        names.join(", ")
    }

    /// Lets an idle time pass in real time, until an event.
    fn pace(&mut self, now: Instant, next: Instant) -> Outcome {
        let begun = RealInstant::now();
        let gap = RealDuration::from_nanos(next.saturating_since(now).as_ps() / 1000);
        self.shared.wait(gap.min(self.wait_limit()));
        let passed = Duration::from_ns(begun.elapsed().as_nanos() as u64);
        self.world.run(next.min(now + passed))
    }

    /// Returns how long to wait until the next check of outsiders.
    fn wait_limit(&self) -> RealDuration {
        if self.common.outsiders.borrow().is_empty() {
            LONG
        } else {
            OUTSIDER_PERIOD
        }
    }

    fn is_paced(&self) -> bool {
        let has_outsiders = !self.common.outsiders.borrow().is_empty();
        let has_room = self.is_taken.iter().any(|is_taken| !is_taken);
        has_outsiders || has_room && !self.is_left()
    }

    /// Lets polling threads check when no event is left: one of them may act after a number of
    /// polls. At first every iteration of their loops is executed; later they check as rarely as
    /// when something is in progress.
    fn let_pollers_check(&mut self, now: Instant, next: Instant) {
        let since = *self.idle_since.get_or_insert_with(RealInstant::now);
        if self.end_if_left() {
            return;
        }
        if since.elapsed() > DEADLOCK_LIMIT {
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

    /// Reports once why threads poll.
    fn explain_polls(&mut self) {
        let free = self.is_taken.iter().position(|is_taken| !is_taken);
        match free.map(|host| self.names[host]) {
            Some(name) => self.explain(&format!(
                "threads poll, and nothing is under way; host {name} has no program: it joins \
                 with the same --timed PRESET (and --seed, --set), or the same --world SOCKET"
            )),
            None => self.explain("threads poll for something that will not happen"),
        }
    }

    /// Ends the world if a program has left, and the others wait for something that will never
    /// happen.
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
        if !self.is_paced() && since.elapsed() > DEADLOCK_LIMIT {
            self.explain("all its threads wait for something that will not happen");
        }
        self.shared.wait(self.wait_limit());
    }

    /// Returns true if a program left a while ago and others remain. A thread that waits for a
    /// connection waits for the next program.
    fn is_left(&self) -> bool {
        let is_long_ago = |at: RealInstant| at.elapsed() > LOSS_LIMIT;
        self.lost_at.is_some_and(is_long_ago)
            && !self.common.places.borrow().is_empty()
            && self.common.outsiders.borrow().is_empty()
            && !self.common.streams.borrow().has_acceptor()
    }

    /// Prints once what is wrong.
    fn explain(&mut self, what: &str) {
        if !std::mem::replace(&mut self.has_explained, true) {
            eprint!("ferroce world: {what}\n{}", self.dump());
        }
    }

    fn dump(&self) -> String {
        let mut text = self.world.dump();
        if self.held_for > 0 {
            text.push_str(&format!("time begins with {} programs\n", self.held_for));
        }
        text.push_str(&format!("free hosts: {}\n", self.free_hosts()));
        for place in &*self.common.places.borrow() {
            let Program { name, pid, .. } = *place.program;
            let (thread, number) = (place.thread, place.number);
            let page = place.program.page(number);
            let turns = page.turns.load(Ordering::Relaxed);
            let call = page.last_call.get();
            text.push_str(&format!(
                "{thread:?}: process {pid} on host {name}, page {number}, {turns} turns, last call \
                 {call}\n"
            ));
        }
        let outsiders = self.common.outsiders.borrow();
        text.push_str(&format!("{} threads are outside\n", outsiders.len()));
        text
    }
}

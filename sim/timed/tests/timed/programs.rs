//! Programs in a simulated world: they use its pages by hand.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::timed_support::*;
use ferroce_driver::{
    CompletionQueue, CompletionStatus, Device, DeviceConfig, MemoryRegion, Qpn, QueuePair,
    QueuePairConfig, RemoteAddress, RtsAttributes, SendOperation, WorkCompletion,
};
use ferroce_host::numbered_hosts;
use ferroce_test_support::{TIMEOUT, eventually, stays};
use ferroce_test_verbs::{self as verbs, Memory};
use ferroce_timed::control::refusal;
use ferroce_timed::{Lifetime, TimedWorld};
use ferroce_timed_protocol::control::Refusal;
use ferroce_timed_protocol::page::{NEVER_PS, Turn};
use ferroce_timed_protocol::request::{Check, Wait};
use ferroce_timed_protocol::store::StoreKind;
use ferroce_timed_protocol::{STREAM_LATENCY_PS, VERSION};
use ferroce_world::{FabricPlan, WorldConfig};

const US: u64 = 1_000_000;
const MS: u64 = 1000 * US;

#[test]
fn a_thread_gets_its_turn_at_its_time() {
    let world = TestWorld::new("turns", 1);
    let program = join(&world.path);
    assert_eq!(program.host, 0);
    let page = &program.pages.pages().program;
    assert_eq!(page.hosts.load(Ordering::Relaxed), 1);
    assert!(page.costs.post_ps.load(Ordering::Relaxed) > 0);
    let thread = program.thread();
    assert!(thread.await_turn());
    let start = thread.now();
    thread.spend(3 * US);
    thread.sleep_until(start);
    assert_eq!(thread.now(), start + 3 * US, "never back");
    thread.sleep_until(start + 70 * US);
    assert_eq!(thread.now(), start + 70 * US);
    let real = Instant::now();
    thread.sleep_until(start + 100_000 * MS);
    assert_eq!(thread.now(), start + 100_000 * MS);
    assert!(
        real.elapsed() < limit(),
        "no program can join: no need to wait"
    );
    thread.end();
}

#[test]
fn programs_get_hosts_in_their_order_and_give_them_back() {
    let world = TestWorld::new("hosts", 2);
    let one = join(&world.path);
    let other = join(&world.path);
    assert_eq!((one.host, other.host), (0, 1));
    assert_eq!(
        try_join(&world.path, VERSION).err(),
        Some(Some(Refusal::NoHost))
    );
    assert_eq!(try_join(&world.path, 0).err(), Some(Some(Refusal::Version)));
    drop(one);
    let third = join(&world.path);
    assert_eq!(third.host, 0);
    other.say(&[1, 2, 3]);
    eventually("an invalid program is removed", TIMEOUT, || {
        try_join(&world.path, VERSION).is_ok()
    });
}

#[test]
fn a_program_gets_the_host_that_it_names() {
    let config = config(5);
    let fabric = FabricPlan::star(3).with_functions(1, 3);
    let config = WorldConfig {
        fabric: Some(fabric),
        ..config
    };
    let world = TestWorld::start("names", false, config);
    let join_host = |host| join_host(&world.path, host);
    let place = |host| join_host(host).map(|program| (program.host, program));
    let (host, _last) = place("n2").expect("it is free");
    assert_eq!(host, 4);
    let (host, function) = place("n1.1").expect("it is free");
    assert_eq!(host, 2);
    let pid = std::process::id();
    let taken = Some(Refusal::Taken { pid });
    assert_eq!(place("n1.1").err(), taken);
    let others = ["n1", "n1"].map(|name| place(name).expect("the next function"));
    assert_eq!(others.each_ref().map(|(host, _)| *host), [1, 3]);
    assert_eq!(place("n1").err(), taken);
    let functions = Refusal::NoSuchFunction { functions: 3 };
    assert_eq!(place("n1.3").err(), Some(functions));
    assert_eq!(place("n3").err(), Some(Refusal::NoSuchHost { hosts: 3 }));
    let question = |name: &str| refusal(&world.path, name.parse().expect("a name"));
    assert_eq!((question("n2"), question("n0")), (taken, None));
    assert_eq!(join(&world.path).host, 0, "the first free one");
    drop(function);
    eventually("it is free again", TIMEOUT, || question("n1").is_none());
}

/// Goal: time does not pass before all programs have joined. Method: one sleeps, and wakes when
/// another one has joined.
#[test]
fn a_clock_is_held_until_all_programs_are_there() {
    let lifetime = Lifetime {
        held_for: 2,
        ..Lifetime::default()
    };
    let world = TestWorld::start_for("held", lifetime, config(3));
    let one = join(&world.path);
    let thread = one.thread();
    assert!(thread.await_turn());
    assert_eq!(thread.now(), 0);
    thread.give(&Wait::At { time_ps: US });
    let is_held = || thread.page().turn() == Turn::World;
    assert!(
        stays(Duration::from_millis(50), is_held),
        "time stands still"
    );
    let other = join(&world.path);
    let second = other.thread();
    assert!(second.await_turn());
    assert_eq!(second.now(), 0);
    second.give(&Wait::At { time_ps: 2 * US });
    assert!(thread.await_turn() && thread.now() == US);
    thread.give(&Wait::At { time_ps: 3 * US });
    assert!(second.await_turn() && second.now() == 2 * US);
    let path = world.path.with_extension("other");
    let lifetime = Lifetime {
        held_for: 4,
        ..lifetime
    };
    let error = TimedWorld::start(config(3), &path, lifetime).expect_err("too many");
    assert!(error.to_string().contains("room for 3"), "{error}");
}

/// Bytes of the memory of each host.
const BYTES: usize = 32 << 10;

/// Memory that a card may use, with a queue pair and its resources.
struct Host {
    _device: Arc<Device>,
    bus: Arc<PagedBus>,
    cq: Arc<CompletionQueue>,
    qp: Arc<QueuePair>,
    memory: Memory,
    region: Arc<MemoryRegion>,
}

impl Host {
    fn new(program: &Program, thread: &ProgramThread) -> Self {
        let bus = program.card(thread);
        let device = Device::open_with(bus.clone(), &DeviceConfig::default());
        let device = device.expect("the card comes up");
        let gids = &numbered_hosts::of_host(program.host as usize).gids;
        verbs::set_gids(&device, gids.iter().map(|entry| (entry.gid, entry.mac)));
        let cq = verbs::new_cq(&device, 64);
        let pd = device.alloc_pd().expect("first PD");
        let config = QueuePairConfig {
            max_inline_data: 64,
            ..verbs::qp_config(&cq, 16)
        };
        let qp = verbs::new_qp(&pd, &config);
        let memory = Memory::new(BYTES);
        let region = verbs::register(&pd, &memory);
        Self {
            _device: device,
            bus,
            cq,
            qp,
            memory,
            region,
        }
    }

    fn remote(&self) -> RemoteAddress {
        verbs::remote(&self.region, 0)
    }

    fn connect(&self, host: u32, qpn: Qpn) {
        let identity = numbered_hosts::of_host(host as usize);
        let path = verbs::path_to(identity.gids[1].gid, identity.mac);
        let rts = RtsAttributes {
            timeout: 10,
            retry_count: 3,
            ..verbs::rts()
        };
        verbs::connect(&self.qp, verbs::rtr(qpn, path), rts);
    }

    fn write(&self, remote: RemoteAddress, length: u32) {
        let segment = verbs::segment(&self.region, 0, length as usize);
        verbs::post(&self.qp, 5, SendOperation::RdmaWrite(remote), segment);
    }

    fn completion(&self, thread: &ProgramThread) -> WorkCompletion {
        let mut found = None;
        for _ in 0..100_000 {
            self.cq.poll(1, |completion| found = Some(completion));
            if let Some(found) = found {
                return found;
            }
            thread.wait(&Wait::OnWrite {
                grid_ps: 20_000,
                check: Check::Completions,
            });
        }
        panic!("no completion");
    }
}

/// Returns two programs, each with a host whose queue pair is connected to the other's. The first
/// has the turn; the other one sleeps until `US` later.
fn pair(world: &TestWorld) -> [(Program, ProgramThread, Host); 2] {
    let (one, other) = (join(&world.path), join(&world.path));
    let mine = one.thread();
    assert!(mine.await_turn());
    let a = Host::new(&one, &mine);
    let start = mine.now();
    let theirs = other.thread();
    mine.give(&Wait::At {
        time_ps: start + US,
    });
    assert!(theirs.await_turn());
    let b = Host::new(&other, &theirs);
    b.connect(one.host, a.qp.number());
    theirs.give(&Wait::At {
        time_ps: start + 2 * US,
    });
    assert!(mine.await_turn());
    a.connect(other.host, b.qp.number());
    [(one, mine, a), (other, theirs, b)]
}

/// Lets one program write a page to the other's memory. Returns when the other has seen it, when
/// the writer has its completion, and which words have arrived.
fn transfer(elide_payload: bool) -> (u64, u64, Vec<u64>) {
    let config = WorldConfig {
        elide_payload,
        ..config(2)
    };
    let world = TestWorld::start("card", false, config);
    let [(_one, mine, a), (_other, theirs, b)] = pair(&world);
    for (value, word) in (1..).zip(&a.memory[..512]) {
        word.store(value, Ordering::Relaxed);
    }
    // It polls the last word that is written.
    mine.give(&Wait::At {
        time_ps: mine.now() + 5 * US,
    });
    assert!(theirs.await_turn());
    let range = b.memory[511..512].as_ptr_range();
    let polled = theirs.now();
    theirs.give(&Wait::OnWrite {
        grid_ps: 1000,
        check: Check::Memory(range.start.addr() as u64..range.end.addr() as u64),
    });
    assert!(mine.await_turn());
    let posted = mine.now();
    a.write(b.remote(), 4096);
    mine.give(&Wait::OnWrite {
        grid_ps: 20_000,
        check: Check::Completions,
    });
    assert!(theirs.await_turn());
    let seen = theirs.now();
    let words = b.memory[..512].iter();
    let words = words.map(|word| word.load(Ordering::Acquire)).collect();
    assert_eq!((seen - polled) % 1000, 0, "with a turn of the loop");
    theirs.give(&Wait::End);
    assert!(mine.await_turn());
    let completion = a.completion(&mine);
    assert_eq!(completion.status, CompletionStatus::Success);
    let (seen, done) = (seen - posted, mine.now() - posted);
    assert!(seen > 500_000 && seen < 10 * US && done > seen && done < 20 * US);
    mine.end();
    (seen, done, words)
}

#[test]
fn a_card_moves_data_between_two_programs() {
    let first = transfer(false);
    assert!(first.2.iter().copied().eq(1..=512));
    assert_eq!(transfer(false), first, "it is always the same");
    let (seen, done, words) = transfer(true);
    assert_eq!((seen, done), (first.0, first.1), "it takes as long");
    assert!(
        words[..504].iter().all(|word| *word == 0),
        "none of this was moved"
    );
    assert_eq!(words[504..], first.2[504..], "polled words were");
}

/// Lets one program write twice to the other's memory, and meanwhile check for completions that
/// cannot be visible yet. Returns the time until both are there, and the number of turns.
fn checks(is_deferred: bool) -> (u64, u64) {
    let world = TestWorld::new("checks", 2);
    let [(_one, mine, a), (_other, theirs, b)] = pair(&world);
    mine.give(&Wait::At {
        time_ps: mine.now() + 5 * US,
    });
    assert!(theirs.await_turn());
    theirs.give(&Wait::At {
        time_ps: theirs.now() + MS,
    });
    assert!(mine.await_turn());
    let (page, posted) = (mine.page(), mine.now());
    let turns = page.turns.load(Ordering::Relaxed);
    let reaction = page.reaction_ps.load(Ordering::Relaxed);
    for _ in 0..2 {
        a.write(b.remote(), 64);
        for _ in 0..2 {
            mine.spend(20_000);
            let hidden_until = page.hidden_until_ps.load(Ordering::Relaxed);
            assert!(mine.now() < hidden_until.min(posted + reaction));
            if is_deferred {
                mine.store(StoreKind::Check, 0, &[]);
            } else {
                mine.wait(&Wait::Check);
            }
        }
    }
    for _ in 0..2 {
        a.completion(&mine);
    }
    let turns = page.turns.load(Ordering::Relaxed) - turns;
    let time = mine.now() - posted;
    mine.give(&Wait::End);
    assert!(theirs.await_turn());
    theirs.end();
    (time, turns)
}

#[test]
fn deferred_checks_only_save_turns() {
    let (at_once, later) = (checks(false), checks(true));
    assert_eq!(at_once.0, later.0);
    assert_eq!(later.1 + 4, at_once.1);
}

#[test]
fn interrupts_come_with_the_turn() {
    const WAKE_UP: u64 = 3 * US;
    let world = TestWorld::new("interrupts", 2);
    let [(_one, mine, a), (_other, theirs, b)] = pair(&world);
    mine.give(&Wait::At {
        time_ps: mine.now() + 5 * US,
    });
    assert!(theirs.await_turn());
    theirs.give(&Wait::End);
    assert!(mine.await_turn());
    let sleep = Wait::OnInterrupt {
        wake_up_ps: WAKE_UP,
    };
    a.cq.arm();
    a.write(b.remote(), 64);
    let posted = mine.now();
    mine.wait(&sleep);
    let slept = mine.now() - posted;
    assert!(slept > WAKE_UP + 500_000 && slept < WAKE_UP + 10 * US);
    assert!(a.bus.handle_interrupts());
    let woken = mine.now();
    assert_eq!(a.completion(&mine).status, CompletionStatus::Success);
    assert_eq!(mine.now(), woken, "it is there");
    // A completion that is already there keeps the thread from sleeping.
    a.cq.arm();
    a.write(b.remote(), 64);
    mine.spend(100 * US);
    let before = mine.now();
    mine.wait(&sleep);
    assert_eq!(mine.now(), before);
    assert!(a.bus.handle_interrupts());
    // No event comes without a request.
    let deadline = mine.now() + MS;
    mine.wait_until(&sleep, deadline);
    assert_eq!(mine.now(), deadline);
    assert!(!a.bus.handle_interrupts());
    mine.end();
}

#[test]
fn a_program_that_waits_for_a_dead_one_ends() {
    let world = TestWorld::new("left", 2);
    let [(_one, mine, _a), (other, theirs, _b)] = pair(&world);
    mine.give(&Wait::OnWrite {
        grid_ps: 20_000,
        check: Check::Completions,
    });
    assert!(theirs.await_turn());
    drop(other);
    assert!(!mine.await_turn(), "its world has ended");
    assert!(world.world.as_ref().is_some_and(|world| world.has_ended()));
}

#[test]
fn what_a_killed_program_leaves_behind_is_errors() {
    let world = TestWorld::new("killed", 2);
    let [(one, mine, a), (other, theirs, b)] = pair(&world);
    let has_lost_partner = || {
        one.pages
            .pages()
            .program
            .has_lost_partner
            .load(Ordering::SeqCst)
            != 0
    };
    let real = Instant::now();
    mine.store(StoreKind::Send, 0, &[77, 10]);
    // The process is killed while its thread waits.
    mine.give(&Wait::At {
        time_ps: mine.now() + 5 * US,
    });
    assert!(theirs.await_turn());
    theirs.store(StoreKind::Send, 0, &[78, 0]);
    theirs.give(&Wait::At {
        time_ps: theirs.now() + 1000 * MS,
    });
    assert!(mine.await_turn());
    let remote = b.remote();
    mine.give(&Wait::OnStream { stream: 78 });
    drop((b, other));
    assert!(mine.await_turn());
    assert_eq!(
        mine.page().answer.load(Ordering::Relaxed),
        0,
        "the stream has ended"
    );
    assert_eq!(theirs.page().turn(), Turn::Ended);
    assert!(has_lost_partner(), "what it measures now is no result");
    a.write(remote, 64);
    let completion = a.completion(&mine);
    assert_eq!(completion.status, CompletionStatus::RetryExceededError);
    assert!(real.elapsed() < limit());
    let third = join(&world.path);
    assert_eq!(third.host, 1, "its host is free");
    let thread = third.thread();
    mine.give(&Wait::End);
    assert!(thread.await_turn());
    assert!(!has_lost_partner(), "another program has joined");
    Host::new(&third, &thread);
    // The same with a program that has the turn.
    drop(third);
    let fourth = join(&world.path);
    assert!(fourth.thread().await_turn());
}

#[test]
fn invalid_request_ends_a_program_and_not_its_world() {
    let world = TestWorld::new("invalid", 2);
    let witness = join(&world.path);
    let watching = witness.thread();
    assert!(watching.await_turn());
    watching.give(&Wait::External);
    assert!(watching.await_turn());
    let calls: [fn(&ProgramThread); 8] = [
        |thread| thread.give_raw(99, [0; 4]),
        |thread| thread.give_raw(1, [0, 7, 0, 0]),
        |thread| thread.give_raw(1, [u64::MAX, 0, 0, 0]),
        |thread| thread.give_raw(2, [u64::MAX, 0, 0, 0]),
        |thread| {
            thread.spend(u64::MAX - 1 - thread.now());
            thread.give(&Wait::At { time_ps: 0 });
        },
        |thread| {
            thread.store(StoreKind::Push, u32::MAX, &[1, 2, 3]);
            thread.give(&Wait::At { time_ps: 0 });
        },
        |thread| {
            thread.store(StoreKind::Register, 0x7fff_fffc, &[1]);
            thread.give(&Wait::At { time_ps: 0 });
        },
        |thread| {
            thread.store(StoreKind::Doorbell, 8, &[]);
            thread.give(&Wait::At { time_ps: 0 });
        },
    ];
    for call in calls {
        let program = join(&world.path);
        let thread = program.thread();
        assert!(thread.await_turn());
        call(&thread);
        assert!(!thread.await_turn());
        assert_ne!(
            program
                .pages
                .pages()
                .program
                .has_ended
                .load(Ordering::Relaxed),
            0
        );
    }
    // Meaningless but harmless requests: all doorbells, lists that are much too long, the end of
    // time.
    let program = join(&world.path);
    let thread = program.thread();
    assert!(thread.await_turn());
    for slot in [0, 8, 1 << 18, u32::MAX] {
        thread.store(StoreKind::Doorbell, slot, &[u64::MAX]);
    }
    thread.store(StoreKind::Push, 1 << 18, &[u64::MAX; 64]);
    thread.store(StoreKind::Receive, 0, &[5, u64::MAX]);
    thread.store(StoreKind::Close, 0, &[5]);
    thread.sleep_until(thread.now());
    let deadline = thread.now() + US;
    thread.wait_until(&Wait::At { time_ps: NEVER_PS }, deadline);
    assert_eq!(thread.now(), deadline);
    thread.wait_until(&Wait::OnInterrupt { wake_up_ps: 0 }, deadline + 1);
    assert_eq!(thread.now(), deadline + 1);
    thread.end();
}

#[test]
fn streams_take_their_time() {
    let world = TestWorld::new("streams", 2);
    let (one, other) = (join(&world.path), join(&world.path));
    let (mine, theirs) = (one.thread(), other.thread());
    assert!(mine.await_turn());
    mine.store(StoreKind::Listen, 18515, &[]);
    mine.give(&Wait::OnConnection { port: 18515 });
    assert!(theirs.await_turn());
    theirs.spend(US);
    let connected = theirs.now();
    theirs.store(StoreKind::Connect, 18515, &[]);
    theirs.spend(US);
    theirs.store(StoreKind::Send, 0, &[1, 100]);
    theirs.spend(US);
    theirs.store(StoreKind::Send, 0, &[1, 50]);
    theirs.store(StoreKind::Close, 0, &[1]);
    theirs.give(&Wait::OnStream { stream: 2 });
    assert!(mine.await_turn());
    assert_eq!(mine.page().answer.load(Ordering::Relaxed), 1);
    assert_eq!(mine.now(), connected + STREAM_LATENCY_PS);
    assert_eq!(mine.wait(&Wait::OnStream { stream: 1 }), 100);
    assert_eq!(mine.now(), connected + US + STREAM_LATENCY_PS);
    mine.store(StoreKind::Receive, 0, &[1, 60]);
    mine.spend(2 * US);
    assert_eq!(mine.wait(&Wait::OnStream { stream: 1 }), 90);
    assert_eq!(
        mine.now(),
        connected + 3 * US + STREAM_LATENCY_PS,
        "it was there"
    );
    mine.store(StoreKind::Receive, 0, &[1, 90]);
    assert_eq!(mine.wait(&Wait::OnStream { stream: 1 }), 0);
    let deadline = mine.now() + MS;
    assert_eq!(
        mine.wait_until(&Wait::OnStream { stream: 9 }, deadline),
        u64::MAX
    );
    assert_eq!(mine.now(), deadline);
    let connection = Wait::OnConnection { port: 18515 };
    assert_eq!(mine.wait_until(&connection, deadline + MS), u64::MAX);
    mine.store(StoreKind::Send, 0, &[2, 7]);
    let sent = mine.now();
    mine.give(&Wait::End);
    assert!(theirs.await_turn());
    assert_eq!(theirs.page().answer.load(Ordering::Relaxed), 7);
    assert_eq!(theirs.now(), sent + STREAM_LATENCY_PS);
    theirs.store(StoreKind::Receive, 0, &[2, 7]);
    theirs.give(&Wait::OnStream { stream: 2 });
    drop(one);
    assert!(theirs.await_turn());
    assert_eq!(
        theirs.page().answer.load(Ordering::Relaxed),
        0,
        "its program has gone"
    );
}

#[test]
fn a_thread_outside_delays_no_other_thread() {
    let world = TestWorld::new("outside", 1);
    let program = join(&world.path);
    let (mine, theirs) = (program.thread(), program.thread());
    assert!(mine.await_turn());
    mine.give(&Wait::External);
    assert!(mine.await_turn());
    assert!(theirs.await_turn());
    theirs.sleep_until(theirs.now() + 100 * US);
    let real = Instant::now();
    theirs.sleep_until(theirs.now() + 100 * MS);
    assert!(
        real.elapsed() >= Duration::from_millis(95),
        "a program may join"
    );
    theirs.give(&Wait::At {
        time_ps: theirs.now() + 50 * MS,
    });
    mine.give(&Wait::Return);
    assert!(mine.await_turn());
    assert!(mine.now() > 100 * MS);
    mine.give(&Wait::End);
    assert!(theirs.await_turn());
    // It keeps its turn and sleeps: the other one continues.
    let late = program.thread();
    theirs.give(&Wait::At {
        time_ps: theirs.now() + 10 * US,
    });
    assert!(late.await_turn());
    // This thread has the turn, and sleeps.
    thread::sleep(Duration::from_millis(500));
    assert!(theirs.await_turn());
    theirs.sleep_until(theirs.now() + US);
    let real = Instant::now();
    late.give(&Wait::At { time_ps: 0 });
    assert!(late.await_turn());
    assert!(real.elapsed() < limit() && late.now() >= theirs.now());
}

/// Goal: no program joins too late. While a host has no program, idle time passes in real time.
/// When all programs have joined, or no more can join, idle time is skipped.
#[test]
fn idle_time_is_that_of_the_machine_while_a_host_is_free() {
    const IDLE: u64 = 300 * MS;
    let world = TestWorld::new("paced", 2);
    let idle = |thread: &ProgramThread, time_ps: u64| {
        let real = Instant::now();
        thread.sleep_until(thread.now() + time_ps);
        real.elapsed()
    };
    let one = join(&world.path);
    let mine = one.thread();
    assert!(mine.await_turn());
    let alone = idle(&mine, IDLE);
    assert!(
        alone >= Duration::from_millis(290) && alone < limit(),
        "{alone:?}"
    );
    // Short idle times are always skipped: two seconds of them.
    let real = Instant::now();
    for _ in 0..4000 {
        mine.sleep_until(mine.now() + MS / 2);
    }
    let short = real.elapsed();
    assert!(short < Duration::from_millis(1500), "{short:?}");
    let other = join(&world.path);
    let theirs = other.thread();
    mine.give(&Wait::At {
        time_ps: mine.now() + 1000 * IDLE,
    });
    assert!(theirs.await_turn());
    let together = idle(&theirs, 10 * IDLE);
    assert!(together < Duration::from_millis(1500), "{together:?}");
}

#[test]
fn a_world_ends_with_its_last_program_if_it_is_to() {
    let world = TestWorld::start("once", true, config(2));
    assert!(try_join(&world.path, 0).is_err());
    let (one, other) = (join(&world.path), join(&world.path));
    drop(one);
    assert_eq!(join(&world.path).host, 0);
    let thread = other.thread();
    assert!(thread.await_turn());
    drop(other);
    eventually("the end of the world", TIMEOUT, || {
        world.world.as_ref().is_some_and(|world| world.has_ended())
    });
    assert!(!world.path.exists());
    assert!(!thread.await_turn());
}

/// Prints the number of turns per second.
#[test]
fn turns_are_fast() {
    const TURNS: u64 = 20_000;
    let world = TestWorld::new("speed", 1);
    let program = join(&world.path);
    let thread = program.thread();
    assert!(thread.await_turn());
    let start = Instant::now();
    for turn in 0..TURNS {
        thread.sleep_until(turn * US);
    }
    let time = start.elapsed();
    println!("{:.2} us a turn", time.as_secs_f64() * 1e6 / TURNS as f64);
    assert!(time < limit());
}

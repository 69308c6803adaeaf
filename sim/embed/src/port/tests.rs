//! The port of the fabric, connected to a second port in the same process.

mod faults;

use std::net::Ipv4Addr;
use std::path::Path;

use ferroce_test_support::{TemporaryDirectory, send_frame, temporary_directory};
use ferroce_wire::pcapng::{Interface, NANOSECONDS};
use ferroce_wire::{Frame as WireFrame, Mac};

use super::*;
use crate::fabric::registry::{Identity, Injection};

const LOCAL: Gid = Gid::from_ipv4(Ipv4Addr::LOCALHOST);

fn port(directory: &Path, clock: &Clock, capture: Option<Capture>, icrc: bool) -> FabricPort {
    let registry = Registry::open(directory).expect("usable");
    let identity = Identity {
        host: "test".to_owned(),
        device: 0,
        mac: Mac([2, 0, 0, 0, 0, 1]),
        gids: vec![LOCAL],
        capture: capture.as_ref().map_or(0, Capture::identity),
    };
    FabricPort::new(
        registry.claim(&identity).expect("free"),
        clock,
        icrc,
        capture,
    )
}

fn interface() -> Interface {
    Interface {
        name: "test".to_owned(),
        about: None,
        resolution: NANOSECONDS,
    }
}

fn route(to: &FabricPort) -> Route {
    let qpn = Qpn::new(to.place.first_qpn().value() + 5);
    Route {
        mac: Mac([2, 0, 0, 0, 0, 1]),
        gid: LOCAL,
        qpn,
    }
}

fn send(from: &mut FabricPort, route: &Route, bytes: &[u8]) -> bool {
    match from.reserve(route, bytes.len()) {
        Reservation::Ready(mut frame) => {
            frame.as_mut().copy_from_slice(bytes);
            from.transmit(Instant::ZERO, frame);
            true
        }
        _ => false,
    }
}

fn take(port: &mut FabricPort) -> Option<Vec<u8>> {
    let (_, frame) = port.receive(Instant::ZERO)?;
    let bytes = frame.as_ref().to_vec();
    port.release(frame);
    Some(bytes)
}

fn two(name: &str) -> (TemporaryDirectory, Clock, FabricPort, FabricPort) {
    let directory = temporary_directory(name);
    let clock = Clock::start();
    let one = port(directory.path(), &clock, None, false);
    let other = port(directory.path(), &clock, None, false);
    (directory, clock, one, other)
}

/// Goal: frames arrive whether they were sent before or after the receiver dropped its user ID.
/// Method: the receiver asks to move the ring before it attaches, as it does when it cannot open
/// the file.
#[test]
fn a_ring_that_its_receiver_cannot_open_moves_with_its_frames() {
    let (directory, clock, mut one, mut other) = two("moves");
    let files = || std::fs::read_dir(directory.path()).expect("there").count();
    let before = files();
    let there = route(&other);
    assert!(send(&mut one, &there, b"first") && send(&mut one, &there, b"second"));
    assert_eq!(files(), before + 1, "a separate file");
    let (from, to) = (other.place.number(), one.place.number());
    one.registry.set_opens_no_files(from, true);
    one.registry.ask_to_move(from, to);
    one.begin(clock.ticks());
    assert_eq!(files(), before, "no separate file");
    assert!(send(&mut one, &there, b"third"));
    // On a second request the ring stays.
    one.registry.ask_to_move(from, to);
    one.begin(clock.ticks());
    other.begin(clock.ticks());
    for bytes in [b"first".as_slice(), b"second", b"third"] {
        assert_eq!(take(&mut other).as_deref(), Some(bytes));
    }
    // The ring in the other direction is in a file: its sender can create one.
    let back = route(&one);
    assert!(send(&mut other, &back, b"back"));
    assert_eq!(files(), before + 1);
    one.begin(clock.ticks());
    assert_eq!(take(&mut one).as_deref(), Some(b"back".as_slice()));
}

/// Goal: a ring to a place that cannot open files is never in a file, and its memory is freed when
/// the place is released.
#[test]
fn spare_room_is_used_where_it_is_needed_and_given_back() {
    use std::os::unix::fs::MetadataExt;
    let (directory, clock, mut one, mut other) = two("spare");
    let blocks = || {
        let spare = std::fs::metadata(directory.path().join("spare"));
        spare.expect("opened with the registry").blocks()
    };
    assert_eq!(blocks(), 0);
    one.registry.set_opens_no_files(other.place.number(), true);
    let there = route(&other);
    assert!(send(&mut one, &there, b"to spare room") && blocks() > 0);
    other.begin(clock.ticks());
    assert_eq!(
        take(&mut other).as_deref(),
        Some(b"to spare room".as_slice())
    );
    drop(other);
    assert_eq!(blocks(), 0, "given back");
}

#[test]
fn frames_go_by_qpn_and_address_also_to_oneself() {
    let (_directory, clock, mut one, mut other) = two("route");
    let there = route(&other);
    assert!(send(&mut one, &there, b"to the other"));
    let here = route(&one);
    assert!(send(&mut one, &here, b"to myself"));
    one.begin(clock.ticks());
    other.begin(clock.ticks());
    assert!(one.has_frame() && other.has_frame());
    assert_eq!(take(&mut one).as_deref(), Some(b"to myself".as_slice()));
    assert_eq!(
        take(&mut other).as_deref(),
        Some(b"to the other".as_slice())
    );
    assert_eq!((take(&mut one), take(&mut other)), (None, None));

    let nowhere = Route {
        qpn: Qpn::new(77 << 16),
        ..there
    };
    assert!(matches!(one.reserve(&nowhere, 64), Reservation::NoRoute));
    let unknown = Gid::from_ipv4(Ipv4Addr::new(10, 9, 8, 7));
    let wrong_host = Route {
        gid: unknown,
        ..there
    };
    assert!(matches!(one.reserve(&wrong_host, 64), Reservation::NoRoute));
    // A driver in another process (vfio-user) sets the addresses of a function later.
    other.set_gid(3, unknown);
    assert!(send(&mut one, &wrong_host, b"to a new address"));
    assert!(send(&mut one, &there, b"and to the old one"));
    for special in [0, 1] {
        let qpn = Qpn::new(special);
        let special = Route { qpn, ..there };
        assert!(matches!(one.reserve(&special, 64), Reservation::NoRoute));
    }
    drop(other);
    assert!(matches!(one.reserve(&there, 64), Reservation::NoRoute));
}

#[test]
fn a_new_owner_of_a_place_sees_no_old_frames() {
    let (directory, clock, mut one, other) = two("owner");
    let there = route(&other);
    let kept = one.reserve(&there, 4);
    let Reservation::Ready(kept) = kept else {
        panic!("there is room")
    };
    drop(other);
    // Places are used in rotation: claim until the same one is used again.
    let (mut again, mut others) = (port(directory.path(), &clock, None, false), Vec::new());
    while again.place.first_qpn() != Qpn::new(there.qpn.value() & 0xff_0000) {
        others.push(again);
        again = port(directory.path(), &clock, None, false);
    }
    assert!(send(&mut one, &there, b"new"));
    one.transmit(Instant::ZERO, kept);
    again.begin(clock.ticks());
    assert_eq!(take(&mut again).as_deref(), Some(b"new".as_slice()));
    assert_eq!(take(&mut again), None);
}

#[test]
fn rings_take_turns() {
    let (_directory, clock, mut one, mut other) = two("fair");
    let there = route(&other);
    for _ in 0..40 {
        assert!(send(&mut one, &there, b"one") && send(&mut other, &there, b"other"));
    }
    other.begin(clock.ticks());
    let first: Vec<_> = (0..64).filter_map(|_| take(&mut other)).collect();
    let from_one = first.iter().filter(|bytes| *bytes == b"one").count();
    assert_eq!((first.len(), from_one), (64, 32));
    assert_eq!((0..80).filter_map(|_| take(&mut other)).count(), 16);
}

#[test]
fn a_stuck_receiver_pushes_back_and_then_loses_frames() {
    let (_directory, clock, mut one, other) = two("stuck");
    let there = route(&other);
    one.begin(clock.ticks());
    while send(&mut one, &there, b"x") {}
    assert!(matches!(one.reserve(&there, 1), Reservation::Full));
    one.now.0 += 2 * one.spans.max_pause;
    assert!(matches!(one.reserve(&there, 1), Reservation::NoRoute));
}

#[test]
fn only_a_silent_peer_is_woken() {
    let (_directory, clock, mut one, mut other) = two("wake");
    let there = route(&other);
    let registry = one.registry;
    let place = other.place.number();
    let words = registry.words(place);
    let armed = || words.background.is_announced();
    words.background.announce();
    let now = clock.ticks();
    words.set_polls_until(Ticks(now.0 + one.spans.fresh));
    one.begin(now);
    assert!(send(&mut one, &there, b"x"));
    one.finish(true);
    assert!(armed(), "it polls");
    assert_eq!(one.check_at().0, now.0 + one.spans.fresh);
    one.begin(one.check_at());
    one.finish(false);
    assert!(!armed(), "it has not polled for long");

    words.background.announce();
    other.begin(clock.ticks());
    assert!(take(&mut other).is_some());
    other.finish(false);
    one.begin(Ticks(now.0 + 1000 * one.spans.fresh));
    one.finish(false);
    assert!(armed(), "nothing waits for it");
    assert_eq!(one.check_at(), one.liveness.check_at());
}

/// Goal: the thread that runs the model receives the function's own frames; waking another thread
/// would only take its processor. Method: a function that seems to sleep sends to itself.
#[test]
fn frames_to_oneself_wake_no_thread() {
    let (_directory, clock, mut one, other) = two("own");
    let registry = one.registry;
    let background = registry.words(one.place.number()).background;
    background.announce();
    one.begin(clock.ticks());
    let there = route(&other);
    assert!(send(&mut one, &there, b"x"));
    assert!(!one.holds_own_frames(), "that frame is the other's");
    let here = route(&one);
    assert!(send(&mut one, &here, b"x"));
    one.finish(true);
    assert!(one.holds_own_frames());
    one.check_all(Ticks(clock.ticks().0 + 1000 * one.spans.fresh));
    assert!(background.is_announced(), "woken");
    one.begin(clock.ticks());
    assert!(take(&mut one).is_some());
    one.finish(false);
    assert!(!one.holds_own_frames(), "all are received");
}

fn multicast_route(number: u8) -> Route {
    Route {
        mac: Mac([1, 0, 0x5e, 0, 0, number]),
        gid: Gid::from_ipv4(Ipv4Addr::new(239, 0, 0, number)),
        qpn: Qpn::MULTICAST,
    }
}

#[test]
fn a_frame_to_a_group_reaches_only_its_members() {
    let (directory, clock, mut one, mut other) = two("multicast");
    let mut third = port(directory.path(), &clock, None, true);
    let (here, there) = (multicast_route(1), multicast_route(2));
    assert!(matches!(one.reserve(&here, 64), Reservation::NoRoute));
    one.join(here.gid);
    other.join(here.gid);
    third.join(there.gid);
    assert!(send(&mut one, &here, b"first"));
    other.join(there.gid);
    assert!(send(&mut third, &here, b"second"));
    assert!(send(&mut one, &there, b"third"));
    let received = |port: &mut FabricPort| {
        port.begin(clock.ticks());
        std::iter::from_fn(|| take(port)).collect::<Vec<_>>()
    };
    let texts = |texts: &[&str]| -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    };
    assert_eq!(received(&mut one), texts(&["first", "second"]));
    let mut at_other = received(&mut other);
    at_other.sort();
    assert_eq!(at_other, texts(&["first", "second", "third"]));
    assert_eq!(received(&mut third), texts(&["third"]));

    other.leave(here.gid);
    assert!(send(&mut third, &here, b"fourth"));
    assert_eq!(received(&mut one), texts(&["fourth"]));
    assert_eq!(received(&mut other), texts(&[]));
    drop(one);
    assert!(matches!(third.reserve(&here, 64), Reservation::NoRoute));
}

/// Goal: a frame to QP 1 reaches exactly the functions of a host whose GSI is open.
#[test]
fn a_frame_to_qp_1_reaches_every_open_gsi_of_the_address() {
    let (directory, clock, mut one, mut other) = two("gsi");
    let mut third = port(directory.path(), &clock, None, false);
    let mut elsewhere = port(directory.path(), &clock, None, false);
    let far = Gid::from_ipv4(Ipv4Addr::new(10, 9, 8, 7));
    // The first three are functions of one host, the last one of another.
    elsewhere.registry.forget_gids(elsewhere.place.number());
    elsewhere.set_gid(0, far);
    let received = |port: &mut FabricPort| {
        port.begin(clock.ticks());
        std::iter::from_fn(|| take(port)).collect::<Vec<_>>()
    };
    let nothing: Vec<Vec<u8>> = Vec::new();
    let gsi = |gid| Route {
        qpn: Qpn::GSI,
        gid,
        ..multicast_route(0)
    };
    assert!(matches!(one.reserve(&gsi(LOCAL), 64), Reservation::NoRoute));
    for port in [&mut one, &mut other, &mut elsewhere] {
        port.set_gsi(true);
    }
    assert!(send(&mut elsewhere, &gsi(LOCAL), b"first"));
    assert_eq!(received(&mut one), [b"first"]);
    assert_eq!(received(&mut other), [b"first"]);
    assert_eq!(received(&mut third), nothing, "its GSI is not open");
    assert_eq!(received(&mut elsewhere), nothing, "another address");
    assert!(send(&mut third, &gsi(far), b"second"));
    assert_eq!(received(&mut elsewhere), [b"second"]);
    assert_eq!(received(&mut one), nothing);

    // The sender is a function of the host, too.
    other.set_gsi(false);
    third.set_gsi(true);
    assert!(send(&mut one, &gsi(LOCAL), b"third"));
    assert_eq!(received(&mut one), [b"third"]);
    assert_eq!(received(&mut third), [b"third"]);
    assert_eq!(received(&mut other), nothing);
    drop(third);
    assert!(send(&mut elsewhere, &gsi(LOCAL), b"fourth"));
    assert_eq!(received(&mut one), [b"fourth"]);
    let nowhere = Gid::from_ipv4(Ipv4Addr::new(10, 1, 1, 1));
    assert!(matches!(
        one.reserve(&gsi(nowhere), 64),
        Reservation::NoRoute
    ));
}

#[test]
fn a_member_that_takes_nothing_holds_up_the_others_for_a_moment_only() {
    const FRAMES: u32 = 1000;
    let (_directory, clock, mut one, mut stuck) = two("multicast-stuck");
    let route = multicast_route(1);
    one.join(route.gid);
    stuck.join(route.gid);
    let cancelled = one.reserve(&route, 8);
    let Reservation::Ready(cancelled) = cancelled else {
        panic!("there is room")
    };
    one.cancel(cancelled);
    let mut now = clock.ticks();
    let pause_ticks = clock.ticks_of_ns(MAX_PAUSE_NS / 10);
    let mut waits = 0;
    for number in 0..FRAMES {
        // The sender waits for the member once, not for each frame.
        while !send(&mut one, &route, &number.to_ne_bytes()) {
            waits += 1;
            assert!(waits < 20, "held up at frame {number}");
            now = Ticks(now.0 + pause_ticks);
            one.begin(now);
        }
        one.begin(now);
        assert_eq!(take(&mut one), Some(number.to_ne_bytes().to_vec()));
        one.finish(false);
    }
    assert!(waits > 5, "{waits}");
    stuck.begin(clock.ticks());
    let kept = std::iter::from_fn(|| take(&mut stuck)).count();
    assert!(kept > 10 && kept < FRAMES as usize, "{kept}");
    assert!(send(&mut one, &route, b"again"));
    let last = std::iter::from_fn(|| take(&mut stuck)).last();
    assert_eq!(last.as_deref(), Some(b"again".as_slice()));
}

#[test]
fn groups_are_known_by_their_addresses() {
    for (text, expected) in [
        ("239.1.2.3", true),
        ("224.0.0.1", true),
        ("10.0.0.1", false),
        ("127.0.0.1", false),
        ("ff0e::1", true),
        ("fe80::1", false),
        ("2001:db8::1", false),
    ] {
        let gid: Gid = text.parse().expect("an address");
        assert_eq!(gid.is_multicast(), expected);
    }
}

#[test]
fn an_injected_fault_is_work() {
    let (_directory, clock, mut one, _other) = two("inject");
    let place = one.place.number();
    assert!(!one.has_work() && one.link_is_up());
    one.registry.inject(place, Injection::PortDown, Ticks(1));
    assert!(one.has_work() && one.link_is_up(), "not seen yet");
    one.begin(clock.ticks());
    assert!(!one.has_work() && !one.link_is_up());
    one.registry.inject(place, Injection::PortUp, Ticks(1));
    one.begin(clock.ticks());
    assert!(one.link_is_up() && !one.injected().concerns_device());
}

#[test]
fn each_frame_says_whether_it_carries_an_icrc() {
    let directory = temporary_directory("icrc");
    let clock = Clock::start();
    let mut without = port(directory.path(), &clock, None, false);
    let mut with = port(directory.path(), &clock, None, true);
    assert!(!without.computes_icrc() && with.computes_icrc());
    let there = route(&with);
    assert!(send(&mut without, &there, b"without") && send(&mut with, &there, b"with"));
    with.begin(clock.ticks());
    for _ in 0..2 {
        let (_, frame) = with.receive(Instant::ZERO).expect("sent");
        assert_eq!(with.carries_icrc(&frame), frame.as_ref() == b"with");
        with.release(frame);
    }
}

#[test]
fn a_capture_completes_frames_of_a_sender_that_computes_none() {
    let directory = temporary_directory("complete");
    let clock = Clock::start();
    let path = directory.path().join("c.pcapng");
    let mut one = port(directory.path(), &clock, None, false);
    let capture = Capture::open(&path, &interface()).expect("new");
    let mut other = port(directory.path(), &clock, Some(capture), false);
    let there = route(&other);
    let bytes = send_frame(there.mac, there.qpn, b"payload");
    assert!(send(&mut one, &there, &bytes));
    other.begin(clock.ticks());
    assert_eq!(take(&mut other), Some(bytes.clone()));
    other.finish(true);
    let content = std::fs::read(&path).expect("written");
    // After the frame: the direction, the end of the options, the length of the block.
    let start = content.len() - (8 + 4 + 4) - bytes.len().next_multiple_of(4);
    let recorded = WireFrame::parse(&content[start..]).expect("RoCEv2");
    assert!(recorded.icrc_is_valid());
}

#[test]
fn a_frame_is_captured_once() {
    let directory = temporary_directory("once");
    let clock = Clock::start();
    let path = directory.path().join("c.pcapng");
    let capture = || Some(Capture::open(&path, &interface()).expect("usable"));
    let mut one = port(directory.path(), &clock, capture(), false);
    let mut other = port(directory.path(), &clock, capture(), false);
    let there = route(&other);
    let bytes = send_frame(there.mac, there.qpn, b"once and only once");
    assert!(send(&mut one, &there, &bytes));
    one.finish(true);
    other.begin(clock.ticks());
    assert!(take(&mut other).is_some());
    other.finish(true);
    let content = std::fs::read(&path).expect("written");
    let found = content
        .windows(9)
        .filter(|window| *window == b"only once")
        .count();
    assert_eq!(found, 1);
}

//! Two stations that exchange frames; frames captured from Linux; arbitrary bytes.

use ferroce_wire::internet_checksum;
use proptest::prelude::*;

use super::*;

const NEAR: Mac = Mac([2, 0, 0, 0, 0, 1]);
const FAR: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn gid(text: &str) -> Gid {
    text.parse().expect("an address")
}

fn near_gids() -> [Gid; 4] {
    ["127.0.0.1", "10.0.0.1", "fe80::1", "2001:db8::1"].map(gid)
}

fn far_gids() -> [Gid; 4] {
    ["127.0.0.1", "10.0.0.2", "fe80::2", "2001:db8::2"].map(gid)
}

fn station(mac: Mac, gids: &[Gid]) -> Station<'_> {
    Station { mac, gids }
}

#[test]
fn a_request_is_answered_and_both_learn() {
    let (near_gids, far_gids) = (near_gids(), far_gids());
    let (near, far) = (station(NEAR, &near_gids), station(FAR, &far_gids));
    for index in 1..4 {
        let question = near.ask(far_gids[index]).expect("there is an address");
        let received = far.receive(&question);
        assert_eq!(received.neighbour, Some((near_gids[index], NEAR)));
        let answer = received.answer.expect("it was asked");
        let learnt = near.receive(&answer);
        assert_eq!(learnt.neighbour, Some((far_gids[index], FAR)));
        assert_eq!(learnt.answer, None);
        // Another address, and its own: no station is asked.
        assert_eq!(
            station(Mac([2; 6]), &[gid("10.0.0.9")]).receive(&question),
            Received::default()
        );
        assert_eq!(near.receive(&question), Received::default());
    }
    // Each machine has its own loopback address.
    assert_eq!(
        far.receive(&near.ask(gid("127.0.0.1")).expect("ARP")),
        Received::default()
    );
}

#[test]
fn without_an_address_arp_is_a_probe_and_ipv6_is_silent() {
    let unnumbered = station(NEAR, &[]);
    let far_gids = far_gids();
    let far = station(FAR, &far_gids);
    let question = unnumbered.ask(gid("10.0.0.2")).expect("a probe");
    let received = far.receive(&question);
    assert_eq!(received.neighbour, None, "0.0.0.0 is no address");
    assert!(received.answer.is_some());
    assert_eq!(unnumbered.ask(gid("2001:db8::2")), None);
}

#[test]
fn a_station_asks_from_its_nearest_address() {
    let gids = ["10.0.0.1", "192.168.7.1", "fe80::1", "2001:db8::1"].map(gid);
    let us = station(NEAR, &gids);
    for (target, expected) in [
        ("192.168.7.9", "192.168.7.1"),
        ("10.3.4.5", "10.0.0.1"),
        ("fe80::9", "fe80::1"),
        ("2001:db8:1::9", "2001:db8::1"),
    ] {
        assert_eq!(us.nearest(gid(target)), Some(gid(expected)));
    }
}

#[test]
fn announcements_cover_each_address_valid_on_the_wire() {
    let near_gids = near_gids();
    let frames: Vec<_> = station(NEAR, &near_gids).announcements().collect();
    assert_eq!(frames.len(), 3);
    let far_gids = far_gids();
    for frame in &frames[1..] {
        let received = station(FAR, &far_gids).receive(frame);
        assert!(
            received.neighbour.is_some_and(|(_, mac)| mac == NEAR) && received.answer.is_none()
        );
    }
    // A station with the same address learns of the conflict.
    let received = station(FAR, &near_gids).receive(&frames[0]);
    assert!(received.answer.is_some());
}

#[test]
fn a_probe_for_duplicates_is_answered_to_all() {
    let far_gids = far_gids();
    let probe = Solicitation {
        target: far_gids[3].to_ipv6(),
        source_mac: None,
    };
    let received = station(FAR, &far_gids).receive(&probe.emit(NEAR, Ipv6Addr::UNSPECIFIED));
    assert_eq!(received.neighbour, None);
    let answer = received.answer.expect("it is ours");
    assert_eq!(answer[..6], neighbour::ALL_NODES_MAC.0);
}

/// Returns echo requests of Linux's ping, 8 bytes of payload.
fn pings() -> [Vec<u8>; 2] {
    let message = |kind| [&[kind, 0, 0, 0, 0x12, 0x34, 0, 1][..], b"payload!"].concat();
    let ipv6 = ipv6::icmpv6(
        near_gids()[3].to_ipv6(),
        far_gids()[3].to_ipv6(),
        64,
        &message(128),
    );
    let mut v4 = message(8);
    let sum = internet_checksum(&[&v4]);
    v4[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut header = [
        0x45, 0, 0, 36, 0xab, 0xcd, 0x40, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    let sum = internet_checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [
        ethernet(NEAR, FAR, EtherType::IPV4, &[&header, &v4]),
        ethernet(NEAR, FAR, EtherType::IPV6, &[&ipv6]),
    ]
}

#[test]
fn ping_is_answered() {
    let far_gids = far_gids();
    let far = station(FAR, &far_gids);
    for (ping, at) in pings().iter().zip([34, 54]) {
        let answer = far.receive(ping).answer.expect("an answer");
        assert_eq!((&answer[..6], &answer[6..12]), (&NEAR.0[..], &FAR.0[..]));
        assert_eq!(answer.len(), ping.len());
        assert_eq!(answer[at], if at == 34 { 0 } else { 129 });
        assert_eq!(answer[at + 4..], ping[at + 4..], "number and payload");
        assert_eq!(
            far.receive(&answer),
            Received::default(),
            "an answer asks for nothing"
        );
        let mut damaged = ping.clone();
        damaged[at + 9] ^= 1;
        assert_eq!(
            far.receive(&damaged),
            Received::default(),
            "the checksum is wrong"
        );
    }
    let answer = far.receive(&pings()[0]).answer.expect("an answer");
    assert_eq!(internet_checksum(&[&answer[14..34]]), 0);
    assert_eq!(internet_checksum(&[&answer[34..]]), 0);
}

/// Returns valid frames for the tests to damage.
fn sound_frames() -> Vec<Vec<u8>> {
    let near_gids = near_gids();
    let near = station(NEAR, &near_gids);
    let mut frames: Vec<_> = far_gids()[1..]
        .iter()
        .filter_map(|gid| near.ask(*gid))
        .collect();
    frames.extend(near.announcements());
    frames.extend(pings());
    frames
}

/// Checks the invariants of any received frame.
fn check(frame: &[u8]) {
    let far_gids = far_gids();
    let far = station(FAR, &far_gids);
    let received = far.receive(frame);
    if let Some((gid, mac)) = received.neighbour {
        assert!(!mac.is_multicast() && !gid.is_multicast() && !far.owns(gid));
    }
    if let Some(answer) = received.answer {
        assert_eq!(answer[6..12], FAR.0);
        assert!(answer.len() <= frame.len().max(86), "no amplifier");
        assert!(far.receive(&answer).answer.is_none(), "no ping-pong");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }

    #[test]
    fn damaged_frames_are_survived(
        index in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        length in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let frames = sound_frames();
        let mut frame = frames[index.index(frames.len())].clone();
        for (at, value) in damage {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        if is_cut {
            frame.truncate(length.index(frame.len() + 1));
        }
        check(&frame);
    }

    #[test]
    fn options_of_any_kind_are_survived(options in prop::collection::vec(any::<u8>(), 0..64)) {
        // A solicitation with a valid checksum, followed by arbitrary bytes.
        let (near_gids, far_gids) = (near_gids(), far_gids());
        let (source, target) = (near_gids[3].to_ipv6(), far_gids[3].to_ipv6());
        let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
        message.extend(target.octets());
        message.extend(&options);
        let packet = ipv6::icmpv6(source, target, 255, &message);
        check(&ethernet(NEAR, FAR, EtherType::IPV6, &[&packet]));
    }
}

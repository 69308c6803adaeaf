//! Any datagrams in any state: no panic, and every connection ends.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::pair::{self, accept, connect, gid, listen, sidr};
use ferroce_cm::{Cm, Config, Disposition, Ece, Event, PortSpace, SidrResponse, State};
use ferroce_units::Instant;
use ferroce_units::random::Random;
use ferroce_wire::cm::{CommunicationId, Mad, MadHeader, MessageKind, SidrStatus};
use ferroce_wire::{QKey, Qpn};

/// Returns a datagram with a valid header, random contents, and often the identifiers of a
/// connection.
fn datagram(random: &Random, ids: &[CommunicationId]) -> [u8; Mad::LENGTH] {
    let mut bytes = [0; Mad::LENGTH];
    let fill = random.below(3);
    for byte in &mut bytes {
        *byte = match fill {
            0 => 0,
            _ => random.next() as u8,
        };
    }
    let kinds = MessageKind::ALL;
    let kind = kinds[random.below(kinds.len() as u64) as usize];
    MadHeader::of_message(kind, random.below(4)).emit(&mut bytes);
    let id = || match random.below(4) {
        0 => CommunicationId(random.next() as u32),
        1 => CommunicationId(random.below(4) as u32),
        _ if ids.is_empty() => CommunicationId::NONE,
        _ => ids[random.below(ids.len() as u64) as usize],
    };
    bytes[24..28].copy_from_slice(&id().0.to_be_bytes());
    bytes[28..32].copy_from_slice(&id().0.to_be_bytes());
    if random.below(2) == 0 {
        // The service of a listener, with addresses.
        let space = [PortSpace::Tcp, PortSpace::Udp][random.below(2) as usize];
        let service_id = space.service_id(pair::PORT).0.to_be_bytes();
        bytes[32..40].copy_from_slice(&service_id);
        bytes[24 + 43] &= 0xf9;
        for header in [16, 140] {
            bytes[24 + header..][..2].copy_from_slice(&[0, 0x40]);
        }
    }
    bytes
}

/// Reacts to an event in any way that a caller may, sometimes too late or in the wrong state.
fn respond(cm: &mut Cm, random: &Random, now: Instant, event: &Event) {
    match *event {
        Event::ConnectRequest { id, .. } | Event::ConnectResponse { id, .. } => {
            let _ = cm.accept(now, id, &accept(0, 0x30, &[]));
            let _ = cm.establish(id, &[]);
        }
        Event::SidrRequest { id, .. } => {
            let response = SidrResponse {
                status: SidrStatus::SUCCESS,
                qpn: Qpn::new(1),
                q_key: QKey(1),
                ece: Ece::default(),
                private_data: Vec::new(),
            };
            cm.respond(now, id, &response).unwrap();
        }
        Event::Established { id, .. } if random.below(2) == 0 => {
            let _ = cm.disconnect(now, id, &[]);
        }
        _ => {}
    }
}

#[test]
fn any_datagrams_leave_nothing_behind() {
    for seed in 0..100 {
        let random = Random::new(seed, 0);
        let mut cm = Cm::new(Config::functional(1));
        cm.listen(&listen(PortSpace::Tcp, 20)).unwrap();
        cm.listen(&listen(PortSpace::Udp, 20)).unwrap();
        let mut now = Instant::ZERO;
        for step in 0..500 {
            match random.below(20) {
                0 => {
                    let mut connect = connect(0, step, &[]);
                    connect.is_peer = random.below(2) == 0;
                    cm.connect(now, &connect).unwrap();
                }
                1 => {
                    cm.resolve_service(now, &sidr(0, &[])).unwrap();
                }
                2 => {
                    now = cm.next_timeout().unwrap_or(now);
                    cm.handle_timeout(now);
                }
                _ => {
                    let ids: Vec<_> = cm.connections().map(|(id, ..)| id).collect();
                    let bytes = datagram(&random, &ids);
                    let disposition = cm.handle_mad(now, gid(1), gid(0), &bytes);
                    if disposition != Disposition::Taken {
                        cm.refuse(gid(1), gid(0), &bytes);
                    }
                }
            }
            let mut sent = 0;
            while cm.poll_mad().is_some() {
                sent += 1;
            }
            // An answer, the DREQ of a stale connection, or what a timeout of each connection
            // sends.
            assert!(sent <= 2 + cm.connections().count(), "{sent} datagrams");
            while let Some(event) = cm.poll_event() {
                respond(&mut cm, &random, now, &event);
            }
        }
        let ids: Vec<_> = cm.connections().map(|(id, ..)| id).collect();
        ids.iter().for_each(|id| cm.destroy(now, *id));
        while let Some(next) = cm.next_timeout() {
            cm.handle_timeout(next);
        }
        while cm.poll_mad().is_some() {}
        while cm.poll_event().is_some() {}
        assert!(cm.is_idle(), "seed {seed}: {cm:?}");
    }
}

#[test]
fn random_bytes_are_malformed() {
    let random = Random::new(1, 1);
    let mut cm = Cm::new(Config::new(1));
    for _ in 0..20_000 {
        let length = random.below(300) as usize;
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        let disposition = cm.handle_mad(Instant::ZERO, gid(1), gid(0), &bytes);
        assert!(matches!(disposition, Disposition::Malformed(_)));
        cm.refuse(gid(1), gid(0), &bytes);
    }
    assert!(cm.is_idle());
    assert_eq!(cm.state(CommunicationId(1)), None::<State>);
}

//! Any bytes in any state, and bad links: there is no panic, and all resources are released.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::net::abi::{self, Bytes, ConnParam};
use crate::net::link::Faults;
use crate::net::{NO_FAULTS, Net, PORT, PS_IB, PS_IPOIB, PS_TCP, PS_UDP, guid, v4, v6};
use ferroce_rdma_cm::{ChannelId, Command, Errno, State};
use ferroce_units::random::Random;
use ferroce_units::{Duration, Instant};
use ferroce_wire::Gid;

fn below(random: &Random, end: usize) -> usize {
    random.below(end as u64) as usize
}

/// A body whose fields often have meaningful values: ids, addresses, states.
fn body(random: &Random, ids: &[u32], number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    if random.below(8) == 0 {
        bytes
            .iter_mut()
            .for_each(|byte| *byte = random.next() as u8);
        return bytes;
    }
    let put = |bytes: &mut Vec<u8>, offset: usize, value: &[u8]| {
        if let Some(room) = bytes.get_mut(offset..offset + value.len()) {
            room.copy_from_slice(value);
        }
    };
    let id = match ids {
        [] => 0,
        _ if random.below(20) == 0 => random.below(50) as u32,
        // The newest connections have not ended yet.
        _ => ids[ids.len() - 1 - below(random, ids.len().min(6))],
    };
    let id = id.to_ne_bytes();
    let small = (random.below(8) as u32).to_ne_bytes();
    let addresses = [
        v4(0),
        v4(1),
        v6(0),
        v6(1),
        [0, 0, 0, 0].into(),
        [239, 1, 1, 1].into(),
    ];
    let address = addresses[below(random, addresses.len())];
    let address = SocketAddr::new(address, PORT + random.below(2) as u16);
    let sockaddr = abi::sockaddr(&address, 28);
    let size = abi::sockaddr_length(&address).to_ne_bytes();
    // Offset of the id in each command.
    let at = match number {
        abi::DESTROY_ID | abi::QUERY_ROUTE | abi::INIT_QP_ATTR | abi::SET_OPTION => 8,
        abi::LEAVE_MCAST | abi::MIGRATE_ID | abi::QUERY => 8,
        abi::BIND_IP => 36,
        abi::RESOLVE_IP => 56,
        abi::CONNECT => 272,
        abi::ACCEPT => 280,
        abi::JOIN_IP_MCAST => 44,
        abi::JOIN_MCAST => 16,
        _ => 0,
    };
    put(&mut bytes, at, &id);
    put(&mut bytes, at + 4, &small);
    match number {
        abi::CREATE_ID => {
            let space = [PS_TCP, PS_UDP, PS_IB, PS_IPOIB][below(random, 4)];
            put(&mut bytes, 0, &random.below(3).to_ne_bytes());
            put(&mut bytes, 16, &space.to_ne_bytes());
            put(&mut bytes, 18, &[random.below(11) as u8]);
        }
        abi::BIND_IP => put(&mut bytes, 8, &sockaddr),
        abi::RESOLVE_IP => put(&mut bytes, 28, &sockaddr),
        abi::JOIN_IP_MCAST => put(&mut bytes, 16, &sockaddr),
        abi::BIND => {
            put(&mut bytes, 4, &size);
            put(&mut bytes, 6, &[0; 2]);
            put(&mut bytes, 8, &sockaddr);
        }
        abi::RESOLVE_ADDR => {
            put(&mut bytes, 10, &size);
            put(&mut bytes, 144, &sockaddr);
        }
        abi::JOIN_MCAST => {
            put(&mut bytes, 20, &size);
            put(&mut bytes, 22, &[0; 2]);
            put(&mut bytes, 24, &sockaddr);
        }
        abi::CONNECT | abi::ACCEPT => {
            let length = [0, 20, 57, 255][below(random, 4)];
            let mut param = ConnParam::new(random.below(4) as u32, &vec![7; length]);
            param.valid = random.below(3) as u8;
            let start = if number == abi::ACCEPT { 8 } else { 0 };
            put(&mut bytes, 0, &random.below(3).to_ne_bytes());
            put(&mut bytes, start, &param.to_bytes());
        }
        abi::REJECT => put(
            &mut bytes,
            4,
            &[random.next() as u8, [0, 28, 35, 9][below(random, 4)]],
        ),
        abi::WRITE_CM_EVENT => put(&mut bytes, 8, &(16 + random.below(4) as u32).to_ne_bytes()),
        abi::SET_OPTION => {
            put(&mut bytes, 12, &(random.below(2) as u32).to_ne_bytes());
            put(&mut bytes, 16, &(random.below(5) as u32).to_ne_bytes());
            put(&mut bytes, 20, &[[1, 4, 4, 72][below(random, 4)], 0, 0, 0]);
        }
        _ => {}
    }
    bytes
}

/// Half of the time, returns an id and the command that advances its state.
fn next_step(net: &Net, random: &Random, side: usize) -> (Vec<u32>, Option<u32>) {
    let all: Vec<_> = net.sides[side].connections().collect();
    if all.is_empty() || random.below(2) == 0 {
        return (Vec::new(), None);
    }
    let info = &all[below(random, all.len())];
    let number = match info.state {
        State::Idle | State::AddrBound => abi::RESOLVE_IP,
        State::AddrResolved => abi::RESOLVE_ROUTE,
        State::RouteResolved => abi::CONNECT,
        State::Connect if random.below(4) == 0 => abi::DISCONNECT,
        State::Connect => abi::ACCEPT,
        _ => abi::GET_EVENT,
    };
    (vec![info.id], Some(number))
}

/// Writes a command of a side, often one that a program would write.
fn write_something(
    net: &mut Net,
    random: &Random,
    side: usize,
    channels: &[ChannelId],
    seen: &mut BTreeSet<u32>,
) {
    let (mut ids, number) = next_step(net, random, side);
    let entry = number.and_then(|it| abi::SIZES.iter().find(|(known, ..)| *known == it));
    let any = &abi::SIZES[below(random, abi::SIZES.len())];
    let (number, length, room) = *entry.unwrap_or(any);
    // Destroying an id is less frequent than other commands.
    if number == abi::DESTROY_ID && random.below(4) != 0 {
        return;
    }
    if entry.is_none() {
        let cm = &net.sides[side];
        ids = cm.connections().map(|it| it.id).collect();
        ids.extend(cm.listeners().map(|it| it.id));
        ids.sort_unstable();
    }
    let body = body(random, &ids, number, length);
    let room = if random.below(20) == 0 {
        below(random, 400)
    } else {
        room
    };
    let mut bytes = abi::with_room(number, &body, room);
    if random.below(20) == 0 {
        bytes.truncate(below(random, bytes.len() + 1));
    }
    let channel = channels[below(random, channels.len())];
    let option = [random.below(2) as u8; 72];
    if let Command::MigrateId { fd } = Command::of(&bytes) {
        let source = channels.get(fd as usize).copied().ok_or(Errno::ENOENT);
        let _ = net.sides[side].migrate(channel, &bytes, source);
        return;
    }
    let room = room.min(usize::from(u16::MAX));
    if let Ok(reply) = net.write_to(side, channel, &bytes, &option) {
        assert!(reply.bytes.len() <= room, "command {number}");
        if number == abi::GET_EVENT {
            seen.insert(abi::u32_at(&reply.bytes, 12));
        }
    }
}

#[test]
fn any_commands_leave_nothing_behind() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let random = Random::new(seed, 0);
        let faults = Faults {
            loss: [0, 0, 200][below(&random, 3)],
            ..NO_FAULTS
        };
        let mut net = Net::with_faults(faults, seed);
        let channels = [0, 1].map(|side| {
            let other = net.sides[side].open_channel().unwrap();
            for space in [PS_TCP, PS_UDP, PS_IB] {
                let listener = net.create(side, 0xb, space);
                let any = SocketAddr::new([0_u16; 8].into(), PORT);
                net.bind(side, listener, any).unwrap();
                net.listen(side, listener, 4).unwrap();
            }
            [net.channels[side], other]
        });
        for _ in 0..1500 {
            let side = below(&random, 2);
            match random.below(40) {
                0..8 => net.settle(),
                8 => {
                    net.step();
                }
                9 if random.below(20) == 0 => {
                    let (cm, host) = (&mut net.sides[side], &mut net.hosts[side]);
                    cm.remove_device(net.now, host, guid(side));
                }
                _ => write_something(&mut net, &random, side, &channels[side], &mut seen),
            }
            assert!(net.sides[side].connections().count() < 1000);
        }
        net.close();
    }
    // Otherwise the commands would not have reached many states.
    let expected = [0, 1, 2, 4, 5, 7, 8, 9, 10, 11, 12, 15, 18, 19];
    assert_eq!(seen, BTreeSet::from(expected));
}

#[test]
fn any_bytes_are_refused_or_executed() {
    let random = Random::new(1, 1);
    let mut net = Net::new();
    for _ in 0..50_000 {
        let length = below(&random, 400);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        if random.below(4) != 0 && length >= 8 {
            bytes[..4].copy_from_slice(&(random.below(26) as u32).to_ne_bytes());
            bytes[4..6].copy_from_slice(&(below(&random, length) as u16).to_ne_bytes());
        }
        let channel = net.channels[0];
        let _ = Command::of(&bytes);
        let _ = net.write_to(0, channel, &bytes, &bytes);
        let _ = net.sides[0].migrate(channel, &bytes, Ok(channel));
        let host = &mut net.hosts[0];
        let gid = Gid::from_ip(v4(1));
        let _ = net.sides[0].handle_mad(net.now, host, gid, gid, &bytes);
    }
    net.close();
}

/// Does what a well-behaved program does with its next event.
fn respond(net: &mut Net, side: usize) -> Result<(), Errno> {
    let event = net.try_event(side)?;
    match event.event {
        4 => net.accept(side, event.id, 0xc, &ConnParam::new(0x22, b"welcome"))?,
        5 => net.accept(side, event.id, 0, &ConnParam::invalid())?,
        _ => {}
    }
    Ok(())
}

/// Events of a connection over a bad link come in the order of its life, on both sides.
#[test]
fn a_bad_link_delays_but_does_not_confuse() {
    for seed in 0..300 {
        let faults = Faults {
            loss: 200,
            duplication: 100,
            reordering: 200,
            // Shorter than TIMEWAIT, after which a late REQ would be a new one.
            jitter: Duration::from_ms(40),
            blackout: Instant::MAX,
        };
        let mut net = Net::with_faults(faults, seed);
        let to = SocketAddr::new([v4(1), v6(1)][seed as usize % 2], PORT);
        let listener = net.listener(0xb, PS_TCP, 0, to);
        let id = net.create(0, 0xa, PS_TCP);
        net.resolved(id, to);
        net.connect(0, id, &ConnParam::new(0x11, b"hello")).unwrap();
        // Wait until the listener has read the request, and the peer the response.
        let mut read = [0, 0];
        while read[0] < 1 || read[1] < 2 {
            assert!(net.step(), "seed {seed}: {read:?}");
            for (side, count) in read.iter_mut().enumerate() {
                while net.sides[side].waiting_events(net.channels[side]) > 0 {
                    respond(&mut net, side).unwrap();
                    *count += 1;
                }
            }
        }
        net.disconnect(0, id).unwrap();
        net.finish();
        for side in 0..2 {
            net.event(side, 10);
            net.event(side, 15);
            net.no_event(side);
        }
        assert_eq!(net.destroy(0, id), Ok(5));
        assert_eq!(net.destroy(1, listener), Ok(1));
        net.close();
    }
}

#[test]
fn a_withdrawn_request_still_has_its_place() {
    let mut net = Net::new();
    let to = SocketAddr::new(v4(1), PORT);
    let listener = net.create(1, 0xb, PS_TCP);
    net.bind(1, listener, to).unwrap();
    net.listen(1, listener, 2).unwrap();
    // Withdrawn requests do not fill the event queue of a program that reads no events.
    for qpn in 0..20 {
        let id = net.create(0, 0xa, PS_TCP);
        net.resolved(id, to);
        net.connect(0, id, &ConnParam::new(0x11 + qpn, &[]))
            .unwrap();
        net.settle();
        net.destroy(0, id).unwrap();
        net.settle();
        while net.try_event(0).is_ok() {}
    }
    assert_eq!(net.sides[1].waiting_events(net.channels[1]), 2);
    let destroyed = Bytes::default().u64(1).u32(listener).u32(0);
    net.write(1, abi::DESTROY_ID, destroyed).unwrap();
    net.close();
}

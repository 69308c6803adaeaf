//! Commands of one program: sizes, ids, addresses, ports, options, queries, multicast groups.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::net::abi::{self, Bytes, ConnParam, sockaddr, u16_at, u32_at, u64_at};
use crate::net::{Net, PORT, PS_IB, PS_IPOIB, PS_TCP, PS_UDP, RC, guid, v4, v6};
use ferroce_rdma_cm::{ChannelId, Command, Errno, ListenAddress, MAX_EVENTS, State};
use ferroce_wire::Gid;

const ANY_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY_V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
const REUSEADDR: (u32, u32) = (0, 1);
const AFONLY: (u32, u32) = (0, 2);

fn raw(net: &mut Net, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let channel = net.channels[0];
    net.write_to(0, channel, bytes, &[])
        .map(|reply| reply.bytes)
}

#[test]
fn a_write_has_a_header_and_as_much_as_it_says() {
    let mut net = Net::new();
    let whole = abi::command(abi::CREATE_ID, &[0; 24]);
    for length in 0..whole.len() {
        assert_eq!(
            raw(&mut net, &whole[..length]),
            Err(Errno::EINVAL),
            "{length}"
        );
        assert_eq!(Command::of(&whole[..length]), Command::Other);
    }
    for unknown in [25, 26, 255, u32::MAX] {
        let bytes = abi::with_room(unknown, &[0; 400], 400);
        assert_eq!(raw(&mut net, &bytes), Err(Errno::EINVAL));
    }
    let option = abi::with_room(13, &[0; 400], 400);
    assert_eq!(raw(&mut net, &option), Err(Errno::ENOSYS));
    let service = abi::with_room(23, &[0; 400], 400);
    assert_eq!(raw(&mut net, &service), Err(Errno::EOPNOTSUPP));
    let elsewhere = net.write_to(0, ChannelId(77), &whole, &[]);
    assert_eq!(elsewhere, Err(Errno::EINVAL));
    net.close();
}

/// A command that is one byte too short is refused with EINVAL and has no effect; a longer one is
/// executed.
#[test]
fn bodies_may_be_longer_but_not_shorter() {
    for (number, length, room) in abi::SIZES {
        let mut net = Net::new();
        let shortest = match *number {
            abi::CONNECT | abi::ACCEPT => length - 8,
            _ => *length,
        };
        let short = abi::with_room(*number, &vec![0; shortest - 1], *room);
        assert_eq!(
            raw(&mut net, &short),
            Err(Errno::EINVAL),
            "command {number}"
        );
        let exact = raw(&mut net, &abi::with_room(*number, &vec![0; *length], *room));
        let long = raw(
            &mut net,
            &abi::with_room(*number, &vec![0; length + 9], *room),
        );
        assert_eq!(exact, long, "command {number}");
        net.close();
    }
}

#[test]
fn responses_are_cut_to_their_room() {
    let mut net = Net::new();
    let id = net.create(0, 0xa, PS_TCP);
    net.resolved(id, SocketAddr::new(v4(1), PORT));
    let query = |option| Bytes::default().u64(1).u32(id).u32(option).0;
    let cases = [
        (
            abi::CREATE_ID,
            Bytes::default().zeros(16).u16(PS_TCP).zeros(6).0,
            4,
            4,
        ),
        (abi::QUERY_ROUTE, query(0), 200, 208),
        (abi::QUERY, query(0), 272, 280),
        (abi::QUERY, query(1), 8, 80),
        (abi::QUERY, query(2), 272, 280),
        (abi::INIT_QP_ATTR, query(1), 144, 144),
        (abi::DESTROY_ID, query(0), 4, 4),
    ];
    for (number, body, base, whole) in cases {
        let small = abi::with_room(number, &body, base - 1);
        assert_eq!(
            raw(&mut net, &small),
            Err(Errno::ENOSPC),
            "command {number}"
        );
        if whole > base {
            let bytes = raw(&mut net, &abi::with_room(number, &body, base)).unwrap();
            assert_eq!(bytes.len(), base);
        }
        let bytes = raw(&mut net, &abi::with_room(number, &body, 4000)).unwrap();
        assert_eq!(bytes.len(), whole, "command {number}");
    }
    for (number, room) in [
        (abi::GET_EVENT, 323),
        (abi::LEAVE_MCAST, 3),
        (abi::JOIN_MCAST, 3),
    ] {
        let small = abi::with_room(number, &[0; 152], room);
        assert_eq!(
            raw(&mut net, &small),
            Err(Errno::ENOSPC),
            "command {number}"
        );
    }
    let get = abi::with_room(abi::GET_EVENT, &[0; 8], 324);
    assert_eq!(raw(&mut net, &get), Err(Errno::EAGAIN));
    net.close();
}

#[test]
fn what_a_command_needs_is_seen_before() {
    let option = Bytes::default().u64(0x1234).u32(0).u32(0).u32(0).u32(4).0;
    let option = abi::command(abi::SET_OPTION, &option);
    let (address, length) = (0x1234, 4);
    assert_eq!(Command::of(&option), Command::SetOption { address, length });
    let migrate = abi::command(abi::MIGRATE_ID, &Bytes::default().u64(0).u32(0).u32(9).0);
    assert_eq!(Command::of(&migrate), Command::MigrateId { fd: 9 });
    let get = abi::command(abi::GET_EVENT, &[0; 8]);
    assert_eq!(Command::of(&get), Command::GetEvent);
    let mut net = Net::new();
    assert_eq!(
        raw(&mut net, &migrate),
        Err(Errno::EINVAL),
        "RdmaCm::migrate does it"
    );
    net.close();
}

#[test]
fn ids_are_of_one_channel_and_one_port_space() {
    let mut net = Net::new();
    let body = Bytes::default().zeros(16).u16(0x0107).zeros(6);
    assert_eq!(net.write(0, abi::CREATE_ID, body), Err(Errno::EINVAL));
    let id = net.create(0, 0xa, PS_TCP);
    assert_eq!(net.listen(0, 999, 0), Err(Errno::ENOENT));
    let own = net.channels[0];
    net.channels[0] = net.sides[0].open_channel().unwrap();
    assert_eq!(net.listen(0, id, 0), Err(Errno::EINVAL));
    assert_eq!(net.destroy(0, id), Err(Errno::EINVAL));
    net.channels[0] = own;
    assert_eq!(net.destroy(0, id), Ok(0));
    assert_eq!(net.destroy(0, id), Err(Errno::ENOENT));
    net.close();
}

#[test]
fn an_address_brings_its_device() {
    let mut net = Net::new();
    for (address, is_wildcard) in [
        (v4(0), false),
        (v6(0), false),
        (ANY_V4, true),
        (ANY_V6, true),
    ] {
        let id = net.create(0, 0xa, PS_TCP);
        net.bind(0, id, SocketAddr::new(address, 0)).unwrap();
        let route = net.query_route(0, id);
        let expected = if is_wildcard { 0 } else { guid(0) };
        assert_eq!(route[..8], expected.to_be_bytes(), "{address}");
        let port = u16::from_be(u16_at(&route, 138));
        assert!(port >= 32_768, "an ephemeral port at once");
        assert_eq!(
            route[136..164],
            sockaddr(&SocketAddr::new(address, port), 28)
        );
        assert_eq!(u32_at(&route, 192), 0, "no path");
        let again = net.bind(0, id, SocketAddr::new(address, 0));
        assert_eq!(again, Err(Errno::EINVAL), "bound once");
        net.destroy(0, id).unwrap();
    }
    let id = net.create(0, 0xa, PS_TCP);
    let other = SocketAddr::new(v4(1), 0);
    assert_eq!(net.bind(0, id, other), Err(Errno::EADDRNOTAVAIL));
    let ipoib = net.create(0, 0xa, PS_IPOIB);
    let own = SocketAddr::new(v4(0), 0);
    assert_eq!(
        net.bind(0, ipoib, own),
        Err(Errno::EINVAL),
        "needs InfiniBand"
    );
    net.close();
}

#[test]
fn addresses_of_infiniband_are_refused() {
    let mut net = Net::new();
    let id = net.create_typed(0, 0xa, PS_IB, RC);
    let mut address = [0; 128];
    address[..2].copy_from_slice(&27_u16.to_ne_bytes());
    let bind = Bytes::default().u32(id).u16(48).u16(0).bytes(&address);
    assert_eq!(net.write(0, abi::BIND, bind), Err(Errno::EINVAL));
    let resolve = Bytes::default()
        .u32(id)
        .u32(0)
        .u16(0)
        .u16(48)
        .u32(0)
        .zeros(128);
    assert_eq!(
        net.write(0, abi::RESOLVE_ADDR, resolve.bytes(&address)),
        Err(Errno::EINVAL)
    );
    let bind = Bytes::default().u64(0).zeros(28).u32(id);
    assert_eq!(
        net.write(0, abi::BIND_IP, bind),
        Err(Errno::EINVAL),
        "no family"
    );
    net.close();
}

#[test]
fn addresses_with_sizes_are_as_good() {
    let mut net = Net::new();
    for (own, to) in [(v4(0), v4(1)), (v6(0), v6(1))] {
        let own = SocketAddr::new(own, 0);
        let to = SocketAddr::new(to, PORT);
        let size = abi::sockaddr_length(&own);
        let id = net.create(0, 0xa, PS_TCP);
        let bind = |size| {
            Bytes::default()
                .u32(id)
                .u16(size)
                .u16(0)
                .bytes(&sockaddr(&own, 128))
        };
        assert_eq!(net.write(0, abi::BIND, bind(size + 1)), Err(Errno::EINVAL));
        assert_eq!(net.write(0, abi::BIND, bind(0)), Err(Errno::EINVAL));
        net.write(0, abi::BIND, bind(size)).unwrap();
        let other = net.create(0, 0xa, PS_TCP);
        let resolve = |source_size| {
            let body = Bytes::default()
                .u32(other)
                .u32(0)
                .u16(source_size)
                .u16(size)
                .u32(0);
            body.bytes(&sockaddr(&own, 128)).bytes(&sockaddr(&to, 128))
        };
        assert_eq!(
            net.write(0, abi::RESOLVE_ADDR, resolve(3)),
            Err(Errno::EINVAL)
        );
        net.write(0, abi::RESOLVE_ADDR, resolve(size)).unwrap();
        assert_eq!(net.event(0, 0).id, other);
    }
    net.close();
}

#[test]
fn ports_are_claimed_and_given_back() {
    let mut net = Net::new();
    let address = SocketAddr::new(v4(0), PORT);
    let first = net.create(0, 0xa, PS_TCP);
    net.bind(0, first, address).unwrap();
    let second = net.create(0, 0xa, PS_TCP);
    assert_eq!(net.bind(0, second, address), Err(Errno::EADDRINUSE));
    let any = SocketAddr::new(ANY_V6, PORT);
    assert_eq!(net.bind(0, second, any), Err(Errno::EADDRNOTAVAIL));
    let datagrams = net.create(0, 0xa, PS_UDP);
    net.bind(0, datagrams, address).unwrap();
    net.destroy(0, first).unwrap();
    net.bind(0, second, any).unwrap();
    net.close();
}

#[test]
fn a_port_is_shared_by_those_who_bind_but_not_by_listeners() {
    let mut net = Net::new();
    let address = SocketAddr::new(v4(0), PORT);
    let ids = [0, 1].map(|_| net.create(0, 0xa, PS_TCP));
    for id in ids {
        assert_eq!(net.set_option(0, id, REUSEADDR, &[1]), Err(Errno::EINVAL));
        net.set_option(0, id, REUSEADDR, &1_u32.to_ne_bytes())
            .unwrap();
        net.bind(0, id, address).unwrap();
    }
    assert_eq!(net.listen(0, ids[0], 0), Err(Errno::EADDRINUSE));
    net.destroy(0, ids[1]).unwrap();
    net.listen(0, ids[0], 0).unwrap();
    net.close();
}

#[test]
fn listeners_know_their_family() {
    let mut net = Net::new();
    let mut listen = |address, only: Option<u32>| {
        let id = net.create(0, 0xa, PS_TCP);
        if let Some(only) = only {
            net.set_option(0, id, AFONLY, &only.to_ne_bytes()).unwrap();
        }
        net.bind(0, id, SocketAddr::new(address, PORT)).unwrap();
        let claimed = net.hosts[0].claimed;
        net.listen(0, id, 0).unwrap();
        let late = net.set_option(0, id, AFONLY, &[0; 4]);
        assert_eq!(late, Err(Errno::EINVAL));
        assert_eq!(net.listen(0, id, 0), Err(Errno::EINVAL), "it listens");
        net.destroy(0, id).unwrap();
        claimed
    };
    assert_eq!(listen(ANY_V4, None), Some(ListenAddress::AnyIpv4));
    assert_eq!(listen(ANY_V4, Some(0)), Some(ListenAddress::Any));
    assert_eq!(listen(ANY_V6, None), Some(ListenAddress::Any));
    assert_eq!(listen(ANY_V6, Some(1)), Some(ListenAddress::AnyIpv6));
    let own = ListenAddress::Gid(Gid::from_ip(v6(0)));
    assert_eq!(listen(v6(0), None), Some(own));
    net.close();
}

#[test]
fn an_idle_id_listens_on_every_ipv4_address() {
    let mut net = Net::new();
    let id = net.create(0, 0xa, PS_TCP);
    net.listen(0, id, 5000).unwrap();
    let listener = net.sides[0].listeners().next().unwrap();
    assert_eq!((listener.id, listener.address.ip()), (id, ANY_V4));
    assert_ne!(listener.address.port(), 0);
    assert_eq!(
        net.resolve(0, id, SocketAddr::new(v4(1), PORT)),
        Err(Errno::EINVAL)
    );
    net.close();
}

#[test]
fn a_destination_chooses_the_source() {
    let loopback_v4 = IpAddr::from([127, 0, 0, 1]);
    let loopback_v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let link_local = IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 2]);
    let own_link_local = IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 1]);
    let group = IpAddr::from([239, 1, 2, 3]);
    let cases = [
        (v4(1), v4(0), v4(1)),
        (v6(1), v6(0), v6(1)),
        (link_local, own_link_local, link_local),
        (v4(0), v4(0), v4(0)),
        (loopback_v4, loopback_v4, loopback_v4),
        // The first device does not have this address, so its first address is used.
        (loopback_v6, loopback_v6, own_link_local),
        (ANY_V4, loopback_v4, loopback_v4),
        (group, v4(0), group),
    ];
    for (to, from, remote_gid) in cases {
        let mut net = Net::new();
        let id = net.create(0, 0xa, PS_UDP);
        net.resolved(id, SocketAddr::new(to, PORT));
        let route = net.query_route(0, id);
        let port = u16::from_be(u16_at(&route, 138));
        assert_eq!(
            route[136..164],
            sockaddr(&SocketAddr::new(from, port), 28),
            "{to}"
        );
        assert_eq!(
            route[164..192],
            sockaddr(&SocketAddr::new(to, PORT), 28),
            "{to}"
        );
        assert_eq!(route[8..24], Gid::from_ip(remote_gid).0, "{to}");
        net.close();
    }
}

#[test]
fn an_address_that_no_host_has_is_an_error_of_the_event() {
    let mut net = Net::new();
    let id = net.create(0, 0xa, PS_TCP);
    let nowhere = SocketAddr::new([10, 0, 0, 99].into(), PORT);
    net.resolve(0, id, nowhere).unwrap();
    assert_eq!(net.event(0, 1).status, -113);
    assert_eq!(net.resolve_route(0, id), Err(Errno::EINVAL));
    // It is bound, so it may be resolved again.
    net.resolved(id, SocketAddr::new(v4(1), PORT));
    let again = net.resolve(0, id, SocketAddr::new(v4(1), PORT));
    assert_eq!(again, Err(Errno::EINVAL));

    let mixed = net.create(0, 0xa, PS_TCP);
    net.bind(0, mixed, SocketAddr::new(v4(0), 0)).unwrap();
    let to = SocketAddr::new(v6(1), PORT);
    assert_eq!(
        net.resolve(0, mixed, to),
        Err(Errno::EINVAL),
        "another family"
    );

    net.hosts[0].devices.clear();
    let without = net.create(0, 0xa, PS_TCP);
    net.resolve(0, without, to).unwrap();
    assert_eq!(net.event(0, 1).status, -101);
    net.close();
}

#[test]
fn steps_out_of_order_are_refused() {
    let mut net = Net::new();
    let id = net.create(0, 0xa, PS_TCP);
    let param = ConnParam::new(0x11, &[]);
    net.bind(0, id, SocketAddr::new(v4(0), 0)).unwrap();
    assert_eq!(net.resolve_route(0, id), Err(Errno::EINVAL));
    assert_eq!(net.connect(0, id, &param), Err(Errno::EINVAL));
    assert_eq!(net.accept(0, id, 0, &param), Err(Errno::EINVAL));
    assert_eq!(net.reject(0, id, 28, &[]), Err(Errno::EINVAL));
    assert_eq!(net.disconnect(0, id), Err(Errno::EINVAL));
    net.resolve(0, id, SocketAddr::new(v4(1), PORT)).unwrap();
    assert_eq!(net.connect(0, id, &param), Err(Errno::EINVAL));
    net.resolve_route(0, id).unwrap();
    assert_eq!(net.resolve_route(0, id), Err(Errno::EINVAL));
    assert_eq!(
        net.connect(0, id, &ConnParam::invalid()),
        Err(Errno::EINVAL)
    );
    net.connect(0, id, &param).unwrap();
    assert_eq!(net.connect(0, id, &param), Err(Errno::EINVAL));
    let infos: Vec<_> = net.sides[0].connections().collect();
    assert_eq!(infos[0].state, State::Connect);
    assert_eq!(infos[0].peer, Some(SocketAddr::new(v4(1), PORT)));
    net.close();
}

#[test]
fn options_change_the_path() {
    let mut net = Net::new();
    let id = net.create(0, 0xa, PS_TCP);
    assert_eq!(net.set_option(0, id, (0, 0), &[1, 2]), Err(Errno::EINVAL));
    net.set_option(0, id, (0, 0), &[0x6a]).unwrap();
    net.set_option(0, id, (0, 3), &[21]).unwrap();
    assert_eq!(net.set_option(0, id, (0, 4), &[1]), Err(Errno::ENOSYS));
    assert_eq!(net.set_option(0, id, (2, 0), &[1]), Err(Errno::ENOSYS));
    assert_eq!(net.set_option(0, id, (1, 1), &[0; 72]), Err(Errno::EINVAL));
    let datagrams = net.create(0, 0xa, PS_UDP);
    assert_eq!(
        net.set_option(0, datagrams, (0, 3), &[21]),
        Err(Errno::EINVAL)
    );
    net.resolved(id, SocketAddr::new(v4(1), PORT));
    let path = &net.query_route(0, id)[8..72];
    let port = u32::from(u16::from_be(u16_at(&net.query_route(0, id), 138)));
    let flow_label = (port * 31 + u32::from(PORT)) & 0xf_ffff;
    assert_eq!(path[..16], Gid::from_ip(v4(1)).0);
    assert_eq!(path[16..32], Gid::from_ip(v4(0)).0);
    assert_eq!(path[40..44], flow_label.to_be_bytes());
    assert_eq!(
        (u32_at(path, 44), u32_at(path, 48)),
        (1, 3),
        "reversible, MTU"
    );
    assert_eq!(path[52..], [0xff, 0xff, 64, 0x6a, 0, 0, 2, 2, 0, 2, 20, 0]);
    net.close();
}

#[test]
fn queries_show_addresses_paths_and_gids() {
    let mut net = Net::new();
    let id = net.create(0, 0xa, PS_TCP);
    let query = |net: &mut Net, option| {
        let body = Bytes::default().u64(abi::RESPONSE).u32(id).u32(option);
        let bytes = abi::with_room(abi::QUERY, &body.0, 1000);
        raw(net, &bytes)
    };
    assert_eq!(query(&mut net, 0).unwrap(), [0; 280], "nothing is known");
    assert_eq!(query(&mut net, 1).unwrap(), [0; 8]);
    assert_eq!(query(&mut net, 3), Err(Errno::ENOSYS));
    let to = SocketAddr::new(v6(1), PORT);
    net.resolved(id, to);
    let addresses = query(&mut net, 0).unwrap();
    assert_eq!(addresses[..8], guid(0).to_be_bytes());
    assert_eq!(addresses[8..12], [1, 0, 0xff, 0xff]);
    assert_eq!((u16_at(&addresses, 12), u16_at(&addresses, 14)), (28, 28));
    assert_eq!(addresses[144..272], sockaddr(&to, 128));
    assert_eq!(u32_at(&addresses, 272), 4, "index of the device");

    let paths = query(&mut net, 1).unwrap();
    assert_eq!(
        (paths.len(), u32_at(&paths, 0), u32_at(&paths, 8)),
        (80, 1, 43)
    );
    let record = &paths[16..];
    assert_eq!(record[8..24], Gid::from_ip(v6(1)).0);
    assert_eq!(record[24..40], Gid::from_ip(v6(0)).0);
    assert_eq!(
        record[47..],
        [
            64, 0, 0x80, 0xff, 0xff, 0, 0, 0x83, 0x80, 0x90, 0, 0, 0, 0, 0, 0, 0
        ]
    );

    let gids = query(&mut net, 2).unwrap();
    assert_eq!((u16_at(&gids, 12), u16_at(&gids, 16)), (48, 27));
    assert_eq!(gids[24..40], Gid::from_ip(v6(0)).0);
    assert_eq!(gids[144 + 8..144 + 24], Gid::from_ip(v6(1)).0);
    let service_id = (u64::from(PS_TCP) << 16 | u64::from(PORT)).to_be_bytes();
    assert_eq!(gids[144 + 24..144 + 32], service_id);
    net.close();
}

/// JOIN_IP_MCAST
fn join(net: &mut Net, id: u32, uid: u64, group: IpAddr) -> Result<u32, Errno> {
    let group = sockaddr(&SocketAddr::new(group, 0), 28);
    let body = Bytes::default()
        .u64(abi::RESPONSE)
        .u64(uid)
        .bytes(&group)
        .u32(id);
    let reply = net.write(0, abi::JOIN_IP_MCAST, body)?;
    Ok(u32_at(&reply.bytes, 0))
}

fn leave(net: &mut Net, multicast: u32) -> Result<u32, Errno> {
    let body = Bytes::default().u64(abi::RESPONSE).u32(multicast).u32(0);
    let reply = net.write(0, abi::LEAVE_MCAST, body)?;
    Ok(u32_at(&reply.bytes, 0))
}

#[test]
fn multicast_groups_are_joined_and_left() {
    let mut net = Net::new();
    let ipv4_group = IpAddr::from([239, 1, 2, 3]);
    let ipv6_group = IpAddr::from([0xff0e, 0, 0, 0, 0, 0, 0, 1]);
    for (group, hop_limit) in [(ipv4_group, 64), (ipv6_group, 1)] {
        let id = net.create(0, 0xa, PS_UDP);
        assert_eq!(
            join(&mut net, id, 0x5e, group),
            Err(Errno::EINVAL),
            "no device"
        );
        net.resolve(0, id, SocketAddr::new(group, 0)).unwrap();
        net.event(0, 0);
        assert_eq!(join(&mut net, id, 0x5e, ANY_V4), Err(Errno::EINVAL));
        let multicast = join(&mut net, id, 0x5e, group).unwrap();
        let event = net.event(0, 12);
        assert_eq!((event.uid, event.id, event.status), (0x5e, multicast, 0));
        assert_eq!(
            (event.qpn(), u32_at(&event.param, 4)),
            (0xff_ffff, 0x0123_4567)
        );
        assert_eq!(event.param[8..24], Gid::from_ip(group).0);
        assert_eq!(
            (event.param[29], u16_at(&event.param, 32)),
            (hop_limit, 0xc000)
        );
        let unread = join(&mut net, id, 0x5f, group).unwrap();
        assert_eq!(leave(&mut net, unread), Ok(0), "its event is dropped");
        net.no_event(0);
        assert_eq!(leave(&mut net, multicast), Ok(1));
        assert_eq!(leave(&mut net, multicast), Err(Errno::ENOENT));
        join(&mut net, id, 0x60, group).unwrap();
        assert_eq!(net.destroy(0, id), Ok(2));
        net.no_event(0);
    }
    let tcp = net.create(0, 0xa, PS_TCP);
    net.bind(0, tcp, SocketAddr::new(v4(0), 0)).unwrap();
    assert_eq!(join(&mut net, tcp, 1, ipv4_group), Err(Errno::EINVAL));
    net.close();
}

#[test]
fn a_join_has_flags() {
    let mut net = Net::new();
    let id = net.create(0, 0xa, PS_UDP);
    net.bind(0, id, SocketAddr::new(v4(0), 0)).unwrap();
    let group = SocketAddr::new([239, 1, 2, 3].into(), 0);
    for (flags, size, expected) in [(0, 16, true), (1, 16, true), (2, 16, false), (0, 28, false)] {
        let body = Bytes::default().u64(1).u64(2).u32(id).u16(size).u16(flags);
        let joined = net.write(0, abi::JOIN_MCAST, body.bytes(&sockaddr(&group, 128)));
        assert_eq!(joined.is_ok(), expected, "{flags} {size}");
    }
    assert_eq!(net.sides[0].waiting_events(net.channels[0]), 2);
    net.close();
}

#[test]
fn a_program_writes_events_for_itself() {
    let mut net = Net::new();
    let id = net.create(0, 0xa, PS_TCP);
    let write = |net: &mut Net, event| {
        let body = Bytes::default().u32(id).u32(0).u32(event).u32(0x1122_3344);
        let body = body.u64(0x5566_7788_aabb_ccdd).zeros(296);
        net.write(0, abi::WRITE_CM_EVENT, body).map(|_| ())
    };
    assert_eq!(write(&mut net, 9), Err(Errno::EINVAL));
    for kind in [18, 19] {
        write(&mut net, kind).unwrap();
        let event = net.event(0, kind);
        assert_eq!((event.uid, event.id, event.status), (0xa, id, 0x1122_3344));
        assert_eq!(u64_at(&event.param, 0), 0x5566_7788_aabb_ccdd);
    }
    for _ in 0..MAX_EVENTS {
        write(&mut net, 18).unwrap();
    }
    assert_eq!(write(&mut net, 18), Err(Errno::ENOMEM), "it reads nothing");
    assert_eq!(net.destroy(0, id), Ok(2));
    net.no_event(0);
    net.close();
}

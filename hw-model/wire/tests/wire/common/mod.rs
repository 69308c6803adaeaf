//! Generators of all values that the constructors can build.

use ferroce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Connected, Deth, EthernetHeader, Feth, Ieth, Immediate, Ip,
    Ipv4Header, Ipv6Header, Mac, MessageEnd, Msn, NetworkPath, Opcode, PKey, Psn, QKey, Qpn, RKey,
    ReadPart, Reth, SendPart, Syndrome, TransportHeaders, UdpHeader, VlanTag, WritePart, XrcEth,
};
use proptest::prelude::*;

fn bth() -> impl Strategy<Value = Bth> {
    let flags: [BoxedStrategy<bool>; 5] = std::array::from_fn(|_| any::<bool>().boxed());
    (
        flags,
        any::<[u8; 3]>(),
        any::<u16>(),
        any::<u32>(),
        any::<u32>(),
    )
        .prop_map(
            |([solicited, migration, fecn, becn, ack_request], small, p_key, dest_qp, psn)| Bth {
                solicited,
                migration,
                fecn,
                becn,
                ack_request,
                header_version: small[0] & 0xf,
                reserved6: small[1] & 0x3f,
                reserved7: small[2] & 0x7f,
                p_key: PKey(p_key),
                ..Bth::new(Opcode(0), Qpn::new(dest_qp), Psn::new(psn))
            },
        )
}

/// One value for each header of a packet.
#[derive(Debug, Clone)]
pub struct Parts {
    bth: Bth,
    reth: Reth,
    immediate: Immediate,
    aeth: Aeth,
    atomic: AtomicEth,
    atomic_ack: AtomicAckEth,
    deth: Deth,
    ieth: Ieth,
    xrc: XrcEth,
    feth: Feth,
}

pub fn parts() -> impl Strategy<Value = Parts> {
    (
        bth(),
        any::<[u64; 4]>(),
        any::<[u32; 6]>(),
        any::<[u8; 3]>(),
    )
        .prop_map(|(bth, long, word, byte)| Parts {
            bth,
            reth: Reth {
                virtual_address: long[0],
                r_key: RKey(word[0]),
                dma_length: word[1],
            },
            immediate: Immediate(word[2].to_be_bytes()),
            aeth: Aeth {
                syndrome: Syndrome::from_byte(byte[0]),
                msn: Msn::new(word[3]),
            },
            atomic: AtomicEth {
                virtual_address: long[0],
                r_key: RKey(word[0]),
                swap_or_add: long[1],
                compare: long[2],
            },
            atomic_ack: AtomicAckEth { original: long[3] },
            deth: Deth {
                reserved: byte[1],
                ..Deth::new(QKey(word[4]), Qpn::new(word[5]))
            },
            ieth: Ieth {
                r_key: RKey(word[0]),
            },
            xrc: XrcEth {
                reserved: byte[2],
                ..XrcEth::new(word[5])
            },
            feth: Feth::parse(&word[2].to_be_bytes()).expect("four bytes"),
        })
}

/// Returns every kind of packet once.
pub fn all_packets(parts: &Parts) -> Vec<TransportHeaders> {
    let Parts {
        bth,
        reth,
        immediate,
        aeth,
        atomic,
        atomic_ack,
        deth,
        ieth,
        xrc,
        feth,
    } = *parts;
    let connected = |service| {
        let sends = [
            SendPart::First,
            SendPart::Middle,
            SendPart::Last,
            SendPart::Only,
            SendPart::LastImmediate(immediate),
            SendPart::OnlyImmediate(immediate),
        ];
        let writes = [
            WritePart::First(reth),
            WritePart::Middle,
            WritePart::Last,
            WritePart::Only(reth),
            WritePart::LastImmediate(immediate),
            WritePart::OnlyImmediate(reth, immediate),
        ];
        let sends = sends.map(|part| TransportHeaders::send(bth, service, part));
        let writes = writes.map(|part| TransportHeaders::write(bth, service, part));
        sends.into_iter().chain(writes)
    };
    let reads = [
        ReadPart::First(aeth),
        ReadPart::Middle,
        ReadPart::Last(aeth),
        ReadPart::Only(aeth),
    ];
    let rc: Vec<_> = connected(Connected::Reliable)
        .chain(reads.map(|part| TransportHeaders::read_response(bth, part)))
        .chain([
            TransportHeaders::send_invalidate(bth, MessageEnd::Last, ieth),
            TransportHeaders::send_invalidate(bth, MessageEnd::Only, ieth),
            TransportHeaders::read_request(bth, reth),
            TransportHeaders::acknowledge(bth, aeth),
            TransportHeaders::atomic_acknowledge(bth, aeth, atomic_ack),
            TransportHeaders::compare_swap(bth, atomic),
            TransportHeaders::fetch_add(bth, atomic),
            TransportHeaders::flush(bth, feth, reth),
            TransportHeaders::atomic_write(bth, reth),
        ])
        .collect();
    let xrc = rc
        .iter()
        .map(|packet| packet.into_xrc(xrc).expect("an RC packet"));
    let xrc: Vec<_> = xrc.collect();
    rc.into_iter()
        .chain(xrc)
        .chain(connected(Connected::Unreliable))
        .chain([
            TransportHeaders::datagram(bth, deth, None),
            TransportHeaders::datagram(bth, deth, Some(immediate)),
            TransportHeaders::congestion_notification(bth),
        ])
        .collect()
}

pub fn packet() -> impl Strategy<Value = TransportHeaders> {
    (parts(), any::<proptest::sample::Index>()).prop_map(|(parts, index)| {
        let packets = all_packets(&parts);
        packets[index.index(packets.len())]
    })
}

fn ethernet() -> impl Strategy<Value = EthernetHeader> {
    (any::<[u8; 6]>(), any::<[u8; 6]>(), any::<Option<u16>>()).prop_map(
        |(destination, source, vlan)| EthernetHeader {
            destination: Mac(destination),
            source: Mac(source),
            vlan: vlan.map(VlanTag::from_bits),
        },
    )
}

fn ip() -> impl Strategy<Value = Ip> {
    let v4 = (
        any::<[u8; 2]>(),
        any::<u16>(),
        any::<bool>(),
        any::<[u8; 4]>(),
        any::<[u8; 4]>(),
    )
        .prop_map(
            |([traffic_class, ttl], identification, dont_fragment, source, destination)| {
                Ip::V4(Ipv4Header {
                    traffic_class,
                    identification,
                    dont_fragment,
                    ttl,
                    source: source.into(),
                    destination: destination.into(),
                })
            },
        );
    let v6 = (
        any::<[u8; 2]>(),
        0u32..1 << 20,
        any::<[u8; 16]>(),
        any::<[u8; 16]>(),
    )
        .prop_map(
            |([traffic_class, hop_limit], flow_label, source, destination)| {
                Ip::V6(Ipv6Header {
                    traffic_class,
                    flow_label,
                    hop_limit,
                    source: source.into(),
                    destination: destination.into(),
                })
            },
        );
    prop_oneof![v4, v6]
}

pub fn path() -> impl Strategy<Value = NetworkPath> {
    (ethernet(), ip(), any::<[u16; 2]>()).prop_map(|(ethernet, ip, [source_port, checksum])| {
        NetworkPath {
            ethernet,
            ip,
            udp: UdpHeader {
                source_port,
                checksum,
            },
        }
    })
}

pub fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..80),
        1 => proptest::collection::vec(any::<u8>(), 250..600),
        1 => proptest::collection::vec(any::<u8>(), 4090..=4096),
    ]
}

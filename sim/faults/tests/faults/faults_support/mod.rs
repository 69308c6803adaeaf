//! Frames and engines for the tests.

use std::net::Ipv4Addr;

use ferroce_faults::{Engine, FlowKey, Packet, Verdict};
use ferroce_units::Instant;
use ferroce_wire::{
    Aeth, Bth, Connected, Gid, IcrcMode, Mac, Msn, NetworkPath, Opcode, Psn, Qpn, ReadPart,
    Station, Syndrome, TransportHeaders, UdpHeader, WritePart, emit_frame,
};

/// The address of a host.
pub fn host(number: u8) -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, number))
}

/// The kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Is {
    Write,
    ReadResponse,
    Ack,
}

/// A packet from host 1 to host 2.
pub fn frame(is: Is, qpn: u32, psn: u32) -> Vec<u8> {
    frame_between(host(1), host(2), is, qpn, psn)
}

pub fn frame_between(source: Gid, destination: Gid, is: Is, qpn: u32, psn: u32) -> Vec<u8> {
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    let udp = UdpHeader::parse(&[0xc0, 0, 0x12, 0xb7, 0, 8, 0, 0]).expect("well formed");
    let [source, destination] = [source, destination].map(|gid| Station { mac, gid });
    let path = NetworkPath::new(source, destination, udp);
    let bth = Bth::new(Opcode(0), Qpn::new(qpn), Psn::new(psn));
    let aeth = Aeth {
        syndrome: Syndrome::ACK_UNLIMITED,
        msn: Msn::new(1),
    };
    let (headers, payload): (_, &[u8]) = match is {
        Is::Write => {
            let headers = TransportHeaders::write(bth, Connected::Reliable, WritePart::Middle);
            (headers, &[7; 256])
        }
        Is::ReadResponse => (
            TransportHeaders::read_response(bth, ReadPart::Middle),
            &[8; 256],
        ),
        Is::Ack => (TransportHeaders::acknowledge(bth, aeth), &[]),
    };
    let mut buffer = [0; 512];
    emit_frame(&path, &headers, payload, IcrcMode::Zero, &mut buffer).to_vec()
}

/// Returns an engine of an expression.
pub fn engine(expression: &str) -> Engine {
    Engine::new(expression.parse().expect("a plan"))
}

/// Returns the flow of a packet.
pub fn flow(frame: &[u8]) -> FlowKey {
    Packet::parse(frame).expect("RoCEv2").key
}

/// Returns the verdicts on packets with consecutive PSNs.
pub fn verdicts(engine: &mut Engine, is: Is, qpn: u32, first: u32, count: u32) -> Vec<Verdict> {
    let frames = (0..count).map(|n| frame(is, qpn, first.wrapping_add(n)));
    frames
        .map(|frame| engine.decide(Instant::ZERO, true, &frame))
        .collect()
}

/// Returns the indices of dropped packets.
pub fn dropped(verdicts: &[Verdict]) -> Vec<usize> {
    let places = verdicts.iter().enumerate();
    places
        .filter(|(_, verdict)| verdict.is_dropped())
        .map(|(place, _)| place)
        .collect()
}

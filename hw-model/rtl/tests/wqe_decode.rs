//! Decoding of send WQEs, compared with the model: valid ones, damaged ones, and lines that come in
//! any order or cannot be read.

use ferroce_model::wqe::{SendPayload, WqeError, block_count, decode};
use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::structs;
use ferroce_rtl::verilated::wqe_decode::WqeDecode;
use ferroce_rtl::{LINE, words};
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::wqe::{DataSegment, DatagramSegment, MAX_BLOCKS, SendOpcode};
use ferroce_transport::{Destination, SendOperation, SendRequest, Service};
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 20;
const WQES_PER_SEED: usize = 2000;
const CYCLES_MAX: u64 = 1000;

/// Operations that the card lacks.
const MISSING: &[SendOpcode] = &[
    SendOpcode::FLUSH,
    SendOpcode::ATOMIC_WRITE,
    SendOpcode::LOCAL_INVALIDATE,
    SendOpcode::BIND_WINDOW,
];

/// Its operations, and a number that is none.
const OPCODES: &[SendOpcode] = &[
    SendOpcode::NOP,
    SendOpcode::SEND,
    SendOpcode::SEND_IMMEDIATE,
    SendOpcode::SEND_INVALIDATE,
    SendOpcode::RDMA_WRITE,
    SendOpcode::RDMA_WRITE_IMMEDIATE,
    SendOpcode::RDMA_READ,
    SendOpcode::COMPARE_SWAP,
    SendOpcode::FETCH_ADD,
    SendOpcode(0x30),
];

/// Length of an atomic.
const ATOMIC_BYTES: u32 = 8;

/// Bytes of the segments before the payload of a datagram.
const DATAGRAM_HEAD: usize = 16 + DatagramSegment::SIZE;

/// A WQE of up to ten blocks in a ring, usually valid.
fn random_wqe(random: &mut SplitMix64, index: u32, service: Service) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..MAX_BLOCKS * LINE)
        .map(|_| random.number() as u8)
        .collect();
    let opcodes = [OPCODES, MISSING].concat();
    let opcode = opcodes[random.below(opcodes.len() as u64) as usize].0;
    let is_inline = random.below(3) == 0;
    let segments = random.below(18) as u32 * u32::from(random.below(2) == 0);
    let data = match opcode {
        _ if service.is_datagram() => DATAGRAM_HEAD,
        0x18 | 0x19 => 48,
        0x08..=0x10 => 32,
        _ => 16,
    };
    let blocks = match random.below(4) {
        0 => random.below(13) as u32,
        1 => 10,
        _ => (data.max(32) as u32 + 16 * segments).div_ceil(64),
    };
    let flags = random.number() as u32 & 0x700;
    let word =
        u32::from(opcode) | flags | u32::from(is_inline) << 11 | blocks << 16 | segments << 24;
    bytes[..4].copy_from_slice(&word.to_le_bytes());
    bytes[4..8].copy_from_slice(&index.to_le_bytes());
    if is_inline {
        let length = match random.below(8) {
            0 => random.below(600) as u32,
            1 => u32::MAX - random.below(40) as u32,
            _ => random.below(64 * u64::from(blocks) + 8) as u32,
        };
        bytes[data..data + 4].copy_from_slice(&length.to_le_bytes());
    } else {
        let most = [4, 1 << 16, 1 << 28, u32::MAX][random.below(4) as usize];
        for segment in bytes[data..].chunks_exact_mut(16) {
            let length = random.below(u64::from(most)) as u32;
            segment[8..12].copy_from_slice(&length.to_le_bytes());
        }
    }
    if service.is_datagram() && random.below(2) == 0 {
        // An index of the GID table that is not 255.
        bytes[49] = 0;
    }
    if random.below(8) == 0 {
        let at = random.below(64) as usize;
        bytes[at] ^= 1 << random.below(8);
    }
    bytes
}

/// A valid WQE: the request, its destination, its segments, and whether its payload is inline.
struct Valid {
    request: SendRequest,
    datagram: Option<Box<DatagramSegment>>,
    segments: Vec<DataSegment>,
    is_inline: bool,
}

/// The card's result for a WQE: the WQE, or its status and whether it is rejected.
type Verdict = Result<Valid, (CqeStatus, bool)>;

fn is_atomic(request: &SendRequest) -> bool {
    matches!(
        request.operation,
        SendOperation::CompareSwap { .. } | SendOperation::FetchAdd { .. }
    )
}

/// The model's result, adjusted for features that the card lacks.
fn expected(bytes: &[u8], index: u32, available: u32, service: Service) -> Verdict {
    let verdict = block_count(bytes, index, available)
        .and_then(|blocks| decode(&bytes[..usize::from(blocks) * LINE], service));
    let opcode = SendOpcode(bytes[0]);
    let is_connected = !service.is_datagram();
    let is_missing = is_connected && MISSING.contains(&opcode);
    let is_inline_read = is_connected && opcode == SendOpcode::RDMA_READ && bytes[1] & 8 != 0;
    match verdict {
        Err(WqeError::Stale { .. } | WqeError::Blocks(_)) => {
            Err((CqeStatus::LOCAL_QP_OPERATION, true))
        }
        _ if is_missing => Err((CqeStatus::LOCAL_QP_OPERATION, false)),
        Err(WqeError::Length) => Err((CqeStatus::LOCAL_LENGTH, true)),
        Err(_) => Err((CqeStatus::LOCAL_QP_OPERATION, true)),
        Ok(_) if is_inline_read => Err((CqeStatus::LOCAL_QP_OPERATION, false)),
        // The model's requester refuses it.
        Ok((request, _)) if is_atomic(&request) && request.length < ATOMIC_BYTES => {
            Err((CqeStatus::LOCAL_LENGTH, false))
        }
        Ok((request, wqe)) => {
            let (segments, is_inline) = match wqe.payload {
                SendPayload::Memory(list) => (list.segments().to_vec(), false),
                _ => (Vec::new(), true),
            };
            Ok(Valid {
                request,
                datagram: wqe.datagram,
                segments,
                is_inline,
            })
        }
    }
}

/// The ring is at the beginning of memory, and has an entry for each index.
const LOG_RING_BLOCKS: u8 = 31;

/// A requested line: its slot, its bytes, and true if it cannot be read.
type Asked = (u8, [u32; LINE / 4], bool);

/// Gives the WQE to the module block by block in any order; block `unreadable` cannot be read.
/// Blocks after the WQE may be read ahead. At the end, lines may still be outstanding, and arrive
/// while the next WQE is fetched. Returns true if the WQE could not be read.
fn run(
    rtl: &mut WqeDecode,
    random: &mut SplitMix64,
    asked: &mut Vec<Asked>,
    bytes: &[u8],
    (index, available): (u32, u32),
    unreadable: Option<usize>,
) -> bool {
    let ahead = random.below(2) as usize * random.below(20) as usize;
    rtl.set_ahead_valid(u8::from(ahead != 0));
    rtl.set_ahead_block(index.wrapping_add(ahead as u32));
    rtl.set_begin_valid(1);
    rtl.set_begin_index(index);
    rtl.set_begin_available(available);
    let limit = rtl.cycles() + CYCLES_MAX;
    let mut is_first = true;
    // What is requested in the first cycle belongs to the previous WQE, and may be read later.
    let mut is_of_previous = true;
    while is_first || rtl.done() == 0 {
        assert!(rtl.cycles() < limit, "the module does not end");
        let ready = random.below(2) as u8;
        rtl.set_read_ready(ready);
        rtl.set_line_valid(0);
        if !asked.is_empty() && random.below(3) == 0 {
            let (slot, line, is_refused) =
                asked.swap_remove(random.below(asked.len() as u64) as usize);
            rtl.set_line_valid(1);
            rtl.set_line_index(slot);
            rtl.set_line_data(line);
            rtl.set_line_error(u8::from(is_refused));
        }
        rtl.settle();
        if ready != 0 && rtl.read_valid() != 0 {
            let place = (rtl.read_iova() / LINE as u64) as u32;
            let block = place.wrapping_sub(index) as usize & ((1 << LOG_RING_BLOCKS) - 1);
            assert!(is_of_previous || block < MAX_BLOCKS.max(ahead).min(16));
            let line = bytes.get(block * LINE..(block + 1) * LINE).unwrap_or(&[]);
            asked.push((rtl.read_index(), words(line, 0), unreadable == Some(block)));
        }
        is_of_previous &= is_first || (ready == 0 && rtl.read_valid() != 0);
        rtl.cycle();
        rtl.set_begin_valid(0);
        is_first = false;
    }
    rtl.set_line_valid(0);
    rtl.set_read_ready(0);
    let blocks = usize::from(bytes[2] & 0x1f);
    unreadable.is_some_and(|block| block < blocks.max(1))
}

fn segments(rtl: &mut WqeDecode) -> Vec<DataSegment> {
    let count = rtl.wqe_segments();
    let read = |number| {
        rtl.set_segment_number(number);
        rtl.cycle();
        DataSegment {
            address: rtl.segment_address(),
            length: rtl.segment_length(),
            l_key: rtl.segment_key(),
        }
    };
    (0..count).map(read).collect()
}

fn check_request(rtl: &WqeDecode, request: &SendRequest) {
    let length = match is_atomic(request) {
        true => ATOMIC_BYTES,
        false => request.length,
    };
    assert_eq!(rtl.wqe_length(), length);
    assert_eq!(rtl.wqe_signaled() != 0, request.signaled);
    assert_eq!(rtl.wqe_solicited() != 0, request.solicited);
    assert_eq!(rtl.wqe_fence() != 0, request.fence);
    let (remote, immediate) = match request.operation {
        SendOperation::SendImmediate(immediate) => (None, Some(immediate.0)),
        SendOperation::SendInvalidate(key) => (None, Some(key.0.to_le_bytes())),
        SendOperation::RdmaWriteImmediate { remote, immediate } => {
            (Some(remote), Some(immediate.0))
        }
        SendOperation::RdmaWrite { remote }
        | SendOperation::RdmaRead { remote }
        | SendOperation::CompareSwap { remote, .. }
        | SendOperation::FetchAdd { remote, .. } => (Some(remote), None),
        _ => (None, None),
    };
    if let Some(remote) = remote {
        assert_eq!(rtl.wqe_remote_address(), remote.virtual_address);
        assert_eq!(rtl.wqe_remote_key(), remote.r_key.0);
    }
    if let Some(immediate) = immediate {
        assert_eq!(rtl.wqe_immediate().to_le_bytes(), immediate);
    }
    match request.operation {
        SendOperation::CompareSwap { compare, swap, .. } => {
            assert_eq!((rtl.wqe_compare(), rtl.wqe_swap_add()), (compare, swap));
        }
        SendOperation::FetchAdd { add, .. } => assert_eq!(rtl.wqe_swap_add(), add),
        _ => {}
    }
}

/// Compares the destination of a datagram.
fn check_destination(rtl: &WqeDecode, request: &SendRequest, segment: &DatagramSegment) {
    let wqe: structs::Wqe = rtl.wqe().into();
    let Destination::Datagram { qpn, q_key } = request.destination else {
        panic!("{request:?} has no destination");
    };
    assert_eq!((wqe.dest_qpn, wqe.q_key), (qpn.value(), q_key.0));
    let (read, path) = (wqe.path, &segment.path);
    let octets: Vec<u8> = read.dest_gid.iter().flat_map(|n| n.to_le_bytes()).collect();
    assert_eq!(octets, path.dest_gid);
    assert_eq!(read.dest_mac.to_le_bytes()[..6], path.dest_mac);
    let index = u8::try_from(path.source_gid_index).unwrap_or(u8::MAX);
    let ports = (read.source_gid_index, read.vlan, read.udp_source_port);
    assert_eq!(ports, (index, path.vlan, path.udp_source_port));
    let classes = (read.traffic_class, read.hop_limit, read.service_level);
    let level = path.service_level & 0xf;
    assert_eq!(classes, (path.traffic_class, path.hop_limit, level));
    assert_eq!(read.flow_label, path.flow_label & 0xf_ffff);
}

#[test]
fn verdicts_are_those_of_the_model() {
    let mut seen = [0u32; 4];
    for_each_seed(SEEDS, |seed| {
        let mut random = SplitMix64::new(seed);
        let mut rtl = WqeDecode::new();
        rtl.set_rst(1);
        rtl.cycle();
        rtl.set_rst(0);
        rtl.set_log_ring_blocks(LOG_RING_BLOCKS);
        let mut asked = Vec::new();
        for _ in 0..WQES_PER_SEED {
            let index = random.number() as u32;
            let service = match random.below(3) {
                0 => Service::UnreliableDatagram,
                _ => Service::ReliableConnected,
            };
            rtl.set_is_datagram(u8::from(service.is_datagram()));
            let bytes = random_wqe(&mut random, index, service);
            let available = if random.below(8) == 0 {
                random.below(12) as u32
            } else {
                1 << 16
            };
            let unreadable = (random.below(16) == 0).then(|| random.below(10) as usize);
            let unread = run(
                &mut rtl,
                &mut random,
                &mut asked,
                &bytes,
                (index, available),
                unreadable,
            );
            let status = CqeStatus(rtl.wqe_status());
            if unread {
                assert_eq!(
                    (status, rtl.wqe_rejected()),
                    (CqeStatus::LOCAL_QP_OPERATION, 1)
                );
                continue;
            }
            match expected(&bytes, index, available, service) {
                Err((error, rejected)) => {
                    assert_eq!(
                        (status, rtl.wqe_rejected() != 0),
                        (error, rejected),
                        "{bytes:02x?}"
                    );
                    seen[usize::from(error == CqeStatus::LOCAL_LENGTH)] += 1;
                }
                Ok(valid) => {
                    assert_eq!(
                        (status, rtl.wqe_rejected()),
                        (CqeStatus::SUCCESS, 0),
                        "{bytes:02x?}"
                    );
                    check_request(&rtl, &valid.request);
                    if let Some(segment) = &valid.datagram {
                        check_destination(&rtl, &valid.request, segment);
                        seen[3] += 1;
                    }
                    assert_eq!(rtl.wqe_blocks(), bytes[2] & 0x1f);
                    let is_nop = bytes[0] == SendOpcode::NOP.0;
                    assert!(is_nop || valid.is_inline == (rtl.wqe_is_inline() != 0));
                    if !valid.is_inline && !is_nop {
                        assert_eq!(segments(&mut rtl), valid.segments);
                    }
                    seen[2] += 1;
                }
            }
        }
    });
    println!("refused, too long, right, datagrams: {seen:?}");
    assert!(seen.iter().all(|count| *count > 100));
}

//! Random frames, generated without the code under test: the bytes by hand, the ICRC by the wire
//! crate.

use ferroce_units::random::SplitMix64;
use ferroce_wire::Frame;
use ferroce_wire::icrc;

/// Returns the bytes of the headers after the BTH of an opcode; `None` if there is no such opcode.
fn extension_length(opcode: u8) -> Option<usize> {
    let (service, code) = (opcode >> 5, opcode & 0x1f);
    let (xrc, deth) = (service == 5, service == 3);
    let length = match (service, code) {
        (4, 1) => return Some(16),
        (3, 4) => 0,
        (3, 5) => 4,
        (0 | 1 | 5, 0..=2 | 4 | 7 | 8) => 0,
        (0 | 1 | 5, 3 | 5 | 9) => 4,
        (0 | 1 | 5, 6 | 10) => 16,
        (0 | 1 | 5, 11) => 20,
        (0 | 5, 12) => 16,
        (0 | 5, 13 | 15 | 16 | 17) => return Some(4),
        (0 | 5, 14) => return Some(0),
        (0 | 5, 18) => return Some(12),
        (0 | 5, 19 | 20) => 28,
        (0 | 5, 22 | 23) => 4,
        (0 | 5, 28) => 20,
        (0 | 5, 29) => 16,
        _ => return None,
    };
    Some(length + if xrc { 4 } else { 0 } + if deth { 8 } else { 0 })
}

fn bytes(random: &mut SplitMix64, count: usize) -> Vec<u8> {
    (0..count).map(|_| random.number() as u8).collect()
}

fn one_in(random: &mut SplitMix64, n: u64) -> bool {
    random.below(n) == 0
}

/// Offsets of the parts of a frame.
struct Parts {
    v6: bool,
    ip: usize,
    udp: usize,
    bth: usize,
}

/// Appends an IPv4 header with a correct checksum.
fn push_v4(frame: &mut Vec<u8>, udp_length: u16, random: &mut SplitMix64) {
    let ip = frame.len();
    frame.extend([0x45, random.number() as u8]);
    frame.extend((20 + udp_length).to_be_bytes());
    frame.extend(bytes(random, 2));
    frame.extend([random.below(2) as u8 * 0x40, 0]);
    frame.extend([random.number() as u8, 17, 0, 0]);
    // Sometimes large addresses, so that the checksum's carries are tested.
    let ones = if one_in(random, 2) { 0xff } else { 0 };
    frame.extend(bytes(random, 8).iter().map(|byte| byte | ones));
    let words = frame[ip..].chunks(2);
    let mut sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    while sum >> 16 != 0 {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    frame[ip + 10..ip + 12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

fn push_v6(frame: &mut Vec<u8>, udp_length: u16, random: &mut SplitMix64) {
    frame.push(0x60 | random.below(16) as u8);
    frame.extend(bytes(random, 3));
    frame.extend(udp_length.to_be_bytes());
    frame.extend([17, random.number() as u8]);
    frame.extend(bytes(random, 32));
}

/// Returns a valid frame, except for its ICRC.
fn frame_of(opcode: u8, random: &mut SplitMix64) -> (Vec<u8>, Parts) {
    let payload = match random.below(4) {
        0 => 0,
        1 => random.below(70),
        2 => random.below(400),
        _ => random.below(4097),
    } as usize;
    let pad = payload.wrapping_neg() & 3;
    let transport = 12 + extension_length(opcode).unwrap_or(0) + payload + pad + 4;
    let v6 = one_in(random, 2);
    let mut frame = bytes(random, 12);
    if one_in(random, 3) {
        frame.extend([0x81, 0]);
        frame.extend(bytes(random, 2));
    }
    frame.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
    let ip = frame.len();
    let udp_length = (8 + transport) as u16;
    if v6 {
        push_v6(&mut frame, udp_length, random);
    } else {
        push_v4(&mut frame, udp_length, random);
    }
    let udp = frame.len();
    frame.extend(bytes(random, 2));
    frame.extend(4791u16.to_be_bytes());
    frame.extend(udp_length.to_be_bytes());
    frame.extend(bytes(random, 2));
    let bth = frame.len();
    frame.extend(bytes(random, transport));
    frame[bth] = opcode;
    frame[bth + 1] = frame[bth + 1] & 0xcf | (pad as u8) << 4;
    let parts = Parts { v6, ip, udp, bth };
    (frame, parts)
}

/// Damages a frame occasionally.
fn damage(frame: &mut Vec<u8>, parts: &Parts, random: &mut SplitMix64) {
    match random.below(8) {
        // Ethernet's padding, or more.
        0 => frame.resize(frame.len() + random.below(150) as usize, 0xee),
        // A wrong bit, in half of the cases in the headers.
        1 => {
            let headers = frame.len().min(parts.bth + 44);
            let limit = if one_in(random, 2) {
                frame.len()
            } else {
                headers
            };
            let bit = random.below(8 * limit as u64) as usize;
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        2 if one_in(random, 3) => {
            let length = 1 + random.below(frame.len() as u64) as usize;
            frame.truncate(length);
        }
        // Lengths that do not match.
        3 if one_in(random, 3) => {
            let ip_length = parts.ip + if parts.v6 { 5 } else { 3 };
            let at = if one_in(random, 2) {
                parts.udp + 5
            } else {
                ip_length
            };
            frame[at] = random.number() as u8;
        }
        _ => {}
    }
}

/// Returns a frame of any opcode, usually a valid one.
pub fn random(random: &mut SplitMix64) -> Vec<u8> {
    let opcode = loop {
        let opcode = random.number() as u8;
        if extension_length(opcode).is_some() || one_in(random, 50) {
            break opcode;
        }
    };
    let (mut frame, parts) = frame_of(opcode, random);
    if let Ok(parsed) = Frame::parse(&frame) {
        let icrc = icrc::compute(&frame, parsed.layout());
        let place = parsed.layout().icrc();
        frame[place].copy_from_slice(&icrc.to_le_bytes());
    }
    damage(&mut frame, &parts, random);
    frame
}

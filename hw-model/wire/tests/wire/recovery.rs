//! The frames of selective repeat on the wire; other tools can read them.

use ferroce_wire::{
    Aeth, Arrivals, Bth, Connected, Extension, Frame, IcrcMode, Immediate, Mac, Msn, NakCode,
    NetworkPath, Opcode, Psn, Qpn, RKey, RecoveryBits, Reth, Station, Syndrome, TransportHeaders,
    UdpHeader, WritePart, emit_frame,
};

const MISSING: Psn = Psn::new(0xff_fffe);

fn path() -> NetworkPath {
    let station = |mac, gid: &str| Station {
        mac: Mac([mac; 6]),
        gid: gid.parse().expect("well formed"),
    };
    let source_port = 0xc000;
    let checksum = 0;
    let udp = UdpHeader {
        source_port,
        checksum,
    };
    NetworkPath::new(station(2, "10.0.0.1"), station(4, "10.0.0.2"), udp)
}

fn bth(psn: Psn, bits: RecoveryBits) -> Bth {
    let mut bth = Bth::new(Opcode(0), Qpn::new(0x11), psn);
    bits.set_in(&mut bth);
    bth
}

const SELECTIVE: RecoveryBits = RecoveryBits {
    selective: true,
    out_of_order: false,
    more: false,
};

#[test]
fn a_nak_carries_the_bitmap_where_others_have_payload() {
    let aeth = Aeth {
        syndrome: Syndrome::Nak(NakCode::PsnSequenceError),
        msn: Msn::new(3),
    };
    let headers = TransportHeaders::acknowledge(bth(MISSING, SELECTIVE), aeth);
    let mut arrivals = Arrivals::default();
    [1, 2, 40].into_iter().for_each(|one| arrivals.insert(one));
    let mut bitmap = vec![0; Arrivals::length_to(40) as usize];
    arrivals.emit(&mut bitmap);
    assert_eq!(bitmap, [3, 0, 0, 0, 0x80, 0, 0, 0]);

    let mut buffer = [0; 256];
    let frame = emit_frame(&path(), &headers, &bitmap, IcrcMode::Computed, &mut buffer).to_vec();
    println!("{frame:02x?}");
    assert_eq!(frame.len(), 14 + 20 + 8 + 12 + 4 + 8 + 4);
    let bth_and_aeth = [
        0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x40, 0xff, 0xff, 0xfe, 0x60, 0, 0, 3,
    ];
    assert_eq!(frame[42..58], bth_and_aeth);
    let parsed = Frame::parse(&frame).expect("it is a frame");
    assert!(parsed.icrc_is_valid());
    assert_eq!(parsed.headers, headers);
    let behind: Vec<u32> = Arrivals::parse(parsed.payload())
        .psns(MISSING)
        .map(Psn::value)
        .collect();
    assert_eq!(behind, [0xff_ffff, 0, 38], "across the wrap");

    // The ICRC covers the bits.
    let mut forged = frame.clone();
    forged[50] = 0;
    assert!(
        !Frame::parse(&forged)
            .expect("still a frame")
            .icrc_is_valid()
    );
}

#[test]
fn a_part_of_a_write_is_a_write_only() {
    let bits = RecoveryBits {
        selective: true,
        out_of_order: true,
        more: true,
    };
    let reth = Reth {
        virtual_address: 0x7f00_0000_0400,
        r_key: RKey(7),
        dma_length: 4,
    };
    let write = |bits, part| TransportHeaders::write(bth(MISSING, bits), Connected::Reliable, part);
    let first = write(bits, WritePart::Only(reth));
    let end = RecoveryBits {
        more: false,
        ..bits
    };
    let last = write(end, WritePart::OnlyImmediate(reth, Immediate([1; 4])));
    for (headers, byte) in [(first, 0x70), (last, 0x60)] {
        let mut buffer = [0; 256];
        let mode = IcrcMode::Computed;
        let frame = emit_frame(&path(), &headers, &[1, 2, 3, 4], mode, &mut buffer).to_vec();
        println!("{frame:02x?}");
        assert_eq!(frame[50], byte);
        let parsed = Frame::parse(&frame).expect("it is a frame");
        assert_eq!(parsed.headers, headers);
        assert!(matches!(
            parsed.headers.extension,
            Extension::Reth(_) | Extension::RethImmediate(..)
        ));
    }
}

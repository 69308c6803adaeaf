//! The golden vectors of frames (`hw-model/spec/vectors/frame.toml`): the meaning of a frame, its
//! bytes when it is emitted from its values, and its ICRC.

use std::collections::BTreeMap;

use ferroce_test_support::{GoldenField, GoldenVector, golden_vectors};
use ferroce_wire::{Aeth, Extension, Frame, Immediate, Ip, RequestExtension, Reth};

/// The non-zero fields of a header by name.
type Fields = BTreeMap<String, GoldenField>;

/// Headers in order: kind and fields.
#[derive(Default)]
struct Headers(Vec<(&'static str, Fields)>);

impl Headers {
    fn add<const N: usize>(
        &mut self,
        kind: &'static str,
        numbers: [(&str, u64); N],
    ) -> &mut Fields {
        let given = numbers.iter().filter(|(_, value)| *value != 0);
        let fields = given.map(|(name, value)| ((*name).to_owned(), GoldenField::Number(*value)));
        self.0.push((kind, fields.collect()));
        &mut self.0.last_mut().expect("just added").1
    }
}

fn bytes(fields: &mut Fields, name: &str, value: &[u8]) {
    fields.insert(name.to_owned(), GoldenField::Bytes(value.to_vec()));
}

/// Returns the contents of a frame in the terms of the vectors.
fn headers(frame: &Frame<'_>) -> Headers {
    let mut found = Headers::default();
    let ethernet = found.add("Ethernet", []);
    bytes(ethernet, "destination", &frame.ethernet.destination.0);
    bytes(ethernet, "source", &frame.ethernet.source.0);
    match &frame.ip {
        Ip::V4(v4) => {
            let fields = found.add(
                "Ipv4",
                [
                    ("traffic_class", v4.traffic_class.into()),
                    ("identification", v4.identification.into()),
                    ("dont_fragment", v4.dont_fragment.into()),
                    ("ttl", v4.ttl.into()),
                ],
            );
            bytes(fields, "source", &v4.source.octets());
            bytes(fields, "destination", &v4.destination.octets());
        }
        Ip::V6(v6) => {
            let fields = found.add(
                "Ipv6",
                [
                    ("traffic_class", v6.traffic_class.into()),
                    ("flow_label", v6.flow_label.into()),
                    ("hop_limit", v6.hop_limit.into()),
                ],
            );
            bytes(fields, "source", &v6.source.octets());
            bytes(fields, "destination", &v6.destination.octets());
        }
    }
    let udp = [
        ("source_port", frame.udp.source_port.into()),
        ("checksum", frame.udp.checksum.into()),
    ];
    found.add("Udp", udp);
    add_bth(&mut found, frame);
    add_extension(&mut found, frame.headers.extension);
    if frame.payload_length() > 0 {
        bytes(found.add("payload", []), "bytes", frame.payload());
    }
    found.add("Icrc", [("icrc", frame.icrc.into())]);
    found
}

fn add_bth(found: &mut Headers, frame: &Frame<'_>) {
    let bth = &frame.headers.bth;
    let fields = found.add(
        "Bth",
        [
            ("solicited", bth.solicited.into()),
            ("migration", bth.migration.into()),
            ("pad_count", bth.pad_count.into()),
            ("header_version", bth.header_version.into()),
            ("p_key", bth.p_key.0.into()),
            ("fecn", bth.fecn.into()),
            ("becn", bth.becn.into()),
            ("dest_qp", bth.dest_qp.value().into()),
            ("ack_request", bth.ack_request.into()),
            ("psn", bth.psn.value().into()),
        ],
    );
    let opcode = GoldenField::Named("Opcode".to_owned(), bth.opcode.to_string());
    fields.insert("opcode".to_owned(), opcode);
}

fn add_extension(found: &mut Headers, extension: Extension) {
    match extension {
        Extension::None => {}
        Extension::Reth(reth) => add_reth(found, reth),
        Extension::RethImmediate(reth, immediate) => {
            add_reth(found, reth);
            add_immediate(found, immediate);
        }
        Extension::Immediate(immediate) => add_immediate(found, immediate),
        Extension::Aeth(aeth) => add_aeth(found, aeth),
        Extension::AtomicEth(atomic) => {
            let fields = [
                ("virtual_address", atomic.virtual_address),
                ("r_key", atomic.r_key.0.into()),
                ("swap_or_add", atomic.swap_or_add),
                ("compare", atomic.compare),
            ];
            found.add("AtomicEth", fields);
        }
        Extension::AtomicAck(aeth, atomic) => {
            add_aeth(found, aeth);
            found.add("AtomicAckEth", [("original", atomic.original)]);
        }
        Extension::DethImmediate(deth, immediate) => {
            let fields = [
                ("q_key", deth.q_key.0.into()),
                ("source_qp", deth.source_qp.value().into()),
            ];
            found.add("Deth", fields);
            add_immediate(found, immediate);
        }
        Extension::Invalidate(ieth) => {
            found.add("Ieth", [("r_key", ieth.r_key.0.into())]);
        }
        Extension::Xrc(xrc, RequestExtension::None) => {
            found.add("XrcEth", [("srq_number", xrc.srq_number.into())]);
        }
        other => panic!("no vector has {other:?}"),
    }
}

fn add_reth(found: &mut Headers, reth: Reth) {
    let fields = [
        ("virtual_address", reth.virtual_address),
        ("r_key", reth.r_key.0.into()),
        ("dma_length", reth.dma_length.into()),
    ];
    found.add("Reth", fields);
}

fn add_aeth(found: &mut Headers, aeth: Aeth) {
    let fields = [
        ("syndrome", aeth.syndrome.to_byte().into()),
        ("msn", aeth.msn.value().into()),
    ];
    found.add("Aeth", fields);
}

fn add_immediate(found: &mut Headers, immediate: Immediate) {
    bytes(found.add("Immediate", []), "immediate", &immediate.0);
}

fn check(vector: &GoldenVector) {
    let name = &vector.name;
    let frame = Frame::parse(&vector.bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let found = headers(&frame);
    let expected = vector.segments.iter();
    let expected: Vec<_> = expected
        .map(|s| (s.kind.as_str(), s.fields.clone()))
        .collect();
    for (found, expected) in found.0.iter().zip(&expected) {
        assert_eq!(found, expected, "{name}");
    }
    assert_eq!(found.0.len(), expected.len(), "{name}");
    assert!(
        frame.icrc_is_valid(),
        "{name}: {:#x}",
        frame.computed_icrc()
    );
    let mut buffer = vec![0xee; vector.bytes.len()];
    assert_eq!(frame.emit(&mut buffer), vector.bytes, "{name}");
}

#[test]
fn frames_mean_the_vectors() {
    let vectors = golden_vectors("frame");
    assert_eq!(vectors.len(), 16);
    vectors.iter().for_each(check);
}

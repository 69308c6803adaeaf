//! Messages of the connection manager: against captures of Linux, against the offsets in the IBTA's
//! tables, and with arbitrary bytes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use ferroce_wire::cm::{
    Apr, CmTimeout, CommunicationId, Drep, Dreq, IpCmHeader, Lap, Mad, MadError, MadHeader,
    Message, MessageKind, Mra, PrivateData, Rej, RejectReason, Rep, Req, ReqPath, Rtu, ServiceId,
    SidrRep, SidrReq, SidrStatus, TransportService,
};
use ferroce_wire::{Error, FrameKind, Gid, PKey, Psn, QKey, Qpn, classify};
use pcap_file::pcap::PcapReader;
use proptest::prelude::*;

/// Returns the datagrams to QP 1 in a capture.
fn datagrams(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let file = File::open(folder.join(name).with_extension("pcap")).unwrap();
    let mut reader = PcapReader::new(file).unwrap();
    let mut found = Vec::new();
    while let Some(packet) = reader.next_packet() {
        if let FrameKind::Roce(frame) = classify(&packet.unwrap().data) {
            if frame.headers.bth.dest_qp == Qpn::GSI {
                found.push(frame.payload().to_vec());
            }
        }
    }
    found
}

/// Returns the messages of a capture, after checking that each is emitted again byte for byte.
fn messages(name: &str) -> Vec<Mad> {
    let parsed = datagrams(name).into_iter().map(|bytes| {
        let mad = Mad::parse(&bytes).unwrap();
        assert_eq!(mad.to_bytes(), *bytes, "{mad:?}");
        assert_eq!(Mad::new(mad.header.transaction_id, mad.message), mad);
        mad
    });
    parsed.collect()
}

fn client() -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, 1))
}

fn server() -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, 2))
}

const CLIENT_ID: CommunicationId = CommunicationId(0xf109_bde0);
const SERVER_ID: CommunicationId = CommunicationId(0x7e4e_e790);

/// Returns the REQ of `rping`, field by field. (tshark 4.0 shows another flow label and packet
/// rate, because it shifts the word with both fields, bytes 6d cf f0 00.)
fn rping_req() -> Req {
    let addresses = [client(), server()].map(|gid| IpAddr::V4(gid.to_ipv4().unwrap()));
    let mut private_data = [0; 92];
    IpCmHeader::new(addresses[0], 0xbbe7, addresses[1]).emit(&mut private_data);
    Req {
        local_communication_id: CLIENT_ID,
        service_id: ServiceId::ip(6, 7174),
        local_ca_guid: 0x5054_00ff_fe00_0001,
        local_qpn: Qpn::new(0x20),
        responder_resources: 1,
        initiator_depth: 1,
        remote_cm_response_timeout: CmTimeout::new(20),
        starting_psn: Psn::new(0x6c_bb29),
        local_cm_response_timeout: CmTimeout::new(20),
        retry_count: 7,
        partition_key: PKey::DEFAULT,
        path_packet_payload_mtu: 3,
        rnr_retry_count: 7,
        max_cm_retries: 15,
        primary: ReqPath {
            local_port_lid: 0xffff,
            remote_port_lid: 0xffff,
            local_port_gid: client(),
            remote_port_gid: server(),
            flow_label: 0x6_dcff,
            hop_limit: 64,
            local_ack_timeout: CmTimeout::new(17),
            ..ReqPath::default()
        },
        private_data: PrivateData(private_data),
        ..Req::default()
    }
}

#[test]
fn rping_connects_and_disconnects() {
    let seen = messages("rping_cm");
    let expected = [
        Message::Req(rping_req()),
        Message::Rep(Rep {
            local_communication_id: SERVER_ID,
            remote_communication_id: CLIENT_ID,
            local_qpn: Qpn::new(0x20),
            starting_psn: Psn::new(0xbc_b9cf),
            responder_resources: 1,
            initiator_depth: 1,
            target_ack_delay: CmTimeout::new(15),
            rnr_retry_count: 7,
            local_ca_guid: 0x5054_00ff_fe00_0002,
            ..Rep::default()
        }),
        Message::Rtu(Rtu {
            local_communication_id: CLIENT_ID,
            remote_communication_id: SERVER_ID,
            ..Rtu::default()
        }),
        Message::Dreq(Dreq {
            local_communication_id: CLIENT_ID,
            remote_communication_id: SERVER_ID,
            remote_qpn_eecn: Qpn::new(0x20),
            ..Dreq::default()
        }),
        Message::Drep(Drep {
            local_communication_id: SERVER_ID,
            remote_communication_id: CLIENT_ID,
            ..Drep::default()
        }),
    ];
    assert_eq!(seen.len(), expected.len());
    for (mad, expected) in seen.iter().zip(expected) {
        assert_eq!(mad.message, expected);
        assert_eq!(mad.header.transaction_id, 0x0000_0002_e0bd_09f1);
    }
    assert_eq!(rping_req().transport_service(), Some(TransportService::Rc));
}

#[test]
fn udaddy_resolves_its_service() {
    let seen = messages("udaddy_cm");
    let [request, response] = &seen[..] else {
        panic!("{seen:?}");
    };
    let Message::SidrReq(request) = request.message else {
        panic!("{request:?}");
    };
    assert_eq!(request.service_id, ServiceId::ip(17, 7174));
    assert_eq!(request.partition_key, PKey::DEFAULT);
    let header = IpCmHeader::parse(&request.private_data.0).unwrap();
    let addresses = [client(), server()].map(|gid| IpAddr::V4(gid.to_ipv4().unwrap()));
    assert_eq!(header.addresses(), Some((addresses[0], addresses[1])));
    let Message::SidrRep(response) = response.message else {
        panic!("{response:?}");
    };
    let expected = SidrRep {
        request_id: request.request_id,
        status: SidrStatus::SUCCESS,
        qpn: Qpn::new(0x21),
        service_id: request.service_id,
        q_key: QKey(0x0123_4567),
        ..SidrRep::default()
    };
    assert_eq!(response, expected);
}

/// Asserts that fields have the positions of an IBTA table: (name, byte, bit in it, width).
fn assert_fields(fields: &[(&str, usize)], table: &[(&str, usize, usize, usize)]) {
    let mut at = 0;
    let mut found = Vec::new();
    for (name, width) in fields {
        found.push((*name, at / 8, at % 8, *width));
        at += width;
    }
    for row in table {
        assert!(found.contains(row), "{row:?} is not in {found:#?}");
    }
    let named = |name: &&str| !name.starts_with("reserved") && !name.starts_with("vendor_id");
    let names = found.iter().filter(|(name, ..)| named(name)).count();
    assert_eq!(names, table.len(), "{found:#?}");
}

#[test]
#[rustfmt::skip]
fn fields_of_connection_establishment_lie_where_the_tables_have_them() {
    assert_fields(Req::FIELDS, &[
        ("local_communication_id", 0, 0, 32), ("service_id", 8, 0, 64),
        ("local_ca_guid", 16, 0, 64), ("local_q_key", 28, 0, 32), ("local_qpn", 32, 0, 24),
        ("responder_resources", 35, 0, 8), ("local_eecn", 36, 0, 24),
        ("initiator_depth", 39, 0, 8), ("remote_eecn", 40, 0, 24),
        ("remote_cm_response_timeout", 43, 0, 5), ("transport_service_type", 43, 5, 2),
        ("end_to_end_flow_control", 43, 7, 1), ("starting_psn", 44, 0, 24),
        ("local_cm_response_timeout", 47, 0, 5), ("retry_count", 47, 5, 3),
        ("partition_key", 48, 0, 16), ("path_packet_payload_mtu", 50, 0, 4),
        ("rdc_exists", 50, 4, 1), ("rnr_retry_count", 50, 5, 3), ("max_cm_retries", 51, 0, 4),
        ("srq", 51, 4, 1), ("extended_transport_type", 51, 5, 3), ("primary", 52, 0, 352),
        ("alternate", 96, 0, 352), ("private_data", 140, 0, 736),
    ]);
    // Offsets from the start of the path, which is byte 52 of the message.
    assert_fields(ReqPath::FIELDS, &[
        ("local_port_lid", 0, 0, 16), ("remote_port_lid", 2, 0, 16),
        ("local_port_gid", 4, 0, 128), ("remote_port_gid", 20, 0, 128),
        ("flow_label", 36, 0, 20), ("packet_rate", 39, 2, 6), ("traffic_class", 40, 0, 8),
        ("hop_limit", 41, 0, 8), ("sl", 42, 0, 4), ("subnet_local", 42, 4, 1),
        ("local_ack_timeout", 43, 0, 5),
    ]);
    assert_fields(Rep::FIELDS, &[
        ("local_communication_id", 0, 0, 32), ("remote_communication_id", 4, 0, 32),
        ("local_q_key", 8, 0, 32), ("local_qpn", 12, 0, 24),
        ("local_ee_context_number", 16, 0, 24), ("starting_psn", 20, 0, 24),
        ("responder_resources", 24, 0, 8), ("initiator_depth", 25, 0, 8),
        ("target_ack_delay", 26, 0, 5), ("failover_accepted", 26, 5, 2),
        ("end_to_end_flow_control", 26, 7, 1), ("rnr_retry_count", 27, 0, 3), ("srq", 27, 3, 1),
        ("local_ca_guid", 28, 0, 64), ("private_data", 36, 0, 1568),
    ]);
}

#[test]
#[rustfmt::skip]
fn fields_of_other_messages_lie_where_the_tables_have_them() {
    let ids = [("local_communication_id", 0, 0, 32), ("remote_communication_id", 4, 0, 32)];
    let with_ids = |rest: &[(&'static str, usize, usize, usize)]| [&ids[..], rest].concat();
    assert_fields(Rtu::FIELDS, &with_ids(&[("private_data", 8, 0, 1792)]));
    assert_fields(Drep::FIELDS, &with_ids(&[("private_data", 8, 0, 1792)]));
    assert_fields(Dreq::FIELDS, &with_ids(&[
        ("remote_qpn_eecn", 8, 0, 24), ("private_data", 12, 0, 1760),
    ]));
    assert_fields(Mra::FIELDS, &with_ids(&[
        ("message_mraed", 8, 0, 2), ("service_timeout", 9, 0, 5), ("private_data", 10, 0, 1776),
    ]));
    assert_fields(Rej::FIELDS, &with_ids(&[
        ("message_rejected", 8, 0, 2), ("reject_info_length", 9, 0, 7), ("reason", 10, 0, 16),
        ("additional_reject_information", 12, 0, 576), ("private_data", 84, 0, 1184),
    ]));
    assert_fields(Lap::FIELDS, &with_ids(&[
        ("remote_qpn_eecn", 12, 0, 24), ("remote_cm_response_timeout", 15, 0, 5),
        ("alternate_local_port_lid", 20, 0, 16), ("alternate_remote_port_lid", 22, 0, 16),
        ("alternate_local_port_gid", 24, 0, 128), ("alternate_remote_port_gid", 40, 0, 128),
        ("alternate_flow_label", 56, 0, 20), ("alternate_traffic_class", 59, 0, 8),
        ("alternate_hop_limit", 60, 0, 8), ("alternate_packet_rate", 61, 2, 6),
        ("alternate_sl", 62, 0, 4), ("alternate_subnet_local", 62, 4, 1),
        ("alternate_local_ack_timeout", 63, 0, 5), ("private_data", 64, 0, 1344),
    ]));
    assert_fields(Apr::FIELDS, &with_ids(&[
        ("additional_information_length", 8, 0, 8), ("ar_status", 9, 0, 8),
        ("additional_information", 12, 0, 576), ("private_data", 84, 0, 1184),
    ]));
    assert_fields(SidrReq::FIELDS, &[
        ("request_id", 0, 0, 32), ("partition_key", 4, 0, 16), ("service_id", 8, 0, 64),
        ("private_data", 16, 0, 1728),
    ]);
    assert_fields(SidrRep::FIELDS, &[
        ("request_id", 0, 0, 32), ("status", 4, 0, 8),
        ("additional_information_length", 5, 0, 8), ("qpn", 8, 0, 24), ("service_id", 12, 0, 64),
        ("q_key", 20, 0, 32), ("additional_information", 24, 0, 576),
        ("private_data", 96, 0, 1088),
    ]);
    assert_fields(MadHeader::FIELDS, &[
        ("base_version", 0, 0, 8), ("mgmt_class", 1, 0, 8), ("class_version", 2, 0, 8),
        ("response", 3, 0, 1), ("method", 3, 1, 7), ("status", 4, 0, 16),
        ("class_specific", 6, 0, 16), ("transaction_id", 8, 0, 64), ("attribute_id", 16, 0, 16),
        ("attribute_modifier", 20, 0, 32),
    ]);
    assert_fields(IpCmHeader::FIELDS, &[
        ("major_version", 0, 0, 4), ("minor_version", 0, 4, 4), ("ip_version", 1, 0, 4),
        ("source_port", 2, 0, 16), ("source_ip_address", 4, 0, 128),
        ("destination_ip_address", 20, 0, 128),
    ]);
}

#[test]
fn what_is_no_message_is_refused_by_its_first_wrong_field() {
    let good = datagrams("rping_cm").remove(0);
    let refused = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        Mad::parse(&bytes).unwrap_err()
    };
    assert_eq!(refused(0, 2), MadError::BaseVersion(2));
    assert_eq!(refused(1, 3), MadError::Class(3));
    assert_eq!(refused(2, 1), MadError::ClassVersion(1));
    assert_eq!(refused(3, 0x83), MadError::Method(0x83));
    assert_eq!(refused(3, 0x01), MadError::Method(0x01));
    assert_eq!(refused(17, 0x1b), MadError::Attribute(0x1b));
    assert_eq!(Mad::parse(&good[..255]), Err(MadError::Length(255)));
    let short = Error::Truncated {
        header: "Req",
        needed: 232,
        available: 231,
    };
    assert_eq!(Req::parse(&[0; 231]), Err(short));
}

#[test]
fn addresses_of_the_ip_service() {
    let v6 = [Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED].map(IpAddr::V6);
    let header = IpCmHeader::new(v6[0], 1, v6[1]);
    assert_eq!((header.ip_version, header.source_port), (6, 1));
    assert_eq!(header.addresses(), Some((v6[0], v6[1])));
    let of_ip_version_5 = IpCmHeader {
        ip_version: 5,
        ..header
    };
    assert_eq!(of_ip_version_5.addresses(), None);
    let of_version_1 = IpCmHeader {
        major_version: 1,
        ..header
    };
    assert_eq!(of_version_1.addresses(), None);
    assert_eq!(ServiceId::ip(6, 7174), ServiceId(0x0000_0000_0106_1c06));
    assert_eq!(ServiceId(0x0106_1c06).to_ip(), Some((6, 7174)));
    assert_eq!(ServiceId(0x1_0106_1c06).to_ip(), None);
}

#[test]
fn names_and_times() {
    for kind in MessageKind::ALL {
        assert_eq!(MessageKind::from_attribute(*kind as u16), Some(*kind));
    }
    assert_eq!(MessageKind::from_attribute(0x0f), None);
    assert_eq!(CmTimeout::new(20).as_ns(), 4_294_967_296);
    assert_eq!(CmTimeout::new(0xff).code(), 31);
    assert_eq!(PrivateData::<4>::from_slice(&[1; 5]), None);
    let reason = RejectReason::INVALID_SERVICE_ID;
    assert_eq!(reason.to_string(), "invalid service ID (8)");
    assert_eq!(RejectReason(999).to_string(), "reason 999");
}

proptest! {
    #[test]
    fn no_bytes_panic_and_accepted_bytes_are_kept(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = Mad::parse(&bytes);
        let _ = IpCmHeader::parse(&bytes);
        let _ = ReqPath::parse(&bytes);
    }

    #[test]
    fn every_bit_of_a_message_is_kept(
        body in proptest::collection::vec(any::<u8>(), 256),
        attribute in 0x10u8..0x1b,
    ) {
        let mut bytes = body;
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[16..18].copy_from_slice(&[0, attribute]);
        let mad = Mad::parse(&bytes);
        prop_assert!(mad.is_ok(), "{:?}", mad);
        prop_assert_eq!(mad.unwrap().to_bytes().to_vec(), bytes);
    }

    #[test]
    fn every_bit_of_the_ip_header_is_kept(bytes: [[u8; 18]; 2]) {
        let bytes = bytes.concat();
        let mut emitted = [0xaa; IpCmHeader::LENGTH];
        IpCmHeader::parse(&bytes).unwrap().emit(&mut emitted);
        prop_assert_eq!(emitted.to_vec(), bytes);
    }
}

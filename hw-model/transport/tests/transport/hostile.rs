//! Any input in any state: no panic, no endless output, and `has_transmit` is right.

use crate::pair::script::{FETCH_ADD, READ, SEND, WRITE, request};
use crate::pair::{Q_KEY, Setup, bring_up, destination};
use ferroce_transport::{
    AckTimeouts, AdaptiveTimer, CompletionStatus, Config, ConnectxSchedule, Destination, LocalKind,
    MAX_OUTSTANDING_SEND_REQUESTS, MemoryAnswer, Qp, Recovery, RecoveryMode, SendOperation,
    SendRequest, Service, Step, Transition,
};
use ferroce_units::{Duration, Instant};
use ferroce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Extension, Feth, FlushRange, Ieth, Immediate, Msn,
    Opcode, OpcodeProperties, Operation, PKey, Psn, QKey, Qpn, RKey, RequestExtension, Reth,
    Syndrome, Transport, TransportHeaders, XrcEth,
};
use proptest::prelude::*;

/// An input of a queue pair.
#[derive(Debug, Clone)]
enum Input {
    /// A packet: opcode, PSN near the expected one of a direction, extension, flags, payload
    /// length, and the results of its memory operations.
    Packet {
        headers: TransportHeaders,
        payload_length: u32,
        answers: Vec<u8>,
    },
    Post {
        kind: u8,
        length: u32,
        fence: bool,
    },
    Transmit {
        count: u8,
        fail: bool,
    },
    Wait {
        us: u64,
    },
    Modify {
        which: u8,
    },
    Flush,
    /// The next local operation succeeds or fails.
    Local {
        fail: bool,
    },
    Answer {
        answer: u8,
    },
}

fn psn() -> impl Strategy<Value = Psn> {
    prop_oneof![
        8 => (0u32..12).prop_map(|near| Setup::default().psn[0].add(near).sub(3)),
        8 => (0u32..12).prop_map(|near| Setup::default().psn[1].add(near).sub(3)),
        1 => any::<u32>().prop_map(Psn::new),
    ]
}

fn feth() -> impl Strategy<Value = Feth> {
    any::<[u8; 4]>().prop_map(|bytes| Feth::parse(&bytes).expect("four bytes"))
}

fn reth() -> impl Strategy<Value = Reth> {
    let length = prop_oneof![Just(0u32), 1u32..2000, any::<u32>()];
    (any::<u64>(), any::<u32>(), length).prop_map(|(virtual_address, r_key, dma_length)| Reth {
        virtual_address,
        r_key: RKey(r_key),
        dma_length,
    })
}

fn q_key() -> impl Strategy<Value = QKey> {
    prop_oneof![4 => Just(Q_KEY), 1 => any::<u32>().prop_map(QKey)]
}

fn aeth() -> impl Strategy<Value = Aeth> {
    (any::<u8>(), any::<u32>()).prop_map(|(syndrome, msn)| Aeth {
        syndrome: Syndrome::from_byte(syndrome),
        msn: Msn::new(msn),
    })
}

fn extension() -> impl Strategy<Value = Extension> {
    let atomic = AtomicEth {
        virtual_address: 0,
        r_key: RKey(0),
        swap_or_add: 1,
        compare: 2,
    };
    prop_oneof![
        4 => Just(Extension::None),
        4 => reth().prop_map(Extension::Reth),
        2 => reth().prop_map(|reth| Extension::RethImmediate(reth, Immediate([1; 4]))),
        2 => Just(Extension::Immediate(Immediate([2; 4]))),
        4 => aeth().prop_map(Extension::Aeth),
        1 => Just(Extension::AtomicEth(atomic)),
        1 => aeth().prop_map(|aeth| Extension::AtomicAck(aeth, AtomicAckEth { original: 7 })),
        1 => Just(Extension::Invalidate(Ieth { r_key: RKey(3) })),
        1 => (feth(), reth()).prop_map(|(feth, reth)| Extension::Flush(feth, reth)),
        1 => Just(Extension::Cnp([0; 16])),
        1 => q_key().prop_map(|key| Extension::Deth(Deth::new(key, Qpn::new(3)))),
        1 => Just(Extension::Xrc(XrcEth::new(7), RequestExtension::None)),
    ]
}

/// Returns the extension that belongs to an opcode.
fn fitting(known: OpcodeProperties, reth: Reth, aeth: Aeth) -> Extension {
    let immediate = Immediate([3; 4]);
    let atomic = AtomicEth {
        virtual_address: reth.virtual_address & !7,
        r_key: reth.r_key,
        swap_or_add: 1,
        compare: 2,
    };
    let plain = match (known.has_reth(), known.has_immediate()) {
        _ if known.operation == Operation::Flush => {
            RequestExtension::Flush(Feth::new(&[Feth::GLOBAL], FlushRange::Range), reth)
        }
        (true, true) => RequestExtension::RethImmediate(reth, immediate),
        (true, false) => RequestExtension::Reth(reth),
        (false, true) => RequestExtension::Immediate(immediate),
        _ if known.has_atomic_eth() => RequestExtension::AtomicEth(atomic),
        _ if known.operation == Operation::SendInvalidate => {
            RequestExtension::Invalidate(Ieth { r_key: reth.r_key })
        }
        _ => RequestExtension::None,
    };
    let deth = Deth::new(Q_KEY, Qpn::new(3));
    match known.transport {
        _ if known.has_atomic_ack_eth() => Extension::AtomicAck(aeth, AtomicAckEth { original: 7 }),
        _ if known.has_aeth() => Extension::Aeth(aeth),
        Transport::UnreliableDatagram if known.has_immediate() => {
            Extension::DethImmediate(deth, immediate)
        }
        Transport::UnreliableDatagram => Extension::Deth(deth),
        Transport::ExtendedReliableConnected if known.is_request() => {
            Extension::Xrc(XrcEth::new(reth.r_key.0 % 2), plain)
        }
        _ => plain.into(),
    }
}

/// Generates headers of any opcode, mostly with the matching extension.
fn headers() -> impl Strategy<Value = TransportHeaders> {
    // RC, UC, UD, XRC; the operation within the service is the same.
    let service = prop_oneof![3 => Just(0u8), 1 => Just(0x20), 1 => Just(0x60), 1 => Just(0xa0)];
    let opcode = prop_oneof![
        12 => (0u8..0x18, service).prop_map(|(operation, service)| operation | service),
        1 => any::<u8>()
    ];
    let reserved = prop_oneof![4 => Just(0x60u8), 1 => any::<u8>()];
    let flags = (any::<bool>(), any::<bool>(), 0u8..40, reserved);
    (opcode, psn(), extension(), reth(), aeth(), flags).prop_map(
        |(opcode, psn, extension, reth, aeth, (ack, solicited, odd, reserved))| {
            let mut bth = Bth::new(Opcode(opcode), Qpn::new(0x11), psn);
            bth.ack_request = ack;
            bth.solicited = solicited;
            bth.reserved7 = reserved & 0x7f;
            bth.p_key = if odd == 1 { PKey(1) } else { PKey::DEFAULT };
            bth.header_version = u8::from(odd == 2);
            let fitting = match bth.opcode.parse() {
                Some(known) if odd > 3 => fitting(known, reth, aeth),
                _ => extension,
            };
            TransportHeaders {
                bth,
                extension: fitting,
            }
        },
    )
}

fn input() -> impl Strategy<Value = Input> {
    let length = prop_oneof![6 => Just(256u32), 3 => 0u32..600, 1 => any::<u32>()];
    let answers = proptest::collection::vec(any::<u8>(), 0..6);
    let request_length = prop_oneof![4 => 0u32..2000, 1 => any::<u32>()];
    prop_oneof![
        12 => (headers(), length, answers).prop_map(|(headers, payload_length, answers)| {
            Input::Packet { headers, payload_length, answers }
        }),
        4 => (any::<u8>(), request_length, any::<bool>())
            .prop_map(|(kind, length, fence)| Input::Post { kind, length, fence }),
        6 => (0u8..20, proptest::bool::weighted(0.1))
            .prop_map(|(count, fail)| Input::Transmit { count, fail }),
        2 => (0u64..200).prop_map(|us| Input::Wait { us }),
        2 => any::<u8>().prop_map(|which| Input::Modify { which }),
        1 => Just(Input::Flush),
        2 => proptest::bool::weighted(0.1).prop_map(|fail| Input::Local { fail }),
        1 => any::<u8>().prop_map(|answer| Input::Answer { answer }),
    ]
}

fn answer(choice: u8) -> MemoryAnswer {
    match choice % 12 {
        0 => MemoryAnswer::Invalid,
        1 => MemoryAnswer::NoReceive,
        2 => MemoryAnswer::Failed,
        3 => MemoryAnswer::ReceiveError,
        4 | 5 => MemoryAnswer::Receive {
            id: 1,
            capacity: u32::from(choice) * 40,
        },
        6 | 7 => MemoryAnswer::Valid,
        8 => MemoryAnswer::Atomic(u64::from(choice)),
        9 => MemoryAnswer::NotPresent,
        _ => MemoryAnswer::Done,
    }
}

/// Returns a result that lets the packet proceed, in most cases.
fn fitting_answer(step: Step, choice: u8) -> MemoryAnswer {
    use ferroce_transport::MemoryOp;
    match step {
        Step::Memory(MemoryOp::Validate { .. }) if choice >= 20 => MemoryAnswer::Valid,
        Step::Memory(MemoryOp::Atomic { .. }) if choice >= 10 => MemoryAnswer::Atomic(3),
        Step::Memory(MemoryOp::TakeReceive | MemoryOp::TakeShared { .. }) if choice >= 60 => {
            MemoryAnswer::Receive {
                id: 1,
                capacity: 1000,
            }
        }
        Step::Memory(_) if choice >= 10 => MemoryAnswer::Done,
        _ => answer(choice),
    }
}

fn play(qp: &mut Qp, now: &mut Instant, setup: &Setup, recovery: &Recovery, input: &Input) {
    match input {
        Input::Packet {
            headers,
            payload_length,
            answers,
        } => {
            let mut step = qp.handle_packet(*now, headers, *payload_length);
            let mut answers = answers.iter();
            let mut asked = 0;
            while let Step::Memory(_) = step {
                let choice = answers.next().copied().unwrap_or(99);
                step = qp.handle_memory(*now, fitting_answer(step, choice));
                asked += 1;
                assert!(asked <= 3, "a packet needs three operations at most");
            }
            let choice = answers.next().copied().unwrap_or(99);
            match step {
                Step::Hold if choice < 100 => qp.drop_held(headers.bth.psn),
                Step::Arrivals => qp.handle_arrivals(*now, &[choice; 9]),
                _ => {}
            }
            let held = std::iter::from_fn(|| qp.take_held()).count();
            assert!(held <= 1, "the one that is expected");
        }
        Input::Post {
            kind,
            length,
            fence,
        } => {
            if qp.can_accept_send() {
                let operations = [
                    SEND,
                    WRITE,
                    READ,
                    FETCH_ADD,
                    SendOperation::SendInvalidate(RKey(1)),
                    SendOperation::Local(LocalKind::Bind),
                    SendOperation::Local(LocalKind::Invalidate),
                ];
                let operation = operations[usize::from(*kind) % operations.len()];
                let request = request(u32::from(*kind), operation, *length);
                qp.post_send(
                    *now,
                    SendRequest {
                        fence: *fence,
                        signaled: *kind > 99,
                        destination: if *kind % 17 == 0 {
                            Destination::Connected
                        } else {
                            destination(setup, 0)
                        },
                        ..request
                    },
                );
            }
        }
        Input::Transmit { count, fail } => transmit(qp, *now, *count, *fail),
        Input::Wait { us } => {
            *now += Duration::from_us(*us);
            qp.handle_timeout(*now);
        }
        Input::Modify { which } => {
            let [init, rtr, rts] = bring_up(setup, 0);
            let transition = match which % 12 {
                0 => Transition::Reset,
                1 => init,
                2 | 3 => rtr,
                4 | 5 => rts,
                6 | 7 => Transition::Drain {
                    notify: which % 2 == 0,
                },
                8 | 9 => Transition::Resume(Default::default()),
                10 => Transition::Update(Default::default()),
                _ => Transition::Err,
            };
            let _ = qp.modify(*now, transition);
            if matches!(transition, Transition::Reset) && *which > 100 {
                qp.set_recovery(recovery);
            }
        }
        Input::Flush => qp.flush_acknowledge(),
        Input::Local { fail } => {
            let promised = qp.has_local();
            let local = qp.poll_local();
            assert_eq!(promised, local.is_some());
            let result = if *fail {
                Err(CompletionStatus::WindowBind)
            } else {
                Ok(())
            };
            qp.finish_local(*now, local.unwrap_or(3), result);
        }
        Input::Answer { answer: choice } => {
            assert_eq!(qp.handle_memory(*now, answer(*choice)), Step::Done);
        }
    }
}

fn transmit(qp: &mut Qp, now: Instant, count: u8, fail: bool) {
    use ferroce_transport::Payload;
    for _ in 0..count {
        let promised = qp.has_transmit();
        let packet = qp.poll_transmit(now);
        assert_eq!(promised, packet.is_some());
        let Some(packet) = packet else { break };
        assert!(packet.headers.is_legal());
        if fail {
            match packet.payload {
                Payload::Request { request, .. } => {
                    qp.fail_send(now, request, CompletionStatus::LocalProtection);
                }
                Payload::ReadResponse { .. } => {
                    qp.fail_read_response(now, packet.headers.bth.psn);
                }
                Payload::Arrivals { missing, length } => {
                    qp.write_arrivals(missing, &mut vec![0; length as usize]);
                }
                Payload::None => {}
            }
        } else if let Some(request) = packet.request {
            qp.packet_left(now, request);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(
        steps in 0usize..=3,
        coalesce in 1u32..5,
        delay_us in 0u64..3,
        window in 0u32..9,
        service in 0usize..5,
        mode in 0usize..4,
        inputs in proptest::collection::vec(input(), 0..60),
    ) {
        let config = Config {
            max_unacknowledged_packets: window,
            ack_request_interval: window,
            ack_coalesce: coalesce,
            ack_delay: Duration::from_us(delay_us),
            ..Config::default()
        };
        let service = [
            Service::ReliableConnected,
            Service::UnreliableConnected,
            Service::UnreliableDatagram,
            Service::XrcInitiator,
            Service::XrcTarget,
        ][service];
        let services = [service; 2];
        let setup = Setup { services, config, retry_count: 2, rnr_retry: 1, ..Setup::default() };
        let mut qp = Qp::new(Qpn::new(0x11), service, config);
        let recovery = Recovery {
            mode: [
                RecoveryMode::GoBackN,
                RecoveryMode::SelectiveRepeat,
                RecoveryMode::AdaptiveRouting,
                RecoveryMode::AdaptiveRouting,
            ][mode],
            reorder_time: Duration::from_us(mode as u64 / 2 * delay_us * 10),
            ack_timeouts: [
                AckTimeouts::Iba,
                AckTimeouts::Adaptive(AdaptiveTimer::DEFAULT),
                AckTimeouts::Connectx(ConnectxSchedule::Adaptive),
                AckTimeouts::Connectx(ConnectxSchedule::Unlimited),
            ][mode],
            seed: 1,
        };
        qp.set_recovery(&recovery);
        let mut now = Instant::ZERO;
        for transition in bring_up(&setup, 0).into_iter().take(steps) {
            qp.modify(now, transition).expect("the way up is legal");
        }
        for input in &inputs {
            play(&mut qp, &mut now, &setup, &recovery, input);
            prop_assert!(qp.outstanding_sends() <= MAX_OUTSTANDING_SEND_REQUESTS);
            prop_assert!(qp.next_timeout().is_none_or(|timeout| timeout > Instant::ZERO));
        }
        let completions = std::iter::from_fn(|| qp.poll_completion()).count();
        prop_assert!(completions <= 2 * inputs.len());
        while qp.poll_event().is_some() {}
    }
}

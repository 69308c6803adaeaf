//! Rules of the requester and completer, one script each.

use crate::pair::Setup;
use crate::pair::script::{READ, SEND, Script, WRITE, request};
use CompletionStatus::{Success, WrFlush};
use ferroce_transport::{
    CompletionStatus, Config, MAX_MESSAGE_LENGTH, MAX_OUTSTANDING_SEND_REQUESTS, MemoryAnswer,
    MemoryOp, Payload, QpState, SendRequest, Step,
};
use ferroce_units::Duration;
use ferroce_wire::{CreditCount, Extension, NakCode, Operation, Position, RnrTimer, Syndrome};

fn script() -> Script {
    Script::new(Setup::default())
}

fn with_config(config: Config) -> Script {
    Script::new(Setup {
        config,
        ..Setup::default()
    })
}

fn rnr(timer: u8) -> Syndrome {
    Syndrome::RnrNak {
        timer: RnrTimer::new(timer),
    }
}

fn credits(count: u32) -> Syndrome {
    Syndrome::Ack {
        credits: CreditCount::from_credits(count),
    }
}

#[test]
fn a_message_is_cut_at_the_path_mtu() {
    let mut s = script();
    s.post(7, WRITE, 600);
    let packets = s.transmit();
    let seen: Vec<_> = packets.iter().map(|packet| s.seen(packet)).collect();
    assert_eq!(
        seen,
        [
            (Operation::RdmaWrite, Position::First, 0, false, 256),
            (Operation::RdmaWrite, Position::Middle, 1, false, 256),
            (Operation::RdmaWrite, Position::Last, 2, true, 88),
        ]
    );
    assert_eq!(
        packets[1].payload,
        Payload::Request {
            request: 7,
            offset: 256,
            length: 256
        }
    );
    let Extension::Reth(reth) = packets[0].headers.extension else {
        panic!("First has a RETH")
    };
    assert_eq!((reth.virtual_address, reth.dma_length), (0x4000, 600));
    s.ack(2);
    assert_eq!(s.statuses(), [(7, Success)]);
    assert_eq!(s.qp.next_timeout(), None, "nothing is waited for");
}

#[test]
fn padding_and_flags_are_those_of_the_packet() {
    let mut s = script();
    s.post_request(SendRequest {
        solicited: true,
        ..request(1, SEND, 257)
    });
    s.post_request(SendRequest {
        solicited: true,
        ..request(2, WRITE, 3)
    });
    let packets = s.transmit();
    let flags: Vec<_> = packets
        .iter()
        .map(|packet| (packet.headers.bth.solicited, packet.headers.bth.pad_count))
        .collect();
    // A WRITE without immediate completes nothing at the peer, so it solicits nothing.
    assert_eq!(flags, [(false, 0), (true, 3), (false, 1)]);
}

#[test]
fn unsignaled_requests_complete_silently() {
    let mut s = script();
    for id in 0..3 {
        s.post_request(SendRequest {
            signaled: id == 2,
            ..request(id, WRITE, 8)
        });
    }
    let sent = s.sent();
    assert_eq!(
        sent.iter().map(|seen| seen.3).collect::<Vec<_>>(),
        [false, false, true]
    );
    s.ack(2);
    assert_eq!(s.statuses(), [(2, Success)]);
    assert_eq!(s.qp.outstanding_sends(), 0);
}

#[test]
fn one_ack_acknowledges_all_before_it_and_late_or_ghost_acks_nothing() {
    let mut s = script();
    for id in 0..4 {
        s.post(id, WRITE, 8);
    }
    s.sent();
    s.ack(9); // never sent
    assert_eq!(s.statuses(), []);
    s.ack(2);
    assert_eq!(s.statuses(), [(0, Success), (1, Success), (2, Success)]);
    s.ack(1);
    assert_eq!(s.statuses(), []);
    s.ack(3);
    assert_eq!(s.statuses(), [(3, Success)]);
}

#[test]
fn the_window_bounds_packets_in_flight_and_its_last_packet_asks() {
    let config = Config {
        max_unacknowledged_packets: 4,
        ack_request_interval: 100,
        ..Config::default()
    };
    let mut s = with_config(config);
    s.post(0, SEND, 256 * 6);
    let sent = s.sent();
    assert_eq!(sent.len(), 4);
    assert!(sent[3].3 && !sent[2].3);
    assert!(!s.qp.has_transmit());
    s.ack(1);
    assert_eq!(s.sent_psns(), [4, 5]);
}

#[test]
fn long_runs_ask_at_each_interval() {
    let config = Config {
        ack_request_interval: 3,
        ..Config::default()
    };
    let mut s = with_config(config);
    s.post(0, SEND, 256 * 8);
    let asked: Vec<_> = s
        .sent()
        .iter()
        .filter(|seen| seen.3)
        .map(|seen| seen.2)
        .collect();
    assert_eq!(asked, [2, 5, 7]);
}

#[test]
fn silence_is_retried_from_the_oldest_and_fails_after_retry_count() {
    let mut s = Script::new(Setup {
        retry_count: 2,
        timeout: 3,
        ..Setup::default()
    });
    for id in 0..3 {
        s.post(id, WRITE, 8);
    }
    assert_eq!(s.sent_psns(), [0, 1, 2]);
    s.ack(0);
    for _ in 0..2 {
        let before = s.now;
        s.expire();
        assert_eq!(s.now - before, Duration::from_ns(4096 << 3));
        assert_eq!(s.sent_psns(), [1, 2]);
    }
    s.completions();
    s.expire();
    assert_eq!(
        s.statuses(),
        [(1, CompletionStatus::RetryExceeded), (2, WrFlush)]
    );
    assert_eq!(s.qp.state(), QpState::Err);
    assert_eq!(s.qp.next_timeout(), None);
    s.post(9, SEND, 1);
    assert_eq!(s.statuses(), [(9, WrFlush)]);
}

/// A READ that is so long that all earlier PSNs must be acknowledged first waits for a WRITE that
/// requested no acknowledge, because the READ would have brought it.
#[test]
fn after_silence_the_first_packet_asks() {
    let mut s = script();
    s.post_request(SendRequest {
        signaled: false,
        ..request(0, WRITE, 8)
    });
    s.post(1, READ, 1 << 31);
    let asked: Vec<_> = s.sent().iter().map(|seen| (seen.2, seen.3)).collect();
    assert_eq!(asked, [(0, false)]);
    s.expire();
    let asked: Vec<_> = s.sent().iter().map(|seen| (seen.2, seen.3)).collect();
    assert_eq!(asked, [(0, true)]);
    s.ack(0);
    assert_eq!(s.sent_psns(), [1]);
}

#[test]
fn progress_gives_all_retries_back() {
    let mut s = Script::new(Setup {
        retry_count: 1,
        ..Setup::default()
    });
    s.post(0, WRITE, 256 * 4);
    for psn in 0..3 {
        s.sent();
        s.expire();
        s.sent();
        s.ack(psn);
    }
    assert_eq!(s.qp.state(), QpState::Rts);
}

#[test]
fn timeout_zero_waits_without_a_limit() {
    let mut s = Script::new(Setup {
        timeout: 0,
        ..Setup::default()
    });
    s.post(0, WRITE, 8);
    s.sent();
    assert_eq!(s.qp.next_timeout(), None);
}

#[test]
fn a_late_ack_after_going_back_is_believed() {
    let mut s = script();
    s.post(0, WRITE, 256 * 6);
    s.post(1, WRITE, 8);
    assert_eq!(s.sent().len(), 7);
    s.expire();
    let first = s.qp.poll_transmit(s.now).expect("the pass begins again");
    assert_eq!(s.seen(&first).2, 0);
    s.ack(3); // of the first pass
    assert_eq!(
        s.sent_psns(),
        [4, 5, 6],
        "what is acknowledged is not sent again"
    );
    s.ack(6);
    assert_eq!(s.statuses(), [(0, Success), (1, Success)]);
}

#[test]
fn a_sequence_nak_acknowledges_before_it_and_goes_back_once() {
    let mut s = script();
    for id in 0..4 {
        s.post(id, WRITE, 8);
    }
    s.sent();
    s.nak(2, NakCode::PsnSequenceError);
    assert_eq!(s.statuses(), [(0, Success), (1, Success)]);
    s.nak(2, NakCode::PsnSequenceError); // the same again before anything was sent
    assert_eq!(s.sent_psns(), [2, 3]);
    s.ack(3);
    assert_eq!(s.statuses(), [(2, Success), (3, Success)]);
}

#[test]
fn sequence_naks_spend_retries() {
    let mut s = Script::new(Setup {
        retry_count: 1,
        ..Setup::default()
    });
    s.post(0, WRITE, 8);
    s.sent();
    s.nak(0, NakCode::PsnSequenceError);
    s.sent();
    s.nak(0, NakCode::PsnSequenceError);
    assert_eq!(s.statuses(), [(0, CompletionStatus::RetryExceeded)]);
}

#[test]
fn rnr_nak_waits_and_tries_again() {
    let mut s = Script::new(Setup {
        rnr_retry: 2,
        ..Setup::default()
    });
    s.post(0, SEND, 8);
    s.post(1, SEND, 8);
    for _ in 0..2 {
        assert_eq!(s.sent_psns(), [0, 1]);
        s.syndrome(0, rnr(3));
        s.syndrome(0, rnr(3)); // a duplicate counts once
        assert!(!s.qp.has_transmit(), "backs off");
        let before = s.now;
        s.expire();
        assert_eq!(s.now - before, Duration::from_us(30));
    }
    assert_eq!(s.sent_psns(), [0, 1]);
    s.syndrome(0, rnr(3));
    assert_eq!(
        s.statuses(),
        [(0, CompletionStatus::RnrRetryExceeded), (1, WrFlush)]
    );
}

#[test]
fn rnr_retry_seven_never_ends() {
    let mut s = Script::new(Setup {
        rnr_retry: 7,
        retry_count: 0,
        ..Setup::default()
    });
    s.post(0, SEND, 8);
    for _ in 0..50 {
        assert_eq!(s.sent_psns(), [0]);
        s.syndrome(0, rnr(1));
        s.expire();
    }
    assert_eq!(s.qp.state(), QpState::Rts);
}

#[test]
fn an_ack_ends_the_rnr_backoff() {
    let mut s = script();
    s.post(0, SEND, 8);
    s.sent();
    s.syndrome(0, rnr(31));
    s.ack(0); // the first pass was accepted after all
    assert_eq!(s.statuses(), [(0, Success)]);
    s.post(1, SEND, 8);
    assert_eq!(s.sent_psns(), [1]);
}

#[test]
fn fatal_naks_name_the_culprit() {
    let cases = [
        (
            NakCode::InvalidRequest,
            CompletionStatus::RemoteInvalidRequest,
        ),
        (NakCode::RemoteAccessError, CompletionStatus::RemoteAccess),
        (
            NakCode::RemoteOperationalError,
            CompletionStatus::RemoteOperation,
        ),
        (NakCode::Other(9), CompletionStatus::BadResponse),
    ];
    for (code, status) in cases {
        let mut s = script();
        for id in 0..4 {
            s.post_request(request(id, WRITE, 8));
        }
        s.sent();
        s.nak(2, code);
        // Unsignaled requests complete too when they fail.
        assert_eq!(s.statuses(), [(2, status), (3, WrFlush)]);
        assert_eq!(s.qp.state(), QpState::Err);
        assert!(!s.qp.has_transmit());
    }
}

#[test]
fn a_read_is_answered_packet_by_packet() {
    let mut s = script();
    s.post(3, READ, 600);
    assert_eq!(
        s.sent(),
        [(Operation::RdmaReadRequest, Position::Only, 0, true, 0)]
    );
    assert_eq!(
        s.qp.next_send_psn(),
        s.send_psn(3),
        "a READ owns the PSNs of its responses"
    );
    let step = s.read_response(0, Position::First, 256);
    let write = MemoryOp::WriteReadResponse {
        request: 3,
        offset: 0,
        length: 256,
    };
    assert_eq!(step, Step::Memory(write));
    assert_eq!(s.answer(MemoryAnswer::Done), Step::Done);
    s.good_read_response(1, Position::Middle, 256);
    assert_eq!(s.statuses(), []);
    s.good_read_response(2, Position::Last, 88);
    assert_eq!(s.statuses(), [(3, Success)]);
}

#[test]
fn a_read_of_nothing_needs_no_memory() {
    let mut s = script();
    s.post(3, READ, 0);
    s.sent();
    assert_eq!(s.read_response(0, Position::Only, 0), Step::Done);
    assert_eq!(s.statuses(), [(3, Success)]);
}

#[test]
fn a_lost_read_response_is_asked_for_from_the_gap_on() {
    let mut s = script();
    s.post(0, READ, 256 * 4);
    s.post(1, WRITE, 8);
    s.sent();
    s.good_read_response(0, Position::First, 256);
    // 1 is lost; 2 and 3 imply its NAK, once.
    assert_eq!(s.read_response(2, Position::Middle, 256), Step::Done);
    assert_eq!(s.read_response(3, Position::Last, 256), Step::Done);
    let packets = s.transmit();
    let seen: Vec<_> = packets.iter().map(|packet| s.seen(packet)).collect();
    assert_eq!(
        seen[0],
        (Operation::RdmaReadRequest, Position::Only, 1, true, 0)
    );
    assert_eq!(seen[1].2, 4);
    let Extension::Reth(reth) = packets[0].headers.extension else {
        panic!("a RETH")
    };
    assert_eq!(
        (reth.virtual_address, reth.dma_length),
        (0x4000 + 256, 256 * 3)
    );
    s.good_read_response(1, Position::First, 256);
    s.good_read_response(2, Position::Middle, 256);
    s.good_read_response(3, Position::Last, 256);
    s.ack(4);
    assert_eq!(s.statuses(), [(0, Success), (1, Success)]);
}

#[test]
fn an_ack_beyond_a_read_without_data_implies_a_nak() {
    let mut s = script();
    s.post(0, READ, 8);
    s.post(1, WRITE, 8);
    s.sent();
    s.ack(1);
    assert_eq!(s.statuses(), []);
    assert_eq!(s.sent_psns(), [0, 1]);
}

#[test]
fn a_read_response_acknowledges_what_is_before_it() {
    let mut s = script();
    s.post_request(request(0, WRITE, 8));
    s.post(1, READ, 8);
    s.sent();
    s.good_read_response(1, Position::Only, 8);
    assert_eq!(s.statuses(), [(1, Success)]);
}

#[test]
fn read_responses_of_the_wrong_size_or_place_are_bad() {
    for (position, length) in [
        (Position::Only, 256),
        (Position::First, 255),
        (Position::Last, 256),
        (Position::First, 0),
    ] {
        let mut s = script();
        s.post(0, READ, 300);
        s.sent();
        assert_eq!(s.read_response(0, position, length), Step::Done);
        assert_eq!(s.statuses(), [(0, CompletionStatus::BadResponse)]);
        assert_eq!(s.qp.state(), QpState::Err);
    }
}

#[test]
fn a_read_response_that_cannot_be_written_is_a_local_fault() {
    let mut s = script();
    s.post(0, READ, 8);
    s.post(1, SEND, 8);
    s.sent();
    assert!(matches!(
        s.read_response(0, Position::Only, 8),
        Step::Memory(_)
    ));
    assert_eq!(s.answer(MemoryAnswer::Failed), Step::Done);
    assert_eq!(
        s.statuses(),
        [(0, CompletionStatus::LocalProtection), (1, WrFlush)]
    );
}

#[test]
fn reads_in_flight_are_limited() {
    let mut s = Script::new(Setup {
        max_rd_atomic: 2,
        ..Setup::default()
    });
    for id in 0..4 {
        s.post(id, READ, 8);
    }
    assert_eq!(s.sent_psns(), [0, 1]);
    s.good_read_response(0, Position::Only, 8);
    assert_eq!(s.sent_psns(), [2]);
    s.expire();
    assert_eq!(s.sent_psns(), [1, 2], "the limit holds for a new pass too");
}

#[test]
fn a_read_without_any_allowed_fails_locally() {
    let mut s = Script::new(Setup {
        max_rd_atomic: 0,
        ..Setup::default()
    });
    s.post(0, WRITE, 8);
    s.post(1, READ, 8);
    assert_eq!(s.sent_psns(), [0]);
    assert_eq!(s.statuses(), []);
    s.ack(0);
    assert_eq!(
        s.statuses(),
        [(0, Success), (1, CompletionStatus::LocalQpOperation)]
    );
}

#[test]
fn a_fence_waits_for_reads_only() {
    let mut s = script();
    s.post(0, WRITE, 8);
    s.post_request(SendRequest {
        fence: true,
        ..request(1, WRITE, 8)
    });
    s.post(2, READ, 8);
    s.post_request(SendRequest {
        fence: true,
        ..request(3, WRITE, 8)
    });
    assert_eq!(s.sent_psns(), [0, 1, 2]);
    s.good_read_response(2, Position::Only, 8);
    assert_eq!(s.sent_psns(), [3]);
}

#[test]
fn messages_longer_than_two_gib_fail_locally() {
    let mut s = script();
    s.post(0, SEND, MAX_MESSAGE_LENGTH + 1);
    assert_eq!(s.statuses(), [(0, CompletionStatus::LocalLength)]);
    assert_eq!(s.qp.state(), QpState::Err);
}

#[test]
fn payload_that_cannot_be_gathered_fails_in_its_turn() {
    let mut s = script();
    for id in 0..4 {
        s.post_request(request(id, WRITE, 8));
    }
    s.transmit();
    s.qp.fail_send(s.now, 2, CompletionStatus::LocalProtection);
    s.qp.fail_send(s.now, 77, CompletionStatus::LocalProtection); // unknown
    assert_eq!(s.statuses(), []);
    // 0 and 1 are sent again, now requesting the acknowledge that no other packet would bring.
    assert_eq!(
        s.sent()
            .iter()
            .map(|seen| (seen.2, seen.3))
            .collect::<Vec<_>>(),
        [(0, false), (1, true)]
    );
    s.ack(1);
    assert_eq!(
        s.statuses(),
        [(2, CompletionStatus::LocalProtection), (3, WrFlush)]
    );
}

#[test]
fn payload_of_the_front_request_fails_at_once() {
    let mut s = script();
    s.post(0, WRITE, 600);
    s.post(1, WRITE, 600);
    let _ = s.qp.poll_transmit(s.now);
    s.qp.fail_send(s.now, 0, CompletionStatus::LocalProtection);
    assert_eq!(
        s.statuses(),
        [(0, CompletionStatus::LocalProtection), (1, WrFlush)]
    );
    assert!(!s.qp.has_transmit());
}

#[test]
fn credits_bound_sends_but_not_writes() {
    let mut s = script();
    s.post(0, SEND, 8);
    s.sent();
    s.syndrome_msn(0, credits(1), 1);
    for (id, operation) in (1..).zip([SEND, WRITE, SEND, WRITE]) {
        s.post(id, operation, 8);
    }
    // SSN 2 has a credit, 3 needs none, 4 must wait until nothing is in flight.
    assert_eq!(s.sent_psns(), [1, 2]);
    s.syndrome_msn(2, credits(0), 3);
    // There is still no credit for SSN 4, but now it may be sent alone.
    assert_eq!(
        s.sent()
            .iter()
            .map(|seen| (seen.2, seen.3))
            .collect::<Vec<_>>(),
        [(3, true), (4, true)]
    );
}

#[test]
fn a_long_send_without_credit_goes_packet_by_packet() {
    let mut s = script();
    s.post(0, WRITE, 8);
    s.sent();
    s.syndrome_msn(0, credits(0), 1);
    s.post(1, SEND, 600);
    for psn in 1..4 {
        assert_eq!(
            s.sent()
                .iter()
                .map(|seen| (seen.2, seen.3))
                .collect::<Vec<_>>(),
            [(psn, true)]
        );
        if psn < 3 {
            s.syndrome_msn(psn, credits(0), 1);
        }
    }
    s.syndrome_msn(3, Syndrome::ACK_UNLIMITED, 2);
    s.post(2, SEND, 600);
    assert_eq!(s.sent().len(), 3, "unlimited again");
}

#[test]
fn the_newest_ack_once_more_brings_credits() {
    let mut s = script();
    s.post(0, WRITE, 8);
    s.sent();
    s.syndrome_msn(0, credits(0), 1);
    s.post(1, SEND, 600);
    assert_eq!(s.sent_psns(), [1]);
    s.syndrome_msn(0, credits(2), 1);
    assert_eq!(s.sent_psns(), [2, 3]);
}

#[test]
fn the_send_queue_is_bounded() {
    let mut s = script();
    for id in 0..MAX_OUTSTANDING_SEND_REQUESTS {
        assert!(s.qp.can_accept_send());
        s.post(id as u32, WRITE, 8);
    }
    assert!(!s.qp.can_accept_send());
    s.sent();
    s.ack(0);
    assert!(s.qp.can_accept_send());
}

#[test]
fn two_gib_are_counted_packet_by_packet() {
    // At 256 bytes a message of 2 GiB takes half of all PSNs.
    let config = Config {
        max_unacknowledged_packets: 1 << 16,
        ..Config::default()
    };
    let mut s = with_config(config);
    s.post(0, WRITE, MAX_MESSAGE_LENGTH);
    s.post(1, READ, MAX_MESSAGE_LENGTH);
    s.post(2, SEND, 8);
    let packets = MAX_MESSAGE_LENGTH / 256;
    let mut sent = 0;
    while sent < packets {
        while let Some(packet) = s.qp.poll_transmit(s.now) {
            let seen = s.seen(&packet);
            assert_eq!(seen.2, sent);
            assert_eq!(
                packet.payload,
                Payload::Request {
                    request: 0,
                    offset: sent * 256,
                    length: 256
                }
            );
            sent += 1;
            if sent == packets {
                break;
            }
        }
        if sent < packets {
            s.ack(sent - 1);
        }
    }
    assert!(
        !s.qp.has_transmit(),
        "the READ would need more PSNs than half of the circle"
    );
    s.ack(packets - 1);
    assert_eq!(s.statuses(), [(0, Success)]);
    assert_eq!(s.sent_psns(), [packets]);
    for index in 0..packets {
        let position = Position::of(index, packets);
        s.good_read_response(packets + index, position, 256);
        if index == 0 {
            assert_eq!(s.sent_psns(), [(2 * packets) & 0xff_ffff]);
        }
    }
    assert_eq!(s.statuses(), [(1, Success)]);
    s.ack(0); // 2^24 packets after the first: the same PSN
    assert_eq!(s.statuses(), [(2, Success)]);
}

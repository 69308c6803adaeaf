//! Pushes: which work requests are pushed, and the data that the device gets, over an honest
//! device.

use std::sync::Arc;

use crate::support::HonestDevice;
use crate::support::verbs::{
    Setup, connect, cqe, poll, qp_config, segment, send_queue, setup_of, setup_with, write_request,
};
use ferroce_driver::{
    AddressVector, Destination, DeviceConfig, ModifyQp, Qpn, QueuePair, QueuePairConfig, SendData,
    SendOperation, SendRequest, Service,
};
use ferroce_spec::cqe::CqeOpcode;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::push::PushWindow;

/// Returns a device that accepts pushes of four blocks, and a connected QP with room for long WQEs.
fn connected() -> (Setup, Arc<QueuePair>) {
    let s = setup_of(HonestDevice::with_pushes(5, 5));
    let qp = large_qp(&s);
    (s, qp)
}

fn large_qp(s: &Setup) -> Arc<QueuePair> {
    let config = QueuePairConfig {
        max_send_wr: 8,
        max_inline_data: 240,
        ..qp_config(&s.cq, &s.cq)
    };
    let qp = QueuePair::create(&s.pd, &config).expect("within the limits");
    connect(&qp);
    qp
}

fn inline_write(qp: &QueuePair, length: usize) {
    let bytes: Vec<u8> = (0..length).map(|place| place as u8 ^ 0x5a).collect();
    let pieces: [&[u8]; 1] = [&bytes];
    let request = write_request(1, SendData::Inline(&pieces));
    send_queue(qp).lock().post(&request).expect("room");
}

fn slot_of(s: &Setup, qp: &QueuePair) -> u32 {
    s.fake
        .with_state(|state| state.qps[&qp.number().0].send_doorbell_slot)
}

/// Returns words of the send ring from block `index` on.
fn ring(s: &Setup, qp: &QueuePair, index: u32, words: usize) -> Vec<u64> {
    let base = s
        .fake
        .with_state(|state| state.qps[&qp.number().0].send_base);
    let from = base + 64 * u64::from(index);
    (0..words as u64)
        .map(|word| s.fake.memory.load(from + 8 * word).expect("mapped"))
        .collect()
}

/// Returns the words of the WQE in a push.
fn pushed_wqe(words: &[u64]) -> Vec<u64> {
    words
        .chunks(8)
        .flat_map(|block| &block[1..])
        .copied()
        .collect()
}

/// Completes the WQE at `index`.
fn complete(s: &Setup, qp: &QueuePair, index: u32) {
    let done = cqe(qp.number(), index, CqeOpcode::RDMA_WRITE);
    s.fake.complete(s.cq.number().0, done);
    assert_eq!(poll(&s.cq).len(), 1);
}

/// Goal: a poster can determine in advance whether the device will be notified by a push.
#[test]
fn push_is_foreseen() {
    let (s, qp) = connected();
    let foreseen = |length: usize| {
        let bytes = vec![7; length];
        let pieces: [&[u8]; 1] = [&bytes];
        let request = write_request(1, SendData::Inline(&pieces));
        let mut batch = send_queue(&qp).lock();
        batch.post(&request).expect("room");
        batch.push_blocks()
    };
    for (length, blocks) in [(1, 1), (76, 2), (188, 4), (220, 5)] {
        assert_eq!(foreseen(length), blocks, "{length} bytes");
        assert_eq!(s.fake.take_pushes()[0].1.len(), 8 * blocks);
    }
    assert_eq!(foreseen(221), 0, "too long");
    assert_eq!(s.fake.take_doorbells().len(), 1);
    assert_eq!(
        foreseen(1),
        0,
        "one that the device has to fetch is outstanding"
    );
    assert!(s.fake.take_pushes().is_empty());
}

/// Goal: a push carries the doorbell in each block, and the words of the WQE as in the ring.
#[test]
fn pushes_carry_the_wqe_of_the_ring() {
    let (s, qp) = connected();
    let window = PushWindow::of_slot(slot_of(&s, &qp));
    let mut index = 0;
    // Control, remote address and inline header take 36 bytes.
    for (turn, (length, blocks)) in [
        (1, 1),
        (20, 1),
        (21, 2),
        (76, 2),
        (77, 3),
        (188, 4),
        (220, 5),
    ]
    .into_iter()
    .enumerate()
    {
        inline_write(&qp, length);
        let pushes = s.fake.take_pushes();
        assert_eq!(pushes.len(), 1, "{length} bytes inline");
        assert!(s.fake.take_doorbells().is_empty());
        let (slot, words) = &pushes[0];
        assert_eq!(*slot, window.slot(turn % 2 == 1), "the halves take turns");
        assert_eq!(words.len(), 8 * blocks);
        let wqe_blocks = (36 + length).div_ceil(64) as u32;
        let doorbell = DoorbellValue::new(
            DoorbellKind::push(blocks),
            qp.number().0,
            index + wqe_blocks,
        );
        let wqe_words = (36 + length).div_ceil(8);
        let mut expected = ring(&s, &qp, index, wqe_words);
        expected.resize(7 * blocks, 0);
        for (block, payload) in words.chunks(8).zip(expected.chunks(7)) {
            assert_eq!(block[0], doorbell.bits());
            assert_eq!(&block[1..], payload);
        }
        complete(&s, &qp, index);
        index += wqe_blocks;
    }
    inline_write(&qp, 221);
    assert!(s.fake.take_pushes().is_empty(), "more than 256 bytes");
    assert_eq!(s.fake.take_doorbells().len(), 1);
}

#[test]
fn a_push_goes_around_the_end_of_the_ring() {
    let (s, qp) = connected();
    let ring_blocks = s
        .fake
        .with_state(|state| 1 << state.qps[&qp.number().0].shape.log_send_blocks());
    let mut index = 0;
    while index < ring_blocks - 1 {
        inline_write(&qp, 1);
        complete(&s, &qp, index);
        index += 1;
    }
    s.fake.take_pushes();
    inline_write(&qp, 100);
    let pushes = s.fake.take_pushes();
    let words = pushed_wqe(&pushes[0].1);
    assert_eq!(words[..8], ring(&s, &qp, index, 8));
    assert_eq!(words[8..17], ring(&s, &qp, 0, 9));
}

#[test]
fn lists_of_requests_are_not_pushed() {
    let (s, qp) = connected();
    let request = write_request(1, SendData::ScatterGather(&[]));
    let mut batch = send_queue(&qp).lock();
    batch.post(&request).expect("room");
    batch.post(&request).expect("room");
    drop(batch);
    assert!(s.fake.take_pushes().is_empty());
    let value = DoorbellValue::new(DoorbellKind::SEND_QUEUE, qp.number().0, 2);
    assert_eq!(s.fake.take_doorbells(), [(slot_of(&s, &qp), value.bits())]);
}

/// Goal: a WQE is not pushed after one that the device has to fetch, but may be pushed after pushed
/// ones.
#[test]
fn nothing_is_pushed_behind_what_must_be_fetched() {
    let (s, qp) = connected();
    for expected in 1..=2 {
        inline_write(&qp, 8);
        assert_eq!(s.fake.take_pushes().len(), 1, "push {expected}");
    }
    let request = write_request(1, SendData::ScatterGather(&[]));
    let mut batch = send_queue(&qp).lock();
    batch.post(&request).expect("room");
    batch.post(&request).expect("room");
    drop(batch);
    inline_write(&qp, 8);
    complete(&s, &qp, 3);
    inline_write(&qp, 8);
    assert!(s.fake.take_pushes().is_empty(), "index 4 is outstanding");
    complete(&s, &qp, 5);
    inline_write(&qp, 8);
    assert_eq!(s.fake.take_pushes().len(), 1);
    assert_eq!(s.fake.take_doorbells().len(), 3);
}

#[test]
fn an_aborted_request_is_not_pushed() {
    let (s, qp) = connected();
    let request = write_request(1, SendData::ScatterGather(&[]));
    let mut batch = send_queue(&qp).lock();
    batch.post(&request).expect("room");
    batch.abort();
    assert!(s.fake.take_pushes().is_empty());
    inline_write(&qp, 2);
    let pushes = s.fake.take_pushes();
    assert_eq!(pushes[0].1[1..5], ring(&s, &qp, 0, 4));
}

#[test]
fn after_a_reset_the_queue_is_idle() {
    let (s, qp) = connected();
    let request = write_request(1, SendData::ScatterGather(&[]));
    let mut batch = send_queue(&qp).lock();
    batch.post(&request).expect("room");
    batch.post(&request).expect("room");
    drop(batch);
    qp.modify(&ModifyQp::ToReset).expect("from any state");
    connect(&qp);
    inline_write(&qp, 2);
    let pushes = s.fake.take_pushes();
    let value = DoorbellValue::new(DoorbellKind::PUSH_1, qp.number().0, 1);
    assert_eq!(pushes[0].1[0], value.bits());
}

/// Goal: a push is as long as device and bus both allow, for any limits.
#[test]
fn the_longest_push_is_what_device_and_bus_have() {
    for (device, bus, expected) in [
        (0, 4, 0),
        (4, 0, 0),
        (1, 4, 1),
        (4, 2, 2),
        (4, 4, 4),
        (5, 4, 4),
        (200, u32::MAX, 5),
    ] {
        let s = setup_of(HonestDevice::with_pushes(device, bus));
        let qp = large_qp(&s);
        let mut longest = 0;
        let mut index = 0;
        for length in [20, 76, 132, 188, 220, 221] {
            inline_write(&qp, length);
            for (_, words) in s.fake.take_pushes() {
                longest = longest.max(words.len() / 8);
            }
            complete(&s, &qp, index);
            index += (36 + length as u32).div_ceil(64);
        }
        assert_eq!(longest, expected, "device {device}, bus {bus}");
    }
}

/// Goal: a poster that finds the window in use rings the doorbell.
#[test]
fn queues_that_share_a_window_do_not_wait_for_each_other() {
    let (s, first) = connected();
    // Slots are allocated in order; the window repeats after eight.
    let wanted = PushWindow::of_slot(slot_of(&s, &first));
    let others: Vec<_> = (0..8).map(|_| large_qp(&s)).collect();
    let second = others
        .iter()
        .find(|qp| PushWindow::of_slot(slot_of(&s, qp)) == wanted)
        .cloned()
        .expect("eight QPs have two slots each");
    let inner = Arc::clone(&second);
    *s.fake.before_doorbell.lock() = Some(Box::new(move || inline_write(&inner, 3)));
    inline_write(&first, 3);
    let pushes = s.fake.take_pushes();
    assert_eq!(pushes.len(), 1);
    let value = DoorbellValue::new(DoorbellKind::SEND_QUEUE, second.number().0, 1);
    assert_eq!(
        s.fake.take_doorbells(),
        [(slot_of(&s, &second), value.bits())]
    );
    inline_write(&first, 3);
    assert_eq!(s.fake.take_pushes()[0].0, wanted.slot(true));
}

#[test]
fn datagrams_are_pushed_too() {
    let s = setup_of(HonestDevice::with_pushes(5, 5));
    let config = QueuePairConfig {
        service: Service::UnreliableDatagram,
        max_inline_data: 64,
        ..qp_config(&s.cq, &s.cq)
    };
    let qp = QueuePair::create(&s.pd, &config).expect("small QP");
    qp.modify(&ModifyQp::ToErr)
        .expect("the fake device takes it");
    let path = AddressVector::default();
    let segments = [segment(40)];
    let request = SendRequest {
        operation: SendOperation::Send,
        destination: Destination::Datagram {
            path: &path,
            qpn: Qpn(0x77),
            q_key: 1,
        },
        ..write_request(1, SendData::ScatterGather(&segments))
    };
    send_queue(&qp).lock().post(&request).expect("fits");
    let pushes = s.fake.take_pushes();
    assert_eq!(pushes[0].1.len(), 16, "96 bytes");
    let words = pushed_wqe(&pushes[0].1);
    assert_eq!(words[..12], ring(&s, &qp, 0, 12));
}

/// Goal: pushes can be limited to inline payloads.
#[test]
fn inline_only_means_that_a_read_is_not_pushed() {
    let config = DeviceConfig {
        push_inline_only: true,
        ..DeviceConfig::default()
    };
    let s = setup_with(HonestDevice::with_pushes(5, 5), &config);
    let qp = large_qp(&s);
    let request = write_request(1, SendData::ScatterGather(&[]));
    send_queue(&qp).lock().post(&request).expect("room");
    assert!(s.fake.take_pushes().is_empty());
    complete(&s, &qp, 0);
    inline_write(&qp, 2);
    assert_eq!(s.fake.take_pushes().len(), 1);
    assert_eq!(s.fake.take_doorbells().len(), 1);
}

/// Goal: the device's limit is the maximum length of an inline payload.
#[test]
fn the_longest_inline_payload_is_the_devices() {
    let s = setup_of(HonestDevice::with_max_inline(220));
    assert_eq!(s.device.capabilities().max_inline_data, 220);
    let create = |max_inline_data| {
        let config = QueuePairConfig {
            max_inline_data,
            ..qp_config(&s.cq, &s.cq)
        };
        QueuePair::create(&s.pd, &config)
    };
    assert!(create(221).is_err());
    let qp = create(220).expect("within the limits");
    assert_eq!(qp.capacity().max_inline_data, 220);
}

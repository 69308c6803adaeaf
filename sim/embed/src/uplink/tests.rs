//! Wires between two functions, each on a separate fabric.

use std::net::UdpSocket;
use std::path::Path;

use ferroce_test_support::{TIMEOUT, TemporaryDirectory, eventually, temporary_directory};

use super::*;
use crate::fabric::registry::Identity;

/// A place on a separate fabric; the last byte of its addresses is `number`.
struct Here {
    place: Place,
    mac: Mac,
    gids: Vec<Gid>,
    clock: Clock,
    _directory: TemporaryDirectory,
}

impl Here {
    fn new(name: &str, number: u8) -> Self {
        let directory = temporary_directory(name);
        let mac = Mac([2, 0, 0, 0, 0, number]);
        let gids = vec![
            Gid::link_local(mac),
            Gid::from_ipv4([10, 0, 0, number].into()),
        ];
        let registry = Registry::open(directory.path()).expect("usable");
        let identity = Identity {
            host: name.to_owned(),
            device: 0,
            mac,
            gids: gids.clone(),
            capture: 0,
        };
        Self {
            place: registry.claim(&identity).expect("free"),
            mac,
            gids,
            clock: Clock::start(),
            _directory: directory,
        }
    }

    fn open(&self, spec: &str) -> Arc<Uplink> {
        self.try_open(spec).expect("it opens")
    }

    fn try_open(&self, spec: &str) -> Result<Arc<Uplink>, Error> {
        let spec = UplinkSpec::parse(spec).expect("legal").expect("a wire");
        Uplink::open(&spec, &self.place, self.mac, &self.clock)
    }

    fn counter(&self, counter: UplinkCounter) -> u64 {
        let registry = self.place.registry();
        let word = registry.uplink_counter(self.place.number(), counter);
        word.load(Ordering::Relaxed)
    }
}

/// Returns a RoCE frame with the headers that a wire inspects.
fn roce(from: &Here, to: &Here, number: u32) -> Vec<u8> {
    let mut frame = [&to.mac.0[..], &from.mac.0[..], &[0x08, 0x00]].concat();
    frame.extend([
        0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    frame.extend([0xc0, 0, 0x12, 0xb7, 0, 0, 0, 0]);
    frame.extend(number.to_be_bytes());
    frame
}

/// Sends a frame as the model does. Fails after a second without room.
fn send(uplink: &Uplink, frame: &[u8]) {
    eventually("room on the wire", TIMEOUT, || {
        match uplink.reserve(frame.len()) {
            Reservation::Ready(mut buffer) => {
                buffer.bytes_mut().copy_from_slice(frame);
                uplink.transmit(buffer);
                true
            }
            _ => false,
        }
    });
}

fn receive(uplink: &Uplink) -> Vec<u8> {
    let mut received = Vec::new();
    eventually("a frame", TIMEOUT, || {
        let frame = uplink.receive();
        if let Some(frame) = frame {
            received = frame.bytes().to_vec();
            uplink.release(frame);
        }
        !received.is_empty()
    });
    received
}

/// Checks that every kind of wire works once it is open at both ends.
fn carries(near: (&Here, &Uplink), far: (&Here, &Uplink)) {
    const FRAMES: u32 = 3000;
    for (from, to) in [(near, far), (far, near)] {
        for gid in &to.0.gids {
            assert_eq!(from.1.resolve_mac(*gid), Some(to.0.mac), "{gid}");
        }
        // The first announcement may have found no receiver.
        let lost = from.0.counter(UplinkCounter::SentLost);
        let sending = |number| roce(from.0, to.0, number);
        for number in 0..FRAMES {
            send(from.1, &sending(number));
            // Keeps the other end's queue from overflowing.
            if number % 256 == 255 {
                for expected in number - 255..=number {
                    assert_eq!(receive(to.1), sending(expected));
                }
            }
        }
        for expected in FRAMES - FRAMES % 256..FRAMES {
            assert_eq!(receive(to.1), sending(expected));
        }
        assert_eq!(to.0.counter(UplinkCounter::Received), u64::from(FRAMES));
        assert_eq!(from.0.counter(UplinkCounter::SentLost), lost);
    }
    // Frames for another station, and from this one, are not received.
    let (before, other) = (far.0.counter(UplinkCounter::Ignored), Here::new("other", 9));
    send(near.1, &roce(near.0, &other, 0));
    send(near.1, &roce(far.0, far.0, 0));
    eventually("two frames are ignored", TIMEOUT, || {
        far.0.counter(UplinkCounter::Ignored) == before + 2
    });
    assert!(!far.1.has_frame());
    assert_eq!(
        near.1.resolve_mac(Gid::from_ipv4([127, 0, 0, 1].into())),
        None
    );
}

fn free_udp_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("bound").port()
}

#[test]
fn udp_carries_frames() {
    let (near, far) = (Here::new("udp-near", 1), Here::new("udp-far", 2));
    let (here, there) = (free_udp_port(), free_udp_port());
    let near_wire = near.open(&format!("udp:127.0.0.1:{here},127.0.0.1:{there}"));
    assert!(near_wire.is_up(), "the other machine may still be starting");
    let far_wire = far.open(&format!("udp:127.0.0.1:{there},localhost:{here}"));
    carries((&near, &near_wire), (&far, &far_wire));

    drop(far_wire);
    // UDP detects this only when it sends.
    eventually("the link is down", TIMEOUT, || {
        send(&near_wire, &roce(&near, &far, 0));
        !near_wire.is_up()
    });
    assert_eq!(near_wire.resolve_mac(far.gids[1]), None);
    let far_wire = far.open(&format!("udp:127.0.0.1:{there},127.0.0.1:{here}"));
    eventually("the link is up again", TIMEOUT, || near_wire.is_up());
    assert_eq!(near_wire.resolve_mac(far.gids[1]), Some(far.mac));
    assert_eq!(near.counter(UplinkCounter::LinkDowns), 1);
    drop(far_wire);
}

fn sockets(directory: &Path) -> [String; 2] {
    ["a", "b"].map(|name| directory.join(name).display().to_string())
}

#[test]
fn unix_datagrams_carry_frames() {
    let directory = temporary_directory("datagram");
    let (near, far) = (Here::new("dgram-near", 1), Here::new("dgram-far", 2));
    let [a, b] = sockets(directory.path());
    let near_wire = near.open(&format!("qemu-dgram:{a},{b}"));
    assert!(near_wire.is_up());
    let far_wire = far.open(&format!("qemu-dgram:{b},{a}"));
    carries((&near, &near_wire), (&far, &far_wire));

    let refused = far
        .try_open(&format!("qemu-dgram:{b},{a}"))
        .expect_err("it is in use");
    assert!(
        refused.to_string().contains("another program has"),
        "{refused}"
    );
    drop(far_wire);
    eventually("the link is down", TIMEOUT, || !near_wire.is_up());
    let far_wire = far.open(&format!("qemu-dgram:{b},{a}"));
    eventually("the link is up again", TIMEOUT, || near_wire.is_up());
    assert_eq!(near_wire.resolve_mac(far.gids[0]), Some(far.mac));
    drop((near_wire, far_wire));
    assert!(!Path::new(&a).exists() && !Path::new(&b).exists());
}

#[test]
fn streams_carry_frames() {
    let directory = temporary_directory("stream");
    let (near, far) = (Here::new("stream-near", 1), Here::new("stream-far", 2));
    let path = directory.path().join("s").display().to_string();
    let near_wire = near.open(&format!("qemu-stream:listen:{path}"));
    assert!(near_wire.is_up(), "no peer has connected yet");
    let far_wire = far.open(&format!("qemu-stream:{path}"));
    carries((&near, &near_wire), (&far, &far_wire));

    drop(near_wire);
    eventually("the link is down", TIMEOUT, || !far_wire.is_up());
    let near_wire = near.open(&format!("qemu-stream:listen:{path}"));
    eventually("it has connected again", TIMEOUT, || {
        far_wire.is_up() && near_wire.is_up()
    });
    assert_eq!(near_wire.resolve_mac(far.gids[1]), Some(far.mac));
    drop(far_wire);
    eventually("the link is down", TIMEOUT, || !near_wire.is_up());
}

#[test]
fn a_wire_that_takes_nothing_loses_frames_in_the_end() {
    let directory = temporary_directory("stuck-wire");
    let near = Here::new("stuck-near", 1);
    let [a, b] = sockets(directory.path());
    let far = std::os::unix::net::UnixDatagram::bind(&b).expect("a new name");
    let wire = near.open(&format!("qemu-dgram:{a},{b}"));
    let sender = Here::new("stuck-far", 2);
    let mut is_full = false;
    for number in 0..10_000 {
        if let Reservation::Ready(mut buffer) = wire.reserve(46) {
            buffer
                .bytes_mut()
                .copy_from_slice(&roce(&near, &sender, number));
            wire.transmit(buffer);
        } else {
            is_full = true;
            break;
        }
    }
    assert!(is_full, "back-pressure");
    eventually("the model goes on", TIMEOUT, || {
        matches!(wire.reserve(46), Reservation::Ready(_))
    });
    assert!(near.counter(UplinkCounter::SentLost) > 0);
    assert!(wire.is_up(), "there is a peer");
    drop(far);
}

#[test]
fn what_cannot_be_opened_is_explained() {
    let directory = temporary_directory("explained");
    let near = Here::new("explained", 1);
    let file = directory.path().join("letter.txt");
    std::fs::write(&file, "Dear reader, this is no capture.").expect("new");
    let file = file.display();
    for (spec, expected) in [
        (format!("pcap-replay:{file}"), "no capture"),
        (format!("pcap-replay:{file}x"), "No such file"),
        (format!("qemu-dgram:{file},/nowhere"), "is no socket"),
        (format!("qemu-stream:listen:{file}"), "is no socket"),
        (
            "udp:192.0.2.1:4792,127.0.0.1:4792".to_owned(),
            "192.0.2.1:4792: Cannot assign",
        ),
    ] {
        let error = near.try_open(&spec).expect_err(&spec).to_string();
        assert!(error.contains(expected) && error.contains(&spec), "{error}");
    }
}

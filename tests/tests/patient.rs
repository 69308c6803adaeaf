//! Patient mode: a peer beyond a wire gets no processor for longer than the program's time-outs.
//! perftest always has outstanding requests, so one of them waits whenever the peer stops.

use std::time::Duration;

use ferroce_tests::{
    Process, Scratch, Signal, TIMEOUT, eventually, free_port, stays, wait_until_listening,
};

/// Number of frames after which the two communicate.
const FRAMES: u64 = 1000;
/// Longer than 8 local ACK timeouts of 4 x 67 ms, shorter than 16 of them for each.
const STOPPED: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(120);

/// Writes over UDP between two fabrics of this machine, which cannot see each other's processes.
struct Ends {
    server: Process,
    client: Process,
}

fn start(fabrics: [&Scratch; 2], options: &[&str]) -> Ends {
    let (port, first, second) = (free_port(), free_port(), free_port());
    let port_text = port.to_string();
    let end = |fabric: &Scratch, number: u16, own: u16, other: u16| {
        let address = format!("10.77.0.{number}");
        let wire = format!("udp:127.0.0.1:{own},127.0.0.1:{other}");
        let name = format!("end-{number}");
        let mut all = vec!["--host", &name, "--address", &address, "--port", &wire];
        all.extend(options);
        let mut test: Vec<&str> = "-x 1 -s 4096 -n 20000 -p".split_whitespace().collect();
        test.push(&port_text);
        if number == 2 {
            test.push("127.0.0.1");
        }
        let mut command = fabric.run(&all, "ib_write_bw", &test);
        command.env("FERROCE_LOG", "info");
        Process::start(command, fabric, "output", LIMIT)
    };
    let mut server = end(fabrics[0], 1, first, second);
    wait_until_listening(port, &mut server);
    let client = end(fabrics[1], 2, second, first);
    let (pid, fabric) = (client.id(), fabrics[1]);
    eventually("traffic", TIMEOUT, || {
        fabric.counter(pid, "tx_frames") > FRAMES
    });
    Ends { server, client }
}

/// Goal: without patient mode a program has the time-outs of IBTA.
#[test]
fn a_stopped_peer_beyond_a_wire_is_a_failed_one() {
    let fabrics = [Scratch::new(), Scratch::new()];
    let mut ends = start([&fabrics[0], &fabrics[1]], &[]);
    ends.server.signal(Signal::STOP);
    let ended = ends.client.wait();
    ends.server.kill();
    assert!(!ended.succeeded(), "{}", ended.output);
    // IBV_WC_RETRY_EXC_ERR.
    assert!(ended.output.contains("status 12"), "{}", ended.output);
}

/// Goal: in patient mode the program waits for the same peer, and reports it.
#[test]
fn in_patient_mode_it_is_waited_for() {
    let fabrics = [Scratch::new(), Scratch::new()];
    let mut ends = start([&fabrics[0], &fabrics[1]], &["--patient"]);
    ends.server.signal(Signal::STOP);
    let waits = stays(STOPPED, || ends.client.is_running());
    ends.server.signal(Signal::CONT);
    let (client, server) = (ends.client.wait(), ends.server.wait());
    assert!(waits, "{}", client.output);
    let said = client.output.contains("patient mode");
    assert!(said && client.succeeded(), "{}", client.output);
    server.expect_success();
}

/// Goal: lost packets are still sent again. Method: a wire with loss.
#[test]
fn in_patient_mode_losses_are_repaired() {
    let fabrics = [Scratch::new(), Scratch::new()];
    let options = ["--patient", "--faults", "loss=1e-4,seed=3"];
    let ends = start([&fabrics[0], &fabrics[1]], &options);
    ends.client.wait().expect_success();
    ends.server.wait().expect_success();
}

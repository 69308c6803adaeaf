//! Regions of dma-bufs and exports of device memory, by C programs that call what clients call. No
//! GPU is needed: memory files stand for dma-bufs, where the user says so.

use ferroce_tests::{Scratch, Served, free_port, run_pair};

/// The option with which memory files are accepted.
const MEMFD: &[&str] = &["--dma-buf", "memfd"];

/// Runs `dma_buf.c` in one process.
fn run(scratch: &Scratch, options: &[&str], arguments: &[&str]) {
    let program = scratch.compile("dma_buf");
    let command = scratch.run(options, &program, arguments);
    let output = scratch.finish(command).expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
}

/// Goal: without the option a memory file is no dma-buf, as for the kernel; the probes of UCX, NCCL
/// and libfabric get the answers of a kernel that supports dma-bufs, and device memory is one.
#[test]
fn probes_and_errors_are_those_of_the_kernel() {
    run(&Scratch::new(), &[], &["kernel", "export"]);
    run(
        &Scratch::new(),
        &["--dma-buf", "kernel"],
        &["kernel", "export"],
    );
}

#[test]
fn data_reach_dma_bufs_and_device_memory() {
    run(&Scratch::new(), MEMFD, &["memfd", "export"]);
}

/// Goal: exported device memory is memory of a function that has nothing to do with the device.
#[test]
fn another_function_uses_exported_device_memory() {
    let options = [MEMFD, &["--functions", "2"]].concat();
    run(&Scratch::new(), &options, &["memfd", "export"]);
}

/// Goal: in simulated time the world maps the files; device memory, which is in the world's
/// process, is not exported.
#[test]
fn dma_bufs_in_simulated_time() {
    let options = [MEMFD, &["--timed", "cx5-100g"]].concat();
    run(&Scratch::new(), &options, &["memfd"]);
    run(&Scratch::new(), &["--timed", "cx5-100g"], &["kernel"]);
}

/// Goal: the process of a served function maps the files.
#[test]
fn dma_bufs_of_a_served_function() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch, 1);
    let program = scratch.compile_with("dma_buf", &["-DGID_INDEX=0"]);
    let device = served.device(0);
    let options = [MEMFD, &["--device", &device]].concat();
    let command = scratch.run(&options, &program, &["memfd"]);
    let output = scratch.finish(command).expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
}

#[test]
fn a_wrong_value_of_the_variable_is_named() {
    let scratch = Scratch::new();
    let program = scratch.compile("dma_buf");
    let mut command = scratch.run(&["--explain-errors"], &program, &["memfd"]);
    command.env("FERROCE_DMA_BUF", "memfds");
    let ended = scratch.finish(command);
    let reason = "FERROCE_DMA_BUF has a wrong value";
    assert!(ended.output.contains(reason), "{}", ended.output);
}

/// Compiles the CUDA driver without a GPU; returns the folder of `libcuda.so`.
fn cuda_stub(scratch: &Scratch) -> String {
    scratch.compile_library("cuda_stub", &scratch.path("libcuda.so"));
    scratch.as_ref().to_string_lossy().into_owned()
}

/// Goal: perftest's `--use_cuda=0 --use_cuda_dmabuf` works. Debian's perftest is built without
/// CUDA, so a client makes its calls in its order.
#[test]
fn device_memory_of_a_gpu_to_another() {
    let scratch = Scratch::new();
    let (program, folder) = (scratch.compile("cuda_client"), cuda_stub(&scratch));
    for more in [&[][..], &["-x"]] {
        for options in [MEMFD.to_vec(), [MEMFD, &["--timed", "cx5-100g"]].concat()] {
            let port = free_port();
            let port_text = port.to_string();
            let server = [more, &["-p", &port_text]].concat();
            let client = [&server[..], &["127.0.0.1"]].concat();
            let [server, client] = [server, client].map(|arguments| {
                let mut command = scratch.run(&options, &program, &arguments);
                command.env("LD_LIBRARY_PATH", &folder);
                command
            });
            let (server, client) = run_pair(&scratch, port, server, client);
            assert!(server.ends_with("0 failures\n"), "{server}");
            assert!(client.ends_with("0 failures\n"), "{client}");
        }
    }
}

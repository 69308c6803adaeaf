//! Fixed latencies, without the time of the TLPs on the wire.

use ferroce_units::Duration;

use super::MMIO_READ_BYTES;
use super::link::Rate;
use super::parameters::{Parameters, ns};
use super::spread::Spread;
use super::tlp::Headers;

/// Bytes for which [`super::PcieParameters::mmio_write_ns`] is given.
const MMIO_WRITE_BYTES: u64 = 8;
/// Bytes for which [`super::PcieParameters::read_latency_ns`] and `write_latency_ns` are given.
const REFERENCE_BYTES: u64 = 64;

/// Latencies without the wire time of TLPs, which is added for each request.
#[derive(Debug, Clone, Copy)]
pub struct Latencies {
    /// Device to host, posted.
    pub write: Duration,
    /// Processor to device, posted.
    pub mmio_write: Duration,
    /// Processor to device and back.
    pub mmio_read: Duration,
    /// From the host's memory back to the device.
    pub read_return: Duration,
    /// DMA engine, per read.
    pub engine_read: Duration,
    /// DMA engine, per write.
    pub engine_write: Duration,
    /// Additional latency of a DRAM access over the LLC.
    pub dram: Duration,
    /// Additional latency of the other socket.
    pub numa: Duration,
}

impl Latencies {
    /// Returns the latencies of a host on a link of `rate`.
    pub fn new(parameters: &Parameters, rate: Rate) -> Self {
        let Parameters { pcie, memory, .. } = parameters;
        let headers = Headers::of(pcie.generation);
        let request = |bytes| rate.span(headers.request + bytes);
        let completion = |bytes| rate.span(headers.completion + bytes);
        Self {
            write: ns(pcie.write_latency_ns) - request(REFERENCE_BYTES),
            mmio_write: ns(pcie.mmio_write_ns) - request(MMIO_WRITE_BYTES),
            mmio_read: ns(pcie.mmio_read_ns) - request(0) - completion(MMIO_READ_BYTES),
            read_return: Duration::from_ps(read(parameters, rate).as_ps() / 2),
            engine_read: ns(pcie.engine_read_ns),
            engine_write: ns(pcie.engine_write_ns),
            dram: ns(memory.dram_ns),
            numa: if memory.remote_socket {
                ns(memory.numa_ns)
            } else {
                Duration::ZERO
            },
        }
    }
}

/// Returns the distribution of the remaining latency of a read.
pub fn spread(parameters: &Parameters, rate: Rate, seed: u64) -> Spread {
    let pcie = &parameters.pcie;
    Spread::new(
        seed,
        read(parameters, rate),
        ns(pcie.read_jitter_ns),
        pcie.read_tail_probability,
        ns(pcie.read_tail_ns),
    )
}

fn read(parameters: &Parameters, rate: Rate) -> Duration {
    let headers = Headers::of(parameters.pcie.generation);
    let request = rate.span(headers.request);
    let completion = rate.span(headers.completion + REFERENCE_BYTES);
    ns(parameters.pcie.read_latency_ns) - request - completion
}

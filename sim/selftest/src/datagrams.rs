//! Datagrams of the stage `loopback`.

use ferroce_driver::{Destination, SendData, SendOperation};

use super::bench::Bench;
use super::loopback::{LENGTHS, Loopback, TARGET, data};
use super::outcome::{Failure, Stop};
use super::pair::{Q_KEY, path_mtu, refused};

/// Bytes before a datagram: the GRH.
const GRH_LENGTH: usize = 40;

impl Loopback {
    /// Sends datagrams up to the path MTU. Returns their number.
    pub(super) fn check_datagrams(&self, bench: &Bench) -> Result<usize, Stop> {
        let opened = bench.opened()?;
        let mtu = path_mtu(opened).bytes() as usize;
        let lengths = LENGTHS
            .into_iter()
            .filter(|&length| length <= mtu)
            .enumerate();
        let mut count = 0;
        for (message, length) in lengths {
            let what = format!("UD SEND of {length} bytes");
            self.prepare(message, length);
            self.memory.guard(TARGET, GRH_LENGTH + length);
            self.post_receive(TARGET, GRH_LENGTH + length)?;
            let destination = Destination::Datagram {
                path: &opened.path,
                qpn: self.pair.responder.number(),
                q_key: Q_KEY,
            };
            let source = SendData::ScatterGather(&self.source(length));
            self.pair
                .post(SendOperation::Send, destination, source, 1)
                .map_err(|error| refused(&what, error))?;
            bench.success(&self.pair.send_cq, &what)?;
            let completion = self.received(bench, &what, GRH_LENGTH + length)?;
            if !completion.with_grh || completion.source_qpn != self.pair.requester.number() {
                return Err(Failure::new(format!(
                    "{what}: the completion says source QPN {:?}, GRH {}",
                    completion.source_qpn, completion.with_grh
                ))
                .look_at("the CQE: source_qpn (from the DETH), with_grh")
                .into());
            }
            // The guard bytes used to be where the GRH is now.
            let byte = data(message);
            let found = self
                .memory
                .copy(TARGET + GRH_LENGTH..TARGET + GRH_LENGTH + length);
            if let Some(at) = (0..length).find(|&at| found[at] != byte(at)) {
                return Err(Failure::new(format!(
                    "{what}: byte {at} is {:#04x}, not {:#04x}",
                    found[at],
                    byte(at)
                ))
                .look_at("the payload is 40 bytes after the start of the receive buffer")
                .into());
            }
            count += 1;
        }
        Ok(count)
    }
}

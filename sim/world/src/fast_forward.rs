//! Fast-forward: packets of long messages that are not simulated.
//!
//! The event loop offers each end of a stride to its [`Skipper`]: packets can be skipped only
//! there. A skipper moves the packets with [`Devices`] and returns the time that they would have
//! taken. The event loop lets this time pass for the threads; no time passes for NICs, links and
//! PCIe, which do not notice the skip.
//!
//! - [`EveryPacket`] skips nothing.
//! - [`strides::SteadyStrides`] skips the middle of messages that flow steadily.

mod bulk;
mod pace;
mod sample;
mod strides;

use ferroce_model::fast_forward::Mark;
use ferroce_model::time::timing::Timing;
use ferroce_units::Duration;

use super::devices::Devices;
use strides::SteadyStrides;

/// Decides which packets are skipped.
pub(super) trait Skipper<T: Timing>: Send {
    /// Handles the end of a stride of a long message at the NIC of `host`: moves following packets
    /// and returns the time that they would have taken, at most `quiet_time`, in which no thread
    /// runs. `None`: all packets are simulated.
    fn offer(
        &mut self,
        devices: &mut Devices<T>,
        host: usize,
        mark: Mark,
        quiet_time: &dyn Fn() -> Duration,
    ) -> Option<Duration>;
}

/// Returns the skipper of a world.
pub(super) fn skipper<T: Timing>(skips: bool) -> Box<dyn Skipper<T>> {
    if skips {
        Box::new(SteadyStrides::default())
    } else {
        Box::new(EveryPacket)
    }
}

/// Simulates every packet.
struct EveryPacket;

impl<T: Timing> Skipper<T> for EveryPacket {
    fn offer(
        &mut self,
        _: &mut Devices<T>,
        _: usize,
        _: Mark,
        _: &dyn Fn() -> Duration,
    ) -> Option<Duration> {
        None
    }
}

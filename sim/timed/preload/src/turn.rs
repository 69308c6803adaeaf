//! Waiting for the turn.

use std::time::Duration;

use ferroce_timed_protocol::page::{ThreadPage, Turn};
use ferroce_timed_protocol::spin_policy::SpinPolicy;

use crate::os::real_ns;
use crate::{foreign_peers, world_end};

/// Decides how long the threads of this program spin for their turn before they sleep.
static SPIN_POLICY: SpinPolicy = SpinPolicy::new(real_ns);
/// Time that a thread sleeps before it checks that the world still exists.
const SLEEP: Duration = Duration::from_millis(100);

/// Determines whether spinning for the turn pays off.
pub fn prepare() {
    SPIN_POLICY.prepare();
}

/// Waits until the thread of this page has the turn. Returns false if the world has ended.
pub fn wait_for_turn(page: &ThreadPage) -> bool {
    let mut turn = SPIN_POLICY.wait(page, Turn::World, SLEEP);
    loop {
        match turn {
            Turn::Thread => return true,
            Turn::Ended => {
                world_end::end();
                return false;
            }
            Turn::World if world_end::is_gone() => {
                page.end();
            }
            Turn::World => foreign_peers::check(),
        }
        turn = page.sleep_while(Turn::World, SLEEP);
    }
}

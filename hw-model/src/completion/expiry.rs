//! Expired timers and lost peers.

use ferroce_spec::personality::Personality;

use crate::completion::Results;
use crate::contexts::Contexts;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::time::timing::Timing;
use crate::time::turn::Turn;

/// Maximum number of timers and moderated events that are handled in one turn.
const EXPIRIES_PER_TURN: usize = 32;

impl Results<'_> {
    /// Handles the expired timers of queue pairs. Returns true if there were some.
    #[inline]
    pub fn expire_timers<H: Host, T: Timing, P: Port>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        contexts: &mut Contexts,
        port: &mut P,
    ) -> bool {
        let now = turn.now;
        let mut worked = false;
        for _ in 0..EXPIRIES_PER_TURN {
            let Some(index) = contexts.pop_due_timer(now) else {
                break;
            };
            worked = true;
            if let Some(qp) = contexts.qps.get_mut(index) {
                if qp.transport.retransmission_is_due(now)
                    && qp.peer().is_some_and(|route| port.is_behind(&route))
                {
                    qp.transport.postpone_retransmission(now);
                }
                qp.transport.handle_timeout(now);
                self.settle(turn, contexts, index);
            }
        }
        worked
    }

    /// Raises the events of CQs whose moderation time has expired. Returns true if there were some.
    #[inline]
    pub fn expire_moderation<H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        contexts: &mut Contexts,
    ) -> bool {
        let mut worked = false;
        for _ in 0..EXPIRIES_PER_TURN {
            let Some(cqn) = contexts.cqs.pop_due(turn.now) else {
                break;
            };
            worked = true;
            if let Some(event) = contexts.cqs.expire(cqn, &mut turn.dma()) {
                self.host_interface.raise(turn, turn.now, event);
            }
        }
        worked
    }

    /// Fails requests to functions that no longer exist. Returns true if there were any.
    ///
    /// A ConnectX cannot know this: with the personality mlx5, the requests fail after the
    /// time-outs of the queue pair.
    #[cold]
    pub fn give_up_lost_peers<H: Host, T: Timing, P: Port>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        contexts: &mut Contexts,
        port: &mut P,
    ) -> bool {
        if self.host_interface.personality() == Personality::MLX5 {
            return false;
        }
        let mut worked = false;
        let (_, used) = contexts.qps.all();
        for index in 0..used {
            let Some(qp) = contexts.qps.get_mut(index) else {
                continue;
            };
            let is_lost = qp.transport.has_unacknowledged()
                && qp.peer().is_some_and(|route| port.is_gone(&route));
            if is_lost {
                qp.transport.give_up();
                self.settle(turn, contexts, index);
                worked = true;
            }
        }
        worked
    }
}

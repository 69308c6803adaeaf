//! Signatures first; the machine follows.
use crate::context::Context;
use crate::*;
use ferroce_wire::*;
#[derive(Debug, Clone)]
pub(crate) struct Rc;
impl Rc {
    pub(crate) const fn new() -> Rc {
        Rc
    }
    pub(crate) const fn next_send_psn(&self) -> Psn {
        Psn::new(0)
    }
    pub(crate) const fn next_receive_psn(&self) -> Psn {
        Psn::new(0)
    }
    pub(crate) const fn msn(&self) -> Msn {
        Msn::new(0)
    }
    pub(crate) fn is_draining(&self, _: &Context) -> bool {
        false
    }
    pub(crate) fn outstanding_sends(&self) -> usize {
        0
    }
    pub(crate) fn can_accept_send(&self) -> bool {
        false
    }
    pub(crate) fn modify(
        &mut self,
        _: Instant,
        _: &mut Context,
        _: QpState,
        _: &Transition,
    ) -> Result<(), TransitionError> {
        Ok(())
    }
    pub(crate) fn post_send(&mut self, _: Instant, _: &mut Context, _: SendRequest) {}
    pub(crate) fn fail_send(&mut self, _: Instant, _: &mut Context, _: u32, _: CompletionStatus) {}
    pub(crate) fn fail_read_response(&mut self, _: Instant, _: &mut Context, _: Psn) {}
    pub(crate) fn flush_acknowledge(&mut self, _: &mut Context) {}
    pub(crate) fn set_receive_credits(&mut self, _: Option<u32>) {}
    pub(crate) fn handle_packet(
        &mut self,
        _: Instant,
        _: &mut Context,
        _: &TransportHeaders,
        _: u32,
    ) -> Step {
        Step::Done
    }
    pub(crate) fn handle_memory(&mut self, _: Instant, _: &mut Context, _: MemoryAnswer) -> Step {
        Step::Done
    }
    pub(crate) fn handle_timeout(&mut self, _: Instant, _: &mut Context) {}
    pub(crate) fn poll_transmit(&mut self, _: Instant, _: &mut Context) -> Option<Transmit> {
        None
    }
    pub(crate) fn has_transmit(&self, _: &Context) -> bool {
        false
    }
    pub(crate) fn pending_acknowledge(&self) -> bool {
        false
    }
}

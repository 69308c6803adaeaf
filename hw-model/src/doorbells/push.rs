//! Push windows of BAR2: a write to one is a doorbell that carries its send WQE.

use ferroce_spec::doorbell::DoorbellValue;
use ferroce_spec::push::{PushWindow, WORDS_PER_BLOCK, starts_half};
use ferroce_wire::Qpn;

use crate::contexts::pushed_wqes::PushedWqe;
use crate::contexts::queue_pair::QueuePair;
use crate::contexts::queue_pair_table::QueuePairs;
use crate::ports::host::Doorbell;

/// Returns true if `slot`, counted over all of BAR2, is the first slot of a block in the push
/// window of a queue pair.
pub fn is_window_of(qp: &QueuePair, slot: u32) -> bool {
    let own = PushWindow::of_slot(qp.context.send_doorbell_slot);
    PushWindow::of_block(slot) == Some(own)
}

/// Keeps the WQE of a write to a push page, in `words`, for its queue pair. Pushes have up to
/// `push_blocks` blocks. `None`: the WQE is not kept.
pub fn keep_pushed(
    qps: &mut QueuePairs,
    push_blocks: u8,
    doorbell: Doorbell,
    words: &[u64],
) -> Option<()> {
    let longest = usize::from(push_blocks) * WORDS_PER_BLOCK;
    let is_whole = starts_half(doorbell.slot) && words.first() == Some(&doorbell.value);
    if !is_whole || words.len() > longest {
        return None;
    }
    let number = DoorbellValue::from_bits(doorbell.value).number();
    let qp = qps.find(Qpn::new(number))?;
    if !is_window_of(qp, doorbell.slot) {
        return None;
    }
    let wqe = PushedWqe::new(words, qp.transport.service())?;
    let producer = qp.send.producer;
    qp.send.pushed.keep(wqe, producer).then_some(())
}

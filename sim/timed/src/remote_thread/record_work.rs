//! What a thread of another process spent time on, for a recorder.

use ferroce_timed_protocol::page::ThreadPage;
use ferroce_timed_protocol::store::Work;
use ferroce_units::Instant;
use ferroce_world::{Activity, Cpu};

/// Reports to a recorder what a thread spent time on until `clock`, before its effects.
pub(super) fn record_work(cpu: &Cpu<'_>, page: &ThreadPage, clock: Instant) {
    for work in page.done.iter() {
        let activity = match Work::of_code(work.slot) {
            Some(Work::Post) => Activity::Post,
            Some(Work::PostReceive) => Activity::PostReceive,
            Some(Work::Doorbell) => Activity::Doorbell,
            Some(Work::Poll) => Activity::Poll,
            Some(Work::WakeUp) => Activity::WakeUp,
            None => continue,
        };
        let time = work.words().first().map_or(0, |time| *time);
        let end = Instant(work.at_ps.saturating_add(time)).min(clock);
        cpu.record(activity, Instant(work.at_ps).min(end), end, None, 0);
    }
    page.done.clear();
}

//! On-demand regions: page faults as software sees them, and what both sides of a connection do
//! until they are answered.

use crate::common::objects::every_right;
use crate::common::{Machine, REGION_START, connected, place, run_both};
use ferroce_spec::command::{CommandOpcode, CommandStatus};
use ferroce_spec::context::{MemoryEntry, MemoryEntryWord, PathMtuCode, TranslationEntry};
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::eqe::EventType;
use ferroce_spec::register::{PageFaultAnswer, offset};
use ferroce_spec::wqe::{DataSegment, SendOpcode};
use zerocopy::IntoBytes;

const PAGE: u64 = 4096;
/// Pages of the region. Their memory is the machine's data from its second page on.
const PAGES: u64 = 8;
const LENGTH: u64 = PAGES * PAGE;
/// Index of the region's first entry in the translation table. The machine's own region is before.
const FIRST_ENTRY: u64 = 0x800;
/// Turns after which nothing moves, or only RNR NAKs and their timers do.
const TURNS: usize = 40;

/// Software of a machine with an on-demand region.
struct OnDemand {
    key: u32,
    answered: u32,
}

impl OnDemand {
    fn new(machine: &mut Machine) -> Self {
        let mut word = MemoryEntryWord::default();
        word.set_log_page_size(12);
        word.set_on_demand(true);
        let region = MemoryEntry {
            word,
            key: 0x33,
            pd: 7,
            access: every_right(),
            start: REGION_START,
            length: LENGTH,
            translation: FIRST_ENTRY,
            ..MemoryEntry::default()
        };
        let key = machine.command(CommandOpcode::CREATE_MR, 0, &region);
        Self {
            key: key.expect("room") as u32,
            answered: 0,
        }
    }

    fn segment(&self, offset: u64, length: u32) -> DataSegment {
        DataSegment {
            address: REGION_START + offset,
            length,
            l_key: self.key,
        }
    }

    /// Takes the event of a page fault: the index of the page.
    fn fault(&self, machine: &mut Machine) -> u32 {
        let (event, key, page) = machine.poll_event_of_page().expect("an event");
        assert_eq!((event, key), (EventType::PAGE_FAULT, self.key));
        page
    }

    fn set_page(machine: &mut Machine, page: u32, entry: TranslationEntry) {
        let iova = place::MTT + (FIRST_ENTRY + u64::from(page)) * 8;
        machine.host.write(iova, entry.as_bytes()).expect("inside");
    }

    fn answer(&mut self, machine: &mut Machine, is_refused: bool) {
        self.answered += 1;
        let mut answer = PageFaultAnswer::default();
        answer.set_count(self.answered);
        answer.set_refused(is_refused);
        machine
            .nic
            .write32(offset::page_fault_answer, answer.bits());
    }

    /// Brings a page in, and answers its event.
    fn bring_in(&mut self, machine: &mut Machine, page: u32) {
        let iova = place::DATA + PAGE * (1 + u64::from(page));
        Self::set_page(machine, page, TranslationEntry::new(iova));
        self.answer(machine, false);
    }
}

fn status_of(machine: &mut Machine) -> Option<CqeStatus> {
    Some(CqeStatus(machine.poll()?.word.status()))
}

fn pair() -> (Machine, Machine) {
    connected(PathMtuCode::MTU_1024)
}

/// Goal: each operation of a peer waits for its page by RNR NAKs, and is executed once.
#[test]
fn a_peer_waits_for_the_pages_that_it_needs() {
    let (mut a, mut b) = pair();
    let mut region = OnDemand::new(&mut b);
    a.data(0, 1).fill(3);
    let data = a.segment(0, 8192);
    let remote = (REGION_START + PAGE, region.key);
    a.post(SendOpcode::RDMA_WRITE, Some(remote), data);
    for page in [1, 2] {
        run_both(&mut a, &mut b, TURNS);
        assert_eq!(status_of(&mut a), None);
        assert_eq!(region.fault(&mut b), page);
        assert_eq!(b.poll_event(), None, "once");
        region.bring_in(&mut b, page);
    }
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(status_of(&mut a), Some(CqeStatus::SUCCESS));
    assert_eq!(b.data(2 * PAGE, 1), [3]);
    assert!(b.nic.counters().value(Counter::rnr_naks_sent) >= 2);
    assert_eq!(b.nic.counters().value(Counter::page_faults), 2);
    assert!(b.nic.counters().value(Counter::page_waits) >= 2);
    assert_eq!(b.nic.counters().value(Counter::protection_errors), 0);

    let operand = a.segment(0, 8);
    a.post_fetch_add((REGION_START + 5 * PAGE, region.key), 4, operand);
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(region.fault(&mut b), 5);
    region.bring_in(&mut b, 5);
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(status_of(&mut a), Some(CqeStatus::SUCCESS));
    assert_eq!(b.data(6 * PAGE, 1), [4], "once");
}

/// Goal: a receive WQE stays with its message while a page of its buffer is brought in.
#[test]
fn a_send_waits_for_the_page_of_the_receive_buffer() {
    let (mut a, mut b) = pair();
    let mut region = OnDemand::new(&mut b);
    b.post_receive(region.segment(PAGE - 8, 16));
    b.post_receive(region.segment(0, 16));
    a.data(0, 16).copy_from_slice(b"across the pages");
    let data = a.segment(0, 16);
    a.post(SendOpcode::SEND, None, data);
    for page in [0, 1] {
        run_both(&mut a, &mut b, TURNS);
        assert_eq!(region.fault(&mut b), page);
        region.bring_in(&mut b, page);
    }
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(status_of(&mut a), Some(CqeStatus::SUCCESS));
    assert_eq!(status_of(&mut b), Some(CqeStatus::SUCCESS));
    assert_eq!(status_of(&mut b), None);
    assert_eq!(b.data(2 * PAGE - 8, 16), b"across the pages");
}

/// Goal: payload, data of READs, and responses to a READ wait for their pages.
#[test]
fn the_own_memory_of_requests_and_responses_waits() {
    let (mut a, mut b) = pair();
    let mut own = OnDemand::new(&mut a);
    let mut theirs = OnDemand::new(&mut b);
    a.data(PAGE, 1).fill(9);
    let payload = own.segment(0, 100);
    a.post(SendOpcode::RDMA_WRITE, Some((REGION_START, b.key)), payload);
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(status_of(&mut a), None);
    assert_eq!(own.fault(&mut a), 0);
    own.bring_in(&mut a, 0);
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(status_of(&mut a), Some(CqeStatus::SUCCESS));
    assert_eq!(b.data(0, 1), [9]);

    b.data(5 * PAGE, 1).fill(7);
    let (place, remote) = (own.segment(3 * PAGE, 64), REGION_START + 4 * PAGE);
    a.post(SendOpcode::RDMA_READ, Some((remote, theirs.key)), place);
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(theirs.fault(&mut b), 4);
    theirs.bring_in(&mut b, 4);
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(own.fault(&mut a), 3);
    own.bring_in(&mut a, 3);
    // The response was lost here: it comes again after the timeout.
    for _ in 0..2000 {
        run_both(&mut a, &mut b, TURNS);
        if let Some(status) = status_of(&mut a) {
            assert_eq!(status, CqeStatus::SUCCESS);
            assert_eq!(a.data(4 * PAGE, 1), [7]);
            return;
        }
    }
    panic!("the READ does not end");
}

/// Goal: memory that does not exist ends the access as a wrong key would, at either side.
#[test]
fn a_page_that_cannot_be_brought_in_fails_the_access() {
    let (mut a, mut b) = pair();
    let mut region = OnDemand::new(&mut b);
    let data = a.segment(0, 8);
    let remote = (REGION_START, region.key);
    a.post(SendOpcode::RDMA_WRITE, Some(remote), data);
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(region.fault(&mut b), 0);
    region.answer(&mut b, true);
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(status_of(&mut a), Some(CqeStatus::REMOTE_ACCESS));

    let (mut a, mut b) = pair();
    let mut own = OnDemand::new(&mut a);
    let (remote, payload) = ((REGION_START, b.key), own.segment(0, 8));
    a.post(SendOpcode::RDMA_WRITE, Some(remote), payload);
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(own.fault(&mut a), 0);
    own.answer(&mut a, true);
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(status_of(&mut a), Some(CqeStatus::LOCAL_PROTECTION));
}

/// Goal: after SYNC_MR the card uses no page that software has taken away, and finds pages that
/// software has set without a fault.
#[test]
fn pages_come_and_go() {
    let (mut a, mut b) = pair();
    let mut region = OnDemand::new(&mut b);
    let data = a.segment(0, 8);
    let remote = (REGION_START, region.key);
    for round in 0..3 {
        a.post(SendOpcode::RDMA_WRITE, Some(remote), data);
        run_both(&mut a, &mut b, TURNS);
        assert_eq!(region.fault(&mut b), 0, "round {round}");
        region.bring_in(&mut b, 0);
        run_both(&mut a, &mut b, TURNS);
        assert_eq!(status_of(&mut a), Some(CqeStatus::SUCCESS));
        OnDemand::set_page(&mut b, 0, TranslationEntry::default());
        let key = u64::from(region.key);
        let done = b.command(CommandOpcode::SYNC_MR, key, &[0u8; 0]);
        assert_eq!(done, Ok(0));
    }
    OnDemand::set_page(&mut b, 0, TranslationEntry::new(place::DATA));
    let key = u64::from(region.key);
    let done = b.command(CommandOpcode::SYNC_MR, key, &[0u8; 0]);
    assert_eq!(done, Ok(0));
    a.post(SendOpcode::RDMA_WRITE, Some(remote), data);
    run_both(&mut a, &mut b, TURNS);
    assert_eq!(status_of(&mut a), Some(CqeStatus::SUCCESS));
    assert_eq!(b.poll_event(), None);
    let unknown = b.command(CommandOpcode::SYNC_MR, key ^ 1, &[0u8; 0]);
    assert_eq!(unknown, Err(CommandStatus::NO_OBJECT));
}

/// Goal: a queue pair that waits for a page can be reset, and answers for which nothing waits do no
/// harm.
#[test]
fn a_reset_ends_the_wait() {
    let (mut a, mut b) = pair();
    let mut own = OnDemand::new(&mut a);
    let (remote, payload) = ((REGION_START, b.key), own.segment(0, 8));
    a.post(SendOpcode::RDMA_WRITE, Some(remote), payload);
    run_both(&mut a, &mut b, TURNS);
    a.reset_qp();
    assert_eq!(own.fault(&mut a), 0);
    own.bring_in(&mut a, 0);
    for count in [0, 7, 0xff_ffff, 1 << 31] {
        a.nic.write32(offset::page_fault_answer, count);
        run_both(&mut a, &mut b, TURNS);
    }
    assert_eq!(status_of(&mut a), None);
    assert_eq!(a.poll_event(), None);
}

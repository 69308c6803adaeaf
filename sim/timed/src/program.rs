//! The world's view of a program.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fmt, io};

use ferroce_host::mapping::FileIdentity;
use ferroce_model::preset::costs::Costs;
use ferroce_model::preset::{Preset, RegionTranslation};
use ferroce_timed_protocol::children::Children;
use ferroce_timed_protocol::host_name::HostName;
use ferroce_timed_protocol::map::SharedPages;
use ferroce_timed_protocol::page::{CostsPage, ProgramPage, ThreadPage, Turn};
use ferroce_timed_protocol::page::{NO_REGION_PAGES, REGION_PAGES_OF_KERNEL};
use ferroce_timed_protocol::{MAX_THREADS, VERSION};
use ferroce_units::Duration;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use super::cm_agent::ChannelOwner;

/// Facts about a host for its program.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// The host, and which function of its card the program gets.
    pub name: HostName,
    /// Costs of calls.
    pub costs: Costs,
    /// Seed of the spread of the costs.
    pub seed: u64,
    /// Hosts of the world.
    pub hosts: u32,
    /// `vendor_part_id` of the card.
    pub part_id: u32,
    /// Path MTU.
    pub path_mtu_bytes: u32,
    /// Blocks of the longest push.
    pub push_blocks: u32,
    /// True if the card accepts a push only of WQEs with all their data inline.
    pub push_inline_only: bool,
    /// How the card translates the program's memory regions.
    pub translation: RegionTranslation,
    /// Bytes that are brought in with the page of a fault of an on-demand region.
    pub page_fault_prefetch_bytes: u32,
    /// Data rate of the port, in Mb/s.
    pub rate_mbps: u32,
    /// True if a trace records what the program's threads spend time on.
    pub is_recorded: bool,
    /// The file that is the host's persistent memory.
    pub persistent: Option<FileIdentity>,
}

impl HostFacts {
    /// Returns the facts of a host with this preset, one of `hosts`.
    pub fn new(name: HostName, preset: &Preset, hosts: usize, seed: u64, push_blocks: u32) -> Self {
        Self {
            name,
            costs: Costs::new(preset),
            seed,
            hosts: hosts as u32,
            part_id: preset.identity.part_id,
            path_mtu_bytes: preset.transport.path_mtu_bytes,
            push_blocks,
            push_inline_only: preset.host.push_inline_only,
            translation: preset.host.translation,
            page_fault_prefetch_bytes: preset.host.page_fault_prefetch_bytes,
            rate_mbps: (preset.mac.rate_gbps * 1000.0).round() as u32,
            is_recorded: false,
            persistent: None,
        }
    }

    fn write(&self, host: u32, page: &ProgramPage) {
        let cells = [
            (&page.host, host),
            (&page.host_of_name, u32::from(self.name.host)),
            (&page.hosts, self.hosts),
            (&page.part_id, self.part_id),
            (&page.path_mtu_bytes, self.path_mtu_bytes),
            (&page.push_inline_only, self.push_inline_only.into()),
            (&page.push_blocks, self.push_blocks),
            (&page.region_pages, region_pages(self.translation)),
            (
                &page.page_fault_prefetch_bytes,
                self.page_fault_prefetch_bytes,
            ),
            (&page.rate_mbps, self.rate_mbps),
            (&page.is_recorded, self.is_recorded.into()),
            (&page.version, VERSION),
        ];
        if let Some(file) = self.persistent {
            page.persistent_device.store(file.device, Ordering::Relaxed);
            page.persistent_inode.store(file.inode, Ordering::Relaxed);
        }
        self.write_costs(&page.costs);
        for (cell, value) in cells {
            cell.store(value, Ordering::Relaxed);
        }
    }

    fn write_costs(&self, page: &CostsPage) {
        let costs = &self.costs;
        let cells: [(_, Duration); 13] = [
            (&page.post_ps, costs.post),
            (&page.doorbell_ps, costs.doorbell),
            (&page.push_block_ps, costs.push_block),
            (&page.inline_block_ps, costs.inline_block),
            (&page.post_receive_ps, costs.post_receive),
            (&page.poll_hit_ps, costs.poll_hit),
            (&page.poll_miss_ps, costs.poll_miss),
            (&page.memory_poll_ps, costs.memory_poll),
            (&page.wake_up_ps, costs.wake_up),
            (&page.system_call_ps, costs.system_call),
            (&page.page_fault_ps, costs.page_fault),
            (&page.cm_command_ps, costs.cm_command),
            (&page.jitter_ps, costs.jitter),
        ];
        for (cell, value) in cells {
            cell.store(value.as_ps(), Ordering::Relaxed);
        }
        page.seed.store(self.seed, Ordering::Relaxed);
    }
}

/// Returns the code of a way of translation for [`ProgramPage::region_pages`].
fn region_pages(translation: RegionTranslation) -> u32 {
    match translation {
        RegionTranslation::Kernel => REGION_PAGES_OF_KERNEL,
        RegionTranslation::Pages4K => 12,
        RegionTranslation::Pages2M => 21,
        RegionTranslation::Physical => NO_REGION_PAGES,
    }
}

/// Where a program comes from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// Its parent is not in the world.
    Outside,
    /// A program of the world has started its process.
    Parent(Arc<Program>),
    /// The same process has executed another program before.
    Predecessor(Arc<Program>),
}

/// What processes with the same ancestor in the world share.
#[derive(Debug, Default)]
struct Family {
    /// Number of times that one of their threads has written to a descriptor for which others may
    /// wait.
    notices: AtomicU64,
}

/// A program that has joined.
pub struct Program {
    /// Unique number.
    pub id: u64,
    /// Host of the program: a number for each function of a card.
    pub host: usize,
    /// The name of the host.
    pub name: HostName,
    /// Process ID, as the kernel reports it.
    pub pid: u32,
    /// Process ID of its parent, if that is in the world.
    pub parent: Option<u32>,
    family: Arc<Family>,
    /// True if it has the card of its host.
    owns_card: AtomicBool,
    /// True if its process lives on outside of the world.
    has_left: AtomicBool,
    /// True if its parent knows that it is in the world.
    is_entered: AtomicBool,
    /// True if the parent knows that the program has ended, or the program has a successor.
    is_end_noted: AtomicBool,
    pages: SharedPages,
    /// A bit for each page in use by a thread.
    used: Mutex<u64>,
    is_over: AtomicBool,
    /// True if the plan of faults has killed it.
    is_killed: AtomicBool,
    /// Interrupts that are not of the card: a bit for each.
    interrupts: AtomicU64,
}

const _: () = assert!(MAX_THREADS <= u64::BITS as usize);

impl Program {
    /// Creates a program on `host`, with pages that describe the host. Returns the file of the
    /// pages, too.
    ///
    /// # Errors
    /// No memory or no descriptors.
    pub fn new(
        id: u64,
        host: usize,
        facts: &HostFacts,
        pid: u32,
        origin: &Origin,
    ) -> io::Result<(Self, OwnedFd)> {
        let file = SharedPages::create()?;
        let pages = SharedPages::map(&file)?;
        let page = &pages.pages().program;
        facts.write(host as u32, page);
        let (family, parent) = match origin {
            Origin::Outside => (Arc::default(), None),
            Origin::Parent(parent) => (Arc::clone(&parent.family), Some(parent.pid)),
            Origin::Predecessor(earlier) => {
                page.children.adopt(&earlier.page_of_program().children);
                (Arc::clone(&earlier.family), earlier.parent)
            }
        };
        // The process was entered with its first program.
        let is_entered = matches!(origin, Origin::Predecessor(_));
        if let Origin::Parent(other) | Origin::Predecessor(other) = origin {
            page.inner_pipes
                .add_all(&other.page_of_program().inner_pipes);
            page.since_ps.store(other.clock_ps(), Ordering::Relaxed);
            page.is_member.store(1, Ordering::Relaxed);
        }
        let program = Self {
            id,
            host,
            name: facts.name,
            pid,
            parent,
            family,
            owns_card: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            is_entered: AtomicBool::new(is_entered),
            is_end_noted: AtomicBool::new(false),
            pages,
            used: Mutex::new(0),
            is_over: AtomicBool::new(false),
            is_killed: AtomicBool::new(false),
            interrupts: AtomicU64::new(0),
        };
        Ok((program, file))
    }

    fn page_of_program(&self) -> &ProgramPage {
        &self.pages.pages().program
    }

    /// Returns the clock of its thread that has the turn.
    fn clock_ps(&self) -> u64 {
        let threads = self.pages.pages().threads.iter();
        let running = threads.filter(|page| page.turn() == Turn::Thread);
        let clocks = running.map(|page| page.clock_ps.load(Ordering::Relaxed));
        clocks.max().unwrap_or(0)
    }

    /// Returns true if both have the same ancestor in the world, or are the same.
    pub fn is_related_to(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.family, &other.family)
    }

    /// Returns true if it has the card of its host.
    pub fn owns_card(&self) -> bool {
        self.owns_card.load(Ordering::Relaxed)
    }

    /// Gives it the card of its host.
    pub fn give_card(&self) {
        self.owns_card.store(true, Ordering::Relaxed);
    }

    /// Records how many programs were on its host before it.
    pub fn set_earlier_programs(&self, count: u32) {
        let earlier_programs = &self.page_of_program().earlier_programs;
        earlier_programs.store(count, Ordering::Relaxed);
    }

    /// Records that its process lives on outside of the world.
    pub fn note_left(&self) {
        self.has_left.store(true, Ordering::SeqCst);
    }

    /// Returns true if its process lives on outside of the world.
    pub fn has_left(&self) -> bool {
        self.has_left.load(Ordering::SeqCst)
    }

    /// Records that its parent knows that it is in the world. Returns false if that was so before.
    pub fn enter_into_parent(&self) -> bool {
        !self.is_entered.swap(true, Ordering::Relaxed)
    }

    /// Records that its end is known to its parent, or is none because it has a successor. Returns
    /// false if that was so before.
    pub fn note_end(&self) -> bool {
        !self.is_end_noted.swap(true, Ordering::Relaxed)
    }

    /// Returns its children.
    pub fn children(&self) -> &Children {
        &self.page_of_program().children
    }

    /// Adds interrupts that are not of the card.
    pub fn add_interrupts(&self, interrupts: u64) {
        self.interrupts.fetch_or(interrupts, Ordering::Relaxed);
    }

    /// Returns true if there are interrupts that are not of the card.
    pub fn has_interrupts(&self) -> bool {
        self.interrupts.load(Ordering::Relaxed) != 0
    }

    /// Takes these interrupts.
    pub fn take_interrupts(&self) -> u64 {
        if self.has_interrupts() {
            self.interrupts.swap(0, Ordering::Relaxed)
        } else {
            0
        }
    }

    /// Records that a thread has written to a descriptor that others may wait for.
    pub fn notify(&self) {
        self.family.notices.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often that has happened.
    pub fn notices(&self) -> u64 {
        self.family.notices.load(Ordering::Relaxed)
    }

    /// Records that one of its threads has left simulated time, in this call.
    pub fn note_departure(&self, call: &str) {
        self.pages.pages().program.departures.note(call);
    }

    /// Returns how often threads have left simulated time.
    pub fn departures(&self) -> u32 {
        self.page_of_program().departures.count()
    }

    /// Returns the page of a thread.
    pub fn page(&self, number: usize) -> &ThreadPage {
        &self.pages.pages().threads[number]
    }

    /// Gives a new thread a page. Returns `None` if none is left, or the program is over.
    pub fn add_thread(&self, tid: u32) -> Option<usize> {
        let mut used = self.used.lock();
        let number = used.trailing_ones() as usize;
        if number >= MAX_THREADS || self.is_over() {
            return None;
        }
        *used |= 1 << number;
        self.page(number).reset(tid);
        Some(number)
    }

    /// Removes a thread; its page is free.
    pub fn remove_thread(&self, number: usize) {
        let mut used = self.used.lock();
        let page = self.page(number);
        page.end();
        page.tid.store(0, Ordering::Relaxed);
        *used &= !(1 << number);
    }

    /// Returns true if the program has left, or was removed.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Kills the process, as SIGKILL does; none of its threads gets a turn any more.
    pub fn kill(&self) {
        self.is_killed.store(true, Ordering::SeqCst);
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // It may have ended already.
            let _ = kill_process(pid, Signal::KILL);
        }
        self.end();
    }

    /// Returns true if the plan of faults has killed it.
    pub fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::SeqCst)
    }

    /// Returns true if the program has ended normally, and was not killed.
    pub fn has_exited(&self) -> bool {
        let page = &self.pages.pages().program;
        page.has_exited.load(Ordering::SeqCst) != 0
    }

    /// Records whether the program's only partner was killed, and none has joined since.
    pub fn set_lost_partner(&self, has_lost_partner: bool) {
        let page = &self.pages.pages().program;
        page.has_lost_partner
            .store(has_lost_partner.into(), Ordering::SeqCst);
    }

    /// Records whether the clock stands still until more programs have joined.
    pub fn set_held(&self, is_held: bool) {
        let page = &self.pages.pages().program;
        page.is_held.store(is_held.into(), Ordering::SeqCst);
    }

    /// Ends the program: no thread of it gets a turn any more.
    pub fn end(&self) {
        let _used = self.used.lock();
        self.is_over.store(true, Ordering::SeqCst);
        let pages = self.pages.pages();
        pages.program.has_ended.store(1, Ordering::SeqCst);
        pages.threads.iter().for_each(ThreadPage::end);
    }
}

impl ChannelOwner for Program {
    fn id(&self) -> u64 {
        self.id
    }

    fn host(&self) -> usize {
        self.host
    }

    fn set_events(&self, channel: usize, count: u32) {
        let events = &self.pages.pages().program.cm_events;
        if let Some(cell) = events.get(channel) {
            cell.store(count, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("id", &self.id)
            .field("host", &self.host)
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        let preset = Preset::load("cx5-100g").expect("built in");
        let facts = HostFacts::new(HostName::of_host(1), &preset, 2, 7, 4);
        Program::new(1, 1, &facts, 77, &Origin::Outside)
            .expect("memory")
            .0
    }

    #[test]
    fn pages_are_given_and_taken_back() {
        let program = program();
        let numbers: Vec<_> = (1..).map_while(|tid| program.add_thread(tid)).collect();
        assert_eq!(numbers, (0..MAX_THREADS).collect::<Vec<_>>());
        program.remove_thread(5);
        assert_eq!(program.page(5).turn(), Turn::Ended);
        assert_eq!(program.add_thread(9), Some(5));
        assert_eq!(program.page(5).turn(), Turn::World);
        program.end();
        assert!((0..MAX_THREADS).all(|number| program.page(number).turn() == Turn::Ended));
        program.remove_thread(3);
        assert_eq!(program.add_thread(9), None);
    }

    #[test]
    fn the_page_of_the_program_says_what_the_preset_says() {
        let program = program();
        let preset = Preset::load("cx5-100g").expect("built in");
        let page = &program.pages.pages().program;
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed) as f64;
        assert_eq!(read(&page.costs.post_ps), 1000.0 * preset.host.post_ns);
        assert_eq!(page.part_id.load(Ordering::Relaxed), 4119);
        assert_eq!(page.path_mtu_bytes.load(Ordering::Relaxed), 1024);
        assert_eq!(page.rate_mbps.load(Ordering::Relaxed), 100_000);
        assert_eq!(page.version.load(Ordering::Relaxed), VERSION);
        assert_eq!(page.host.load(Ordering::Relaxed), 1);
    }
}

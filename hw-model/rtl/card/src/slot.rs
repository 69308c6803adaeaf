//! A PCIe slot with its host, as the hard block of a board shows them to the card: register
//! accesses and doorbells are requests on CQ, DMA and MSI-X messages are requests on RQ.
//!
//! Writes of the card are executed in their order, when the caller's host is there. Completions of
//! its reads come in parts of at most MPS, in the order of the requests; the data is read from
//! memory when the completion is sent, so that a read does not pass a write.

use std::collections::VecDeque;

use ferroce_model::ports::host::Host;
use ferroce_rtl_harness::{LINE, bytes, words};
use ferroce_rtl_streams::{
    Completion, CompletionSource, DESCRIPTOR, HostRequest, Request, RequestBeat, RequestSink, bits,
};
use ferroce_spec::register::{MSIX_ENTRY_SIZE, MSIX_TABLE_OFFSET, VECTOR_COUNT};
use ferroce_units::Instant;

use crate::host_link::HostLink;
use crate::memory::{LINE_LATENCY_CYCLES, order_at, write_run};
use crate::slot_sizes::SlotSizes;
use crate::verilated::PcieCard;

const BAR0: u8 = 0;
const BAR2: u8 = 2;
/// Addresses of MSI-X messages, as in an x86 host, which takes no other writes there.
const MESSAGES: std::ops::Range<u64> = 0xfee0_0000..0xfef0_0000;
/// Beats of RC that are made ahead, so that TLPs can share a beat.
const BEATS_AHEAD: usize = 8;
/// Cycles until a host gives up a register read: more than the card ever needs for one.
pub const ANSWER_CYCLES_MAX: u64 = 1 << 16;
/// Request type of a memory read on RQ.
const MEMORY_READ: u64 = 0;
/// PG213's error code of a completion with another status than success, and the status
/// "unsupported request".
const CODE_STATUS: u64 = 2;
const UNSUPPORTED: u64 = 1;

/// Fields of configuration space that the card sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Configuration {
    /// Bus Master Enable of the Command register.
    pub bus_master: bool,
    /// MSI-X Enable.
    pub msix_enable: bool,
    /// MSI-X Function Mask.
    pub function_mask: bool,
}

impl Configuration {
    /// After a reset of the function.
    pub const RESET: Self = Self {
        bus_master: false,
        msix_enable: false,
        function_mask: false,
    };
    /// As a driver sets it.
    pub const ENABLED: Self = Self {
        bus_master: true,
        msix_enable: true,
        function_mask: false,
    };
}

/// A read request of the card, and the part of it that is not completed.
#[derive(Debug)]
struct Read {
    due_cycle: u64,
    tag: u64,
    address: u64,
    bytes: u64,
}

/// The slot and the host.
#[derive(Debug)]
pub struct Slot {
    sizes: SlotSizes,
    latency_cycles: u64,
    link: Option<HostLink>,
    configuration: Configuration,
    flr_in_process: bool,
    /// The card has not seen configuration space yet.
    has_changed: bool,

    /// RQ.
    sink: RequestSink,
    takes_requests: bool,
    /// Writes that are not executed yet.
    posted: VecDeque<Request>,
    reads: VecDeque<Read>,
    /// Sequence numbers that are not reported yet; the first ones of them are on the ports.
    sequences: VecDeque<u8>,
    rc: CompletionSource,

    /// Requests of the host, and the beats of the one that is on CQ.
    requests: VecDeque<HostRequest>,
    beats: VecDeque<RequestBeat>,
    credits: u32,
    next_tag: u8,
    answer: Option<Completion>,
    /// Addresses in the card's MSI-X table.
    vectors: [u64; VECTOR_COUNT as usize],
}

impl Slot {
    /// Returns an empty slot.
    pub fn new(sizes: SlotSizes) -> Self {
        Self {
            sizes,
            latency_cycles: LINE_LATENCY_CYCLES,
            link: None,
            configuration: Configuration::ENABLED,
            flr_in_process: false,
            has_changed: false,
            sink: RequestSink::default(),
            takes_requests: false,
            posted: VecDeque::new(),
            reads: VecDeque::new(),
            sequences: VecDeque::new(),
            rc: CompletionSource::new(true),
            requests: VecDeque::new(),
            beats: VecDeque::new(),
            credits: 0,
            next_tag: 0,
            answer: None,
            vectors: [0; VECTOR_COUNT as usize],
        }
    }

    /// Sets the cycles from the request of a read to its first completion.
    pub fn set_latency_cycles(&mut self, cycles: u64) {
        self.latency_cycles = cycles;
    }

    /// Delays requests like this slot and host.
    pub fn set_link(&mut self, link: Option<HostLink>) {
        self.link = link;
    }

    /// Sets configuration space.
    pub fn configure(&mut self, configuration: Configuration) {
        self.configuration = configuration;
        self.has_changed = true;
    }

    /// Begins a function-level reset, which resets configuration space, too.
    pub fn begin_function_reset(&mut self) {
        self.flr_in_process = true;
        self.configuration = Configuration::RESET;
    }

    /// Returns true until the card has reported the end of the function-level reset.
    pub fn resets_function(&self) -> bool {
        self.flr_in_process
    }

    /// The card is being reset: its MSI-X table is, too, if this is a reset of the function.
    pub fn note_reset(&mut self) {
        if self.flr_in_process {
            self.vectors = [0; VECTOR_COUNT as usize];
        }
    }

    /// Returns to the state after power-on, with idle inputs.
    pub fn reset(&mut self, rtl: &mut PcieCard) {
        let old = std::mem::replace(self, Self::new(self.sizes));
        self.latency_cycles = old.latency_cycles;
        self.link = old.link;
        self.offer(rtl);
    }

    /// Returns true if nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.posted.is_empty()
            && self.reads.is_empty()
            && self.sequences.is_empty()
            && self.rc.is_empty()
            && self.requests.is_empty()
            && self.beats.is_empty()
            && !self.flr_in_process
            && !self.has_changed
    }

    // ------------------------------------------------------------------------ requests of the host

    /// Takes the host's next doorbell if the card has room for it, and no request waits. Returns
    /// true if there is one.
    pub fn take_doorbell<H: Host>(&mut self, rtl: &PcieCard, host: &mut H) -> bool {
        let is_free = self.requests.is_empty() && self.beats.is_empty() && rtl.cq_ready() != 0;
        if !is_free || rtl.doorbell_room() == 0 {
            return false;
        }
        let Some(doorbell) = host.next_doorbell() else {
            return false;
        };
        let value = doorbell.value.to_le_bytes();
        let request = HostRequest::write(BAR2, doorbell.slot << 3, &value);
        self.requests.push_back(request);
        true
    }

    /// Writes 4 or 8 bytes of BAR0 when the card runs next.
    pub fn write(&mut self, at: u32, source: &[u8]) {
        for (word, bytes) in (at..).step_by(4).zip(source.chunks(4)) {
            self.note_vector(word, bytes);
        }
        self.requests
            .push_back(HostRequest::write(BAR0, at, source));
    }

    /// A driver in this process has no kernel, which would give a vector its address and data
    /// before it unmasks the vector. So the slot does it.
    fn note_vector(&mut self, at: u32, source: &[u8]) {
        let Some(at) = at.checked_sub(MSIX_TABLE_OFFSET) else {
            return;
        };
        let number = at / MSIX_ENTRY_SIZE;
        let Some(address) = self.vectors.get_mut(number as usize) else {
            return;
        };
        let word = source.iter().rev();
        let word = word.fold(0, |word, byte| word << 8 | u64::from(*byte));
        match at % MSIX_ENTRY_SIZE {
            0 => *address = *address & !u64::from(u32::MAX) | word,
            4 => *address = *address & u64::from(u32::MAX) | word << 32,
            12 if *address == 0 => {
                *address = MESSAGES.start;
                let entry = MSIX_TABLE_OFFSET + number * MSIX_ENTRY_SIZE;
                let address = HostRequest::write(BAR0, entry, &address.to_le_bytes());
                let data = HostRequest::write(BAR0, entry + 8, &number.to_le_bytes());
                self.requests.extend([address, data]);
            }
            _ => {}
        }
    }

    /// Requests a register. Returns the tag of its answer.
    pub fn request(&mut self, at: u32, size: usize) -> u8 {
        let tag = self.next_tag;
        self.next_tag = tag.wrapping_add(1);
        self.answer = None;
        let request = HostRequest::read(BAR0, at, size, tag);
        self.requests.push_back(request);
        tag
    }

    /// Returns the answer with this tag, if it has come. The value of a register that was refused
    /// is all ones, as from a root complex.
    pub fn answer(&self, tag: u8) -> Option<u64> {
        let answer = self.answer.filter(|answer| answer.tag == tag)?;
        Some(answer.data.unwrap_or(u64::MAX))
    }

    // ------------------------------------------------------------------------------------- a cycle

    /// Sets the inputs of a cycle.
    pub fn offer(&mut self, rtl: &mut PcieCard) {
        rtl.set_cfg_max_payload(self.sizes.max_payload_code());
        rtl.set_cfg_max_read_req(self.sizes.max_read_code());
        rtl.set_cfg_ext_tag(1);
        rtl.set_bus_master(self.configuration.bus_master.into());
        rtl.set_msix_enable(self.configuration.msix_enable.into());
        rtl.set_msix_mask(self.configuration.function_mask.into());
        rtl.set_flr_in_process(self.flr_in_process.into());
        self.offer_request(rtl);
        let cycle = rtl.cycles();
        let link = self.link.as_ref();
        self.takes_requests = link.is_none_or(|link| link.is_free(cycle));
        rtl.set_rq_ready(self.takes_requests.into());
        rtl.set_cc_ready(1);
        let mut reported = self.sequences.iter().copied();
        let (first, second) = (reported.next(), reported.next());
        rtl.set_sequence_valid(u8::from(first.is_some()) | u8::from(second.is_some()) << 1);
        rtl.set_sequence_0(first.unwrap_or(0));
        rtl.set_sequence_1(second.unwrap_or(0));
        rtl.set_rc_valid(u8::from(!self.rc.is_empty()));
        if let Some((data, user)) = self.rc.first() {
            rtl.set_rc_data(words(data, 0));
            rtl.set_rc_user(*user);
        }
    }

    /// Puts a request of the host on CQ; a read needs a credit.
    fn offer_request(&mut self, rtl: &mut PcieCard) {
        if self.beats.is_empty()
            && let Some(request) = self.requests.front()
            && (!request.is_read() || self.credits > 0)
        {
            self.credits -= u32::from(request.is_read());
            self.beats.extend(request.beats());
            self.requests.pop_front();
        }
        rtl.set_cq_valid(u8::from(!self.beats.is_empty()));
        if let Some(beat) = self.beats.front() {
            rtl.set_cq_data(words(&beat.data, 0));
            rtl.set_cq_last(beat.is_last.into());
            rtl.set_cq_user(beat.user);
        }
    }

    /// Takes the outputs of a cycle, which have settled.
    pub fn take(&mut self, rtl: &PcieCard) {
        if rtl.cq_ready() != 0 {
            self.beats.pop_front();
        }
        self.has_changed = false;
        self.credits += u32::from(rtl.cq_np_req());
        if rtl.cc_valid() != 0 {
            self.answer = Some(Completion::of_beat(&bytes(rtl.cc_data())));
        }
        self.sequences.drain(..self.sequences.len().min(2));
        if rtl.rq_valid() != 0 && self.takes_requests {
            let requests = self.sink.take(&bytes(rtl.rq_data()), &rtl.rq_user());
            for request in requests {
                self.take_request(rtl.cycles(), request);
            }
        }
        if rtl.rc_ready() != 0 {
            self.rc.pop();
        }
        if rtl.flr_done() != 0 {
            self.flr_in_process = false;
        }
    }

    // ------------------------------------------------------------------------ requests of the card

    fn take_request(&mut self, cycle: u64, request: Request) {
        self.sequences.push_back(request.sequence);
        let descriptor = &request.bytes[..DESCRIPTOR];
        let address = bits(descriptor, 2, 62) << 2;
        let length = 4 * bits(descriptor, 64, 11);
        if bits(descriptor, 75, 4) != MEMORY_READ {
            if let Some(link) = &mut self.link {
                match message_of(address, &request) {
                    Some(_) => link.interrupt(cycle),
                    None => link.write(cycle, address, length),
                }
            }
            self.posted.push_back(request);
            return;
        }
        let due_cycle = match &mut self.link {
            Some(link) => link.read(cycle, address, length),
            None => cycle + self.latency_cycles,
        };
        self.reads.push_back(Read {
            due_cycle,
            tag: bits(descriptor, 96, 8),
            address,
            bytes: length,
        });
    }

    /// Executes the writes that have left the card.
    pub fn execute_posted<H: Host>(&mut self, now: Instant, host: &mut H) {
        while let Some(request) = self.posted.pop_front() {
            execute(&request, now, host);
        }
    }

    /// Sends completions of reads that are due.
    pub fn complete<H: Host>(&mut self, cycle: u64, now: Instant, host: &mut H) {
        while self.rc.len() < BEATS_AHEAD
            && let Some(read) = self.reads.front_mut()
            && read.due_cycle <= cycle
        {
            let (tlp, count) = completion(read, self.sizes.max_payload(), now, host);
            self.rc.send(&tlp, false);
            read.address += count;
            read.bytes -= count;
            if read.bytes == 0 {
                self.reads.pop_front();
            }
        }
    }
}

/// Returns the next completion of a read, and its part of the read: up to the next multiple of MPS,
/// or the whole read if the host refuses the access.
fn completion<H: Host>(
    read: &Read,
    max_payload: u64,
    now: Instant,
    host: &mut H,
) -> (Vec<u8>, u64) {
    let end = (read.address / max_payload + 1) * max_payload;
    let count = (end - read.address).min(read.bytes);
    let mut payload = vec![0; count as usize];
    let result = host.dma_read(now, read.address, &mut payload);
    let low = read.address & 0xfff | read.bytes << 16;
    let (count, low) = match result {
        Ok(_) => {
            let is_last = u64::from(count == read.bytes);
            (count, low | is_last << 30 | (count / 4) << 32)
        }
        Err(_) => {
            payload.clear();
            let status = CODE_STATUS << 12 | UNSUPPORTED << 43;
            (read.bytes, low | 1 << 30 | status)
        }
    };
    let mut tlp = low.to_le_bytes().to_vec();
    tlp.extend((read.tag as u32).to_le_bytes());
    tlp.extend(payload);
    (tlp, count)
}

/// Executes a write. A write that the host refuses has no effect: posted writes have no answer.
fn execute<H: Host>(request: &Request, now: Instant, host: &mut H) {
    let (descriptor, payload) = request.bytes.split_at(DESCRIPTOR);
    let address = bits(descriptor, 2, 62) << 2;
    let order = order_at(now);
    if let Some(vector) = message_of(address, request) {
        host.interrupt(order, vector);
        return;
    }
    let [first, last] = request.enables;
    let last = if payload.len() == 4 { first } else { last };
    let begin = first.trailing_zeros() as usize;
    let end = payload.len() + 4 - last.leading_zeros() as usize;
    let (mut at, mut rest) = (address + begin as u64, &payload[begin..end]);
    while !rest.is_empty() {
        let (run, others) = rest.split_at(rest.len().min(LINE - at as usize % LINE));
        write_run(at, run, order, host);
        (at, rest) = (at + run.len() as u64, others);
    }
}

/// Returns the vector of a write that is an MSI-X message. The data of a message is its vector.
fn message_of(address: u64, request: &Request) -> Option<u16> {
    let data: [u8; 4] = request.bytes.get(DESCRIPTOR..)?.try_into().ok()?;
    let is_message = MESSAGES.contains(&address) && request.enables == [0xf, 0];
    is_message.then_some(u32::from_le_bytes(data) as u16)
}

//! State that requester, completer and responder of one queue pair share: the QP context.

use std::collections::VecDeque;

use ferroce_qp::{QpState, Service};
use ferroce_wire::{Bth, Opcode, Psn, Qpn, REORDER_WINDOW_PACKETS, pad_count};

use crate::attributes::Attributes;
use crate::completion::Completion;
use crate::config::Config;
use crate::event::{Event, EventSet};
use crate::note::Note;
use crate::recovery::RecoveryState;
use crate::recovery::ack_timer::AckTimer;
use crate::statistics::Statistics;
use crate::timer::Timers;
use crate::train::Trains;
use crate::transition::Transition;

/// State that every part of a queue pair accesses.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) qpn: Qpn,
    pub(crate) service: Service,
    pub(crate) state: QpState,
    /// A part found an error that ends the queue pair; the parent moves it to ERR and flushes.
    pub(crate) fault: bool,
    pub(crate) events: EventSet,
    pub(crate) attributes: Attributes,
    pub(crate) config: Config,
    pub(crate) timers: Timers,
    pub(crate) completions: VecDeque<Completion>,
    pub(crate) statistics: Statistics,
    pub(crate) note: Option<Box<Note>>,
    pub(crate) trains: Trains,
    /// Waits for acknowledgements.
    pub(crate) ack_timer: AckTimer,
    /// Recovery beyond go-back-N.
    pub(crate) recovery: Option<Box<RecoveryState>>,
}

impl Context {
    /// Keeps an observation until it is taken, for explanations.
    #[cold]
    pub(crate) fn notice(&mut self, note: Note) {
        self.note = Some(Box::new(note));
    }

    pub(crate) fn new(qpn: Qpn, service: Service, config: Config) -> Context {
        Context {
            qpn,
            service,
            state: QpState::Reset,
            fault: false,
            events: EventSet::default(),
            attributes: Attributes::new(),
            config: config.bounded(),
            timers: Timers::new(),
            completions: VecDeque::new(),
            statistics: Statistics::default(),
            note: None,
            trains: Trains::default(),
            ack_timer: AckTimer::default(),
            recovery: None,
        }
    }

    /// Resets everything except identity, policy and uncounted statistics (to RESET).
    pub(crate) fn reset(&mut self) {
        let statistics = self.statistics;
        *self = Context {
            statistics,
            ..Context::new(self.qpn, self.service, self.config)
        };
    }

    /// Applies the attributes of a checked transition, and its target state.
    pub(crate) fn apply(&mut self, transition: &Transition, target: QpState) {
        let has_peer = !self.service.is_datagram();
        let is_reliable = has_peer && self.service != Service::UnreliableConnected;
        match transition {
            Transition::Reset => self.reset(),
            Transition::Init(init) => self.attributes.apply_init(init),
            Transition::Rtr { attributes, .. } if has_peer => self.attributes.apply_rtr(attributes),
            Transition::Rts { attributes, .. } if is_reliable => {
                self.attributes.apply_rts(attributes);
            }
            // The parent moves the queue pair to ERR when it flushes.
            Transition::Err => self.fault = self.state != QpState::Err,
            _ => {}
        }
        if let Some(update) = transition.update() {
            self.attributes.apply_update(update);
        }
        if !self.fault {
            self.state = target;
        }
    }

    /// Returns the maximum number of request packets in flight: with selective repeat at most as
    /// many as the responder keeps after a gap.
    #[inline]
    pub(crate) fn max_unacknowledged_packets(&self) -> u32 {
        let max = self.config.max_unacknowledged_packets;
        if self.is_selective() {
            max.min(REORDER_WINDOW_PACKETS)
        } else {
            max
        }
    }

    /// Returns true if both sides use selective repeat.
    #[inline]
    pub(crate) fn is_selective(&self) -> bool {
        self.recovery
            .as_ref()
            .is_some_and(|recovery| recovery.is_selective())
    }

    pub(crate) fn complete(&mut self, completion: Completion) {
        self.completions.push_back(completion);
    }

    pub(crate) fn raise(&mut self, event: Event) {
        self.events.raise(event);
    }

    /// Returns the initial header of all packets of this queue pair; the constructor of the packet
    /// sets the opcode.
    pub(crate) fn bth(&self, psn: Psn, payload_length: u32) -> Bth {
        let mut bth = Bth::new(Opcode(0), self.attributes.dest_qp, psn);
        bth.p_key = self.attributes.p_key;
        bth.pad_count = pad_count(payload_length as usize);
        bth
    }
}

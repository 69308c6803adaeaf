//! The edge between the card and its host: the card's own lines of 64 bytes, or the TLPs of its
//! PCIe endpoint.

use ferroce_model::ports::host::Host;
use ferroce_rtl_harness::{LINE, Simulation};
use ferroce_units::Instant;

use crate::memory::Lines;
use crate::slot::Slot;
use crate::verilated::{Card, PcieCard};

/// A Verilated card with the host's side of its edge.
#[derive(Debug)]
pub enum Edge {
    /// Lines, and accesses to BARs that take a cycle.
    Lines(Card, Box<Lines>),
    /// The streams of a PCIe hard block.
    Slot(PcieCard, Box<Slot>),
}

/// Ports that the card has with either edge.
macro_rules! ports {
    (inputs { $($set:ident: $input:ty,)* } outputs { $($get:ident: $output:ty,)* }) => {
        impl Edge {
            $(
                pub fn $set(&mut self, value: $input) {
                    match self {
                        Self::Lines(card, _) => card.$set(value),
                        Self::Slot(card, _) => card.$set(value),
                    }
                }
            )*
            $(
                pub fn $get(&self) -> $output {
                    match self {
                        Self::Lines(card, _) => card.$get(),
                        Self::Slot(card, _) => card.$get(),
                    }
                }
            )*
        }
    };
}

ports! {
    inputs {
        set_now_ns: u64,
        set_timer_ns: u64,
        set_mac: u64,
        set_link_up: u8,
        set_qpn_base: u16,
        set_fail_injected: u8,
        set_hang_commands: u8,
        set_tx_ready: u8,
        set_rx_valid: u8,
        set_rx_data: [u32; LINE / 4],
        set_rx_bytes: u8,
        set_rx_last: u8,
        set_rx_error: u8,
    }
    outputs {
        quiet: u8,
        stopped: u8,
        resetting: u8,
        deadline_valid: u8,
        deadline_ns: u64,
        timer_deadline_valid: u8,
        timer_deadline_ns: u64,
        tx_valid: u8,
        tx_data: [u32; LINE / 4],
        tx_bytes: u8,
        tx_last: u8,
        rx_room: u8,
        gid_valid: u8,
        gid_index: u8,
        gid: [u32; 4],
        begins_valid: u8,
        begins_qpn: u32,
        gsi_is_open: u8,
    }
}

impl Edge {
    /// Returns the card with its lines.
    pub fn lines() -> Self {
        Self::Lines(Card::new(), Box::default())
    }

    /// Returns the card in a slot.
    pub fn slot(slot: Slot) -> Self {
        Self::Slot(PcieCard::new(), Box::new(slot))
    }

    /// Returns the module's clock.
    pub fn simulation(&mut self) -> &mut Simulation {
        match self {
            Self::Lines(card, _) => card,
            Self::Slot(card, _) => card,
        }
    }

    /// Returns the number of clock cycles.
    pub fn cycles(&self) -> u64 {
        match self {
            Self::Lines(card, _) => card.cycles(),
            Self::Slot(card, _) => card.cycles(),
        }
    }

    /// Holds the reset of power-on for some cycles, and drops everything in flight.
    pub fn reset_at_power_on(&mut self, cycles: u64) {
        match self {
            Self::Lines(card, lines) => {
                lines.rest(card);
                card.set_rst(1);
                (0..cycles).for_each(|_| card.cycle());
                card.set_rst(0);
                lines.reset();
            }
            Self::Slot(card, slot) => {
                slot.reset(card);
                card.set_rst(1);
                (0..cycles).for_each(|_| card.cycle());
                card.set_rst(0);
            }
        }
    }

    /// Begins to read 4 or 8 bytes of BAR0. Returns the tag of the answer.
    pub fn begin_read(&mut self, at: u16, is_wide: bool) -> u8 {
        match self {
            Self::Lines(card, _) => {
                card.set_read_at(at);
                card.set_read_wide(is_wide.into());
                card.set_read_valid(1);
                0
            }
            Self::Slot(_, slot) => slot.request(at.into(), if is_wide { 8 } else { 4 }),
        }
    }

    /// Returns the answer after a cycle, if it has come.
    pub fn end_read(&mut self, tag: u8) -> Option<u64> {
        match self {
            Self::Lines(card, _) => {
                card.set_read_valid(0);
                Some(card.read_data())
            }
            Self::Slot(_, slot) => slot.answer(tag),
        }
    }

    /// Begins to write 4 or 8 bytes of BAR0: with lines, in the next cycle.
    pub fn begin_write(&mut self, at: u16, value: u64, is_wide: bool) {
        match self {
            Self::Lines(card, _) => {
                card.set_write_at(at);
                card.set_write_data(value);
                card.set_write_wide(is_wide.into());
                card.set_write_valid(1);
            }
            Self::Slot(_, slot) => {
                let value = value.to_le_bytes();
                slot.write(at.into(), &value[..if is_wide { 8 } else { 4 }]);
            }
        }
    }

    /// Ends that cycle.
    pub fn end_write(&mut self) {
        if let Self::Lines(card, _) = self {
            card.set_write_valid(0);
        }
    }

    /// Returns true if nothing is in flight.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Lines(_, lines) => lines.is_empty(),
            Self::Slot(_, slot) => slot.is_empty(),
        }
    }

    /// Sets the inputs of a cycle. Returns true if there is a doorbell.
    pub fn offer<H: Host>(&mut self, now: Instant, host: &mut H) -> bool {
        match self {
            Self::Lines(card, lines) => {
                let has_doorbell = lines.offer_doorbell(card, host);
                lines.offer_line(card, now, host);
                has_doorbell
            }
            Self::Slot(card, slot) => {
                let has_doorbell = slot.take_doorbell(card, host);
                slot.execute_posted(now, host);
                slot.complete(card.cycles(), now, host);
                slot.offer(card);
                has_doorbell
            }
        }
    }

    /// Takes the outputs of a cycle, which have settled.
    pub fn take<H: Host>(&mut self, now: Instant, host: &mut H) {
        match self {
            Self::Lines(card, lines) => lines.take(card, now, host),
            Self::Slot(card, slot) => {
                slot.take(card);
                slot.execute_posted(now, host);
            }
        }
    }

    /// Sets the inputs of a cycle in which the host serves no DMA.
    pub fn offer_alone(&mut self) {
        match self {
            Self::Lines(card, lines) => lines.rest(card),
            Self::Slot(card, slot) => {
                slot.offer(card);
                card.settle();
            }
        }
    }

    /// Takes the outputs of such a cycle. Writes wait for the host.
    pub fn take_alone(&mut self) {
        if let Self::Slot(card, slot) = self {
            slot.take(card);
        }
    }
}

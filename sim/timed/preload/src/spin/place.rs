//! Addresses that the loads of a loop read.

use std::ops::Range;

use ferroce_timed_protocol::request::Check;
use iced_x86::{Instruction, Register};

use super::card_memory::CardMemory;
use super::cycle::{Cycle, load_operand, written};
use super::registers::Registers;

/// Maximum number of loads of a loop that are watched separately.
pub const MAX_PLACES: usize = 4;
/// Loads at most this far apart are watched as one range.
const NEAR_BYTES: u64 = 4096;
/// Words of an encoded place.
pub const PLACE_WORDS: usize = 3;

/// The address of a load, as a function of the registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    base: Option<Register>,
    index: Option<(Register, u32)>,
    displacement: u64,
    bytes: u64,
}

impl Place {
    /// Returns the place of an instruction's load. `None`: its address has another form.
    pub fn of(instruction: &Instruction) -> Option<Self> {
        load_operand(instruction)?;
        if instruction.segment_prefix() != Register::None {
            return None;
        }
        let register = |register| (register != Register::None).then_some(register);
        let (base, displacement) = if instruction.is_ip_rel_memory_operand() {
            (None, instruction.ip_rel_memory_address())
        } else {
            (
                register(instruction.memory_base()),
                instruction.memory_displacement64(),
            )
        };
        let place = Self {
            base,
            index: register(instruction.memory_index())
                .map(|index| (index, instruction.memory_index_scale())),
            displacement,
            bytes: instruction.memory_size().size() as u64,
        };
        let is_plain = |register: Register| register.full_register() == register;
        let registers = [place.base, place.index.map(|(index, _)| index)];
        (place.bytes > 0 && registers.into_iter().flatten().all(is_plain)).then_some(place)
    }

    /// Returns the registers that determine the address.
    fn registers(&self) -> impl Iterator<Item = Register> {
        let index = self.index.map(|(index, _)| index);
        [self.base, index].into_iter().flatten()
    }

    /// Encodes the place.
    pub fn to_words(self) -> [u64; PLACE_WORDS] {
        let number = |register: Register| register as u64;
        let base = self.base.map_or(0, number);
        let (index, scale) = self
            .index
            .map_or((0, 0), |(index, scale)| (number(index), u64::from(scale)));
        let parts = base | index << 16 | scale << 32 | self.bytes << 40;
        [parts, self.displacement, 1]
    }

    /// Decodes a place. `None`: the words are empty.
    pub fn of_words([parts, displacement, is_stored]: [u64; PLACE_WORDS]) -> Option<Self> {
        let register = |number: u64| {
            let register = Register::try_from((number & 0xffff) as usize).ok()?;
            (register != Register::None).then_some(register)
        };
        (is_stored != 0).then(|| Self {
            base: register(parts),
            index: register(parts >> 16).map(|index| (index, (parts >> 32) as u32 & 0xff)),
            displacement,
            bytes: parts >> 40,
        })
    }

    /// Returns the addresses for these registers.
    fn range(&self, registers: &Registers) -> Option<Range<u64>> {
        let base = self.base.map_or(Some(0), |base| registers.get(base))?;
        let index = match self.index {
            Some((index, scale)) => registers.get(index)?.wrapping_mul(scale.into()),
            None => 0,
        };
        let start = base.wrapping_add(index).wrapping_add(self.displacement);
        Some(start..start.checked_add(self.bytes)?)
    }
}

/// All places that a loop checks; the first is loaded by the instruction at which checks are
/// counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Places(pub [Option<Place>; MAX_PLACES]);

impl Places {
    /// Returns the places of a loop, computed from the registers at the instruction at `first`.
    /// `None`: not all follow from these registers, or there are too many.
    pub fn of(cycle: &Cycle, first: usize) -> Option<Self> {
        let mut places = Self::default();
        let mut free = places.0.iter_mut();
        let mut changed = [None; super::cycle::MAX_INSTRUCTIONS];
        for turn in 0..cycle.length() {
            let step = cycle.step((first + turn) % cycle.length())?;
            let instruction = &step.instruction;
            if load_operand(instruction).is_some() {
                let place = Place::of(instruction)?;
                let is_changed = |register| changed.contains(&Some(register));
                if place.registers().any(is_changed) {
                    return None;
                }
                *free.next()? = Some(place);
            }
            *changed.get_mut(turn)? = written(instruction).map(Register::full_register);
        }
        Some(places)
    }

    /// Returns what can end the loop's waiting with these registers: writes of the card to the
    /// places that it may write to.
    pub fn check(&self, registers: &Registers, card: &CardMemory) -> Check {
        if card.has_other_addresses() {
            return Check::Everything;
        }
        let mut own = None;
        let mut watched: Option<Range<u64>> = None;
        for place in self.0.iter().flatten() {
            let Some(range) = place.range(registers) else {
                return Check::Everything;
            };
            own.get_or_insert_with(|| range.clone());
            if card.touches(&range) {
                let before = watched.take().unwrap_or_else(|| range.clone());
                watched = Some(before.start.min(range.start)..before.end.max(range.end));
            }
        }
        match watched.or(own) {
            Some(range) if range.end - range.start <= NEAR_BYTES => Check::Memory(range),
            _ => Check::Everything,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cycle::Progress;
    use super::super::cycle::tests::{WRITE_LAT, decode, nothing};
    use super::super::registers::GENERAL;
    use super::*;

    fn cycle_of(code: &[u8]) -> Cycle {
        let mut cycle = Cycle::new();
        for step in decode(0x2000, code) {
            assert_eq!(cycle.add(step, &Registers::ZERO, nothing), Progress::More);
        }
        cycle
    }

    fn with(values: &[(usize, u64)]) -> Registers {
        let mut general = [0; GENERAL];
        values
            .iter()
            .for_each(|(place, value)| general[*place] = *value);
        Registers::new(general, 0)
    }

    #[test]
    fn only_what_the_card_may_write_is_watched() {
        let places = Places::of(&cycle_of(WRITE_LAT), 2).expect("known places");
        let registers = with(&[(5, 0x9000_0010), (14, 0x7000)]);
        let card = Box::new(CardMemory::new());
        // The card may write to both, and they are far apart.
        assert_eq!(places.check(&registers, &card), Check::Everything);
        card.add(0x9000_0000, 0x1000);
        let buffer = Check::Memory(0x9000_0010..0x9000_0011);
        assert_eq!(places.check(&registers, &card), buffer);
        card.add(0x7000, 0x1000);
        assert_eq!(places.check(&registers, &card), Check::Everything);
        let registers = with(&[(5, 0x7010), (14, 0x7000)]);
        assert_eq!(
            places.check(&registers, &card),
            Check::Memory(0x7010..0x71f8)
        );
        card.add(0, usize::MAX);
        assert_eq!(places.check(&registers, &card), Check::Everything);
    }

    #[test]
    fn places_that_are_loaded_are_not_known() {
        // mov rax, [rbp-8]; movzx eax, byte [rax]; cmp eax, ecx; jne
        let code = [
            0x48, 0x8b, 0x45, 0xf8, 0x0f, 0xb6, 0x00, 0x39, 0xc8, 0x75, 0xf5,
        ];
        assert_eq!(Places::of(&cycle_of(&code), 0), None);
        // At the second load the register has its value.
        assert!(Places::of(&cycle_of(&code), 1).is_some());
    }

    #[test]
    fn places_are_kept() {
        let card = Box::new(CardMemory::new());
        let place = |code: &[u8]| Place::of(&decode(0x2000, code)[0].0);
        // cmp word [rbx + 4 * rcx - 6], ax
        let indexed = place(&[0x66, 0x39, 0x44, 0x8b, 0xfa]).expect("a load");
        assert_eq!(Place::of_words(indexed.to_words()), Some(indexed));
        assert_eq!(Place::of_words([0; 3]), None);
        let registers = with(&[(1, 10), (3, 0x1000)]);
        let check = |place| Places([Some(place), None, None, None]).check(&registers, &card);
        assert_eq!(check(indexed), Check::Memory(0x1022..0x1024));
        // mov eax, [rip + 0x10]
        let relative = place(&[0x8b, 0x05, 0x10, 0, 0, 0]).expect("a load");
        assert_eq!(check(relative), Check::Memory(0x2016..0x201a));
        // mov eax, fs:[0x10]
        assert_eq!(place(&[0x64, 0x8b, 0x04, 0x25, 0x10, 0, 0, 0]), None);
    }
}

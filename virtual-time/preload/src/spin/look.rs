//! What happens in each turn of a proven loop.

#![expect(unsafe_code, reason = "assembly")]

use std::arch::global_asm;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ferroce_virtual_time::page::NEVER_PS;
use ferroce_virtual_time::request::{Look, Wait};
use iced_x86::{Instruction, Register};

use super::cycle::load_operand;
use super::registers::{GENERAL, Registers};
use crate::os::keeping_errno;
use crate::own::Own;
use crate::session;
use crate::tsc::SAVE_BYTES;

/// Most loops that are copied.
pub const MAX_LOOPS: usize = 128;
/// Turns after which a thread that is not alone looks again: another may have changed what it
/// waits for, of which the world knows nothing.
const TURNS_WITH_OTHERS: u64 = 1000;

unsafe extern "C" {
    /// Not to be called as a function of C.
    fn ferroce_look_stub();
}

// On entry the return address lies on top of the stack, and below it a number: twice that of the
// loop, plus one if it is not the first look. All registers and flags are as before on return.
global_asm!(
    ".pushsection .text.ferroce_look_stub,\"ax\",@progbits",
    ".balign 16",
    ".globl ferroce_look_stub",
    ".hidden ferroce_look_stub",
    ".type ferroce_look_stub,@function",
    "ferroce_look_stub:",
    "pushfq",
    "push r15",
    "push r14",
    "push r13",
    "push r12",
    "push r11",
    "push r10",
    "push r9",
    "push r8",
    "push rdi",
    "push rsi",
    "push rbp",
    "push rsp",
    "push rbx",
    "push rdx",
    "push rcx",
    "push rax",
    "cld",
    "mov rbp, rsp",
    "sub rsp, qword ptr [rip + {save_bytes}]",
    "and rsp, -64",
    // The header of the saved state has to be zero where xsave does not write it.
    "xor eax, eax",
    "mov qword ptr [rsp + 512], rax",
    "mov qword ptr [rsp + 520], rax",
    "mov qword ptr [rsp + 528], rax",
    "mov qword ptr [rsp + 536], rax",
    "mov qword ptr [rsp + 544], rax",
    "mov qword ptr [rsp + 552], rax",
    "mov qword ptr [rsp + 560], rax",
    "mov qword ptr [rsp + 568], rax",
    "mov eax, -1",
    "mov edx, -1",
    "xsave64 [rsp]",
    "mov rdi, rbp",
    "call {look}",
    "mov eax, -1",
    "mov edx, -1",
    "xrstor64 [rsp]",
    "mov rsp, rbp",
    "pop rax",
    "pop rcx",
    "pop rdx",
    "pop rbx",
    // Not into rsp.
    "lea rsp, [rsp + 8]",
    "pop rbp",
    "pop rsi",
    "pop rdi",
    "pop r8",
    "pop r9",
    "pop r10",
    "pop r11",
    "pop r12",
    "pop r13",
    "pop r14",
    "pop r15",
    "popfq",
    "ret",
    ".size ferroce_look_stub, . - ferroce_look_stub",
    ".popsection",
    save_bytes = sym SAVE_BYTES,
    look = sym look,
);

/// What the stub leaves on the stack.
#[repr(C)]
struct Frame {
    general: [u64; GENERAL],
    flags: u64,
    return_address: u64,
    number: u64,
}

/// A loop that has been copied.
struct Loop {
    /// The registers at its last look, the flags, and the page of the thread.
    last: [AtomicU64; GENERAL + 1],
    page: AtomicUsize,
    /// Where it looks, if that is one place only: what [`Place`] says.
    place: [AtomicU64; 3],
}

static LOOPS: [Loop; MAX_LOOPS] = [const {
    Loop {
        last: [const { AtomicU64::new(0) }; GENERAL + 1],
        page: AtomicUsize::new(0),
        place: [const { AtomicU64::new(0) }; 3],
    }
}; MAX_LOOPS];
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Where an instruction loads, by the registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    base: Option<Register>,
    index: Option<(Register, u32)>,
    displacement: u64,
    bytes: u64,
}

impl Place {
    /// That of an instruction. `None`: it loads in another way.
    pub fn of(instruction: &Instruction) -> Option<Self> {
        load_operand(instruction)?;
        if instruction.segment_prefix() != Register::None {
            return None;
        }
        let register = |register| (register != Register::None).then_some(register);
        let (base, displacement) = match instruction.is_ip_rel_memory_operand() {
            true => (None, instruction.ip_rel_memory_address()),
            false => (
                register(instruction.memory_base()),
                instruction.memory_displacement64(),
            ),
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

    /// The addresses, with these registers.
    fn range(&self, registers: &Registers) -> Option<std::ops::Range<u64>> {
        let base = self.base.map_or(Some(0), |base| registers.get(base))?;
        let index = match self.index {
            Some((index, scale)) => registers.get(index)?.wrapping_mul(scale.into()),
            None => 0,
        };
        let start = base.wrapping_add(index).wrapping_add(self.displacement);
        Some(start..start.checked_add(self.bytes)?)
    }
}

/// The addresses at which a proven loop looks. `None`: more than one place.
pub fn watched(place: Option<Place>, registers: &Registers) -> Look {
    match place.and_then(|place| place.range(registers)) {
        Some(range) => Look::Memory(range),
        None => Look::Everything,
    }
}

/// A place in the table for a loop. `None`: there are too many, or the processor cannot do it.
pub fn reserve(place: Option<Place>) -> Option<(u64, u32)> {
    let count = COUNT.load(Ordering::Relaxed);
    let own = LOOPS.get(count as usize)?;
    if SAVE_BYTES.load(Ordering::Relaxed) == 0 {
        return None;
    }
    own.set_place(place);
    COUNT.store(count + 1, Ordering::Relaxed);
    Some((ferroce_look_stub as *const () as u64, 2 * count))
}

impl Loop {
    fn set_place(&self, place: Option<Place>) {
        let number = |register: Register| register as u64;
        let words = place.map_or([0; 3], |place| {
            let base = place.base.map_or(0, number);
            let (index, scale) = place
                .index
                .map_or((0, 0), |(index, scale)| (number(index), u64::from(scale)));
            let parts = base | index << 16 | scale << 32 | place.bytes << 40;
            [parts, place.displacement, 1]
        });
        for (cell, word) in self.place.iter().zip(words) {
            cell.store(word, Ordering::Relaxed);
        }
    }

    fn place(&self) -> Option<Place> {
        let [parts, displacement, has_place] =
            [0, 1, 2].map(|word: usize| self.place[word].load(Ordering::Relaxed));
        let register = |number: u64| {
            let register = Register::try_from((number & 0xffff) as usize).ok()?;
            (register != Register::None).then_some(register)
        };
        (has_place != 0).then(|| Place {
            base: register(parts),
            index: register(parts >> 16).map(|index| (index, (parts >> 32) as u32 & 0xff)),
            displacement,
            bytes: parts >> 40,
        })
    }

    /// Whether the registers are those of the last look; they are from now on.
    fn is_as_before(&self, frame: &Frame, flags: u64, page: usize) -> bool {
        let mut is_same = self.page.swap(page, Ordering::Relaxed) == page;
        let words = frame.general.iter().chain(std::iter::once(&flags));
        for (cell, word) in self.last.iter().zip(words) {
            is_same &= cell.swap(*word, Ordering::Relaxed) == *word;
        }
        is_same
    }
}

/// A turn of a loop.
extern "C" fn look(frame: &Frame) {
    keeping_errno(|| {
        let Some(own) = Own::enter() else {
            return;
        };
        let Some(known) = LOOPS.get((frame.number / 2) as usize) else {
            return;
        };
        let registers = Registers::new(frame.general, frame.flags);
        let is_same = known.is_as_before(frame, registers.flags(), own.page_address());
        match is_same && frame.number % 2 == 1 {
            true => wait_for_change(&own, watched(known.place(), &registers)),
            false => {
                own.catch_up();
                own.spend(own.memory_poll_ps());
            }
        }
    });
}

/// Waits until something has changed of what a loop looks at, and pays for the look that finds it.
pub fn wait_for_change(own: &Own, look: Look) {
    let grid_ps = own.memory_poll_ps().max(1);
    let (look, deadline_ps) = match session::thread_count() > 1 {
        true => {
            let time_ps = TURNS_WITH_OTHERS.saturating_mul(grid_ps);
            (Look::Everything, own.now_ps().saturating_add(time_ps))
        }
        false => (look, NEVER_PS),
    };
    own.wait(&Wait::OnWrite { grid_ps, look }, deadline_ps);
    own.spend(own.memory_poll_ps());
}

#[cfg(test)]
mod tests {
    use super::super::cycle::tests::decode;
    use super::*;

    #[test]
    fn places_are_kept() {
        // cmp word [rbx + 4 * rcx - 6], ax
        let code = decode(0, &[0x66, 0x39, 0x44, 0x8b, 0xfa]);
        let place = Place::of(&code[0].0).expect("a load");
        let mut general = [0; GENERAL];
        (general[1], general[3]) = (10, 0x1000);
        let registers = Registers::new(general, 0);
        assert_eq!(
            watched(Some(place), &registers),
            Look::Memory(0x1022..0x1024)
        );
        let own = &LOOPS[MAX_LOOPS - 1];
        own.set_place(Some(place));
        assert_eq!(own.place(), Some(place));
        own.set_place(None);
        assert_eq!(own.place(), None);
        // mov eax, [rip + 0x10]
        let code = decode(0x2000, &[0x8b, 0x05, 0x10, 0, 0, 0]);
        let place = Place::of(&code[0].0);
        assert_eq!(watched(place, &registers), Look::Memory(0x2016..0x201a));
        // mov eax, fs:[0x10]
        let code = decode(0, &[0x64, 0x8b, 0x04, 0x25, 0x10, 0, 0, 0]);
        assert_eq!(watched(Place::of(&code[0].0), &registers), Look::Everything);
    }
}

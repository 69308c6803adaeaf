//! Loops that only check memory.

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::registers::Registers;

/// Maximum number of instructions of an iteration.
pub const MAX_INSTRUCTIONS: usize = 32;
/// Maximum number of observed iterations until two are equal: at first, registers may hold older
/// values.
const MAX_TURNS: u32 = 4;
/// Addresses up to this far above the stack pointer are the thread's own stack.
const STACK_BYTES: u64 = 8 << 20;

/// An instruction of an iteration.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The decoded instruction.
    pub instruction: Instruction,
    /// Its bytes; only the first [`Instruction::len`] count.
    pub bytes: [u8; 15],
    /// The address from which it loads.
    pub load: Option<u64>,
}

/// Progress of the proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It needs the next instruction.
    More,
    /// It is complete.
    Proven,
    /// It has failed.
    Failed,
}

/// The instructions that the thread has executed since it was at the first one.
#[derive(Debug)]
pub struct Cycle {
    steps: [Option<Step>; MAX_INSTRUCTIONS],
    length: usize,
    first: Registers,
    turns: u32,
}

impl Cycle {
    /// Creates an empty cycle.
    pub const fn new() -> Self {
        Self {
            steps: [None; MAX_INSTRUCTIONS],
            length: 0,
            first: Registers::ZERO,
            turns: 0,
        }
    }

    /// Removes all instructions.
    pub fn clear(&mut self) {
        self.length = 0;
        self.turns = 0;
    }

    /// Returns the instructions of an iteration.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.steps[..self.length].iter().flatten()
    }

    /// Returns their number.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the instruction at a place.
    pub fn step(&self, place: usize) -> Option<&Step> {
        self.steps.get(place)?.as_ref()
    }

    /// Adds the instruction that the thread is about to execute, with these registers. `memory`
    /// returns the bytes at an address that it is about to load from.
    pub fn add(
        &mut self,
        (instruction, bytes): (Instruction, [u8; 15]),
        registers: &Registers,
        memory: impl FnOnce(u64, usize) -> Option<u64>,
    ) -> Progress {
        let ip = instruction.ip();
        match self.step(0).map(|step| step.instruction.ip()) {
            Some(first) if self.length > 0 && first == ip => {
                if self.first == *registers {
                    return Progress::Proven;
                }
                self.turns += 1;
                self.length = 0;
                if self.turns >= MAX_TURNS {
                    return Progress::Failed;
                }
            }
            // A loop within the loop.
            _ if self.steps().any(|step| step.instruction.ip() == ip) => return Progress::Failed,
            _ => {}
        }
        if self.length == 0 {
            self.first = *registers;
        }
        if self.length == MAX_INSTRUCTIONS {
            return Progress::Failed;
        }
        let load = load_operand(&instruction).and_then(|operand| {
            instruction.virtual_address(operand, 0, |register, _, _| registers.get(register))
        });
        if !is_pure(&instruction) {
            let size = instruction.memory_size().size();
            let now = load.and_then(|load| memory(load, size));
            if !now.is_some_and(|now| is_failed_try(&instruction, registers, now)) {
                return Progress::Failed;
            }
        }
        self.steps[self.length] = Some(Step {
            instruction,
            bytes,
            load,
        });
        self.length += 1;
        Progress::More
    }

    /// Returns the indices of instructions at which a check may be counted, the best first:
    /// instructions that load from outside of the thread's own stack, in the order of their
    /// addresses.
    pub fn checks(&self) -> impl Iterator<Item = usize> {
        let stack = self.first.get(Register::RSP).unwrap_or(0);
        let rank = move |step: &Step| {
            let load = step.load?;
            let is_own = load.wrapping_sub(stack) < STACK_BYTES;
            Some((is_own, step.instruction.ip()))
        };
        let mut last = None;
        std::iter::from_fn(move || {
            let ranked = self.steps().enumerate();
            let ranked = ranked.filter_map(|(place, step)| Some((rank(step)?, place)));
            let next = ranked
                .filter(|(rank, _)| last.is_none_or(|last| *rank > last))
                .min()?;
            last = Some(next.0);
            Some(next.1)
        })
    }
}

/// Returns the operand through which a pure instruction loads.
pub fn load_operand(instruction: &Instruction) -> Option<u32> {
    if matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) {
        return None;
    }
    (0..instruction.op_count()).find(|operand| instruction.op_kind(*operand) == OpKind::Memory)
}

/// Returns true if an instruction changes only general registers and flags, and depends only on
/// registers, flags and its load.
fn is_pure(instruction: &Instruction) -> bool {
    if instruction.has_lock_prefix() || instruction.has_rep_prefix() && !is_pause(instruction) {
        return false;
    }
    match instruction.flow_control() {
        FlowControl::Next => {}
        FlowControl::ConditionalBranch => {
            return instruction.is_jcc_short_or_near();
        }
        FlowControl::UnconditionalBranch => return instruction.is_jmp_short_or_near(),
        _ => return false,
    }
    let changes_first = match instruction.mnemonic() {
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt => false,
        Mnemonic::Nop | Mnemonic::Pause | Mnemonic::Lfence | Mnemonic::Endbr64 => return true,
        Mnemonic::Cdqe | Mnemonic::Cwde => return true,
        Mnemonic::Mov
        | Mnemonic::Movzx
        | Mnemonic::Movsx
        | Mnemonic::Movsxd
        | Mnemonic::Movbe
        | Mnemonic::Lea
        | Mnemonic::And
        | Mnemonic::Or
        | Mnemonic::Xor
        | Mnemonic::Add
        | Mnemonic::Sub
        | Mnemonic::Shl
        | Mnemonic::Shr
        | Mnemonic::Sar
        | Mnemonic::Not
        | Mnemonic::Neg
        | Mnemonic::Bswap
        | Mnemonic::Sete
        | Mnemonic::Setne => true,
        _ => return false,
    };
    let are_general = (0..instruction.op_count()).all(|operand| {
        instruction.op_kind(operand) != OpKind::Register
            || is_general(instruction.op_register(operand))
    });
    let keeps_memory = !changes_first || instruction.op_kind(0) == OpKind::Register;
    let keeps_stack = !changes_first || instruction.op_register(0).full_register() != Register::RSP;
    are_general && keeps_memory && keeps_stack
}

/// Returns true if an instruction is a failed attempt to take a lock, which leaves memory as it is:
/// a comparison of unequal values (Intel SDM, CMPXCHG: "the destination is written back"), or an
/// exchange of equal ones. `memory` is the value in memory.
fn is_failed_try(instruction: &Instruction, registers: &Registers, memory: u64) -> bool {
    let size = instruction.memory_size().size();
    let mask = u64::MAX >> (64 - 8 * size.clamp(1, 8));
    let value = |register| registers.get(register).map(|value| value & mask);
    let own = (0..instruction.op_count())
        .filter(|operand| instruction.op_kind(*operand) == OpKind::Register)
        .map(|operand| instruction.op_register(operand))
        .next();
    match (instruction.mnemonic(), own) {
        (Mnemonic::Cmpxchg, Some(_)) => value(Register::RAX).is_some_and(|rax| rax != memory),
        (Mnemonic::Xchg, Some(own)) if is_general(own) && !is_high_byte(own) => {
            value(own.full_register()) == Some(memory)
        }
        _ => false,
    }
}

fn is_high_byte(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    )
}

/// Returns the register that a pure instruction, or an attempt to take a lock, changes.
pub fn written(instruction: &Instruction) -> Option<Register> {
    match instruction.mnemonic() {
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt => None,
        Mnemonic::Cdqe | Mnemonic::Cwde | Mnemonic::Cmpxchg => Some(Register::RAX),
        Mnemonic::Xchg => (0..instruction.op_count())
            .find(|operand| instruction.op_kind(*operand) == OpKind::Register)
            .map(|operand| instruction.op_register(operand)),
        _ if instruction.op_count() == 0 || instruction.op_kind(0) != OpKind::Register => None,
        _ => Some(instruction.op_register(0)),
    }
}

fn is_general(register: Register) -> bool {
    register.is_gpr()
}

fn is_pause(instruction: &Instruction) -> bool {
    instruction.code() == Code::Pause
}

#[cfg(test)]
pub mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    /// Decodes the instructions of some code.
    pub fn decode(at: u64, code: &[u8]) -> Vec<(Instruction, [u8; 15])> {
        let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
        let mut decoded = Vec::new();
        while decoder.can_decode() {
            let start = decoder.position();
            let instruction = decoder.decode();
            let mut bytes = [0; 15];
            let own = &code[start..start + instruction.len()];
            bytes[..own.len()].copy_from_slice(own);
            decoded.push((instruction, bytes));
        }
        decoded
    }

    /// `ib_write_lat`'s: cmpl [r14+0x1f4], 3; je out; movzx eax, byte [rbp]; cmp al, sil; jne.
    pub const WRITE_LAT: &[u8] = &[
        0x41, 0x83, 0xbe, 0xf4, 0x01, 0x00, 0x00, 0x03, 0x0f, 0x84, 0x7a, 0xfe, 0xff, 0xff, 0x0f,
        0xb6, 0x45, 0x00, 0x40, 0x38, 0xf0, 0x75, 0xe9,
    ];

    fn registers(rbp: u64, r14: u64, rax: u64) -> Registers {
        let mut general = [0; 16];
        (general[0], general[4], general[5], general[14]) = (rax, 0x7ff0_0000_0000, rbp, r14);
        Registers::new(general, 0)
    }

    #[test]
    fn the_loop_of_write_lat_is_proven() {
        let code = decode(0x21c68, WRITE_LAT);
        let mut cycle = Cycle::new();
        // Starts after the load, with an older value in rax.
        for (turn, rax) in [5, 0].into_iter().enumerate() {
            let registers = registers(0x5000, 0x7ff0_0000_1000, rax);
            let rest = code[3..].iter().chain(&code[..3]);
            for step in rest {
                assert_eq!(
                    cycle.add(*step, &registers, nothing),
                    Progress::More,
                    "{turn}"
                );
            }
        }
        let registers = registers(0x5000, 0x7ff0_0000_1000, 0);
        assert_eq!(cycle.add(code[3], &registers, nothing), Progress::Proven);
        assert_eq!(cycle.length(), 5);
        let checks: Vec<_> = cycle.checks().collect();
        // The byte comes before the state, which is on the stack.
        assert_eq!(checks, [4, 2]);
        assert_eq!(cycle.step(4).expect("there").load, Some(0x5000));
    }

    #[test]
    fn loops_that_do_more_are_not() {
        let bad: [&[u8]; 9] = [
            &[0x89, 0x08],             // mov [rax], ecx
            &[0xff, 0x00],             // inc dword [rax]
            &[0x50],                   // push rax
            &[0xe8, 0, 0, 0, 0],       // call
            &[0xff, 0xe0],             // jmp rax
            &[0xf0, 0x0f, 0xb1, 0x0a], // lock cmpxchg [rdx], ecx
            &[0x0f, 0x05],             // syscall
            &[0x83, 0xc4, 0x08],       // add rsp, 8
            &[0x0f, 0x10, 0x00],       // movups xmm0, [rax]
        ];
        for code in bad {
            let decoded = decode(0x1000, code);
            assert!(
                !is_pure(&decoded[0].0),
                "{}",
                decoded[0].0.mnemonic() as u32
            );
        }
        let good: [&[u8]; 6] = [
            &[0xf3, 0x90],                   // pause
            &[0x80, 0x38, 0x00],             // cmp byte [rax], 0
            &[0x48, 0x8b, 0x05, 0, 1, 0, 0], // mov rax, [rip+0x100]
            &[0x85, 0x01],                   // test [rcx], eax
            &[0x75, 0xfe],                   // jne
            &[0x48, 0x8d, 0x40, 0x01],       // lea rax, [rax+1]
        ];
        for code in good {
            assert!(is_pure(&decode(0x1000, code)[0].0), "{code:x?}");
        }
    }

    #[test]
    fn loops_that_count_are_not() {
        let code = decode(0x1000, &[0x48, 0xff, 0xc8, 0x75, 0xfb]); // dec rax; jne
        let add = decode(0x1000, &[0x48, 0x83, 0xe8, 0x01, 0x75, 0xfa]); // sub rax, 1; jne
        let mut cycle = Cycle::new();
        assert_eq!(
            cycle.add(code[0], &registers(0, 0, 9), nothing),
            Progress::Failed
        );
        cycle.clear();
        let mut progress = Progress::More;
        for rax in (0..10).rev() {
            for step in &add {
                if progress == Progress::More {
                    progress = cycle.add(*step, &registers(0, 0, rax), nothing);
                }
            }
        }
        assert_eq!(progress, Progress::Failed);
    }

    /// Returns no memory for an attempt to take a lock.
    pub fn nothing(_: u64, _: usize) -> Option<u64> {
        None
    }

    #[test]
    fn tries_of_locks_that_fail_are_proven() {
        // mov eax, 0; lock cmpxchg [rbp], ecx; jne. The lock is taken: rax becomes 1.
        let compare = [0xb8, 0, 0, 0, 0, 0xf0, 0x0f, 0xb1, 0x4d, 0x00, 0x75, 0xf4];
        // mov eax, 1; xchg [rbp], eax; test eax, eax; jne.
        let exchange = [0xb8, 1, 0, 0, 0, 0x87, 0x45, 0x00, 0x85, 0xc0, 0x75, 0xf4];
        for (code, before) in [(&compare[..], 0), (&exchange[..], 1)] {
            let code = decode(0x1000, code);
            // Returns the progress of the proof when the instruction finds `memory`.
            let progress = |memory: u64| {
                let mut cycle = Cycle::new();
                let mut last = Progress::More;
                for (place, step) in code.iter().chain(&code[..1]).enumerate() {
                    let rax = if place == 1 { before } else { 1 };
                    let found = |_, _| Some(memory);
                    if last == Progress::More {
                        last = cycle.add(*step, &registers(0x5000, 0, rax), found);
                    }
                }
                last
            };
            assert_eq!(progress(1), Progress::Proven);
            assert_eq!(progress(0), Progress::Failed, "it takes the lock");
        }
    }
}

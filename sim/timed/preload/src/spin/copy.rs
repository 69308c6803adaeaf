//! A copy of a loop with a call in each iteration.
//!
//! ```text
//!   entry:  call, as a first check            again:  call, as a further check
//!   body:   the instructions of an iteration          jmp body
//!           branches out of it lead back
//!           to the program
//! ```

use iced_x86::{Code, ConstantOffsets, Decoder, DecoderOptions, FlowControl};

use super::cycle::{Cycle, Step};

/// Maximum length of a copy, in bytes.
pub const MAX_BYTES: usize = 512;
/// Functions may keep data this far below the stack pointer.
const RED_ZONE: i32 = 128;
/// Bytes of the call's argument on the stack.
const ARGUMENT_BYTES: i32 = 8;

/// The code of a copy.
#[derive(Debug)]
pub struct Copy {
    code: [u8; MAX_BYTES],
    length: usize,
    /// Address at which it will be.
    start: u64,
    body: usize,
}

impl Copy {
    /// Writes the copy of a loop that begins at the instruction at `first`, for address `start`. It
    /// calls `stub` with `number` on the stack, plus one for checks after the first. `None`: it
    /// cannot be written there.
    pub fn new(cycle: &Cycle, first: usize, start: u64, stub: u64, number: u32) -> Option<Self> {
        let mut copy = Self {
            code: [0; MAX_BYTES],
            length: 0,
            start,
            body: 0,
        };
        let first_call = copy.call(number)?;
        copy.body = copy.length;
        for place in 0..cycle.length() {
            let step = cycle.step((first + place) % cycle.length())?;
            let next = cycle.step((first + place + 1) % cycle.length())?;
            copy.step(step, next.instruction.ip())?;
        }
        let second_call = copy.call(number + 1)?;
        let body = start + copy.body as u64;
        copy.jump(&[0xe9], body)?;
        let pointer = copy.length;
        copy.bytes(&stub.to_le_bytes())?;
        for field in [first_call, second_call] {
            let distance = (pointer - field - 4) as i32;
            copy.code[field..field + 4].copy_from_slice(&distance.to_le_bytes());
        }
        Some(copy)
    }

    /// Returns its bytes.
    pub fn code(&self) -> &[u8] {
        &self.code[..self.length]
    }

    /// Returns the address after the first check: the first instruction.
    pub fn body(&self) -> u64 {
        self.start + self.body as u64
    }

    fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.length + bytes.len();
        self.code.get_mut(self.length..end)?.copy_from_slice(bytes);
        self.length = end;
        Some(())
    }

    /// Writes a call below the red zone. Returns the place of the distance to the address to call.
    fn call(&mut self, argument: u32) -> Option<usize> {
        // lea rsp, [rsp - 128]; push argument; call [rip + …]; lea rsp, [rsp + 136]
        self.bytes(&[0x48, 0x8d, 0x64, 0x24, 0x80, 0x68])?;
        self.bytes(&argument.to_le_bytes())?;
        self.bytes(&[0xff, 0x15])?;
        let field = self.length;
        self.bytes(&[0; 4])?;
        self.bytes(&[0x48, 0x8d, 0xa4, 0x24])?;
        self.bytes(&(RED_ZONE + ARGUMENT_BYTES).to_le_bytes())?;
        Some(field)
    }

    /// Writes a branch with these bytes before its distance.
    fn jump(&mut self, code: &[u8], to: u64) -> Option<()> {
        self.bytes(code)?;
        let next = self.start + self.length as u64 + 4;
        let distance = i32::try_from(to.wrapping_sub(next) as i64).ok()?;
        self.bytes(&distance.to_le_bytes())
    }

    /// Writes an instruction, after which the iteration continues at `next`.
    fn step(&mut self, step: &Step, next: u64) -> Option<()> {
        let instruction = &step.instruction;
        let bytes = step.bytes.get(..instruction.len())?;
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => {
                let target = instruction.near_branch_target();
                let condition = condition_of(bytes)?;
                // The direction that the loop does not take leads out of it; the condition is
                // inverted if the loop takes the branch.
                let (way_out, condition) = if target == next {
                    (instruction.next_ip(), condition ^ 1)
                } else {
                    (target, condition)
                };
                self.jump(&[0x0f, 0x80 | condition], way_out)
            }
            FlowControl::UnconditionalBranch => {
                (instruction.near_branch_target() == next).then_some(())
            }
            _ if instruction.next_ip() != next => None,
            _ => {
                let place = self.length;
                self.bytes(bytes)?;
                if instruction.is_ip_rel_memory_operand() {
                    let offsets = constants_of(bytes, instruction.ip(), instruction.code())?;
                    if offsets.displacement_size() != 4 {
                        return None;
                    }
                    let end = self.start + self.length as u64;
                    let distance = instruction.ip_rel_memory_address().wrapping_sub(end) as i64;
                    let distance = i32::try_from(distance).ok()?;
                    let field = place + offsets.displacement_offset();
                    let field = self.code.get_mut(field..field + 4)?;
                    field.copy_from_slice(&distance.to_le_bytes());
                }
                Some(())
            }
        }
    }
}

/// Returns the condition code of a branch.
fn condition_of(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [code @ 0x70..=0x7f, _] => Some(code & 0xf),
        [0x0f, code @ 0x80..=0x8f, ..] => Some(code & 0xf),
        _ => None,
    }
}

fn constants_of(bytes: &[u8], ip: u64, code: Code) -> Option<ConstantOffsets> {
    let mut decoder = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE);
    let again = decoder.decode();
    (again.code() == code).then(|| decoder.get_constant_offsets(&again))
}

#[cfg(test)]
mod tests {
    use super::super::cycle::Progress;
    use super::super::cycle::tests::{WRITE_LAT, decode, nothing};
    use super::super::registers::Registers;
    use super::*;

    fn cycle_of(at: u64, code: &[u8]) -> Cycle {
        let mut cycle = Cycle::new();
        let registers = Registers::ZERO;
        let decoded = decode(at, code);
        for step in &decoded {
            assert_eq!(cycle.add(*step, &registers, nothing), Progress::More);
        }
        assert_eq!(cycle.add(decoded[0], &registers, nothing), Progress::Proven);
        cycle
    }

    #[test]
    fn branches_lead_where_they_led() {
        let cycle = cycle_of(0x21c68, WRITE_LAT);
        // The iteration begins at the load of the byte.
        let copy = Copy::new(&cycle, 2, 0x1000, 0x1234_5678, 6).expect("it fits");
        let body = (copy.body() - 0x1000) as usize;
        let code = decode(copy.body(), &copy.code()[body..]);
        let texts: Vec<_> = code.iter().map(|(i, _)| i).take(5).collect();
        assert_eq!(texts[0].ip(), copy.body());
        assert_eq!(texts[0].memory_base(), iced_x86::Register::RBP);
        // jne back becomes je out, after the loop.
        assert_eq!(texts[2].code(), Code::Je_rel32_64);
        assert_eq!(
            texts[2].near_branch_target(),
            0x21c68 + WRITE_LAT.len() as u64
        );
        assert_eq!(texts[3].memory_displacement64(), 0x1f4);
        assert_eq!(texts[4].code(), Code::Je_rel32_64);
        assert_eq!(texts[4].near_branch_target(), 0x21af0);
        let jumps_back = code
            .iter()
            .any(|(i, _)| i.code() == Code::Jmp_rel32_64 && i.near_branch_target() == copy.body());
        assert!(jumps_back);
    }

    #[test]
    fn addresses_relative_to_the_code_stay_the_same() {
        // again: mov eax, [rip + 0x100]; test eax, eax; je again
        let code = [0x8b, 0x05, 0, 1, 0, 0, 0x85, 0xc0, 0x74, 0xf6];
        let cycle = cycle_of(0x40_0000, &code);
        let copy = Copy::new(&cycle, 0, 0x30_0000, 0, 0).expect("it fits");
        let body = (copy.body() - 0x30_0000) as usize;
        let copied = decode(copy.body(), &copy.code()[body..]);
        assert_eq!(copied[0].0.ip_rel_memory_address(), 0x40_0106);
        assert_eq!(copied[2].0.code(), Code::Jne_rel32_64);
        assert_eq!(copied[2].0.near_branch_target(), 0x40_000a);
        assert!(
            Copy::new(&cycle, 0, 0x30_0000_0000, 0, 0).is_none(),
            "too far away"
        );
    }
}

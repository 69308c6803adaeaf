//! The registers of a thread.

use iced_x86::Register;

/// General registers.
pub const GENERAL: usize = 16;
/// The flags that instructions depend on: carry, parity, adjust, zero, sign, direction, overflow.
const STATUS_FLAGS: u64 = 0xcd5;
/// General registers in the order of their numbers, each with its name in a signal's context.
const NAMES: [(Register, libc::c_int); GENERAL] = [
    (Register::RAX, libc::REG_RAX),
    (Register::RCX, libc::REG_RCX),
    (Register::RDX, libc::REG_RDX),
    (Register::RBX, libc::REG_RBX),
    (Register::RSP, libc::REG_RSP),
    (Register::RBP, libc::REG_RBP),
    (Register::RSI, libc::REG_RSI),
    (Register::RDI, libc::REG_RDI),
    (Register::R8, libc::REG_R8),
    (Register::R9, libc::REG_R9),
    (Register::R10, libc::REG_R10),
    (Register::R11, libc::REG_R11),
    (Register::R12, libc::REG_R12),
    (Register::R13, libc::REG_R13),
    (Register::R14, libc::REG_R14),
    (Register::R15, libc::REG_R15),
];

/// The registers that a loop without floating-point numbers depends on, except the instruction
/// pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    general: [u64; GENERAL],
    flags: u64,
}

impl Registers {
    /// All registers zero.
    pub const ZERO: Self = Self {
        general: [0; GENERAL],
        flags: 0,
    };

    /// Creates a value from the registers in the order of their numbers, and the flags.
    pub fn new(general: [u64; GENERAL], flags: u64) -> Self {
        Self {
            general,
            flags: flags & STATUS_FLAGS,
        }
    }

    /// Returns the registers of the code that a signal has interrupted.
    pub fn of_context(registers: &libc::mcontext_t) -> Self {
        let value = |name: libc::c_int| registers.gregs[name as usize] as u64;
        Self::new(NAMES.map(|(_, name)| value(name)), value(libc::REG_EFL))
    }

    /// Returns the flags that instructions depend on.
    pub fn flags(&self) -> u64 {
        self.flags
    }

    /// Returns the register of this name. Segment registers are zero, except fs and gs. `None`: one
    /// of those two, or an unsupported one.
    pub fn get(&self, register: Register) -> Option<u64> {
        if let Register::CS | Register::DS | Register::ES | Register::SS = register {
            return Some(0);
        }
        let place = NAMES.iter().position(|(name, _)| *name == register)?;
        Some(self.general[place])
    }
}

//! PCI configuration space of a served function: its layout, and the effect of writes.
//!
//! Offsets and bits follow the PCI Local Bus Specification 3.0 (chapter 6) and the PCI Express Base
//! Specification (chapter 7), with the names of the kernel's `include/uapi/linux/pci_regs.h`.

use ferroce_spec::doorbell::BAR2_SIZE;
use ferroce_spec::register::{
    BAR0_SIZE, BAR4_SIZE, DEVICE_ID, MSIX_PENDING_OFFSET, MSIX_TABLE_OFFSET, VECTOR_COUNT,
    VENDOR_ID,
};
use ferroce_wire::Mac;

/// Bytes of the configuration space of a PCI Express function.
pub const SIZE: usize = 4096;

/// Network controller, InfiniBand: a device with verbs and no Ethernet interface.
const CLASS_CODE: u32 = 0x02_0700;
const REVISION: u8 = 1;

const VENDOR: usize = 0x00;
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const CLASS_REVISION: usize = 0x08;
const CACHE_LINE_SIZE: usize = 0x0c;
const BAR_0: usize = 0x10;
const SUBSYSTEM_VENDOR: usize = 0x2c;
const CAPABILITY_POINTER: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;

const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_MASTER: u16 = 1 << 2;
/// Parity error response, SERR# and INTx disable: stored for software, without effect.
const COMMAND_KEPT: u16 = 1 << 6 | 1 << 8 | 1 << 10;
const STATUS_CAPABILITIES: u16 = 1 << 4;
/// Low bits of a memory BAR: 64-bit, and prefetchable.
const BAR_64_BIT: u32 = 0b0100;
const BAR_PREFETCHABLE: u32 = 0b1000;

const POWER: usize = 0x40;
const POWER_ID: u8 = 0x01;
/// Version 3 of the capability, no PME, neither D1 nor D2.
const POWER_CAPABILITIES: u16 = 3;
const POWER_CONTROL: usize = POWER + 4;
const POWER_STATE: u16 = 0b11;
const POWER_STATE_D3_HOT: u8 = 0b11;
/// The transition from D3hot does not reset the function.
const POWER_NO_SOFT_RESET: u16 = 1 << 3;

const EXPRESS: usize = 0x50;
const EXPRESS_ID: u8 = 0x10;
/// Version 2 of the capability; type 0: an endpoint.
const EXPRESS_CAPABILITIES: u16 = 2;
/// 256-byte payloads, extended tags, role-based error reporting, function-level reset.
const EXPRESS_DEVICE_CAPABILITIES: u32 = 1 | 1 << 5 | 1 << 15 | 1 << 28;
const EXPRESS_DEVICE_CONTROL: usize = EXPRESS + 0x08;
const EXPRESS_DEVICE_CONTROL_RESET: u16 = 0x2810;
const EXPRESS_LINK_CAPABILITIES: usize = EXPRESS + 0x0c;
const EXPRESS_LINK_CONTROL: usize = EXPRESS + 0x10;
const EXPRESS_LINK_STATUS: usize = EXPRESS + 0x12;
const EXPRESS_DEVICE_CONTROL_2: usize = EXPRESS + 0x28;
/// 16 GT/s (4) by 16 lanes.
const LINK: u32 = 16 << 4 | 4;
const FUNCTION_LEVEL_RESET: u16 = 1 << 15;
/// Completion time-out and AtomicOp requester enable.
const DEVICE_CONTROL_2_KEPT: u16 = 0x1f | 1 << 6;

const MSIX: usize = 0x90;
const MSIX_ID: u8 = 0x11;
const MSIX_CONTROL: usize = MSIX + 2;
const MSIX_ENABLE_AND_MASK: u16 = 0b11 << 14;
/// Table and pending bits are in BAR0.
const MSIX_BAR: u32 = 0;

const SERIAL_NUMBER: usize = 0x100;
/// Extended capability 3, version 1, the last one.
const SERIAL_NUMBER_HEADER: u32 = 1 << 16 | 3;

/// Sizes of BAR0, BAR2 and BAR4; each takes two registers.
const BARS: [(usize, u32, u32); 3] = [
    (BAR_0, BAR0_SIZE, BAR_64_BIT),
    (BAR_0 + 8, BAR2_SIZE, BAR_64_BIT | BAR_PREFETCHABLE),
    (BAR_0 + 16, BAR4_SIZE, BAR_64_BIT | BAR_PREFETCHABLE),
];
const _: () = assert!(BAR0_SIZE.is_power_of_two() && BAR2_SIZE.is_power_of_two());
const _: () = assert!(BAR4_SIZE.is_power_of_two());

/// Side effect of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// None.
    None,
    /// A function-level reset.
    FunctionLevelReset,
}

/// The configuration space.
#[derive(Debug, Clone)]
pub struct ConfigSpace {
    bytes: Box<[u8; SIZE]>,
    /// Bits that writes change.
    writable: Box<[u8; SIZE]>,
    power_on: Box<[u8; SIZE]>,
}

impl ConfigSpace {
    /// Creates the state after power-on, of a function whose port has the address `mac`.
    pub fn new(mac: [u8; 6]) -> Self {
        let mut space = Self {
            bytes: Box::new([0; SIZE]),
            writable: Box::new([0; SIZE]),
            power_on: Box::new([0; SIZE]),
        };
        space.lay_out_header();
        space.lay_out_capabilities();
        space.put(SERIAL_NUMBER, &SERIAL_NUMBER_HEADER.to_le_bytes());
        let mut serial_number = Mac(mac).to_eui64();
        serial_number.reverse();
        space.put(SERIAL_NUMBER + 4, &serial_number);
        space.power_on = space.bytes.clone();
        space
    }

    fn lay_out_header(&mut self) {
        for (offset, id) in [(VENDOR, VENDOR_ID), (VENDOR + 2, DEVICE_ID)] {
            self.put(offset, &id.to_le_bytes());
            self.put(SUBSYSTEM_VENDOR + offset, &id.to_le_bytes());
        }
        self.put(STATUS, &STATUS_CAPABILITIES.to_le_bytes());
        let class_revision = CLASS_CODE << 8 | u32::from(REVISION);
        self.put(CLASS_REVISION, &class_revision.to_le_bytes());
        for (offset, size, flags) in BARS {
            self.put(offset, &flags.to_le_bytes());
            self.allow(offset, &(!(size - 1)).to_le_bytes());
            self.allow(offset + 4, &u32::MAX.to_le_bytes());
        }
        let command = COMMAND_MEMORY | COMMAND_MASTER | COMMAND_KEPT;
        self.allow(COMMAND, &command.to_le_bytes());
        self.allow(CACHE_LINE_SIZE, &[u8::MAX]);
        self.allow(INTERRUPT_LINE, &[u8::MAX]);
        self.put(CAPABILITY_POINTER, &[POWER as u8]);
    }

    fn lay_out_capabilities(&mut self) {
        self.put(POWER, &[POWER_ID, EXPRESS as u8]);
        self.put(POWER + 2, &POWER_CAPABILITIES.to_le_bytes());
        self.put(POWER_CONTROL, &POWER_NO_SOFT_RESET.to_le_bytes());
        self.allow(POWER_CONTROL, &POWER_STATE.to_le_bytes());

        self.put(EXPRESS, &[EXPRESS_ID, MSIX as u8]);
        self.put(EXPRESS + 2, &EXPRESS_CAPABILITIES.to_le_bytes());
        self.put(EXPRESS + 4, &EXPRESS_DEVICE_CAPABILITIES.to_le_bytes());
        self.put(
            EXPRESS_DEVICE_CONTROL,
            &EXPRESS_DEVICE_CONTROL_RESET.to_le_bytes(),
        );
        self.allow(
            EXPRESS_DEVICE_CONTROL,
            &(!FUNCTION_LEVEL_RESET).to_le_bytes(),
        );
        self.put(EXPRESS_LINK_CAPABILITIES, &LINK.to_le_bytes());
        self.put(EXPRESS_LINK_STATUS, &(LINK as u16).to_le_bytes());
        // ASPM, common clock.
        self.allow(EXPRESS_LINK_CONTROL, &[0b0100_0011]);
        self.allow(
            EXPRESS_DEVICE_CONTROL_2,
            &DEVICE_CONTROL_2_KEPT.to_le_bytes(),
        );

        self.put(MSIX, &[MSIX_ID, 0]);
        self.put(MSIX_CONTROL, &(VECTOR_COUNT - 1).to_le_bytes());
        self.allow(MSIX_CONTROL, &MSIX_ENABLE_AND_MASK.to_le_bytes());
        self.put(MSIX + 4, &(MSIX_TABLE_OFFSET | MSIX_BAR).to_le_bytes());
        self.put(MSIX + 8, &(MSIX_PENDING_OFFSET | MSIX_BAR).to_le_bytes());
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, offset: usize, mask: &[u8]) {
        self.writable[offset..offset + mask.len()].copy_from_slice(mask);
    }

    /// Reads bytes. Bytes beyond the end read as ones.
    pub fn read(&self, offset: u64, destination: &mut [u8]) {
        destination.fill(u8::MAX);
        let start = usize::try_from(offset).unwrap_or(SIZE);
        let source = self.bytes.iter().skip(start);
        for (to, from) in destination.iter_mut().zip(source) {
            *to = *from;
        }
    }

    /// Writes the writable bits.
    #[must_use]
    pub fn write(&mut self, offset: u64, source: &[u8]) -> Request {
        let mut request = Request::None;
        let start = usize::try_from(offset).unwrap_or(SIZE);
        for (at, value) in (start..SIZE).zip(source) {
            let mask = self.writable[at];
            match at {
                // D1 and D2 do not exist.
                POWER_CONTROL if !matches!(value & mask, 0 | POWER_STATE_D3_HOT) => {}
                _ => self.bytes[at] = self.bytes[at] & !mask | value & mask,
            }
            let reset = (FUNCTION_LEVEL_RESET >> 8) as u8;
            if at == EXPRESS_DEVICE_CONTROL + 1 && value & reset != 0 {
                request = Request::FunctionLevelReset;
            }
        }
        request
    }

    /// Restores the state after power-on.
    pub fn reset(&mut self) {
        self.bytes.copy_from_slice(&*self.power_on);
    }

    fn is_awake(&self) -> bool {
        u16::from(self.bytes[POWER_CONTROL]) & POWER_STATE == 0
    }

    fn command(&self) -> u16 {
        u16::from_le_bytes([self.bytes[COMMAND], self.bytes[COMMAND + 1]])
    }

    /// Returns true if the function responds at its BARs.
    pub fn is_memory_enabled(&self) -> bool {
        self.command() & COMMAND_MEMORY != 0 && self.is_awake()
    }

    /// Returns true if the function may read and write memory.
    pub fn is_bus_master(&self) -> bool {
        self.command() & COMMAND_MASTER != 0 && self.is_awake()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0x11, 0x22, 0x33, 0x44, 0x55];

    fn read32(space: &ConfigSpace, offset: usize) -> u32 {
        let mut bytes = [0; 4];
        space.read(offset as u64, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn write32(space: &mut ConfigSpace, offset: usize, value: u32) -> Request {
        space.write(offset as u64, &value.to_le_bytes())
    }

    #[test]
    fn it_is_an_rdma_controller_of_ours() {
        let space = ConfigSpace::new(MAC);
        assert_eq!(read32(&space, 0), 0xf10a_1172);
        assert_eq!(read32(&space, 0x2c), 0xf10a_1172);
        assert_eq!(read32(&space, 8), 0x0207_0001);
        assert_eq!(read32(&space, 0x0c), 0, "header type 0, one function");
        assert_eq!(read32(&space, 0x30), 0, "no expansion ROM");
    }

    #[test]
    fn bars_are_sized_as_pci_does() {
        let mut space = ConfigSpace::new(MAC);
        for (bar, size, flags) in [
            (0x10, 0x4000, 4),
            (0x18, 4 << 20, 12),
            (0x20, 256 << 10, 12),
        ] {
            assert_eq!(write32(&mut space, bar, u32::MAX), Request::None);
            assert_eq!(write32(&mut space, bar + 4, u32::MAX), Request::None);
            let low = read32(&space, bar);
            assert_eq!(low & 0xf, flags);
            let mask = u64::from(read32(&space, bar + 4)) << 32 | u64::from(low & !0xf);
            assert_eq!((!mask).wrapping_add(1), size);
            assert_eq!(write32(&mut space, bar, 0xfebe_1234), Request::None);
            let expected = 0xfebe_1234 & !(size as u32 - 1) | flags;
            assert_eq!(read32(&space, bar), expected);
        }
    }

    #[test]
    fn capabilities_are_a_list() {
        let space = ConfigSpace::new(MAC);
        assert_ne!(read32(&space, 4) >> 16 & 1 << 4, 0);
        let mut at = (read32(&space, 0x34) & 0xff) as usize;
        let mut found = Vec::new();
        while at != 0 && found.len() < 16 {
            let header = read32(&space, at);
            found.push((header & 0xff) as u8);
            at = (header >> 8 & 0xff) as usize;
        }
        assert_eq!(found, [1, 0x10, 0x11]);
        assert_ne!(read32(&space, EXPRESS + 4) & 1 << 28, 0, "FLR");
        assert_eq!(read32(&space, MSIX) >> 16 & 0x7ff, 15);
        assert_eq!(read32(&space, MSIX + 4), 0x2000);
        assert_eq!(read32(&space, MSIX + 8), 0x3000);
        assert_eq!(read32(&space, SERIAL_NUMBER), 0x0001_0003);
        assert_eq!(read32(&space, SERIAL_NUMBER + 8), 0x0011_22ff);
        assert_eq!(read32(&space, SERIAL_NUMBER + 4), 0xfe33_4455);
    }

    #[test]
    fn only_what_may_be_written_changes() {
        let mut space = ConfigSpace::new(MAC);
        let before = space.bytes.clone();
        for offset in (0..SIZE).step_by(4) {
            let _ = write32(&mut space, offset, u32::MAX);
        }
        for (at, mask) in space.writable.iter().enumerate() {
            assert_eq!(space.bytes[at] & !mask, before[at] & !mask, "{at:#x}");
        }
        assert_eq!(read32(&space, 0), 0xf10a_1172);
        assert_eq!(read32(&space, COMMAND) & 0xffff, 0x0546);
        space.reset();
        assert_eq!(space.bytes, before);
        // Beyond the end, and one byte at a time.
        assert_eq!(space.write(4095, &[1, 2, 3]), Request::None);
        assert_eq!(space.write(u64::MAX, &[1]), Request::None);
        let mut bytes = [0; 3];
        space.read(4095, &mut bytes);
        assert_eq!(bytes, [0, 0xff, 0xff]);
        assert_eq!(space.write(COMMAND as u64, &[4]), Request::None);
        assert!(space.is_bus_master() && !space.is_memory_enabled());
    }

    #[test]
    fn function_level_reset_is_asked_for_and_reads_as_zero() {
        let mut space = ConfigSpace::new(MAC);
        let control = read32(&space, EXPRESS_DEVICE_CONTROL);
        let request = write32(&mut space, EXPRESS_DEVICE_CONTROL, control | 1 << 15);
        assert_eq!(request, Request::FunctionLevelReset);
        assert_eq!(read32(&space, EXPRESS_DEVICE_CONTROL), control);
        assert_eq!(space.write(0x59, &[0x80]), Request::FunctionLevelReset);
        assert_eq!(space.write(0x58, &[0x80]), Request::None);
    }

    #[test]
    fn a_function_that_sleeps_does_nothing() {
        let mut space = ConfigSpace::new(MAC);
        assert!(!space.is_bus_master() && !space.is_memory_enabled());
        assert_eq!(write32(&mut space, COMMAND, 6), Request::None);
        assert!(space.is_bus_master() && space.is_memory_enabled());
        assert_eq!(write32(&mut space, POWER_CONTROL, 1), Request::None);
        assert!(space.is_bus_master(), "there is no D1");
        assert_eq!(write32(&mut space, POWER_CONTROL, 3), Request::None);
        assert!(!space.is_bus_master() && !space.is_memory_enabled());
        assert_eq!(write32(&mut space, POWER_CONTROL, 0), Request::None);
        assert!(space.is_bus_master() && space.is_memory_enabled());
    }
}

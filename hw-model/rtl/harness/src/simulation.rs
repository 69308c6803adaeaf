//! Runs a Verilated module.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{Clocks, Rising};
use crate::port::{Direction, Port, PortValue, storage_bytes};
use crate::power_on;
use crate::waves::Waves;

/// The C functions of a module: the generated C++ has the same structure.
#[repr(C)]
#[derive(Debug)]
pub struct Functions {
    /// Takes the seed of the state after power-on.
    new: unsafe extern "C" fn(i32) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    /// Updates the outputs with the clock low. Both functions return the text of a failed
    /// assertion.
    settle: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    /// The clocks of these bits rise, at this time of the waveform.
    edge: unsafe extern "C" fn(*mut c_void, u64, u64) -> *const c_char,
    trace: unsafe extern "C" fn(*mut c_void, *const c_char, u64, u64) -> c_int,
    coverage: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    port: unsafe extern "C" fn(*mut c_void, u32) -> *mut c_void,
}

/// A waveform cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct TraceError {
    path: PathBuf,
    source: std::io::Error,
}

/// Number of files that this process has begun, which makes their names unique.
static FILES: AtomicU64 = AtomicU64::new(0);

/// Returns a file name that no other simulation of a test run has.
fn unique(name: &str, extension: &str) -> String {
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    #[expect(
        clippy::disallowed_methods,
        reason = "names of files, no part of a run"
    )]
    let process = std::process::id();
    format!("{name}-{process}-{number}.{extension}")
}

/// Returns up to 32 bits of a port from bit `low` on.
#[inline]
fn field_word(port: &[u8], low: u32, bits: u32) -> u32 {
    let bytes = port.iter().skip(low as usize / 8).take(5).rev();
    let word = bytes.fold(0, |word, byte| word << 8 | u64::from(*byte)) >> (low % 8);
    (word & ((1 << bits.min(32)) - 1)) as u32
}

/// Sets up to eight bits of a port from bit `low` on.
#[inline]
fn set_bits(port: &mut [u8], low: u32, bits: u32, value: u8) {
    let mask = ((1u16 << bits) - 1) << (low % 8);
    let value = u16::from(value) << (low % 8);
    let parts = mask.to_le_bytes().into_iter().zip(value.to_le_bytes());
    for (byte, (mask, value)) in port.iter_mut().skip(low as usize / 8).zip(parts) {
        *byte = *byte & !mask | value;
    }
}

/// An instance of a Verilated module: its ports and its clock.
///
/// A clock cycle is: set inputs, [`Simulation::settle`] if outputs depend on them, read outputs,
/// [`Simulation::cycle`]. With several clocks, it is [`Simulation::step`].
pub struct Simulation {
    name: &'static str,
    functions: &'static Functions,
    handle: NonNull<c_void>,
    ports: &'static [Port],
    addresses: Box<[NonNull<c_void>]>,
    cycles: u64,
    /// Time of the next edge in waveforms; it only increases.
    time: u64,
}

// SAFETY: a module has no thread and no thread-local state; its context belongs to it alone.
unsafe impl Send for Simulation {}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at cycle {}", self.name, self.cycles)
    }
}

/// Creates a [`Simulation`] of the module whose functions the generated C function returns. Only
/// for generated code: `$ports` is the table from which that C++ was generated.
#[macro_export]
macro_rules! verilated {
    ($name:literal, $functions:ident, $ports:expr) => {{
        unsafe extern "C" {
            fn $functions() -> *const $crate::Functions;
        }
        // SAFETY: Rust and C++ are generated from one list of ports by `build::modules`.
        #[allow(
            unsafe_code,
            reason = "the C++ of a module can be called in no other way"
        )]
        unsafe {
            $crate::Simulation::new($name, $functions(), $ports)
        }
    }};
}

impl Simulation {
    /// Creates an instance after power-on: all inputs are zero, and state is random (see
    /// [`crate::power_on`]). Writes a waveform if `RTL_WAVES` is set.
    ///
    /// # Safety
    /// `functions` belong to a module with these ports, in this order.
    ///
    /// # Panics
    /// If a requested waveform cannot be written.
    pub unsafe fn new(
        name: &'static str,
        functions: *const Functions,
        ports: &'static [Port],
    ) -> Self {
        // SAFETY: the caller guarantees that they are functions of a module, which are static.
        let functions = unsafe { &*functions };
        let seed = power_on::next_seed();
        // SAFETY: as above. `new` of C++ returns an object or ends the process.
        let handle =
            unsafe { NonNull::new((functions.new)(seed)).expect("C++ has made an object") };
        let address = |index| {
            // SAFETY: the caller guarantees that the module has a port with this index.
            let address = unsafe { (functions.port)(handle.as_ptr(), index as u32) };
            NonNull::new(address).expect("the index is that of a port")
        };
        let mut simulation = Self {
            name,
            functions,
            handle,
            ports,
            addresses: (0..ports.len()).map(address).collect(),
            cycles: 0,
            time: 0,
        };
        simulation.clear_inputs();
        if let Some(waves) = Waves::of_environment() {
            let path = waves.folder.join(unique(name, "fst"));
            let begun = simulation.trace(&path, waves.cycles);
            begun.unwrap_or_else(|error| panic!("RTL_WAVES: {error}"));
        }
        simulation
    }

    /// Sets all inputs to zero and evaluates the module: an edge of the clock is a change since the
    /// evaluation before.
    fn clear_inputs(&mut self) {
        let all = self.ports.iter().zip(&self.addresses);
        for (port, address) in all.filter(|(port, _)| port.direction == Direction::Input) {
            // SAFETY: the address belongs to a port of this many bytes; `&mut self` is the only
            // access.
            unsafe {
                let bytes = address.cast::<u8>();
                bytes.write_bytes(0, storage_bytes(port.bits));
            }
        }
        self.settle();
    }

    /// Returns the ports.
    pub fn ports(&self) -> &'static [Port] {
        self.ports
    }

    /// Returns the clock cycles so far; with several clocks, their edges.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Returns the value of a port.
    ///
    /// # Panics
    /// If the port is stored in another type.
    #[inline]
    pub fn get<T: PortValue>(&self, index: usize) -> T {
        assert_eq!(storage_bytes(self.ports[index].bits), size_of::<T>());
        // SAFETY: the address belongs to a port of this many bytes, with the alignment of the C++
        // type; any bytes are a valid `PortValue`.
        unsafe { self.addresses[index].cast::<T>().read() }
    }

    /// Sets an input.
    ///
    /// # Panics
    /// If the port is no input, is stored in another type, or has fewer bits than the value.
    #[inline]
    pub fn set<T: PortValue>(&mut self, index: usize, value: T) {
        let port = &self.ports[index];
        assert_eq!(storage_bytes(port.bits), size_of::<T>());
        assert_eq!(port.direction, Direction::Input);
        assert!(value.fits(port.bits), "{} is too narrow", port.name);
        // SAFETY: as above; Verilator requires unused bits to be zero, which was checked.
        unsafe { self.addresses[index].cast::<T>().write(value) }
    }

    /// Returns a field of a port: `bits` bits from bit `low` on.
    ///
    /// # Panics
    /// If a value of that width is stored in another type.
    #[inline]
    pub fn field<T: PortValue>(&self, index: usize, low: u32, bits: u32) -> T {
        assert_eq!(storage_bytes(bits), size_of::<T>());
        let length = storage_bytes(self.ports[index].bits);
        // SAFETY: a port is stored in this many bytes, which change only through `&mut self`.
        let port = unsafe { slice::from_raw_parts(self.addresses[index].cast().as_ptr(), length) };
        T::of_words(|n| {
            field_word(
                port,
                low + 32 * n as u32,
                bits.saturating_sub(32 * n as u32),
            )
        })
    }

    /// Sets a field of an input.
    ///
    /// # Panics
    /// If the port is no input, or the value is stored in another type or has more bits.
    #[inline]
    pub fn set_field<T: PortValue>(&mut self, index: usize, low: u32, bits: u32, value: T) {
        let port = &self.ports[index];
        assert_eq!(storage_bytes(bits), size_of::<T>());
        assert_eq!(port.direction, Direction::Input);
        assert!(value.fits(bits), "a field of {} is too narrow", port.name);
        let (first, length) = (self.addresses[index].cast(), storage_bytes(port.bits));
        // SAFETY: as above; nothing else refers to the port.
        let port = unsafe { slice::from_raw_parts_mut(first.as_ptr(), length) };
        for from in (0..bits).step_by(8) {
            let byte = (value.word(from as usize / 32) >> (from % 32)) as u8;
            set_bits(port, low + from, (bits - from).min(8), byte);
        }
    }

    /// Updates the outputs for the current inputs, before the clock edge.
    ///
    /// # Panics
    /// If an assertion of the module fails.
    #[inline]
    pub fn settle(&mut self) {
        // SAFETY: the handle belongs to a live object.
        let failure = unsafe { (self.functions.settle)(self.handle.as_ptr()) };
        self.check(failure);
    }

    /// Runs one cycle of the first clock: the rising edge, and then the update of the outputs.
    ///
    /// # Panics
    /// If an assertion of the module fails.
    #[inline]
    pub fn cycle(&mut self) {
        self.rise(Rising::first());
    }

    /// Runs the next edge of free-running clocks, and then updates the outputs. Returns the clocks
    /// that have risen. Inputs of a clock are set before its edge.
    ///
    /// # Panics
    /// If an assertion of the module fails.
    #[inline]
    pub fn step(&mut self, clocks: &mut Clocks) -> Rising {
        let (time, rising) = clocks.take_next();
        self.time = self.time.max(time);
        self.rise(rising);
        rising
    }

    #[inline]
    fn rise(&mut self, clocks: Rising) {
        // SAFETY: the handle belongs to a live object.
        let failure =
            unsafe { (self.functions.edge)(self.handle.as_ptr(), clocks.bits(), self.time) };
        self.check(failure);
        self.cycles += 1;
        self.time += 1;
        self.settle();
    }

    #[inline]
    fn check(&self, failure: *const c_char) {
        if !failure.is_null() {
            self.report(failure);
        }
    }

    #[cold]
    fn report(&self, failure: *const c_char) -> ! {
        // SAFETY: the text of C++ is static until the next call.
        let text = unsafe { CStr::from_ptr(failure) }.to_string_lossy();
        panic!(
            "{}, cycle {}: assertion {text} failed",
            self.name, self.cycles
        );
    }

    /// Writes a waveform (FST) of these cycles from now on, instead of one that is being written.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn trace(&mut self, path: &Path, cycles: std::ops::Range<u64>) -> Result<(), TraceError> {
        // Verilator 5.048 does not report that it cannot open a file.
        let error = |source| TraceError {
            path: path.into(),
            source,
        };
        std::fs::File::create(path).map_err(error)?;
        let name =
            CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| error(e.into()))?;
        let (from, to) = (cycles.start, cycles.end);
        // SAFETY: the handle belongs to a live object, the name a C string.
        let begun =
            unsafe { (self.functions.trace)(self.handle.as_ptr(), name.as_ptr(), from, to) };
        match begun {
            0 => Err(error(std::io::Error::other("Verilator cannot open it"))),
            _ => Ok(()),
        }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        if let (true, Ok(folder)) = (cfg!(feature = "coverage"), std::env::var("RTL_COVERAGE")) {
            let path = Path::new(&folder).join(unique(self.name, "dat"));
            let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default();
            // SAFETY: the handle belongs to a live object, the name a C string.
            unsafe { (self.functions.coverage)(self.handle.as_ptr(), name.as_ptr()) };
        }
        // SAFETY: the handle belongs to a live object, which is not used afterwards.
        unsafe { (self.functions.free)(self.handle.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_anywhere_in_a_port() {
        let mut port = [0xff; 12];
        for (from, byte) in [(0, 0x21), (8, 0x43), (16, 0x65), (24, 0x87), (32, 0x1)] {
            set_bits(&mut port, 29 + from, (33 - from).min(8), byte);
        }
        assert_eq!(field_word(&port, 29, 33), 0x8765_4321);
        assert_eq!(field_word(&port, 61, 1), 1);
        let around = [field_word(&port, 0, 29), field_word(&port, 62, 32)];
        assert_eq!(around, [(1 << 29) - 1, u32::MAX]);
        assert_eq!(field_word(&port, 94, 2), 3);
    }
}

//! Memory of this process, accessed through the kernel like the pinned pages of a card.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;

use ferroce_host::memory::OwnMemory;

const MEMORY: &str = "/proc/self/mem";

/// This process's file of its memory. It is opened for each access: a child made by fork has its
/// own.
#[derive(Debug)]
pub struct ProcessMemory;

impl OwnMemory for ProcessMemory {
    fn read(&self, address: usize, destination: &mut [u8]) -> io::Result<()> {
        let memory = OpenOptions::new().read(true).open(MEMORY)?;
        memory.read_exact_at(destination, address as u64)
    }

    fn write(&self, address: usize, source: &[u8]) -> io::Result<()> {
        let memory = OpenOptions::new().write(true).open(MEMORY)?;
        memory.write_all_at(source, address as u64)
    }

    fn may_be_there(&self, address: usize) -> bool {
        match OpenOptions::new().read(true).open(MEMORY) {
            Ok(memory) => memory.read_exact_at(&mut [0], address as u64).is_ok(),
            // A process that has changed its user may not open it. Then the memory is assumed to
            // exist.
            Err(_) => true,
        }
    }
}

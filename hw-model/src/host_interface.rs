//! The card as software sees it on PCIe: BARs, doorbells, interrupts, and DMA.
//!
//! - [`bar`], [`registers`]: BAR0. `doorbells`, `push`: BAR2. [`device_memory`]: BAR4.
//! - [`event_queue`], [`msix`]: events and interrupts to software.
//! - [`dma`]: accesses to host memory, counted.

pub mod bar;
pub mod device_memory;
pub mod dma;
pub(crate) mod doorbells;
pub mod event_queue;
pub mod msix;
pub(crate) mod push;
pub mod registers;

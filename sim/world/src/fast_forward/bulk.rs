//! Copies payload in one step from the memory of one host to the memory of another: fast-forward
//! lets both NICs report the locations, and copies between them.

use std::ops::Range;

use ferroce_model::time::timing::Timing;
use ferroce_model::{DmaAtomic, DmaError, UntimedHost};

use crate::devices::Devices;
use crate::host::WorldHost;

/// A contiguous range of host memory.
#[derive(Debug, Clone, Copy)]
struct Area {
    iova: u64,
    length: u64,
    /// Its bytes are not moved.
    is_elided: bool,
}

/// Locations of payload in the memory of a host, in order.
#[derive(Debug, Default)]
pub struct Places(Vec<Area>);

impl Places {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the bytes of payload.
    pub fn length(&self) -> u64 {
        self.0.iter().map(|area| area.length).sum()
    }

    fn add(&mut self, area: Area) {
        if let Some(last) = self.0.last_mut()
            && last.iova + last.length == area.iova
            && last.is_elided == area.is_elided
        {
            last.length += area.length;
            return;
        }
        self.0.push(area);
    }

    /// Removes the first `bytes` bytes.
    pub fn skip(&mut self, mut bytes: u64) {
        let whole = |area: &&Area| {
            let is_whole = area.length <= bytes;
            bytes -= if is_whole { area.length } else { 0 };
            is_whole
        };
        let count = self.0.iter().take_while(whole).count();
        self.0.drain(..count);
        if let Some(first) = self.0.first_mut() {
            first.iova += bytes;
            first.length -= bytes;
        }
    }
}

/// A host without timing that records the locations of payload instead of moving it. It has no
/// doorbells and drops interrupts.
pub struct PlacesOf<'a> {
    pub host: &'a mut WorldHost,
    pub places: &'a mut Places,
    /// The buffer into which the card would read payload. Contexts and translations go to other
    /// buffers.
    pub payload: Range<*const u8>,
}

impl PlacesOf<'_> {
    fn add(&mut self, iova: u64, length: usize, elided: usize) {
        self.places.add(Area {
            iova,
            length: length as u64,
            is_elided: elided > 0,
        });
    }
}

impl UntimedHost for PlacesOf<'_> {
    fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        let (host, length) = (&mut *self.host, destination.len());
        let place = host.memory.place_to_read(iova, length)?;
        host.posted
            .apply_overlapping(place.address, length, &mut host.memory);
        if !self.payload.contains(&destination.as_ptr()) {
            return host.memory.read(iova, destination);
        }
        let elided = host.elided(&place, length);
        self.add(iova, length, elided);
        Ok(())
    }

    /// Fails if a polling thread watches the range: it would have seen each part at its own time.
    fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        let (host, length) = (&mut *self.host, source.len());
        let place = host.memory.place_to_write(iova, length)?;
        if host.watchers.watches(place.address, length) {
            return Err(DmaError::refused(iova, length));
        }
        let elided = host.elided(&place, length);
        self.add(iova, length, elided);
        Ok(())
    }

    fn write_descriptor(&mut self, iova: u64, words: &[u64]) -> Result<(), DmaError> {
        self.host.memory.write_descriptor(iova, words)
    }

    fn atomic(&mut self, iova: u64, operation: DmaAtomic) -> Result<u64, DmaError> {
        self.host.memory.atomic(iova, operation)
    }
}

/// Copies payload from `sources` in host `from` to `targets` in host `to`.
///
/// # Errors
/// [`DmaError`] if not all of it can be read and written. A part may have been copied.
pub fn copy<T: Timing>(
    devices: &mut Devices<T>,
    from: usize,
    sources: &Places,
    to: usize,
    targets: &Places,
) -> Result<(), DmaError> {
    let mut sources = sources.0.iter().copied();
    let mut source = sources.next();
    for target in &targets.0 {
        let mut done = 0;
        while let Some(area) = source.filter(|_| done < target.length) {
            let length = area.length.min(target.length - done);
            if !area.is_elided && !target.is_elided {
                let at = target.iova + done;
                copy_area(devices, from, area.iova, to, at, length as usize)?;
            }
            done += length;
            source = match area.length - length {
                0 => sources.next(),
                rest => Some(Area {
                    iova: area.iova + length,
                    length: rest,
                    ..area
                }),
            };
        }
    }
    Ok(())
}

fn copy_area<T: Timing>(
    devices: &mut Devices<T>,
    from: usize,
    source: u64,
    to: usize,
    target: u64,
    length: usize,
) -> Result<(), DmaError> {
    match devices.nodes.get_disjoint_mut([from, to]) {
        Ok([sender, receiver]) => {
            let memory = &mut receiver.host.memory;
            memory.copy_from(target, &mut sender.host.memory, source, length)
        }
        Err(_) => {
            let memory = &mut devices.nodes[to].host.memory;
            memory.copy_within(target, source, length)
        }
    }
}

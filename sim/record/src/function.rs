//! A function with a recorder at its edges, or without one.

use std::sync::Arc;

use ferroce_model::host_interface::device_memory::LentMemory;
use ferroce_model::ports::host::{DmaAtomic, DmaError, DmaFault, Doorbell, Host, WriteOrder};
use ferroce_model::ports::port::Port;
use ferroce_model::{Counters, Function, NicConfig, Progress, SoftwareFault};
use ferroce_units::Instant;

use crate::format::{Kind, flags};
use crate::recorder::Recorder;

/// A function whose accesses are recorded if a recorder is attached. Without one, a call costs one
/// branch. The port records frames ([`Recorder::record`]).
#[derive(Debug)]
pub struct Recorded<F> {
    function: F,
    recorder: Option<Recorder>,
}

impl<F> Recorded<F> {
    /// Attaches a recorder.
    pub fn attach(&mut self, recorder: Option<Recorder>) {
        self.recorder = recorder;
    }

    /// Sets the time of the following register writes.
    #[inline]
    pub fn set_time(&self, now: impl FnOnce() -> Instant) {
        if let Some(recorder) = &self.recorder {
            recorder.set_time(now(), None);
        }
    }

    /// Returns the recorder.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    #[inline]
    fn note<P: Port>(&self, kind: Kind, offset: u64, data: &[u8])
    where
        F: Function<P>,
    {
        if let Some(recorder) = &self.recorder {
            if let Some(cycle) = self.function.cycles() {
                recorder.set_cycle(cycle);
            }
            recorder.record(kind, offset, data);
        }
    }
}

impl<P: Port, F: Function<P>> Function<P> for Recorded<F> {
    fn new(config: NicConfig) -> Self {
        Self {
            function: F::new(config),
            recorder: None,
        }
    }

    #[inline]
    fn read32(&mut self, now: Instant, offset: u32) -> u32 {
        let value = self.function.read32(now, offset);
        self.set_time(|| now);
        self.note(Kind::REGISTER_READ, offset.into(), &value.to_le_bytes());
        value
    }

    #[inline]
    fn read64(&mut self, now: Instant, offset: u32) -> u64 {
        let value = self.function.read64(now, offset);
        self.set_time(|| now);
        self.note(Kind::REGISTER_READ, offset.into(), &value.to_le_bytes());
        value
    }

    #[inline]
    fn write32(&mut self, offset: u32, value: u32) {
        self.note(Kind::REGISTER_WRITE, offset.into(), &value.to_le_bytes());
        self.function.write32(offset, value);
    }

    #[inline]
    fn write64(&mut self, offset: u32, value: u64) {
        self.note(Kind::REGISTER_WRITE, offset.into(), &value.to_le_bytes());
        self.function.write64(offset, value);
    }

    #[inline]
    fn read_device_memory(&mut self, offset: u64, destination: &mut [u8]) {
        self.function.read_device_memory(offset, destination);
        self.note(Kind::MEMORY_READ, offset, destination);
    }

    #[inline]
    fn write_device_memory(&mut self, offset: u64, source: &[u8]) {
        self.note(Kind::MEMORY_WRITE, offset, source);
        self.function.write_device_memory(offset, source);
    }

    /// Refuses while a recorder is attached: it would not see the writes of others.
    fn lend_memory(&mut self, memory: Arc<dyn LentMemory>) -> bool {
        self.recorder.is_none() && self.function.lend_memory(memory)
    }

    fn counters(&mut self) -> Counters {
        self.function.counters()
    }

    fn cycles(&self) -> Option<u64> {
        self.function.cycles()
    }

    #[inline]
    fn advance<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> Progress {
        match &self.recorder {
            None => self.function.advance(now, host, port),
            Some(_) => self.advance_recorded(now, host, port),
        }
    }

    #[inline]
    fn next_timeout(&self, now: Instant) -> Option<Instant> {
        self.function.next_timeout(now)
    }

    #[inline]
    fn holds_acknowledges(&self) -> bool {
        self.function.holds_acknowledges()
    }

    #[inline]
    fn flush_acknowledges(&mut self) {
        self.function.flush_acknowledges();
    }

    fn fail(&mut self, now: Instant) {
        self.function.fail(now);
    }

    fn hang_commands(&mut self) {
        self.function.hang_commands();
    }

    fn suffer(&mut self, fault: SoftwareFault) -> bool {
        self.function.suffer(fault)
    }

    fn has_stopped(&self) -> bool {
        self.function.has_stopped()
    }

    fn power_off(&mut self, now: Instant, port: &mut P) {
        self.note(Kind::POWER_OFF, 0, &[]);
        self.function.power_off(now, port);
    }
}

impl<F> Recorded<F> {
    #[cold]
    #[inline(never)]
    fn advance_recorded<H: Host, P: Port>(
        &mut self,
        now: Instant,
        host: &mut H,
        port: &mut P,
    ) -> Progress
    where
        F: Function<P>,
    {
        let Some(recorder) = &self.recorder else {
            return self.function.advance(now, host, port);
        };
        recorder.set_time(now, self.function.cycles());
        let mut host = RecordingHost { host, recorder };
        let progress = self.function.advance(now, &mut host, port);
        recorder.flush_if_due();
        progress
    }
}

/// A host whose accesses are recorded.
#[derive(Debug)]
struct RecordingHost<'a, H> {
    host: &'a mut H,
    recorder: &'a Recorder,
}

impl<H> RecordingHost<'_, H> {
    fn note(&self, kind: Kind, iova: u64, data: &[u8], result: Result<(), DmaError>) {
        match result {
            Ok(()) => self.recorder.record(kind, iova, data),
            Err(error) => {
                let length = (data.len() as u64).to_le_bytes();
                let detail = fault_code(error.fault);
                self.recorder
                    .record_with(kind, flags::FAILED, detail, iova, &length);
            }
        }
    }
}

/// Returns the number of a fault in a record.
const fn fault_code(fault: DmaFault) -> u16 {
    match fault {
        DmaFault::Refused => 0,
        DmaFault::CompletionTimeout => 1,
        DmaFault::Poisoned => 2,
    }
}

impl<H: Host> Host for RecordingHost<'_, H> {
    fn dma_read(
        &mut self,
        at: Instant,
        iova: u64,
        destination: &mut [u8],
    ) -> Result<Instant, DmaError> {
        let result = self.host.dma_read(at, iova, destination);
        self.note(Kind::DMA_READ, iova, destination, result.map(|_| ()));
        result
    }

    fn dma_write(
        &mut self,
        order: WriteOrder,
        iova: u64,
        source: &[u8],
    ) -> Result<Instant, DmaError> {
        let result = self.host.dma_write(order, iova, source);
        self.note(Kind::DMA_WRITE, iova, source, result.map(|_| ()));
        result
    }

    /// The record contains the bytes even if the card does not use them.
    fn dma_read_unused(
        &mut self,
        at: Instant,
        iova: u64,
        scratch: &mut [u8],
    ) -> Result<Instant, DmaError> {
        self.dma_read(at, iova, scratch)
    }

    fn dma_write_unchanged(
        &mut self,
        order: WriteOrder,
        iova: u64,
        scratch: &mut [u8],
    ) -> Result<Instant, DmaError> {
        let result = self.host.dma_write_unchanged(order, iova, scratch);
        let bytes = result.and_then(|_| self.host.peek(iova, scratch));
        self.note(Kind::DMA_WRITE, iova, scratch, bytes);
        result
    }

    fn peek(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        self.host.peek(iova, destination)
    }

    fn dma_write_descriptor(
        &mut self,
        order: WriteOrder,
        iova: u64,
        words: &[u64],
    ) -> Result<Instant, DmaError> {
        let result = self.host.dma_write_descriptor(order, iova, words);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.note(Kind::DMA_WRITE, iova, &bytes, result.map(|_| ()));
        result
    }

    fn dma_atomic(
        &mut self,
        at: Instant,
        iova: u64,
        operation: DmaAtomic,
    ) -> Result<(u64, Instant), DmaError> {
        let result = self.host.dma_atomic(at, iova, operation);
        let original = result.map_or(0, |(original, _)| original);
        let mut data = original.to_le_bytes().to_vec();
        data.extend(operation.apply(original).to_le_bytes());
        self.note(Kind::DMA_ATOMIC, iova, &data, result.map(|_| ()));
        result
    }

    fn interrupt(&mut self, order: WriteOrder, vector: u16) {
        self.recorder
            .record_with(Kind::INTERRUPT, 0, vector, 0, &[]);
        self.host.interrupt(order, vector);
    }

    fn posted_until(&self) -> Instant {
        self.host.posted_until()
    }

    fn requested_until(&self) -> Instant {
        self.host.requested_until()
    }

    fn next_doorbell(&mut self) -> Option<Doorbell> {
        let doorbell = self.host.next_doorbell()?;
        let pushed = self.host.pushed();
        let words = match pushed {
            [] => std::slice::from_ref(&doorbell.value),
            words => words,
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.recorder
            .record(Kind::DOORBELL, doorbell.slot.into(), &bytes);
        Some(doorbell)
    }

    fn pushed(&self) -> &[u64] {
        self.host.pushed()
    }

    fn set_cycle(&mut self, cycle: u64) {
        self.recorder.set_cycle(cycle);
    }
}

#[cfg(test)]
mod tests {
    use ferroce_model::UntimedHost;
    use ferroce_test_support::temporary_directory;

    use super::*;
    use crate::format::Source;
    use crate::reader::Reader;

    const SIZE: usize = 16;

    /// Host memory whose bytes are their addresses.
    struct Memory;

    impl UntimedHost for Memory {
        fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
            let length = destination.len();
            if iova as usize + length > SIZE {
                return Err(DmaError::refused(iova, length));
            }
            for (address, byte) in (iova as u8..).zip(destination) {
                *byte = address;
            }
            Ok(())
        }

        fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
            let mut bytes = vec![0; source.len()];
            self.read(iova, &mut bytes)?;
            assert_eq!(source, bytes, "nothing changes");
            Ok(())
        }

        fn write_descriptor(&mut self, _iova: u64, _words: &[u64]) -> Result<(), DmaError> {
            unreachable!("no descriptors")
        }

        fn interrupt(&mut self, _vector: u16) {}
    }

    /// Goal: a record does not depend on whether the card uses the bytes of an access.
    #[test]
    fn accesses_without_use_are_recorded_with_their_bytes() {
        let directory = temporary_directory("unused");
        let path = directory.path().join("a.rec");
        let recorder = Recorder::create(&path, Source::Model).expect("new");
        let mut host = RecordingHost {
            host: &mut Memory,
            recorder: &recorder,
        };
        let (at, order) = (Instant::ZERO, WriteOrder::default());
        let scratch = &mut [0xff; 4];
        for iova in [4, SIZE as u64] {
            let read = host.dma_read_unused(at, iova, scratch);
            scratch.fill(0xff);
            let written = host.dma_write_unchanged(order, iova, scratch);
            assert_eq!(read, written);
        }
        drop(recorder);
        let mut reader = Reader::open(&path).expect("a record");
        let mut next = || {
            let record = reader.next_record().expect("whole").expect("one more");
            (record.kind, record.flags, record.address, record.data)
        };
        let length = 4u64.to_le_bytes().to_vec();
        for kind in [Kind::DMA_READ, Kind::DMA_WRITE] {
            assert_eq!(next(), (kind, 0, 4, vec![4, 5, 6, 7]));
        }
        for kind in [Kind::DMA_READ, Kind::DMA_WRITE] {
            assert_eq!(next(), (kind, flags::FAILED, SIZE as u64, length.clone()));
        }
    }
}

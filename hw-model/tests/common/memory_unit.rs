//! A memory unit over a host's memory, without a NIC around it.

use ferroce_model::Counters;
use ferroce_model::NicConfig;
use ferroce_model::config::CacheShape;
use ferroce_model::translation::memory_unit::MemoryUnit;
use ferroce_model::translation::memory_unit::window::Binder;
use ferroce_model::translation::mpt::Access;
use ferroce_model::translation::protection::ProtectionFault;
use ferroce_spec::command::ContextTables;
use ferroce_spec::context::{AccessRights, MemoryEntry, MemoryEntryWord, TranslationEntry};
use ferroce_spec::wqe::BindSegment;
use zerocopy::IntoBytes;

use super::{TestHost, place};

pub const PD: u32 = 7;
pub const QPN: u32 = 0x1_0005;
pub const START: u64 = 0x7000_0800;
pub const LENGTH: u64 = 0x3000;

pub const OWN: Binder = Binder { pd: PD, qpn: QPN };
pub const OTHER_QP: Binder = Binder {
    pd: PD,
    qpn: QPN + 1,
};

/// Caches of four lines.
pub const CACHE: CacheShape = CacheShape {
    log_sets: 1,
    ways: 2,
    mshrs: 4,
};

/// The tables in the host's memory.
pub fn tables() -> ContextTables {
    ContextTables {
        mpt_base: place::MPT,
        log_mrs: 6,
        mtt_base: place::MTT,
        log_mtts: 6,
        ..ContextTables::default()
    }
}

/// A memory unit over a host's memory.
pub struct Unit {
    pub memory: MemoryUnit,
    pub host: TestHost,
    pub counters: Counters,
}

/// Runs an expression with the memory unit and a DMA engine.
macro_rules! on {
    ($unit:expr, |$memory:ident, $dma:ident| $body:expr) => {{
        let $memory = &mut $unit.memory;
        let $dma = &mut ferroce_model::dma::Dma::new(
            &mut $unit.host,
            &mut $unit.counters,
            ferroce_units::Instant::ZERO,
        );
        $body
    }};
}

#[allow(unused_imports, reason = "each test uses a part of it")]
pub(crate) use on;

impl Unit {
    pub fn new() -> Self {
        let config = NicConfig {
            mpt_cache: CACHE,
            mtt_cache: CACHE,
            ..NicConfig::functional(0, [0; 6])
        };
        let mut memory: MemoryUnit = MemoryUnit::new(&config);
        memory.install_tables(&tables());
        let mut host = TestHost::new();
        for page in 0..4u64 {
            // Pages in reverse order: a window must not take them for contiguous.
            let entry = TranslationEntry::new(place::DATA + (3 - page) * 4096);
            host.write(place::MTT + page * 8, entry.as_bytes())
                .expect("mapped");
        }
        Self {
            memory,
            host,
            counters: Counters::new(),
        }
    }

    pub fn create(&mut self, entry: MemoryEntry) -> u32 {
        on!(self, |memory, dma| memory.create(entry, None, dma)).expect("room, mapped")
    }

    /// A region of pages whose first byte lies 0x800 behind the start of a page.
    pub fn region(&mut self, access: AccessRights) -> u32 {
        let mut word = MemoryEntryWord::default();
        word.set_log_page_size(12);
        self.create(MemoryEntry {
            word,
            key: 0x11,
            pd: PD,
            access,
            start: START,
            length: LENGTH,
            first_page_offset: START & 0xfff,
            ..MemoryEntry::default()
        })
    }

    pub fn window(&mut self, type_2: bool) -> u32 {
        let mut word = MemoryEntryWord::default();
        word.set_window(true);
        word.set_window_type_2(type_2);
        self.create(MemoryEntry {
            word,
            key: 0x40,
            pd: PD,
            ..MemoryEntry::default()
        })
    }

    pub fn entry(&mut self, key: u32) -> MemoryEntry {
        on!(self, |memory, dma| memory.entry(key, dma)).expect("valid")
    }

    pub fn bind(&mut self, binder: Binder, segment: BindSegment) -> Result<(), ProtectionFault> {
        on!(self, |memory, dma| memory.bind(binder, &segment, dma))
    }

    pub fn write(
        &mut self,
        qpn: u32,
        key: u32,
        address: u64,
        byte: u8,
    ) -> Result<(), ProtectionFault> {
        let access = Access {
            qpn,
            ..remote_write(key, address, 1)
        };
        on!(self, |memory, dma| memory.write(&access, &[byte], dma))
    }
}

pub fn rights(set: &[fn(&mut AccessRights, bool)]) -> AccessRights {
    let mut rights = AccessRights::default();
    set.iter().for_each(|set| set(&mut rights, true));
    rights
}

/// A region that takes windows of all rights, and grants peers nothing itself.
pub fn bindable() -> AccessRights {
    rights(&[AccessRights::set_local_write, AccessRights::set_window_bind])
}

pub fn remote_write(key: u32, address: u64, length: u64) -> Access {
    Access {
        pd: PD,
        key,
        address,
        length,
        rights: rights(&[AccessRights::set_remote_write]),
        qpn: QPN,
    }
}

/// A bind of 0x1800 bytes, 0x900 bytes behind the region's start, for remote writes.
pub fn segment(window: u32, region: u32) -> BindSegment {
    BindSegment {
        r_key: window + 1,
        l_key: region,
        address: START + 0x900,
        length: 0x1800,
        access: rights(&[AccessRights::set_remote_write]),
        reserved: 0,
    }
}

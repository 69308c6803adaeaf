//! Memory regions of all kinds, reregistration, windows and device memory, over an honest device.

use std::sync::Arc;

use crate::support::verbs::open;
use crate::support::{DEVICE_MEMORY, HonestDevice};
use ferroce_driver::bus::{DmaAccess, PAGE_SIZE, RegionTranslation};
use ferroce_driver::{
    DeviceMemory, DmaBuffer, DmaSpace, Error, MemoryAccess, MemoryRange, MemoryRegion,
    MemoryWindow, Reregistration, Translation, WindowType,
};
use ferroce_spec::command::{CommandStatus, DeviceFeatures};
use ferroce_spec::context::MemoryEntry;

const READ: MemoryAccess = MemoryAccess {
    local_write: false,
    remote_write: false,
    remote_read: true,
    remote_atomic: false,
    flush_global: false,
    flush_persistent: false,
    window_bind: false,
    relaxed_ordering: false,
};
const WRITE: MemoryAccess = MemoryAccess {
    local_write: true,
    ..READ
};

fn entry(fake: &HonestDevice, region: &MemoryRegion) -> MemoryEntry {
    fake.with_state(|state| state.mrs[&region.lkey().0])
}

fn range(memory: &[u8], virtual_address: u64) -> MemoryRange {
    MemoryRange {
        address: memory.as_ptr() as usize,
        length: memory.len(),
        virtual_address,
    }
}

#[test]
fn rereg_in_all_combinations() {
    let (fake, device) = open();
    let memory = vec![1u8; 5 * 4096];
    let (old, new) = memory.split_at(4096 + 17);
    for combination in 1..8u32 {
        let pds = [0, 1].map(|_| device.alloc_pd().expect("two PDs"));
        let before = range(old, 0x55);
        let region = MemoryRegion::register(&pds[0], before.address, before.length, 0x55, READ);
        let region = region.expect("fits");
        let (key, mappings) = (region.lkey(), fake.memory.len());
        let change = Reregistration {
            pd: (combination & 1 != 0).then(|| Arc::clone(&pds[1])),
            range: (combination & 2 != 0).then(|| range(new, 0)),
            access: (combination & 4 != 0).then_some(WRITE),
            translation: None,
        };
        assert_eq!(region.reregister(&change), Ok(()));
        assert_eq!((region.lkey(), region.rkey().0), (key, key.0));
        let expected = change.range.unwrap_or(before);
        assert_eq!(region.range(), Some(expected));
        let now = entry(&fake, &region);
        let pd = change.pd.as_ref().unwrap_or(&pds[0]);
        assert_eq!(now.pd, pd.number());
        assert_eq!(now.start, expected.virtual_address);
        assert_eq!(now.length, expected.length as u64);
        assert_eq!(now.first_page_offset, expected.address as u64 % 4096);
        assert_eq!(now.access.local_write(), change.access.is_some());
        assert!(now.access.remote_read());
        // The old pages are gone, and the new ones are mapped as the rights require.
        assert_eq!(fake.memory.len(), mappings);
        let first = fake.translation(region.lkey().0, 0).iova();
        let mappings = fake.memory.mappings();
        let mapping = mappings.iter().find(|mapping| mapping.iova == first);
        let mapping = mapping.expect("the first page is mapped");
        assert_eq!(mapping.address, expected.address / 4096 * 4096);
        let writable = mapping.access == DmaAccess::ReadWrite;
        assert_eq!(writable, change.access.is_some());
        let other = if change.pd.is_some() { 0 } else { 1 };
        assert_eq!(pds[other].dealloc(), Ok(()));
        assert_eq!(pds[1 - other].dealloc(), Err(Error::Busy));
        assert_eq!(region.deregister(), Ok(()));
        assert_eq!(region.range(), None);
        assert_eq!(region.reregister(&change), Err(Error::Destroyed));
    }
}

#[test]
fn a_refused_rereg_changes_nothing() {
    let (fake, device) = open();
    let pds = [0, 1].map(|_| device.alloc_pd().expect("two PDs"));
    let memory = vec![1u8; 3 * 4096];
    let before = range(&memory[..100], 0);
    let region = MemoryRegion::register(&pds[0], before.address, 100, 0, READ).expect("fits");
    let (key, mappings, entry_before) = (region.lkey(), fake.memory.len(), entry(&fake, &region));
    let everything = Reregistration {
        pd: Some(Arc::clone(&pds[1])),
        range: Some(range(&memory, 7)),
        access: Some(WRITE),
        translation: None,
    };
    let errno = |change: &Reregistration| {
        let error = region.reregister(change).expect_err("refused");
        assert_eq!(region.lkey(), key);
        assert_eq!(region.range(), Some(before));
        assert_eq!(fake.memory.len(), mappings);
        assert_eq!(entry(&fake, &region), entry_before);
        error.errno()
    };
    *fake.refuse.lock() = Some(CommandStatus::BUSY);
    assert_eq!(errno(&everything), libc::EBUSY, "windows are bound");
    let wrapped = MemoryRange {
        address: usize::MAX - 4095,
        ..before
    };
    assert_eq!(
        errno(&Reregistration {
            range: Some(wrapped),
            ..everything.clone()
        }),
        libc::EINVAL
    );
    let contradiction = MemoryAccess {
        remote_write: true,
        ..READ
    };
    assert_eq!(
        errno(&Reregistration {
            access: Some(contradiction),
            ..Reregistration::default()
        }),
        libc::EINVAL
    );
    let (_other_fake, other) = open();
    let foreign = other.alloc_pd().expect("first PD");
    assert_eq!(
        errno(&Reregistration {
            pd: Some(foreign),
            ..Reregistration::default()
        }),
        libc::EINVAL
    );
    assert_eq!(pds[1].dealloc(), Ok(()), "not a user of it");
}

#[test]
fn a_null_region() {
    let (fake, device) = open();
    let pd = device.alloc_pd().expect("first PD");
    let mappings = fake.memory.len();
    let region = MemoryRegion::register_null(&pd).expect("a key is free");
    let now = entry(&fake, &region);
    assert!(now.word.null() && now.word.valid() && now.access.local_write());
    assert!(!now.access.remote_read() && !now.access.remote_write());
    assert_eq!((now.start, now.length), (0, u64::MAX));
    assert_eq!(fake.memory.len(), mappings);
    let change = Reregistration {
        range: Some(range(&[0; 8], 0)),
        ..Reregistration::default()
    };
    let error = region.reregister(&change).expect_err("has no memory");
    assert_eq!(error.errno(), libc::EOPNOTSUPP);
    assert_eq!(pd.dealloc(), Err(Error::Busy));
    drop(region);
    assert_eq!(pd.dealloc(), Ok(()));
}

#[test]
fn device_memory() {
    let (fake, device) = open();
    assert_eq!(
        device.capabilities().device_memory_length,
        DEVICE_MEMORY as u64
    );
    let errno = |length, log_alignment| {
        let error = DeviceMemory::alloc(&device, length, log_alignment).err();
        error.map(|error| error.errno())
    };
    assert_eq!(errno(0, 0), Some(libc::EINVAL));
    assert_eq!(errno(8, 13), Some(libc::EINVAL));
    assert_eq!(errno(8, 99), Some(libc::EINVAL));
    assert_eq!(errno(DEVICE_MEMORY as u64 + 1, 0), Some(libc::ENOMEM));
    assert_eq!(errno(u64::MAX, 0), Some(libc::ENOMEM));
    let first = DeviceMemory::alloc(&device, 13, 0).expect("empty");
    let second = DeviceMemory::alloc(&device, 100, 6).expect("enough is left");
    let mut bytes = [1; 13];
    first.copy_out(0, &mut bytes).expect("inside");
    assert_eq!(bytes, [0; 13], "zeroed");
    first.copy_in(3, b"hello").expect("inside");
    assert!(first.copy_in(9, b"hello").is_err());
    assert!(first.copy_in(u64::MAX, b"hello").is_err());
    second.copy_in(0, &[9; 100]).expect("inside");
    first.copy_out(0, &mut bytes).expect("inside");
    assert_eq!(&bytes, b"\0\0\0hello\0\0\0\0\0");
    assert_eq!(fake.device_memory.lock()[64..164], [9; 100]);
    let pd = device.alloc_pd().expect("first PD");
    let register = |offset, length| {
        MemoryRegion::register_device_memory(&pd, &second, offset, length, 0, WRITE)
    };
    assert!(register(1, 100).is_err() && register(101, 0).is_err());
    let region = register(4, 96).expect("inside");
    let now = entry(&fake, &region);
    assert!(now.word.device_memory() && now.word.valid());
    assert_eq!((now.start, now.length, now.translation), (0, 96, 68));
    assert_eq!(second.free(), Err(Error::Busy));
    let other = device.alloc_pd().expect("second PD");
    let change = Reregistration {
        pd: Some(Arc::clone(&other)),
        access: Some(READ),
        ..Reregistration::default()
    };
    assert_eq!(region.reregister(&change), Ok(()));
    let now = entry(&fake, &region);
    assert_eq!((now.pd, now.translation), (other.number(), 68));
    assert_eq!(region.deregister(), Ok(()));
    assert_eq!(second.free(), Ok(()));
    assert_eq!(second.free(), Err(Error::Destroyed));
    assert!(second.copy_in(0, &[0]).is_err());
    drop((first, second));
    let whole = DeviceMemory::alloc(&device, DEVICE_MEMORY as u64, 12);
    assert!(whole.is_ok(), "everything has come back");
}

#[test]
fn memory_windows() {
    let (fake, device) = open();
    let pd = device.alloc_pd().expect("first PD");
    for (kind, is_type_2) in [(WindowType::One, false), (WindowType::Two, true)] {
        let window = MemoryWindow::alloc(&pd, kind).expect("a key is free");
        assert_eq!(window.window_type(), kind);
        let now = fake.with_state(|state| state.mrs[&window.rkey().0]);
        assert!(now.word.window() && !now.word.bound());
        assert_eq!(now.word.window_type_2(), is_type_2);
        assert_eq!((now.pd, now.length), (pd.number(), 0));
        assert_eq!(pd.dealloc(), Err(Error::Busy));
        assert_eq!(window.dealloc(), Ok(()));
        assert_eq!(window.dealloc(), Err(Error::Destroyed));
    }
    assert!(fake.with_state(|state| state.mrs.is_empty()));
    assert_eq!(pd.dealloc(), Ok(()));
    let mut lacks = DeviceFeatures::default();
    lacks.set_memory_windows(true);
    let device = ferroce_driver::Device::open(HonestDevice::without(lacks)).expect("opens");
    assert_eq!(device.capabilities().max_mw, 0);
    let pd = device.alloc_pd().expect("first PD");
    let error = MemoryWindow::alloc(&pd, WindowType::One).err();
    assert_eq!(error.map(|error| error.errno()), Some(libc::EOPNOTSUPP));
}

#[test]
fn translation_of_choice() {
    let (fake, device) = open();
    let pd = device.alloc_pd().expect("first PD");
    let memory = vec![1u8; 6 << 20];
    // A whole page of 2 MiB lies inside.
    let start = (memory.as_ptr() as usize).next_multiple_of(2 << 20) + 0x1234;
    let range = MemoryRange {
        address: start,
        length: 0x2000,
        virtual_address: 0x7000,
    };
    let register = |translation| MemoryRegion::register_translated(&pd, range, WRITE, translation);
    let paged = register(Translation::Pages(21)).expect("a page size of the device");
    let now = entry(&fake, &paged);
    assert_eq!(now.word.log_page_size(), 21);
    assert_eq!(now.first_page_offset, 0x1234);
    let page = fake.translation(paged.lkey().0, 0).iova();
    assert_eq!(page % (2 << 20), 0);
    assert_eq!(paged.deregister(), Ok(()));

    let direct = register(Translation::Direct).expect("needs no pages");
    let now = entry(&fake, &direct);
    assert!(now.word.direct() && now.word.valid());
    assert_eq!((now.start, now.first_page_offset), (0x7000, 0));
    assert_eq!(
        fake.read::<u64>(now.translation & !7),
        0x0101_0101_0101_0101
    );
    for log in [13, 64, 255] {
        assert!(register(Translation::Pages(log)).is_err(), "{log}");
    }
}

/// Goal: a bus chooses how regions are translated, whatever the memory is; a page size that the
/// device lacks is not chosen. Method: a region of small pages that a page of 2 MiB does not hold,
/// begins inside a page, and ends before the large page does.
#[test]
fn translation_that_the_bus_chooses() {
    let memory = vec![7u8; 3 << 20];
    let start = (memory.as_ptr() as usize).next_multiple_of(PAGE_SIZE) + 0x234;
    for (translation, log) in [
        (RegionTranslation::Direct, None),
        (RegionTranslation::Pages(12), Some(12)),
        (RegionTranslation::Pages(21), Some(21)),
        (RegionTranslation::Pages(13), Some(12)),
    ] {
        let fake = HonestDevice::with_region_translation(translation);
        let device = ferroce_driver::Device::open(fake.clone()).expect("opens");
        let pd = device.alloc_pd().expect("first PD");
        let region = MemoryRegion::register(&pd, start, 5 << 19, 0x7000, WRITE).expect("memory");
        let now = entry(&fake, &region);
        assert_eq!(
            (now.start, now.length),
            (0x7000, 5 << 19),
            "{translation:?}"
        );
        assert_eq!(now.word.direct(), log.is_none(), "{translation:?}");
        let Some(log) = log else {
            assert_eq!(now.translation % PAGE_SIZE as u64, 0x234);
            continue;
        };
        assert_eq!(now.word.log_page_size(), log, "{translation:?}");
        assert_eq!(now.first_page_offset, 0x234, "{translation:?}");
        let last = ((5 << 19) + 0x234) >> log;
        let [first, end] = [0, last].map(|page| fake.translation(region.lkey().0, page).iova());
        assert_eq!((first % (1 << log), end - first), (0, last << log));
        assert_eq!(region.deregister(), Ok(()));
    }
}

/// Goal: IOVAs of large mappings allow huge pages in the IOMMU, except on simulated hosts, where
/// results must not depend on random addresses. Method: mappings whose lengths are not multiples of
/// a huge page, so that later ones begin anywhere in one.
#[test]
fn iovas_are_congruent_to_addresses_or_independent_of_them() {
    const HUGE_PAGE: u64 = 2 << 20;
    let devices = [
        (HonestDevice::new(), true),
        (HonestDevice::with_independent_iovas(), false),
    ];
    for (device, is_congruent) in devices {
        let space = DmaSpace::new(device);
        let buffers: Vec<_> = (0..8)
            .map(|_| DmaBuffer::new(&space, HUGE_PAGE as usize + PAGE_SIZE).expect("memory"))
            .collect();
        for (buffer, place) in buffers.iter().zip(0..) {
            let address = buffer.words().as_ptr() as u64;
            if is_congruent {
                assert_eq!(buffer.iova() % HUGE_PAGE, address % HUGE_PAGE);
            } else {
                assert_eq!(buffer.iova(), HUGE_PAGE * (2 * place + 1));
            }
        }
    }
}

//! On-demand regions, over an honest device.

use std::sync::Arc;

use crate::support::verbs::open;
use crate::support::{ADDRESS_SPACE, HonestDevice};
use ferroce_driver::{
    Device, MemoryAccess, MemoryRange, MemoryRegion, Reregistration, Translation,
};
use ferroce_spec::context::MemoryEntry;
use ferroce_spec::eqe::EventType;

const WRITE: MemoryAccess = MemoryAccess {
    local_write: true,
    remote_write: true,
    remote_read: true,
    remote_atomic: false,
    flush_global: false,
    flush_persistent: false,
    window_bind: false,
    relaxed_ordering: false,
};

fn entry(fake: &HonestDevice, region: &MemoryRegion) -> MemoryEntry {
    fake.with_state(|state| state.mrs[&region.lkey().0])
}

fn open_with_address_space() -> (Arc<HonestDevice>, Arc<Device>) {
    let fake = HonestDevice::with_address_space();
    let device = Device::open(fake.clone()).expect("an honest device opens");
    (fake, device)
}

/// Goal: an on-demand region is a place in the address space; nothing is mapped for it, and the
/// address space is visible as long as there is such a region.
#[test]
fn the_address_space_is_visible_while_a_region_needs_it() {
    let (fake, device) = open_with_address_space();
    assert!(device.capabilities().on_demand_paging);
    let pd = device.alloc_pd().expect("first PD");
    let mappings = fake.memory.len();
    let range = MemoryRange {
        address: 0x7000_0123,
        length: 100,
        virtual_address: 0x55,
    };
    let register =
        |range| MemoryRegion::register_translated(&pd, range, WRITE, Translation::OnDemand);
    let one = register(range).expect("no memory is needed");
    let other = register(MemoryRange::ALL).expect("the whole address space");
    assert_eq!(fake.memory.len(), mappings);
    let now = entry(&fake, &one);
    assert!(now.word.direct() && now.word.valid());
    assert_eq!((now.start, now.length), (0x55, 100));
    assert_eq!(now.translation, ADDRESS_SPACE.start + 0x7000_0123);
    let size = ADDRESS_SPACE.end - ADDRESS_SPACE.start;
    let now = entry(&fake, &other);
    assert_eq!(
        (now.start, now.length, now.translation),
        (0, size, ADDRESS_SPACE.start)
    );
    assert_eq!(other.range(), Some(MemoryRange::ALL));
    let memory = one.on_demand().expect("it is");
    assert_eq!(
        (memory.pd, memory.range, memory.writable),
        (pd.number(), range, true)
    );
    drop(one);
    assert!(*fake.address_space.lock());
    drop(other);
    assert!(!*fake.address_space.lock());
    // No address of a program lies there: no byte of it is ever accessible.
    let beyond = MemoryRange {
        address: 1 << 60,
        ..range
    };
    let beyond = register(beyond).expect("no memory is needed");
    assert_eq!(entry(&fake, &beyond).length, 0);
}

#[test]
fn a_region_changes_between_pinned_and_on_demand() {
    let (fake, device) = open_with_address_space();
    let pd = device.alloc_pd().expect("first PD");
    let memory = vec![1u8; 3 * 4096];
    let (address, length) = (memory.as_ptr() as usize, memory.len());
    let mappings = fake.memory.len();
    let start = address as u64;
    let region = MemoryRegion::register(&pd, address, length, start, WRITE).expect("fits");
    let key = region.lkey();
    assert_eq!(region.on_demand(), None);
    let change = |translation| Reregistration {
        translation: Some(translation),
        ..Reregistration::default()
    };
    assert_eq!(region.reregister(&change(Translation::OnDemand)), Ok(()));
    assert_eq!(fake.memory.len(), mappings);
    assert!(region.on_demand().is_some() && entry(&fake, &region).word.direct());
    assert_eq!(region.reregister(&Reregistration::default()), Ok(()));
    assert!(region.on_demand().is_some() && *fake.address_space.lock());
    assert_eq!(region.reregister(&change(Translation::Kernel)), Ok(()));
    assert_eq!(fake.memory.len(), mappings + 1);
    assert!(!entry(&fake, &region).word.direct() && !*fake.address_space.lock());
    assert_eq!(region.lkey(), key);
}

#[test]
fn a_bus_without_page_tables_refuses() {
    let (_fake, device) = open();
    assert!(!device.capabilities().on_demand_paging);
    let pd = device.alloc_pd().expect("first PD");
    let all = MemoryRange::ALL;
    let register =
        |translation| MemoryRegion::register_translated(&pd, all, WRITE, translation).err();
    let errno = |translation| register(translation).map(|error| error.errno());
    assert_eq!(errno(Translation::OnDemand), Some(libc::EOPNOTSUPP));
    assert_eq!(errno(Translation::Kernel), Some(libc::EINVAL), "too long");
}

/// Goal: on a bus with page faults the device has an entry for each page, which is present after
/// the event of its first access, or a prefetch.
#[test]
fn page_faults_are_served_and_answered_in_order() {
    let fake = HonestDevice::with_page_faults();
    let device = Device::open(fake.clone()).expect("an honest device opens");
    assert!(device.capabilities().on_demand_paging && device.capabilities().page_faults);
    let pd = device.alloc_pd().expect("first PD");
    let register =
        |range| MemoryRegion::register_translated(&pd, range, WRITE, Translation::OnDemand);
    let implicit = register(MemoryRange::ALL).err().map(|error| error.errno());
    assert_eq!(implicit, Some(libc::EOPNOTSUPP));
    let range = MemoryRange {
        address: 0x7000_0123,
        length: 6 * 4096,
        virtual_address: 0x55,
    };
    let region = register(range).expect("no memory is needed");
    let key = region.lkey().0;
    let now = entry(&fake, &region);
    assert!(now.word.on_demand() && !now.word.direct());
    assert_eq!(
        (now.start, now.length, now.first_page_offset),
        (0x55, 6 * 4096, 0x123)
    );
    let present = || {
        let entries = (0..7).map(|page| fake.translation(key, page));
        let present = entries.map(|entry| entry.present().then(|| entry.iova()));
        present.collect::<Vec<_>>()
    };
    let at = |page: u64| Some(ADDRESS_SPACE.start + 0x7000_0000 + page * 4096);
    assert_eq!(present(), [None; 7]);
    let fault = |key, page| fake.raise_for_page(0, EventType::PAGE_FAULT, key, page);
    fault(key, 2);
    assert_eq!(present(), [None, None, at(2), at(3), None, None, None]);
    // Memory is missing: first after the page, then at the page.
    *fake.missing_page.lock() = 0x7000_5000;
    fault(key, 4);
    assert_eq!(present(), [None, None, at(2), at(3), at(4), None, None]);
    fault(key, 5);
    // A page that no region has, and a region that is gone.
    fault(key, 7);
    fault(key ^ 0x100, 0);
    let refused = 1 << 31;
    let answers = [1, 2, 3 | refused, 4 | refused, 5];
    assert_eq!(*fake.page_fault_answers.lock(), answers);
    assert_eq!(region.prefetch(0x7000_0fff, 2), Ok(true));
    assert_eq!(present(), [at(0), at(1), at(2), at(3), at(4), None, None]);
    assert_eq!(region.prefetch(0x7000_5000, 1), Ok(false));
    assert_eq!(region.prefetch(0x7000_0123, 0), Ok(true));
    assert!(region.prefetch(0x7000_0122, 1).is_err(), "outside");
}

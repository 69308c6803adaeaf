//! On-demand regions, over an honest device.

use std::sync::Arc;

use crate::support::verbs::open;
use crate::support::{ADDRESS_SPACE, HonestDevice};
use ferroce_driver::{
    Device, MemoryAccess, MemoryRange, MemoryRegion, Reregistration, Translation,
};
use ferroce_spec::context::MemoryEntry;

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

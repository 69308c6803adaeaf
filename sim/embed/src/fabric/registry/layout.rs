//! Layout of the file, and encoding of its values.

use ferroce_faults::{FaultCounter, MAX_EXPRESSION};
use ferroce_platform::host::MAX_GIDS;
use ferroce_wire::{Gid, Mac};

use super::uplink_counters::UplinkCounter;

/// Places, including two that are never claimed: the QPNs of place 0 include the special QPs 0 and
/// 1, and the last QPN of place 255, which has pages, too, is that of multicast.
pub const PLACES: usize = 255;
/// Counters of a place.
pub const MAX_COUNTERS: usize = 256;
/// Multicast groups of a place.
pub const MAX_GROUPS: usize = 256;
/// Ports that all processes of the machine can have at a time.
pub(super) const MAX_SERVICE_PORTS: usize = 4096;
/// Words of the bitmap of places that announced a ring.
pub const ANNOUNCE_WORDS: usize = PLACES.div_ceil(64);

/// Incremented with every change of this file's or of the rings' layout.
pub(super) const LAYOUT_VERSION: u64 = 5;
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"Ferroce\n");
pub(super) const PLACE_SIZE: usize = 8192;
/// Behind the pages of every 8-bit number: ports of RDMA CM.
pub(super) const SERVICE_PORTS: usize = PLACE_SIZE * 256;
pub(super) const FILE_SIZE: usize = SERVICE_PORTS + 8 * MAX_SERVICE_PORTS;

/// The header takes the pages of place 0.
pub(super) mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const GENERATION: usize = 16;
    pub const NEXT_PLACE: usize = 24;
    /// Every sender of multicast reads it, few write it: a separate cache line.
    pub const GROUP_EPOCH: usize = 128;
    pub const NEXT_SERVICE_PORT: usize = 192;
}

/// A place's pages. Words written by different processors are on different cache lines.
pub(super) mod field {
    pub const GENERATION: usize = 0;
    pub const PID: usize = 8;
    pub const MAC: usize = 16;
    pub const GID_COUNT: usize = 24;
    pub const CAPTURE: usize = 32;
    pub const DEVICE: usize = 40;
    pub const INJECTED: usize = 48;
    pub const GROUP_COUNT: usize = 56;
    pub const NAME: usize = 64;
    pub const GIDS: usize = 128;
    pub const HEARTBEAT: usize = 1024;
    pub const ARMED: usize = 1088;
    pub const DOZING: usize = 1092;
    pub const WOKEN_AT: usize = 1096;
    pub const ANNOUNCED: usize = 1152;
    pub const ANNOUNCE_EPOCH: usize = 1184;
    pub const LATE_WAKEUPS: usize = 1216;
    pub const MAX_LATE_US: usize = 1224;
    pub const GSI: usize = 1232;
    pub const DEVICE_FAULTS: usize = 1272;
    pub const UPLINK_COUNTERS: usize = 1280;
    pub const FAULT_COUNTERS: usize = 1344;
    pub const FAULTS_ACTIVE: usize = 1416;
    pub const FAULT_PLAN_LENGTH: usize = 1424;
    pub const FAULT_PLAN: usize = 1432;
    pub const COUNTERS: usize = 2048;
    pub const GROUPS: usize = 4096;
}

const _: () = assert!(field::GIDS + 16 * MAX_GIDS <= field::HEARTBEAT);
const _: () = assert!(field::ANNOUNCED + 8 * ANNOUNCE_WORDS <= field::ANNOUNCE_EPOCH);
const _: () = assert!(field::GSI + 8 <= field::DEVICE_FAULTS);
const _: () = assert!(field::DEVICE_FAULTS + 8 <= field::UPLINK_COUNTERS);
const _: () =
    assert!(field::UPLINK_COUNTERS + 8 * UplinkCounter::ALL.len() <= field::FAULT_COUNTERS);
const _: () = assert!(field::FAULT_COUNTERS + 8 * FaultCounter::ALL.len() <= field::FAULTS_ACTIVE);
const _: () = assert!(field::FAULT_PLAN + MAX_EXPRESSION <= field::COUNTERS);
const _: () = assert!(field::COUNTERS + 8 * MAX_COUNTERS <= field::GROUPS);
const _: () = assert!(field::GROUPS + 16 * MAX_GROUPS <= PLACE_SIZE);
const _: () = assert!(ferroce_spec::counter::COUNTER_COUNT <= MAX_COUNTERS);
const _: () = assert!(ferroce_model::receive::multicast::MAX_GROUPS <= MAX_GROUPS);

pub(super) fn place_offset(place: u8) -> usize {
    usize::from(place) * PLACE_SIZE
}

pub(super) fn mac_to_word(mac: Mac) -> u64 {
    mac.0
        .iter()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

pub(super) fn word_to_mac(word: u64) -> Mac {
    let [_, _, bytes @ ..] = word.to_be_bytes();
    Mac(bytes)
}

pub(super) fn gid_to_words(gid: Gid) -> (u64, u64) {
    let value = u128::from_be_bytes(gid.0);
    ((value >> 64) as u64, value as u64)
}

pub(super) fn words_to_gid(high: u64, low: u64) -> Gid {
    Gid((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
}

//! Layout of the file, and encoding of its values.

use ferroce_faults::{FaultCounter, MAX_EXPRESSION};
use ferroce_platform::host::MAX_GIDS;
use ferroce_wire::{Gid, Mac};

use super::uplink_counters::UplinkCounter;

/// Number of places. Two are never claimed: the QPNs of place 0 include the special QPs 0 and 1,
/// and the last QPN of place 255, which also has pages, is the multicast QPN.
pub const PLACES: usize = 255;
/// Counters of a place.
pub const MAX_COUNTERS: usize = 128;
/// Queue pairs of a place that are listed.
pub const MAX_QPS: usize = 127;
/// Multicast groups of a place.
pub const MAX_GROUPS: usize = 256;
/// Maximum number of ports in use by all processes of the machine.
pub(super) const MAX_SERVICE_PORTS: usize = 4096;
/// Words of the bitmap of places that have announced a ring.
pub const ANNOUNCE_WORDS: usize = PLACES.div_ceil(64);

/// Incremented with every change to the layout of this file or of the rings.
pub(super) const LAYOUT_VERSION: u64 = 11;
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"Ferroce\n");
pub(super) const PLACE_SIZE: usize = 12288;
/// Ports of RDMA CM, after the pages of all 256 places.
pub(super) const SERVICE_PORTS: usize = PLACE_SIZE * 256;
/// After the ports: counters of functions that have ended, one row per device.
pub(super) const TOTALS: usize = SERVICE_PORTS + 8 * MAX_SERVICE_PORTS;
/// Devices that have a row of counters.
pub(super) const MAX_TOTALS: usize = 64;
/// A row: the device, then its counters.
pub(super) const TOTALS_SIZE: usize = 8 + 8 * MAX_COUNTERS;
pub(super) const FILE_SIZE: usize = TOTALS + MAX_TOTALS * TOTALS_SIZE;
/// Bytes of a program's name; the kernel truncates it to this length.
pub(super) const MAX_PROGRAM_NAME: usize = 16;

/// The header takes the pages of place 0.
pub(super) mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const GENERATION: usize = 16;
    pub const NEXT_PLACE: usize = 24;
    /// Every sender of multicast reads it and few processes write it: on its own cache line.
    pub const GROUP_EPOCH: usize = 128;
    pub const NEXT_SERVICE_PORT: usize = 192;
    /// Odd while counters are moved from a place to the totals.
    pub const TOTALS_EPOCH: usize = 256;
    pub const NEXT_TOTALS: usize = 264;
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
    pub const POLLS_UNTIL: usize = 1024;
    pub const ARMED: usize = 1088;
    pub const DOZING: usize = 1092;
    pub const WOKEN_AT: usize = 1096;
    pub const ASKED_TO_MOVE: usize = 1104;
    pub const ANNOUNCED: usize = 1152;
    pub const ANNOUNCE_EPOCH: usize = 1184;
    pub const OPENS_NO_FILES: usize = 1192;
    pub const LATE_WAKEUPS: usize = 1216;
    pub const MAX_LATE_US: usize = 1224;
    pub const GSI: usize = 1232;
    pub const RUN: usize = 1240;
    pub const PROGRAM: usize = 1248;
    pub const DEVICE_FAULTS: usize = 1272;
    pub const UPLINK_COUNTERS: usize = 1280;
    pub const FAULT_COUNTERS: usize = 1344;
    pub const FAULTS_ACTIVE: usize = 1416;
    pub const FAULT_PLAN_LENGTH: usize = 1424;
    pub const FAULT_PLAN: usize = 1432;
    pub const SITUATION: usize = 1944;
    pub const IS_SERVED: usize = 1952;
    pub const COUNTERS: usize = 2048;
    pub const QP_COUNT: usize = 3072;
    pub const QPS: usize = 3080;
    pub const GROUPS: usize = 4096;
    pub const QP_PSNS: usize = 8192;
}

const _: () = assert!(field::GIDS + 16 * MAX_GIDS <= field::POLLS_UNTIL);
const _: () = assert!(field::ASKED_TO_MOVE + 8 * ANNOUNCE_WORDS <= field::ANNOUNCED);
const _: () = assert!(field::ANNOUNCED + 8 * ANNOUNCE_WORDS <= field::ANNOUNCE_EPOCH);
const _: () = assert!(field::PROGRAM + MAX_PROGRAM_NAME <= field::DEVICE_FAULTS);
const _: () = assert!(field::DEVICE_FAULTS + 8 <= field::UPLINK_COUNTERS);
const _: () =
    assert!(field::UPLINK_COUNTERS + 8 * UplinkCounter::ALL.len() <= field::FAULT_COUNTERS);
const _: () = assert!(field::FAULT_COUNTERS + 8 * FaultCounter::ALL.len() <= field::FAULTS_ACTIVE);
const _: () = assert!(field::FAULT_PLAN + MAX_EXPRESSION <= field::SITUATION);
const _: () = assert!(field::IS_SERVED + 8 <= field::COUNTERS);
const _: () = assert!(field::COUNTERS + 8 * MAX_COUNTERS <= field::QP_COUNT);
const _: () = assert!(field::QPS + 8 * MAX_QPS <= field::GROUPS);
const _: () = assert!(field::GROUPS + 16 * MAX_GROUPS <= field::QP_PSNS);
const _: () = assert!(field::QP_PSNS + 8 * MAX_QPS <= PLACE_SIZE);
const _: () = assert!(ferroce_spec::counter::COUNTER_COUNT <= MAX_COUNTERS);
const _: () = assert!(ferroce_model::receive::multicast::MAX_GROUPS <= MAX_GROUPS);

pub(super) fn place_offset(place: u8) -> usize {
    usize::from(place) * PLACE_SIZE
}

/// Returns a text as `WORDS` words, truncated at a character boundary and padded with zeros.
pub(super) fn text_to_words<const WORDS: usize>(text: &str) -> [u64; WORDS] {
    let length = (0..=text.len().min(8 * WORDS))
        .rfind(|length| text.is_char_boundary(*length))
        .unwrap_or(0);
    let bytes = &text.as_bytes()[..length];
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        let little = bytes.iter().rev();
        *word = little.fold(0, |value, byte| value << 8 | u64::from(*byte));
    }
    words
}

pub(super) fn words_to_text(words: impl Iterator<Item = u64>) -> String {
    let bytes = words.flat_map(u64::to_le_bytes);
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
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

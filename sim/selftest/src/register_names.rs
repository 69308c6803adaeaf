//! Registers of BAR0 by name, and the meaning of their values, from the contract's tables.

use ferroce_driver::bus::Bus;
use ferroce_spec::counter::COUNTERS;
use ferroce_spec::layout::{Bits, WordTable};
use ferroce_spec::register::{
    AdpRetxProfile, AdpRetxProfileStart, AdpRetxRange, BAR0_SIZE, COUNTERS_OFFSET, Capability,
    Control, EventQueueDoorbell, FatalSyndrome, REGISTERS, RegisterAccess, RoceAccl,
    RoceAcclLimits, RoceAcclSelect, Status, offset,
};
use ferroce_wire::Mac;

/// A register, an element of one, a counter, or an offset without a name.
#[derive(Debug, Clone)]
pub struct Place {
    /// Name; or the offset, if it has none.
    pub name: String,
    /// Byte of BAR0.
    pub offset: u32,
    /// Bytes: 4 or 8.
    pub width: u32,
    /// Access of software.
    pub access: RegisterAccess,
    /// Its meaning.
    pub meaning: &'static str,
    /// Its bits, if they have names.
    pub word: Option<WordTable>,
}

/// Error: there is no such place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// No register has this name.
    #[error("there is no register or counter {name:?}{}; `ferroce reg list` names them all", similar(.name))]
    NoSuchName {
        /// The requested name.
        name: String,
    },
    /// The register has fewer elements.
    #[error("{name} has no element {index}; it has {count}, from {name}[0] on")]
    NoSuchElement {
        /// The register.
        name: String,
        /// The requested index.
        index: u32,
        /// Elements.
        count: u32,
    },
    /// Not in BAR0.
    #[error("offset {0:#x} is not a multiple of 4 below {BAR0_SIZE:#x}, the size of BAR0")]
    BadOffset(u64),
}

/// Returns similar names.
fn similar(name: &str) -> String {
    let names = all().map(|place| place.name);
    let near: Vec<String> = names
        .filter(|other| other.contains(name) || !other.is_empty() && name.contains(other.as_str()))
        .take(6)
        .collect();
    if near.is_empty() || name.is_empty() {
        return String::new();
    }
    format!(" (did you mean {}?)", near.join(", "))
}

/// Returns the bits of a register whose cell type is `kind`.
fn word_of(kind: &str) -> Option<WordTable> {
    [
        Capability::TABLE,
        Control::TABLE,
        Status::TABLE,
        EventQueueDoorbell::TABLE,
        RoceAcclSelect::TABLE,
        RoceAccl::TABLE,
        RoceAcclLimits::TABLE,
        AdpRetxProfile::TABLE,
        AdpRetxProfileStart::TABLE,
        AdpRetxRange::TABLE,
    ]
    .into_iter()
    .find(|table| kind.contains(&format!("<{}>", table.name)))
}

/// Returns every register and counter, in the order of their offsets, with each element of an
/// array.
pub fn all() -> impl Iterator<Item = Place> {
    let registers = REGISTERS.iter().flat_map(|register| {
        (0..register.count).map(move |index| Place {
            name: match register.count {
                1 => register.name.to_owned(),
                _ => format!("{}[{index}]", register.name),
            },
            offset: register.offset + index * register.width,
            width: register.width,
            access: register.access,
            meaning: register.meaning,
            word: word_of(register.kind),
        })
    });
    let counters = (0..).zip(COUNTERS).map(|(index, counter)| Place {
        name: counter.name.to_owned(),
        offset: COUNTERS_OFFSET + 8 * index,
        width: 8,
        access: RegisterAccess::ReadOnly,
        meaning: counter.meaning,
        word: None,
    });
    registers.chain(counters)
}

/// Returns the place that `text` names: `status`, `event_queue_doorbell[3]`, `rx_frames`, `0x24`.
///
/// # Errors
/// [`PlaceError`].
pub fn find(text: &str) -> Result<Place, PlaceError> {
    if let Some(offset) = parse_number(text) {
        return at(offset);
    }
    if let Some(place) = all().find(|place| place.name == text) {
        return Ok(place);
    }
    let (name, index) = match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
        Some((name, index)) => (name, parse_number(index)),
        None => (text, Some(0)),
    };
    let register = REGISTERS.iter().find(|register| register.name == name);
    match (register, index) {
        // A whole array: its first element represents it.
        (Some(register), Some(index)) if index < register.count.into() => {
            at((register.offset + index as u32 * register.width).into())
        }
        (Some(register), Some(index)) => Err(PlaceError::NoSuchElement {
            name: name.to_owned(),
            index: u32::try_from(index).unwrap_or(u32::MAX),
            count: register.count,
        }),
        _ => Err(PlaceError::NoSuchName {
            name: text.to_owned(),
        }),
    }
}

/// A field of a register.
#[derive(Debug, Clone)]
pub struct Field {
    /// The register.
    pub place: Place,
    /// Its bits in it.
    pub bits: Bits,
}

impl Field {
    fn mask(&self) -> u64 {
        u64::MAX >> (63 - (self.bits.high - self.bits.low))
    }

    /// Extracts the field from the value of the register.
    #[must_use]
    pub fn of(&self, register: u64) -> u64 {
        register >> self.bits.low & self.mask()
    }

    /// Returns the value of the register with `value` in the field; `None`: it does not fit.
    #[must_use]
    pub fn put(&self, register: u64, value: u64) -> Option<u64> {
        let kept = register & !(self.mask() << self.bits.low);
        (value <= self.mask()).then_some(kept | value << self.bits.low)
    }
}

/// Groups of registers whose names have other prefixes.
const GROUPS: [(&str, &[&str]); 1] = [("roce_accl", &["roce_accl", "adp_retx"])];

/// Returns the field that `text` names, `status.ready` or `ROCE_ACCL.selective_repeat_forced_en`:
/// a field of a register, or of any register of a group.
#[must_use]
pub fn find_field(text: &str) -> Option<Field> {
    let (owner, name) = text.split_once('.')?;
    let owner = owner.to_ascii_lowercase();
    let group = GROUPS.iter().find(|(group, _)| *group == owner);
    let belongs = |place: &Place| {
        place.name == owner
            || group.is_some_and(|(_, parts)| parts.iter().any(|part| place.name.starts_with(part)))
    };
    all().filter(belongs).find_map(|place| {
        let bits = place
            .word
            .as_ref()?
            .bits
            .iter()
            .find(|bits| bits.name == name)?;
        let bits = *bits;
        Some(Field { place, bits })
    })
}

/// Returns the place at a byte of BAR0.
fn at(offset: u64) -> Result<Place, PlaceError> {
    let limit = u64::from(BAR0_SIZE);
    let known = all().find(|place| u64::from(place.offset) == offset);
    match known {
        Some(place) => Ok(place),
        None if offset % 4 != 0 || offset >= limit => Err(PlaceError::BadOffset(offset)),
        None => Ok(Place {
            name: format!("{offset:#x}"),
            offset: offset as u32,
            width: 4,
            access: RegisterAccess::ReadWrite,
            meaning: "",
            word: None,
        }),
    }
}

/// Parses a number: `10`, `0x0a`, `0b1010`, with `_` anywhere.
pub fn parse_number(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    if let Some(digits) = text.strip_prefix("0x") {
        u64::from_str_radix(digits, 16).ok()
    } else if let Some(digits) = text.strip_prefix("0b") {
        u64::from_str_radix(digits, 2).ok()
    } else if text.starts_with(|first: char| first.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

impl Place {
    /// Reads the register.
    pub fn read(&self, bus: &dyn Bus) -> u64 {
        match self.width {
            8 => bus.read64(self.offset),
            _ => bus.read32(self.offset).into(),
        }
    }

    /// Writes the register.
    pub fn write(&self, bus: &dyn Bus, value: u64) {
        match self.width {
            8 => bus.write64(self.offset, value),
            _ => bus.write32(self.offset, value as u32),
        }
    }

    /// Returns true if a value fits.
    pub fn holds(&self, value: u64) -> bool {
        self.width == 8 || value <= u32::MAX.into()
    }

    /// Returns the value in hexadecimal, as wide as the register.
    pub fn hexadecimal(&self, value: u64) -> String {
        let digits = 2 + 2 * self.width as usize;
        format!("{value:#0digits$x}")
    }

    /// Returns the meaning of a value; empty if the number is sufficient.
    pub fn decode(&self, value: u64) -> String {
        let ones = u64::MAX >> (64 - 8 * self.width);
        if value == ones {
            return "all ones: no register, or no answer".to_owned();
        }
        if let Some(word) = &self.word {
            return decode_word(word, value);
        }
        match self.offset {
            offset::magic => characters(value),
            offset::contract_version => format!("{}.{}", value >> 16, value & 0xffff),
            offset::device_id => format!("{:04x}:{:04x}", value & 0xffff, value >> 16),
            offset::fatal_syndrome => FatalSyndrome(value as u32)
                .name()
                .unwrap_or("unknown")
                .to_owned(),
            offset::port_mac => {
                let [_, _, octets @ ..] = value.to_be_bytes();
                Mac(octets).to_string()
            }
            offset::clock => format!("{:.6} s", value as f64 / 1e9),
            _ if self.offset >= COUNTERS_OFFSET => value.to_string(),
            _ => String::new(),
        }
    }
}

/// Returns the bytes in memory order, if they are readable.
fn characters(value: u64) -> String {
    let bytes = (value as u32).to_le_bytes();
    if bytes.iter().all(u8::is_ascii_graphic) {
        format!("{:?}", String::from_utf8_lossy(&bytes))
    } else {
        "not \"FROC\"".to_owned()
    }
}

/// Returns `field=value` for each field; flags only when they are set.
fn decode_word(word: &WordTable, value: u64) -> String {
    let mut fields = Vec::new();
    let mut named = 0;
    for bits in word.bits {
        let mask = u64::MAX >> (63 - (bits.high - bits.low));
        named |= mask << bits.low;
        let field = value >> bits.low & mask;
        if bits.high > bits.low {
            fields.push(format!("{}={field}", bits.name));
        } else if field == 1 {
            fields.push(bits.name.to_owned());
        }
    }
    if value & !named != 0 {
        fields.push(format!("reserved={:#x}", value & !named));
    }
    if fields.is_empty() {
        fields.push("none".to_owned());
    }
    fields.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> (String, u32, u32) {
        let place = find(text).expect(text);
        (place.name, place.offset, place.width)
    }

    #[test]
    fn places_are_found_by_name_element_and_offset() {
        for (text, name, offset, width) in [
            ("status", "status", 0x24, 4),
            ("0x24", "status", 0x24, 4),
            ("36", "status", 0x24, 4),
            ("clock", "clock", 0x30, 8),
            (
                "event_queue_doorbell[3]",
                "event_queue_doorbell[3]",
                0x10c,
                4,
            ),
            ("event_queue_doorbell", "event_queue_doorbell[0]", 0x100, 4),
            ("tx_frames", "tx_frames", 0x1000, 8),
            ("0x38", "0x38", 0x38, 4),
            ("0x2000", "0x2000", 0x2000, 4),
        ] {
            assert_eq!(found(text), (name.to_owned(), offset, width), "{text}");
        }
    }

    #[test]
    fn what_is_not_there_is_refused_with_a_way_on() {
        for (text, words) in [
            ("statsu", "reg list"),
            ("doorbell", "command_queue_doorbell"),
            ("", "reg list"),
            ("event_queue_doorbell[16]", "it has 16"),
            ("event_queue_doorbell[x]", "reg list"),
            ("status[1]", "it has 1"),
            ("0x25", "multiple of 4"),
            ("0x4000", "size of BAR0"),
            ("0xffffffffffffffff", "size of BAR0"),
        ] {
            let error = find(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn values_are_decoded() {
        let decoded = |name: &str, value| find(name).expect(name).decode(value);
        assert_eq!(decoded("magic", 0x434f_5246), "\"FROC\"");
        assert_eq!(decoded("contract_version", 0x1_0003), "1.3");
        assert_eq!(decoded("device_id", 0xf10a_1172), "1172:f10a");
        assert_eq!(decoded("status", 0b1001), "ready link_up");
        assert_eq!(decoded("status", 0), "none");
        assert_eq!(decoded("status", 0x30), "reserved=0x30");
        assert_eq!(decoded("fatal_syndrome", 2), "EVENT_QUEUE_DMA");
        assert_eq!(decoded("port_mac", 0x0200_0000_0001), "02:00:00:00:00:01");
        assert_eq!(decoded("tx_frames", 12), "12");
        assert!(decoded("capability", 1 << 63 | 0x1009).contains("vectors=16"));
        assert!(decoded("status", 0xffff_ffff).contains("all ones"));
    }

    #[test]
    fn a_field_is_found_by_its_register_and_by_its_group() {
        let ready = find_field("status.ready").expect("a field of one bit");
        assert_eq!((ready.of(0b1011), ready.put(0b1010, 1)), (1, Some(0b1011)));
        assert_eq!(ready.put(0, 2), None);
        let name = "ROCE_ACCL.selective_repeat_forced_en";
        let forced = find_field(name).expect("a field of the group");
        assert_eq!(forced.place.name, "roce_accl");
        assert_eq!(forced.put(1, 1), Some(0x41));
        let base = find_field("roce_accl.time_base").expect("in another register");
        assert_eq!(base.place.name, "adp_retx_profile");
        let size = find_field("adp_retx_range[2].range_size").expect("of an element");
        assert_eq!(size.of(0x0505_0304), 4);
        assert!(find_field("roce_accl.nothing").is_none());
        assert!(find_field("nothing.ready").is_none());
    }

    #[test]
    fn numbers() {
        for (text, value) in [
            ("0x1f", 31),
            ("10", 10),
            ("0b101", 5),
            ("0xffff_0000", 0xffff_0000),
        ] {
            assert_eq!(parse_number(text), Some(value), "{text}");
        }
        for text in ["", "0x", "12a", "x", "-1", "0x1_0000_0000_0000_0000"] {
            assert_eq!(parse_number(text), None, "{text}");
        }
    }
}

//! Sizes of TLPs in a slot: `FERROCE_RTL_TLP=MPS:MRRS`.

/// Variable with the sizes of a slot, if the card is to run with its PCIe endpoint.
const VARIABLE: &str = "FERROCE_RTL_TLP";
/// Largest Max_Payload_Size: the card makes no larger TLPs.
const PAYLOAD_MAX: u64 = 512;
/// Bounds of both sizes (PCIe base specification, 7.5.3.4).
const SIZE_MIN: u64 = 128;
const READ_MAX: u64 = 4096;

/// Max_Payload_Size and Max_Read_Request_Size of the card's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotSizes {
    max_payload: u64,
    max_read: u64,
}

impl SlotSizes {
    /// Returns the sizes in bytes, if the card can have them: MPS of 128, 256 or 512, and MRRS of a
    /// power of two from 128 to 4096.
    pub fn new(max_payload: u64, max_read: u64) -> Option<Self> {
        let is_valid = |size: u64, max| size.is_power_of_two() && (SIZE_MIN..=max).contains(&size);
        (is_valid(max_payload, PAYLOAD_MAX) && is_valid(max_read, READ_MAX)).then_some(Self {
            max_payload,
            max_read,
        })
    }

    /// Reads `MPS:MRRS`.
    pub fn parse(text: &str) -> Option<Self> {
        let (max_payload, max_read) = text.split_once(':')?;
        Self::new(max_payload.parse().ok()?, max_read.parse().ok()?)
    }

    /// Returns the sizes that the environment names, if it names some.
    ///
    /// # Panics
    /// If they are not valid.
    pub fn of_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let sizes = Self::parse(&text);
        Some(sizes.unwrap_or_else(|| panic!("{VARIABLE}={text}: not MPS:MRRS of a slot")))
    }

    /// Returns Max_Payload_Size.
    pub fn max_payload(self) -> u64 {
        self.max_payload
    }

    /// Returns the code of Max_Payload_Size in Device Control.
    pub fn max_payload_code(self) -> u8 {
        (self.max_payload / SIZE_MIN).ilog2() as u8
    }

    /// Returns the code of Max_Read_Request_Size in Device Control.
    pub fn max_read_code(self) -> u8 {
        (self.max_read / SIZE_MIN).ilog2() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_pcie() {
        let codes = |text| {
            SlotSizes::parse(text).map(|sizes| [sizes.max_payload_code(), sizes.max_read_code()])
        };
        assert_eq!(codes("128:4096"), Some([0, 5]));
        assert_eq!(codes("256:512"), Some([1, 2]));
        for text in [
            "",
            "256",
            "1024:512",
            "256:64",
            "200:512",
            "256:8192",
            "256:512:1",
            "a:b",
        ] {
            assert_eq!(codes(text), None, "{text}");
        }
    }
}

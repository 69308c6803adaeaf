//! Pause frames: their length, and their bytes for captures.

/// Bytes of a pause frame without its frame check sequence: the minimum of Ethernet (IEEE 802.3,
/// annex 31B).
pub const LENGTH: usize = 60;
/// End of the headers: Ethernet, opcode, the vector of priorities.
const TIMES_AT: usize = 14 + 2 + 2;

/// Destination of all MAC control frames (IEEE 802.3, annex 31A); a bridge does not forward them.
const DESTINATION: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
/// A locally administered address: ports of switches have none in a world.
const SOURCE: [u8; 6] = [0x02, 0xfe, 0x00, 0x00, 0x00, 0x00];
/// EtherType of MAC control (IEEE 802.3, annex 31A).
const MAC_CONTROL: [u8; 2] = [0x88, 0x08];
/// Opcode of priority-based flow control (IEEE 802.3, annex 31D).
const PRIORITY_FLOW_CONTROL: [u8; 2] = [0x01, 0x01];
/// The longest time, in units of 512 bits; 0 ends a pause.
const LONGEST: [u8; 2] = [0xff, 0xff];

/// A pause frame, or one that ends a pause, at the card that has received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseFrame {
    /// The host of the card.
    pub host: usize,
    /// The priority.
    pub priority: u8,
    /// True if it begins a pause.
    pub is_pause: bool,
}

impl PauseFrame {
    /// Returns the frame without its frame check sequence.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut frame = [0; LENGTH];
        let vector = [0, 1 << self.priority];
        let headers = [
            &DESTINATION[..],
            &SOURCE,
            &MAC_CONTROL,
            &PRIORITY_FLOW_CONTROL,
            &vector,
        ];
        frame[..TIMES_AT].copy_from_slice(&headers.concat());
        if self.is_pause {
            let at = TIMES_AT + 2 * usize::from(self.priority);
            frame[at..at + 2].copy_from_slice(&LONGEST);
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_names_its_priority_and_time() {
        let pause = PauseFrame {
            host: 0,
            priority: 3,
            is_pause: true,
        };
        let bytes = pause.bytes();
        assert_eq!(bytes[12..18], [0x88, 0x08, 0x01, 0x01, 0x00, 0x08]);
        assert_eq!(bytes[18..28], [0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0]);
        let end = PauseFrame {
            is_pause: false,
            ..pause
        };
        assert!(end.bytes()[18..].iter().all(|byte| *byte == 0));
    }
}

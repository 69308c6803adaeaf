//! Acknowledge extended transport header (IBTA vol 1, chapter 9.3): progress and errors of the
//! responder.

use core::fmt;

use zerocopy::byteorder::big_endian::U32;

use crate::codec;
use crate::error::Error;
use crate::psn::Msn;

/// The acknowledge extended transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aeth {
    /// Positive or negative, and why
    pub syndrome: Syndrome,
    /// Messages that the responder has completed
    pub msn: Msn,
}

impl Aeth {
    /// Bytes on the wire.
    pub const LENGTH: usize = 4;

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let raw = codec::view::<U32>(bytes, "AETH")?.get();
        Ok(Self {
            syndrome: Syndrome::from_byte((raw >> 24) as u8),
            msn: Msn::new(raw),
        })
    }

    /// Writes the header to the start of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than [`Aeth::LENGTH`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        let raw = u32::from(self.syndrome.to_byte()) << 24 | self.msn.value();
        codec::write(&U32::new(raw), buffer);
    }
}

/// The syndrome byte: bit 7 reserved, bits 6:5 kind, bits 4:0 value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syndrome {
    /// Positive acknowledge
    Ack {
        /// Receive WQEs that the responder offers
        credits: CreditCount,
    },
    /// The responder has no receive WQE; try again after the time
    RnrNak {
        /// Minimum wait of the requester
        timer: RnrTimer,
    },
    /// Negative acknowledge
    Nak(NakCode),
    /// A reserved kind; the received byte, which does not encode one of the kinds above
    Reserved(u8),
}

const KIND_MASK: u8 = 0xe0;
const KIND_ACK: u8 = 0x00;
const KIND_RNR_NAK: u8 = 0x20;
const KIND_NAK: u8 = 0x60;
const VALUE_MASK: u8 = 0x1f;

impl Syndrome {
    /// A positive acknowledge without a credit limit.
    pub const ACK_UNLIMITED: Self = Self::Ack {
        credits: CreditCount::UNLIMITED,
    };

    /// Decodes the byte; every value is valid, if only as "reserved".
    #[inline]
    pub const fn from_byte(byte: u8) -> Self {
        match byte & KIND_MASK {
            KIND_ACK => Self::Ack {
                credits: CreditCount::new(byte),
            },
            KIND_RNR_NAK => Self::RnrNak {
                timer: RnrTimer::new(byte),
            },
            KIND_NAK => Self::Nak(NakCode::from_value(byte)),
            _ => Self::Reserved(byte),
        }
    }

    /// Returns the byte on the wire.
    #[inline]
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Ack { credits } => KIND_ACK | credits.code(),
            Self::RnrNak { timer } => KIND_RNR_NAK | timer.code(),
            Self::Nak(code) => KIND_NAK | code.value(),
            Self::Reserved(byte) => byte,
        }
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ack { credits } => match credits.credits() {
                Some(count) => write!(f, "ACK credits {count}"),
                None => f.write_str("ACK"),
            },
            Self::RnrNak { timer } => write!(f, "RNR NAK {} us", timer.nanoseconds() / 1000),
            Self::Nak(code) => write!(f, "NAK {code}"),
            Self::Reserved(byte) => write!(f, "reserved syndrome {byte:#04x}"),
        }
    }
}

/// Returns the series 1, 2, 3, 4, 6, 8, 12, 16 …, on which both five-bit codes are based: even
/// codes are powers of two, an odd code is half-way between its neighbours.
const fn series(code: u8) -> u32 {
    match code {
        0 | 1 => code as u32,
        even if even % 2 == 0 => 1 << (even / 2),
        odd => 3 << ((odd - 3) / 2),
    }
}

/// End-to-end flow control credits in five bits (IBTA vol 1, chapter 9.7.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CreditCount(u8);

impl CreditCount {
    /// The responder does not use credits.
    pub const UNLIMITED: Self = Self(0x1f);

    /// Takes the low five bits of `code`.
    #[inline]
    pub const fn new(code: u8) -> Self {
        Self(code & VALUE_MASK)
    }

    /// Returns the five-bit code.
    #[inline]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Returns the number of receive WQEs offered; `None`: no limit.
    #[inline]
    pub const fn credits(self) -> Option<u32> {
        if self.0 == Self::UNLIMITED.0 {
            None
        } else {
            Some(series(self.0))
        }
    }

    /// Returns the largest code that promises at most `count` receive WQEs.
    pub const fn from_credits(count: u32) -> Self {
        let mut code = Self::UNLIMITED.0 - 1;
        while series(code) > count {
            code -= 1; // ends at code 0, whose value is 0
        }
        Self(code)
    }
}

/// The time of an RNR NAK in five bits (IBTA vol 1, 9.7.5.2.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RnrTimer(u8);

impl RnrTimer {
    /// Takes the low five bits of `code`.
    #[inline]
    pub const fn new(code: u8) -> Self {
        Self(code & VALUE_MASK)
    }

    /// Returns the five-bit code.
    #[inline]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Returns the minimum wait of the requester in nanoseconds: 10 us (code 1) to 655.36 ms (code
    /// 0).
    #[inline]
    pub const fn nanoseconds(self) -> u64 {
        const UNIT_NS: u64 = 10_000;
        // Code 0 continues the series after code 31.
        let code = if self.0 == 0 { 32 } else { self.0 };
        series(code) as u64 * UNIT_NS
    }
}

/// Reason why a request was refused (IBTA vol 1, chapter 9.7.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NakCode {
    /// A packet is missing: the PSN is the expected one
    PsnSequenceError,
    /// The request is malformed, or not supported
    InvalidRequest,
    /// Key, bounds or rights forbid the access
    RemoteAccessError,
    /// The responder failed
    RemoteOperationalError,
    /// Reliable datagram only
    InvalidRdRequest,
    /// A reserved code, 5 ..= 31
    Other(u8),
}

impl NakCode {
    /// Reads the low five bits of `value`.
    #[inline]
    pub const fn from_value(value: u8) -> Self {
        match value & VALUE_MASK {
            0 => Self::PsnSequenceError,
            1 => Self::InvalidRequest,
            2 => Self::RemoteAccessError,
            3 => Self::RemoteOperationalError,
            4 => Self::InvalidRdRequest,
            other => Self::Other(other),
        }
    }

    /// Returns the five-bit code.
    #[inline]
    pub const fn value(self) -> u8 {
        match self {
            Self::PsnSequenceError => 0,
            Self::InvalidRequest => 1,
            Self::RemoteAccessError => 2,
            Self::RemoteOperationalError => 3,
            Self::InvalidRdRequest => 4,
            Self::Other(code) => code & VALUE_MASK,
        }
    }
}

impl fmt::Display for NakCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PsnSequenceError => f.write_str("PSN sequence error"),
            Self::InvalidRequest => f.write_str("invalid request"),
            Self::RemoteAccessError => f.write_str("remote access error"),
            Self::RemoteOperationalError => f.write_str("remote operational error"),
            Self::InvalidRdRequest => f.write_str("invalid RD request"),
            Self::Other(code) => write!(f, "reserved code {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of IBTA vol 1, in microseconds, codes 0 to 31.
    const RNR_TIMER_US: [u64; 32] = [
        655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840,
        5120, 7680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840,
        245_760, 327_680, 491_520,
    ];

    /// The table of IBTA vol 1, codes 0 to 30; 31 means unlimited.
    const CREDITS: [u32; 31] = [
        0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
        2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768,
    ];

    #[test]
    fn rnr_timer_follows_the_table() {
        for (code, microseconds) in (0u8..).zip(RNR_TIMER_US) {
            assert_eq!(
                RnrTimer::new(code).nanoseconds(),
                microseconds * 1000,
                "code {code}"
            );
        }
    }

    #[test]
    fn credit_count_follows_the_table() {
        for (code, credits) in (0u8..).zip(CREDITS) {
            assert_eq!(
                CreditCount::new(code).credits(),
                Some(credits),
                "code {code}"
            );
            assert_eq!(CreditCount::from_credits(credits).code(), code);
        }
        assert_eq!(CreditCount::UNLIMITED.credits(), None);
    }

    #[test]
    fn credits_are_rounded_down() {
        assert_eq!(CreditCount::from_credits(5).credits(), Some(4));
        assert_eq!(CreditCount::from_credits(1_000_000).credits(), Some(32_768));
        for count in 0..40_000 {
            let code = CreditCount::from_credits(count);
            assert!(code.credits().expect("limited") <= count);
        }
    }

    #[test]
    fn syndrome_keeps_every_byte() {
        for byte in 0..=u8::MAX {
            assert_eq!(Syndrome::from_byte(byte).to_byte(), byte);
        }
    }

    #[test]
    fn known_syndromes() {
        assert_eq!(Syndrome::from_byte(0x1f), Syndrome::ACK_UNLIMITED);
        assert_eq!(
            Syndrome::from_byte(0x2e),
            Syndrome::RnrNak {
                timer: RnrTimer::new(14)
            }
        );
        assert_eq!(
            Syndrome::from_byte(0x60),
            Syndrome::Nak(NakCode::PsnSequenceError)
        );
        assert_eq!(
            Syndrome::from_byte(0x62),
            Syndrome::Nak(NakCode::RemoteAccessError)
        );
        assert_eq!(Syndrome::from_byte(0x40), Syndrome::Reserved(0x40));
        assert_eq!(Syndrome::from_byte(0x9f), Syndrome::Reserved(0x9f));
    }
}

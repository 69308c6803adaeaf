//! Whose failures a device shows: the values of `vendor_err` and the counters of errors.
//!
//! The values of mlx5 are measured on ConnectX-5 and ConnectX-6 (MIT:
//! unionxic/rdma-fault-characterization, `counter_mapping_findings.md`).

use crate::cqe::VendorError;

crate::open_enum::open_enum! {
    /// Whose failures a device shows: its time-outs, `vendor_err` and counters of errors.
    pub enum Personality: u8 {
        /// Ferroce's own.
        FERROCE = 0x0,
        /// A ConnectX with the driver mlx5.
        MLX5 = 0x1,
    }
}

impl Personality {
    /// Names, as users choose them.
    pub const NAMES: [&'static str; 2] = ["ferroce", "mlx5"];

    /// Returns the personality with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let index = Self::NAMES.iter().position(|known| *known == name)?;
        Some([Self::FERROCE, Self::MLX5][index])
    }

    /// Returns `ibv_wc.vendor_err` of a completion with a detail. With mlx5 it is zero for details
    /// whose value was not measured.
    #[must_use]
    pub const fn vendor_error(self, detail: VendorError) -> u32 {
        match self {
            Self::MLX5 => mlx5_vendor_error(detail),
            _ => detail.0 as u32,
        }
    }
}

const fn mlx5_vendor_error(detail: VendorError) -> u32 {
    match detail {
        VendorError::LOCAL_KEY => 0x52,
        VendorError::LOCAL_BOUNDS => 0x53,
        VendorError::LOCAL_RIGHTS => 0x33,
        VendorError::NO_ANSWER | VendorError::NO_STATION => 0x81,
        VendorError::NO_RECEIVE => 0x87,
        VendorError::NAK_ACCESS => 0x88,
        VendorError::NAK_INVALID_REQUEST => 0x8a,
        VendorError::FLUSH_MOVED => 0xf5,
        VendorError::FLUSH => 0xf9,
        _ => 0,
    }
}

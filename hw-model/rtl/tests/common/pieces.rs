//! Pieces of host memory, as ports.

use ferroce_rtl::structs::Piece;

/// Returns a `piece_t`.
pub fn piece(iova: u64, bytes: u16, last: bool) -> [u32; 3] {
    Piece { iova, bytes, last }.into()
}

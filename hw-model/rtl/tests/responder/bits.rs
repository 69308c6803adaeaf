//! Packed structures as Verilator stores them: the last field in the lowest bits.

/// Packs fields, each with its width, in the order of their declaration.
pub fn pack<const WORDS: usize>(fields: &[(u128, u32)]) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    let mut at = 0;
    for &(value, bits) in fields.iter().rev() {
        for bit in 0..bits {
            words[(at / 32) as usize] |= u32::from(value >> bit & 1 == 1) << (at % 32);
            at += 1;
        }
    }
    words
}

/// Returns the fields of these widths, in the order of their declaration.
pub fn unpack<const FIELDS: usize>(words: &[u32], widths: [u32; FIELDS]) -> [u128; FIELDS] {
    let mut fields = [0; FIELDS];
    let mut at = 0;
    for (field, bits) in fields.iter_mut().zip(widths).rev() {
        for bit in 0..bits {
            *field |= u128::from(words[(at / 32) as usize] >> (at % 32) & 1) << bit;
            at += 1;
        }
    }
    fields
}

//! Shorter lists that still fail.

/// Returns a part of `list`: half of its items are left out, then smaller parts, then single ones,
/// each time if `fails` is true of the rest.
pub fn shrunk<T: Clone>(list: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut left = list.to_vec();
    let mut part = left.len().div_ceil(2);
    while part > 0 {
        let before = left.len();
        let mut start = 0;
        while start < left.len() {
            let end = (start + part).min(left.len());
            let rest = [&left[..start], &left[end..]].concat();
            if fails(&rest) {
                left = rest;
            } else {
                start = end;
            }
        }
        // One item may be needed only by another one.
        let is_last = part == 1 && left.len() == before;
        part = if is_last { 0 } else { part.div_ceil(2) };
    }
    left
}

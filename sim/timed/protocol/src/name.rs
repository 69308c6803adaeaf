//! Short names in pages.

use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a [`Name`].
const NAME_WORDS: usize = 3;

/// A printable name, cut to its first 24 bytes.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Name([AtomicU64; NAME_WORDS]);

impl Name {
    /// Sets the name.
    #[inline]
    pub fn set(&self, name: &str) {
        let mut bytes = [0; 8 * NAME_WORDS];
        let length = name.len().min(bytes.len());
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        for (cell, word) in self.0.iter().zip(bytes.chunks_exact(8)) {
            let word = word.try_into().map_or(0, u64::from_ne_bytes);
            cell.store(word, Ordering::Relaxed);
        }
    }

    /// Returns the name: printable characters only, whatever the other side has written.
    pub fn get(&self) -> String {
        let words = self.0.iter().map(|cell| cell.load(Ordering::Relaxed));
        let bytes = words.flat_map(u64::to_ne_bytes);
        let kept = bytes.take_while(|byte| byte.is_ascii_graphic() || *byte == b' ');
        kept.map(char::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn names_are_kept_as_far_as_there_is_room() {
        let name = Name::default();
        assert_eq!(name.get(), "");
        for (long, kept) in [
            ("epoll_wait", "epoll_wait"),
            ("", ""),
            (
                "a_name_that_is_longer_than_that",
                "a_name_that_is_longer_th",
            ),
            ("bad\u{7}name", "bad"),
        ] {
            name.set(long);
            assert_eq!(name.get(), kept);
        }
    }
}

//! What the two sides may ask of each other, as the `VERSION` messages state it.

use serde_json::{Map, Value, json};
use zerocopy::IntoBytes;

use crate::error::Errno;
use crate::limit;
use crate::message::{Version, split};

/// Version of the protocol that this crate speaks: no other major version, and no newer minor one.
pub(crate) const MAJOR: u16 = 0;
/// See [`MAJOR`].
pub(crate) const MINOR: u16 = 1;

/// What one side can take. Values that a `VERSION` message leaves out are those of
/// [`Capabilities::UNSTATED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Most file descriptors in one message.
    pub max_msg_fds: usize,
    /// Most bytes of data in one read or write.
    pub max_data_xfer_size: usize,
    /// Most DMA mappings at a time.
    pub max_dma_maps: usize,
    /// Page sizes that DMA mappings may have, one bit each.
    pub pgsizes: u64,
    /// Takes several posted writes in one message.
    pub write_multiple: bool,
}

impl Capabilities {
    /// What holds when nothing is said.
    pub const UNSTATED: Self = Self {
        max_msg_fds: 1,
        max_data_xfer_size: 1024 * 1024,
        max_dma_maps: 65535,
        pgsizes: 4096,
        write_multiple: false,
    };

    /// What this crate can take: the most that may be offered.
    pub const SUPPORTED: Self = Self {
        max_msg_fds: limit::MESSAGE_FDS_MAX,
        max_data_xfer_size: limit::DATA_TRANSFER_SIZE_MAX,
        write_multiple: true,
        ..Self::UNSTATED
    };

    /// These, as far as this crate supports them.
    pub(crate) fn supported(self) -> Self {
        Self {
            max_msg_fds: self.max_msg_fds.min(Self::SUPPORTED.max_msg_fds),
            max_data_xfer_size: self
                .max_data_xfer_size
                .clamp(1, Self::SUPPORTED.max_data_xfer_size),
            ..self
        }
    }

    /// The smallest page; mappings begin and end at its multiples.
    pub(crate) fn page_size(&self) -> u64 {
        1 << self.pgsizes.trailing_zeros().min(63)
    }
}

/// The body of a `VERSION` message.
pub(crate) fn encode(minor: u16, capabilities: &Capabilities) -> Vec<u8> {
    let fixed = Version {
        major: MAJOR.into(),
        minor: minor.into(),
    };
    let mut values = json!({
        "max_msg_fds": capabilities.max_msg_fds,
        "max_data_xfer_size": capabilities.max_data_xfer_size,
        "max_dma_maps": capabilities.max_dma_maps,
        "pgsizes": capabilities.pgsizes,
    });
    if capabilities.write_multiple {
        values["write_multiple"] = true.into();
    }
    let text = json!({ "capabilities": values }).to_string();
    [fixed.as_bytes(), text.as_bytes(), b"\0"].concat()
}

/// What the body of a `VERSION` message says.
pub(crate) fn decode(body: &[u8]) -> Result<(Version, Capabilities), Errno> {
    if body.len() > limit::VERSION_SIZE_MAX {
        return Err(Errno::TOOBIG);
    }
    let (version, text) = split::<Version>(body)?;
    let Some((end, text)) = text.split_last() else {
        return Ok((version, Capabilities::UNSTATED));
    };
    if *end != 0 {
        return Err(Errno::INVAL);
    }
    let parsed: Value = serde_json::from_slice(text).map_err(|_| Errno::INVAL)?;
    let object = parsed.as_object().ok_or(Errno::INVAL)?;
    let capabilities = match object.get("capabilities") {
        None => Capabilities::UNSTATED,
        Some(Value::Object(values)) => from_values(values)?,
        Some(_) => return Err(Errno::INVAL),
    };
    Ok((version, capabilities))
}

/// Unknown names are skipped, as the protocol will get more of them.
fn from_values(values: &Map<String, Value>) -> Result<Capabilities, Errno> {
    let unstated = Capabilities::UNSTATED;
    let size = |name, unstated| -> Result<usize, Errno> {
        match values.get(name) {
            None => Ok(unstated),
            Some(value) => {
                let value = value.as_u64().ok_or(Errno::INVAL)?;
                Ok(usize::try_from(value).unwrap_or(usize::MAX))
            }
        }
    };
    let capabilities = Capabilities {
        max_msg_fds: size("max_msg_fds", unstated.max_msg_fds)?,
        max_data_xfer_size: size("max_data_xfer_size", unstated.max_data_xfer_size)?,
        max_dma_maps: size("max_dma_maps", unstated.max_dma_maps)?,
        pgsizes: match values.get("pgsizes") {
            None => unstated.pgsizes,
            Some(value) => value.as_u64().ok_or(Errno::INVAL)?,
        },
        write_multiple: match values.get("write_multiple") {
            None => unstated.write_multiple,
            Some(value) => value.as_bool().ok_or(Errno::INVAL)?,
        },
    };
    if capabilities.max_data_xfer_size == 0 || capabilities.pgsizes == 0 {
        return Err(Errno::INVAL);
    }
    Ok(capabilities)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_text(text: &str) -> Result<Capabilities, Errno> {
        let body = [b"\0\0\x01\0", text.as_bytes(), b"\0"].concat();
        decode(&body).map(|(_, capabilities)| capabilities)
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let body = encode(1, &Capabilities::SUPPORTED);
        let (version, capabilities) = decode(&body).expect("own encoding");
        assert_eq!((version.major.get(), version.minor.get()), (0, 1));
        assert_eq!(capabilities, Capabilities::SUPPORTED);
    }

    #[test]
    fn what_is_left_out_has_the_values_of_the_protocol() {
        let (_, capabilities) = decode(&[0, 0, 0, 0]).expect("without JSON");
        assert_eq!(capabilities, Capabilities::UNSTATED);
        assert_eq!(decode_text("{}"), Ok(Capabilities::UNSTATED));
        let text = r#"{"capabilities":{"max_msg_fds":3,"migration":{"pgsize":4096}},"new":[]}"#;
        let stated = decode_text(text).expect("unknown names are skipped");
        assert_eq!(stated.max_msg_fds, 3);
        assert_eq!(stated.pgsizes, 4096);
    }

    #[test]
    fn what_qemu_sends_is_understood() {
        let text = r#"{"capabilities": {"max_dma_maps": 65535, "max_data_xfer_size": 1048576, "pgsizes": 4096, "max_msg_fds": 8, "migration": {"max_bitmap_size": 268435456, "pgsize": 4096}, "write_multiple": true}}"#;
        let stated = decode_text(text).expect("QEMU's own");
        assert_eq!(stated.max_msg_fds, 8);
        assert!(stated.write_multiple);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "[]",
            "{",
            "\0{}",
            r#"{"capabilities":1}"#,
            r#"{"capabilities":{"max_msg_fds":-1}}"#,
            r#"{"capabilities":{"max_msg_fds":"8"}}"#,
            r#"{"capabilities":{"max_data_xfer_size":0}}"#,
            r#"{"capabilities":{"pgsizes":0}}"#,
            r#"{"capabilities":{"write_multiple":1}}"#,
        ] {
            assert_eq!(decode_text(text), Err(Errno::INVAL), "{text:?}");
        }
        assert_eq!(decode(b"\0\0\0\0{}").err(), Some(Errno::INVAL), "no NUL");
        assert_eq!(decode(&[0; 3]).err(), Some(Errno::INVAL), "too short");
        let long = vec![0; limit::VERSION_SIZE_MAX + 1];
        assert_eq!(decode(&long).err(), Some(Errno::TOOBIG));
        let deep = "[".repeat(3000);
        assert_eq!(decode_text(&deep), Err(Errno::INVAL));
    }

    #[test]
    fn huge_values_do_not_overflow() {
        let text = r#"{"capabilities":{"max_msg_fds":18446744073709551615,"pgsizes":9223372036854775808}}"#;
        let stated = decode_text(text).expect("big, but numbers");
        assert_eq!(stated.supported().max_msg_fds, limit::MESSAGE_FDS_MAX);
        assert_eq!(stated.page_size(), 1 << 63);
    }
}

//! Capabilities of the two sides, as the `VERSION` messages state them.

use serde_json::{Map, Value, json};
use zerocopy::IntoBytes;

use crate::error::Errno;
use crate::limit;
use crate::message::{Version, split};

/// Version of the protocol that this crate speaks: no other major version, and no newer minor
/// version.
pub(crate) const MAJOR: u16 = 0;
/// See [`MAJOR`].
pub(crate) const MINOR: u16 = 1;

/// Names that are not part of the protocol begin with `ferroce`.
const PROCESS_MEMORY: &str = "ferroce_process_memory";
const REACHES_PROCESS_MEMORY: &str = "ferroce_reaches_process_memory";

/// Limits and abilities of one side. A value that a `VERSION` message omits is taken from
/// [`Capabilities::UNSTATED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Maximum number of file descriptors in one message.
    pub max_msg_fds: usize,
    /// Maximum number of data bytes in one read or write.
    pub max_data_xfer_size: usize,
    /// Maximum number of simultaneous DMA mappings.
    pub max_dma_maps: usize,
    /// Page sizes that DMA mappings may have, one bit each.
    pub pgsizes: u64,
    /// True if this side accepts several posted writes in one message.
    pub write_multiple: bool,
    /// Only for clients: the process whose memory a server may access without messages.
    pub process_memory: Option<ProcessMemory>,
    /// Only for servers: true if it accesses the memory of the client's process without messages.
    pub reaches_process_memory: bool,
}

/// A client's process, and a secret value in its memory: a server that finds the value there has
/// identified the client.
///
/// This is an extension of Ferroce; peers that do not support it ignore it. No descriptor is sent
/// with it: the server needs the rights to open the memory of the process, which the kernel checks
/// (ptrace(2), "Ptrace access mode checking").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Its process ID, in the client's PID namespace.
    pub process: u32,
    /// Address of the token.
    pub address: u64,
    /// The token, in the byte order of the machine.
    pub token: [u64; 2],
}

impl Capabilities {
    /// Capabilities of a side that states none.
    pub const UNSTATED: Self = Self {
        max_msg_fds: 1,
        max_data_xfer_size: 1024 * 1024,
        max_dma_maps: 65535,
        pgsizes: 4096,
        write_multiple: false,
        process_memory: None,
        reaches_process_memory: false,
    };

    /// Capabilities of this crate: the maximum that may be offered.
    pub const SUPPORTED: Self = Self {
        max_msg_fds: limit::MESSAGE_FDS_MAX,
        max_data_xfer_size: limit::DATA_TRANSFER_SIZE_MAX,
        write_multiple: true,
        ..Self::UNSTATED
    };

    /// Returns these capabilities, limited by this crate's.
    pub(crate) fn supported(self) -> Self {
        Self {
            max_msg_fds: self.max_msg_fds.min(Self::SUPPORTED.max_msg_fds),
            max_data_xfer_size: self
                .max_data_xfer_size
                .clamp(1, Self::SUPPORTED.max_data_xfer_size),
            ..self
        }
    }

    /// Returns the smallest page size; mappings begin and end at its multiples.
    pub(crate) fn page_size(&self) -> u64 {
        1 << self.pgsizes.trailing_zeros().min(63)
    }
}

/// Returns the body of a `VERSION` message.
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
    if let Some(memory) = &capabilities.process_memory {
        values[PROCESS_MEMORY] = json!({
            "process": memory.process,
            "address": memory.address,
            "token": memory.token,
        });
    }
    if capabilities.reaches_process_memory {
        values[REACHES_PROCESS_MEMORY] = true.into();
    }
    let text = json!({ "capabilities": values }).to_string();
    [fixed.as_bytes(), text.as_bytes(), b"\0"].concat()
}

/// Parses the body of a `VERSION` message.
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

/// Parses capabilities. Unknown names are ignored, as the protocol will get more of them.
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
        write_multiple: truth(values, "write_multiple")?,
        process_memory: values
            .get(PROCESS_MEMORY)
            .map(|value| process_memory(value).ok_or(Errno::INVAL))
            .transpose()?,
        reaches_process_memory: truth(values, REACHES_PROCESS_MEMORY)?,
    };
    if capabilities.max_data_xfer_size == 0 || capabilities.pgsizes == 0 {
        return Err(Errno::INVAL);
    }
    Ok(capabilities)
}

/// Returns a boolean value; false when it is omitted.
fn truth(values: &Map<String, Value>, name: &str) -> Result<bool, Errno> {
    let value = values.get(name);
    value.map_or(Ok(false), |value| value.as_bool().ok_or(Errno::INVAL))
}

fn process_memory(value: &Value) -> Option<ProcessMemory> {
    let token = value.get("token")?.as_array()?;
    let [first, second] = &token[..] else {
        return None;
    };
    Some(ProcessMemory {
        process: value.get("process")?.as_u64()?.try_into().ok()?,
        address: value.get("address")?.as_u64()?,
        token: [first.as_u64()?, second.as_u64()?],
    })
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
    fn the_memory_of_a_process_is_encoded() {
        let stated = Capabilities {
            process_memory: Some(ProcessMemory {
                process: 77,
                address: u64::MAX,
                token: [1, u64::MAX],
            }),
            reaches_process_memory: true,
            ..Capabilities::UNSTATED
        };
        let (_, capabilities) = decode(&encode(1, &stated)).expect("own encoding");
        assert_eq!(capabilities, stated);
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
    fn malformed_capabilities_are_refused() {
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
            r#"{"capabilities":{"ferroce_reaches_process_memory":1}}"#,
            r#"{"capabilities":{"ferroce_process_memory":true}}"#,
            r#"{"capabilities":{"ferroce_process_memory":{"process":4294967296,"address":1,"token":[1,2]}}}"#,
            r#"{"capabilities":{"ferroce_process_memory":{"process":1,"address":1,"token":[1]}}}"#,
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

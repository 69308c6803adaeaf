//! Names of the hosts of a world, and of their functions.

use std::fmt;
use std::str::FromStr;

/// The environment variable with the host that a program wants.
pub const VARIABLE: &str = "FERROCE_HOST";
/// If this variable is 1, a program joins the world before `main`, whatever it is linked with.
pub const FROM_START: &str = "FERROCE_FROM_START";

/// A host of a world by its name: n8, or n8.3 for one function of its card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName {
    /// Number of the host.
    pub host: u16,
    /// Number of the function. `None`: its card has only one, or any function.
    pub function: Option<u8>,
}

/// Error: a text is not a host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("hosts of a simulated world are called n0, n1 and so on, their functions n0.0, n0.1")]
pub struct NoHostName;

/// The encoded word without a host.
const ANY: u32 = u32::MAX;
/// The part of the word for the function, without a function.
const NO_FUNCTION: u32 = 0xff;

impl HostName {
    /// Returns the name of a host whose card has one function.
    pub fn of_host(host: u16) -> Self {
        Self {
            host,
            function: None,
        }
    }

    /// Returns true if `other` names this place, or its host without a function.
    pub fn is_within(self, other: Self) -> bool {
        self.host == other.host && (other.function.is_none() || other.function == self.function)
    }

    /// Encodes the host that a program wants, if it wants a particular one.
    pub(crate) fn to_word(name: Option<Self>) -> u32 {
        name.map_or(ANY, |name| {
            let function = name.function.map_or(NO_FUNCTION, u32::from);
            u32::from(name.host) << 8 | function
        })
    }

    /// Decodes the host that a program wants. `Err`: the word has no valid value.
    pub(crate) fn of_word(word: u32) -> Result<Option<Self>, NoHostName> {
        if word == ANY {
            return Ok(None);
        }
        let host = u16::try_from(word >> 8).map_err(|_| NoHostName)?;
        let [function, ..] = word.to_le_bytes();
        let function = (u32::from(function) != NO_FUNCTION).then_some(function);
        Ok(Some(Self { host, function }))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, function } = self;
        match function {
            Some(function) => write!(f, "n{host}.{function}"),
            None => write!(f, "n{host}"),
        }
    }
}

impl FromStr for HostName {
    type Err = NoHostName;

    fn from_str(text: &str) -> Result<Self, NoHostName> {
        let text = text.strip_prefix('n').ok_or(NoHostName)?;
        let (host, function) = match text.split_once('.') {
            Some((host, function)) => (host, Some(function)),
            None => (text, None),
        };
        let function = function.map(number).transpose()?;
        // The last number means no function.
        match function {
            Some(u8::MAX) => Err(NoHostName),
            function => Ok(Self {
                host: number(host)?,
                function,
            }),
        }
    }
}

/// Reads a number without a sign.
fn number<T: FromStr>(text: &str) -> Result<T, NoHostName> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().map_err(|_| NoHostName)
    } else {
        Err(NoHostName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["n0", "n65535", "n8.0", "n8.254"] {
            let name: HostName = text.parse().expect(text);
            assert_eq!(name.to_string(), text);
            let word = HostName::to_word(Some(name));
            assert_eq!(HostName::of_word(word), Ok(Some(name)));
        }
        assert_eq!(HostName::of_word(HostName::to_word(None)), Ok(None));
        for text in [
            "", "n", "8", "a", "n-1", "n+1", "n65536", "n8.", "n8.255", "n8.1.2",
        ] {
            assert_eq!(text.parse::<HostName>(), Err(NoHostName), "{text}");
        }
    }

    #[test]
    fn a_host_means_any_of_its_functions() {
        let name = |text: &str| text.parse::<HostName>().expect("a name");
        assert!(name("n8.3").is_within(name("n8")));
        assert!(name("n8.3").is_within(name("n8.3")));
        assert!(!name("n8.3").is_within(name("n8.2")));
        assert!(!name("n8").is_within(name("n8.0")));
        assert!(!name("n7.3").is_within(name("n8")));
    }
}

//! The error type of the verbs: an errno, and what was wrong.

use std::fmt;

use ferroce_driver::{PostError, QpState, QueuePairCapacity, TransitionError};
use libc::c_int;

/// The valid port number, for messages.
pub const ONE_PORT: &str = "1, the device has one port";

/// Error of a verb: its `errno`, and for messages the wrong argument and its valid values. Two
/// errors are equal if their numbers are.
#[derive(Clone, Copy, Debug)]
pub struct Errno {
    number: c_int,
    reason: Reason,
    /// The QP that it is about.
    qpn: Option<u32>,
}

impl PartialEq for Errno {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Errno {}

/// The value of an argument, as it is printed.
#[derive(Clone, Copy, Debug)]
pub enum Shown {
    Number(i64),
    Large(u64),
    /// Flags and addresses.
    Bits(u64),
}

/// The valid values of an argument.
#[derive(Clone, Copy, Debug)]
pub enum Right {
    AtMost(u64),
    /// Any of these flags.
    Within(u64),
    Text(&'static str),
}

/// Why a verb is refused.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// The errno alone explains it.
    Plain,
    Text(&'static str),
    /// The pointer is null.
    Null(&'static str),
    Argument {
        name: &'static str,
        value: Shown,
        right: Right,
    },
    /// No station has this address.
    Unreachable([u8; 16]),
    /// The error, and the `attr_mask` flag of the attribute in it.
    Transition(TransitionError, &'static str),
    Driver(ferroce_driver::Error),
    Post(Post),
}

/// A work request that a queue refuses.
#[derive(Clone, Copy, Debug)]
struct Post {
    error: PostError,
    /// `IBV_WR_...`; `None`: a receive.
    operation: Option<&'static str>,
    /// Elements of its scatter list, or bytes of its inline data.
    size: u64,
    /// Sizes and state of the queue, once they are known.
    queue: Option<QueueLimits>,
}

/// The limits and the state of a queue, which explain why it refuses a work request.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Work requests outstanding.
    pub max_wr: u32,
    /// Elements of a scatter list.
    pub max_sge: u32,
    /// Bytes of inline data; zero of a receive queue.
    pub max_inline: u32,
    /// `enum ibv_qp_state`, as of the last `ibv_modify_qp`; `None` of a shared receive queue.
    pub state: Option<c_int>,
}

impl QueueLimits {
    /// Returns the limits of a QP's send queue.
    pub fn of_sends(capacity: QueuePairCapacity, state: c_int) -> Self {
        Self {
            max_wr: capacity.max_send_wr,
            max_sge: capacity.max_send_sge,
            max_inline: capacity.max_inline_data,
            state: Some(state),
        }
    }

    /// Returns the limits of a QP's receive queue.
    pub fn of_receives(capacity: QueuePairCapacity, state: c_int) -> Self {
        Self {
            max_wr: capacity.max_recv_wr,
            max_sge: capacity.max_recv_sge,
            max_inline: 0,
            state: Some(state),
        }
    }
}

impl Errno {
    /// An argument, or a combination of arguments, is wrong.
    pub const INVALID: Self = Self::new(libc::EINVAL);
    /// The device, or this release, does not support the operation.
    pub const NOT_SUPPORTED: Self = Self::new(libc::EOPNOTSUPP);
    /// Another object still uses the object.
    pub const BUSY: Self = Self::new(libc::EBUSY);
    /// A queue is full, or memory is exhausted.
    pub const NO_MEMORY: Self = Self::new(libc::ENOMEM);
    /// The library failed, or the object belongs to the parent of this process.
    pub const IO: Self = Self::new(libc::EIO);
    /// No event is available yet; the caller may try again.
    pub const AGAIN: Self = Self::new(libc::EAGAIN);
    /// The memory is not mapped, or not with these rights.
    pub const FAULT: Self = Self::new(libc::EFAULT);
    /// The object does not exist.
    pub const NO_ENTRY: Self = Self::new(libc::ENOENT);
    /// The GID table has no entry there.
    pub const NO_DATA: Self = Self::new(libc::ENODATA);
    /// There is no answer for the destination GID.
    pub const HOST_UNREACHABLE: Self = Self::new(libc::EHOSTUNREACH);

    /// Returns the error that only its number describes.
    pub const fn new(number: c_int) -> Self {
        let reason = Reason::Plain;
        Self {
            number,
            reason,
            qpn: None,
        }
    }

    /// Returns the errno.
    pub const fn number(self) -> c_int {
        self.number
    }

    /// Adds the reason in words.
    pub const fn because(self, text: &'static str) -> Self {
        let reason = Reason::Text(text);
        Self { reason, ..self }
    }

    /// Adds the argument that is wrong, and what would be right.
    pub fn argument(self, name: &'static str, value: impl Into<Shown>, right: Right) -> Self {
        let value = value.into();
        let reason = Reason::Argument { name, value, right };
        Self { reason, ..self }
    }

    /// `EINVAL`: a pointer is null.
    #[cold]
    pub fn null(name: &'static str) -> Self {
        let reason = Reason::Null(name);
        Self {
            reason,
            ..Self::INVALID
        }
    }

    /// `EINVAL`: the value of an argument is not one of those that `right` describes.
    pub fn wrong(name: &'static str, value: impl Into<Shown>, right: &'static str) -> Self {
        Self::INVALID.argument(name, value, Right::Text(right))
    }

    /// `EINVAL`: an argument exceeds its limit.
    pub fn above(name: &'static str, value: impl Into<Shown>, limit: impl Into<u64>) -> Self {
        Self::INVALID.argument(name, value, Right::AtMost(limit.into()))
    }

    /// `EHOSTUNREACH`: no station has this address.
    pub fn unreachable(gid: [u8; 16]) -> Self {
        let reason = Reason::Unreachable(gid);
        Self {
            reason,
            ..Self::HOST_UNREACHABLE
        }
    }

    /// `EINVAL`: a transition that does not exist, or a wrong attribute; `flag` is the attribute's
    /// flag in `attr_mask`.
    pub fn transition(error: TransitionError, flag: &'static str) -> Self {
        Self {
            reason: Reason::Transition(error, flag),
            ..Self::INVALID
        }
    }

    /// The error of posting a work request: `operation` is `None` for a receive, and `size` the
    /// number of its scatter/gather elements, or of its inline bytes.
    #[cold]
    pub fn post(error: PostError, operation: Option<&'static str>, size: usize) -> Self {
        let post = Post {
            error,
            operation,
            size: size as u64,
            queue: None,
        };
        Self {
            reason: Reason::Post(post),
            ..Self::new(error.errno())
        }
    }

    /// Adds sizes and state of the queue to the error of posting.
    #[cold]
    pub fn of_queue(mut self, limits: QueueLimits) -> Self {
        if let Reason::Post(post) = &mut self.reason {
            post.queue = Some(limits);
        }
        self
    }

    /// Adds the QP that the error is about.
    #[cold]
    pub fn of_qp(self, qpn: u32) -> Self {
        let qpn = Some(qpn);
        Self { qpn, ..self }
    }

    /// Returns the QP that the error is about, if it is known.
    pub fn qpn(&self) -> Option<u32> {
        self.qpn
    }

    /// Returns true for a normal result that is not a refusal: nothing is there, or not yet.
    pub fn is_usual(&self) -> bool {
        let number = matches!(self.number, libc::EAGAIN | libc::ENOENT | libc::ENODATA);
        number && matches!(self.reason, Reason::Plain)
    }
}

/// Returns an error unless `value` is at most `limit`.
///
/// # Errors
/// `EINVAL`.
pub fn at_most(
    name: &'static str,
    value: impl Into<u64>,
    limit: impl Into<u64>,
) -> Result<(), Errno> {
    let (value, limit) = (value.into(), limit.into());
    if value > limit {
        Err(Errno::above(name, value, limit))
    } else {
        Ok(())
    }
}

/// Returns `refusal` with the wrong flags added, unless `flags` contains only flags of `allowed`.
///
/// # Errors
/// `refusal`.
pub fn within(
    refusal: Errno,
    name: &'static str,
    flags: impl Into<u64>,
    allowed: impl Into<u64>,
) -> Result<(), Errno> {
    let (flags, allowed) = (flags.into(), allowed.into());
    match flags & !allowed {
        0 => Ok(()),
        _ => Err(refusal.argument(name, Shown::Bits(flags), Right::Within(allowed))),
    }
}

macro_rules! shown_as {
    ($form:ident as $to:ty: $($from:ty),*) => {$(
        impl From<$from> for Shown {
            fn from(value: $from) -> Self {
                Self::$form(value as $to)
            }
        }
    )*};
}

shown_as!(Number as i64: u8, u16, u32, i32);
shown_as!(Large as u64: u64, usize);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => write!(f, "{value}"),
            Self::Large(value) => write!(f, "{value}"),
            Self::Bits(value) => write!(f, "{value:#x}"),
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "at most {limit}"),
            Self::Within(flags) => write!(f, "flags of {flags:#x} only"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("no further reason is known"),
            Self::Text(text) => f.write_str(text),
            Self::Null(name) => write!(f, "{name} is null"),
            Self::Argument { name, value, right } => {
                write!(f, "{name} is {value}; right: {right}")
            }
            Self::Unreachable(gid) => {
                let address = std::net::Ipv6Addr::from(*gid);
                let shown = address.to_ipv4_mapped();
                write!(f, "ah_attr.grh.dgid is ")?;
                match shown {
                    Some(address) => write!(f, "{address}")?,
                    None => write!(f, "{address}")?,
                }
                f.write_str("; no host has that address")
            }
            Self::Transition(error, flag) => describe(f, error, flag),
            Self::Driver(error) => write!(f, "{error}"),
            Self::Post(post) => write!(f, "{post}"),
        }
    }
}

impl fmt::Display for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(queue) = self.queue else {
            return write!(f, "{}", self.error);
        };
        let operation = self.operation.unwrap_or("a receive");
        match self.error {
            PostError::QueueFull => {
                let name = self.operation.map_or("max_recv_wr", |_| "max_send_wr");
                let wr = queue.max_wr;
                write!(f, "the queue is full; {name} is {wr}")
            }
            PostError::TooManySegments => {
                let (size, most) = (self.size, queue.max_sge);
                write!(f, "wr->num_sge is {size}; right: at most {most}")
            }
            PostError::InlineTooLong => {
                let (size, most) = (self.size, queue.max_inline);
                write!(f, "inline data have {size} bytes; right: at most {most}")
            }
            PostError::InvalidOperation => write!(
                f,
                "wr->opcode is {operation}, which this QP does not have, or not with inline data"
            ),
            PostError::InvalidState => match queue.state.and_then(state_name) {
                Some(state) => write!(f, "the QP is in {state}"),
                None => f.write_str("the queue was destroyed"),
            },
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        match name(self.number) {
            Some(name) => write!(f, " ({name})"),
            None => write!(f, " (errno {})", self.number),
        }
    }
}

/// Writes what is wrong with a transition, in the names of verbs.h.
fn describe(f: &mut fmt::Formatter<'_>, error: &TransitionError, flag: &str) -> fmt::Result {
    match *error {
        TransitionError::Illegal { from, to } => {
            write!(
                f,
                "attr->qp_state is {to}; right: a state that follows {from}"
            )
        }
        TransitionError::Missing { from, to, .. } => {
            write!(f, "attr_mask lacks {flag}, which {from} to {to} requires")
        }
        TransitionError::Attribute { from, to, .. } => {
            write!(
                f,
                "attr_mask has {flag}, which {from} to {to} does not allow"
            )
        }
    }
}

fn state_name(state: c_int) -> Option<QpState> {
    QpState::from_number(u32::try_from(state).ok()?)
}

/// Returns the name of an errno that verbs report.
fn name(number: c_int) -> Option<&'static str> {
    Some(match number {
        libc::EINVAL => "EINVAL",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::ENOSYS => "ENOSYS",
        libc::EBUSY => "EBUSY",
        libc::ENOMEM => "ENOMEM",
        libc::EIO => "EIO",
        libc::EAGAIN => "EAGAIN",
        libc::EFAULT => "EFAULT",
        libc::ENOENT => "ENOENT",
        libc::ENODATA => "ENODATA",
        libc::ENODEV => "ENODEV",
        libc::EBADF => "EBADF",
        libc::EMFILE => "EMFILE",
        libc::EPERM => "EPERM",
        libc::EACCES => "EACCES",
        libc::ENOSPC => "ENOSPC",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        _ => return None,
    })
}

impl From<ferroce_driver::Error> for Errno {
    fn from(error: ferroce_driver::Error) -> Self {
        Self {
            reason: Reason::Driver(error),
            ..Self::new(error.errno())
        }
    }
}

impl From<PostError> for Errno {
    fn from(error: PostError) -> Self {
        Self::post(error, None, 0)
    }
}

//! Rules of IBTA vol 1, chapter 10 for every queue pair, whatever the card: states, transport
//! services, path MTUs, and the table of attributes that each transition requires and allows.
//!
//! The transport, the driver and the provider use these types and the one table, [`AttributeRule`].
//! The contract (`ferroce-spec`) converts them to its codes. The values equal the enums of verbs
//! (`enum ibv_qp_state`, `enum ibv_mtu`).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

mod attribute;
mod path_mtu;
mod service;
mod state;
mod transition;

pub use attribute::{Attribute, AttributeSet};
pub use path_mtu::PathMtu;
pub use service::Service;
pub use state::QpState;
pub use transition::{AttributeRule, TransitionError, check_attributes};

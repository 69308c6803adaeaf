//! Address handles.

use crate::memory::Pd;
use crate::object::{Object, Outcome, check, check_pointer, handle};
use crate::sys::*;

handle! {
    /// An address handle.
    Ah, ibv_ah
}

/// The device's only port.
pub const PORT: u8 = 1;
/// Index of the IPv4 GID.
pub const GID_INDEX: u8 = 1;

/// Returns the path to a GID.
pub fn path_to(gid: ibv_gid) -> ibv_ah_attr {
    ibv_ah_attr {
        is_global: 1,
        port_num: PORT,
        grh: ibv_global_route {
            dgid: gid,
            sgid_index: GID_INDEX,
            hop_limit: 64,
            ..Default::default()
        },
        ..Default::default()
    }
}

impl Pd {
    /// Calls `ibv_create_ah`.
    pub fn create_ah(&self, mut attr: ibv_ah_attr) -> Outcome<Ah> {
        // SAFETY: the PD is alive.
        let raw = check_pointer(unsafe { ibv_create_ah(self.raw(), &mut attr) })?;
        Ok(Ah(Object::new(raw, ibv_destroy_ah, vec![self.parent()])))
    }

    /// Calls `ibv_init_ah_from_wc`, with the first 40 bytes of the receive buffer.
    pub fn init_ah_from_wc(&self, wc: &ibv_wc, grh: [u8; 40]) -> Outcome<ibv_ah_attr> {
        let mut attr = ibv_ah_attr::default();
        let (mut wc, mut grh) = (*wc, grh);
        // SAFETY: the verb reads 40 bytes of GRH.
        check(unsafe {
            let context = (*self.raw()).context;
            ibv_init_ah_from_wc(context, PORT, &mut wc, grh.as_mut_ptr().cast(), &mut attr)
        })?;
        Ok(attr)
    }

    /// Calls `ibv_create_ah_from_wc`.
    pub fn create_ah_from_wc(&self, wc: &ibv_wc, grh: [u8; 40]) -> Outcome<Ah> {
        let (mut wc, mut grh) = (*wc, grh);
        // SAFETY: the verb reads 40 bytes of GRH.
        let raw = check_pointer(unsafe {
            ibv_create_ah_from_wc(self.raw(), &mut wc, grh.as_mut_ptr().cast(), PORT)
        })?;
        Ok(Ah(Object::new(raw, ibv_destroy_ah, vec![self.parent()])))
    }
}

//! Verbs that this device does not support. They are exported because a missing one would be found
//! in another library and crash on this library's objects. Each returns `EOPNOTSUPP` as its return
//! type allows.

use libc::{c_int, c_void};

use super::super::boundary::{pointer, status};
use crate::errno::Errno;

/// The error that all of them return.
const LACKING: Errno = Errno::NOT_SUPPORTED.because("the device does not have this verb");

/// Declares entries that return null and ignore their arguments.
macro_rules! null {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: null and `EOPNOTSUPP`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> *mut c_void {
            pointer(stringify!($name), || Err(LACKING))
        }
    )*};
}

/// Declares entries that return the errno.
macro_rules! errno {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: `EOPNOTSUPP`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            status(stringify!($name), || Err(LACKING))
        }
    )*};
}

/// Declares entries that return no value, for objects that cannot exist.
macro_rules! nothing {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: there is no such object.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {}
    )*};
}

null! {
    ibv_import_device ibv_import_pd ibv_import_mr ibv_import_dm
    ibv_alloc_dmah
    ibv_create_comp_cntr
}

errno! {
    ibv_dealloc_dmah
    _ibv_query_comp_cntr_caps ibv_destroy_comp_cntr ibv_qp_attach_comp_cntr
    ibv_inc_comp_cntr ibv_inc_err_comp_cntr ibv_set_comp_cntr ibv_set_err_comp_cntr
    ibv_read_comp_cntr ibv_read_err_comp_cntr
}

nothing! {
    ibv_unimport_pd ibv_unimport_mr ibv_unimport_dm
}

//! Datagrams: a path for each request.

use ferroce_spec::wqe::AddressPath;
use zerocopy::IntoBytes;

use crate::contexts::gid_table::GidTable;
use crate::contexts::path::Path;
use crate::contexts::queue_pair::QueuePair;

/// Returns true if a datagram can take this path. If the host has removed the address, the datagram
/// is lost later.
pub fn is_possible(path: &AddressPath, gids: &GidTable) -> bool {
    let index = usize::from(path.source_gid_index);
    let connects = |source| Path::connects(source, path);
    gids.get(index).is_some_and(connects) || gids.is_removed(index)
}

/// Sets the path of `request` for the next packet of `qp`; returns false if that path no longer
/// exists. Requests to one destination often follow each other, so the last path is kept.
pub fn aim(qp: &mut QueuePair, request: Option<u32>, gids: &GidTable) -> bool {
    let Some(datagram) = request.and_then(|request| qp.send.datagram(request)) else {
        return false;
    };
    let path = datagram.path;
    let is_same = |last: &AddressPath| last.as_bytes() == path.as_bytes();
    if qp.path.is_some() && qp.datagram_path.as_deref().is_some_and(is_same) {
        return true;
    }
    let source = gids.get(usize::from(path.source_gid_index));
    let Some(mut new) = source.and_then(|source| Path::new(source, &path)) else {
        return false;
    };
    new.identification = qp.path.as_ref().map_or(0, |old| old.identification);
    qp.path = Some(new);
    match &mut qp.datagram_path {
        Some(last) => **last = path,
        None => qp.datagram_path = Some(Box::new(path)),
    }
    true
}

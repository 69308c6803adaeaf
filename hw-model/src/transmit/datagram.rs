//! Datagrams: a path for each request.

use ferroce_spec::context::AddressEntry;
use ferroce_spec::wqe::AddressPath;
use zerocopy::IntoBytes;

use crate::contexts::path::Path;
use crate::contexts::queue_pair::QueuePair;
use crate::limits::MAX_GIDS;

/// Returns true if a datagram can take this path.
pub fn is_possible(path: &AddressPath, gids: &[AddressEntry; MAX_GIDS]) -> bool {
    gids.get(usize::from(path.source_gid_index))
        .is_some_and(|source| Path::connects(source, path))
}

/// Sets the path of `request` for the next packet of `qp`; returns false if that path no longer
/// exists. Requests to one destination often follow each other, so the last path is kept.
pub fn aim(qp: &mut QueuePair, request: Option<u32>, gids: &[AddressEntry; MAX_GIDS]) -> bool {
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

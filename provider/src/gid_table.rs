//! Which entries of the host's GID table the card has: the host can take an address away, and give
//! it back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_driver::Device;
use ferroce_platform::host::HostIdentity;
use parking_lot::Mutex;

/// What is known of the table of one card.
#[derive(Debug, Default)]
pub struct GidTable {
    /// Changes that the card has reported.
    changes: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Changes that had been reported when the table was read.
    as_of: u64,
    /// Entries of the host that the card lacks.
    missing: BTreeSet<usize>,
}

impl GidTable {
    /// Records that the card has reported a change. Called by a handler of events, which issues no
    /// commands: the table is read when it is asked for.
    pub fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns true if the card lacks an entry of the host.
    pub fn lacks(&self, index: usize, device: &Device, host: &HostIdentity) -> bool {
        let changes = self.changes.load(Ordering::Acquire);
        if self.known.lock().as_of != changes {
            // Without the lock, because a command takes time, also simulated time.
            let missing = missing(device, host);
            let mut known = self.known.lock();
            if let (Some(missing), true) = (missing, known.as_of < changes) {
                *known = Known {
                    as_of: changes,
                    missing,
                };
            }
        }
        self.known.lock().missing.contains(&index)
    }
}

/// Reads the table. `None`: the card does not answer any more.
fn missing(device: &Device, host: &HostIdentity) -> Option<BTreeSet<usize>> {
    let mut missing = BTreeSet::new();
    for (index, entry) in host.gids.iter().enumerate() {
        let found = device.gid(u16::try_from(index).ok()?).ok()?;
        if found.gid != entry.gid {
            missing.insert(index);
        }
    }
    Some(missing)
}

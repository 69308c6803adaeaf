//! Helpers of this crate's tests.

#[cfg(loom)]
pub mod loom_memory;

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_wire::{Gid, IcrcMode, Mac, NetworkPath, Qpn, TransportHeaders, UdpHeader, emit_frame};

/// A separate directory for one test, mode 0700, removed at the end.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Creates a directory, named after the test.
pub fn temporary_directory(name: &str) -> TemporaryDirectory {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let unique = format!("ferroce-test-{name}-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(unique);
    fs::create_dir(&path).expect("a new name in the directory for temporary files");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("our own directory");
    TemporaryDirectory(path)
}

/// Returns an RC SEND Only over IPv4 on loopback, without ICRC.
pub fn send_frame(source: Mac, dest_qp: Qpn, payload: &[u8]) -> Vec<u8> {
    let local = Gid::from_ipv4(Ipv4Addr::LOCALHOST);
    let udp = UdpHeader::parse(&[0xc0, 0, 0x12, 0xb7, 0, 8, 0, 0]).expect("well formed");
    let path = NetworkPath::new((source, local), (source, local), udp);
    let [_, a, b, c] = dest_qp.value().to_be_bytes();
    // Opcode RC SEND Only, default P_Key, PSN 1.
    let bth = [0x04, 0, 0xff, 0xff, 0, a, b, c, 0, 0, 0, 1];
    let send = [&bth[..], payload].concat();
    let (headers, _) = TransportHeaders::parse(&send).expect("well formed");
    let mut buffer = [0; 4096];
    emit_frame(&path, &headers, payload, IcrcMode::Zero, &mut buffer).to_vec()
}

/// As [`send_frame`], with default addresses.
pub fn write_frame(payload: &[u8]) -> Vec<u8> {
    send_frame(Mac([2, 0, 0, 0, 0, 1]), Qpn::new(0x1_0001), payload)
}

//! Target `capture`: any bytes as a capture, pcap or pcapng, as `wire check` and a replay read it.

use std::ops::ControlFlow;

use ferroce_embed::capture::reader::for_each_frame;
use ferroce_wire::check::Checker;

/// Reads `bytes` as a capture, and each of its frames.
pub fn fuzz(bytes: &[u8]) {
    let mut checker = Checker::new();
    let mut total = 0;
    let read = for_each_frame(bytes, &mut |captured| {
        total += captured.bytes.len();
        assert!(total <= bytes.len(), "frames that are not in the file");
        if captured.is_ethernet() && !captured.is_cut() {
            checker.feed(captured.bytes);
        }
        ControlFlow::Continue(())
    });
    if let Err(error) = read {
        assert!(!error.to_string().is_empty());
    }
    assert_eq!(checker.differences(), 0);
}

//! Target `wire`: any bytes as a frame. An accepted frame is emitted again byte for byte.

use ferroce_wire::check::Checker;
use ferroce_wire::{Frame, FrameKind, Pretty, TransportHeaders, classify};

/// Parses `bytes` as a frame and as the headers of the transport.
pub fn fuzz(bytes: &[u8]) {
    let mut emitted = vec![0; bytes.len()];
    if let Ok(frame) = Frame::parse(bytes) {
        // Ethernet padding may follow the length that IP gives.
        assert!(bytes.starts_with(frame.bytes()));
        assert_eq!(frame.emit(&mut emitted), frame.bytes(), "emitted again");
        assert!(matches!(classify(bytes), FrameKind::Roce(_)));
        assert_eq!(frame.layout().length(), frame.bytes().len());
        assert_eq!(frame.icrc_is_valid(), frame.computed_icrc() == frame.icrc);
    }
    if let Ok((headers, length)) = TransportHeaders::parse(bytes) {
        assert!(length <= bytes.len(), "{length} bytes of {}", bytes.len());
        assert_eq!(headers.emit(&mut emitted), length);
        assert_eq!(&emitted[..length], &bytes[..length], "emitted again");
    }
    assert!(!Pretty(bytes).to_string().is_empty());
    let mut checker = Checker::new();
    checker.feed(bytes);
    assert_eq!((checker.frames(), checker.differences()), (1, 0));
}

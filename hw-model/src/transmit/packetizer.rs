//! Packetizer: writes headers and payload of a frame directly into the wire's transmit buffer.

use ferroce_spec::context::AccessRights;
use ferroce_spec::counter::Counter;
use ferroce_transport::{Payload, Transmit};
use ferroce_wire::{IcrcMode, Qpn, finish};

use crate::contexts::queue_pair::QueuePair;
use crate::contexts::work_queue::SendQueue;
use crate::dma::Dma;
use crate::ports::host::Host;
use crate::ports::port::{Port, Reservation};
use crate::translation::memory_unit::MemoryUnit;
use crate::translation::mpt::Access;
use crate::translation::mtt::TranslationTable;
use crate::translation::protection::ProtectionFault;
use crate::wqe::SendPayload;

/// Result of packetizing.
#[derive(Debug)]
pub enum Packetized<F> {
    /// A frame, ready for the MAC.
    Frame(F),
    /// The wire has no room at present.
    Full,
    /// The destination does not exist: the frame left and is lost.
    Lost,
    /// The payload could not be gathered; `None`: because the queue that its request names is
    /// missing.
    Fault(Option<ProtectionFault>),
}

/// Makes a frame of a packet of `qp`. The payload is read in the protection domain `pd`.
#[inline]
pub fn packetize<H: Host, P: Port>(
    qp: &mut QueuePair,
    transmit: &Transmit,
    pd: u32,
    memory: &mut MemoryUnit<impl TranslationTable>,
    port: &mut P,
    dma: &mut Dma<'_, H>,
) -> Packetized<P::Frame> {
    let qpn = qp.qpn;
    let Some(path) = qp.path.as_mut() else {
        return Packetized::Lost;
    };
    let headers = &transmit.headers;
    let payload_length = transmit.payload.length() as usize;
    let length = path.template.frame_length(headers, payload_length);
    let mut frame = match port.reserve(&path.route(headers.bth.dest_qp), length) {
        Reservation::Ready(frame) => frame,
        Reservation::Full => return Packetized::Full,
        Reservation::NoRoute => return Packetized::Lost,
    };
    let bytes = frame.as_mut();
    let layout = path
        .template
        .emit(headers, payload_length, path.identification, bytes);
    path.identification = path.identification.wrapping_add(1);
    let destination = &mut bytes[layout.payload()];
    if let Payload::Arrivals { missing, .. } = transmit.payload {
        qp.transport.write_arrivals(missing, destination);
    } else if let Err(fault) = gather(
        pd,
        qpn,
        &mut qp.send,
        &transmit.payload,
        destination,
        memory,
        dma,
    ) {
        port.cancel(frame);
        return Packetized::Fault(Some(fault));
    }
    let mode = if port.computes_icrc() {
        IcrcMode::Computed
    } else {
        IcrcMode::Zero
    };
    finish(bytes, &layout, mode);
    dma.counters.add(Counter::tx_frames, 1);
    dma.counters.add(Counter::tx_bytes, length as u64);
    Packetized::Frame(frame)
}

/// Reads the payload of a packet into its frame.
#[inline]
pub(crate) fn gather<H: Host>(
    pd: u32,
    qpn: Qpn,
    send: &mut SendQueue,
    payload: &Payload,
    destination: &mut [u8],
    memory: &mut MemoryUnit<impl TranslationTable>,
    dma: &mut Dma<'_, H>,
) -> Result<(), ProtectionFault> {
    match *payload {
        // The bitmap is not in host memory.
        Payload::None | Payload::Arrivals { .. } => Ok(()),
        Payload::Request {
            request,
            offset,
            length,
        } => match send.payload(request) {
            Some(SendPayload::Memory(list)) => memory.gather(pd, list, offset, destination, dma),
            Some(SendPayload::Inline(inline)) => {
                let (start, end) = (offset as usize, offset as usize + length as usize);
                destination.copy_from_slice(&inline.bytes()[start..end]);
                Ok(())
            }
            _ => Err(ProtectionFault::InvalidKey { key: request }),
        },
        Payload::ReadResponse {
            r_key,
            virtual_address,
            length,
            srqn: _,
        } => {
            let access = response_access(pd, qpn, r_key.0, virtual_address, length);
            memory.read(&access, destination, dma)
        }
    }
}

/// Returns the access of a READ response.
#[inline]
pub(crate) fn response_access(pd: u32, qpn: Qpn, key: u32, address: u64, length: u32) -> Access {
    let mut rights = AccessRights::default();
    rights.set_remote_read(true);
    Access {
        pd,
        key,
        address,
        length: u64::from(length),
        rights,
        qpn: qpn.value(),
    }
}

//! Queues in memory that the driver and the device share, and the doorbells that announce entries.

pub(crate) mod batch;
pub(crate) mod cq_ring;
pub(crate) mod demux;
pub(crate) mod doorbell;
pub(crate) mod doorbell_check;
pub(crate) mod flush;
pub(crate) mod push;
pub(crate) mod receive_queue;
pub(crate) mod ring;
pub(crate) mod send_queue;
pub(crate) mod shadow;
pub(crate) mod tags;

//! Bundles of `card_pkg` as numbers: the last field of a packed structure has the lowest bits.

/// Writes fields, from the last one of a structure to the first.
#[derive(Default)]
pub struct Writer {
    words: Vec<u32>,
    bits: usize,
}

impl Writer {
    pub fn put(mut self, value: u64, width: usize) -> Self {
        for bit in 0..width {
            if self.bits % 32 == 0 {
                self.words.push(0);
            }
            let is_set = value.checked_shr(bit as u32).unwrap_or(0) & 1;
            self.words[self.bits / 32] |= (is_set as u32) << (self.bits % 32);
            self.bits += 1;
        }
        self
    }

    /// Returns the whole structure in the type of a port.
    pub fn words<const WORDS: usize>(self) -> [u32; WORDS] {
        self.words.try_into().expect("the port has this width")
    }
}

/// Reads fields, from the last one of a structure to the first.
pub struct Reader<'a> {
    words: &'a [u32],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(words: &'a [u32]) -> Self {
        Self { words, at: 0 }
    }

    pub fn take(&mut self, width: usize) -> u64 {
        let bits = (0..width.min(64)).fold(0, |number, bit| {
            let at = self.at + bit;
            number | u64::from(self.words[at / 32] >> (at % 32) & 1) << bit
        });
        self.at += width;
        bits
    }
}

/// The fields of `qp_t` that the send side uses.
#[derive(Debug, Clone, Copy)]
pub struct Qp {
    pub state: u8,
    pub path_mtu: u8,
    pub pd: u32,
    pub send_cqn: u8,
    pub send_base: u64,
    pub log_send_blocks: u8,
    pub dest_qpn: u32,
    pub retry_count: u8,
    pub rnr_retry: u8,
    pub timeout: u8,
    pub max_rd_atomic: u8,
    /// Of a QP for datagrams.
    pub q_key: Option<u32>,
}

impl Qp {
    /// The source GID index is zero, the rest of the path a pattern.
    pub fn words<const WORDS: usize>(&self) -> [u32; WORDS] {
        let path = [
            (0x3_4567, 20),
            (5, 4),
            (64, 8),
            (9, 8),
            (0xc123, 16),
            (0, 8),
        ];
        let path = path
            .into_iter()
            .fold(Writer::default(), |writer, (value, width)| {
                writer.put(value, width)
            });
        path.put(0xffff, 16)
            .put(0x0605_0403_0201, 48)
            .put(0x1122, 64)
            .put(0x3344, 64)
            .put(16, 5)
            .put(self.max_rd_atomic.into(), 5)
            .put(0, 5)
            .put(self.timeout.into(), 5)
            .put(self.rnr_retry.into(), 3)
            .put(self.retry_count.into(), 3)
            .put(self.dest_qpn.into(), 24)
            .put(0, 4 + 4 + 5)
            .put(self.log_send_blocks.into(), 5)
            .put(0, 64)
            .put(self.send_base, 64)
            .put(0, 8)
            .put(self.send_cqn.into(), 8)
            .put(self.pd.into(), 24)
            .put(self.q_key.unwrap_or(0).into(), 32)
            .put(self.q_key.is_some().into(), 1)
            .put(self.path_mtu.into(), 3)
            .put(self.state.into(), 3)
            .put(1, 1)
            .words()
    }
}

/// `tx_packet_t` without its path.
#[derive(Debug, Clone, Copy)]
pub struct TxPacket {
    pub qp: u8,
    pub payload_bytes: u32,
    pub swap_add_low: u32,
    pub immediate: u32,
    pub compare: u64,
    pub length: u32,
    pub r_key: u32,
    pub address: u64,
    pub psn: u32,
    pub dest_qpn: u32,
    pub ack_request: bool,
    pub solicited: bool,
    pub opcode: u8,
}

impl TxPacket {
    pub fn read(words: &[u32]) -> Self {
        let mut reader = Reader::new(words);
        let (qp, payload_bytes) = (reader.take(8) as u8, reader.take(13) as u32);
        let swap_add_low = reader.take(32) as u32;
        Self {
            qp,
            payload_bytes,
            swap_add_low,
            immediate: reader.take(32) as u32,
            compare: reader.take(64),
            length: reader.take(32) as u32,
            r_key: reader.take(32) as u32,
            address: reader.take(64),
            psn: reader.take(24) as u32,
            dest_qpn: reader.take(24) as u32,
            ack_request: reader.take(1) != 0,
            solicited: reader.take(1) != 0,
            opcode: reader.take(8) as u8,
        }
    }
}

/// `rx_packet_t` of an answer.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub number: u16,
    pub opcode: u8,
    pub qp: u8,
    pub psn: u32,
    pub aeth: u32,
    pub payload: Vec<u8>,
}

impl Answer {
    pub fn words<const WORDS: usize>(&self) -> [u32; WORDS] {
        Writer::default()
            .put(self.payload.len() as u64, 13)
            .put(0, 32)
            .put(self.aeth.into(), 32)
            .put(0, 64 + 32 + 32 + 64 + 128 + 1)
            .put(self.psn.into(), 24)
            .put(0x100 | u64::from(self.qp), 24)
            .put(0xffff, 16)
            .put(0, 2)
            .put(self.opcode.into(), 8)
            .put(self.number.into(), 16)
            .words()
    }
}

/// `memory_request_t`
#[derive(Debug, Clone, Copy)]
pub struct MemoryRequest {
    pub check_only: bool,
    pub length: u32,
    pub address: u64,
    pub rights: u8,
    pub qpn: u32,
    pub pd: u32,
    pub key: u32,
}

impl MemoryRequest {
    pub fn read(words: &[u32]) -> Self {
        let mut reader = Reader::new(words);
        Self {
            check_only: reader.take(1) != 0,
            length: reader.take(32) as u32,
            address: reader.take(64),
            rights: reader.take(4) as u8,
            qpn: reader.take(24) as u32,
            pd: reader.take(24) as u32,
            key: reader.take(32) as u32,
        }
    }
}

/// `piece_t`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Piece {
    pub iova: u64,
    pub bytes: u32,
    pub last: bool,
}

impl Piece {
    pub fn read(words: &[u32]) -> Self {
        let mut reader = Reader::new(words);
        Self {
            last: reader.take(1) != 0,
            bytes: reader.take(13) as u32,
            iova: reader.take(64),
        }
    }

    pub fn words<const WORDS: usize>(&self) -> [u32; WORDS] {
        Writer::default()
            .put(self.last.into(), 1)
            .put(self.bytes.into(), 13)
            .put(self.iova, 64)
            .words()
    }
}

/// `completion_t`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    pub status: u8,
    pub opcode: u8,
    pub byte_count: u32,
    pub wqe_index: u32,
    pub qpn: u32,
    pub frame: u16,
    pub cqn: u8,
}

impl Completion {
    pub fn read(words: &[u32]) -> Self {
        let mut reader = Reader::new(words);
        assert_eq!(reader.take(24 + 2 + 3 + 8), 0);
        let (status, opcode) = (reader.take(8) as u8, reader.take(8) as u8);
        reader.take(32);
        Self {
            status,
            opcode,
            byte_count: reader.take(32) as u32,
            wqe_index: reader.take(32) as u32,
            qpn: reader.take(24) as u32,
            frame: reader.take(16) as u16,
            cqn: reader.take(8) as u8,
        }
    }
}

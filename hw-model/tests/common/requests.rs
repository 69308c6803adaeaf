//! Work requests other than those of one data segment: atomics, windows, invalidation.

use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::wqe::{
    AtomicSegment, BLOCK_SIZE, BindSegment, ControlSegment, ControlWord, DataSegment,
    RemoteAddressSegment, SendOpcode,
};
use zerocopy::IntoBytes;

use super::{LOG_BLOCKS, Machine, SEND_SLOT, place};

impl Machine {
    /// Writes a signaled WQE of one block: a control segment and what follows it.
    pub fn post_block(&mut self, opcode: SendOpcode, immediate: [u8; 4], rest: &[&[u8]]) {
        let mut control = ControlWord::default();
        control.set_opcode(opcode.0);
        control.set_blocks(1);
        control.set_signaled(true);
        let data = usize::from(matches!(
            opcode,
            SendOpcode::SEND_INVALIDATE
                | SendOpcode::COMPARE_SWAP
                | SendOpcode::FETCH_ADD
                | SendOpcode::ATOMIC_WRITE
        ));
        control.set_data_segments(data as u8);
        let head = ControlSegment {
            control,
            index: self.producer,
            immediate,
            ..ControlSegment::default()
        };
        let mut block = head.as_bytes().to_vec();
        rest.iter().for_each(|part| block.extend_from_slice(part));
        assert!(block.len() <= BLOCK_SIZE);
        let slot = u64::from(self.producer) % (1 << LOG_BLOCKS);
        let iova = place::SQ + slot * BLOCK_SIZE as u64;
        self.host.write(iova, &block).expect("inside of memory");
        self.producer += 1;
        let value = DoorbellValue::new(DoorbellKind::SEND_QUEUE, self.qpn, self.producer);
        self.ring(SEND_SLOT, value);
    }

    /// Posts a compare and swap.
    pub fn post_compare_swap(
        &mut self,
        remote: (u64, u32),
        compare: u64,
        swap_add: u64,
        data: DataSegment,
    ) {
        let atomic = AtomicSegment { swap_add, compare };
        self.post_atomic(SendOpcode::COMPARE_SWAP, remote, atomic, data);
    }

    /// Posts a fetch and add.
    pub fn post_fetch_add(&mut self, remote: (u64, u32), add: u64, data: DataSegment) {
        let atomic = AtomicSegment {
            swap_add: add,
            compare: 0,
        };
        self.post_atomic(SendOpcode::FETCH_ADD, remote, atomic, data);
    }

    fn post_atomic(
        &mut self,
        opcode: SendOpcode,
        (virtual_address, r_key): (u64, u32),
        atomic: AtomicSegment,
        data: DataSegment,
    ) {
        let remote = RemoteAddressSegment {
            virtual_address,
            r_key,
            reserved: 0,
        };
        let rest = [remote.as_bytes(), atomic.as_bytes(), data.as_bytes()];
        self.post_block(opcode, [0; 4], &rest);
    }

    /// Posts a bind of a memory window.
    pub fn post_bind(&mut self, segment: &BindSegment) {
        self.post_block(SendOpcode::BIND_WINDOW, [0; 4], &[segment.as_bytes()]);
    }

    /// Posts a local invalidate.
    pub fn post_invalidate(&mut self, key: u32) {
        self.post_block(SendOpcode::LOCAL_INVALIDATE, key.to_le_bytes(), &[]);
    }

    /// Posts a SEND that invalidates a key of the peer.
    pub fn post_send_invalidate(&mut self, key: u32, data: DataSegment) {
        let rest = [data.as_bytes()];
        self.post_block(SendOpcode::SEND_INVALIDATE, key.to_le_bytes(), &rest);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The contract between the Ferroce function and its software, version 1.15. Printed from the
// declarations in hw-model/spec by ferroce spec; changes here are lost.
//
// A structure of n bytes is a packed struct of 8n bits; byte 0 is in bits 7:0, so that a line as it
// lies in little-endian memory can be assigned to it. Arrays of bytes (GID, MAC, immediate) have
// their first byte in the lowest bits. Fields that hold a named value are plain vectors: the other
// side may have written any value. A member that would be a keyword, of SystemVerilog or of C++,
// ends with an underscore.

// verilator lint_off UNUSEDPARAM
package ferroce_pkg;

  // ---- Constants ----

  // Size of BAR0 in bytes.
  localparam logic [31:0] BAR0_SIZE = 32'h4000;
  // First byte of the counters: one 64-bit register each, in the order of crate::counter.
  localparam logic [31:0] COUNTERS_OFFSET = 32'h1000;
  // First byte of the MSI-X table (PCIe base specification, 7.7.2): 16 bytes for each vector.
  localparam logic [31:0] MSIX_TABLE_OFFSET = 32'h2000;
  // First byte of the MSI-X pending bit array.
  localparam logic [31:0] MSIX_PENDING_OFFSET = 32'h3000;
  // Interrupt vectors, and event queues that can exist: one event queue for each vector.
  localparam logic [15:0] VECTOR_COUNT = 16'h10;
  // Bytes of one MSI-X table entry: message address (8), message data (4), vector control (4).
  localparam logic [31:0] MSIX_ENTRY_SIZE = 32'h10;
  // Bit 0 of an MSI-X entry's vector control word: the vector is masked.
  localparam logic [31:0] MSIX_VECTOR_MASKED = 32'h1;
  // What Bar0::magic reads: "FROC" in memory order.
  localparam logic [31:0] MAGIC = 32'h434f5246;
  // PCI vendor ID.
  localparam logic [15:0] VENDOR_ID = 16'h1172;
  // PCI device ID.
  localparam logic [15:0] DEVICE_ID = 16'hf10a;
  // Version of this contract, major part: a driver refuses a card with another one.
  localparam logic [15:0] CONTRACT_MAJOR = 16'h1;
  // Version of this contract, minor part: grows when something is added compatibly.
  localparam logic [15:0] CONTRACT_MINOR = 16'hf;
  // Bytes of BAR4, the device's own memory: for memory regions near the port, and for software to
  // read and write.
  localparam logic [31:0] BAR4_SIZE = 32'h40000;
  // What a read of an address without a register returns.
  localparam logic [31:0] UNMAPPED_READ = 32'hffffffff;
  // Largest value of offset::command_queue_log_size.
  localparam logic [31:0] COMMAND_QUEUE_LOG_SIZE_MAX = 32'h8;
  // Bytes of one doorbell page.
  localparam logic [31:0] DOORBELL_PAGE_SIZE = 32'h1000;
  // Base-2 logarithm of the number of doorbell pages.
  localparam logic [7:0] DOORBELL_LOG_PAGES = 8'h9;
  // Doorbell pages in BAR2.
  localparam logic [31:0] DOORBELL_PAGES = 32'h200;
  // Bytes of all doorbell pages.
  localparam logic [31:0] DOORBELL_PAGES_SIZE = 32'h200000;
  // Size of BAR2 in bytes: the doorbell pages, and as many push pages.
  localparam logic [31:0] DOORBELL_BAR2_SIZE = 32'h400000;
  // Bytes of one slot.
  localparam logic [31:0] DOORBELL_SLOT_SIZE = 32'h8;
  // Slots in one page.
  localparam logic [31:0] DOORBELL_SLOTS_PER_PAGE = 32'h200;
  // Slots at the start of each page that no queue may use: one cache line.
  localparam logic [31:0] DOORBELL_RESERVED_SLOTS = 32'h8;
  // Slot of each page that counts the doorbells of the page.
  localparam logic [31:0] DOORBELL_PAGE_SUMMARY_SLOT = 32'h0;
  // Slot of the first page that counts the doorbells of the function.
  localparam logic [31:0] DOORBELL_FUNCTION_SUMMARY_SLOT = 32'h1;
  // Slot of the first page that is not zero while the device sleeps.
  localparam logic [31:0] DOORBELL_SLEEPING_SLOT = 32'h2;
  // Slots in all doorbell pages.
  localparam logic [31:0] DOORBELL_SLOTS = 32'h40000;
  // Offset of the first push page in BAR2, in bytes.
  localparam logic [31:0] PUSH_OFFSET = 32'h200000;
  // Blocks of the longest push: a WQE of MAX_WQE_BLOCKS.
  localparam logic [31:0] PUSH_MAX_BLOCKS = 32'h5;
  // Basic blocks of the longest WQE that is pushed: as much as BlueFlame of ConnectX carries.
  localparam logic [31:0] PUSH_MAX_WQE_BLOCKS = 32'h4;
  // Words of 64 bits in one block, with the doorbell value.
  localparam logic [31:0] PUSH_WORDS_PER_BLOCK = 32'h8;
  // Words of a WQE that one block carries.
  localparam logic [31:0] PUSH_WQE_WORDS_PER_BLOCK = 32'h7;
  // Blocks of one half of a window. A longer push goes on in the other half.
  localparam logic [31:0] PUSH_HALF_BLOCKS = 32'h4;
  // Bytes of one half of a window.
  localparam logic [31:0] PUSH_HALF_SIZE = 32'h100;
  // Bytes of a window: two halves.
  localparam logic [31:0] PUSH_WINDOW_SIZE = 32'h200;
  // Windows in one push page.
  localparam logic [31:0] PUSH_WINDOWS_PER_PAGE = 32'h8;
  // Alignment of a mailbox, in bytes.
  localparam logic [63:0] COMMAND_MAILBOX_ALIGNMENT = 64'h40;
  // Alignment of the private area, in bytes.
  localparam logic [63:0] COMMAND_PRIVATE_ALIGNMENT = 64'h1000;
  // Base-2 logarithm of the largest private area of one queue pair, in bytes.
  localparam logic [7:0] COMMAND_LOG_PRIVATE_BYTES_MAX = 8'hc;
  // ModifyQp.current_state: any state will do.
  localparam logic [31:0] COMMAND_ANY_STATE = 32'hff;
  // Base-2 logarithm of the largest mailbox in bytes.
  localparam logic [7:0] COMMAND_LOG_MAX_MAILBOX = 8'hc;
  // Bytes of a basic block.
  localparam logic [31:0] WQE_BLOCK_SIZE = 32'h40;
  // Blocks of the largest send WQE.
  localparam logic [31:0] WQE_MAX_BLOCKS = 32'ha;
  // Data segments that a send or receive WQE may have.
  localparam logic [31:0] WQE_MAX_DATA_SEGMENTS = 32'h10;
  // Bytes of the longest inline payload.
  localparam logic [31:0] WQE_MAX_INLINE = 32'h200;
  // Local key that ends the list of data segments of a receive WQE.
  localparam logic [31:0] WQE_L_KEY_END = 32'hffffffff;
  // Bytes of the longest message: 2 GiB (IBTA vol 1, 9.4.1).
  localparam logic [63:0] WQE_MAX_MESSAGE_LENGTH = 64'h80000000;
  // VLAN field of an untagged path.
  localparam logic [15:0] WQE_VLAN_NONE = 16'hffff;
  // Base-2 logarithm of the largest stride of a shared receive queue's entries, in bytes.
  localparam logic [7:0] WQE_LOG_MAX_SHARED_RECEIVE_STRIDE = 8'h9;
  // Number of the GSI QP, and its index in the QP context table (IBTA vol 1, 3.9.4).
  localparam logic [31:0] CONTEXT_GSI_QPN = 32'h1;
  // The Q_Key of every GSI QP (IBTA vol 1, 10.2.5).
  localparam logic [31:0] CONTEXT_GSI_Q_KEY = 32'h80010000;
  // Pages of a memory region, at most: bounded by the memory translation table.
  localparam logic [7:0] CONTEXT_LOG_MAX_PAGES = 8'h18;

  // ---- Registers of BAR0 ----

  // Identity: the bytes "FROC". Anything else: this is not a Ferroce function.
  localparam logic [13:0] OFFSET_MAGIC = 14'h0;
  localparam logic [31:0] RESET_MAGIC = 32'h434f5246;
  // Version of the contract that the function implements.
  localparam logic [13:0] OFFSET_CONTRACT_VERSION = 14'h4;
  localparam logic [31:0] RESET_CONTRACT_VERSION = 32'h1000f;
  // PCI device ID in bits 31:16, vendor ID in bits 15:0.
  localparam logic [13:0] OFFSET_DEVICE_ID = 14'h8;
  localparam logic [31:0] RESET_DEVICE_ID = 32'hf10a1172;
  // Revision of the card or of the model.
  localparam logic [13:0] OFFSET_HARDWARE_REVISION = 14'hc;
  localparam logic [31:0] RESET_HARDWARE_REVISION = 32'h1;
  // What this function can do. Never zero when the function is there.
  localparam logic [13:0] OFFSET_CAPABILITY = 14'h10;
  localparam logic [63:0] RESET_CAPABILITY = 64'h0;
  // MAC address of the port in bits 47:0, first octet in bits 47:40.
  localparam logic [13:0] OFFSET_PORT_MAC = 14'h18;
  localparam logic [63:0] RESET_PORT_MAC = 64'h0;
  // Enables and resets the function.
  localparam logic [13:0] OFFSET_CONTROL = 14'h20;
  localparam logic [31:0] RESET_CONTROL = 32'h0;
  // State of the function.
  localparam logic [13:0] OFFSET_STATUS = 14'h24;
  localparam logic [31:0] RESET_STATUS = 32'h0;
  // Why the function stopped, when Status.fatal is set: a FatalSyndrome.
  localparam logic [13:0] OFFSET_FATAL_SYNDROME = 14'h28;
  localparam logic [31:0] RESET_FATAL_SYNDROME = 32'h0;
  // Free-running device clock, in nanoseconds; also the time stamp of CQEs.
  localparam logic [13:0] OFFSET_CLOCK = 14'h30;
  localparam logic [63:0] RESET_CLOCK = 64'h0;
  // IOVA of the command queue, 64-byte aligned. Only while the function is disabled.
  localparam logic [13:0] OFFSET_COMMAND_QUEUE_BASE = 14'h40;
  localparam logic [63:0] RESET_COMMAND_QUEUE_BASE = 64'h0;
  // Base-2 logarithm of the number of command queue entries, 0 to 8. Only while disabled.
  localparam logic [13:0] OFFSET_COMMAND_QUEUE_LOG_SIZE = 14'h48;
  localparam logic [31:0] RESET_COMMAND_QUEUE_LOG_SIZE = 32'h0;
  // Commands posted so far, modulo 2^32: rings the command queue's doorbell.
  localparam logic [13:0] OFFSET_COMMAND_QUEUE_DOORBELL = 14'h4c;
  localparam logic [31:0] RESET_COMMAND_QUEUE_DOORBELL = 32'h0;
  // Commands completed so far, modulo 2^32.
  localparam logic [13:0] OFFSET_COMMAND_QUEUE_CONSUMER = 14'h50;
  localparam logic [31:0] RESET_COMMAND_QUEUE_CONSUMER = 32'h0;
  // Any write wakes a device that polls its doorbell pages and sleeps.
  localparam logic [13:0] OFFSET_WAKE = 14'h54;
  localparam logic [31:0] RESET_WAKE = 32'h0;
  // Answers PAGE_FAULT events (from version 1.15 on).
  localparam logic [13:0] OFFSET_PAGE_FAULT_ANSWER = 14'h58;
  localparam logic [31:0] RESET_PAGE_FAULT_ANSWER = 32'h0;
  // Consumer index of event queue n, and whether it may interrupt.
  localparam logic [13:0] OFFSET_EVENT_QUEUE_DOORBELL = 14'h100;
  localparam logic [31:0] RESET_EVENT_QUEUE_DOORBELL = 32'h0;
  localparam int COUNT_EVENT_QUEUE_DOORBELL = 16;
  // ROCE_ACCL: which fields can be changed; 0x1000_0071 with the personality mlx5.
  localparam logic [13:0] OFFSET_ROCE_ACCL_SELECT = 14'h200;
  localparam logic [31:0] RESET_ROCE_ACCL_SELECT = 32'h10000061;
  // ROCE_ACCL: how QPs that go to RTR from now on recover. The preset says the reset value.
  localparam logic [13:0] OFFSET_ROCE_ACCL = 14'h204;
  localparam logic [31:0] RESET_ROCE_ACCL = 32'h0;
  // ROCE_ACCL: limits of the adaptive retransmission profile.
  localparam logic [13:0] OFFSET_ROCE_ACCL_LIMITS = 14'h208;
  localparam logic [31:0] RESET_ROCE_ACCL_LIMITS = 32'h41000fa0;
  // Nanoseconds after which a gap counts as a loss with adaptive routing. Not of ConnectX.
  localparam logic [13:0] OFFSET_ROCE_ACCL_REORDER_TIME = 14'h20c;
  localparam logic [31:0] RESET_ROCE_ACCL_REORDER_TIME = 32'h0;
  // Adaptive retransmission profile 1.
  localparam logic [13:0] OFFSET_ADP_RETX_PROFILE = 14'h210;
  localparam logic [31:0] RESET_ADP_RETX_PROFILE = 32'h0;
  // Its first timeout, and the time without progress after which a QP fails.
  localparam logic [13:0] OFFSET_ADP_RETX_PROFILE_START = 14'h214;
  localparam logic [31:0] RESET_ADP_RETX_PROFILE_START = 32'h0;
  // Its ranges of timeouts, in order of range_low_bound.
  localparam logic [13:0] OFFSET_ADP_RETX_RANGE = 14'h218;
  localparam logic [31:0] RESET_ADP_RETX_RANGE = 32'h0;
  localparam int COUNT_ADP_RETX_RANGE = 4;

  // ---- Counters, by their number ----

  localparam int COUNTER_COUNT = 86;
  // Frames sent.
  localparam logic [7:0] COUNTER_TX_FRAMES = 8'h0;
  // Bytes of the frames sent, from the Ethernet header to the ICRC.
  localparam logic [7:0] COUNTER_TX_BYTES = 8'h1;
  // Frames lost because no function has the destination address and QPN.
  localparam logic [7:0] COUNTER_TX_NO_ROUTE = 8'h2;
  // Times a frame waited because the wire was full.
  localparam logic [7:0] COUNTER_TX_STALLS = 8'h3;
  // Frames received.
  localparam logic [7:0] COUNTER_RX_FRAMES = 8'h4;
  // Bytes of the frames received.
  localparam logic [7:0] COUNTER_RX_BYTES = 8'h5;
  // Frames dropped: not RoCEv2, or a header that makes no sense.
  localparam logic [7:0] COUNTER_RX_MALFORMED = 8'h6;
  // Frames dropped: invariant CRC wrong, or the MAC found the FCS wrong.
  localparam logic [7:0] COUNTER_RX_ICRC_ERRORS = 8'h7;
  // Frames dropped: no such QP, or in a state that does not receive.
  localparam logic [7:0] COUNTER_RX_NO_QP = 8'h8;
  // Frames dropped: not from or to the addresses of the QP's path.
  localparam logic [7:0] COUNTER_RX_WRONG_PATH = 8'h9;
  // Doorbells landed.
  localparam logic [7:0] COUNTER_DOORBELLS = 8'ha;
  // Doorbells ignored: slot, number and kind do not belong together.
  localparam logic [7:0] COUNTER_DOORBELL_ERRORS = 8'hb;
  // DMA reads of send WQEs.
  localparam logic [7:0] COUNTER_WQE_FETCHES = 8'hc;
  // Blocks of 64 bytes fetched.
  localparam logic [7:0] COUNTER_WQE_BLOCKS = 8'hd;
  // Send WQEs that were not consistent.
  localparam logic [7:0] COUNTER_WQE_ERRORS = 8'he;
  // Receive WQEs taken.
  localparam logic [7:0] COUNTER_RECEIVE_WQES = 8'hf;
  // CQEs written.
  localparam logic [7:0] COUNTER_CQES = 8'h10;
  // CQs that overran.
  localparam logic [7:0] COUNTER_CQ_OVERRUNS = 8'h11;
  // Events written.
  localparam logic [7:0] COUNTER_EQES = 8'h12;
  // MSI-X messages sent.
  localparam logic [7:0] COUNTER_INTERRUPTS = 8'h13;
  // Commands executed.
  localparam logic [7:0] COUNTER_COMMANDS = 8'h14;
  // Commands that ended with a status other than SUCCESS.
  localparam logic [7:0] COUNTER_COMMAND_ERRORS = 8'h15;
  // DMA reads.
  localparam logic [7:0] COUNTER_DMA_READS = 8'h16;
  // Bytes read by DMA.
  localparam logic [7:0] COUNTER_DMA_READ_BYTES = 8'h17;
  // DMA writes.
  localparam logic [7:0] COUNTER_DMA_WRITES = 8'h18;
  // Bytes written by DMA.
  localparam logic [7:0] COUNTER_DMA_WRITE_BYTES = 8'h19;
  // DMA accesses that failed.
  localparam logic [7:0] COUNTER_DMA_ERRORS = 8'h1a;
  // QP contexts found in the cache.
  localparam logic [7:0] COUNTER_QPC_HITS = 8'h1b;
  // QP contexts read from host memory.
  localparam logic [7:0] COUNTER_QPC_MISSES = 8'h1c;
  // CQ contexts found in the cache.
  localparam logic [7:0] COUNTER_CQC_HITS = 8'h1d;
  // CQ contexts read from host memory.
  localparam logic [7:0] COUNTER_CQC_MISSES = 8'h1e;
  // MPT entries found in the cache.
  localparam logic [7:0] COUNTER_MPT_HITS = 8'h1f;
  // MPT entries read from host memory.
  localparam logic [7:0] COUNTER_MPT_MISSES = 8'h20;
  // MTT lines found in the cache.
  localparam logic [7:0] COUNTER_MTT_HITS = 8'h21;
  // MTT lines read from host memory.
  localparam logic [7:0] COUNTER_MTT_MISSES = 8'h22;
  // Request packets sent again.
  localparam logic [7:0] COUNTER_PACKETS_RETRANSMITTED = 8'h23;
  // Local ACK timeouts.
  localparam logic [7:0] COUNTER_LOCAL_ACK_TIMEOUTS = 8'h24;
  // RNR NAKs sent.
  localparam logic [7:0] COUNTER_RNR_NAKS_SENT = 8'h25;
  // RNR NAKs received.
  localparam logic [7:0] COUNTER_RNR_NAKS_RECEIVED = 8'h26;
  // NAKs for a PSN sequence error sent.
  localparam logic [7:0] COUNTER_SEQUENCE_NAKS_SENT = 8'h27;
  // NAKs for a PSN sequence error received.
  localparam logic [7:0] COUNTER_SEQUENCE_NAKS_RECEIVED = 8'h28;
  // NAKs for an access, request or operation error sent.
  localparam logic [7:0] COUNTER_OTHER_NAKS_SENT = 8'h29;
  // NAKs for an access, request or operation error received.
  localparam logic [7:0] COUNTER_OTHER_NAKS_RECEIVED = 8'h2a;
  // Requests received again.
  localparam logic [7:0] COUNTER_DUPLICATE_REQUESTS = 8'h2b;
  // ACKs sent.
  localparam logic [7:0] COUNTER_ACKS_SENT = 8'h2c;
  // Datagrams dropped: wrong Q_Key.
  localparam logic [7:0] COUNTER_RX_Q_KEY_VIOLATIONS = 8'h2d;
  // Datagrams and UC messages dropped: no receive WQE, or it was too small.
  localparam logic [7:0] COUNTER_RX_NO_RECEIVE = 8'h2e;
  // UC packets dropped because one before them was missing.
  localparam logic [7:0] COUNTER_RX_OUT_OF_SEQUENCE = 8'h2f;
  // Datagrams received for a multicast group.
  localparam logic [7:0] COUNTER_RX_MULTICAST = 8'h30;
  // Atomic operations executed for peers.
  localparam logic [7:0] COUNTER_ATOMICS = 8'h31;
  // Memory windows bound.
  localparam logic [7:0] COUNTER_WINDOWS_BOUND = 8'h32;
  // Keys invalidated, by ourselves or by a peer.
  localparam logic [7:0] COUNTER_KEYS_INVALIDATED = 8'h33;
  // Keys, bounds or rights that did not allow an access.
  localparam logic [7:0] COUNTER_PROTECTION_ERRORS = 8'h34;
  // SRQ contexts found in the cache.
  localparam logic [7:0] COUNTER_SRQC_HITS = 8'h35;
  // SRQ contexts read from host memory.
  localparam logic [7:0] COUNTER_SRQC_MISSES = 8'h36;
  // Pushed WQEs that were executed without reading the ring.
  localparam logic [7:0] COUNTER_PUSHES_USED = 8'h37;
  // Pushed WQEs that were dropped: torn, late, not the next one, or not consistent.
  localparam logic [7:0] COUNTER_PUSHES_IGNORED = 8'h38;
  // Send WQEs of READs and atomics read again for their response: there was no room for them.
  localparam logic [7:0] COUNTER_WQE_REFETCHES = 8'h39;
  // Receive WQEs taken that had been fetched before.
  localparam logic [7:0] COUNTER_RECEIVE_WQE_HITS = 8'h3a;
  // Receive WQEs taken that had to be fetched first.
  localparam logic [7:0] COUNTER_RECEIVE_WQE_MISSES = 8'h3b;
  // Turns that a QP ended with more to send; of a timed model.
  localparam logic [7:0] COUNTER_TX_DESCHEDULED = 8'h3c;
  // Turns that a QP ended with nothing left to send; of a timed model.
  localparam logic [7:0] COUNTER_TX_WORK_DONE = 8'h3d;
  // DMA reads that ended with the completion time-out.
  localparam logic [7:0] COUNTER_DMA_COMPLETION_TIMEOUTS = 8'h3e;
  // DMA reads whose data was poisoned.
  localparam logic [7:0] COUNTER_DMA_POISONED = 8'h3f;
  // Packets held in the reorder buffer because one before them was missing.
  localparam logic [7:0] COUNTER_RX_HELD = 8'h40;
  // Such packets dropped because the reorder buffer was full.
  localparam logic [7:0] COUNTER_RX_HOLD_DROPS = 8'h41;
  // Frames dropped because the receive buffer was full.
  localparam logic [7:0] COUNTER_RX_OVERFLOWS = 8'h42;
  // Responder resources of READs and atomics found in the cache.
  localparam logic [7:0] COUNTER_RESPONDER_HITS = 8'h43;
  // Responder resources of READs and atomics read from host memory.
  localparam logic [7:0] COUNTER_RESPONDER_MISSES = 8'h44;
  // Packets received that a switch has marked: congestion experienced.
  localparam logic [7:0] COUNTER_NP_ECN_MARKED_ROCE_PACKETS = 8'h45;
  // Congestion notification packets sent.
  localparam logic [7:0] COUNTER_NP_CNP_SENT = 8'h46;
  // Congestion notification packets received, and reacted to.
  localparam logic [7:0] COUNTER_RP_CNP_HANDLED = 8'h47;
  // Expiries in an adaptive phase of the ACK timer.
  localparam logic [7:0] COUNTER_ADAPTIVE_RETRANSMISSIONS = 8'h48;
  // RDMA WRITE requests whose last packet was received, without duplicates and empty ones.
  localparam logic [7:0] COUNTER_WRITE_REQUESTS = 8'h49;
  // RDMA READ requests received, without duplicates and empty ones.
  localparam logic [7:0] COUNTER_READ_REQUESTS = 8'h4a;
  // Send WQEs completed in error, flushed ones too.
  localparam logic [7:0] COUNTER_REQUESTER_ERRORS = 8'h4b;
  // Send WQEs flushed. Not counted with the personality mlx5.
  localparam logic [7:0] COUNTER_REQUESTER_FLUSHES = 8'h4c;
  // Send WQEs completed with REMOTE_ACCESS.
  localparam logic [7:0] COUNTER_REQUESTER_ACCESS_ERRORS = 8'h4d;
  // Send WQEs completed with REMOTE_INVALID_REQUEST.
  localparam logic [7:0] COUNTER_REQUESTER_INVALID_REQUESTS = 8'h4e;
  // Send WQEs completed with RNR_RETRY_EXCEEDED.
  localparam logic [7:0] COUNTER_REQUESTER_RNR_EXCEEDED = 8'h4f;
  // Send WQEs completed with RETRY_EXCEEDED.
  localparam logic [7:0] COUNTER_REQUESTER_RETRIES_EXCEEDED = 8'h50;
  // Receive WQEs completed in error, flushed ones too. Not counted with the personality mlx5.
  localparam logic [7:0] COUNTER_RESPONDER_ERRORS = 8'h51;
  // Receive WQEs flushed. Not counted with the personality mlx5.
  localparam logic [7:0] COUNTER_RESPONDER_FLUSHES = 8'h52;
  // Receive WQEs completed with LOCAL_LENGTH. Not counted with the personality mlx5.
  localparam logic [7:0] COUNTER_RESPONDER_LENGTH_ERRORS = 8'h53;
  // Page faults of on-demand regions: events raised.
  localparam logic [7:0] COUNTER_PAGE_FAULTS = 8'h54;
  // Accesses put off because a page of an on-demand region was not present.
  localparam logic [7:0] COUNTER_PAGE_WAITS = 8'h55;

  // ---- Named values ----

  // Why the function has stopped.
  typedef enum logic [31:0] {
    // Nothing is wrong.
    FATAL_SYNDROME_NONE = 32'h0,
    // The command queue could not be read or written by DMA.
    FATAL_SYNDROME_COMMAND_QUEUE_DMA = 32'h1,
    // An event queue could not be written by DMA.
    FATAL_SYNDROME_EVENT_QUEUE_DMA = 32'h2,
    // A context table could not be read or written by DMA.
    FATAL_SYNDROME_CONTEXT_TABLE_DMA = 32'h3,
    // Fault injection.
    FATAL_SYNDROME_INJECTED = 32'h4
  } fatal_syndrome_t;

  // Whose failures a device shows: its time-outs, vendor_err and counters of errors.
  typedef enum logic [7:0] {
    // Ferroce's own.
    PERSONALITY_FERROCE = 8'h0,
    // A ConnectX with the driver mlx5.
    PERSONALITY_MLX5 = 8'h1
  } personality_t;

  // What a doorbell says.
  typedef enum logic [7:0] {
    // Send queue: WQEs up to the producer index are ready to be fetched.
    DOORBELL_KIND_SEND_QUEUE = 8'h1,
    // Receive queue: receive WQEs up to the producer index are ready.
    DOORBELL_KIND_RECEIVE_QUEUE = 8'h2,
    // CQ: raise one event for the first CQE at or behind the consumer index that raised none.
    DOORBELL_KIND_CQ_ARM = 8'h3,
    // CQ: as CQ_ARM, but only solicited and failed CQEs count.
    DOORBELL_KIND_CQ_ARM_SOLICITED = 8'h4,
    // Shared receive queue: receive WQEs up to the producer index are ready.
    DOORBELL_KIND_SHARED_RECEIVE_QUEUE = 8'h5,
    // Send queue, in a push window: as SEND_QUEUE; the newest WQE is pushed, in one block.
    DOORBELL_KIND_PUSH_1 = 8'h11,
    // The same, in two blocks.
    DOORBELL_KIND_PUSH_2 = 8'h12,
    // The same, in three blocks.
    DOORBELL_KIND_PUSH_3 = 8'h13,
    // The same, in four blocks.
    DOORBELL_KIND_PUSH_4 = 8'h14,
    // The same, in five blocks (contract 1.7).
    DOORBELL_KIND_PUSH_5 = 8'h15
  } doorbell_kind_t;

  // What a command does.
  typedef enum logic [15:0] {
    // Nothing. Argument is returned as the result.
    COMMAND_OPCODE_NOP = 16'h0,
    // Reads the limits. Output: DeviceCapabilities.
    COMMAND_OPCODE_QUERY_DEVICE = 16'h1,
    // Gives the device its context tables. Input: ContextTables. Once, before any create.
    COMMAND_OPCODE_SET_CONTEXT_TABLES = 16'h2,
    // Sets one GID table entry. Argument: index. Input: AddressEntry.
    COMMAND_OPCODE_SET_ADDRESS = 16'h3,
    // Reads one GID table entry. Argument: index. Output: AddressEntry.
    COMMAND_OPCODE_QUERY_ADDRESS = 16'h4,
    // Creates an event queue. Argument: number, which is its vector. Input: EqContext.
    COMMAND_OPCODE_CREATE_EQ = 16'h10,
    // Reads an event queue. Argument: number. Output: EqContext.
    COMMAND_OPCODE_QUERY_EQ = 16'h11,
    // Destroys an event queue. Argument: number.
    COMMAND_OPCODE_DESTROY_EQ = 16'h12,
    // Changes moderation of an event queue. Argument: number. Input: EqContext.
    COMMAND_OPCODE_MODIFY_EQ = 16'h13,
    // Creates a CQ. Argument: NewNumber. Input: CqContext. Result: CQN.
    COMMAND_OPCODE_CREATE_CQ = 16'h20,
    // Reads a CQ. Argument: CQN. Output: CqContext.
    COMMAND_OPCODE_QUERY_CQ = 16'h21,
    // Destroys a CQ. Argument: CQN. BUSY while a QP or SRQ uses it.
    COMMAND_OPCODE_DESTROY_CQ = 16'h22,
    // Changes ring (unless base is zero) and moderation. Argument: CQN. Input: CqContext.
    COMMAND_OPCODE_MODIFY_CQ = 16'h23,
    // Creates a QP in state RESET. Argument: NewNumber. Input: QpContext. Result: QPN.
    COMMAND_OPCODE_CREATE_QP = 16'h30,
    // Reads a QP. Argument: QPN. Output: QpContext.
    COMMAND_OPCODE_QUERY_QP = 16'h31,
    // Destroys a QP. Argument: QPN. After it nothing is written for this QP.
    COMMAND_OPCODE_DESTROY_QP = 16'h32,
    // Changes state or attributes of a QP. Argument: QPN. Input: ModifyQp.
    COMMAND_OPCODE_MODIFY_QP = 16'h33,
    // Attaches a UD QP to a multicast group. Argument: QPN. Input: MulticastGroup.
    COMMAND_OPCODE_ATTACH_MULTICAST = 16'h34,
    // Detaches a UD QP from a multicast group. Argument: QPN. Input: MulticastGroup.
    COMMAND_OPCODE_DETACH_MULTICAST = 16'h35,
    // Creates a shared receive queue. Argument: NewNumber. Input: SrqContext. Result: SRQN.
    COMMAND_OPCODE_CREATE_SRQ = 16'h40,
    // Reads a shared receive queue. Argument: SRQN. Output: SrqContext.
    COMMAND_OPCODE_QUERY_SRQ = 16'h41,
    // Destroys a shared receive queue. Argument: SRQN. BUSY while a QP uses it.
    COMMAND_OPCODE_DESTROY_SRQ = 16'h42,
    // Changes the limit of a shared receive queue, and nothing else. Argument: SRQN. Input:
    // SrqContext.
    COMMAND_OPCODE_MODIFY_SRQ = 16'h43,
    // Creates an MR or unbound window. Argument: NewNumber. Input: MemoryEntry. Result: key.
    COMMAND_OPCODE_CREATE_MR = 16'h50,
    // Reads a memory region, or a window (any variant of its key). Output: MemoryEntry.
    COMMAND_OPCODE_QUERY_MR = 16'h51,
    // Destroys a region (BUSY while it has windows), or a window by any variant of its key.
    COMMAND_OPCODE_DESTROY_MR = 16'h52,
    // Replaces a memory region. Argument: key. Input: MemoryEntry. Result: its new key. Or BUSY.
    COMMAND_OPCODE_MODIFY_MR = 16'h53,
    // Drops the cached pages of a memory region (contract 1.15). Argument: key.
    COMMAND_OPCODE_SYNC_MR = 16'h54
  } command_opcode_t;

  // How a command ended.
  typedef enum logic [7:0] {
    // Done.
    COMMAND_STATUS_SUCCESS = 8'h0,
    // The device failed inside.
    COMMAND_STATUS_INTERNAL_ERROR = 8'h1,
    // No such command.
    COMMAND_STATUS_BAD_OPCODE = 8'h2,
    // A field of the input is out of its range. Syndrome: its byte offset.
    COMMAND_STATUS_BAD_PARAMETER = 8'h3,
    // The function is not in a state in which the command is allowed.
    COMMAND_STATUS_BAD_STATE = 8'h4,
    // The number does not name an object.
    COMMAND_STATUS_NO_OBJECT = 8'h5,
    // The object, or the number that a new one should get, is in use.
    COMMAND_STATUS_BUSY = 8'h6,
    // No object of this kind is left, or its table has no such number.
    COMMAND_STATUS_NO_RESOURCES = 8'h7,
    // A mailbox is missing, too short or too long.
    COMMAND_STATUS_BAD_MAILBOX = 8'h8,
    // DMA to a mailbox or a table was refused by the host.
    COMMAND_STATUS_DMA_ERROR = 8'h9,
    // The QP's state does not allow this transition.
    COMMAND_STATUS_BAD_TRANSITION = 8'ha,
    // The contract has it, this device does not implement it.
    COMMAND_STATUS_NOT_SUPPORTED = 8'hb
  } command_status_t;

  // Operation of a send WQE.
  typedef enum logic [7:0] {
    // Completes when its turn comes, does nothing else.
    SEND_OPCODE_NOP = 8'h0,
    // SEND.
    SEND_OPCODE_SEND = 8'h1,
    // SEND with immediate.
    SEND_OPCODE_SEND_IMMEDIATE = 8'h2,
    // SEND that invalidates a remote key.
    SEND_OPCODE_SEND_INVALIDATE = 8'h3,
    // RDMA WRITE.
    SEND_OPCODE_RDMA_WRITE = 8'h8,
    // RDMA WRITE with immediate.
    SEND_OPCODE_RDMA_WRITE_IMMEDIATE = 8'h9,
    // RDMA READ.
    SEND_OPCODE_RDMA_READ = 8'h10,
    // Atomic compare and swap.
    SEND_OPCODE_COMPARE_SWAP = 8'h18,
    // Atomic fetch and add.
    SEND_OPCODE_FETCH_ADD = 8'h19,
    // Makes earlier writes visible or persistent (contract 1.14).
    SEND_OPCODE_FLUSH = 8'h1a,
    // Writes eight bytes at once (contract 1.14).
    SEND_OPCODE_ATOMIC_WRITE = 8'h1b,
    // Invalidates a local key.
    SEND_OPCODE_LOCAL_INVALIDATE = 8'h20,
    // Binds a memory window.
    SEND_OPCODE_BIND_WINDOW = 8'h21
  } send_opcode_t;

  // What has completed.
  typedef enum logic [7:0] {
    // A SEND of any kind.
    CQE_OPCODE_SEND = 8'h1,
    // An RDMA WRITE of any kind.
    CQE_OPCODE_RDMA_WRITE = 8'h2,
    // An RDMA READ.
    CQE_OPCODE_RDMA_READ = 8'h3,
    // A compare and swap.
    CQE_OPCODE_COMPARE_SWAP = 8'h4,
    // A fetch and add.
    CQE_OPCODE_FETCH_ADD = 8'h5,
    // A local invalidate.
    CQE_OPCODE_LOCAL_INVALIDATE = 8'h6,
    // A bind of a memory window.
    CQE_OPCODE_BIND_WINDOW = 8'h7,
    // A NOP.
    CQE_OPCODE_NOP = 8'h8,
    // A FLUSH (contract 1.14).
    CQE_OPCODE_FLUSH = 8'h9,
    // An ATOMIC WRITE (contract 1.14).
    CQE_OPCODE_ATOMIC_WRITE = 8'ha,
    // A receive WQE that a SEND consumed.
    CQE_OPCODE_RECEIVE = 8'h80,
    // A receive WQE that an RDMA WRITE with immediate consumed.
    CQE_OPCODE_RECEIVE_RDMA_IMMEDIATE = 8'h81
  } cqe_opcode_t;

  // How it has completed (IBTA vol 1, 11.6.2).
  typedef enum logic [7:0] {
    // Success.
    CQE_STATUS_SUCCESS = 8'h0,
    // Local length error: the message does not fit its buffers, or is too long.
    CQE_STATUS_LOCAL_LENGTH = 8'h1,
    // Local QP operation error: the WQE is not consistent.
    CQE_STATUS_LOCAL_QP_OPERATION = 8'h2,
    // Local protection error: a local key, its bounds or its rights do not allow the access.
    CQE_STATUS_LOCAL_PROTECTION = 8'h4,
    // The QP was in the error state: the WQE was not executed.
    CQE_STATUS_WR_FLUSH = 8'h5,
    // Memory management operation error: of a bind or a local invalidate.
    CQE_STATUS_WINDOW_BIND = 8'h6,
    // The responder's answer was not consistent.
    CQE_STATUS_BAD_RESPONSE = 8'h7,
    // Local access error: a receive buffer could not be written.
    CQE_STATUS_LOCAL_ACCESS = 8'h8,
    // The responder refused the request as invalid.
    CQE_STATUS_REMOTE_INVALID_REQUEST = 8'h9,
    // The responder refused the remote key, its bounds or its rights.
    CQE_STATUS_REMOTE_ACCESS = 8'ha,
    // The responder could not complete the operation.
    CQE_STATUS_REMOTE_OPERATION = 8'hb,
    // No answer, in all retries.
    CQE_STATUS_RETRY_EXCEEDED = 8'hc,
    // Receiver not ready, in all retries.
    CQE_STATUS_RNR_RETRY_EXCEEDED = 8'hd,
    // The function has stopped.
    CQE_STATUS_FATAL = 8'h13
  } cqe_status_t;

  // Detail of a completion in error: vendor_err of verbs. A device may report zero.
  typedef enum logic [7:0] {
    // Nothing more is known.
    VENDOR_ERROR_NONE = 8'h0,
    // The lkey names no memory region, or one that was deregistered.
    VENDOR_ERROR_LOCAL_KEY = 8'h10,
    // The lkey belongs to another protection domain than the QP.
    VENDOR_ERROR_LOCAL_DOMAIN = 8'h11,
    // An element of the scatter list begins before or ends after its memory region.
    VENDOR_ERROR_LOCAL_BOUNDS = 8'h12,
    // The memory region lacks IBV_ACCESS_LOCAL_WRITE, or for a bind IBV_ACCESS_MW_BIND.
    VENDOR_ERROR_LOCAL_RIGHTS = 8'h13,
    // A page of the memory is gone, or the host refused the DMA.
    VENDOR_ERROR_LOCAL_PAGE = 8'h14,
    // The window cannot be bound, or the key not invalidated, so or now.
    VENDOR_ERROR_LOCAL_BINDING = 8'h15,
    // The window of type 2 is bound to another QP.
    VENDOR_ERROR_LOCAL_QUEUE_PAIR = 8'h16,
    // The work request does not make sense for this QP.
    VENDOR_ERROR_WQE_FORMAT = 8'h20,
    // The message is longer than 2 GiB, or, of a datagram, than the path MTU.
    VENDOR_ERROR_WQE_LENGTH = 8'h21,
    // The work queue could not be read.
    VENDOR_ERROR_WQE_FETCH = 8'h22,
    // The address handle's source GID does not exist, or is of the other IP version.
    VENDOR_ERROR_WQE_ROUTE = 8'h23,
    // The message is longer than the receive buffers.
    VENDOR_ERROR_RECEIVE_LENGTH = 8'h30,
    // The receive queue could not be read, or its entry makes no sense.
    VENDOR_ERROR_RECEIVE_FETCH = 8'h31,
    // The peer's rkey names no memory region or window here, or one that is gone.
    VENDOR_ERROR_REQUEST_KEY = 8'h40,
    // The peer's rkey belongs to another protection domain than this QP.
    VENDOR_ERROR_REQUEST_DOMAIN = 8'h41,
    // The peer's access begins before or ends after the memory region.
    VENDOR_ERROR_REQUEST_BOUNDS = 8'h42,
    // The memory region lacks the right for the peer's access.
    VENDOR_ERROR_REQUEST_RIGHTS = 8'h43,
    // A page that the peer's request needs is gone, or the host refused the DMA.
    VENDOR_ERROR_REQUEST_PAGE = 8'h44,
    // The key cannot be invalidated by the peer.
    VENDOR_ERROR_REQUEST_BINDING = 8'h45,
    // The peer's rkey is of a window of type 2 that is bound to another QP.
    VENDOR_ERROR_REQUEST_QUEUE_PAIR = 8'h46,
    // The peer's atomic does not lie at a multiple of eight bytes.
    VENDOR_ERROR_REQUEST_ALIGNMENT = 8'h47,
    // The peer's request does not fit: order, length, or too many READs and atomics.
    VENDOR_ERROR_REQUEST_INVALID = 8'h48,
    // qp_access_flags of this QP do not allow the peer's operation.
    VENDOR_ERROR_REQUEST_QP_RIGHTS = 8'h49,
    // The peer answers "invalid request": its QP lacks the right, or its receive the room.
    VENDOR_ERROR_NAK_INVALID_REQUEST = 8'h50,
    // The peer answers "remote access error": rkey, bounds or rights of its memory.
    VENDOR_ERROR_NAK_ACCESS = 8'h51,
    // The peer answers "remote operational error": its receive buffer is wrong.
    VENDOR_ERROR_NAK_OPERATION = 8'h52,
    // The peer's answer makes no sense.
    VENDOR_ERROR_RESPONSE = 8'h53,
    // No valid answer: the peer's QP is not in RTR or RTS, not our peer, or rq_psn differs.
    VENDOR_ERROR_NO_ANSWER = 8'h58,
    // No answer: no host has the address of the path, or no program there the QP.
    VENDOR_ERROR_NO_STATION = 8'h59,
    // The peer had no receive posted, in all retries (rnr_retry).
    VENDOR_ERROR_NO_RECEIVE = 8'h5a,
    // The QP was in the error state already; the completion before it says why.
    VENDOR_ERROR_FLUSH = 8'h60,
    // Software moved the QP to the error state before the work request was executed.
    VENDOR_ERROR_FLUSH_MOVED = 8'h61
  } vendor_error_t;

  // What has happened.
  typedef enum logic [7:0] {
    // A CQ that was armed has a new CQE. Number: CQN.
    EVENT_TYPE_COMPLETION = 8'h1,
    // A CQ has overrun or could not be written. Number: CQN.
    EVENT_TYPE_CQ_ERROR = 8'h2,
    // A QP went to the error state for a local reason. Number: QPN.
    EVENT_TYPE_QP_FATAL = 8'h8,
    // A QP went to the error state because of an invalid request. Number: QPN.
    EVENT_TYPE_QP_REQUEST_ERROR = 8'h9,
    // A QP went to the error state because of a protection error. Number: QPN.
    EVENT_TYPE_QP_ACCESS_ERROR = 8'ha,
    // The first packet arrived while the QP was in RTR. Number: QPN.
    EVENT_TYPE_COMMUNICATION_ESTABLISHED = 8'hb,
    // The send queue has drained in SQD. Number: QPN.
    EVENT_TYPE_SEND_QUEUE_DRAINED = 8'hc,
    // The last WQE of the shared receive queue was taken by an errored QP. Number: QPN.
    EVENT_TYPE_LAST_WQE_REACHED = 8'hd,
    // A shared receive queue fell below its limit. Number: SRQN.
    EVENT_TYPE_SRQ_LIMIT = 8'h10,
    // A shared receive queue failed. Number: SRQN.
    EVENT_TYPE_SRQ_ERROR = 8'h11,
    // The port came up.
    EVENT_TYPE_PORT_ACTIVE = 8'h18,
    // The port went down.
    EVENT_TYPE_PORT_ERROR = 8'h19,
    // The host has set or cleared a GID table entry (contract 1.13). Number: its index.
    EVENT_TYPE_GID_CHANGE = 8'h1a,
    // An on-demand region lacks a page that is needed (contract 1.15). Number: its key.
    EVENT_TYPE_PAGE_FAULT = 8'h1b,
    // The function has stopped.
    EVENT_TYPE_DEVICE_FATAL = 8'h1f
  } event_type_t;

  // State of a QP (IBTA vol 1, 10.3.1).
  typedef enum logic [7:0] {
    // Reset.
    QP_STATE_CODE_RESET = 8'h0,
    // Initialized.
    QP_STATE_CODE_INIT = 8'h1,
    // Ready to receive.
    QP_STATE_CODE_RTR = 8'h2,
    // Ready to send.
    QP_STATE_CODE_RTS = 8'h3,
    // Send queue drained or draining.
    QP_STATE_CODE_SQD = 8'h4,
    // Send queue error.
    QP_STATE_CODE_SQE = 8'h5,
    // Error.
    QP_STATE_CODE_ERR = 8'h6
  } qp_state_code_t;

  // Transport service of a QP.
  typedef enum logic [7:0] {
    // Reliable connected.
    SERVICE_CODE_RELIABLE_CONNECTED = 8'h0,
    // Unreliable connected.
    SERVICE_CODE_UNRELIABLE_CONNECTED = 8'h1,
    // Unreliable datagram.
    SERVICE_CODE_UNRELIABLE_DATAGRAM = 8'h2,
    // Extended reliable connected, initiator.
    SERVICE_CODE_XRC_INITIATOR = 8'h3,
    // Extended reliable connected, target.
    SERVICE_CODE_XRC_TARGET = 8'h4,
    // General service interface: QP 1, a datagram QP for management (contract 1.4).
    SERVICE_CODE_GSI = 8'h5
  } service_code_t;

  // Path MTU.
  typedef enum logic [7:0] {
    // 256 bytes.
    PATH_MTU_CODE_MTU_256 = 8'h1,
    // 512 bytes.
    PATH_MTU_CODE_MTU_512 = 8'h2,
    // 1024 bytes.
    PATH_MTU_CODE_MTU_1024 = 8'h3,
    // 2048 bytes.
    PATH_MTU_CODE_MTU_2048 = 8'h4,
    // 4096 bytes.
    PATH_MTU_CODE_MTU_4096 = 8'h5
  } path_mtu_code_t;


  // ---- Words ----

  localparam int CONTRACT_VERSION_MINOR_LSB = 0;
  localparam int CONTRACT_VERSION_MINOR_WIDTH = 16;
  localparam int CONTRACT_VERSION_MAJOR_LSB = 16;
  localparam int CONTRACT_VERSION_MAJOR_WIDTH = 16;
  // A version of this contract.
  typedef struct packed {
    // 31:16: Major version: software leaves another one alone.
    logic [15:0] major;
    // 15:0: Minor version: grows when something is added that older software need not know.
    logic [15:0] minor;
  } contract_version_t;

  localparam int CAPABILITY_LOG_DOORBELL_PAGES_LSB = 0;
  localparam int CAPABILITY_LOG_DOORBELL_PAGES_WIDTH = 8;
  localparam int CAPABILITY_VECTORS_LSB = 8;
  localparam int CAPABILITY_VECTORS_WIDTH = 8;
  localparam int CAPABILITY_LOG_MAX_MAILBOX_LSB = 16;
  localparam int CAPABILITY_LOG_MAX_MAILBOX_WIDTH = 8;
  localparam int CAPABILITY_PORTS_LSB = 24;
  localparam int CAPABILITY_PORTS_WIDTH = 8;
  localparam int CAPABILITY_COUNTERS_LSB = 32;
  localparam int CAPABILITY_COUNTERS_WIDTH = 8;
  localparam int CAPABILITY_PUSH_BLOCKS_LSB = 40;
  localparam int CAPABILITY_PUSH_BLOCKS_WIDTH = 8;
  localparam int CAPABILITY_PERSONALITY_LSB = 48;
  localparam int CAPABILITY_PERSONALITY_WIDTH = 4;
  localparam int CAPABILITY_ROCE_ACCL_LSB = 61;
  localparam int CAPABILITY_ROCE_ACCL_WIDTH = 1;
  localparam int CAPABILITY_POLLED_DOORBELLS_LSB = 62;
  localparam int CAPABILITY_POLLED_DOORBELLS_WIDTH = 1;
  localparam int CAPABILITY_PRESENT_LSB = 63;
  localparam int CAPABILITY_PRESENT_WIDTH = 1;
  // What this function can do, readable before anything is set up.
  typedef struct packed {
    // 63: Always one.
    logic present;
    // 62: The doorbell pages are memory that the device polls: software counts doorbells, and wakes
    // the device when it sleeps. Never set by a card.
    logic polled_doorbells;
    // 61: The registers of ROCE_ACCL exist (from version 1.5 on).
    logic roce_accl;
    logic [8:0] reserved_52;
    // 51:48: Whose failures the function shows: a Personality (from version 1.12 on).
    logic [3:0] personality;
    // 47:40: 64-byte blocks of the longest push, up to 5; before contract 1.7: 1, 2 or 4. Zero:
    // BAR2 has no push pages.
    logic [7:0] push_blocks;
    // 39:32: 64-bit counters at 0x1000.
    logic [7:0] counters;
    // 31:24: Ethernet ports.
    logic [7:0] ports;
    // 23:16: Base-2 logarithm of the largest command mailbox, in bytes.
    logic [7:0] log_max_mailbox;
    // 15:8: MSI-X vectors, and event queues.
    logic [7:0] vectors;
    // 7:0: Base-2 logarithm of the number of 4 KiB doorbell pages in BAR2.
    logic [7:0] log_doorbell_pages;
  } capability_t;

  localparam int CONTROL_ENABLE_LSB = 0;
  localparam int CONTROL_ENABLE_WIDTH = 1;
  localparam int CONTROL_RESET_LSB = 1;
  localparam int CONTROL_RESET_WIDTH = 1;
  // Enables and resets the function.
  typedef struct packed {
    logic [29:0] reserved_2;
    // 1: Write one: all queues, contexts and counters are forgotten, nothing more is written to
    // host memory. Reads as one until the reset is done.
    logic reset;
    // 0: Starts the command queue. Cleared by a reset.
    logic enable;
  } control_t;

  localparam int STATUS_READY_LSB = 0;
  localparam int STATUS_READY_WIDTH = 1;
  localparam int STATUS_ENABLED_LSB = 1;
  localparam int STATUS_ENABLED_WIDTH = 1;
  localparam int STATUS_FATAL_LSB = 2;
  localparam int STATUS_FATAL_WIDTH = 1;
  localparam int STATUS_LINK_UP_LSB = 3;
  localparam int STATUS_LINK_UP_WIDTH = 1;
  // State of the function.
  typedef struct packed {
    logic [27:0] reserved_4;
    // 3: The port has a link.
    logic link_up;
    // 2: The function has stopped (see fatal_syndrome); only a reset helps.
    logic fatal;
    // 1: The command queue runs.
    logic enabled;
    // 0: Reset is done; the function may be enabled.
    logic ready;
  } status_t;

  localparam int PAGE_FAULT_ANSWER_COUNT_LSB = 0;
  localparam int PAGE_FAULT_ANSWER_COUNT_WIDTH = 24;
  localparam int PAGE_FAULT_ANSWER_REFUSED_LSB = 31;
  localparam int PAGE_FAULT_ANSWER_REFUSED_WIDTH = 1;
  // Answer to PAGE_FAULT events, in their order.
  typedef struct packed {
    // 31: The page of the last of them cannot be present: the access fails.
    logic refused;
    logic [6:0] reserved_24;
    // 23:0: PAGE_FAULT events answered so far, modulo 2^24: their pages are present now.
    logic [23:0] count;
  } page_fault_answer_t;

  localparam int EVENT_QUEUE_DOORBELL_CONSUMER_INDEX_LSB = 0;
  localparam int EVENT_QUEUE_DOORBELL_CONSUMER_INDEX_WIDTH = 24;
  localparam int EVENT_QUEUE_DOORBELL_ARM_LSB = 31;
  localparam int EVENT_QUEUE_DOORBELL_ARM_WIDTH = 1;
  // Consumer index of an event queue.
  typedef struct packed {
    // 31: Interrupt when an event at or behind the consumer index exists; one interrupt, then the
    // queue is disarmed.
    logic arm;
    logic [6:0] reserved_24;
    // 23:0: Events consumed so far, modulo 2^24.
    logic [23:0] consumer_index;
  } event_queue_doorbell_t;

  localparam int ROCE_ACCL_SELECT_ROCE_ADP_RETRANS_FIELD_SELECT_LSB = 0;
  localparam int ROCE_ACCL_SELECT_ROCE_ADP_RETRANS_FIELD_SELECT_WIDTH = 1;
  localparam int ROCE_ACCL_SELECT_ROCE_TX_WINDOW_FIELD_SELECT_LSB = 1;
  localparam int ROCE_ACCL_SELECT_ROCE_TX_WINDOW_FIELD_SELECT_WIDTH = 1;
  localparam int ROCE_ACCL_SELECT_ROCE_SLOW_RESTART_FIELD_SELECT_LSB = 2;
  localparam int ROCE_ACCL_SELECT_ROCE_SLOW_RESTART_FIELD_SELECT_WIDTH = 1;
  localparam int ROCE_ACCL_SELECT_ROCE_SLOW_RESTART_IDLE_FIELD_SELECT_LSB = 3;
  localparam int ROCE_ACCL_SELECT_ROCE_SLOW_RESTART_IDLE_FIELD_SELECT_WIDTH = 1;
  localparam int ROCE_ACCL_SELECT_MIN_ACK_TIMEOUT_LIMIT_DISABLED_FIELD_SELECT_LSB = 4;
  localparam int ROCE_ACCL_SELECT_MIN_ACK_TIMEOUT_LIMIT_DISABLED_FIELD_SELECT_WIDTH = 1;
  localparam int ROCE_ACCL_SELECT_ADAPTIVE_ROUTING_FORCED_EN_FIELD_SELECT_LSB = 5;
  localparam int ROCE_ACCL_SELECT_ADAPTIVE_ROUTING_FORCED_EN_FIELD_SELECT_WIDTH = 1;
  localparam int ROCE_ACCL_SELECT_SELECTIVE_REPEAT_FORCED_EN_FIELD_SELECT_LSB = 6;
  localparam int ROCE_ACCL_SELECT_SELECTIVE_REPEAT_FORCED_EN_FIELD_SELECT_WIDTH = 1;
  localparam int ROCE_ACCL_SELECT_CC_PER_PLANE_EN_FIELD_SELECT_LSB = 8;
  localparam int ROCE_ACCL_SELECT_CC_PER_PLANE_EN_FIELD_SELECT_WIDTH = 1;
  localparam int ROCE_ACCL_SELECT_ACK_DSCP_FORCE_FIELD_SELECT_LSB = 9;
  localparam int ROCE_ACCL_SELECT_ACK_DSCP_FORCE_FIELD_SELECT_WIDTH = 1;
  localparam int ROCE_ACCL_SELECT_CC_BURST_SIZE_SELECT_LSB = 10;
  localparam int ROCE_ACCL_SELECT_CC_BURST_SIZE_SELECT_WIDTH = 1;
  localparam int ROCE_ACCL_SELECT_ADP_RETX_PROFILE_SELECT_LSB = 28;
  localparam int ROCE_ACCL_SELECT_ADP_RETX_PROFILE_SELECT_WIDTH = 1;
  // Fields of ROCE_ACCL that can be changed; the others are zero and ignore writes.
  typedef struct packed {
    logic [2:0] reserved_29;
    // 28: adp_retx_profile_id and the profile can be changed.
    logic adp_retx_profile_select;
    logic [16:0] reserved_11;
    // 10: cc_burst_size can be changed: congestion control, not implemented.
    logic cc_burst_size_select;
    // 9: ack_dscp_force can be changed: not implemented.
    logic ack_dscp_force_field_select;
    // 8: cc_per_plane_en can be changed: congestion control, not implemented.
    logic cc_per_plane_en_field_select;
    logic reserved_7;
    // 6: selective_repeat_forced_en can be changed.
    logic selective_repeat_forced_en_field_select;
    // 5: adaptive_routing_forced_en can be changed.
    logic adaptive_routing_forced_en_field_select;
    // 4: min_ack_timeout_limit_disabled can be changed: with the personality mlx5.
    logic min_ack_timeout_limit_disabled_field_select;
    // 3: roce_slow_restart_idle_en can be changed: congestion control, not implemented.
    logic roce_slow_restart_idle_field_select;
    // 2: roce_slow_restart_en can be changed: congestion control, not implemented.
    logic roce_slow_restart_field_select;
    // 1: roce_tx_window_en can be changed: congestion control, not implemented.
    logic roce_tx_window_field_select;
    // 0: roce_adp_retrans_en can be changed.
    logic roce_adp_retrans_field_select;
  } roce_accl_select_t;

  localparam int ROCE_ACCL_ROCE_ADP_RETRANS_EN_LSB = 0;
  localparam int ROCE_ACCL_ROCE_ADP_RETRANS_EN_WIDTH = 1;
  localparam int ROCE_ACCL_ROCE_TX_WINDOW_EN_LSB = 1;
  localparam int ROCE_ACCL_ROCE_TX_WINDOW_EN_WIDTH = 1;
  localparam int ROCE_ACCL_ROCE_SLOW_RESTART_EN_LSB = 2;
  localparam int ROCE_ACCL_ROCE_SLOW_RESTART_EN_WIDTH = 1;
  localparam int ROCE_ACCL_ROCE_SLOW_RESTART_IDLE_EN_LSB = 3;
  localparam int ROCE_ACCL_ROCE_SLOW_RESTART_IDLE_EN_WIDTH = 1;
  localparam int ROCE_ACCL_MIN_ACK_TIMEOUT_LIMIT_DISABLED_LSB = 4;
  localparam int ROCE_ACCL_MIN_ACK_TIMEOUT_LIMIT_DISABLED_WIDTH = 1;
  localparam int ROCE_ACCL_ADAPTIVE_ROUTING_FORCED_EN_LSB = 5;
  localparam int ROCE_ACCL_ADAPTIVE_ROUTING_FORCED_EN_WIDTH = 1;
  localparam int ROCE_ACCL_SELECTIVE_REPEAT_FORCED_EN_LSB = 6;
  localparam int ROCE_ACCL_SELECTIVE_REPEAT_FORCED_EN_WIDTH = 1;
  localparam int ROCE_ACCL_ADP_RETX_PROFILE_ID_LSB = 28;
  localparam int ROCE_ACCL_ADP_RETX_PROFILE_ID_WIDTH = 3;
  // How queue pairs recover. A queue pair takes the modes when it goes to RTR.
  typedef struct packed {
    logic reserved_31;
    // 30:28: Profile of the adaptive retransmission timer: 0 is the built-in one (2 to 16 ms; with
    // the personality mlx5 the measured one of a ConnectX-6, from 20 ms on), 1 that of
    // adp_retx_profile; if that is not valid, 0 applies.
    logic [2:0] adp_retx_profile_id;
    logic [20:0] reserved_7;
    // 6: Selective repeat.
    logic selective_repeat_forced_en;
    // 5: Selective repeat on a network that reorders: WRITEs are placed in any order.
    logic adaptive_routing_forced_en;
    // 4: Personality mlx5: local ACK timeouts below 16 are used as they are, and nothing is
    // retransmitted earlier. Others: zero, there is no such limit.
    logic min_ack_timeout_limit_disabled;
    // 3: Zero: not implemented.
    logic roce_slow_restart_idle_en;
    // 2: Zero: not implemented.
    logic roce_slow_restart_en;
    // 1: Zero: not implemented.
    logic roce_tx_window_en;
    // 0: The adaptive retransmission timer takes the place of the local ACK timeout.
    logic roce_adp_retrans_en;
  } roce_accl_t;

  localparam int ROCE_ACCL_LIMITS_ADP_RETX_BASE_TIMEOUT_MIN_LSB = 0;
  localparam int ROCE_ACCL_LIMITS_ADP_RETX_BASE_TIMEOUT_MIN_WIDTH = 20;
  localparam int ROCE_ACCL_LIMITS_ADP_RETX_PROFILE_MAX_ID_LSB = 24;
  localparam int ROCE_ACCL_LIMITS_ADP_RETX_PROFILE_MAX_ID_WIDTH = 3;
  localparam int ROCE_ACCL_LIMITS_ADP_RETX_PROFILE_MAX_RANGE_NUM_LSB = 28;
  localparam int ROCE_ACCL_LIMITS_ADP_RETX_PROFILE_MAX_RANGE_NUM_WIDTH = 3;
  // Limits of the adaptive retransmission profile.
  typedef struct packed {
    logic reserved_31;
    // 30:28: Ranges of timeouts at most.
    logic [2:0] adp_retx_profile_max_range_num;
    logic reserved_27;
    // 26:24: Largest adp_retx_profile_id.
    logic [2:0] adp_retx_profile_max_id;
    logic [3:0] reserved_20;
    // 19:0: Smallest time_base, in nanoseconds.
    logic [19:0] adp_retx_base_timeout_min;
  } roce_accl_limits_t;

  localparam int ADP_RETX_PROFILE_TIME_BASE_LSB = 0;
  localparam int ADP_RETX_PROFILE_TIME_BASE_WIDTH = 16;
  localparam int ADP_RETX_PROFILE_TIME_UNIT_LSB = 22;
  localparam int ADP_RETX_PROFILE_TIME_UNIT_WIDTH = 2;
  localparam int ADP_RETX_PROFILE_START_RANGE_INDEX_LSB = 24;
  localparam int ADP_RETX_PROFILE_START_RANGE_INDEX_WIDTH = 3;
  localparam int ADP_RETX_PROFILE_RANGE_NUM_LSB = 28;
  localparam int ADP_RETX_PROFILE_RANGE_NUM_WIDTH = 3;
  localparam int ADP_RETX_PROFILE_QP_TOTAL_TIMEOUT_LSB = 31;
  localparam int ADP_RETX_PROFILE_QP_TOTAL_TIMEOUT_WIDTH = 1;
  // Adaptive retransmission profile. A timeout n means time_base times 2^n.
  typedef struct packed {
    // 31: A QP fails after its retry count times its local ACK timeout without progress; else
    // retx_total_timeout says when.
    logic qp_total_timeout;
    // 30:28: Ranges in use, 1 to 4.
    logic [2:0] range_num;
    logic reserved_27;
    // 26:24: The range behind the first timeout, if that is in none.
    logic [2:0] start_range_index;
    // 23:22: 1: microseconds. Other values are reserved.
    logic [1:0] time_unit;
    logic [5:0] reserved_16;
    // 15:0: A power of two of time_unit.
    logic [15:0] time_base;
  } adp_retx_profile_t;

  localparam int ADP_RETX_PROFILE_START_TIMEOUT_INIT_RANGE_SIZE_LSB = 0;
  localparam int ADP_RETX_PROFILE_START_TIMEOUT_INIT_RANGE_SIZE_WIDTH = 8;
  localparam int ADP_RETX_PROFILE_START_TIMEOUT_INIT_LOW_BOUND_LSB = 8;
  localparam int ADP_RETX_PROFILE_START_TIMEOUT_INIT_LOW_BOUND_WIDTH = 8;
  localparam int ADP_RETX_PROFILE_START_RETX_TOTAL_TIMEOUT_LSB = 24;
  localparam int ADP_RETX_PROFILE_START_RETX_TOTAL_TIMEOUT_WIDTH = 8;
  // Begin and end of the adaptive retransmission profile.
  typedef struct packed {
    // 31:24: Time without progress after which a QP fails.
    logic [7:0] retx_total_timeout;
    logic [7:0] reserved_16;
    // 15:8: Smallest first timeout.
    logic [7:0] timeout_init_low_bound;
    // 7:0: First timeouts to choose from, at random.
    logic [7:0] timeout_init_range_size;
  } adp_retx_profile_start_t;

  localparam int ADP_RETX_RANGE_RANGE_SIZE_LSB = 0;
  localparam int ADP_RETX_RANGE_RANGE_SIZE_WIDTH = 8;
  localparam int ADP_RETX_RANGE_RANGE_LOW_BOUND_LSB = 8;
  localparam int ADP_RETX_RANGE_RANGE_LOW_BOUND_WIDTH = 8;
  localparam int ADP_RETX_RANGE_TIMEOUT_RETRY_NUM_LSB = 16;
  localparam int ADP_RETX_RANGE_TIMEOUT_RETRY_NUM_WIDTH = 10;
  localparam int ADP_RETX_RANGE_DEC_MODE_LSB = 26;
  localparam int ADP_RETX_RANGE_DEC_MODE_WIDTH = 2;
  localparam int ADP_RETX_RANGE_PREV_RANGE_INDEX_LSB = 28;
  localparam int ADP_RETX_RANGE_PREV_RANGE_INDEX_WIDTH = 3;
  // A range of timeouts of the adaptive retransmission profile.
  typedef struct packed {
    logic reserved_31;
    // 30:28: The range to which progress leads from range_low_bound: this one or one before it.
    logic [2:0] prev_range_index;
    // 27:26: What progress does: 0 a quarter of the timeout, 1 half of it, 2 back to
    // range_low_bound.
    logic [1:0] dec_mode;
    // 25:16: Time-outs of each before the next one.
    logic [9:0] timeout_retry_num;
    // 15:8: Smallest timeout.
    logic [7:0] range_low_bound;
    // 7:0: Number of timeouts, each twice the one before.
    logic [7:0] range_size;
  } adp_retx_range_t;

  localparam int DOORBELL_VALUE_INDEX_LSB = 0;
  localparam int DOORBELL_VALUE_INDEX_WIDTH = 32;
  localparam int DOORBELL_VALUE_NUMBER_LSB = 32;
  localparam int DOORBELL_VALUE_NUMBER_WIDTH = 24;
  localparam int DOORBELL_VALUE_KIND_LSB = 56;
  localparam int DOORBELL_VALUE_KIND_WIDTH = 8;
  // The value that is written to a doorbell slot.
  typedef struct packed {
    // 63:56: A DoorbellKind.
    logic [7:0] kind;
    // 55:32: QPN, SRQN or CQN. Must be that of the queue to which the slot was given.
    logic [23:0] number;
    // 31:0: Send queue: producer index in 64-byte blocks. Receive queue: producer index in entries.
    // CQ: consumer index in entries. Free-running, modulo 2^32.
    logic [31:0] index;
  } doorbell_value_t;

  localparam int NEW_NUMBER_NUMBER_LSB = 0;
  localparam int NEW_NUMBER_NUMBER_WIDTH = 32;
  localparam int NEW_NUMBER_CHOSEN_LSB = 32;
  localparam int NEW_NUMBER_CHOSEN_WIDTH = 1;
  // Argument of CREATE_CQ, CREATE_QP, CREATE_SRQ and CREATE_MR.
  typedef struct packed {
    logic [30:0] reserved_33;
    // 32: One: software has chosen the number (needs chosen_numbers). Zero: the device chooses.
    logic chosen;
    // 31:0: CQN, QPN or SRQN that the object gets; of a memory region or window, bits 31:8 of its
    // key.
    logic [31:0] number;
  } new_number_t;

  localparam int COMMAND_COMPLETION_STATUS_LSB = 0;
  localparam int COMMAND_COMPLETION_STATUS_WIDTH = 8;
  localparam int COMMAND_COMPLETION_SYNDROME_LSB = 8;
  localparam int COMMAND_COMPLETION_SYNDROME_WIDTH = 32;
  localparam int COMMAND_COMPLETION_DEVICE_OWNED_LSB = 63;
  localparam int COMMAND_COMPLETION_DEVICE_OWNED_WIDTH = 1;
  // Last eight bytes of a command queue entry.
  typedef struct packed {
    // 63: One: the device has still to execute the entry. Zero: software owns it.
    logic device_owned;
    logic [22:0] reserved_40;
    // 39:8: Detail of a failure, written by the device.
    logic [31:0] syndrome;
    // 7:0: A CommandStatus, written by the device.
    logic [7:0] status;
  } command_completion_t;

  localparam int QP_ATTRIBUTE_MASK_ACCESS_LSB = 0;
  localparam int QP_ATTRIBUTE_MASK_ACCESS_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_P_KEY_LSB = 1;
  localparam int QP_ATTRIBUTE_MASK_P_KEY_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_PORT_LSB = 2;
  localparam int QP_ATTRIBUTE_MASK_PORT_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_Q_KEY_LSB = 3;
  localparam int QP_ATTRIBUTE_MASK_Q_KEY_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_PATH_LSB = 4;
  localparam int QP_ATTRIBUTE_MASK_PATH_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_PATH_MTU_LSB = 5;
  localparam int QP_ATTRIBUTE_MASK_PATH_MTU_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_TIMEOUT_LSB = 6;
  localparam int QP_ATTRIBUTE_MASK_TIMEOUT_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_RETRY_COUNT_LSB = 7;
  localparam int QP_ATTRIBUTE_MASK_RETRY_COUNT_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_RNR_RETRY_LSB = 8;
  localparam int QP_ATTRIBUTE_MASK_RNR_RETRY_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_RECEIVE_PSN_LSB = 9;
  localparam int QP_ATTRIBUTE_MASK_RECEIVE_PSN_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_MAX_RD_ATOMIC_LSB = 10;
  localparam int QP_ATTRIBUTE_MASK_MAX_RD_ATOMIC_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_MIN_RNR_TIMER_LSB = 11;
  localparam int QP_ATTRIBUTE_MASK_MIN_RNR_TIMER_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_SEND_PSN_LSB = 12;
  localparam int QP_ATTRIBUTE_MASK_SEND_PSN_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_MAX_DEST_RD_ATOMIC_LSB = 13;
  localparam int QP_ATTRIBUTE_MASK_MAX_DEST_RD_ATOMIC_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_DEST_QPN_LSB = 14;
  localparam int QP_ATTRIBUTE_MASK_DEST_QPN_WIDTH = 1;
  localparam int QP_ATTRIBUTE_MASK_DRAINED_EVENT_LSB = 15;
  localparam int QP_ATTRIBUTE_MASK_DRAINED_EVENT_WIDTH = 1;
  // Which attributes a MODIFY_QP carries.
  typedef struct packed {
    logic [15:0] reserved_16;
    // 15: To SQD: raise SEND_QUEUE_DRAINED.
    logic drained_event;
    // 14: Destination QPN.
    logic dest_qpn;
    // 13: READs and atomics accepted as responder.
    logic max_dest_rd_atomic;
    // 12: First PSN to send.
    logic send_psn;
    // 11: RNR NAK timer code.
    logic min_rnr_timer;
    // 10: Outstanding READs and atomics as requester.
    logic max_rd_atomic;
    // 9: Expected PSN.
    logic receive_psn;
    // 8: RNR retry count.
    logic rnr_retry;
    // 7: Retry count.
    logic retry_count;
    // 6: Local ACK timeout.
    logic timeout;
    // 5: Path MTU.
    logic path_mtu;
    // 4: Address path.
    logic path;
    // 3: Q_Key.
    logic q_key;
    // 2: Port number.
    logic port;
    // 1: P_Key index.
    logic p_key;
    // 0: Remote access rights.
    logic access;
  } qp_attribute_mask_t;

  localparam int DEVICE_FEATURES_RELIABLE_CONNECTED_LSB = 0;
  localparam int DEVICE_FEATURES_RELIABLE_CONNECTED_WIDTH = 1;
  localparam int DEVICE_FEATURES_UNRELIABLE_CONNECTED_LSB = 1;
  localparam int DEVICE_FEATURES_UNRELIABLE_CONNECTED_WIDTH = 1;
  localparam int DEVICE_FEATURES_UNRELIABLE_DATAGRAM_LSB = 2;
  localparam int DEVICE_FEATURES_UNRELIABLE_DATAGRAM_WIDTH = 1;
  localparam int DEVICE_FEATURES_EXTENDED_RELIABLE_CONNECTED_LSB = 3;
  localparam int DEVICE_FEATURES_EXTENDED_RELIABLE_CONNECTED_WIDTH = 1;
  localparam int DEVICE_FEATURES_ATOMICS_LSB = 4;
  localparam int DEVICE_FEATURES_ATOMICS_WIDTH = 1;
  localparam int DEVICE_FEATURES_SHARED_RECEIVE_QUEUES_LSB = 5;
  localparam int DEVICE_FEATURES_SHARED_RECEIVE_QUEUES_WIDTH = 1;
  localparam int DEVICE_FEATURES_MEMORY_WINDOWS_LSB = 6;
  localparam int DEVICE_FEATURES_MEMORY_WINDOWS_WIDTH = 1;
  localparam int DEVICE_FEATURES_GLOBAL_ATOMICS_LSB = 7;
  localparam int DEVICE_FEATURES_GLOBAL_ATOMICS_WIDTH = 1;
  localparam int DEVICE_FEATURES_GENERAL_SERVICE_INTERFACE_LSB = 8;
  localparam int DEVICE_FEATURES_GENERAL_SERVICE_INTERFACE_WIDTH = 1;
  localparam int DEVICE_FEATURES_CQ_RESIZE_LSB = 9;
  localparam int DEVICE_FEATURES_CQ_RESIZE_WIDTH = 1;
  localparam int DEVICE_FEATURES_CHOSEN_NUMBERS_LSB = 10;
  localparam int DEVICE_FEATURES_CHOSEN_NUMBERS_WIDTH = 1;
  localparam int DEVICE_FEATURES_OWN_MULTICAST_LSB = 11;
  localparam int DEVICE_FEATURES_OWN_MULTICAST_WIDTH = 1;
  localparam int DEVICE_FEATURES_FLUSH_LSB = 12;
  localparam int DEVICE_FEATURES_FLUSH_WIDTH = 1;
  localparam int DEVICE_FEATURES_PERSISTENT_FLUSH_LSB = 13;
  localparam int DEVICE_FEATURES_PERSISTENT_FLUSH_WIDTH = 1;
  localparam int DEVICE_FEATURES_ATOMIC_WRITE_LSB = 14;
  localparam int DEVICE_FEATURES_ATOMIC_WRITE_WIDTH = 1;
  localparam int DEVICE_FEATURES_ON_DEMAND_PAGING_LSB = 15;
  localparam int DEVICE_FEATURES_ON_DEMAND_PAGING_WIDTH = 1;
  // What the device implements.
  typedef struct packed {
    logic [15:0] reserved_16;
    // 15: Memory regions may be on demand: RC, XRC and UD (contract 1.15).
    logic on_demand_paging;
    // 14: ATOMIC WRITE, RC and XRC (contract 1.14).
    logic atomic_write;
    // 13: FLUSH that makes writes persistent (contract 1.14).
    logic persistent_flush;
    // 12: FLUSH that makes writes visible to all readers, RC and XRC (contract 1.14).
    logic flush;
    // 11: A member of a multicast group gets what it sends there, unless its QpShape says otherwise
    // (contract 1.11).
    logic own_multicast;
    // 10: Software may choose the numbers of new objects (contract 1.9).
    logic chosen_numbers;
    // 9: MODIFY_CQ with another ring. Before contract 1.6: always, without this bit.
    logic cq_resize;
    // 8: GSI: QP 1.
    logic general_service_interface;
    // 7: Atomics are atomic also with respect to the host's processors (PCIe AtomicOps).
    logic global_atomics;
    // 6: Memory windows.
    logic memory_windows;
    // 5: SRQs.
    logic shared_receive_queues;
    // 4: Compare and swap, fetch and add.
    logic atomics;
    // 3: XRC.
    logic extended_reliable_connected;
    // 2: UD.
    logic unreliable_datagram;
    // 1: UC.
    logic unreliable_connected;
    // 0: RC.
    logic reliable_connected;
  } device_features_t;

  localparam int CONTROL_WORD_OPCODE_LSB = 0;
  localparam int CONTROL_WORD_OPCODE_WIDTH = 8;
  localparam int CONTROL_WORD_SIGNALED_LSB = 8;
  localparam int CONTROL_WORD_SIGNALED_WIDTH = 1;
  localparam int CONTROL_WORD_SOLICITED_LSB = 9;
  localparam int CONTROL_WORD_SOLICITED_WIDTH = 1;
  localparam int CONTROL_WORD_FENCE_LSB = 10;
  localparam int CONTROL_WORD_FENCE_WIDTH = 1;
  localparam int CONTROL_WORD_INLINE_LSB = 11;
  localparam int CONTROL_WORD_INLINE_WIDTH = 1;
  localparam int CONTROL_WORD_BLOCKS_LSB = 16;
  localparam int CONTROL_WORD_BLOCKS_WIDTH = 5;
  localparam int CONTROL_WORD_DATA_SEGMENTS_LSB = 24;
  localparam int CONTROL_WORD_DATA_SEGMENTS_WIDTH = 5;
  // First word of a send WQE.
  typedef struct packed {
    logic [2:0] reserved_29;
    // 28:24: Data segments behind the other segments, 0 to 16; zero when inline.
    logic [4:0] data_segments;
    logic [2:0] reserved_21;
    // 20:16: Blocks of this WQE, 1 to 10.
    logic [4:0] blocks;
    logic [3:0] reserved_12;
    // 11: The payload lies in the WQE, behind an InlineHeader.
    logic inline_;
    // 10: Wait until all earlier READs and atomics are done.
    logic fence;
    // 9: The peer's receive completion is a solicited event.
    logic solicited;
    // 8: A CQE is written also on success.
    logic signaled;
    // 7:0: A SendOpcode.
    logic [7:0] opcode;
  } control_word_t;

  localparam int CQE_WORD_OPCODE_LSB = 0;
  localparam int CQE_WORD_OPCODE_WIDTH = 8;
  localparam int CQE_WORD_STATUS_LSB = 8;
  localparam int CQE_WORD_STATUS_WIDTH = 8;
  localparam int CQE_WORD_VENDOR_ERROR_LSB = 16;
  localparam int CQE_WORD_VENDOR_ERROR_WIDTH = 8;
  localparam int CQE_WORD_WITH_IMMEDIATE_LSB = 24;
  localparam int CQE_WORD_WITH_IMMEDIATE_WIDTH = 1;
  localparam int CQE_WORD_WITH_INVALIDATE_LSB = 25;
  localparam int CQE_WORD_WITH_INVALIDATE_WIDTH = 1;
  localparam int CQE_WORD_WITH_GRH_LSB = 26;
  localparam int CQE_WORD_WITH_GRH_WIDTH = 1;
  localparam int CQE_WORD_SOLICITED_LSB = 27;
  localparam int CQE_WORD_SOLICITED_WIDTH = 1;
  localparam int CQE_WORD_SHARED_LSB = 28;
  localparam int CQE_WORD_SHARED_WIDTH = 1;
  localparam int CQE_WORD_IPV4_LSB = 29;
  localparam int CQE_WORD_IPV4_WIDTH = 1;
  localparam int CQE_WORD_OWNER_LSB = 31;
  localparam int CQE_WORD_OWNER_WIDTH = 1;
  // Last word of a CQE.
  typedef struct packed {
    // 31: One on even laps of the ring.
    logic owner;
    logic reserved_30;
    // 29: With with_grh: that IP header is IPv4, in bytes 20 to 39.
    logic ipv4;
    // 28: wqe_index is the tag of a shared receive WQE.
    logic shared;
    // 27: The sender asked for a solicited event.
    logic solicited;
    // 26: The first 40 bytes of the buffer hold the IP header.
    logic with_grh;
    // 25: The immediate field holds the remote key that was invalidated (little-endian).
    logic with_invalidate;
    // 24: The immediate field is valid.
    logic with_immediate;
    // 23:16: Detail of an error: a VendorError, as far as the device knows it.
    logic [7:0] vendor_error;
    // 15:8: A CqeStatus.
    logic [7:0] status;
    // 7:0: A CqeOpcode. Not defined when the status is an error, except that bit 7 distinguishes
    // receive from send.
    logic [7:0] opcode;
  } cqe_word_t;

  localparam int EQE_WORD_EVENT_LSB = 0;
  localparam int EQE_WORD_EVENT_WIDTH = 8;
  localparam int EQE_WORD_OWNER_LSB = 31;
  localparam int EQE_WORD_OWNER_WIDTH = 1;
  // Last word of an EQE.
  typedef struct packed {
    // 31: One on even laps of the ring.
    logic owner;
    logic [22:0] reserved_8;
    // 7:0: An EventType.
    logic [7:0] event_;
  } eqe_word_t;

  localparam int ACCESS_RIGHTS_LOCAL_WRITE_LSB = 0;
  localparam int ACCESS_RIGHTS_LOCAL_WRITE_WIDTH = 1;
  localparam int ACCESS_RIGHTS_REMOTE_WRITE_LSB = 1;
  localparam int ACCESS_RIGHTS_REMOTE_WRITE_WIDTH = 1;
  localparam int ACCESS_RIGHTS_REMOTE_READ_LSB = 2;
  localparam int ACCESS_RIGHTS_REMOTE_READ_WIDTH = 1;
  localparam int ACCESS_RIGHTS_REMOTE_ATOMIC_LSB = 3;
  localparam int ACCESS_RIGHTS_REMOTE_ATOMIC_WIDTH = 1;
  localparam int ACCESS_RIGHTS_WINDOW_BIND_LSB = 4;
  localparam int ACCESS_RIGHTS_WINDOW_BIND_WIDTH = 1;
  localparam int ACCESS_RIGHTS_RELAXED_ORDERING_LSB = 5;
  localparam int ACCESS_RIGHTS_RELAXED_ORDERING_WIDTH = 1;
  localparam int ACCESS_RIGHTS_ZERO_BASED_LSB = 6;
  localparam int ACCESS_RIGHTS_ZERO_BASED_WIDTH = 1;
  localparam int ACCESS_RIGHTS_FLUSH_GLOBAL_LSB = 8;
  localparam int ACCESS_RIGHTS_FLUSH_GLOBAL_WIDTH = 1;
  localparam int ACCESS_RIGHTS_FLUSH_PERSISTENT_LSB = 9;
  localparam int ACCESS_RIGHTS_FLUSH_PERSISTENT_WIDTH = 1;
  // Remote access rights of a QP, and local and remote rights of a memory region.
  typedef struct packed {
    logic [21:0] reserved_10;
    // 9: FLUSH that makes writes persistent (contract 1.14).
    logic flush_persistent;
    // 8: FLUSH that makes writes visible to all readers (contract 1.14).
    logic flush_global;
    logic reserved_7;
    // 6: Window of type 2: peers name its first byte 0.
    logic zero_based;
    // 5: Writes may pass each other.
    logic relaxed_ordering;
    // 4: Memory windows may be bound.
    logic window_bind;
    // 3: Atomics.
    logic remote_atomic;
    // 2: RDMA READ.
    logic remote_read;
    // 1: RDMA WRITE.
    logic remote_write;
    // 0: The device may write for receives and READs.
    logic local_write;
  } access_rights_t;

  localparam int QP_SHAPE_LOG_SEND_BLOCKS_LSB = 0;
  localparam int QP_SHAPE_LOG_SEND_BLOCKS_WIDTH = 8;
  localparam int QP_SHAPE_LOG_RECEIVES_LSB = 8;
  localparam int QP_SHAPE_LOG_RECEIVES_WIDTH = 8;
  localparam int QP_SHAPE_LOG_RECEIVE_STRIDE_LSB = 16;
  localparam int QP_SHAPE_LOG_RECEIVE_STRIDE_WIDTH = 8;
  localparam int QP_SHAPE_BLOCKS_OWN_MULTICAST_LSB = 30;
  localparam int QP_SHAPE_BLOCKS_OWN_MULTICAST_WIDTH = 1;
  localparam int QP_SHAPE_USES_SRQ_LSB = 31;
  localparam int QP_SHAPE_USES_SRQ_WIDTH = 1;
  // Shape of a QP's rings.
  typedef struct packed {
    // 31: Receives come from the shared receive queue.
    logic uses_srq;
    // 30: UD: it does not get the datagrams to groups that it sent itself (contract 1.11).
    logic blocks_own_multicast;
    logic [5:0] reserved_24;
    // 23:16: Base-2 logarithm of the bytes of one receive entry, 4 to 8.
    logic [7:0] log_receive_stride;
    // 15:8: Base-2 logarithm of the receive queue, in entries.
    logic [7:0] log_receives;
    // 7:0: Base-2 logarithm of the send queue, in 64-byte blocks.
    logic [7:0] log_send_blocks;
  } qp_shape_t;

  localparam int RETRY_ATTRIBUTES_RETRY_COUNT_LSB = 0;
  localparam int RETRY_ATTRIBUTES_RETRY_COUNT_WIDTH = 3;
  localparam int RETRY_ATTRIBUTES_RNR_RETRY_LSB = 4;
  localparam int RETRY_ATTRIBUTES_RNR_RETRY_WIDTH = 3;
  localparam int RETRY_ATTRIBUTES_TIMEOUT_LSB = 8;
  localparam int RETRY_ATTRIBUTES_TIMEOUT_WIDTH = 5;
  localparam int RETRY_ATTRIBUTES_MIN_RNR_TIMER_LSB = 16;
  localparam int RETRY_ATTRIBUTES_MIN_RNR_TIMER_WIDTH = 5;
  // Retry attributes of a QP.
  typedef struct packed {
    logic [10:0] reserved_21;
    // 20:16: Timer code of the RNR NAKs it sends.
    logic [4:0] min_rnr_timer;
    logic [2:0] reserved_13;
    // 12:8: Local ACK timeout, 4.096 us x 2^n; zero: none.
    logic [4:0] timeout;
    logic reserved_7;
    // 6:4: Retries after an RNR NAK; 7: without a limit.
    logic [2:0] rnr_retry;
    logic reserved_3;
    // 2:0: Retries after a timeout or sequence error.
    logic [2:0] retry_count;
  } retry_attributes_t;

  localparam int MEMORY_ENTRY_WORD_LOG_PAGE_SIZE_LSB = 0;
  localparam int MEMORY_ENTRY_WORD_LOG_PAGE_SIZE_WIDTH = 8;
  localparam int MEMORY_ENTRY_WORD_VALID_LSB = 8;
  localparam int MEMORY_ENTRY_WORD_VALID_WIDTH = 1;
  localparam int MEMORY_ENTRY_WORD_DIRECT_LSB = 9;
  localparam int MEMORY_ENTRY_WORD_DIRECT_WIDTH = 1;
  localparam int MEMORY_ENTRY_WORD_WINDOW_LSB = 10;
  localparam int MEMORY_ENTRY_WORD_WINDOW_WIDTH = 1;
  localparam int MEMORY_ENTRY_WORD_WINDOW_TYPE_2_LSB = 11;
  localparam int MEMORY_ENTRY_WORD_WINDOW_TYPE_2_WIDTH = 1;
  localparam int MEMORY_ENTRY_WORD_NULL_LSB = 12;
  localparam int MEMORY_ENTRY_WORD_NULL_WIDTH = 1;
  localparam int MEMORY_ENTRY_WORD_DEVICE_MEMORY_LSB = 13;
  localparam int MEMORY_ENTRY_WORD_DEVICE_MEMORY_WIDTH = 1;
  localparam int MEMORY_ENTRY_WORD_BOUND_LSB = 14;
  localparam int MEMORY_ENTRY_WORD_BOUND_WIDTH = 1;
  localparam int MEMORY_ENTRY_WORD_ON_DEMAND_LSB = 15;
  localparam int MEMORY_ENTRY_WORD_ON_DEMAND_WIDTH = 1;
  // First word of a memory protection table entry.
  typedef struct packed {
    logic [15:0] reserved_16;
    // 15: On demand: an access to a page that is not present is a page fault (contract 1.15).
    logic on_demand;
    // 14: The window is bound. Set by the device.
    logic bound;
    // 13: translation is the offset of the first byte in the device's memory (BAR4).
    logic device_memory;
    // 12: Reads give zeros, writes are dropped.
    logic null_;
    // 11: A window of type 2B: only the QP that bound it may be used to reach it.
    logic window_type_2;
    // 10: A memory window.
    logic window;
    // 9: No translation: translation is the IOVA of the first byte.
    logic direct;
    // 8: The entry is in use.
    logic valid;
    // 7:0: Base-2 logarithm of the page size: 12, 21 or 30.
    logic [7:0] log_page_size;
  } memory_entry_word_t;

  localparam int TRANSLATION_ENTRY_PRESENT_LSB = 0;
  localparam int TRANSLATION_ENTRY_PRESENT_WIDTH = 1;
  localparam int TRANSLATION_ENTRY_PAGE_NUMBER_LSB = 12;
  localparam int TRANSLATION_ENTRY_PAGE_NUMBER_WIDTH = 52;
  // Memory translation table entry: one page of a memory region.
  typedef struct packed {
    // 63:12: IOVA of the page, divided by 4096.
    logic [51:0] page_number;
    logic [10:0] reserved_1;
    // 0: The page may be used.
    logic present;
  } translation_entry_t;


  // ---- Structures in memory ----

  localparam int COMMAND_ENTRY_BYTES = 64;
  localparam int COMMAND_ENTRY_OPCODE_OFFSET = 0;
  localparam int COMMAND_ENTRY_RESERVED_02_OFFSET = 2;
  localparam int COMMAND_ENTRY_RESERVED_04_OFFSET = 4;
  localparam int COMMAND_ENTRY_ARGUMENT_OFFSET = 8;
  localparam int COMMAND_ENTRY_INPUT_IOVA_OFFSET = 16;
  localparam int COMMAND_ENTRY_OUTPUT_IOVA_OFFSET = 24;
  localparam int COMMAND_ENTRY_INPUT_LENGTH_OFFSET = 32;
  localparam int COMMAND_ENTRY_OUTPUT_LENGTH_OFFSET = 36;
  localparam int COMMAND_ENTRY_RESERVED_28_OFFSET = 40;
  localparam int COMMAND_ENTRY_RESULT_OFFSET = 48;
  localparam int COMMAND_ENTRY_COMPLETION_OFFSET = 56;
  // Command queue entry.
  typedef struct packed {
    // byte 0x38: Status and ownership; written last.
    command_completion_t completion;
    // byte 0x30: Written by the device: number or key of the new object.
    logic [63:0] result;
    // byte 0x28: Zero.
    logic [63:0] reserved_28;
    // byte 0x24: Bytes of the output mailbox: at least the size of its structure.
    logic [31:0] output_length;
    // byte 0x20: Bytes of the input: exactly the size of its structure.
    logic [31:0] input_length;
    // byte 0x18: Output mailbox, 64-byte aligned.
    logic [63:0] output_iova;
    // byte 0x10: Input mailbox, 64-byte aligned.
    logic [63:0] input_iova;
    // byte 0x8: Number of the object, NewNumber, or zero.
    logic [63:0] argument;
    // byte 0x4: Zero.
    logic [31:0] reserved_04;
    // byte 0x2: Zero.
    logic [15:0] reserved_02;
    // byte 0x0: What to do.
    logic [15:0] opcode;
  } command_entry_t;

  localparam int CONTEXT_TABLES_BYTES = 80;
  localparam int CONTEXT_TABLES_QPC_BASE_OFFSET = 0;
  localparam int CONTEXT_TABLES_CQC_BASE_OFFSET = 8;
  localparam int CONTEXT_TABLES_SRQC_BASE_OFFSET = 16;
  localparam int CONTEXT_TABLES_MPT_BASE_OFFSET = 24;
  localparam int CONTEXT_TABLES_MTT_BASE_OFFSET = 32;
  localparam int CONTEXT_TABLES_LOG_QPS_OFFSET = 40;
  localparam int CONTEXT_TABLES_LOG_CQS_OFFSET = 41;
  localparam int CONTEXT_TABLES_LOG_SRQS_OFFSET = 42;
  localparam int CONTEXT_TABLES_LOG_MRS_OFFSET = 43;
  localparam int CONTEXT_TABLES_LOG_MTTS_OFFSET = 44;
  localparam int CONTEXT_TABLES_RESERVED_2D_OFFSET = 45;
  localparam int CONTEXT_TABLES_PRIVATE_BASE_OFFSET = 48;
  localparam int CONTEXT_TABLES_RESERVED_38_OFFSET = 56;
  // Input of SET_CONTEXT_TABLES: where the context tables lie in host memory.
  typedef struct packed {
    // byte 0x38: Zero.
    logic [191:0] reserved_38;
    // byte 0x30: IOVA of the private area, 4096-byte aligned; zero: none.
    logic [63:0] private_base;
    // byte 0x2d: Zero.
    logic [23:0] reserved_2d;
    // byte 0x2c: The same of the memory translation table.
    logic [7:0] log_mtts;
    // byte 0x2b: The same of the memory protection table.
    logic [7:0] log_mrs;
    // byte 0x2a: The same of the SRQ context table.
    logic [7:0] log_srqs;
    // byte 0x29: The same of the CQ context table.
    logic [7:0] log_cqs;
    // byte 0x28: Base-2 logarithm of the entries of the QP context table.
    logic [7:0] log_qps;
    // byte 0x20: IOVA of the memory translation table.
    logic [63:0] mtt_base;
    // byte 0x18: IOVA of the memory protection table.
    logic [63:0] mpt_base;
    // byte 0x10: IOVA of the SRQ context table.
    logic [63:0] srqc_base;
    // byte 0x8: IOVA of the CQ context table.
    logic [63:0] cqc_base;
    // byte 0x0: IOVA of the QP context table.
    logic [63:0] qpc_base;
  } context_tables_t;

  localparam int MULTICAST_GROUP_BYTES = 16;
  localparam int MULTICAST_GROUP_GID_OFFSET = 0;
  // Input of ATTACH_MULTICAST and DETACH_MULTICAST.
  typedef struct packed {
    // byte 0x0: Multicast GID: an IPv6 multicast address, or an IPv4-mapped one.
    logic [127:0] gid;
  } multicast_group_t;

  localparam int DEVICE_CAPABILITIES_BYTES = 128;
  localparam int DEVICE_CAPABILITIES_FIRMWARE_VERSION_OFFSET = 0;
  localparam int DEVICE_CAPABILITIES_QPN_BASE_OFFSET = 16;
  localparam int DEVICE_CAPABILITIES_RESERVED_QPS_OFFSET = 20;
  localparam int DEVICE_CAPABILITIES_MAX_MESSAGE_LENGTH_OFFSET = 24;
  localparam int DEVICE_CAPABILITIES_MAX_MR_LENGTH_OFFSET = 32;
  localparam int DEVICE_CAPABILITIES_PAGE_SIZES_OFFSET = 40;
  localparam int DEVICE_CAPABILITIES_LOG_MAX_QPS_OFFSET = 48;
  localparam int DEVICE_CAPABILITIES_LOG_MAX_CQS_OFFSET = 49;
  localparam int DEVICE_CAPABILITIES_LOG_MAX_SRQS_OFFSET = 50;
  localparam int DEVICE_CAPABILITIES_LOG_MAX_MRS_OFFSET = 51;
  localparam int DEVICE_CAPABILITIES_LOG_MAX_MTTS_OFFSET = 52;
  localparam int DEVICE_CAPABILITIES_LOG_MAX_SEND_BLOCKS_OFFSET = 53;
  localparam int DEVICE_CAPABILITIES_LOG_MAX_RECEIVES_OFFSET = 54;
  localparam int DEVICE_CAPABILITIES_LOG_MAX_CQES_OFFSET = 55;
  localparam int DEVICE_CAPABILITIES_LOG_MAX_EQES_OFFSET = 56;
  localparam int DEVICE_CAPABILITIES_MAX_DATA_SEGMENTS_OFFSET = 57;
  localparam int DEVICE_CAPABILITIES_MAX_SEND_BLOCKS_OFFSET = 58;
  localparam int DEVICE_CAPABILITIES_PROCESSING_UNITS_OFFSET = 59;
  localparam int DEVICE_CAPABILITIES_MAX_INLINE_OFFSET = 60;
  localparam int DEVICE_CAPABILITIES_MAX_GIDS_OFFSET = 62;
  localparam int DEVICE_CAPABILITIES_MAX_RD_ATOMIC_OFFSET = 64;
  localparam int DEVICE_CAPABILITIES_MAX_DEST_RD_ATOMIC_OFFSET = 65;
  localparam int DEVICE_CAPABILITIES_LOCAL_ACK_DELAY_OFFSET = 66;
  localparam int DEVICE_CAPABILITIES_MAX_PATH_MTU_OFFSET = 67;
  localparam int DEVICE_CAPABILITIES_FEATURES_OFFSET = 68;
  localparam int DEVICE_CAPABILITIES_DEVICE_MEMORY_LENGTH_OFFSET = 72;
  localparam int DEVICE_CAPABILITIES_MAX_MULTICAST_GROUPS_OFFSET = 76;
  localparam int DEVICE_CAPABILITIES_MAX_MULTICAST_QPS_OFFSET = 80;
  localparam int DEVICE_CAPABILITIES_LOG_RESIDENT_QPS_OFFSET = 84;
  localparam int DEVICE_CAPABILITIES_LOG_PRIVATE_BYTES_OFFSET = 85;
  localparam int DEVICE_CAPABILITIES_RESERVED_56_OFFSET = 86;
  localparam int DEVICE_CAPABILITIES_RESERVED_58_OFFSET = 88;
  // Output of QUERY_DEVICE.
  typedef struct packed {
    // byte 0x58: Zero.
    logic [319:0] reserved_58;
    // byte 0x56: Zero.
    logic [15:0] reserved_56;
    // byte 0x55: Base-2 logarithm of the bytes of private area for each QP, 6 to 12; zero: none.
    logic [7:0] log_private_bytes;
    // byte 0x54: Base-2 logarithm of the QPs that need no private area.
    logic [7:0] log_resident_qps;
    // byte 0x50: QPs that may be attached to one multicast group.
    logic [31:0] max_multicast_qps;
    // byte 0x4c: Multicast groups to which QPs may be attached.
    logic [31:0] max_multicast_groups;
    // byte 0x48: Bytes of the device's own memory (BAR4).
    logic [31:0] device_memory_length;
    // byte 0x44: What is implemented.
    device_features_t features;
    // byte 0x43: PathMtuCode of the largest path MTU.
    logic [7:0] max_path_mtu;
    // byte 0x42: Local ACK delay as its 5-bit code (4.096 us x 2^n).
    logic [7:0] local_ack_delay;
    // byte 0x41: READs and atomics held as responder, for each QP.
    logic [7:0] max_dest_rd_atomic;
    // byte 0x40: READs and atomics outstanding as requester, for each QP.
    logic [7:0] max_rd_atomic;
    // byte 0x3e: Entries of the GID table.
    logic [15:0] max_gids;
    // byte 0x3c: Bytes of an inline payload.
    logic [15:0] max_inline;
    // byte 0x3b: Processing units; a QP is pinned to one.
    logic [7:0] processing_units;
    // byte 0x3a: Blocks of a send WQE.
    logic [7:0] max_send_blocks;
    // byte 0x39: Data segments of a WQE.
    logic [7:0] max_data_segments;
    // byte 0x38: The same of an event queue.
    logic [7:0] log_max_eqes;
    // byte 0x37: The same of a CQ.
    logic [7:0] log_max_cqes;
    // byte 0x36: The same of a receive queue, in entries.
    logic [7:0] log_max_receives;
    // byte 0x35: The same of a send queue, in 64-byte blocks.
    logic [7:0] log_max_send_blocks;
    // byte 0x34: The same of the memory translation table.
    logic [7:0] log_max_mtts;
    // byte 0x33: The same of the memory protection table.
    logic [7:0] log_max_mrs;
    // byte 0x32: The same of the SRQ context table.
    logic [7:0] log_max_srqs;
    // byte 0x31: The same of the CQ context table.
    logic [7:0] log_max_cqs;
    // byte 0x30: Base-2 logarithm of the largest QP context table.
    logic [7:0] log_max_qps;
    // byte 0x28: Page sizes of memory regions: the sum of them.
    logic [63:0] page_sizes;
    // byte 0x20: Bytes of the longest memory region.
    logic [63:0] max_mr_length;
    // byte 0x18: Bytes of the longest message.
    logic [63:0] max_message_length;
    // byte 0x14: Entries at the start of the table that CREATE_QP gives to no QP other than GSI.
    logic [31:0] reserved_qps;
    // byte 0x10: QPN of entry 0 of the QP context table.
    logic [31:0] qpn_base;
    // byte 0x0: Text, padded with zeros.
    logic [127:0] firmware_version;
  } device_capabilities_t;

  localparam int PUSH_BLOCK_BYTES = 64;
  localparam int PUSH_BLOCK_DOORBELL_OFFSET = 0;
  localparam int PUSH_BLOCK_WORDS_OFFSET = 8;
  // A block of a push: one write of 64 bytes.
  typedef struct packed {
    // byte 0x8: Seven words of the WQE. Block 0 has the first seven, block 1 the next; behind the
    // end of the WQE: zero.
    logic [447:0] words;
    // byte 0x0: Kind PUSH_n for a push of n blocks, QPN, and the producer index behind the WQE: the
    // same in all blocks of a push.
    doorbell_value_t doorbell;
  } push_block_t;

  localparam int CONTROL_SEGMENT_BYTES = 16;
  localparam int CONTROL_SEGMENT_CONTROL_OFFSET = 0;
  localparam int CONTROL_SEGMENT_INDEX_OFFSET = 4;
  localparam int CONTROL_SEGMENT_IMMEDIATE_OFFSET = 8;
  localparam int CONTROL_SEGMENT_REMOTE_SRQN_OFFSET = 12;
  // Head of every send WQE.
  typedef struct packed {
    // byte 0xc: XRC: number of the peer's shared receive queue; else zero.
    logic [31:0] remote_srqn;
    // byte 0x8: Immediate data as it goes on the wire, or the key to invalidate (little-endian):
    // the peer's, or our own for LOCAL_INVALIDATE.
    logic [31:0] immediate;
    // byte 0x4: Producer index of this WQE's first block, modulo 2^32; echoed in the CQE. A WQE
    // whose index does not match its place is stale: the QP fails.
    logic [31:0] index;
    // byte 0x0: Operation, size and flags.
    control_word_t control;
  } control_segment_t;

  localparam int REMOTE_ADDRESS_SEGMENT_BYTES = 16;
  localparam int REMOTE_ADDRESS_SEGMENT_VIRTUAL_ADDRESS_OFFSET = 0;
  localparam int REMOTE_ADDRESS_SEGMENT_R_KEY_OFFSET = 8;
  localparam int REMOTE_ADDRESS_SEGMENT_RESERVED_OFFSET = 12;
  // Remote memory of an RDMA or atomic operation.
  typedef struct packed {
    // byte 0xc: Zero.
    logic [31:0] reserved;
    // byte 0x8: Remote key.
    logic [31:0] r_key;
    // byte 0x0: Address in the remote memory region.
    logic [63:0] virtual_address;
  } remote_address_segment_t;

  localparam int ATOMIC_SEGMENT_BYTES = 16;
  localparam int ATOMIC_SEGMENT_SWAP_ADD_OFFSET = 0;
  localparam int ATOMIC_SEGMENT_COMPARE_OFFSET = 8;
  // Operands of an atomic operation.
  typedef struct packed {
    // byte 0x8: Value to compare with.
    logic [63:0] compare;
    // byte 0x0: Value to swap in, or to add.
    logic [63:0] swap_add;
  } atomic_segment_t;

  localparam int FLUSH_SEGMENT_BYTES = 16;
  localparam int FLUSH_SEGMENT_LENGTH_OFFSET = 0;
  localparam int FLUSH_SEGMENT_KIND_OFFSET = 4;
  localparam int FLUSH_SEGMENT_RESERVED_OFFSET = 8;
  // Range and kind of a FLUSH.
  typedef struct packed {
    // byte 0x8: Zero.
    logic [63:0] reserved;
    // byte 0x4: The FETH as it goes on the wire, as a number: bit 0 global, bit 1 persistent, bits
    // 5:4 zero for the range, one for the whole region.
    logic [31:0] kind;
    // byte 0x0: Bytes from the remote address on; ignored for a whole region.
    logic [31:0] length;
  } flush_segment_t;

  localparam int BIND_SEGMENT_BYTES = 32;
  localparam int BIND_SEGMENT_R_KEY_OFFSET = 0;
  localparam int BIND_SEGMENT_L_KEY_OFFSET = 4;
  localparam int BIND_SEGMENT_ADDRESS_OFFSET = 8;
  localparam int BIND_SEGMENT_LENGTH_OFFSET = 16;
  localparam int BIND_SEGMENT_ACCESS_OFFSET = 24;
  localparam int BIND_SEGMENT_RESERVED_OFFSET = 28;
  // What a memory window is bound to. Length zero: it is unbound.
  typedef struct packed {
    // byte 0x1c: Zero.
    logic [31:0] reserved;
    // byte 0x18: Remote rights; zero_based: peers name the first byte 0.
    access_rights_t access;
    // byte 0x10: Bytes.
    logic [63:0] length;
    // byte 0x8: First byte, as the region names it.
    logic [63:0] address;
    // byte 0x4: Local key of the memory region.
    logic [31:0] l_key;
    // byte 0x0: New remote key of the window: its index, with a new variant.
    logic [31:0] r_key;
  } bind_segment_t;

  localparam int SHARED_RECEIVE_SEGMENT_BYTES = 16;
  localparam int SHARED_RECEIVE_SEGMENT_TAG_OFFSET = 0;
  localparam int SHARED_RECEIVE_SEGMENT_RESERVED_4_OFFSET = 4;
  localparam int SHARED_RECEIVE_SEGMENT_RESERVED_8_OFFSET = 8;
  // Head of a WQE of a shared receive queue.
  typedef struct packed {
    // byte 0x8: Zero.
    logic [63:0] reserved_8;
    // byte 0x4: Zero.
    logic [31:0] reserved_4;
    // byte 0x0: Echoed in the completion as wqe_index; chosen by software.
    logic [31:0] tag;
  } shared_receive_segment_t;

  localparam int ADDRESS_PATH_BYTES = 56;
  localparam int ADDRESS_PATH_DEST_GID_OFFSET = 0;
  localparam int ADDRESS_PATH_DEST_MAC_OFFSET = 16;
  localparam int ADDRESS_PATH_VLAN_OFFSET = 22;
  localparam int ADDRESS_PATH_SOURCE_GID_INDEX_OFFSET = 24;
  localparam int ADDRESS_PATH_UDP_SOURCE_PORT_OFFSET = 26;
  localparam int ADDRESS_PATH_TRAFFIC_CLASS_OFFSET = 28;
  localparam int ADDRESS_PATH_HOP_LIMIT_OFFSET = 29;
  localparam int ADDRESS_PATH_SERVICE_LEVEL_OFFSET = 30;
  localparam int ADDRESS_PATH_RESERVED_OFFSET = 31;
  localparam int ADDRESS_PATH_FLOW_LABEL_OFFSET = 32;
  localparam int ADDRESS_PATH_STATIC_RATE_OFFSET = 36;
  localparam int ADDRESS_PATH_RESERVED_28_OFFSET = 40;
  // Path to a destination: everything that Ethernet, IP and UDP headers need.
  typedef struct packed {
    // byte 0x28: Zero.
    logic [127:0] reserved_28;
    // byte 0x24: Rate limit as an ibv_rate number; zero: none.
    logic [31:0] static_rate;
    // byte 0x20: IPv6 flow label, 20 bits.
    logic [31:0] flow_label;
    // byte 0x1f: Zero.
    logic [7:0] reserved;
    // byte 0x1e: Service level, 0 to 15: the Ethernet priority.
    logic [7:0] service_level;
    // byte 0x1d: IPv6 hop limit, IPv4 time to live.
    logic [7:0] hop_limit;
    // byte 0x1c: IPv6 traffic class, IPv4 type of service.
    logic [7:0] traffic_class;
    // byte 0x1a: UDP source port.
    logic [15:0] udp_source_port;
    // byte 0x18: Index in the function's GID table.
    logic [15:0] source_gid_index;
    // byte 0x16: VLAN tag control information; 0xffff: no tag.
    logic [15:0] vlan;
    // byte 0x10: MAC address of the next hop.
    logic [47:0] dest_mac;
    // byte 0x0: Destination GID: an IPv6 or IPv4-mapped address.
    logic [127:0] dest_gid;
  } address_path_t;

  localparam int DATAGRAM_SEGMENT_BYTES = 64;
  localparam int DATAGRAM_SEGMENT_Q_KEY_OFFSET = 0;
  localparam int DATAGRAM_SEGMENT_DEST_QPN_OFFSET = 4;
  localparam int DATAGRAM_SEGMENT_PATH_OFFSET = 8;
  // Destination of a datagram.
  typedef struct packed {
    // byte 0x8: Path to the destination.
    address_path_t path;
    // byte 0x4: Destination QPN, 24 bits.
    logic [31:0] dest_qpn;
    // byte 0x0: Q_Key of the destination; with bit 31 set: the QP's own is sent.
    logic [31:0] q_key;
  } datagram_segment_t;

  localparam int DATA_SEGMENT_BYTES = 16;
  localparam int DATA_SEGMENT_ADDRESS_OFFSET = 0;
  localparam int DATA_SEGMENT_LENGTH_OFFSET = 8;
  localparam int DATA_SEGMENT_L_KEY_OFFSET = 12;
  // A piece of local memory.
  typedef struct packed {
    // byte 0xc: Local key.
    logic [31:0] l_key;
    // byte 0x8: Bytes; zero is an empty piece.
    logic [31:0] length;
    // byte 0x0: Virtual address in the local memory region.
    logic [63:0] address;
  } data_segment_t;

  localparam int INLINE_HEADER_BYTES = 4;
  localparam int INLINE_HEADER_LENGTH_OFFSET = 0;
  // Head of an inline payload; the bytes follow immediately.
  typedef struct packed {
    // byte 0x0: Bytes of the payload, 0 to 512.
    logic [31:0] length;
  } inline_header_t;

  localparam int CQE_BYTES = 32;
  localparam int CQE_QPN_OFFSET = 0;
  localparam int CQE_WQE_INDEX_OFFSET = 4;
  localparam int CQE_BYTE_COUNT_OFFSET = 8;
  localparam int CQE_IMMEDIATE_OFFSET = 12;
  localparam int CQE_TIMESTAMP_OFFSET = 16;
  localparam int CQE_SOURCE_QPN_OFFSET = 24;
  localparam int CQE_WORD_OFFSET = 28;
  // Completion queue entry.
  typedef struct packed {
    // byte 0x1c: What, how, and who owns the entry.
    cqe_word_t word;
    // byte 0x18: UD: QPN of the sender, 24 bits. XRC target QP: number of the shared receive queue.
    logic [31:0] source_qpn;
    // byte 0x10: Device clock when the CQE was made, in nanoseconds.
    logic [63:0] timestamp;
    // byte 0xc: Immediate data as it came on the wire, or the invalidated key.
    logic [31:0] immediate;
    // byte 0x8: Bytes received; READ and atomics: bytes read.
    logic [31:0] byte_count;
    // byte 0x4: Send: producer index of the WQE's first block. Receive: index of the entry in the
    // receive queue. Free-running, modulo 2^32. A send CQE also frees all earlier unsignaled WQEs.
    logic [31:0] wqe_index;
    // byte 0x0: QPN whose WQE has completed, 24 bits.
    logic [31:0] qpn;
  } cqe_t;

  localparam int EQE_BYTES = 16;
  localparam int EQE_NUMBER_OFFSET = 0;
  localparam int EQE_SEQUENCE_OFFSET = 4;
  localparam int EQE_PAGE_OFFSET = 8;
  localparam int EQE_WORD_OFFSET = 12;
  // Event queue entry.
  typedef struct packed {
    // byte 0xc: What, and who owns the entry.
    eqe_word_t word;
    // byte 0x8: PAGE_FAULT: index of the page in the region. Otherwise zero.
    logic [31:0] page;
    // byte 0x4: Index of this event, modulo 2^32.
    logic [31:0] sequence_;
    // byte 0x0: CQN, QPN, SRQN, key or index.
    logic [31:0] number;
  } eqe_t;

  localparam int QP_CONTEXT_BYTES = 256;
  localparam int QP_CONTEXT_STATE_OFFSET = 0;
  localparam int QP_CONTEXT_SERVICE_OFFSET = 1;
  localparam int QP_CONTEXT_PATH_MTU_OFFSET = 2;
  localparam int QP_CONTEXT_PORT_OFFSET = 3;
  localparam int QP_CONTEXT_PD_OFFSET = 4;
  localparam int QP_CONTEXT_SEND_CQN_OFFSET = 8;
  localparam int QP_CONTEXT_RECEIVE_CQN_OFFSET = 12;
  localparam int QP_CONTEXT_SEND_BASE_OFFSET = 16;
  localparam int QP_CONTEXT_RECEIVE_BASE_OFFSET = 24;
  localparam int QP_CONTEXT_SHAPE_OFFSET = 32;
  localparam int QP_CONTEXT_SRQN_OFFSET = 36;
  localparam int QP_CONTEXT_SEND_DOORBELL_SLOT_OFFSET = 40;
  localparam int QP_CONTEXT_RECEIVE_DOORBELL_SLOT_OFFSET = 44;
  localparam int QP_CONTEXT_ACCESS_OFFSET = 48;
  localparam int QP_CONTEXT_P_KEY_INDEX_OFFSET = 52;
  localparam int QP_CONTEXT_Q_KEY_OFFSET = 56;
  localparam int QP_CONTEXT_DEST_QPN_OFFSET = 60;
  localparam int QP_CONTEXT_SEND_PSN_OFFSET = 64;
  localparam int QP_CONTEXT_RECEIVE_PSN_OFFSET = 68;
  localparam int QP_CONTEXT_RETRY_OFFSET = 72;
  localparam int QP_CONTEXT_MAX_RD_ATOMIC_OFFSET = 76;
  localparam int QP_CONTEXT_MAX_DEST_RD_ATOMIC_OFFSET = 77;
  localparam int QP_CONTEXT_PROCESSING_UNIT_OFFSET = 78;
  localparam int QP_CONTEXT_DRAINING_OFFSET = 79;
  localparam int QP_CONTEXT_PATH_OFFSET = 80;
  localparam int QP_CONTEXT_SEND_PRODUCER_OFFSET = 136;
  localparam int QP_CONTEXT_SEND_FETCHED_OFFSET = 140;
  localparam int QP_CONTEXT_RECEIVE_PRODUCER_OFFSET = 144;
  localparam int QP_CONTEXT_RECEIVE_CONSUMER_OFFSET = 148;
  localparam int QP_CONTEXT_UNACKNOWLEDGED_PSN_OFFSET = 152;
  localparam int QP_CONTEXT_MESSAGE_SEQUENCE_OFFSET = 156;
  localparam int QP_CONTEXT_XRCD_OFFSET = 160;
  localparam int QP_CONTEXT_RESERVED_A4_OFFSET = 164;
  localparam int QP_CONTEXT_RESERVED_A8_OFFSET = 168;
  // QP context.
  typedef struct packed {
    // byte 0xa8: Zero.
    logic [703:0] reserved_a8;
    // byte 0xa4: Zero.
    logic [31:0] reserved_a4;
    // byte 0xa0: XRC domain (XRC target); chosen by software.
    logic [31:0] xrcd;
    // byte 0x9c: MSN: messages completed as responder, modulo 2^24.
    logic [31:0] message_sequence;
    // byte 0x98: Oldest PSN not acknowledged.
    logic [31:0] unacknowledged_psn;
    // byte 0x94: Index of the next receive WQE to use.
    logic [31:0] receive_consumer;
    // byte 0x90: Producer index of the receive queue, as last rung.
    logic [31:0] receive_producer;
    // byte 0x8c: Index of the next send WQE to fetch.
    logic [31:0] send_fetched;
    // byte 0x88: Producer index of the send queue, as last rung.
    logic [31:0] send_producer;
    // byte 0x50: Path to the peer (RC, UC).
    address_path_t path;
    // byte 0x4f: One while SQD is still draining; set by the device.
    logic [7:0] draining;
    // byte 0x4e: Processing unit that runs this QP; set by the device.
    logic [7:0] processing_unit;
    // byte 0x4d: READs and atomics held as responder.
    logic [7:0] max_dest_rd_atomic;
    // byte 0x4c: READs and atomics outstanding as requester.
    logic [7:0] max_rd_atomic;
    // byte 0x48: Retry attributes.
    retry_attributes_t retry;
    // byte 0x44: PSN expected next; in INIT to RTR the first one.
    logic [31:0] receive_psn;
    // byte 0x40: PSN of the next request; in RTR to RTS the first one.
    logic [31:0] send_psn;
    // byte 0x3c: Destination QPN (RC, UC).
    logic [31:0] dest_qpn;
    // byte 0x38: Q_Key (UD, GSI).
    logic [31:0] q_key;
    // byte 0x34: Index of the P_Key.
    logic [31:0] p_key_index;
    // byte 0x30: What remote requests are accepted.
    access_rights_t access;
    // byte 0x2c: BAR2 slot of the receive queue.
    logic [31:0] receive_doorbell_slot;
    // byte 0x28: BAR2 slot of the send queue.
    logic [31:0] send_doorbell_slot;
    // byte 0x24: Shared receive queue, when used.
    logic [31:0] srqn;
    // byte 0x20: Sizes of the rings.
    qp_shape_t shape;
    // byte 0x18: IOVA of the receive queue's ring, 64-byte aligned.
    logic [63:0] receive_base;
    // byte 0x10: IOVA of the send queue's ring, 64-byte aligned.
    logic [63:0] send_base;
    // byte 0xc: CQ of the receive queue.
    logic [31:0] receive_cqn;
    // byte 0x8: CQ of the send queue.
    logic [31:0] send_cqn;
    // byte 0x4: Protection domain, 24 bits; chosen by software.
    logic [31:0] pd;
    // byte 0x3: Port number, from 1.
    logic [7:0] port;
    // byte 0x2: Path MTU.
    logic [7:0] path_mtu;
    // byte 0x1: Transport service.
    logic [7:0] service;
    // byte 0x0: State.
    logic [7:0] state;
  } qp_context_t;

  localparam int MODIFY_QP_BYTES = 320;
  localparam int MODIFY_QP_STATE_OFFSET = 0;
  localparam int MODIFY_QP_CURRENT_STATE_OFFSET = 4;
  localparam int MODIFY_QP_MASK_OFFSET = 8;
  localparam int MODIFY_QP_RESERVED_0C_OFFSET = 12;
  localparam int MODIFY_QP_RESERVED_10_OFFSET = 16;
  localparam int MODIFY_QP_CONTEXT_OFFSET = 64;
  // Input of MODIFY_QP.
  typedef struct packed {
    // byte 0x40: The attributes.
    qp_context_t context_;
    // byte 0x10: Zero.
    logic [383:0] reserved_10;
    // byte 0xc: Zero.
    logic [31:0] reserved_0c;
    // byte 0x8: Attributes to take from the context.
    qp_attribute_mask_t mask;
    // byte 0x4: QpStateCode that the QP must be in; 0xff: any.
    logic [31:0] current_state;
    // byte 0x0: QpStateCode to go to; the present one to change attributes only.
    logic [31:0] state;
  } modify_qp_t;

  localparam int SHORT_MODIFY_QP_BYTES = 272;
  localparam int SHORT_MODIFY_QP_STATE_OFFSET = 0;
  localparam int SHORT_MODIFY_QP_CURRENT_STATE_OFFSET = 4;
  localparam int SHORT_MODIFY_QP_MASK_OFFSET = 8;
  localparam int SHORT_MODIFY_QP_RESERVED_OFFSET = 12;
  localparam int SHORT_MODIFY_QP_CONTEXT_OFFSET = 16;
  // Input of MODIFY_QP up to contract 1.5.
  typedef struct packed {
    // byte 0x10: The attributes.
    qp_context_t context_;
    // byte 0xc: Zero.
    logic [31:0] reserved;
    // byte 0x8: Attributes to take from the context.
    qp_attribute_mask_t mask;
    // byte 0x4: QpStateCode that the QP must be in; 0xff: any.
    logic [31:0] current_state;
    // byte 0x0: QpStateCode to go to; the present one to change attributes only.
    logic [31:0] state;
  } short_modify_qp_t;

  localparam int CQ_CONTEXT_BYTES = 64;
  localparam int CQ_CONTEXT_BASE_OFFSET = 0;
  localparam int CQ_CONTEXT_CONSUMER_RECORD_OFFSET = 8;
  localparam int CQ_CONTEXT_LOG_SIZE_OFFSET = 16;
  localparam int CQ_CONTEXT_STATE_OFFSET = 17;
  localparam int CQ_CONTEXT_ARMED_OFFSET = 18;
  localparam int CQ_CONTEXT_RESERVED_13_OFFSET = 19;
  localparam int CQ_CONTEXT_EQN_OFFSET = 20;
  localparam int CQ_CONTEXT_DOORBELL_SLOT_OFFSET = 24;
  localparam int CQ_CONTEXT_PRODUCER_OFFSET = 28;
  localparam int CQ_CONTEXT_MODERATION_COUNT_OFFSET = 32;
  localparam int CQ_CONTEXT_MODERATION_US_OFFSET = 34;
  localparam int CQ_CONTEXT_USERS_OFFSET = 36;
  localparam int CQ_CONTEXT_SOLICITED_PRODUCER_OFFSET = 40;
  localparam int CQ_CONTEXT_CONSUMER_OFFSET = 44;
  localparam int CQ_CONTEXT_NOTIFIED_PRODUCER_OFFSET = 48;
  localparam int CQ_CONTEXT_RESERVED_34_OFFSET = 52;
  localparam int CQ_CONTEXT_RESERVED_38_OFFSET = 56;
  // CQ context.
  typedef struct packed {
    // byte 0x38: Zero.
    logic [63:0] reserved_38;
    // byte 0x34: Zero.
    logic [31:0] reserved_34;
    // byte 0x30: Producer index when the last event was raised: CQEs before it raise no other. Set
    // by the device.
    logic [31:0] notified_producer;
    // byte 0x2c: Consumer index that the device has seen last. Set by the device.
    logic [31:0] consumer;
    // byte 0x28: Producer index behind the newest solicited or failed CQE. Set by the device.
    logic [31:0] solicited_producer;
    // byte 0x24: QPs and SRQs that use this CQ. Set by the device.
    logic [31:0] users;
    // byte 0x22: Microseconds that an event may wait for more CQEs.
    logic [15:0] moderation_us;
    // byte 0x20: CQEs that one event may stand for; zero: no moderation.
    logic [15:0] moderation_count;
    // byte 0x1c: CQEs written, modulo 2^32. Set by the device.
    logic [31:0] producer;
    // byte 0x18: BAR2 slot for arming.
    logic [31:0] doorbell_slot;
    // byte 0x14: Event queue that is notified.
    logic [31:0] eqn;
    // byte 0x13: Zero.
    logic [7:0] reserved_13;
    // byte 0x12: Zero: not; one: for any CQE; two: for a solicited one. Set by the device.
    logic [7:0] armed;
    // byte 0x11: Zero: works. One: overrun or DMA error. Set by the device.
    logic [7:0] state;
    // byte 0x10: Base-2 logarithm of the entries.
    logic [7:0] log_size;
    // byte 0x8: IOVA of the consumer record: a 32-bit consumer index, free-running, that software
    // writes after it has taken CQEs. The device reads it when the ring looks full.
    logic [63:0] consumer_record;
    // byte 0x0: IOVA of the ring, 64-byte aligned.
    logic [63:0] base;
  } cq_context_t;

  localparam int SRQ_CONTEXT_BYTES = 64;
  localparam int SRQ_CONTEXT_BASE_OFFSET = 0;
  localparam int SRQ_CONTEXT_LOG_SIZE_OFFSET = 8;
  localparam int SRQ_CONTEXT_LOG_STRIDE_OFFSET = 9;
  localparam int SRQ_CONTEXT_LIMIT_OFFSET = 10;
  localparam int SRQ_CONTEXT_PD_OFFSET = 12;
  localparam int SRQ_CONTEXT_DOORBELL_SLOT_OFFSET = 16;
  localparam int SRQ_CONTEXT_PRODUCER_OFFSET = 20;
  localparam int SRQ_CONTEXT_CONSUMER_OFFSET = 24;
  localparam int SRQ_CONTEXT_USERS_OFFSET = 28;
  localparam int SRQ_CONTEXT_XRCD_OFFSET = 32;
  localparam int SRQ_CONTEXT_CQN_OFFSET = 36;
  localparam int SRQ_CONTEXT_RESERVED_28_OFFSET = 40;
  // Shared receive queue context. Number 0 is never used.
  typedef struct packed {
    // byte 0x28: Zero.
    logic [191:0] reserved_28;
    // byte 0x24: XRC: the CQ of its completions.
    logic [31:0] cqn;
    // byte 0x20: XRC domain whose target QPs may use it; zero: no XRC.
    logic [31:0] xrcd;
    // byte 0x1c: QPs that use it.
    logic [31:0] users;
    // byte 0x18: Index of the next entry to use.
    logic [31:0] consumer;
    // byte 0x14: Producer index, as last rung.
    logic [31:0] producer;
    // byte 0x10: BAR2 slot.
    logic [31:0] doorbell_slot;
    // byte 0xc: Protection domain: of the buffers, and of XRC requests that name this queue.
    logic [31:0] pd;
    // byte 0xa: SRQ_LIMIT is raised once when fewer entries are left; zero: off.
    logic [15:0] limit;
    // byte 0x9: Base-2 logarithm of the bytes of one entry, 5 to 9.
    logic [7:0] log_stride;
    // byte 0x8: Base-2 logarithm of the entries.
    logic [7:0] log_size;
    // byte 0x0: IOVA of the ring, 64-byte aligned.
    logic [63:0] base;
  } srq_context_t;

  localparam int EQ_CONTEXT_BYTES = 32;
  localparam int EQ_CONTEXT_BASE_OFFSET = 0;
  localparam int EQ_CONTEXT_LOG_SIZE_OFFSET = 8;
  localparam int EQ_CONTEXT_ARMED_OFFSET = 9;
  localparam int EQ_CONTEXT_VECTOR_OFFSET = 10;
  localparam int EQ_CONTEXT_PRODUCER_OFFSET = 12;
  localparam int EQ_CONTEXT_CONSUMER_OFFSET = 16;
  localparam int EQ_CONTEXT_MODERATION_US_OFFSET = 20;
  localparam int EQ_CONTEXT_RESERVED_18_OFFSET = 24;
  // Event queue context.
  typedef struct packed {
    // byte 0x18: Zero.
    logic [63:0] reserved_18;
    // byte 0x14: Least microseconds between two interrupts.
    logic [31:0] moderation_us;
    // byte 0x10: Consumer index, as last rung.
    logic [31:0] consumer;
    // byte 0xc: Events written, modulo 2^32. Set by the device.
    logic [31:0] producer;
    // byte 0xa: MSI-X vector.
    logic [15:0] vector_;
    // byte 0x9: One: the next event interrupts. Set by the device.
    logic [7:0] armed;
    // byte 0x8: Base-2 logarithm of the entries.
    logic [7:0] log_size;
    // byte 0x0: IOVA of the ring, 64-byte aligned.
    logic [63:0] base;
  } eq_context_t;

  localparam int ADDRESS_ENTRY_BYTES = 32;
  localparam int ADDRESS_ENTRY_GID_OFFSET = 0;
  localparam int ADDRESS_ENTRY_MAC_OFFSET = 16;
  localparam int ADDRESS_ENTRY_VLAN_OFFSET = 22;
  localparam int ADDRESS_ENTRY_RESERVED_18_OFFSET = 24;
  // Entry of the GID table.
  typedef struct packed {
    // byte 0x18: Zero.
    logic [63:0] reserved_18;
    // byte 0x16: VLAN ID; 0xffff: none.
    logic [15:0] vlan;
    // byte 0x10: Source MAC address.
    logic [47:0] mac;
    // byte 0x0: GID: an IPv6 or IPv4-mapped address. All zero: no entry.
    logic [127:0] gid;
  } address_entry_t;

  localparam int MEMORY_ENTRY_BYTES = 64;
  localparam int MEMORY_ENTRY_WORD_OFFSET = 0;
  localparam int MEMORY_ENTRY_KEY_OFFSET = 4;
  localparam int MEMORY_ENTRY_PD_OFFSET = 8;
  localparam int MEMORY_ENTRY_ACCESS_OFFSET = 12;
  localparam int MEMORY_ENTRY_START_OFFSET = 16;
  localparam int MEMORY_ENTRY_LENGTH_OFFSET = 24;
  localparam int MEMORY_ENTRY_TRANSLATION_OFFSET = 32;
  localparam int MEMORY_ENTRY_FIRST_PAGE_OFFSET_OFFSET = 40;
  localparam int MEMORY_ENTRY_REGION_KEY_OFFSET = 48;
  localparam int MEMORY_ENTRY_QPN_OFFSET = 52;
  localparam int MEMORY_ENTRY_WINDOWS_OFFSET = 56;
  localparam int MEMORY_ENTRY_RESERVED_3C_OFFSET = 60;
  // Memory protection table entry: a memory region or a window.
  typedef struct packed {
    // byte 0x3c: Zero.
    logic [31:0] reserved_3c;
    // byte 0x38: Region: windows bound to it. Set by the device.
    logic [31:0] windows;
    // byte 0x34: Window of type 2: the QP that bound it. Set by the device.
    logic [31:0] qpn;
    // byte 0x30: Window: key of the region it is bound to. Set by the device.
    logic [31:0] region_key;
    // byte 0x28: Offset of start inside the first page.
    logic [63:0] first_page_offset;
    // byte 0x20: Index of the region's first MTT entry, or an IOVA when direct.
    logic [63:0] translation;
    // byte 0x18: Bytes.
    logic [63:0] length;
    // byte 0x10: First virtual address of the region, as WQEs and peers name it.
    logic [63:0] start;
    // byte 0xc: Rights.
    access_rights_t access;
    // byte 0x8: Protection domain.
    logic [31:0] pd;
    // byte 0x4: Key: table index in bits 31:8, variant in bits 7:0. CREATE_MR: the variant is taken
    // from here, the index is chosen by the device.
    logic [31:0] key;
    // byte 0x0: Kind and page size.
    memory_entry_word_t word;
  } memory_entry_t;


  // ---- Mailboxes of commands, in bytes ----

  localparam int INPUT_BYTES_NOP = 0;
  localparam int OUTPUT_BYTES_NOP = 0;
  localparam int INPUT_BYTES_QUERY_DEVICE = 0;
  localparam int OUTPUT_BYTES_QUERY_DEVICE = 128;
  localparam int INPUT_BYTES_SET_CONTEXT_TABLES = 80;
  localparam int OUTPUT_BYTES_SET_CONTEXT_TABLES = 0;
  localparam int INPUT_BYTES_SET_ADDRESS = 32;
  localparam int OUTPUT_BYTES_SET_ADDRESS = 0;
  localparam int INPUT_BYTES_QUERY_ADDRESS = 0;
  localparam int OUTPUT_BYTES_QUERY_ADDRESS = 32;
  localparam int INPUT_BYTES_CREATE_EQ = 32;
  localparam int OUTPUT_BYTES_CREATE_EQ = 0;
  localparam int INPUT_BYTES_QUERY_EQ = 0;
  localparam int OUTPUT_BYTES_QUERY_EQ = 32;
  localparam int INPUT_BYTES_DESTROY_EQ = 0;
  localparam int OUTPUT_BYTES_DESTROY_EQ = 0;
  localparam int INPUT_BYTES_MODIFY_EQ = 32;
  localparam int OUTPUT_BYTES_MODIFY_EQ = 0;
  localparam int INPUT_BYTES_CREATE_CQ = 64;
  localparam int OUTPUT_BYTES_CREATE_CQ = 0;
  localparam int INPUT_BYTES_QUERY_CQ = 0;
  localparam int OUTPUT_BYTES_QUERY_CQ = 64;
  localparam int INPUT_BYTES_DESTROY_CQ = 0;
  localparam int OUTPUT_BYTES_DESTROY_CQ = 0;
  localparam int INPUT_BYTES_MODIFY_CQ = 64;
  localparam int OUTPUT_BYTES_MODIFY_CQ = 0;
  localparam int INPUT_BYTES_CREATE_QP = 256;
  localparam int OUTPUT_BYTES_CREATE_QP = 0;
  localparam int INPUT_BYTES_QUERY_QP = 0;
  localparam int OUTPUT_BYTES_QUERY_QP = 256;
  localparam int INPUT_BYTES_DESTROY_QP = 0;
  localparam int OUTPUT_BYTES_DESTROY_QP = 0;
  localparam int INPUT_BYTES_MODIFY_QP = 320;
  localparam int OUTPUT_BYTES_MODIFY_QP = 0;
  localparam int INPUT_BYTES_ATTACH_MULTICAST = 16;
  localparam int OUTPUT_BYTES_ATTACH_MULTICAST = 0;
  localparam int INPUT_BYTES_DETACH_MULTICAST = 16;
  localparam int OUTPUT_BYTES_DETACH_MULTICAST = 0;
  localparam int INPUT_BYTES_CREATE_SRQ = 64;
  localparam int OUTPUT_BYTES_CREATE_SRQ = 0;
  localparam int INPUT_BYTES_QUERY_SRQ = 0;
  localparam int OUTPUT_BYTES_QUERY_SRQ = 64;
  localparam int INPUT_BYTES_DESTROY_SRQ = 0;
  localparam int OUTPUT_BYTES_DESTROY_SRQ = 0;
  localparam int INPUT_BYTES_MODIFY_SRQ = 64;
  localparam int OUTPUT_BYTES_MODIFY_SRQ = 0;
  localparam int INPUT_BYTES_CREATE_MR = 64;
  localparam int OUTPUT_BYTES_CREATE_MR = 0;
  localparam int INPUT_BYTES_QUERY_MR = 0;
  localparam int OUTPUT_BYTES_QUERY_MR = 64;
  localparam int INPUT_BYTES_DESTROY_MR = 0;
  localparam int OUTPUT_BYTES_DESTROY_MR = 0;
  localparam int INPUT_BYTES_MODIFY_MR = 64;
  localparam int OUTPUT_BYTES_MODIFY_MR = 0;
  localparam int INPUT_BYTES_SYNC_MR = 0;
  localparam int OUTPUT_BYTES_SYNC_MR = 0;

endpackage
// verilator lint_on UNUSEDPARAM

`default_nettype wire

// The contract between the Ferroce function and its software, version 1.15. Printed from the
// declarations in hw-model/spec by ferroce spec; changes here are lost.

#ifndef FERROCE_H
#define FERROCE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the layouts of the contract are little-endian"
#endif

#ifdef __cplusplus
#define FERROCE_ASSERT(condition) static_assert(condition, #condition)
#else
#define FERROCE_ASSERT(condition) _Static_assert(condition, #condition)
#endif

// Returns a field of a word, as in FERROCE_GET(word, FERROCE_CQE_WORD_STATUS).
#define FERROCE_GET(word, field) (((word) & field##_MASK) >> field##_SHIFT)
// Returns a word with nothing but a field, as in FERROCE_PUT(5, FERROCE_CQE_WORD_STATUS).
#define FERROCE_PUT(value, field) \
    (((field##_MASK >> field##_SHIFT) & (value)) << field##_SHIFT)

// ---- Constants ----

// Size of BAR0 in bytes.
#define FERROCE_BAR0_SIZE 0x4000u
// First byte of the counters: one 64-bit register each, in the order of crate::counter.
#define FERROCE_COUNTERS_OFFSET 0x1000u
// First byte of the MSI-X table (PCIe base specification, 7.7.2): 16 bytes for each vector.
#define FERROCE_MSIX_TABLE_OFFSET 0x2000u
// First byte of the MSI-X pending bit array.
#define FERROCE_MSIX_PENDING_OFFSET 0x3000u
// Interrupt vectors, and event queues that can exist: one event queue for each vector.
#define FERROCE_VECTOR_COUNT 0x10u
// Bytes of one MSI-X table entry: message address (8), message data (4), vector control (4).
#define FERROCE_MSIX_ENTRY_SIZE 0x10u
// Bit 0 of an MSI-X entry's vector control word: the vector is masked.
#define FERROCE_MSIX_VECTOR_MASKED 0x1u
// What Bar0::magic reads: "FROC" in memory order.
#define FERROCE_MAGIC 0x434f5246u
// PCI vendor ID.
#define FERROCE_VENDOR_ID 0x1172u
// PCI device ID.
#define FERROCE_DEVICE_ID 0xf10au
// Version of this contract, major part: a driver refuses a card with another one.
#define FERROCE_CONTRACT_MAJOR 0x1u
// Version of this contract, minor part: grows when something is added compatibly.
#define FERROCE_CONTRACT_MINOR 0xfu
// Bytes of BAR4, the device's own memory: for memory regions near the port, and for software to
// read and write.
#define FERROCE_BAR4_SIZE 0x40000u
// What a read of an address without a register returns.
#define FERROCE_UNMAPPED_READ 0xffffffffu
// Largest value of offset::command_queue_log_size.
#define FERROCE_COMMAND_QUEUE_LOG_SIZE_MAX 0x8u
// Bytes of one doorbell page.
#define FERROCE_DOORBELL_PAGE_SIZE 0x1000u
// Base-2 logarithm of the number of doorbell pages.
#define FERROCE_DOORBELL_LOG_PAGES 0x9u
// Doorbell pages in BAR2.
#define FERROCE_DOORBELL_PAGES 0x200u
// Bytes of all doorbell pages.
#define FERROCE_DOORBELL_PAGES_SIZE 0x200000u
// Size of BAR2 in bytes: the doorbell pages, and as many push pages.
#define FERROCE_DOORBELL_BAR2_SIZE 0x400000u
// Bytes of one slot.
#define FERROCE_DOORBELL_SLOT_SIZE 0x8u
// Slots in one page.
#define FERROCE_DOORBELL_SLOTS_PER_PAGE 0x200u
// Slots at the start of each page that no queue may use: one cache line.
#define FERROCE_DOORBELL_RESERVED_SLOTS 0x8u
// Slot of each page that counts the doorbells of the page.
#define FERROCE_DOORBELL_PAGE_SUMMARY_SLOT 0x0u
// Slot of the first page that counts the doorbells of the function.
#define FERROCE_DOORBELL_FUNCTION_SUMMARY_SLOT 0x1u
// Slot of the first page that is not zero while the device sleeps.
#define FERROCE_DOORBELL_SLEEPING_SLOT 0x2u
// Slots in all doorbell pages.
#define FERROCE_DOORBELL_SLOTS 0x40000u
// Offset of the first push page in BAR2, in bytes.
#define FERROCE_PUSH_OFFSET 0x200000u
// Blocks of the longest push: a WQE of MAX_WQE_BLOCKS.
#define FERROCE_PUSH_MAX_BLOCKS 0x5u
// Basic blocks of the longest WQE that is pushed: as much as BlueFlame of ConnectX carries.
#define FERROCE_PUSH_MAX_WQE_BLOCKS 0x4u
// Words of 64 bits in one block, with the doorbell value.
#define FERROCE_PUSH_WORDS_PER_BLOCK 0x8u
// Words of a WQE that one block carries.
#define FERROCE_PUSH_WQE_WORDS_PER_BLOCK 0x7u
// Blocks of one half of a window. A longer push goes on in the other half.
#define FERROCE_PUSH_HALF_BLOCKS 0x4u
// Bytes of one half of a window.
#define FERROCE_PUSH_HALF_SIZE 0x100u
// Bytes of a window: two halves.
#define FERROCE_PUSH_WINDOW_SIZE 0x200u
// Windows in one push page.
#define FERROCE_PUSH_WINDOWS_PER_PAGE 0x8u
// Alignment of a mailbox, in bytes.
#define FERROCE_COMMAND_MAILBOX_ALIGNMENT 0x40ull
// Alignment of the private area, in bytes.
#define FERROCE_COMMAND_PRIVATE_ALIGNMENT 0x1000ull
// Base-2 logarithm of the largest private area of one queue pair, in bytes.
#define FERROCE_COMMAND_LOG_PRIVATE_BYTES_MAX 0xcu
// ModifyQp.current_state: any state will do.
#define FERROCE_COMMAND_ANY_STATE 0xffu
// Base-2 logarithm of the largest mailbox in bytes.
#define FERROCE_COMMAND_LOG_MAX_MAILBOX 0xcu
// Bytes of a basic block.
#define FERROCE_WQE_BLOCK_SIZE 0x40u
// Blocks of the largest send WQE.
#define FERROCE_WQE_MAX_BLOCKS 0xau
// Data segments that a send or receive WQE may have.
#define FERROCE_WQE_MAX_DATA_SEGMENTS 0x10u
// Bytes of the longest inline payload.
#define FERROCE_WQE_MAX_INLINE 0x200u
// Local key that ends the list of data segments of a receive WQE.
#define FERROCE_WQE_L_KEY_END 0xffffffffu
// Bytes of the longest message: 2 GiB (IBTA vol 1, 9.4.1).
#define FERROCE_WQE_MAX_MESSAGE_LENGTH 0x80000000ull
// VLAN field of an untagged path.
#define FERROCE_WQE_VLAN_NONE 0xffffu
// Base-2 logarithm of the largest stride of a shared receive queue's entries, in bytes.
#define FERROCE_WQE_LOG_MAX_SHARED_RECEIVE_STRIDE 0x9u
// Number of the GSI QP, and its index in the QP context table (IBTA vol 1, 3.9.4).
#define FERROCE_CONTEXT_GSI_QPN 0x1u
// The Q_Key of every GSI QP (IBTA vol 1, 10.2.5).
#define FERROCE_CONTEXT_GSI_Q_KEY 0x80010000u
// Pages of a memory region, at most: bounded by the memory translation table.
#define FERROCE_CONTEXT_LOG_MAX_PAGES 0x18u

// ---- Registers of BAR0: offset, bytes, elements, value after a reset ----

// Identity: the bytes "FROC". Anything else: this is not a Ferroce function.
#define FERROCE_OFFSET_MAGIC 0x0u
#define FERROCE_WIDTH_MAGIC 0x4u
#define FERROCE_COUNT_MAGIC 0x1u
#define FERROCE_RESET_MAGIC 0x434f5246u
// Version of the contract that the function implements.
#define FERROCE_OFFSET_CONTRACT_VERSION 0x4u
#define FERROCE_WIDTH_CONTRACT_VERSION 0x4u
#define FERROCE_COUNT_CONTRACT_VERSION 0x1u
#define FERROCE_RESET_CONTRACT_VERSION 0x1000fu
// PCI device ID in bits 31:16, vendor ID in bits 15:0.
#define FERROCE_OFFSET_DEVICE_ID 0x8u
#define FERROCE_WIDTH_DEVICE_ID 0x4u
#define FERROCE_COUNT_DEVICE_ID 0x1u
#define FERROCE_RESET_DEVICE_ID 0xf10a1172u
// Revision of the card or of the model.
#define FERROCE_OFFSET_HARDWARE_REVISION 0xcu
#define FERROCE_WIDTH_HARDWARE_REVISION 0x4u
#define FERROCE_COUNT_HARDWARE_REVISION 0x1u
#define FERROCE_RESET_HARDWARE_REVISION 0x1u
// What this function can do. Never zero when the function is there.
#define FERROCE_OFFSET_CAPABILITY 0x10u
#define FERROCE_WIDTH_CAPABILITY 0x8u
#define FERROCE_COUNT_CAPABILITY 0x1u
#define FERROCE_RESET_CAPABILITY 0x0ull
// MAC address of the port in bits 47:0, first octet in bits 47:40.
#define FERROCE_OFFSET_PORT_MAC 0x18u
#define FERROCE_WIDTH_PORT_MAC 0x8u
#define FERROCE_COUNT_PORT_MAC 0x1u
#define FERROCE_RESET_PORT_MAC 0x0ull
// Enables and resets the function.
#define FERROCE_OFFSET_CONTROL 0x20u
#define FERROCE_WIDTH_CONTROL 0x4u
#define FERROCE_COUNT_CONTROL 0x1u
#define FERROCE_RESET_CONTROL 0x0u
// State of the function.
#define FERROCE_OFFSET_STATUS 0x24u
#define FERROCE_WIDTH_STATUS 0x4u
#define FERROCE_COUNT_STATUS 0x1u
#define FERROCE_RESET_STATUS 0x0u
// Why the function stopped, when Status.fatal is set: a FatalSyndrome.
#define FERROCE_OFFSET_FATAL_SYNDROME 0x28u
#define FERROCE_WIDTH_FATAL_SYNDROME 0x4u
#define FERROCE_COUNT_FATAL_SYNDROME 0x1u
#define FERROCE_RESET_FATAL_SYNDROME 0x0u
// Free-running device clock, in nanoseconds; also the time stamp of CQEs.
#define FERROCE_OFFSET_CLOCK 0x30u
#define FERROCE_WIDTH_CLOCK 0x8u
#define FERROCE_COUNT_CLOCK 0x1u
#define FERROCE_RESET_CLOCK 0x0ull
// IOVA of the command queue, 64-byte aligned. Only while the function is disabled.
#define FERROCE_OFFSET_COMMAND_QUEUE_BASE 0x40u
#define FERROCE_WIDTH_COMMAND_QUEUE_BASE 0x8u
#define FERROCE_COUNT_COMMAND_QUEUE_BASE 0x1u
#define FERROCE_RESET_COMMAND_QUEUE_BASE 0x0ull
// Base-2 logarithm of the number of command queue entries, 0 to 8. Only while disabled.
#define FERROCE_OFFSET_COMMAND_QUEUE_LOG_SIZE 0x48u
#define FERROCE_WIDTH_COMMAND_QUEUE_LOG_SIZE 0x4u
#define FERROCE_COUNT_COMMAND_QUEUE_LOG_SIZE 0x1u
#define FERROCE_RESET_COMMAND_QUEUE_LOG_SIZE 0x0u
// Commands posted so far, modulo 2^32: rings the command queue's doorbell.
#define FERROCE_OFFSET_COMMAND_QUEUE_DOORBELL 0x4cu
#define FERROCE_WIDTH_COMMAND_QUEUE_DOORBELL 0x4u
#define FERROCE_COUNT_COMMAND_QUEUE_DOORBELL 0x1u
#define FERROCE_RESET_COMMAND_QUEUE_DOORBELL 0x0u
// Commands completed so far, modulo 2^32.
#define FERROCE_OFFSET_COMMAND_QUEUE_CONSUMER 0x50u
#define FERROCE_WIDTH_COMMAND_QUEUE_CONSUMER 0x4u
#define FERROCE_COUNT_COMMAND_QUEUE_CONSUMER 0x1u
#define FERROCE_RESET_COMMAND_QUEUE_CONSUMER 0x0u
// Any write wakes a device that polls its doorbell pages and sleeps.
#define FERROCE_OFFSET_WAKE 0x54u
#define FERROCE_WIDTH_WAKE 0x4u
#define FERROCE_COUNT_WAKE 0x1u
#define FERROCE_RESET_WAKE 0x0u
// Answers PAGE_FAULT events (from version 1.15 on).
#define FERROCE_OFFSET_PAGE_FAULT_ANSWER 0x58u
#define FERROCE_WIDTH_PAGE_FAULT_ANSWER 0x4u
#define FERROCE_COUNT_PAGE_FAULT_ANSWER 0x1u
#define FERROCE_RESET_PAGE_FAULT_ANSWER 0x0u
// Consumer index of event queue n, and whether it may interrupt.
#define FERROCE_OFFSET_EVENT_QUEUE_DOORBELL 0x100u
#define FERROCE_WIDTH_EVENT_QUEUE_DOORBELL 0x4u
#define FERROCE_COUNT_EVENT_QUEUE_DOORBELL 0x10u
#define FERROCE_RESET_EVENT_QUEUE_DOORBELL 0x0u
// ROCE_ACCL: which fields can be changed; 0x1000_0071 with the personality mlx5.
#define FERROCE_OFFSET_ROCE_ACCL_SELECT 0x200u
#define FERROCE_WIDTH_ROCE_ACCL_SELECT 0x4u
#define FERROCE_COUNT_ROCE_ACCL_SELECT 0x1u
#define FERROCE_RESET_ROCE_ACCL_SELECT 0x10000061u
// ROCE_ACCL: how QPs that go to RTR from now on recover. The preset says the reset value.
#define FERROCE_OFFSET_ROCE_ACCL 0x204u
#define FERROCE_WIDTH_ROCE_ACCL 0x4u
#define FERROCE_COUNT_ROCE_ACCL 0x1u
#define FERROCE_RESET_ROCE_ACCL 0x0u
// ROCE_ACCL: limits of the adaptive retransmission profile.
#define FERROCE_OFFSET_ROCE_ACCL_LIMITS 0x208u
#define FERROCE_WIDTH_ROCE_ACCL_LIMITS 0x4u
#define FERROCE_COUNT_ROCE_ACCL_LIMITS 0x1u
#define FERROCE_RESET_ROCE_ACCL_LIMITS 0x41000fa0u
// Nanoseconds after which a gap counts as a loss with adaptive routing. Not of ConnectX.
#define FERROCE_OFFSET_ROCE_ACCL_REORDER_TIME 0x20cu
#define FERROCE_WIDTH_ROCE_ACCL_REORDER_TIME 0x4u
#define FERROCE_COUNT_ROCE_ACCL_REORDER_TIME 0x1u
#define FERROCE_RESET_ROCE_ACCL_REORDER_TIME 0x0u
// Adaptive retransmission profile 1.
#define FERROCE_OFFSET_ADP_RETX_PROFILE 0x210u
#define FERROCE_WIDTH_ADP_RETX_PROFILE 0x4u
#define FERROCE_COUNT_ADP_RETX_PROFILE 0x1u
#define FERROCE_RESET_ADP_RETX_PROFILE 0x0u
// Its first timeout, and the time without progress after which a QP fails.
#define FERROCE_OFFSET_ADP_RETX_PROFILE_START 0x214u
#define FERROCE_WIDTH_ADP_RETX_PROFILE_START 0x4u
#define FERROCE_COUNT_ADP_RETX_PROFILE_START 0x1u
#define FERROCE_RESET_ADP_RETX_PROFILE_START 0x0u
// Its ranges of timeouts, in order of range_low_bound.
#define FERROCE_OFFSET_ADP_RETX_RANGE 0x218u
#define FERROCE_WIDTH_ADP_RETX_RANGE 0x4u
#define FERROCE_COUNT_ADP_RETX_RANGE 0x4u
#define FERROCE_RESET_ADP_RETX_RANGE 0x0u

// ---- Counters: offset in BAR0 ----

#define FERROCE_COUNTER_COUNT 0x56u
// Frames sent.
#define FERROCE_OFFSET_COUNTER_TX_FRAMES 0x1000u
// Bytes of the frames sent, from the Ethernet header to the ICRC.
#define FERROCE_OFFSET_COUNTER_TX_BYTES 0x1008u
// Frames lost because no function has the destination address and QPN.
#define FERROCE_OFFSET_COUNTER_TX_NO_ROUTE 0x1010u
// Times a frame waited because the wire was full.
#define FERROCE_OFFSET_COUNTER_TX_STALLS 0x1018u
// Frames received.
#define FERROCE_OFFSET_COUNTER_RX_FRAMES 0x1020u
// Bytes of the frames received.
#define FERROCE_OFFSET_COUNTER_RX_BYTES 0x1028u
// Frames dropped: not RoCEv2, or a header that makes no sense.
#define FERROCE_OFFSET_COUNTER_RX_MALFORMED 0x1030u
// Frames dropped: invariant CRC wrong, or the MAC found the FCS wrong.
#define FERROCE_OFFSET_COUNTER_RX_ICRC_ERRORS 0x1038u
// Frames dropped: no such QP, or in a state that does not receive.
#define FERROCE_OFFSET_COUNTER_RX_NO_QP 0x1040u
// Frames dropped: not from or to the addresses of the QP's path.
#define FERROCE_OFFSET_COUNTER_RX_WRONG_PATH 0x1048u
// Doorbells landed.
#define FERROCE_OFFSET_COUNTER_DOORBELLS 0x1050u
// Doorbells ignored: slot, number and kind do not belong together.
#define FERROCE_OFFSET_COUNTER_DOORBELL_ERRORS 0x1058u
// DMA reads of send WQEs.
#define FERROCE_OFFSET_COUNTER_WQE_FETCHES 0x1060u
// Blocks of 64 bytes fetched.
#define FERROCE_OFFSET_COUNTER_WQE_BLOCKS 0x1068u
// Send WQEs that were not consistent.
#define FERROCE_OFFSET_COUNTER_WQE_ERRORS 0x1070u
// Receive WQEs taken.
#define FERROCE_OFFSET_COUNTER_RECEIVE_WQES 0x1078u
// CQEs written.
#define FERROCE_OFFSET_COUNTER_CQES 0x1080u
// CQs that overran.
#define FERROCE_OFFSET_COUNTER_CQ_OVERRUNS 0x1088u
// Events written.
#define FERROCE_OFFSET_COUNTER_EQES 0x1090u
// MSI-X messages sent.
#define FERROCE_OFFSET_COUNTER_INTERRUPTS 0x1098u
// Commands executed.
#define FERROCE_OFFSET_COUNTER_COMMANDS 0x10a0u
// Commands that ended with a status other than SUCCESS.
#define FERROCE_OFFSET_COUNTER_COMMAND_ERRORS 0x10a8u
// DMA reads.
#define FERROCE_OFFSET_COUNTER_DMA_READS 0x10b0u
// Bytes read by DMA.
#define FERROCE_OFFSET_COUNTER_DMA_READ_BYTES 0x10b8u
// DMA writes.
#define FERROCE_OFFSET_COUNTER_DMA_WRITES 0x10c0u
// Bytes written by DMA.
#define FERROCE_OFFSET_COUNTER_DMA_WRITE_BYTES 0x10c8u
// DMA accesses that failed.
#define FERROCE_OFFSET_COUNTER_DMA_ERRORS 0x10d0u
// QP contexts found in the cache.
#define FERROCE_OFFSET_COUNTER_QPC_HITS 0x10d8u
// QP contexts read from host memory.
#define FERROCE_OFFSET_COUNTER_QPC_MISSES 0x10e0u
// CQ contexts found in the cache.
#define FERROCE_OFFSET_COUNTER_CQC_HITS 0x10e8u
// CQ contexts read from host memory.
#define FERROCE_OFFSET_COUNTER_CQC_MISSES 0x10f0u
// MPT entries found in the cache.
#define FERROCE_OFFSET_COUNTER_MPT_HITS 0x10f8u
// MPT entries read from host memory.
#define FERROCE_OFFSET_COUNTER_MPT_MISSES 0x1100u
// MTT lines found in the cache.
#define FERROCE_OFFSET_COUNTER_MTT_HITS 0x1108u
// MTT lines read from host memory.
#define FERROCE_OFFSET_COUNTER_MTT_MISSES 0x1110u
// Request packets sent again.
#define FERROCE_OFFSET_COUNTER_PACKETS_RETRANSMITTED 0x1118u
// Local ACK timeouts.
#define FERROCE_OFFSET_COUNTER_LOCAL_ACK_TIMEOUTS 0x1120u
// RNR NAKs sent.
#define FERROCE_OFFSET_COUNTER_RNR_NAKS_SENT 0x1128u
// RNR NAKs received.
#define FERROCE_OFFSET_COUNTER_RNR_NAKS_RECEIVED 0x1130u
// NAKs for a PSN sequence error sent.
#define FERROCE_OFFSET_COUNTER_SEQUENCE_NAKS_SENT 0x1138u
// NAKs for a PSN sequence error received.
#define FERROCE_OFFSET_COUNTER_SEQUENCE_NAKS_RECEIVED 0x1140u
// NAKs for an access, request or operation error sent.
#define FERROCE_OFFSET_COUNTER_OTHER_NAKS_SENT 0x1148u
// NAKs for an access, request or operation error received.
#define FERROCE_OFFSET_COUNTER_OTHER_NAKS_RECEIVED 0x1150u
// Requests received again.
#define FERROCE_OFFSET_COUNTER_DUPLICATE_REQUESTS 0x1158u
// ACKs sent.
#define FERROCE_OFFSET_COUNTER_ACKS_SENT 0x1160u
// Datagrams dropped: wrong Q_Key.
#define FERROCE_OFFSET_COUNTER_RX_Q_KEY_VIOLATIONS 0x1168u
// Datagrams and UC messages dropped: no receive WQE, or it was too small.
#define FERROCE_OFFSET_COUNTER_RX_NO_RECEIVE 0x1170u
// UC packets dropped because one before them was missing.
#define FERROCE_OFFSET_COUNTER_RX_OUT_OF_SEQUENCE 0x1178u
// Datagrams received for a multicast group.
#define FERROCE_OFFSET_COUNTER_RX_MULTICAST 0x1180u
// Atomic operations executed for peers.
#define FERROCE_OFFSET_COUNTER_ATOMICS 0x1188u
// Memory windows bound.
#define FERROCE_OFFSET_COUNTER_WINDOWS_BOUND 0x1190u
// Keys invalidated, by ourselves or by a peer.
#define FERROCE_OFFSET_COUNTER_KEYS_INVALIDATED 0x1198u
// Keys, bounds or rights that did not allow an access.
#define FERROCE_OFFSET_COUNTER_PROTECTION_ERRORS 0x11a0u
// SRQ contexts found in the cache.
#define FERROCE_OFFSET_COUNTER_SRQC_HITS 0x11a8u
// SRQ contexts read from host memory.
#define FERROCE_OFFSET_COUNTER_SRQC_MISSES 0x11b0u
// Pushed WQEs that were executed without reading the ring.
#define FERROCE_OFFSET_COUNTER_PUSHES_USED 0x11b8u
// Pushed WQEs that were dropped: torn, late, not the next one, or not consistent.
#define FERROCE_OFFSET_COUNTER_PUSHES_IGNORED 0x11c0u
// Send WQEs of READs and atomics read again for their response: there was no room for them.
#define FERROCE_OFFSET_COUNTER_WQE_REFETCHES 0x11c8u
// Receive WQEs taken that had been fetched before.
#define FERROCE_OFFSET_COUNTER_RECEIVE_WQE_HITS 0x11d0u
// Receive WQEs taken that had to be fetched first.
#define FERROCE_OFFSET_COUNTER_RECEIVE_WQE_MISSES 0x11d8u
// Turns that a QP ended with more to send; of a timed model.
#define FERROCE_OFFSET_COUNTER_TX_DESCHEDULED 0x11e0u
// Turns that a QP ended with nothing left to send; of a timed model.
#define FERROCE_OFFSET_COUNTER_TX_WORK_DONE 0x11e8u
// DMA reads that ended with the completion time-out.
#define FERROCE_OFFSET_COUNTER_DMA_COMPLETION_TIMEOUTS 0x11f0u
// DMA reads whose data was poisoned.
#define FERROCE_OFFSET_COUNTER_DMA_POISONED 0x11f8u
// Packets held in the reorder buffer because one before them was missing.
#define FERROCE_OFFSET_COUNTER_RX_HELD 0x1200u
// Such packets dropped because the reorder buffer was full.
#define FERROCE_OFFSET_COUNTER_RX_HOLD_DROPS 0x1208u
// Frames dropped because the receive buffer was full.
#define FERROCE_OFFSET_COUNTER_RX_OVERFLOWS 0x1210u
// Responder resources of READs and atomics found in the cache.
#define FERROCE_OFFSET_COUNTER_RESPONDER_HITS 0x1218u
// Responder resources of READs and atomics read from host memory.
#define FERROCE_OFFSET_COUNTER_RESPONDER_MISSES 0x1220u
// Packets received that a switch has marked: congestion experienced.
#define FERROCE_OFFSET_COUNTER_NP_ECN_MARKED_ROCE_PACKETS 0x1228u
// Congestion notification packets sent.
#define FERROCE_OFFSET_COUNTER_NP_CNP_SENT 0x1230u
// Congestion notification packets received, and reacted to.
#define FERROCE_OFFSET_COUNTER_RP_CNP_HANDLED 0x1238u
// Expiries in an adaptive phase of the ACK timer.
#define FERROCE_OFFSET_COUNTER_ADAPTIVE_RETRANSMISSIONS 0x1240u
// RDMA WRITE requests whose last packet was received, without duplicates and empty ones.
#define FERROCE_OFFSET_COUNTER_WRITE_REQUESTS 0x1248u
// RDMA READ requests received, without duplicates and empty ones.
#define FERROCE_OFFSET_COUNTER_READ_REQUESTS 0x1250u
// Send WQEs completed in error, flushed ones too.
#define FERROCE_OFFSET_COUNTER_REQUESTER_ERRORS 0x1258u
// Send WQEs flushed. Not counted with the personality mlx5.
#define FERROCE_OFFSET_COUNTER_REQUESTER_FLUSHES 0x1260u
// Send WQEs completed with REMOTE_ACCESS.
#define FERROCE_OFFSET_COUNTER_REQUESTER_ACCESS_ERRORS 0x1268u
// Send WQEs completed with REMOTE_INVALID_REQUEST.
#define FERROCE_OFFSET_COUNTER_REQUESTER_INVALID_REQUESTS 0x1270u
// Send WQEs completed with RNR_RETRY_EXCEEDED.
#define FERROCE_OFFSET_COUNTER_REQUESTER_RNR_EXCEEDED 0x1278u
// Send WQEs completed with RETRY_EXCEEDED.
#define FERROCE_OFFSET_COUNTER_REQUESTER_RETRIES_EXCEEDED 0x1280u
// Receive WQEs completed in error, flushed ones too. Not counted with the personality mlx5.
#define FERROCE_OFFSET_COUNTER_RESPONDER_ERRORS 0x1288u
// Receive WQEs flushed. Not counted with the personality mlx5.
#define FERROCE_OFFSET_COUNTER_RESPONDER_FLUSHES 0x1290u
// Receive WQEs completed with LOCAL_LENGTH. Not counted with the personality mlx5.
#define FERROCE_OFFSET_COUNTER_RESPONDER_LENGTH_ERRORS 0x1298u
// Page faults of on-demand regions: events raised.
#define FERROCE_OFFSET_COUNTER_PAGE_FAULTS 0x12a0u
// Accesses put off because a page of an on-demand region was not present.
#define FERROCE_OFFSET_COUNTER_PAGE_WAITS 0x12a8u

// ---- Named values ----

// Why the function has stopped.
#define FERROCE_FATAL_SYNDROME_NONE 0x0u
#define FERROCE_FATAL_SYNDROME_COMMAND_QUEUE_DMA 0x1u
#define FERROCE_FATAL_SYNDROME_EVENT_QUEUE_DMA 0x2u
#define FERROCE_FATAL_SYNDROME_CONTEXT_TABLE_DMA 0x3u
#define FERROCE_FATAL_SYNDROME_INJECTED 0x4u

// Whose failures a device shows: its time-outs, vendor_err and counters of errors.
#define FERROCE_PERSONALITY_FERROCE 0x0u
#define FERROCE_PERSONALITY_MLX5 0x1u

// What a doorbell says.
#define FERROCE_DOORBELL_KIND_SEND_QUEUE 0x1u
#define FERROCE_DOORBELL_KIND_RECEIVE_QUEUE 0x2u
#define FERROCE_DOORBELL_KIND_CQ_ARM 0x3u
#define FERROCE_DOORBELL_KIND_CQ_ARM_SOLICITED 0x4u
#define FERROCE_DOORBELL_KIND_SHARED_RECEIVE_QUEUE 0x5u
#define FERROCE_DOORBELL_KIND_PUSH_1 0x11u
#define FERROCE_DOORBELL_KIND_PUSH_2 0x12u
#define FERROCE_DOORBELL_KIND_PUSH_3 0x13u
#define FERROCE_DOORBELL_KIND_PUSH_4 0x14u
#define FERROCE_DOORBELL_KIND_PUSH_5 0x15u

// What a command does.
#define FERROCE_COMMAND_OPCODE_NOP 0x0u
#define FERROCE_COMMAND_OPCODE_QUERY_DEVICE 0x1u
#define FERROCE_COMMAND_OPCODE_SET_CONTEXT_TABLES 0x2u
#define FERROCE_COMMAND_OPCODE_SET_ADDRESS 0x3u
#define FERROCE_COMMAND_OPCODE_QUERY_ADDRESS 0x4u
#define FERROCE_COMMAND_OPCODE_CREATE_EQ 0x10u
#define FERROCE_COMMAND_OPCODE_QUERY_EQ 0x11u
#define FERROCE_COMMAND_OPCODE_DESTROY_EQ 0x12u
#define FERROCE_COMMAND_OPCODE_MODIFY_EQ 0x13u
#define FERROCE_COMMAND_OPCODE_CREATE_CQ 0x20u
#define FERROCE_COMMAND_OPCODE_QUERY_CQ 0x21u
#define FERROCE_COMMAND_OPCODE_DESTROY_CQ 0x22u
#define FERROCE_COMMAND_OPCODE_MODIFY_CQ 0x23u
#define FERROCE_COMMAND_OPCODE_CREATE_QP 0x30u
#define FERROCE_COMMAND_OPCODE_QUERY_QP 0x31u
#define FERROCE_COMMAND_OPCODE_DESTROY_QP 0x32u
#define FERROCE_COMMAND_OPCODE_MODIFY_QP 0x33u
#define FERROCE_COMMAND_OPCODE_ATTACH_MULTICAST 0x34u
#define FERROCE_COMMAND_OPCODE_DETACH_MULTICAST 0x35u
#define FERROCE_COMMAND_OPCODE_CREATE_SRQ 0x40u
#define FERROCE_COMMAND_OPCODE_QUERY_SRQ 0x41u
#define FERROCE_COMMAND_OPCODE_DESTROY_SRQ 0x42u
#define FERROCE_COMMAND_OPCODE_MODIFY_SRQ 0x43u
#define FERROCE_COMMAND_OPCODE_CREATE_MR 0x50u
#define FERROCE_COMMAND_OPCODE_QUERY_MR 0x51u
#define FERROCE_COMMAND_OPCODE_DESTROY_MR 0x52u
#define FERROCE_COMMAND_OPCODE_MODIFY_MR 0x53u
#define FERROCE_COMMAND_OPCODE_SYNC_MR 0x54u

// How a command ended.
#define FERROCE_COMMAND_STATUS_SUCCESS 0x0u
#define FERROCE_COMMAND_STATUS_INTERNAL_ERROR 0x1u
#define FERROCE_COMMAND_STATUS_BAD_OPCODE 0x2u
#define FERROCE_COMMAND_STATUS_BAD_PARAMETER 0x3u
#define FERROCE_COMMAND_STATUS_BAD_STATE 0x4u
#define FERROCE_COMMAND_STATUS_NO_OBJECT 0x5u
#define FERROCE_COMMAND_STATUS_BUSY 0x6u
#define FERROCE_COMMAND_STATUS_NO_RESOURCES 0x7u
#define FERROCE_COMMAND_STATUS_BAD_MAILBOX 0x8u
#define FERROCE_COMMAND_STATUS_DMA_ERROR 0x9u
#define FERROCE_COMMAND_STATUS_BAD_TRANSITION 0xau
#define FERROCE_COMMAND_STATUS_NOT_SUPPORTED 0xbu

// Operation of a send WQE.
#define FERROCE_SEND_OPCODE_NOP 0x0u
#define FERROCE_SEND_OPCODE_SEND 0x1u
#define FERROCE_SEND_OPCODE_SEND_IMMEDIATE 0x2u
#define FERROCE_SEND_OPCODE_SEND_INVALIDATE 0x3u
#define FERROCE_SEND_OPCODE_RDMA_WRITE 0x8u
#define FERROCE_SEND_OPCODE_RDMA_WRITE_IMMEDIATE 0x9u
#define FERROCE_SEND_OPCODE_RDMA_READ 0x10u
#define FERROCE_SEND_OPCODE_COMPARE_SWAP 0x18u
#define FERROCE_SEND_OPCODE_FETCH_ADD 0x19u
#define FERROCE_SEND_OPCODE_FLUSH 0x1au
#define FERROCE_SEND_OPCODE_ATOMIC_WRITE 0x1bu
#define FERROCE_SEND_OPCODE_LOCAL_INVALIDATE 0x20u
#define FERROCE_SEND_OPCODE_BIND_WINDOW 0x21u

// What has completed.
#define FERROCE_CQE_OPCODE_SEND 0x1u
#define FERROCE_CQE_OPCODE_RDMA_WRITE 0x2u
#define FERROCE_CQE_OPCODE_RDMA_READ 0x3u
#define FERROCE_CQE_OPCODE_COMPARE_SWAP 0x4u
#define FERROCE_CQE_OPCODE_FETCH_ADD 0x5u
#define FERROCE_CQE_OPCODE_LOCAL_INVALIDATE 0x6u
#define FERROCE_CQE_OPCODE_BIND_WINDOW 0x7u
#define FERROCE_CQE_OPCODE_NOP 0x8u
#define FERROCE_CQE_OPCODE_FLUSH 0x9u
#define FERROCE_CQE_OPCODE_ATOMIC_WRITE 0xau
#define FERROCE_CQE_OPCODE_RECEIVE 0x80u
#define FERROCE_CQE_OPCODE_RECEIVE_RDMA_IMMEDIATE 0x81u

// How it has completed (IBTA vol 1, 11.6.2).
#define FERROCE_CQE_STATUS_SUCCESS 0x0u
#define FERROCE_CQE_STATUS_LOCAL_LENGTH 0x1u
#define FERROCE_CQE_STATUS_LOCAL_QP_OPERATION 0x2u
#define FERROCE_CQE_STATUS_LOCAL_PROTECTION 0x4u
#define FERROCE_CQE_STATUS_WR_FLUSH 0x5u
#define FERROCE_CQE_STATUS_WINDOW_BIND 0x6u
#define FERROCE_CQE_STATUS_BAD_RESPONSE 0x7u
#define FERROCE_CQE_STATUS_LOCAL_ACCESS 0x8u
#define FERROCE_CQE_STATUS_REMOTE_INVALID_REQUEST 0x9u
#define FERROCE_CQE_STATUS_REMOTE_ACCESS 0xau
#define FERROCE_CQE_STATUS_REMOTE_OPERATION 0xbu
#define FERROCE_CQE_STATUS_RETRY_EXCEEDED 0xcu
#define FERROCE_CQE_STATUS_RNR_RETRY_EXCEEDED 0xdu
#define FERROCE_CQE_STATUS_FATAL 0x13u

// Detail of a completion in error: vendor_err of verbs. A device may report zero.
#define FERROCE_VENDOR_ERROR_NONE 0x0u
#define FERROCE_VENDOR_ERROR_LOCAL_KEY 0x10u
#define FERROCE_VENDOR_ERROR_LOCAL_DOMAIN 0x11u
#define FERROCE_VENDOR_ERROR_LOCAL_BOUNDS 0x12u
#define FERROCE_VENDOR_ERROR_LOCAL_RIGHTS 0x13u
#define FERROCE_VENDOR_ERROR_LOCAL_PAGE 0x14u
#define FERROCE_VENDOR_ERROR_LOCAL_BINDING 0x15u
#define FERROCE_VENDOR_ERROR_LOCAL_QUEUE_PAIR 0x16u
#define FERROCE_VENDOR_ERROR_WQE_FORMAT 0x20u
#define FERROCE_VENDOR_ERROR_WQE_LENGTH 0x21u
#define FERROCE_VENDOR_ERROR_WQE_FETCH 0x22u
#define FERROCE_VENDOR_ERROR_WQE_ROUTE 0x23u
#define FERROCE_VENDOR_ERROR_RECEIVE_LENGTH 0x30u
#define FERROCE_VENDOR_ERROR_RECEIVE_FETCH 0x31u
#define FERROCE_VENDOR_ERROR_REQUEST_KEY 0x40u
#define FERROCE_VENDOR_ERROR_REQUEST_DOMAIN 0x41u
#define FERROCE_VENDOR_ERROR_REQUEST_BOUNDS 0x42u
#define FERROCE_VENDOR_ERROR_REQUEST_RIGHTS 0x43u
#define FERROCE_VENDOR_ERROR_REQUEST_PAGE 0x44u
#define FERROCE_VENDOR_ERROR_REQUEST_BINDING 0x45u
#define FERROCE_VENDOR_ERROR_REQUEST_QUEUE_PAIR 0x46u
#define FERROCE_VENDOR_ERROR_REQUEST_ALIGNMENT 0x47u
#define FERROCE_VENDOR_ERROR_REQUEST_INVALID 0x48u
#define FERROCE_VENDOR_ERROR_REQUEST_QP_RIGHTS 0x49u
#define FERROCE_VENDOR_ERROR_NAK_INVALID_REQUEST 0x50u
#define FERROCE_VENDOR_ERROR_NAK_ACCESS 0x51u
#define FERROCE_VENDOR_ERROR_NAK_OPERATION 0x52u
#define FERROCE_VENDOR_ERROR_RESPONSE 0x53u
#define FERROCE_VENDOR_ERROR_NO_ANSWER 0x58u
#define FERROCE_VENDOR_ERROR_NO_STATION 0x59u
#define FERROCE_VENDOR_ERROR_NO_RECEIVE 0x5au
#define FERROCE_VENDOR_ERROR_FLUSH 0x60u
#define FERROCE_VENDOR_ERROR_FLUSH_MOVED 0x61u

// What has happened.
#define FERROCE_EVENT_TYPE_COMPLETION 0x1u
#define FERROCE_EVENT_TYPE_CQ_ERROR 0x2u
#define FERROCE_EVENT_TYPE_QP_FATAL 0x8u
#define FERROCE_EVENT_TYPE_QP_REQUEST_ERROR 0x9u
#define FERROCE_EVENT_TYPE_QP_ACCESS_ERROR 0xau
#define FERROCE_EVENT_TYPE_COMMUNICATION_ESTABLISHED 0xbu
#define FERROCE_EVENT_TYPE_SEND_QUEUE_DRAINED 0xcu
#define FERROCE_EVENT_TYPE_LAST_WQE_REACHED 0xdu
#define FERROCE_EVENT_TYPE_SRQ_LIMIT 0x10u
#define FERROCE_EVENT_TYPE_SRQ_ERROR 0x11u
#define FERROCE_EVENT_TYPE_PORT_ACTIVE 0x18u
#define FERROCE_EVENT_TYPE_PORT_ERROR 0x19u
#define FERROCE_EVENT_TYPE_GID_CHANGE 0x1au
#define FERROCE_EVENT_TYPE_PAGE_FAULT 0x1bu
#define FERROCE_EVENT_TYPE_DEVICE_FATAL 0x1fu

// State of a QP (IBTA vol 1, 10.3.1).
#define FERROCE_QP_STATE_CODE_RESET 0x0u
#define FERROCE_QP_STATE_CODE_INIT 0x1u
#define FERROCE_QP_STATE_CODE_RTR 0x2u
#define FERROCE_QP_STATE_CODE_RTS 0x3u
#define FERROCE_QP_STATE_CODE_SQD 0x4u
#define FERROCE_QP_STATE_CODE_SQE 0x5u
#define FERROCE_QP_STATE_CODE_ERR 0x6u

// Transport service of a QP.
#define FERROCE_SERVICE_CODE_RELIABLE_CONNECTED 0x0u
#define FERROCE_SERVICE_CODE_UNRELIABLE_CONNECTED 0x1u
#define FERROCE_SERVICE_CODE_UNRELIABLE_DATAGRAM 0x2u
#define FERROCE_SERVICE_CODE_XRC_INITIATOR 0x3u
#define FERROCE_SERVICE_CODE_XRC_TARGET 0x4u
#define FERROCE_SERVICE_CODE_GSI 0x5u

// Path MTU.
#define FERROCE_PATH_MTU_CODE_MTU_256 0x1u
#define FERROCE_PATH_MTU_CODE_MTU_512 0x2u
#define FERROCE_PATH_MTU_CODE_MTU_1024 0x3u
#define FERROCE_PATH_MTU_CODE_MTU_2048 0x4u
#define FERROCE_PATH_MTU_CODE_MTU_4096 0x5u


// ---- Words ----

// A version of this contract.
// Minor version: grows when something is added that older software need not know.
#define FERROCE_CONTRACT_VERSION_MINOR_SHIFT 0
#define FERROCE_CONTRACT_VERSION_MINOR_MASK 0xffffu
// Major version: software leaves another one alone.
#define FERROCE_CONTRACT_VERSION_MAJOR_SHIFT 16
#define FERROCE_CONTRACT_VERSION_MAJOR_MASK 0xffff0000u

// What this function can do, readable before anything is set up.
// Base-2 logarithm of the number of 4 KiB doorbell pages in BAR2.
#define FERROCE_CAPABILITY_LOG_DOORBELL_PAGES_SHIFT 0
#define FERROCE_CAPABILITY_LOG_DOORBELL_PAGES_MASK 0xffull
// MSI-X vectors, and event queues.
#define FERROCE_CAPABILITY_VECTORS_SHIFT 8
#define FERROCE_CAPABILITY_VECTORS_MASK 0xff00ull
// Base-2 logarithm of the largest command mailbox, in bytes.
#define FERROCE_CAPABILITY_LOG_MAX_MAILBOX_SHIFT 16
#define FERROCE_CAPABILITY_LOG_MAX_MAILBOX_MASK 0xff0000ull
// Ethernet ports.
#define FERROCE_CAPABILITY_PORTS_SHIFT 24
#define FERROCE_CAPABILITY_PORTS_MASK 0xff000000ull
// 64-bit counters at 0x1000.
#define FERROCE_CAPABILITY_COUNTERS_SHIFT 32
#define FERROCE_CAPABILITY_COUNTERS_MASK 0xff00000000ull
// 64-byte blocks of the longest push, up to 5; before contract 1.7: 1, 2 or 4. Zero: BAR2 has no
// push pages.
#define FERROCE_CAPABILITY_PUSH_BLOCKS_SHIFT 40
#define FERROCE_CAPABILITY_PUSH_BLOCKS_MASK 0xff0000000000ull
// Whose failures the function shows: a Personality (from version 1.12 on).
#define FERROCE_CAPABILITY_PERSONALITY_SHIFT 48
#define FERROCE_CAPABILITY_PERSONALITY_MASK 0xf000000000000ull
// The registers of ROCE_ACCL exist (from version 1.5 on).
#define FERROCE_CAPABILITY_ROCE_ACCL_SHIFT 61
#define FERROCE_CAPABILITY_ROCE_ACCL_MASK 0x2000000000000000ull
// The doorbell pages are memory that the device polls: software counts doorbells, and wakes the
// device when it sleeps. Never set by a card.
#define FERROCE_CAPABILITY_POLLED_DOORBELLS_SHIFT 62
#define FERROCE_CAPABILITY_POLLED_DOORBELLS_MASK 0x4000000000000000ull
// Always one.
#define FERROCE_CAPABILITY_PRESENT_SHIFT 63
#define FERROCE_CAPABILITY_PRESENT_MASK 0x8000000000000000ull

// Enables and resets the function.
// Starts the command queue. Cleared by a reset.
#define FERROCE_CONTROL_ENABLE_SHIFT 0
#define FERROCE_CONTROL_ENABLE_MASK 0x1u
// Write one: all queues, contexts and counters are forgotten, nothing more is written to host
// memory. Reads as one until the reset is done.
#define FERROCE_CONTROL_RESET_SHIFT 1
#define FERROCE_CONTROL_RESET_MASK 0x2u

// State of the function.
// Reset is done; the function may be enabled.
#define FERROCE_STATUS_READY_SHIFT 0
#define FERROCE_STATUS_READY_MASK 0x1u
// The command queue runs.
#define FERROCE_STATUS_ENABLED_SHIFT 1
#define FERROCE_STATUS_ENABLED_MASK 0x2u
// The function has stopped (see fatal_syndrome); only a reset helps.
#define FERROCE_STATUS_FATAL_SHIFT 2
#define FERROCE_STATUS_FATAL_MASK 0x4u
// The port has a link.
#define FERROCE_STATUS_LINK_UP_SHIFT 3
#define FERROCE_STATUS_LINK_UP_MASK 0x8u

// Answer to PAGE_FAULT events, in their order.
// PAGE_FAULT events answered so far, modulo 2^24: their pages are present now.
#define FERROCE_PAGE_FAULT_ANSWER_COUNT_SHIFT 0
#define FERROCE_PAGE_FAULT_ANSWER_COUNT_MASK 0xffffffu
// The page of the last of them cannot be present: the access fails.
#define FERROCE_PAGE_FAULT_ANSWER_REFUSED_SHIFT 31
#define FERROCE_PAGE_FAULT_ANSWER_REFUSED_MASK 0x80000000u

// Consumer index of an event queue.
// Events consumed so far, modulo 2^24.
#define FERROCE_EVENT_QUEUE_DOORBELL_CONSUMER_INDEX_SHIFT 0
#define FERROCE_EVENT_QUEUE_DOORBELL_CONSUMER_INDEX_MASK 0xffffffu
// Interrupt when an event at or behind the consumer index exists; one interrupt, then the queue is
// disarmed.
#define FERROCE_EVENT_QUEUE_DOORBELL_ARM_SHIFT 31
#define FERROCE_EVENT_QUEUE_DOORBELL_ARM_MASK 0x80000000u

// Fields of ROCE_ACCL that can be changed; the others are zero and ignore writes.
// roce_adp_retrans_en can be changed.
#define FERROCE_ROCE_ACCL_SELECT_ROCE_ADP_RETRANS_FIELD_SELECT_SHIFT 0
#define FERROCE_ROCE_ACCL_SELECT_ROCE_ADP_RETRANS_FIELD_SELECT_MASK 0x1u
// roce_tx_window_en can be changed: congestion control, not implemented.
#define FERROCE_ROCE_ACCL_SELECT_ROCE_TX_WINDOW_FIELD_SELECT_SHIFT 1
#define FERROCE_ROCE_ACCL_SELECT_ROCE_TX_WINDOW_FIELD_SELECT_MASK 0x2u
// roce_slow_restart_en can be changed: congestion control, not implemented.
#define FERROCE_ROCE_ACCL_SELECT_ROCE_SLOW_RESTART_FIELD_SELECT_SHIFT 2
#define FERROCE_ROCE_ACCL_SELECT_ROCE_SLOW_RESTART_FIELD_SELECT_MASK 0x4u
// roce_slow_restart_idle_en can be changed: congestion control, not implemented.
#define FERROCE_ROCE_ACCL_SELECT_ROCE_SLOW_RESTART_IDLE_FIELD_SELECT_SHIFT 3
#define FERROCE_ROCE_ACCL_SELECT_ROCE_SLOW_RESTART_IDLE_FIELD_SELECT_MASK 0x8u
// min_ack_timeout_limit_disabled can be changed: with the personality mlx5.
#define FERROCE_ROCE_ACCL_SELECT_MIN_ACK_TIMEOUT_LIMIT_DISABLED_FIELD_SELECT_SHIFT 4
#define FERROCE_ROCE_ACCL_SELECT_MIN_ACK_TIMEOUT_LIMIT_DISABLED_FIELD_SELECT_MASK 0x10u
// adaptive_routing_forced_en can be changed.
#define FERROCE_ROCE_ACCL_SELECT_ADAPTIVE_ROUTING_FORCED_EN_FIELD_SELECT_SHIFT 5
#define FERROCE_ROCE_ACCL_SELECT_ADAPTIVE_ROUTING_FORCED_EN_FIELD_SELECT_MASK 0x20u
// selective_repeat_forced_en can be changed.
#define FERROCE_ROCE_ACCL_SELECT_SELECTIVE_REPEAT_FORCED_EN_FIELD_SELECT_SHIFT 6
#define FERROCE_ROCE_ACCL_SELECT_SELECTIVE_REPEAT_FORCED_EN_FIELD_SELECT_MASK 0x40u
// cc_per_plane_en can be changed: congestion control, not implemented.
#define FERROCE_ROCE_ACCL_SELECT_CC_PER_PLANE_EN_FIELD_SELECT_SHIFT 8
#define FERROCE_ROCE_ACCL_SELECT_CC_PER_PLANE_EN_FIELD_SELECT_MASK 0x100u
// ack_dscp_force can be changed: not implemented.
#define FERROCE_ROCE_ACCL_SELECT_ACK_DSCP_FORCE_FIELD_SELECT_SHIFT 9
#define FERROCE_ROCE_ACCL_SELECT_ACK_DSCP_FORCE_FIELD_SELECT_MASK 0x200u
// cc_burst_size can be changed: congestion control, not implemented.
#define FERROCE_ROCE_ACCL_SELECT_CC_BURST_SIZE_SELECT_SHIFT 10
#define FERROCE_ROCE_ACCL_SELECT_CC_BURST_SIZE_SELECT_MASK 0x400u
// adp_retx_profile_id and the profile can be changed.
#define FERROCE_ROCE_ACCL_SELECT_ADP_RETX_PROFILE_SELECT_SHIFT 28
#define FERROCE_ROCE_ACCL_SELECT_ADP_RETX_PROFILE_SELECT_MASK 0x10000000u

// How queue pairs recover. A queue pair takes the modes when it goes to RTR.
// Profile of the adaptive retransmission timer: 0 is the built-in one (2 to 16 ms; with the
// personality mlx5 the measured one of a ConnectX-6, from 20 ms on), 1 that of adp_retx_profile; if
// that is not valid, 0 applies.
#define FERROCE_ROCE_ACCL_ADP_RETX_PROFILE_ID_SHIFT 28
#define FERROCE_ROCE_ACCL_ADP_RETX_PROFILE_ID_MASK 0x70000000u
// The adaptive retransmission timer takes the place of the local ACK timeout.
#define FERROCE_ROCE_ACCL_ROCE_ADP_RETRANS_EN_SHIFT 0
#define FERROCE_ROCE_ACCL_ROCE_ADP_RETRANS_EN_MASK 0x1u
// Zero: not implemented.
#define FERROCE_ROCE_ACCL_ROCE_TX_WINDOW_EN_SHIFT 1
#define FERROCE_ROCE_ACCL_ROCE_TX_WINDOW_EN_MASK 0x2u
// Zero: not implemented.
#define FERROCE_ROCE_ACCL_ROCE_SLOW_RESTART_EN_SHIFT 2
#define FERROCE_ROCE_ACCL_ROCE_SLOW_RESTART_EN_MASK 0x4u
// Zero: not implemented.
#define FERROCE_ROCE_ACCL_ROCE_SLOW_RESTART_IDLE_EN_SHIFT 3
#define FERROCE_ROCE_ACCL_ROCE_SLOW_RESTART_IDLE_EN_MASK 0x8u
// Personality mlx5: local ACK timeouts below 16 are used as they are, and nothing is retransmitted
// earlier. Others: zero, there is no such limit.
#define FERROCE_ROCE_ACCL_MIN_ACK_TIMEOUT_LIMIT_DISABLED_SHIFT 4
#define FERROCE_ROCE_ACCL_MIN_ACK_TIMEOUT_LIMIT_DISABLED_MASK 0x10u
// Selective repeat on a network that reorders: WRITEs are placed in any order.
#define FERROCE_ROCE_ACCL_ADAPTIVE_ROUTING_FORCED_EN_SHIFT 5
#define FERROCE_ROCE_ACCL_ADAPTIVE_ROUTING_FORCED_EN_MASK 0x20u
// Selective repeat.
#define FERROCE_ROCE_ACCL_SELECTIVE_REPEAT_FORCED_EN_SHIFT 6
#define FERROCE_ROCE_ACCL_SELECTIVE_REPEAT_FORCED_EN_MASK 0x40u

// Limits of the adaptive retransmission profile.
// Ranges of timeouts at most.
#define FERROCE_ROCE_ACCL_LIMITS_ADP_RETX_PROFILE_MAX_RANGE_NUM_SHIFT 28
#define FERROCE_ROCE_ACCL_LIMITS_ADP_RETX_PROFILE_MAX_RANGE_NUM_MASK 0x70000000u
// Largest adp_retx_profile_id.
#define FERROCE_ROCE_ACCL_LIMITS_ADP_RETX_PROFILE_MAX_ID_SHIFT 24
#define FERROCE_ROCE_ACCL_LIMITS_ADP_RETX_PROFILE_MAX_ID_MASK 0x7000000u
// Smallest time_base, in nanoseconds.
#define FERROCE_ROCE_ACCL_LIMITS_ADP_RETX_BASE_TIMEOUT_MIN_SHIFT 0
#define FERROCE_ROCE_ACCL_LIMITS_ADP_RETX_BASE_TIMEOUT_MIN_MASK 0xfffffu

// Adaptive retransmission profile. A timeout n means time_base times 2^n.
// A power of two of time_unit.
#define FERROCE_ADP_RETX_PROFILE_TIME_BASE_SHIFT 0
#define FERROCE_ADP_RETX_PROFILE_TIME_BASE_MASK 0xffffu
// 1: microseconds. Other values are reserved.
#define FERROCE_ADP_RETX_PROFILE_TIME_UNIT_SHIFT 22
#define FERROCE_ADP_RETX_PROFILE_TIME_UNIT_MASK 0xc00000u
// The range behind the first timeout, if that is in none.
#define FERROCE_ADP_RETX_PROFILE_START_RANGE_INDEX_SHIFT 24
#define FERROCE_ADP_RETX_PROFILE_START_RANGE_INDEX_MASK 0x7000000u
// Ranges in use, 1 to 4.
#define FERROCE_ADP_RETX_PROFILE_RANGE_NUM_SHIFT 28
#define FERROCE_ADP_RETX_PROFILE_RANGE_NUM_MASK 0x70000000u
// A QP fails after its retry count times its local ACK timeout without progress; else
// retx_total_timeout says when.
#define FERROCE_ADP_RETX_PROFILE_QP_TOTAL_TIMEOUT_SHIFT 31
#define FERROCE_ADP_RETX_PROFILE_QP_TOTAL_TIMEOUT_MASK 0x80000000u

// Begin and end of the adaptive retransmission profile.
// First timeouts to choose from, at random.
#define FERROCE_ADP_RETX_PROFILE_START_TIMEOUT_INIT_RANGE_SIZE_SHIFT 0
#define FERROCE_ADP_RETX_PROFILE_START_TIMEOUT_INIT_RANGE_SIZE_MASK 0xffu
// Smallest first timeout.
#define FERROCE_ADP_RETX_PROFILE_START_TIMEOUT_INIT_LOW_BOUND_SHIFT 8
#define FERROCE_ADP_RETX_PROFILE_START_TIMEOUT_INIT_LOW_BOUND_MASK 0xff00u
// Time without progress after which a QP fails.
#define FERROCE_ADP_RETX_PROFILE_START_RETX_TOTAL_TIMEOUT_SHIFT 24
#define FERROCE_ADP_RETX_PROFILE_START_RETX_TOTAL_TIMEOUT_MASK 0xff000000u

// A range of timeouts of the adaptive retransmission profile.
// Number of timeouts, each twice the one before.
#define FERROCE_ADP_RETX_RANGE_RANGE_SIZE_SHIFT 0
#define FERROCE_ADP_RETX_RANGE_RANGE_SIZE_MASK 0xffu
// Smallest timeout.
#define FERROCE_ADP_RETX_RANGE_RANGE_LOW_BOUND_SHIFT 8
#define FERROCE_ADP_RETX_RANGE_RANGE_LOW_BOUND_MASK 0xff00u
// Time-outs of each before the next one.
#define FERROCE_ADP_RETX_RANGE_TIMEOUT_RETRY_NUM_SHIFT 16
#define FERROCE_ADP_RETX_RANGE_TIMEOUT_RETRY_NUM_MASK 0x3ff0000u
// What progress does: 0 a quarter of the timeout, 1 half of it, 2 back to range_low_bound.
#define FERROCE_ADP_RETX_RANGE_DEC_MODE_SHIFT 26
#define FERROCE_ADP_RETX_RANGE_DEC_MODE_MASK 0xc000000u
// The range to which progress leads from range_low_bound: this one or one before it.
#define FERROCE_ADP_RETX_RANGE_PREV_RANGE_INDEX_SHIFT 28
#define FERROCE_ADP_RETX_RANGE_PREV_RANGE_INDEX_MASK 0x70000000u

// The value that is written to a doorbell slot.
// Send queue: producer index in 64-byte blocks. Receive queue: producer index in entries. CQ:
// consumer index in entries. Free-running, modulo 2^32.
#define FERROCE_DOORBELL_VALUE_INDEX_SHIFT 0
#define FERROCE_DOORBELL_VALUE_INDEX_MASK 0xffffffffull
// QPN, SRQN or CQN. Must be that of the queue to which the slot was given.
#define FERROCE_DOORBELL_VALUE_NUMBER_SHIFT 32
#define FERROCE_DOORBELL_VALUE_NUMBER_MASK 0xffffff00000000ull
// A DoorbellKind.
#define FERROCE_DOORBELL_VALUE_KIND_SHIFT 56
#define FERROCE_DOORBELL_VALUE_KIND_MASK 0xff00000000000000ull

// Argument of CREATE_CQ, CREATE_QP, CREATE_SRQ and CREATE_MR.
// CQN, QPN or SRQN that the object gets; of a memory region or window, bits 31:8 of its key.
#define FERROCE_NEW_NUMBER_NUMBER_SHIFT 0
#define FERROCE_NEW_NUMBER_NUMBER_MASK 0xffffffffull
// One: software has chosen the number (needs chosen_numbers). Zero: the device chooses.
#define FERROCE_NEW_NUMBER_CHOSEN_SHIFT 32
#define FERROCE_NEW_NUMBER_CHOSEN_MASK 0x100000000ull

// Last eight bytes of a command queue entry.
// A CommandStatus, written by the device.
#define FERROCE_COMMAND_COMPLETION_STATUS_SHIFT 0
#define FERROCE_COMMAND_COMPLETION_STATUS_MASK 0xffull
// Detail of a failure, written by the device.
#define FERROCE_COMMAND_COMPLETION_SYNDROME_SHIFT 8
#define FERROCE_COMMAND_COMPLETION_SYNDROME_MASK 0xffffffff00ull
// One: the device has still to execute the entry. Zero: software owns it.
#define FERROCE_COMMAND_COMPLETION_DEVICE_OWNED_SHIFT 63
#define FERROCE_COMMAND_COMPLETION_DEVICE_OWNED_MASK 0x8000000000000000ull

// Which attributes a MODIFY_QP carries.
// Remote access rights.
#define FERROCE_QP_ATTRIBUTE_MASK_ACCESS_SHIFT 0
#define FERROCE_QP_ATTRIBUTE_MASK_ACCESS_MASK 0x1u
// P_Key index.
#define FERROCE_QP_ATTRIBUTE_MASK_P_KEY_SHIFT 1
#define FERROCE_QP_ATTRIBUTE_MASK_P_KEY_MASK 0x2u
// Port number.
#define FERROCE_QP_ATTRIBUTE_MASK_PORT_SHIFT 2
#define FERROCE_QP_ATTRIBUTE_MASK_PORT_MASK 0x4u
// Q_Key.
#define FERROCE_QP_ATTRIBUTE_MASK_Q_KEY_SHIFT 3
#define FERROCE_QP_ATTRIBUTE_MASK_Q_KEY_MASK 0x8u
// Address path.
#define FERROCE_QP_ATTRIBUTE_MASK_PATH_SHIFT 4
#define FERROCE_QP_ATTRIBUTE_MASK_PATH_MASK 0x10u
// Path MTU.
#define FERROCE_QP_ATTRIBUTE_MASK_PATH_MTU_SHIFT 5
#define FERROCE_QP_ATTRIBUTE_MASK_PATH_MTU_MASK 0x20u
// Local ACK timeout.
#define FERROCE_QP_ATTRIBUTE_MASK_TIMEOUT_SHIFT 6
#define FERROCE_QP_ATTRIBUTE_MASK_TIMEOUT_MASK 0x40u
// Retry count.
#define FERROCE_QP_ATTRIBUTE_MASK_RETRY_COUNT_SHIFT 7
#define FERROCE_QP_ATTRIBUTE_MASK_RETRY_COUNT_MASK 0x80u
// RNR retry count.
#define FERROCE_QP_ATTRIBUTE_MASK_RNR_RETRY_SHIFT 8
#define FERROCE_QP_ATTRIBUTE_MASK_RNR_RETRY_MASK 0x100u
// Expected PSN.
#define FERROCE_QP_ATTRIBUTE_MASK_RECEIVE_PSN_SHIFT 9
#define FERROCE_QP_ATTRIBUTE_MASK_RECEIVE_PSN_MASK 0x200u
// Outstanding READs and atomics as requester.
#define FERROCE_QP_ATTRIBUTE_MASK_MAX_RD_ATOMIC_SHIFT 10
#define FERROCE_QP_ATTRIBUTE_MASK_MAX_RD_ATOMIC_MASK 0x400u
// RNR NAK timer code.
#define FERROCE_QP_ATTRIBUTE_MASK_MIN_RNR_TIMER_SHIFT 11
#define FERROCE_QP_ATTRIBUTE_MASK_MIN_RNR_TIMER_MASK 0x800u
// First PSN to send.
#define FERROCE_QP_ATTRIBUTE_MASK_SEND_PSN_SHIFT 12
#define FERROCE_QP_ATTRIBUTE_MASK_SEND_PSN_MASK 0x1000u
// READs and atomics accepted as responder.
#define FERROCE_QP_ATTRIBUTE_MASK_MAX_DEST_RD_ATOMIC_SHIFT 13
#define FERROCE_QP_ATTRIBUTE_MASK_MAX_DEST_RD_ATOMIC_MASK 0x2000u
// Destination QPN.
#define FERROCE_QP_ATTRIBUTE_MASK_DEST_QPN_SHIFT 14
#define FERROCE_QP_ATTRIBUTE_MASK_DEST_QPN_MASK 0x4000u
// To SQD: raise SEND_QUEUE_DRAINED.
#define FERROCE_QP_ATTRIBUTE_MASK_DRAINED_EVENT_SHIFT 15
#define FERROCE_QP_ATTRIBUTE_MASK_DRAINED_EVENT_MASK 0x8000u

// What the device implements.
// RC.
#define FERROCE_DEVICE_FEATURES_RELIABLE_CONNECTED_SHIFT 0
#define FERROCE_DEVICE_FEATURES_RELIABLE_CONNECTED_MASK 0x1u
// UC.
#define FERROCE_DEVICE_FEATURES_UNRELIABLE_CONNECTED_SHIFT 1
#define FERROCE_DEVICE_FEATURES_UNRELIABLE_CONNECTED_MASK 0x2u
// UD.
#define FERROCE_DEVICE_FEATURES_UNRELIABLE_DATAGRAM_SHIFT 2
#define FERROCE_DEVICE_FEATURES_UNRELIABLE_DATAGRAM_MASK 0x4u
// XRC.
#define FERROCE_DEVICE_FEATURES_EXTENDED_RELIABLE_CONNECTED_SHIFT 3
#define FERROCE_DEVICE_FEATURES_EXTENDED_RELIABLE_CONNECTED_MASK 0x8u
// Compare and swap, fetch and add.
#define FERROCE_DEVICE_FEATURES_ATOMICS_SHIFT 4
#define FERROCE_DEVICE_FEATURES_ATOMICS_MASK 0x10u
// SRQs.
#define FERROCE_DEVICE_FEATURES_SHARED_RECEIVE_QUEUES_SHIFT 5
#define FERROCE_DEVICE_FEATURES_SHARED_RECEIVE_QUEUES_MASK 0x20u
// Memory windows.
#define FERROCE_DEVICE_FEATURES_MEMORY_WINDOWS_SHIFT 6
#define FERROCE_DEVICE_FEATURES_MEMORY_WINDOWS_MASK 0x40u
// Atomics are atomic also with respect to the host's processors (PCIe AtomicOps).
#define FERROCE_DEVICE_FEATURES_GLOBAL_ATOMICS_SHIFT 7
#define FERROCE_DEVICE_FEATURES_GLOBAL_ATOMICS_MASK 0x80u
// GSI: QP 1.
#define FERROCE_DEVICE_FEATURES_GENERAL_SERVICE_INTERFACE_SHIFT 8
#define FERROCE_DEVICE_FEATURES_GENERAL_SERVICE_INTERFACE_MASK 0x100u
// MODIFY_CQ with another ring. Before contract 1.6: always, without this bit.
#define FERROCE_DEVICE_FEATURES_CQ_RESIZE_SHIFT 9
#define FERROCE_DEVICE_FEATURES_CQ_RESIZE_MASK 0x200u
// Software may choose the numbers of new objects (contract 1.9).
#define FERROCE_DEVICE_FEATURES_CHOSEN_NUMBERS_SHIFT 10
#define FERROCE_DEVICE_FEATURES_CHOSEN_NUMBERS_MASK 0x400u
// A member of a multicast group gets what it sends there, unless its QpShape says otherwise
// (contract 1.11).
#define FERROCE_DEVICE_FEATURES_OWN_MULTICAST_SHIFT 11
#define FERROCE_DEVICE_FEATURES_OWN_MULTICAST_MASK 0x800u
// FLUSH that makes writes visible to all readers, RC and XRC (contract 1.14).
#define FERROCE_DEVICE_FEATURES_FLUSH_SHIFT 12
#define FERROCE_DEVICE_FEATURES_FLUSH_MASK 0x1000u
// FLUSH that makes writes persistent (contract 1.14).
#define FERROCE_DEVICE_FEATURES_PERSISTENT_FLUSH_SHIFT 13
#define FERROCE_DEVICE_FEATURES_PERSISTENT_FLUSH_MASK 0x2000u
// ATOMIC WRITE, RC and XRC (contract 1.14).
#define FERROCE_DEVICE_FEATURES_ATOMIC_WRITE_SHIFT 14
#define FERROCE_DEVICE_FEATURES_ATOMIC_WRITE_MASK 0x4000u
// Memory regions may be on demand: RC, XRC and UD (contract 1.15).
#define FERROCE_DEVICE_FEATURES_ON_DEMAND_PAGING_SHIFT 15
#define FERROCE_DEVICE_FEATURES_ON_DEMAND_PAGING_MASK 0x8000u

// First word of a send WQE.
// A SendOpcode.
#define FERROCE_CONTROL_WORD_OPCODE_SHIFT 0
#define FERROCE_CONTROL_WORD_OPCODE_MASK 0xffu
// Blocks of this WQE, 1 to 10.
#define FERROCE_CONTROL_WORD_BLOCKS_SHIFT 16
#define FERROCE_CONTROL_WORD_BLOCKS_MASK 0x1f0000u
// Data segments behind the other segments, 0 to 16; zero when inline.
#define FERROCE_CONTROL_WORD_DATA_SEGMENTS_SHIFT 24
#define FERROCE_CONTROL_WORD_DATA_SEGMENTS_MASK 0x1f000000u
// A CQE is written also on success.
#define FERROCE_CONTROL_WORD_SIGNALED_SHIFT 8
#define FERROCE_CONTROL_WORD_SIGNALED_MASK 0x100u
// The peer's receive completion is a solicited event.
#define FERROCE_CONTROL_WORD_SOLICITED_SHIFT 9
#define FERROCE_CONTROL_WORD_SOLICITED_MASK 0x200u
// Wait until all earlier READs and atomics are done.
#define FERROCE_CONTROL_WORD_FENCE_SHIFT 10
#define FERROCE_CONTROL_WORD_FENCE_MASK 0x400u
// The payload lies in the WQE, behind an InlineHeader.
#define FERROCE_CONTROL_WORD_INLINE_SHIFT 11
#define FERROCE_CONTROL_WORD_INLINE_MASK 0x800u

// Last word of a CQE.
// A CqeOpcode. Not defined when the status is an error, except that bit 7 distinguishes receive
// from send.
#define FERROCE_CQE_WORD_OPCODE_SHIFT 0
#define FERROCE_CQE_WORD_OPCODE_MASK 0xffu
// A CqeStatus.
#define FERROCE_CQE_WORD_STATUS_SHIFT 8
#define FERROCE_CQE_WORD_STATUS_MASK 0xff00u
// Detail of an error: a VendorError, as far as the device knows it.
#define FERROCE_CQE_WORD_VENDOR_ERROR_SHIFT 16
#define FERROCE_CQE_WORD_VENDOR_ERROR_MASK 0xff0000u
// The immediate field is valid.
#define FERROCE_CQE_WORD_WITH_IMMEDIATE_SHIFT 24
#define FERROCE_CQE_WORD_WITH_IMMEDIATE_MASK 0x1000000u
// The immediate field holds the remote key that was invalidated (little-endian).
#define FERROCE_CQE_WORD_WITH_INVALIDATE_SHIFT 25
#define FERROCE_CQE_WORD_WITH_INVALIDATE_MASK 0x2000000u
// The first 40 bytes of the buffer hold the IP header.
#define FERROCE_CQE_WORD_WITH_GRH_SHIFT 26
#define FERROCE_CQE_WORD_WITH_GRH_MASK 0x4000000u
// With with_grh: that IP header is IPv4, in bytes 20 to 39.
#define FERROCE_CQE_WORD_IPV4_SHIFT 29
#define FERROCE_CQE_WORD_IPV4_MASK 0x20000000u
// wqe_index is the tag of a shared receive WQE.
#define FERROCE_CQE_WORD_SHARED_SHIFT 28
#define FERROCE_CQE_WORD_SHARED_MASK 0x10000000u
// The sender asked for a solicited event.
#define FERROCE_CQE_WORD_SOLICITED_SHIFT 27
#define FERROCE_CQE_WORD_SOLICITED_MASK 0x8000000u
// One on even laps of the ring.
#define FERROCE_CQE_WORD_OWNER_SHIFT 31
#define FERROCE_CQE_WORD_OWNER_MASK 0x80000000u

// Last word of an EQE.
// An EventType.
#define FERROCE_EQE_WORD_EVENT_SHIFT 0
#define FERROCE_EQE_WORD_EVENT_MASK 0xffu
// One on even laps of the ring.
#define FERROCE_EQE_WORD_OWNER_SHIFT 31
#define FERROCE_EQE_WORD_OWNER_MASK 0x80000000u

// Remote access rights of a QP, and local and remote rights of a memory region.
// The device may write for receives and READs.
#define FERROCE_ACCESS_RIGHTS_LOCAL_WRITE_SHIFT 0
#define FERROCE_ACCESS_RIGHTS_LOCAL_WRITE_MASK 0x1u
// RDMA WRITE.
#define FERROCE_ACCESS_RIGHTS_REMOTE_WRITE_SHIFT 1
#define FERROCE_ACCESS_RIGHTS_REMOTE_WRITE_MASK 0x2u
// RDMA READ.
#define FERROCE_ACCESS_RIGHTS_REMOTE_READ_SHIFT 2
#define FERROCE_ACCESS_RIGHTS_REMOTE_READ_MASK 0x4u
// Atomics.
#define FERROCE_ACCESS_RIGHTS_REMOTE_ATOMIC_SHIFT 3
#define FERROCE_ACCESS_RIGHTS_REMOTE_ATOMIC_MASK 0x8u
// Memory windows may be bound.
#define FERROCE_ACCESS_RIGHTS_WINDOW_BIND_SHIFT 4
#define FERROCE_ACCESS_RIGHTS_WINDOW_BIND_MASK 0x10u
// Writes may pass each other.
#define FERROCE_ACCESS_RIGHTS_RELAXED_ORDERING_SHIFT 5
#define FERROCE_ACCESS_RIGHTS_RELAXED_ORDERING_MASK 0x20u
// Window of type 2: peers name its first byte 0.
#define FERROCE_ACCESS_RIGHTS_ZERO_BASED_SHIFT 6
#define FERROCE_ACCESS_RIGHTS_ZERO_BASED_MASK 0x40u
// FLUSH that makes writes visible to all readers (contract 1.14).
#define FERROCE_ACCESS_RIGHTS_FLUSH_GLOBAL_SHIFT 8
#define FERROCE_ACCESS_RIGHTS_FLUSH_GLOBAL_MASK 0x100u
// FLUSH that makes writes persistent (contract 1.14).
#define FERROCE_ACCESS_RIGHTS_FLUSH_PERSISTENT_SHIFT 9
#define FERROCE_ACCESS_RIGHTS_FLUSH_PERSISTENT_MASK 0x200u

// Shape of a QP's rings.
// Base-2 logarithm of the send queue, in 64-byte blocks.
#define FERROCE_QP_SHAPE_LOG_SEND_BLOCKS_SHIFT 0
#define FERROCE_QP_SHAPE_LOG_SEND_BLOCKS_MASK 0xffu
// Base-2 logarithm of the receive queue, in entries.
#define FERROCE_QP_SHAPE_LOG_RECEIVES_SHIFT 8
#define FERROCE_QP_SHAPE_LOG_RECEIVES_MASK 0xff00u
// Base-2 logarithm of the bytes of one receive entry, 4 to 8.
#define FERROCE_QP_SHAPE_LOG_RECEIVE_STRIDE_SHIFT 16
#define FERROCE_QP_SHAPE_LOG_RECEIVE_STRIDE_MASK 0xff0000u
// UD: it does not get the datagrams to groups that it sent itself (contract 1.11).
#define FERROCE_QP_SHAPE_BLOCKS_OWN_MULTICAST_SHIFT 30
#define FERROCE_QP_SHAPE_BLOCKS_OWN_MULTICAST_MASK 0x40000000u
// Receives come from the shared receive queue.
#define FERROCE_QP_SHAPE_USES_SRQ_SHIFT 31
#define FERROCE_QP_SHAPE_USES_SRQ_MASK 0x80000000u

// Retry attributes of a QP.
// Retries after a timeout or sequence error.
#define FERROCE_RETRY_ATTRIBUTES_RETRY_COUNT_SHIFT 0
#define FERROCE_RETRY_ATTRIBUTES_RETRY_COUNT_MASK 0x7u
// Retries after an RNR NAK; 7: without a limit.
#define FERROCE_RETRY_ATTRIBUTES_RNR_RETRY_SHIFT 4
#define FERROCE_RETRY_ATTRIBUTES_RNR_RETRY_MASK 0x70u
// Local ACK timeout, 4.096 us x 2^n; zero: none.
#define FERROCE_RETRY_ATTRIBUTES_TIMEOUT_SHIFT 8
#define FERROCE_RETRY_ATTRIBUTES_TIMEOUT_MASK 0x1f00u
// Timer code of the RNR NAKs it sends.
#define FERROCE_RETRY_ATTRIBUTES_MIN_RNR_TIMER_SHIFT 16
#define FERROCE_RETRY_ATTRIBUTES_MIN_RNR_TIMER_MASK 0x1f0000u

// First word of a memory protection table entry.
// Base-2 logarithm of the page size: 12, 21 or 30.
#define FERROCE_MEMORY_ENTRY_WORD_LOG_PAGE_SIZE_SHIFT 0
#define FERROCE_MEMORY_ENTRY_WORD_LOG_PAGE_SIZE_MASK 0xffu
// The entry is in use.
#define FERROCE_MEMORY_ENTRY_WORD_VALID_SHIFT 8
#define FERROCE_MEMORY_ENTRY_WORD_VALID_MASK 0x100u
// No translation: translation is the IOVA of the first byte.
#define FERROCE_MEMORY_ENTRY_WORD_DIRECT_SHIFT 9
#define FERROCE_MEMORY_ENTRY_WORD_DIRECT_MASK 0x200u
// A memory window.
#define FERROCE_MEMORY_ENTRY_WORD_WINDOW_SHIFT 10
#define FERROCE_MEMORY_ENTRY_WORD_WINDOW_MASK 0x400u
// A window of type 2B: only the QP that bound it may be used to reach it.
#define FERROCE_MEMORY_ENTRY_WORD_WINDOW_TYPE_2_SHIFT 11
#define FERROCE_MEMORY_ENTRY_WORD_WINDOW_TYPE_2_MASK 0x800u
// Reads give zeros, writes are dropped.
#define FERROCE_MEMORY_ENTRY_WORD_NULL_SHIFT 12
#define FERROCE_MEMORY_ENTRY_WORD_NULL_MASK 0x1000u
// translation is the offset of the first byte in the device's memory (BAR4).
#define FERROCE_MEMORY_ENTRY_WORD_DEVICE_MEMORY_SHIFT 13
#define FERROCE_MEMORY_ENTRY_WORD_DEVICE_MEMORY_MASK 0x2000u
// The window is bound. Set by the device.
#define FERROCE_MEMORY_ENTRY_WORD_BOUND_SHIFT 14
#define FERROCE_MEMORY_ENTRY_WORD_BOUND_MASK 0x4000u
// On demand: an access to a page that is not present is a page fault (contract 1.15).
#define FERROCE_MEMORY_ENTRY_WORD_ON_DEMAND_SHIFT 15
#define FERROCE_MEMORY_ENTRY_WORD_ON_DEMAND_MASK 0x8000u

// Memory translation table entry: one page of a memory region.
// IOVA of the page, divided by 4096.
#define FERROCE_TRANSLATION_ENTRY_PAGE_NUMBER_SHIFT 12
#define FERROCE_TRANSLATION_ENTRY_PAGE_NUMBER_MASK 0xfffffffffffff000ull
// The page may be used.
#define FERROCE_TRANSLATION_ENTRY_PRESENT_SHIFT 0
#define FERROCE_TRANSLATION_ENTRY_PRESENT_MASK 0x1ull


// ---- Structures in memory ----

// Command queue entry.
struct ferroce_command_entry {
    // What to do.
    uint16_t opcode;
    // Zero.
    uint16_t reserved_02;
    // Zero.
    uint32_t reserved_04;
    // Number of the object, NewNumber, or zero.
    uint64_t argument;
    // Input mailbox, 64-byte aligned.
    uint64_t input_iova;
    // Output mailbox, 64-byte aligned.
    uint64_t output_iova;
    // Bytes of the input: exactly the size of its structure.
    uint32_t input_length;
    // Bytes of the output mailbox: at least the size of its structure.
    uint32_t output_length;
    // Zero.
    uint64_t reserved_28;
    // Written by the device: number or key of the new object.
    uint64_t result;
    // Status and ownership; written last.
    uint64_t completion;
};
FERROCE_ASSERT(sizeof(struct ferroce_command_entry) == 64);
FERROCE_ASSERT(offsetof(struct ferroce_command_entry, opcode) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_command_entry, reserved_02) == 0x2);
FERROCE_ASSERT(offsetof(struct ferroce_command_entry, reserved_04) == 0x4);
FERROCE_ASSERT(offsetof(struct ferroce_command_entry, argument) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_command_entry, input_iova) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_command_entry, output_iova) == 0x18);
FERROCE_ASSERT(offsetof(struct ferroce_command_entry, input_length) == 0x20);
FERROCE_ASSERT(offsetof(struct ferroce_command_entry, output_length) == 0x24);
FERROCE_ASSERT(offsetof(struct ferroce_command_entry, reserved_28) == 0x28);
FERROCE_ASSERT(offsetof(struct ferroce_command_entry, result) == 0x30);
FERROCE_ASSERT(offsetof(struct ferroce_command_entry, completion) == 0x38);

// Input of SET_CONTEXT_TABLES: where the context tables lie in host memory.
struct ferroce_context_tables {
    // IOVA of the QP context table.
    uint64_t qpc_base;
    // IOVA of the CQ context table.
    uint64_t cqc_base;
    // IOVA of the SRQ context table.
    uint64_t srqc_base;
    // IOVA of the memory protection table.
    uint64_t mpt_base;
    // IOVA of the memory translation table.
    uint64_t mtt_base;
    // Base-2 logarithm of the entries of the QP context table.
    uint8_t log_qps;
    // The same of the CQ context table.
    uint8_t log_cqs;
    // The same of the SRQ context table.
    uint8_t log_srqs;
    // The same of the memory protection table.
    uint8_t log_mrs;
    // The same of the memory translation table.
    uint8_t log_mtts;
    // Zero.
    uint8_t reserved_2d[3];
    // IOVA of the private area, 4096-byte aligned; zero: none.
    uint64_t private_base;
    // Zero.
    uint64_t reserved_38[3];
};
FERROCE_ASSERT(sizeof(struct ferroce_context_tables) == 80);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, qpc_base) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, cqc_base) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, srqc_base) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, mpt_base) == 0x18);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, mtt_base) == 0x20);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, log_qps) == 0x28);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, log_cqs) == 0x29);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, log_srqs) == 0x2a);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, log_mrs) == 0x2b);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, log_mtts) == 0x2c);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, reserved_2d) == 0x2d);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, private_base) == 0x30);
FERROCE_ASSERT(offsetof(struct ferroce_context_tables, reserved_38) == 0x38);

// Input of ATTACH_MULTICAST and DETACH_MULTICAST.
struct ferroce_multicast_group {
    // Multicast GID: an IPv6 multicast address, or an IPv4-mapped one.
    uint8_t gid[16];
};
FERROCE_ASSERT(sizeof(struct ferroce_multicast_group) == 16);
FERROCE_ASSERT(offsetof(struct ferroce_multicast_group, gid) == 0x0);

// Output of QUERY_DEVICE.
struct ferroce_device_capabilities {
    // Text, padded with zeros.
    uint8_t firmware_version[16];
    // QPN of entry 0 of the QP context table.
    uint32_t qpn_base;
    // Entries at the start of the table that CREATE_QP gives to no QP other than GSI.
    uint32_t reserved_qps;
    // Bytes of the longest message.
    uint64_t max_message_length;
    // Bytes of the longest memory region.
    uint64_t max_mr_length;
    // Page sizes of memory regions: the sum of them.
    uint64_t page_sizes;
    // Base-2 logarithm of the largest QP context table.
    uint8_t log_max_qps;
    // The same of the CQ context table.
    uint8_t log_max_cqs;
    // The same of the SRQ context table.
    uint8_t log_max_srqs;
    // The same of the memory protection table.
    uint8_t log_max_mrs;
    // The same of the memory translation table.
    uint8_t log_max_mtts;
    // The same of a send queue, in 64-byte blocks.
    uint8_t log_max_send_blocks;
    // The same of a receive queue, in entries.
    uint8_t log_max_receives;
    // The same of a CQ.
    uint8_t log_max_cqes;
    // The same of an event queue.
    uint8_t log_max_eqes;
    // Data segments of a WQE.
    uint8_t max_data_segments;
    // Blocks of a send WQE.
    uint8_t max_send_blocks;
    // Processing units; a QP is pinned to one.
    uint8_t processing_units;
    // Bytes of an inline payload.
    uint16_t max_inline;
    // Entries of the GID table.
    uint16_t max_gids;
    // READs and atomics outstanding as requester, for each QP.
    uint8_t max_rd_atomic;
    // READs and atomics held as responder, for each QP.
    uint8_t max_dest_rd_atomic;
    // Local ACK delay as its 5-bit code (4.096 us x 2^n).
    uint8_t local_ack_delay;
    // PathMtuCode of the largest path MTU.
    uint8_t max_path_mtu;
    // What is implemented.
    uint32_t features;
    // Bytes of the device's own memory (BAR4).
    uint32_t device_memory_length;
    // Multicast groups to which QPs may be attached.
    uint32_t max_multicast_groups;
    // QPs that may be attached to one multicast group.
    uint32_t max_multicast_qps;
    // Base-2 logarithm of the QPs that need no private area.
    uint8_t log_resident_qps;
    // Base-2 logarithm of the bytes of private area for each QP, 6 to 12; zero: none.
    uint8_t log_private_bytes;
    // Zero.
    uint16_t reserved_56;
    // Zero.
    uint64_t reserved_58[5];
};
FERROCE_ASSERT(sizeof(struct ferroce_device_capabilities) == 128);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, firmware_version) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, qpn_base) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, reserved_qps) == 0x14);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, max_message_length) == 0x18);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, max_mr_length) == 0x20);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, page_sizes) == 0x28);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, log_max_qps) == 0x30);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, log_max_cqs) == 0x31);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, log_max_srqs) == 0x32);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, log_max_mrs) == 0x33);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, log_max_mtts) == 0x34);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, log_max_send_blocks) == 0x35);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, log_max_receives) == 0x36);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, log_max_cqes) == 0x37);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, log_max_eqes) == 0x38);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, max_data_segments) == 0x39);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, max_send_blocks) == 0x3a);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, processing_units) == 0x3b);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, max_inline) == 0x3c);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, max_gids) == 0x3e);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, max_rd_atomic) == 0x40);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, max_dest_rd_atomic) == 0x41);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, local_ack_delay) == 0x42);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, max_path_mtu) == 0x43);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, features) == 0x44);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, device_memory_length) == 0x48);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, max_multicast_groups) == 0x4c);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, max_multicast_qps) == 0x50);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, log_resident_qps) == 0x54);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, log_private_bytes) == 0x55);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, reserved_56) == 0x56);
FERROCE_ASSERT(offsetof(struct ferroce_device_capabilities, reserved_58) == 0x58);

// A block of a push: one write of 64 bytes.
struct ferroce_push_block {
    // Kind PUSH_n for a push of n blocks, QPN, and the producer index behind the WQE: the same in
    // all blocks of a push.
    uint64_t doorbell;
    // Seven words of the WQE. Block 0 has the first seven, block 1 the next; behind the end of the
    // WQE: zero.
    uint64_t words[7];
};
FERROCE_ASSERT(sizeof(struct ferroce_push_block) == 64);
FERROCE_ASSERT(offsetof(struct ferroce_push_block, doorbell) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_push_block, words) == 0x8);

// Head of every send WQE.
struct ferroce_control_segment {
    // Operation, size and flags.
    uint32_t control;
    // Producer index of this WQE's first block, modulo 2^32; echoed in the CQE. A WQE whose index
    // does not match its place is stale: the QP fails.
    uint32_t index;
    // Immediate data as it goes on the wire, or the key to invalidate (little-endian): the peer's,
    // or our own for LOCAL_INVALIDATE.
    uint8_t immediate[4];
    // XRC: number of the peer's shared receive queue; else zero.
    uint32_t remote_srqn;
};
FERROCE_ASSERT(sizeof(struct ferroce_control_segment) == 16);
FERROCE_ASSERT(offsetof(struct ferroce_control_segment, control) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_control_segment, index) == 0x4);
FERROCE_ASSERT(offsetof(struct ferroce_control_segment, immediate) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_control_segment, remote_srqn) == 0xc);

// Remote memory of an RDMA or atomic operation.
struct ferroce_remote_address_segment {
    // Address in the remote memory region.
    uint64_t virtual_address;
    // Remote key.
    uint32_t r_key;
    // Zero.
    uint32_t reserved;
};
FERROCE_ASSERT(sizeof(struct ferroce_remote_address_segment) == 16);
FERROCE_ASSERT(offsetof(struct ferroce_remote_address_segment, virtual_address) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_remote_address_segment, r_key) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_remote_address_segment, reserved) == 0xc);

// Operands of an atomic operation.
struct ferroce_atomic_segment {
    // Value to swap in, or to add.
    uint64_t swap_add;
    // Value to compare with.
    uint64_t compare;
};
FERROCE_ASSERT(sizeof(struct ferroce_atomic_segment) == 16);
FERROCE_ASSERT(offsetof(struct ferroce_atomic_segment, swap_add) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_atomic_segment, compare) == 0x8);

// Range and kind of a FLUSH.
struct ferroce_flush_segment {
    // Bytes from the remote address on; ignored for a whole region.
    uint32_t length;
    // The FETH as it goes on the wire, as a number: bit 0 global, bit 1 persistent, bits 5:4 zero
    // for the range, one for the whole region.
    uint32_t kind;
    // Zero.
    uint64_t reserved;
};
FERROCE_ASSERT(sizeof(struct ferroce_flush_segment) == 16);
FERROCE_ASSERT(offsetof(struct ferroce_flush_segment, length) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_flush_segment, kind) == 0x4);
FERROCE_ASSERT(offsetof(struct ferroce_flush_segment, reserved) == 0x8);

// What a memory window is bound to. Length zero: it is unbound.
struct ferroce_bind_segment {
    // New remote key of the window: its index, with a new variant.
    uint32_t r_key;
    // Local key of the memory region.
    uint32_t l_key;
    // First byte, as the region names it.
    uint64_t address;
    // Bytes.
    uint64_t length;
    // Remote rights; zero_based: peers name the first byte 0.
    uint32_t access;
    // Zero.
    uint32_t reserved;
};
FERROCE_ASSERT(sizeof(struct ferroce_bind_segment) == 32);
FERROCE_ASSERT(offsetof(struct ferroce_bind_segment, r_key) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_bind_segment, l_key) == 0x4);
FERROCE_ASSERT(offsetof(struct ferroce_bind_segment, address) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_bind_segment, length) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_bind_segment, access) == 0x18);
FERROCE_ASSERT(offsetof(struct ferroce_bind_segment, reserved) == 0x1c);

// Head of a WQE of a shared receive queue.
struct ferroce_shared_receive_segment {
    // Echoed in the completion as wqe_index; chosen by software.
    uint32_t tag;
    // Zero.
    uint32_t reserved_4;
    // Zero.
    uint64_t reserved_8;
};
FERROCE_ASSERT(sizeof(struct ferroce_shared_receive_segment) == 16);
FERROCE_ASSERT(offsetof(struct ferroce_shared_receive_segment, tag) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_shared_receive_segment, reserved_4) == 0x4);
FERROCE_ASSERT(offsetof(struct ferroce_shared_receive_segment, reserved_8) == 0x8);

// Path to a destination: everything that Ethernet, IP and UDP headers need.
struct ferroce_address_path {
    // Destination GID: an IPv6 or IPv4-mapped address.
    uint8_t dest_gid[16];
    // MAC address of the next hop.
    uint8_t dest_mac[6];
    // VLAN tag control information; 0xffff: no tag.
    uint16_t vlan;
    // Index in the function's GID table.
    uint16_t source_gid_index;
    // UDP source port.
    uint16_t udp_source_port;
    // IPv6 traffic class, IPv4 type of service.
    uint8_t traffic_class;
    // IPv6 hop limit, IPv4 time to live.
    uint8_t hop_limit;
    // Service level, 0 to 15: the Ethernet priority.
    uint8_t service_level;
    // Zero.
    uint8_t reserved;
    // IPv6 flow label, 20 bits.
    uint32_t flow_label;
    // Rate limit as an ibv_rate number; zero: none.
    uint32_t static_rate;
    // Zero.
    uint64_t reserved_28[2];
};
FERROCE_ASSERT(sizeof(struct ferroce_address_path) == 56);
FERROCE_ASSERT(offsetof(struct ferroce_address_path, dest_gid) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_address_path, dest_mac) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_address_path, vlan) == 0x16);
FERROCE_ASSERT(offsetof(struct ferroce_address_path, source_gid_index) == 0x18);
FERROCE_ASSERT(offsetof(struct ferroce_address_path, udp_source_port) == 0x1a);
FERROCE_ASSERT(offsetof(struct ferroce_address_path, traffic_class) == 0x1c);
FERROCE_ASSERT(offsetof(struct ferroce_address_path, hop_limit) == 0x1d);
FERROCE_ASSERT(offsetof(struct ferroce_address_path, service_level) == 0x1e);
FERROCE_ASSERT(offsetof(struct ferroce_address_path, reserved) == 0x1f);
FERROCE_ASSERT(offsetof(struct ferroce_address_path, flow_label) == 0x20);
FERROCE_ASSERT(offsetof(struct ferroce_address_path, static_rate) == 0x24);
FERROCE_ASSERT(offsetof(struct ferroce_address_path, reserved_28) == 0x28);

// Destination of a datagram.
struct ferroce_datagram_segment {
    // Q_Key of the destination; with bit 31 set: the QP's own is sent.
    uint32_t q_key;
    // Destination QPN, 24 bits.
    uint32_t dest_qpn;
    // Path to the destination.
    struct ferroce_address_path path;
};
FERROCE_ASSERT(sizeof(struct ferroce_datagram_segment) == 64);
FERROCE_ASSERT(offsetof(struct ferroce_datagram_segment, q_key) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_datagram_segment, dest_qpn) == 0x4);
FERROCE_ASSERT(offsetof(struct ferroce_datagram_segment, path) == 0x8);

// A piece of local memory.
struct ferroce_data_segment {
    // Virtual address in the local memory region.
    uint64_t address;
    // Bytes; zero is an empty piece.
    uint32_t length;
    // Local key.
    uint32_t l_key;
};
FERROCE_ASSERT(sizeof(struct ferroce_data_segment) == 16);
FERROCE_ASSERT(offsetof(struct ferroce_data_segment, address) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_data_segment, length) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_data_segment, l_key) == 0xc);

// Head of an inline payload; the bytes follow immediately.
struct ferroce_inline_header {
    // Bytes of the payload, 0 to 512.
    uint32_t length;
};
FERROCE_ASSERT(sizeof(struct ferroce_inline_header) == 4);
FERROCE_ASSERT(offsetof(struct ferroce_inline_header, length) == 0x0);

// Completion queue entry.
struct ferroce_cqe {
    // QPN whose WQE has completed, 24 bits.
    uint32_t qpn;
    // Send: producer index of the WQE's first block. Receive: index of the entry in the receive
    // queue. Free-running, modulo 2^32. A send CQE also frees all earlier unsignaled WQEs.
    uint32_t wqe_index;
    // Bytes received; READ and atomics: bytes read.
    uint32_t byte_count;
    // Immediate data as it came on the wire, or the invalidated key.
    uint8_t immediate[4];
    // Device clock when the CQE was made, in nanoseconds.
    uint64_t timestamp;
    // UD: QPN of the sender, 24 bits. XRC target QP: number of the shared receive queue.
    uint32_t source_qpn;
    // What, how, and who owns the entry.
    uint32_t word;
};
FERROCE_ASSERT(sizeof(struct ferroce_cqe) == 32);
FERROCE_ASSERT(offsetof(struct ferroce_cqe, qpn) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_cqe, wqe_index) == 0x4);
FERROCE_ASSERT(offsetof(struct ferroce_cqe, byte_count) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_cqe, immediate) == 0xc);
FERROCE_ASSERT(offsetof(struct ferroce_cqe, timestamp) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_cqe, source_qpn) == 0x18);
FERROCE_ASSERT(offsetof(struct ferroce_cqe, word) == 0x1c);

// Event queue entry.
struct ferroce_eqe {
    // CQN, QPN, SRQN, key or index.
    uint32_t number;
    // Index of this event, modulo 2^32.
    uint32_t sequence;
    // PAGE_FAULT: index of the page in the region. Otherwise zero.
    uint32_t page;
    // What, and who owns the entry.
    uint32_t word;
};
FERROCE_ASSERT(sizeof(struct ferroce_eqe) == 16);
FERROCE_ASSERT(offsetof(struct ferroce_eqe, number) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_eqe, sequence) == 0x4);
FERROCE_ASSERT(offsetof(struct ferroce_eqe, page) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_eqe, word) == 0xc);

// QP context.
struct ferroce_qp_context {
    // State.
    uint8_t state;
    // Transport service.
    uint8_t service;
    // Path MTU.
    uint8_t path_mtu;
    // Port number, from 1.
    uint8_t port;
    // Protection domain, 24 bits; chosen by software.
    uint32_t pd;
    // CQ of the send queue.
    uint32_t send_cqn;
    // CQ of the receive queue.
    uint32_t receive_cqn;
    // IOVA of the send queue's ring, 64-byte aligned.
    uint64_t send_base;
    // IOVA of the receive queue's ring, 64-byte aligned.
    uint64_t receive_base;
    // Sizes of the rings.
    uint32_t shape;
    // Shared receive queue, when used.
    uint32_t srqn;
    // BAR2 slot of the send queue.
    uint32_t send_doorbell_slot;
    // BAR2 slot of the receive queue.
    uint32_t receive_doorbell_slot;
    // What remote requests are accepted.
    uint32_t access;
    // Index of the P_Key.
    uint32_t p_key_index;
    // Q_Key (UD, GSI).
    uint32_t q_key;
    // Destination QPN (RC, UC).
    uint32_t dest_qpn;
    // PSN of the next request; in RTR to RTS the first one.
    uint32_t send_psn;
    // PSN expected next; in INIT to RTR the first one.
    uint32_t receive_psn;
    // Retry attributes.
    uint32_t retry;
    // READs and atomics outstanding as requester.
    uint8_t max_rd_atomic;
    // READs and atomics held as responder.
    uint8_t max_dest_rd_atomic;
    // Processing unit that runs this QP; set by the device.
    uint8_t processing_unit;
    // One while SQD is still draining; set by the device.
    uint8_t draining;
    // Path to the peer (RC, UC).
    struct ferroce_address_path path;
    // Producer index of the send queue, as last rung.
    uint32_t send_producer;
    // Index of the next send WQE to fetch.
    uint32_t send_fetched;
    // Producer index of the receive queue, as last rung.
    uint32_t receive_producer;
    // Index of the next receive WQE to use.
    uint32_t receive_consumer;
    // Oldest PSN not acknowledged.
    uint32_t unacknowledged_psn;
    // MSN: messages completed as responder, modulo 2^24.
    uint32_t message_sequence;
    // XRC domain (XRC target); chosen by software.
    uint32_t xrcd;
    // Zero.
    uint32_t reserved_a4;
    // Zero.
    uint64_t reserved_a8[11];
};
FERROCE_ASSERT(sizeof(struct ferroce_qp_context) == 256);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, state) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, service) == 0x1);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, path_mtu) == 0x2);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, port) == 0x3);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, pd) == 0x4);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, send_cqn) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, receive_cqn) == 0xc);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, send_base) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, receive_base) == 0x18);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, shape) == 0x20);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, srqn) == 0x24);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, send_doorbell_slot) == 0x28);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, receive_doorbell_slot) == 0x2c);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, access) == 0x30);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, p_key_index) == 0x34);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, q_key) == 0x38);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, dest_qpn) == 0x3c);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, send_psn) == 0x40);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, receive_psn) == 0x44);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, retry) == 0x48);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, max_rd_atomic) == 0x4c);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, max_dest_rd_atomic) == 0x4d);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, processing_unit) == 0x4e);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, draining) == 0x4f);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, path) == 0x50);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, send_producer) == 0x88);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, send_fetched) == 0x8c);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, receive_producer) == 0x90);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, receive_consumer) == 0x94);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, unacknowledged_psn) == 0x98);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, message_sequence) == 0x9c);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, xrcd) == 0xa0);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, reserved_a4) == 0xa4);
FERROCE_ASSERT(offsetof(struct ferroce_qp_context, reserved_a8) == 0xa8);

// Input of MODIFY_QP.
struct ferroce_modify_qp {
    // QpStateCode to go to; the present one to change attributes only.
    uint32_t state;
    // QpStateCode that the QP must be in; 0xff: any.
    uint32_t current_state;
    // Attributes to take from the context.
    uint32_t mask;
    // Zero.
    uint32_t reserved_0c;
    // Zero.
    uint64_t reserved_10[6];
    // The attributes.
    struct ferroce_qp_context context;
};
FERROCE_ASSERT(sizeof(struct ferroce_modify_qp) == 320);
FERROCE_ASSERT(offsetof(struct ferroce_modify_qp, state) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_modify_qp, current_state) == 0x4);
FERROCE_ASSERT(offsetof(struct ferroce_modify_qp, mask) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_modify_qp, reserved_0c) == 0xc);
FERROCE_ASSERT(offsetof(struct ferroce_modify_qp, reserved_10) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_modify_qp, context) == 0x40);

// Input of MODIFY_QP up to contract 1.5.
struct ferroce_short_modify_qp {
    // QpStateCode to go to; the present one to change attributes only.
    uint32_t state;
    // QpStateCode that the QP must be in; 0xff: any.
    uint32_t current_state;
    // Attributes to take from the context.
    uint32_t mask;
    // Zero.
    uint32_t reserved;
    // The attributes.
    struct ferroce_qp_context context;
};
FERROCE_ASSERT(sizeof(struct ferroce_short_modify_qp) == 272);
FERROCE_ASSERT(offsetof(struct ferroce_short_modify_qp, state) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_short_modify_qp, current_state) == 0x4);
FERROCE_ASSERT(offsetof(struct ferroce_short_modify_qp, mask) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_short_modify_qp, reserved) == 0xc);
FERROCE_ASSERT(offsetof(struct ferroce_short_modify_qp, context) == 0x10);

// CQ context.
struct ferroce_cq_context {
    // IOVA of the ring, 64-byte aligned.
    uint64_t base;
    // IOVA of the consumer record: a 32-bit consumer index, free-running, that software writes
    // after it has taken CQEs. The device reads it when the ring looks full.
    uint64_t consumer_record;
    // Base-2 logarithm of the entries.
    uint8_t log_size;
    // Zero: works. One: overrun or DMA error. Set by the device.
    uint8_t state;
    // Zero: not; one: for any CQE; two: for a solicited one. Set by the device.
    uint8_t armed;
    // Zero.
    uint8_t reserved_13;
    // Event queue that is notified.
    uint32_t eqn;
    // BAR2 slot for arming.
    uint32_t doorbell_slot;
    // CQEs written, modulo 2^32. Set by the device.
    uint32_t producer;
    // CQEs that one event may stand for; zero: no moderation.
    uint16_t moderation_count;
    // Microseconds that an event may wait for more CQEs.
    uint16_t moderation_us;
    // QPs and SRQs that use this CQ. Set by the device.
    uint32_t users;
    // Producer index behind the newest solicited or failed CQE. Set by the device.
    uint32_t solicited_producer;
    // Consumer index that the device has seen last. Set by the device.
    uint32_t consumer;
    // Producer index when the last event was raised: CQEs before it raise no other. Set by the
    // device.
    uint32_t notified_producer;
    // Zero.
    uint32_t reserved_34;
    // Zero.
    uint64_t reserved_38;
};
FERROCE_ASSERT(sizeof(struct ferroce_cq_context) == 64);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, base) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, consumer_record) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, log_size) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, state) == 0x11);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, armed) == 0x12);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, reserved_13) == 0x13);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, eqn) == 0x14);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, doorbell_slot) == 0x18);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, producer) == 0x1c);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, moderation_count) == 0x20);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, moderation_us) == 0x22);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, users) == 0x24);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, solicited_producer) == 0x28);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, consumer) == 0x2c);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, notified_producer) == 0x30);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, reserved_34) == 0x34);
FERROCE_ASSERT(offsetof(struct ferroce_cq_context, reserved_38) == 0x38);

// Shared receive queue context. Number 0 is never used.
struct ferroce_srq_context {
    // IOVA of the ring, 64-byte aligned.
    uint64_t base;
    // Base-2 logarithm of the entries.
    uint8_t log_size;
    // Base-2 logarithm of the bytes of one entry, 5 to 9.
    uint8_t log_stride;
    // SRQ_LIMIT is raised once when fewer entries are left; zero: off.
    uint16_t limit;
    // Protection domain: of the buffers, and of XRC requests that name this queue.
    uint32_t pd;
    // BAR2 slot.
    uint32_t doorbell_slot;
    // Producer index, as last rung.
    uint32_t producer;
    // Index of the next entry to use.
    uint32_t consumer;
    // QPs that use it.
    uint32_t users;
    // XRC domain whose target QPs may use it; zero: no XRC.
    uint32_t xrcd;
    // XRC: the CQ of its completions.
    uint32_t cqn;
    // Zero.
    uint64_t reserved_28[3];
};
FERROCE_ASSERT(sizeof(struct ferroce_srq_context) == 64);
FERROCE_ASSERT(offsetof(struct ferroce_srq_context, base) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_srq_context, log_size) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_srq_context, log_stride) == 0x9);
FERROCE_ASSERT(offsetof(struct ferroce_srq_context, limit) == 0xa);
FERROCE_ASSERT(offsetof(struct ferroce_srq_context, pd) == 0xc);
FERROCE_ASSERT(offsetof(struct ferroce_srq_context, doorbell_slot) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_srq_context, producer) == 0x14);
FERROCE_ASSERT(offsetof(struct ferroce_srq_context, consumer) == 0x18);
FERROCE_ASSERT(offsetof(struct ferroce_srq_context, users) == 0x1c);
FERROCE_ASSERT(offsetof(struct ferroce_srq_context, xrcd) == 0x20);
FERROCE_ASSERT(offsetof(struct ferroce_srq_context, cqn) == 0x24);
FERROCE_ASSERT(offsetof(struct ferroce_srq_context, reserved_28) == 0x28);

// Event queue context.
struct ferroce_eq_context {
    // IOVA of the ring, 64-byte aligned.
    uint64_t base;
    // Base-2 logarithm of the entries.
    uint8_t log_size;
    // One: the next event interrupts. Set by the device.
    uint8_t armed;
    // MSI-X vector.
    uint16_t vector;
    // Events written, modulo 2^32. Set by the device.
    uint32_t producer;
    // Consumer index, as last rung.
    uint32_t consumer;
    // Least microseconds between two interrupts.
    uint32_t moderation_us;
    // Zero.
    uint64_t reserved_18;
};
FERROCE_ASSERT(sizeof(struct ferroce_eq_context) == 32);
FERROCE_ASSERT(offsetof(struct ferroce_eq_context, base) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_eq_context, log_size) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_eq_context, armed) == 0x9);
FERROCE_ASSERT(offsetof(struct ferroce_eq_context, vector) == 0xa);
FERROCE_ASSERT(offsetof(struct ferroce_eq_context, producer) == 0xc);
FERROCE_ASSERT(offsetof(struct ferroce_eq_context, consumer) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_eq_context, moderation_us) == 0x14);
FERROCE_ASSERT(offsetof(struct ferroce_eq_context, reserved_18) == 0x18);

// Entry of the GID table.
struct ferroce_address_entry {
    // GID: an IPv6 or IPv4-mapped address. All zero: no entry.
    uint8_t gid[16];
    // Source MAC address.
    uint8_t mac[6];
    // VLAN ID; 0xffff: none.
    uint16_t vlan;
    // Zero.
    uint64_t reserved_18;
};
FERROCE_ASSERT(sizeof(struct ferroce_address_entry) == 32);
FERROCE_ASSERT(offsetof(struct ferroce_address_entry, gid) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_address_entry, mac) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_address_entry, vlan) == 0x16);
FERROCE_ASSERT(offsetof(struct ferroce_address_entry, reserved_18) == 0x18);

// Memory protection table entry: a memory region or a window.
struct ferroce_memory_entry {
    // Kind and page size.
    uint32_t word;
    // Key: table index in bits 31:8, variant in bits 7:0. CREATE_MR: the variant is taken from
    // here, the index is chosen by the device.
    uint32_t key;
    // Protection domain.
    uint32_t pd;
    // Rights.
    uint32_t access;
    // First virtual address of the region, as WQEs and peers name it.
    uint64_t start;
    // Bytes.
    uint64_t length;
    // Index of the region's first MTT entry, or an IOVA when direct.
    uint64_t translation;
    // Offset of start inside the first page.
    uint64_t first_page_offset;
    // Window: key of the region it is bound to. Set by the device.
    uint32_t region_key;
    // Window of type 2: the QP that bound it. Set by the device.
    uint32_t qpn;
    // Region: windows bound to it. Set by the device.
    uint32_t windows;
    // Zero.
    uint32_t reserved_3c;
};
FERROCE_ASSERT(sizeof(struct ferroce_memory_entry) == 64);
FERROCE_ASSERT(offsetof(struct ferroce_memory_entry, word) == 0x0);
FERROCE_ASSERT(offsetof(struct ferroce_memory_entry, key) == 0x4);
FERROCE_ASSERT(offsetof(struct ferroce_memory_entry, pd) == 0x8);
FERROCE_ASSERT(offsetof(struct ferroce_memory_entry, access) == 0xc);
FERROCE_ASSERT(offsetof(struct ferroce_memory_entry, start) == 0x10);
FERROCE_ASSERT(offsetof(struct ferroce_memory_entry, length) == 0x18);
FERROCE_ASSERT(offsetof(struct ferroce_memory_entry, translation) == 0x20);
FERROCE_ASSERT(offsetof(struct ferroce_memory_entry, first_page_offset) == 0x28);
FERROCE_ASSERT(offsetof(struct ferroce_memory_entry, region_key) == 0x30);
FERROCE_ASSERT(offsetof(struct ferroce_memory_entry, qpn) == 0x34);
FERROCE_ASSERT(offsetof(struct ferroce_memory_entry, windows) == 0x38);
FERROCE_ASSERT(offsetof(struct ferroce_memory_entry, reserved_3c) == 0x3c);


// ---- Mailboxes of commands, in bytes ----

#define FERROCE_INPUT_BYTES_NOP 0x0u
#define FERROCE_OUTPUT_BYTES_NOP 0x0u
#define FERROCE_INPUT_BYTES_QUERY_DEVICE 0x0u
#define FERROCE_OUTPUT_BYTES_QUERY_DEVICE 0x80u
#define FERROCE_INPUT_BYTES_SET_CONTEXT_TABLES 0x50u
#define FERROCE_OUTPUT_BYTES_SET_CONTEXT_TABLES 0x0u
#define FERROCE_INPUT_BYTES_SET_ADDRESS 0x20u
#define FERROCE_OUTPUT_BYTES_SET_ADDRESS 0x0u
#define FERROCE_INPUT_BYTES_QUERY_ADDRESS 0x0u
#define FERROCE_OUTPUT_BYTES_QUERY_ADDRESS 0x20u
#define FERROCE_INPUT_BYTES_CREATE_EQ 0x20u
#define FERROCE_OUTPUT_BYTES_CREATE_EQ 0x0u
#define FERROCE_INPUT_BYTES_QUERY_EQ 0x0u
#define FERROCE_OUTPUT_BYTES_QUERY_EQ 0x20u
#define FERROCE_INPUT_BYTES_DESTROY_EQ 0x0u
#define FERROCE_OUTPUT_BYTES_DESTROY_EQ 0x0u
#define FERROCE_INPUT_BYTES_MODIFY_EQ 0x20u
#define FERROCE_OUTPUT_BYTES_MODIFY_EQ 0x0u
#define FERROCE_INPUT_BYTES_CREATE_CQ 0x40u
#define FERROCE_OUTPUT_BYTES_CREATE_CQ 0x0u
#define FERROCE_INPUT_BYTES_QUERY_CQ 0x0u
#define FERROCE_OUTPUT_BYTES_QUERY_CQ 0x40u
#define FERROCE_INPUT_BYTES_DESTROY_CQ 0x0u
#define FERROCE_OUTPUT_BYTES_DESTROY_CQ 0x0u
#define FERROCE_INPUT_BYTES_MODIFY_CQ 0x40u
#define FERROCE_OUTPUT_BYTES_MODIFY_CQ 0x0u
#define FERROCE_INPUT_BYTES_CREATE_QP 0x100u
#define FERROCE_OUTPUT_BYTES_CREATE_QP 0x0u
#define FERROCE_INPUT_BYTES_QUERY_QP 0x0u
#define FERROCE_OUTPUT_BYTES_QUERY_QP 0x100u
#define FERROCE_INPUT_BYTES_DESTROY_QP 0x0u
#define FERROCE_OUTPUT_BYTES_DESTROY_QP 0x0u
#define FERROCE_INPUT_BYTES_MODIFY_QP 0x140u
#define FERROCE_OUTPUT_BYTES_MODIFY_QP 0x0u
#define FERROCE_INPUT_BYTES_ATTACH_MULTICAST 0x10u
#define FERROCE_OUTPUT_BYTES_ATTACH_MULTICAST 0x0u
#define FERROCE_INPUT_BYTES_DETACH_MULTICAST 0x10u
#define FERROCE_OUTPUT_BYTES_DETACH_MULTICAST 0x0u
#define FERROCE_INPUT_BYTES_CREATE_SRQ 0x40u
#define FERROCE_OUTPUT_BYTES_CREATE_SRQ 0x0u
#define FERROCE_INPUT_BYTES_QUERY_SRQ 0x0u
#define FERROCE_OUTPUT_BYTES_QUERY_SRQ 0x40u
#define FERROCE_INPUT_BYTES_DESTROY_SRQ 0x0u
#define FERROCE_OUTPUT_BYTES_DESTROY_SRQ 0x0u
#define FERROCE_INPUT_BYTES_MODIFY_SRQ 0x40u
#define FERROCE_OUTPUT_BYTES_MODIFY_SRQ 0x0u
#define FERROCE_INPUT_BYTES_CREATE_MR 0x40u
#define FERROCE_OUTPUT_BYTES_CREATE_MR 0x0u
#define FERROCE_INPUT_BYTES_QUERY_MR 0x0u
#define FERROCE_OUTPUT_BYTES_QUERY_MR 0x40u
#define FERROCE_INPUT_BYTES_DESTROY_MR 0x0u
#define FERROCE_OUTPUT_BYTES_DESTROY_MR 0x0u
#define FERROCE_INPUT_BYTES_MODIFY_MR 0x40u
#define FERROCE_OUTPUT_BYTES_MODIFY_MR 0x0u
#define FERROCE_INPUT_BYTES_SYNC_MR 0x0u
#define FERROCE_OUTPUT_BYTES_SYNC_MR 0x0u

#endif

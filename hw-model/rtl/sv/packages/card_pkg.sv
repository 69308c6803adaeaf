// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Bundles that the blocks of the card hand to each other, and the sizes of the card.
// The interface to software is in ferroce_pkg; nothing in this package is part of the contract.
/* verilator lint_off UNUSEDPARAM */   // each module uses only some of them
package card_pkg;
    // ------------------------------------------------------------------------------------- sizes
    localparam int LOG_QPS = 8;            // entries of the QP context table, all resident
    localparam int LOG_CQS = 8;
    localparam int LOG_GIDS = 4;
    localparam int GIDS = 1 << LOG_GIDS;
    localparam int LOG_EQS = 4;            // and vectors
    localparam int LOG_MRS = 12;           // entries of the memory protection table
    localparam int LOG_MTTS = 20;          // of the memory translation table
    localparam int LOG_RING = 18;          // entries of a send queue, receive queue, CQ, event queue
    localparam int LOG_DOORBELL_PAGES = 4; // 512 slots each
    localparam int LOG_SLOTS = LOG_DOORBELL_PAGES + 9;
    localparam int LOG_OUTSTANDING = 6;    // unacknowledged requests of a QP
    localparam int MAX_RD_ATOMIC = 16;
    localparam int MAX_SEGMENTS = 16;      // data segments of a WQE
    localparam int MAX_PIECE_BYTES = 4096; // of a piece: it does not leave a page or a packet
    localparam int LOG_TX_PACKETS = 1;     // waiting packets of a source
    localparam int LOG_TX_PIECES = 6;      // of a source: a packet's pieces may come before it
    localparam int LOG_TX_TURNS = 4;       // packets whose payload is being read
    localparam int LOG_TX_LINES = 8;       // lines that are requested ahead: a host may take 250 cycles
    localparam int LOG_READS = 8;          // outstanding lines of a client of dma_read
    localparam int TAG_BITS = 1 + 3 + LOG_READS;   // of a read_tag_t
    localparam logic [23:0] QPN_BASE = 24'h000100;   // QPN of entry 0: bits 7:0 are the index
    localparam logic [15:0] DEFAULT_P_KEY = 16'hffff;
    localparam int RESERVED_QPS = 2;       // entries of no other QP: QP 0, which does not exist, and the GSI
    localparam logic [LOG_QPS-1:0] GSI_INDEX = LOG_QPS'(1);   // its QPN is 1, too
    localparam logic [7:0] UD_OPCODES = 8'h60;       // SEND Only is 0x64, with immediate data 0x65
    localparam int MAX_DATAGRAM_BYTES = 4096;        // the MTU of the port
    localparam int GRH_BYTES = 40;                   // in front of a received datagram
    localparam logic [7:0] ATOMIC_ACKNOWLEDGE = 8'h12;   // opcode: the response to an atomic
    localparam logic [4:0] COMPARE_SWAP = 5'h13, FETCH_ADD = 5'h14;   // opcodes of RC
    localparam int ATOMIC_BYTES = 8;                 // that an atomic reads and writes

    // -------------------------------------------------------------------------------- DMA of reads A
    // tag has the client, the index of its read, and the number of resets before the request.
    typedef enum logic [2:0] {
        READ_COMMAND, READ_SEND_WQE, READ_RECEIVE_WQE, READ_PAYLOAD, READ_MPT, READ_MTT, READ_COMPLETION,
        READ_ATOMIC
    } read_client_t;
    typedef struct packed {
        logic         epoch;
        read_client_t client;
        logic [LOG_READS-1:0] index;
    } read_tag_t;

    localparam int READ_CLIENTS = 8;

    // A requested line, with its `index` among the client's reads, and the returned line.
    typedef struct packed {
        logic         valid;
        logic [63:0]  iova;
        logic [LOG_READS-1:0] index;
    } read_t;
    typedef struct packed {
        logic         valid;
        logic         error;
        logic [LOG_READS-1:0] index;
        logic [511:0] data;
    } line_t;
    localparam int READ_BITS = 73, LINE_BITS = 522;   // of a read_t, a line_t

    // ------------------------------------------------------------------------------- DMA of writes
    typedef struct packed {
        logic         valid;
        logic [63:0]  iova;                // of the whole line
        logic [511:0] line;
        logic [63:0]  strobe;              // a bit for each byte
    } write_t;
    localparam int WRITE_BITS = 641;       // of a write_t

    // ------------------------------------------------------------------------------ a QP's context
    typedef struct packed {
        logic [127:0] dest_gid;            // first octet in bits 7:0, as in AddressPath
        logic [47:0]  dest_mac;            // likewise
        logic [15:0]  vlan;
        logic [7:0]   source_gid_index;
        logic [15:0]  udp_source_port;
        logic [7:0]   traffic_class;
        logic [7:0]   hop_limit;
        logic [3:0]   service_level;
        logic [19:0]  flow_label;
    } path_t;

    // The attributes that MODIFY_QP sets; the engines read them, and only the command engine writes
    // them.
    typedef struct packed {
        logic         exists;
        logic [2:0]   state;               // QP_STATE_CODE_*
        logic [2:0]   path_mtu;            // PATH_MTU_CODE_*
        logic         is_datagram;         // UD or GSI; else RC
        logic [31:0]  q_key;               // of a datagram QP
        logic [23:0]  pd;
        logic [7:0]   send_cqn;            // CQN = index
        logic [7:0]   receive_cqn;
        logic [63:0]  send_base;
        logic [63:0]  receive_base;
        logic [4:0]   log_send_blocks;
        logic [4:0]   log_receives;
        logic [3:0]   log_receive_stride;  // bytes
        logic [3:0]   access;              // remote rights: AccessRights bits 3:0
        logic [23:0]  dest_qpn;
        logic [2:0]   retry_count;
        logic [2:0]   rnr_retry;
        logic [4:0]   timeout;
        logic [4:0]   min_rnr_timer;
        logic [4:0]   max_rd_atomic;
        logic [4:0]   max_dest_rd_atomic;
        path_t        path;
    } qp_t;
    localparam int QP_BITS = 532;          // of a qp_t: yosys 0.23 has no $bits of a type

    // ----------------------------------------------------------- from the command engine to engines
    typedef enum logic [1:0] {
        CONTROL_START,                     // the QP goes to RTR (responder), to RTS (requester)
        CONTROL_FORGET,                    // to RESET, or it is destroyed
        CONTROL_QUERY,
        CONTROL_RESUME                     // from SQE to RTS: requester
    } control_op_t;
    typedef struct packed {
        control_op_t  op;
        logic [LOG_QPS-1:0] qp;
        logic [23:0]  psn;                 // START: the first one
    } control_t;

    // The engines' answer to a QUERY.
    typedef struct packed {
        logic [23:0]  send_psn;
        logic [23:0]  unacknowledged_psn;
        logic [31:0]  producer;
        logic [31:0]  fetched;
        logic         drained;
    } send_query_t;
    typedef struct packed {
        logic [23:0]  receive_psn;
        logic [23:0]  message_sequence;
        logic [31:0]  producer;
        logic [31:0]  consumer;
    } receive_query_t;

    // ------------------------------------------------------- from the command engine to the tables
    typedef struct packed {
        logic [7:0]   status;              // COMMAND_STATUS_*
        logic [31:0]  syndrome;
        logic [63:0]  result;
    } outcome_t;
    typedef struct packed {
        logic [127:0] gid;
        logic [47:0]  mac;
        logic [15:0]  vlan;
    } address_t;
    // A request of the command engine to memory_unit, which defines the operations.
    typedef struct packed {
        logic [2:0]   op;
        logic [31:0]  key;
        logic [511:0] line;
        logic [63:0]  base;
        logic [4:0]   log;
    } entry_t;
    // Doorbell slots of a CQ (only `send`), or of a QP.
    typedef struct packed {
        logic         is_cq;
        logic         exists;
        logic [7:0]   number;
        logic [LOG_SLOTS:0] send;
        logic [LOG_SLOTS:0] receive;
    } slot_t;

    // ----------------------------------------------------------------------------------- doorbells
    typedef struct packed {
        logic [LOG_QPS-1:0] qp;
        logic [31:0]  index;
    } doorbell_t;
    typedef struct packed {
        logic [LOG_CQS-1:0] cqn;
        logic         solicited;
        logic [31:0]  consumer;
    } arm_t;
    typedef struct packed {
        logic [LOG_EQS-1:0] eqn;
        logic         arm;
        logic [23:0]  consumer;
    } event_doorbell_t;

    // --------------------------------------------------------------------------------- host memory
    // A range of a region, for memory_unit. It answers with pieces, or with a fault.
    typedef struct packed {
        logic [31:0]  key;
        logic [23:0]  pd;
        logic [23:0]  qpn;
        logic [3:0]   rights;              // AccessRights bits that are needed
        logic [63:0]  address;
        logic [31:0]  length;
        logic         check_only;          // no translation: the whole message
    } memory_request_t;

    // A contiguous range of I/O address space. Zero bytes with `last`: no data.
    typedef struct packed {
        logic [63:0]  iova;
        logic [12:0]  bytes;
        logic         last;                // of its packet
    } piece_t;

    // ------------------------------------------------------------------------------------- packets A
    // beat of a stream; only the last one has invalid bytes, from `bytes` on.
    typedef struct packed {
        logic [511:0] data;
        logic [6:0]   bytes;
        logic         last;
    } beat_t;

    // The fields of a packet that packetizer needs; its payload follows as a stream. The opcode
    // determines which extension fields are sent.
    typedef struct packed {
        path_t        path;
        logic [7:0]   opcode;
        logic         solicited;
        logic         ack_request;
        logic [23:0]  dest_qpn;
        logic [23:0]  psn;
        logic [63:0]  address;             // RETH, AtomicETH; of a datagram its whole DETH; AtomicAckETH
        logic [31:0]  r_key;
        logic [31:0]  length;              // of an atomic, {length, aeth} is the value to swap in or to add
        logic [63:0]  compare;             // AtomicETH
        logic [31:0]  immediate;           // ImmDt, IETH: first octet of the wire in bits 7:0
        logic [31:0]  aeth;                // syndrome in bits 31:24, MSN in 23:0
        logic [12:0]  payload_bytes;       // without padding
        logic [LOG_QPS-1:0] qp;            // local QP, reported when its payload cannot be read
    } tx_packet_t;

    // A packet with a correct ICRC, from rx_buffer.
    typedef struct packed {
        logic [GIDS-1:0] to_gid;           // a bit for each entry of the GID table that it is for
        logic [15:0]  number;              // of the frame, incremented for each frame
        logic [7:0]   opcode;
        logic         solicited;
        logic         ack_request;
        logic [15:0]  p_key;
        logic [23:0]  dest_qpn;
        logic [23:0]  psn;
        logic         is_v6;
        logic [127:0] source;              // as roce_rx gives it
        logic [63:0]  address;             // RETH, AtomicETH; of a datagram its whole DETH
        logic [31:0]  r_key;
        logic [31:0]  length;              // of an atomic, {length, aeth} is the value to swap in or to add
        logic [63:0]  compare;             // AtomicETH
        logic [31:0]  aeth;
        logic [31:0]  immediate;           // first octet of the wire in bits 7:0
        logic [12:0]  payload_bytes;       // of a datagram with the GRH; of an atomic's response its AtomicAckETH
    } rx_packet_t;

    // -------------------------------------------------------------------------------- completions
    typedef struct packed {
        logic [7:0]   cqn;
        logic [15:0]  frame;               // written after the payload of this frame
        logic [23:0]  qpn;
        logic [31:0]  wqe_index;
        logic [31:0]  byte_count;
        logic [31:0]  immediate;
        logic [7:0]   opcode;              // CQE_OPCODE_*
        logic [7:0]   status;              // CQE_STATUS_*
        logic [7:0]   vendor_error;
        logic         with_immediate;
        logic         with_invalidate;
        logic         solicited;
        logic [23:0]  source_qpn;          // of a datagram
        logic         with_grh;
        logic         is_ipv4;             // the GRH
    } completion_t;

    typedef struct packed {
        logic [3:0]   eqn;
        logic [7:0]   event_type;          // EVENT_TYPE_*
        logic [23:0]  number;
    } event_t;
    localparam int EVENT_BITS = 36;        // of an event_t

    // ------------------------------------------------------------------------ pulses for counters
    typedef struct packed {
        logic         frame;
        logic [15:0]  bytes;               // of `frame`
        logic         malformed;
        logic         icrc_error;          // or a wrong FCS
        logic         overflow;
    } frame_counts_t;
    typedef struct packed {
        logic         retransmitted;
        logic         wqe_error;
        logic         timeout;
        logic         rnr_nak;             // received, like the two others
        logic         sequence_nak;
        logic         other_nak;
        logic         refetch;
    } send_counts_t;
    typedef struct packed {
        logic         duplicate;
        logic         write_request;
        logic         read_request;
        logic         atomic;
        logic         receive_wqe;
        logic         ack;
        logic         rnr_nak;             // sent, like the two others
        logic         sequence_nak;
        logic         other_nak;
        logic         q_key_violation;
        logic         no_receive;          // for a datagram
    } receive_counts_t;
    typedef struct packed {
        logic         requester_error;     // a flushed one, too
        logic         requester_flush;
        logic         requester_access;
        logic         requester_invalid;
        logic         requester_rnr;
        logic         requester_retries;
        logic         responder_error;     // a flushed one, too
        logic         responder_flush;
        logic         responder_length;
    } completion_counts_t;

    // -------------------------------------------------------------------------- the request engine
    // One job at a time. The module of each part of the state defines the effect of each step on it.
    typedef enum logic [4:0] {
        AT_CLEAR, AT_IDLE, AT_LOAD, AT_LOOK, AT_LOOKED, AT_CONTROL, AT_DOORBELL, AT_FLUSH, AT_PSN,
        AT_DUPLICATE, AT_SEARCH, AT_ESTABLISH, AT_CHECK, AT_FETCH, AT_LENGTH, AT_ACCESS, AT_ACCESS_WAIT, AT_ATOMIC,
        AT_EXECUTE, AT_PLACE, AT_EXECUTED, AT_REFUSE, AT_FINISH
    } request_step_t;
    typedef enum logic [1:0] {JOB_PACKET, JOB_DOORBELL, JOB_CONTROL, JOB_FLUSH} receive_job_t;
    typedef enum logic [2:0] {
        INVALID_REQUEST, RECEIVE_TOO_SHORT, REMOTE_ACCESS, RECEIVE_PROTECTION, RECEIVE_QUEUE
    } refusal_t;

    // The result of request_checks for a packet.
    typedef struct packed {
        logic         is_send;
        logic         is_write;
        logic         is_read;
        logic         is_atomic;
        logic         starts;
        logic         ends;
        logic         has_immediate;
        logic         invalidates;
        logic         in_sequence;
        logic         is_allowed;
        logic         takes_receive;
        logic         is_length_wrong;
        logic         is_too_long;         // for the receive WQE
        logic [23:0]  packets;             // responses of a READ or an atomic
    } request_kind_t;

    // A receive WQE to be fetched: entry `slot` of its ring.
    typedef struct packed {
        logic [LOG_QPS-1:0] qp;
        logic [63:0]  iova;
        logic [3:0]   log_stride;
        logic [31:0]  slot;
        logic [2:0]   posted;              // entries from it on, four at most
    } fetch_t;

    // The answer to a request, for response_engine.
    typedef struct packed {
        logic         reads;               // responses of a READ, or the first one of an atomic, not an ACK or NAK
        logic         repeats;             // a duplicate READ
        logic         is_atomic;           // `address` is the result
        logic         ends_qp;
        logic [23:0]  psn;
        logic [7:0]   syndrome;
        logic [23:0]  msn;
        logic [15:0]  frame;
        logic [63:0]  address;
        logic [31:0]  key;
        logic [31:0]  length;
    } reply_t;

    // The receive side of a QP.
    typedef struct packed {
        logic         failed;              // a request was refused: no further packet is taken
        logic         awaiting;            // a NAK has requested the expected packet
        logic         established;
        logic         in_send;             // a message is open
        logic         in_write;
        logic         receive_used;        // by the open message: the WQE before `consumer`
        logic [23:0]  expected;
        logic [23:0]  msn;
        logic [31:0]  key;                 // WRITE: destination of the next packet
        logic [63:0]  address;
        logic [31:0]  so_far;              // bytes of the open message
        logic [31:0]  rest;                // of the WRITE, or of the receive WQE
        logic [4:0]   number;              // segment of the receive WQE
        logic [31:0]  offset;
        logic [31:0]  producer;
        logic [31:0]  consumer;
        logic [7:0]   answers;             // number queued so far, modulo their widths
        logic [7:0]   reads;
        logic         repeats;
        logic [4:0]   saved;               // newest READs and atomics whose results are kept, 16 at most
    } receive_state_t;

    // ---------------------------------------------------------------------------- the send engine
    // A send WQE: see wqe_decode.
    typedef struct packed {
        logic [7:0]   status;
        logic         rejected;
        logic [3:0]   blocks;
        logic [7:0]   opcode;
        logic         signaled;
        logic         solicited;
        logic         fence;
        logic         is_inline;
        logic [6:0]   inline_at;
        logic [31:0]  immediate;
        logic [63:0]  remote_address;
        logic [31:0]  remote_key;
        logic [31:0]  length;
        logic [4:0]   segments;
        logic [63:0]  swap_add;            // these two: of an atomic
        logic [63:0]  compare;
        logic [31:0]  q_key;               // these three: of a datagram
        logic [23:0]  dest_qpn;
        path_t        path;
    } wqe_t;
    typedef struct packed {                // a granule of a WQE
        logic [31:0]  key;
        logic [31:0]  length;
        logic [63:0]  address;
    } segment_t;

    // A request that was begun and is not retired; `{qp, number}` is its index in the table.
    typedef struct packed {
        logic [31:0]  index;               // of its WQE
        logic [23:0]  first_psn;
        logic [23:0]  last_psn;
        logic [31:0]  length;
        logic [7:0]   opcode;              // CQE_OPCODE_*
        logic [7:0]   status;              // SUCCESS, or the status with which it will fail
        logic         is_local;            // it has no PSNs
        logic         signaled;
    } outstanding_t;

    // State of a QP that the requester writes. Numbers of requests are free-running.
    typedef struct packed {
        logic [31:0]  fetched;             // index of the next WQE to begin
        logic [23:0]  next_psn;            // of this pass over the outstanding requests
        logic [23:0]  newest_psn;          // after all PSNs that were ever sent
        logic [LOG_OUTSTANDING:0] tail;    // number of the next request to begin
        logic [LOG_OUTSTANDING:0] cursor;  // number of the request that is sent next
        logic [7:0]   reads_sent;          // READs and atomics in this pass, counted from the completed ones
        logic [3:0]   since_ack_request;
    } send_state_t;

    // State of a QP that the completer writes.
    typedef struct packed {
        logic [23:0]  oldest_psn;          // not acknowledged
        logic [LOG_OUTSTANDING:0] head;    // number of the oldest request that is not retired
        logic [7:0]   reads_done;
        logic [2:0]   retries;             // spent since the last progress
        logic [2:0]   rnr_retries;
        logic         implied_nak;         // one was handled since the last progress
    } retire_state_t;
endpackage
/* verilator lint_on UNUSEDPARAM */

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Fetches a send WQE, checks it and keeps it: converts lines of a ring to fields and data segments.
//
// Ports: `begin_valid` starts with the WQE of QP `begin_qp` whose first block has `begin_index`; up
// to `begin_available` blocks of it may exist. `done` is high from its end until the next start, and
// all outputs hold meanwhile. `ring_base` and `log_ring_blocks` locate its ring; `is_datagram`: the QP is UD or
// GSI, whose WQEs have a destination. ahead_*, forget,
// read_*, line_* belong to wqe_lines; `lines_idle` is its `idle`. `wqe.status` is SUCCESS, or the
// CQE_STATUS_* with which the WQE fails; `wqe.rejected`: the start of the next WQE is unknown. After
// `done`, the segment `segment_number` is available in the next cycle. Inline payload starts at byte
// `wqe.inline_at` of the WQE. An index of the source GID that no table has is 255.
// Invariants: at most ten blocks of a WQE are read; `done` comes when all of them have arrived.
// FLUSH, ATOMIC_WRITE, LOCAL_INVALIDATE and BIND_WINDOW fail, because the card does not support them.
// The length of an atomic is 8 bytes, whatever its segments have beyond them.
module wqe_decode (
    input  logic         clk,
    input  logic         rst,

    input  logic         begin_valid,
    input  logic [7:0]   begin_qp,
    input  logic [31:0]  begin_index,
    input  logic [31:0]  begin_available,
    output logic         done,

    input  logic [63:0]  ring_base,
    input  logic [4:0]   log_ring_blocks,
    input  logic         is_datagram,
    input  logic         forget,
    input  logic         ahead_valid,
    input  logic [7:0]   ahead_qp,
    input  logic [31:0]  ahead_block,
    output logic         lines_idle,

    output card_pkg::read_t read,
    input  logic         read_ready,
    input  card_pkg::line_t line,

    output card_pkg::wqe_t wqe,

    input  logic [3:0]   segment_number,
    output card_pkg::segment_t segment
);
    logic [7:0]  status, opcode;
    logic [3:0]  blocks;
    logic [6:0]  inline_at;
    logic [31:0] immediate, remote_key, length;
    logic [63:0] remote_address, swap_add, compare;
    logic [4:0]  segments;
    logic        rejected, signaled, solicited, fence, is_inline;
    logic [31:0] q_key;
    logic [23:0] dest_qpn;
    card_pkg::path_t path;
    assign wqe = {status, rejected, blocks, opcode, signaled, solicited, fence, is_inline, inline_at, immediate,
                  remote_address, remote_key, length, segments, swap_add, compare, q_key, dest_qpn, path};

    localparam int GRANULE = 16;           // bytes: the size of the segments, or a part of their size
    // Control, remote address, inline header or operands of an atomic; or control, destination without its last fields.
    localparam int HEAD_BITS = 8 * 60;
    localparam int DATAGRAM_AT = 8 * GRANULE, PATH_AT = DATAGRAM_AT + 8 * ferroce_pkg::DATAGRAM_SEGMENT_PATH_OFFSET;
    localparam logic [35:0] MAX_LENGTH = 36'h8000_0000;

    typedef enum logic [3:0] {IDLE, FIRST, FIRST_LINE, HEAD, CHECK, INLINE, WALK, SUM, DONE} step_t;
    step_t step;

    // ------------------------------------------------------------------------------- what is kept
    logic [31:0] index, available;
    logic [3:0] wanted;                    // blocks
    logic arrived, failed, datagram;       // datagram: of this QP
    logic [511:0] read_line;
    logic [HEAD_BITS-1:0] head;            // its reserved bits
    wire unused_head = &{1'b0, head};

    // ------------------------------------------------------------------------------------ the head
    logic [31:0] word, inline_length;
    logic [4:0] word_blocks;
    logic has_remote, is_supported, is_known, is_nop, is_read, is_atomic;
    assign word = head[31:0];
    assign word_blocks = word[ferroce_pkg::CONTROL_WORD_BLOCKS_LSB +: 5];
    assign opcode = word[ferroce_pkg::CONTROL_WORD_OPCODE_LSB +: 8];
    assign signaled = word[ferroce_pkg::CONTROL_WORD_SIGNALED_LSB];
    assign solicited = word[ferroce_pkg::CONTROL_WORD_SOLICITED_LSB];
    assign fence = word[ferroce_pkg::CONTROL_WORD_FENCE_LSB];
    assign is_inline = word[ferroce_pkg::CONTROL_WORD_INLINE_LSB];
    assign segments = word[ferroce_pkg::CONTROL_WORD_DATA_SEGMENTS_LSB +: 5];
    assign blocks = word_blocks[3:0];
    assign immediate = head[95:64];
    assign remote_address = head[191:128];
    assign remote_key = head[223:192];
    assign is_nop = opcode == ferroce_pkg::SEND_OPCODE_NOP;
    assign is_read = opcode == ferroce_pkg::SEND_OPCODE_RDMA_READ;
    assign is_atomic = !datagram && (opcode == ferroce_pkg::SEND_OPCODE_COMPARE_SWAP
                    || opcode == ferroce_pkg::SEND_OPCODE_FETCH_ADD);
    assign swap_add = head[8*(2*GRANULE + ferroce_pkg::ATOMIC_SEGMENT_SWAP_ADD_OFFSET) +: 64];
    assign compare = head[8*(2*GRANULE + ferroce_pkg::ATOMIC_SEGMENT_COMPARE_OFFSET) +: 64];
    assign has_remote = !datagram && (is_read || is_atomic || opcode == ferroce_pkg::SEND_OPCODE_RDMA_WRITE
                     || opcode == ferroce_pkg::SEND_OPCODE_RDMA_WRITE_IMMEDIATE);
    assign is_supported = has_remote || is_nop || opcode == ferroce_pkg::SEND_OPCODE_SEND
                       || opcode == ferroce_pkg::SEND_OPCODE_SEND_IMMEDIATE
                       || (opcode == ferroce_pkg::SEND_OPCODE_SEND_INVALIDATE && !datagram);
    // Valid WQEs of operations that the card lacks: the start of the next WQE is known.
    assign is_known = !datagram && (opcode == ferroce_pkg::SEND_OPCODE_FLUSH
                   || opcode == ferroce_pkg::SEND_OPCODE_ATOMIC_WRITE
                   || opcode == ferroce_pkg::SEND_OPCODE_LOCAL_INVALIDATE
                   || opcode == ferroce_pkg::SEND_OPCODE_BIND_WINDOW);
    assign inline_at = datagram ? 7'd84 : has_remote ? 7'd36 : 7'd20;
    // A datagram's is in the second block, in the place of the first segment.
    assign inline_length = datagram ? segment.address[31:0] : has_remote ? head[287:256] : head[159:128];

    // ----------------------------------------------------------------- the destination of a datagram
    logic [15:0] source_gid_index;
    assign q_key = head[DATAGRAM_AT + 8*ferroce_pkg::DATAGRAM_SEGMENT_Q_KEY_OFFSET +: 32];
    assign dest_qpn = head[DATAGRAM_AT + 8*ferroce_pkg::DATAGRAM_SEGMENT_DEST_QPN_OFFSET +: 24];
    assign source_gid_index = head[PATH_AT + 8*ferroce_pkg::ADDRESS_PATH_SOURCE_GID_INDEX_OFFSET +: 16];
    always_comb begin
        path.dest_gid = head[PATH_AT + 8*ferroce_pkg::ADDRESS_PATH_DEST_GID_OFFSET +: 128];
        path.dest_mac = head[PATH_AT + 8*ferroce_pkg::ADDRESS_PATH_DEST_MAC_OFFSET +: 48];
        path.vlan = head[PATH_AT + 8*ferroce_pkg::ADDRESS_PATH_VLAN_OFFSET +: 16];
        path.source_gid_index = source_gid_index[15:8] != '0 ? 8'hff : source_gid_index[7:0];
        path.udp_source_port = head[PATH_AT + 8*ferroce_pkg::ADDRESS_PATH_UDP_SOURCE_PORT_OFFSET +: 16];
        path.traffic_class = head[PATH_AT + 8*ferroce_pkg::ADDRESS_PATH_TRAFFIC_CLASS_OFFSET +: 8];
        path.hop_limit = head[PATH_AT + 8*ferroce_pkg::ADDRESS_PATH_HOP_LIMIT_OFFSET +: 8];
        path.service_level = head[PATH_AT + 8*ferroce_pkg::ADDRESS_PATH_SERVICE_LEVEL_OFFSET +: 4];
        path.flow_label = head[PATH_AT + 8*ferroce_pkg::ADDRESS_PATH_FLOW_LABEL_OFFSET +: 20];
    end

    logic [9:0] wqe_bytes, segments_end;
    logic [10:0] inline_end;
    assign wqe_bytes = {blocks, 6'b0};
    assign segments_end = {1'b0, segments, 4'b0}
                        + (datagram ? 10'd80 : is_atomic ? 10'd48 : has_remote ? 10'd32 : 10'd16);
    assign inline_end = {1'b0, inline_length[9:0]} + {4'b0, inline_at};

    // ------------------------------------------------------------------------------- the segments
    logic [4:0] walk;
    logic [5:0] granule;
    logic [1:0] read_granule;
    assign granule = {1'b0, done ? {1'b0, segment_number} : walk}
                   + (datagram ? 6'd5 : is_atomic ? 6'd3 : has_remote ? 6'd2 : 6'd1);
    assign segment = read_line[{read_granule, 7'b0} +: 8*GRANULE];

    always_ff @(posedge clk) read_granule <= granule[1:0];

    logic [3:0] look;
    assign look = step == FIRST ? 4'd0 : granule[5:2];
    always_comb begin
        case (step)
            FIRST, FIRST_LINE, HEAD: wanted = 4'd1;
            CHECK: wanted = blocks;
            default: wanted = '0;
        endcase
    end
    wqe_lines ring (
        .clk, .rst, .idle(lines_idle), .begin_valid, .begin_qp, .begin_block(begin_index), .begin_base(ring_base),
        .begin_log_blocks(log_ring_blocks), .forget, .ahead_valid, .ahead_qp, .ahead_block, .wanted, .arrived,
        .failed, .look, .looked_up(read_line), .read, .read_ready, .line
    );

    logic [35:0] sum;
    assign length = is_atomic ? 32'(card_pkg::ATOMIC_BYTES) : sum[31:0];
    assign done = step == DONE;

    always_ff @(posedge clk) begin
        case (step)
            IDLE, DONE: if (begin_valid) begin
                index <= begin_index;
                available <= begin_available;
                status <= ferroce_pkg::CQE_STATUS_LOCAL_QP_OPERATION;
                rejected <= 1'b1;
                datagram <= is_datagram;
                sum <= '0;
                walk <= '0;
                step <= FIRST;
            end
            FIRST: if (arrived) step <= failed ? DONE : FIRST_LINE;
            FIRST_LINE: begin
                head <= read_line[HEAD_BITS-1:0];
                step <= HEAD;
            end
            HEAD: begin
                if (head[63:32] != index || word_blocks == '0 || {27'b0, word_blocks} > ferroce_pkg::WQE_MAX_BLOCKS
                    || {27'b0, word_blocks} > available) step <= DONE;
                else step <= CHECK;
            end
            CHECK: if (arrived) begin
                step <= DONE;
                if (failed) step <= DONE;
                else if (is_known) rejected <= 1'b0;
                else if (!is_supported) step <= DONE;
                else if (is_nop) begin
                    rejected <= 1'b0;
                    status <= ferroce_pkg::CQE_STATUS_SUCCESS;
                end else if (is_inline) begin
                    // The destination of a datagram needs a second block. An atomic has no payload.
                    if (!is_atomic && (!datagram || blocks != 4'd1)) step <= INLINE;
                end else if (segments <= 5'(card_pkg::MAX_SEGMENTS) && segments_end <= wqe_bytes)
                    step <= WALK;
            end
            INLINE: begin
                step <= DONE;
                sum <= {4'b0, inline_length};
                if (inline_length > ferroce_pkg::WQE_MAX_INLINE)
                    status <= ferroce_pkg::CQE_STATUS_LOCAL_LENGTH;
                else if (inline_end <= {1'b0, wqe_bytes}) begin
                    rejected <= 1'b0;
                    // A READ must not write its data into the ring.
                    if (!is_read) status <= ferroce_pkg::CQE_STATUS_SUCCESS;
                end
            end
            // One segment in two cycles: its line is read, then its length is added.
            WALK: begin
                walk <= walk + 1'b1;
                if (walk == segments) begin
                    step <= DONE;
                    if (sum > MAX_LENGTH) status <= ferroce_pkg::CQE_STATUS_LOCAL_LENGTH;
                    else begin
                        rejected <= 1'b0;
                        status <= is_atomic && sum < 36'(card_pkg::ATOMIC_BYTES) ? ferroce_pkg::CQE_STATUS_LOCAL_LENGTH
                                                                                : ferroce_pkg::CQE_STATUS_SUCCESS;
                    end
                end else step <= SUM;
            end
            SUM: begin
                sum <= sum + {4'b0, segment.length};
                step <= WALK;
            end
            default: step <= IDLE;
        endcase
        // The lines of a WQE that is being decoded ahead do not come any more.
        if (forget || rst) step <= IDLE;
    end

    always_ff @(posedge clk) begin
        if (!rst && begin_valid) assert (step == IDLE || step == DONE);
    end
endmodule

`default_nettype wire

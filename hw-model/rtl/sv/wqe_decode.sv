// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Fetches a send WQE, checks it and keeps it: converts lines of a ring to fields and data segments.
//
// Ports: `begin_valid` starts with the WQE of QP `begin_qp` whose first block has `begin_index`; up
// to `begin_available` blocks of it may exist. `done` is high from its end until the next start, and
// all outputs hold meanwhile. `ring_base` and `log_ring_blocks` locate its ring. ahead_*, forget,
// read_*, line_* belong to wqe_lines; `lines_idle` is its `idle`. `wqe.status` is SUCCESS, or the
// CQE_STATUS_* with which the WQE fails; `wqe.rejected`: the start of the next WQE is unknown. After
// `done`, the segment `segment_number` is available in the next cycle. Inline payload starts at byte
// `wqe.inline_at` of the WQE.
// Invariants: at most ten blocks of a WQE are read; `done` comes when all of them have arrived.
// Atomics, FLUSH, LOCAL_INVALIDATE and BIND_WINDOW fail, because the card does not support them.
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
    logic [63:0] remote_address;
    logic [4:0]  segments;
    logic        rejected, signaled, solicited, fence, is_inline;
    assign wqe = {status, rejected, blocks, opcode, signaled, solicited, fence, is_inline, inline_at, immediate,
                  remote_address, remote_key, length, segments};

    localparam int GRANULE = 16;           // bytes: all segments of a connected QP have this size
    localparam int HEAD_BITS = 8 * 36;     // control, remote address, inline header
    localparam logic [35:0] MAX_LENGTH = 36'h8000_0000;

    typedef enum logic [2:0] {IDLE, FIRST, FIRST_LINE, HEAD, CHECK, WALK, SUM, DONE} step_t;
    step_t step;

    // ------------------------------------------------------------------------------- what is kept
    logic [31:0] index, available;
    logic [3:0] wanted;                    // blocks
    logic arrived, failed;
    logic [511:0] read_line;
    logic [HEAD_BITS-1:0] head;            // its reserved bits
    wire unused_head = &{1'b0, head};

    // ------------------------------------------------------------------------------------ the head
    logic [31:0] word, inline_length;
    logic [4:0] word_blocks;
    logic has_remote, is_supported, is_known, is_nop, is_read;
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
    assign has_remote = is_read || opcode == ferroce_pkg::SEND_OPCODE_RDMA_WRITE
                     || opcode == ferroce_pkg::SEND_OPCODE_RDMA_WRITE_IMMEDIATE;
    assign is_supported = has_remote || is_nop || opcode == ferroce_pkg::SEND_OPCODE_SEND
                       || opcode == ferroce_pkg::SEND_OPCODE_SEND_IMMEDIATE
                       || opcode == ferroce_pkg::SEND_OPCODE_SEND_INVALIDATE;
    // Valid WQEs of operations that the card lacks: the start of the next WQE is known.
    assign is_known = opcode == ferroce_pkg::SEND_OPCODE_COMPARE_SWAP
                   || opcode == ferroce_pkg::SEND_OPCODE_FETCH_ADD
                   || opcode == ferroce_pkg::SEND_OPCODE_FLUSH
                   || opcode == ferroce_pkg::SEND_OPCODE_ATOMIC_WRITE
                   || opcode == ferroce_pkg::SEND_OPCODE_LOCAL_INVALIDATE
                   || opcode == ferroce_pkg::SEND_OPCODE_BIND_WINDOW;
    assign inline_at = has_remote ? 7'd36 : 7'd20;
    assign inline_length = has_remote ? head[287:256] : head[159:128];

    logic [9:0] wqe_bytes, segments_end;
    logic [10:0] inline_end;
    assign wqe_bytes = {blocks, 6'b0};
    assign segments_end = {1'b0, segments, 4'b0} + (has_remote ? 10'd32 : 10'd16);
    assign inline_end = {1'b0, inline_length[9:0]} + {4'b0, inline_at};

    // ------------------------------------------------------------------------------- the segments
    logic [4:0] walk;
    logic [5:0] granule;
    logic [1:0] read_granule;
    assign granule = {1'b0, done ? {1'b0, segment_number} : walk} + (has_remote ? 6'd2 : 6'd1);
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
    assign length = sum[31:0];
    assign done = step == DONE;

    always_ff @(posedge clk) begin
        case (step)
            IDLE, DONE: if (begin_valid) begin
                index <= begin_index;
                available <= begin_available;
                status <= ferroce_pkg::CQE_STATUS_LOCAL_QP_OPERATION;
                rejected <= 1'b1;
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
                    sum <= {4'b0, inline_length};
                    if (inline_length > ferroce_pkg::WQE_MAX_INLINE)
                        status <= ferroce_pkg::CQE_STATUS_LOCAL_LENGTH;
                    else if (inline_end <= {1'b0, wqe_bytes}) begin
                        rejected <= 1'b0;
                        // A READ must not write its data into the ring.
                        if (!is_read) status <= ferroce_pkg::CQE_STATUS_SUCCESS;
                    end
                end else if (segments <= 5'(card_pkg::MAX_SEGMENTS) && segments_end <= wqe_bytes)
                    step <= WALK;
            end
            // One segment in two cycles: its line is read, then its length is added.
            WALK: begin
                walk <= walk + 1'b1;
                if (walk == segments) begin
                    step <= DONE;
                    if (sum > MAX_LENGTH) status <= ferroce_pkg::CQE_STATUS_LOCAL_LENGTH;
                    else begin
                        rejected <= 1'b0;
                        status <= ferroce_pkg::CQE_STATUS_SUCCESS;
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

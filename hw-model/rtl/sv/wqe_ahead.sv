// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Keeps the WQE that is being sent, and decodes the next one meanwhile.
//
// Ports: as wqe_decode's, which it contains. A WQE of one segment, or of inline payload, is copied when it is
// decoded; then the next WQE of the QP is decoded, if it is before `ahead_block`. With more segments the
// decoder itself keeps the WQE. `lines_idle`: no block is requested any more, unless `ahead_valid`.
// Invariants: `done` shows the WQE of the last begin; a WQE that was decoded ahead and would fail is decoded
// again when it is begun, because more of its blocks may have been posted.
module wqe_ahead (
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
    // -------------------------------------------------------------------------- the WQE that was begun
    logic               waits, copied;     // it is not decoded yet; its copy is used
    logic [7:0]         qp;
    logic [31:0]        index, available;
    card_pkg::wqe_t     kept;
    card_pkg::segment_t kept_segment;

    // -------------------------------------------------------------------------------- the decoder's
    logic               decodes, decoded, settled, is_there, is_ahead, ring_idle;
    logic [7:0]         decoded_qp;
    logic [31:0]        decoded_index;
    card_pkg::wqe_t     fresh;
    card_pkg::segment_t fresh_segment;
    logic [31:0]        next_index, next_available, decode_index;
    logic               is_right, takes, again, goes_ahead, is_sound, is_at_hand;
    assign decodes = is_there && !decoded;
    assign is_sound = is_there && (!is_ahead || (fresh.status == ferroce_pkg::CQE_STATUS_SUCCESS && !fresh.rejected));
    assign is_right = is_sound && decoded_qp == qp && decoded_index == index;
    // Segment 0 is read a cycle after the end.
    assign takes = settled && (waits ? is_right : begin_valid && is_at_hand);
    assign is_at_hand = copied && is_sound && decoded_qp == begin_qp && decoded_index == begin_index;
    assign again = waits && !takes && !decodes && (!is_there || settled) && !is_right;
    assign next_index = index + {28'b0, kept.blocks};
    assign next_available = ahead_block - next_index;
    assign goes_ahead = !waits && copied && !decodes && settled && ahead_valid && ahead_qp == qp && !kept.rejected
        && decoded_index == index && next_available != '0 && !next_available[31];
    assign decode_index = again ? index : next_index;

    wqe_decode decode (
        .clk, .rst, .begin_valid(again || goes_ahead), .begin_qp(qp), .begin_index(decode_index),
        .begin_available(again ? available : next_available), .done(decoded), .ring_base, .log_ring_blocks, .is_datagram, .forget,
        .ahead_valid, .ahead_qp, .ahead_block, .lines_idle(ring_idle), .read, .read_ready, .line, .wqe(fresh),
        .segment_number(copied ? 4'd0 : segment_number), .segment(fresh_segment)
    );
    assign lines_idle = ring_idle && !decodes;
    assign done = !waits;
    assign wqe = copied ? kept : fresh;
    assign segment = copied ? kept_segment : fresh_segment;

    always_ff @(posedge clk) begin
        settled <= decoded && !again && !goes_ahead;
        if (again || goes_ahead) begin
            is_there <= 1'b1;
            is_ahead <= goes_ahead;
            decoded_qp <= qp;
            decoded_index <= decode_index;
        end
        if (begin_valid) begin
            waits <= 1'b1;
            copied <= 1'b1;                // the decoder looks at segment 0
            {qp, index, available} <= {begin_qp, begin_index, begin_available};
        end
        if (takes) begin
            waits <= 1'b0;
            kept <= fresh;
            kept_segment <= fresh_segment;
            copied <= fresh.is_inline || fresh.segments <= 5'd1 || fresh.status != ferroce_pkg::CQE_STATUS_SUCCESS;
        end
        if (forget) {is_there, copied} <= '0;
        if (rst) {waits, copied, is_there, settled} <= '0;
    end

    always_ff @(posedge clk) begin
        if (!rst && begin_valid) assert (!waits);
        if (!rst && takes) assert (decoded);
    end
endmodule

`default_nettype wire

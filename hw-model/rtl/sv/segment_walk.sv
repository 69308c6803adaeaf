// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Converts bytes of a message to pieces: one memory request for each data segment that contains some
// of them, or pieces of the ring when the payload is in the WQE.
//
// Ports: `start` takes `offset` in the message and `bytes` (not zero). The inputs after them, of the
// WQE and the QP, hold until `done`: a pulse, with `fault` if memory_unit has refused (its code), or
// 7 if the segments end early. segment_* reads wqe_decode. request_* and answer_* go to memory_unit,
// pieces leave by piece_*, the last one with `last`.
// Invariant: without a fault the pieces have `bytes` bytes in total. A fault comes after the earlier
// pieces; none of them has `last`.
module segment_walk (
    input  logic        clk,
    input  logic        rst,

    input  logic        start,
    input  logic [31:0] offset,
    input  logic [12:0] bytes,
    output logic        done,
    output logic [2:0]  fault,

    input  logic [23:0] pd,
    input  logic [23:0] qpn,
    input  logic [3:0]  rights,
    input  logic        is_inline,
    input  logic [6:0]  inline_at,
    input  logic [31:0] wqe_index,
    input  logic [63:0] ring_base,
    input  logic [4:0]  log_ring_blocks,
    input  logic [4:0]  segments,

    output logic [3:0]  segment_number,
    input  card_pkg::segment_t segment,

    output logic                      request_valid,
    input  logic                      request_ready,
    output card_pkg::memory_request_t request,
    input  logic                      answer_valid,
    output logic                      answer_ready,
    input  card_pkg::piece_t          answer,
    input  logic [2:0]                answer_fault,

    output logic                      piece_valid,
    input  logic                      piece_ready,
    output card_pkg::piece_t          piece
);
    localparam logic [2:0] FAULT_NO_SEGMENT = 3'd7;

    typedef enum logic [2:0] {IDLE, SEGMENT, SEEK, REQUEST, ANSWER, RING, DONE} step_t;
    step_t step;

    logic [31:0] skip;                     // bytes to skip in the segments from here on
    logic [12:0] left;
    logic [4:0]  number;
    assign segment_number = number[3:0];

    // ------------------------------------------------------------------------------------ a segment
    logic [31:0] rest;
    logic [12:0] part;
    assign rest = segment.length - skip;
    assign part = rest < {19'b0, left} ? rest[12:0] : left;

    // ------------------------------------------------------------------ payload in the ring: a block
    logic [31:0] block;
    logic [12:0] ring_part;
    assign block = (wqe_index + {6'b0, skip[31:6]}) & ((32'd1 << log_ring_blocks) - 32'd1);
    assign ring_part = left < 13'd64 - {7'b0, skip[5:0]} ? left : 13'd64 - {7'b0, skip[5:0]};

    logic is_last;                         // of the segments with bytes of this packet
    assign is_last = left == request.length[12:0];
    always_comb begin
        if (step == RING) begin
            piece.iova = ring_base + {26'b0, block, skip[5:0]};
            piece.bytes = ring_part;
            piece.last = left == ring_part;
        end else begin
            piece = answer;
            piece.last = answer.last && is_last;
        end
    end
    assign piece_valid = step == RING || (step == ANSWER && answer_valid && answer_fault == '0);
    assign answer_ready = step == ANSWER && (piece_ready || answer_fault != '0);
    assign request_valid = step == REQUEST;
    logic ends_range, ends;
    assign ends_range = step == ANSWER && answer_valid && answer_ready && answer.last;
    assign ends = ends_range && is_last && answer_fault == '0;
    assign done = step == DONE || ends;

    always_ff @(posedge clk) begin
        case (step)
            IDLE: if (start) begin
                skip <= is_inline ? offset + {25'b0, inline_at} : offset;
                left <= bytes;
                fault <= segments == '0 && !is_inline ? FAULT_NO_SEGMENT : 3'd0;
                // Segment 0 was read before.
                step <= is_inline ? RING : segments == '0 ? DONE : SEEK;
            end
            SEGMENT: begin                 // it is read
                step <= SEEK;
                if (number == segments) begin
                    fault <= FAULT_NO_SEGMENT;
                    step <= DONE;
                end
            end
            SEEK: if (skip >= segment.length) begin
                skip <= skip - segment.length;
                number <= number + 1'b1;
                step <= SEGMENT;
            end else begin
                request.key <= segment.key;
                request.pd <= pd;
                request.qpn <= qpn;
                request.rights <= rights;
                request.address <= segment.address + {32'b0, skip};
                request.length <= {19'b0, part};
                request.check_only <= 1'b0;
                skip <= '0;
                number <= number + 1'b1;
                step <= REQUEST;
            end
            REQUEST: if (request_ready) step <= ANSWER;
            ANSWER: if (ends_range) begin
                left <= left - request.length[12:0];
                fault <= answer_fault;
                step <= answer_fault != '0 ? DONE : SEGMENT;
            end
            RING: if (piece_ready) begin
                left <= left - ring_part;
                skip <= skip + {19'b0, ring_part};
                if (piece.last) step <= DONE;
            end
            default: ;
        endcase
        if (done) begin
            number <= '0;
            step <= IDLE;
        end
        if (rst) begin
            number <= '0;
            step <= IDLE;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && start) assert (step == IDLE && bytes != '0);
        if (!rst && answer_valid && answer_ready && answer_fault != '0) assert (answer.last);
    end
endmodule

`default_nettype wire

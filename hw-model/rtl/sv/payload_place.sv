// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Finds the places for the payload of one packet: a remote range (WRITE), or the segments of a
// receive WQE from an offset on (SEND). Each range goes through memory_unit, and its pieces go to
// scatter.
//
// Ports: start_valid holds until `done`, with the packet's `bytes` (never 0) and their destination;
// `fault`: a range was refused, and the run of pieces is not ended. `next_number` and `next_offset`
// are the place in the receive WQE after the packet. segment_* is receive_segments.
// Invariants: only the last piece of the last range has `last`; at most 16 segments are read.
module payload_place (
    input  logic                      clk,
    input  logic                      rst,

    input  logic                      start_valid,
    input  logic                      is_send,
    input  logic [7:0]                qp_index,
    input  logic [23:0]               pd,
    input  logic [31:0]               key,
    input  logic [63:0]               address,
    input  logic [12:0]               bytes,
    input  logic [4:0]                first_number,
    input  logic [31:0]               first_offset,
    output logic                      done,
    output logic                      fault,
    output logic [4:0]                next_number,
    output logic [31:0]               next_offset,

    output logic [3:0]                segment_number,
    input  logic [127:0]              segment,

    output logic                      request_valid,
    input  logic                      request_ready,
    output card_pkg::memory_request_t request,
    input  logic                      answer_valid,
    output logic                      answer_ready,
    input  card_pkg::piece_t          answer,
    input  logic [2:0]                answer_fault,

    output logic                      place_valid,
    input  logic                      place_ready,
    output card_pkg::piece_t          place
);
    typedef enum logic [2:0] {IDLE, LOOK, LOOKED, REQUEST, ANSWER, PUT, DONE} step_t;
    step_t step;

    logic [12:0] left, part;               // of the packet, of the range
    logic [31:0] rest;                     // of the segment
    card_pkg::piece_t piece;
    assign rest = segment[95:64] - next_offset;

    assign segment_number = next_number[3:0];
    assign request_valid = step == REQUEST;
    assign answer_ready = step == ANSWER;
    assign place_valid = step == PUT;
    always_comb begin
        place = piece;
        place.last = piece.last && left == part;
    end
    assign done = step == DONE;

    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                left <= bytes;
                part <= bytes;
                fault <= 1'b0;
                next_number <= first_number;
                next_offset <= first_offset;
                request.key <= key;
                request.pd <= pd;
                request.qpn <= card_pkg::QPN_BASE | {16'd0, qp_index};
                request.rights <= is_send ? 4'd1 << ferroce_pkg::ACCESS_RIGHTS_LOCAL_WRITE_LSB
                                          : 4'd1 << ferroce_pkg::ACCESS_RIGHTS_REMOTE_WRITE_LSB;
                request.address <= address;
                request.length <= {19'd0, bytes};
                request.check_only <= 1'b0;
                if (start_valid) step <= is_send ? LOOK : REQUEST;
            end
            LOOK: begin
                // Impossible: the WQE has room for the packet.
                fault <= next_number[4];
                step <= next_number[4] ? DONE : LOOKED;
            end
            LOOKED: begin
                part <= rest < {19'd0, left} ? rest[12:0] : left;
                request.key <= segment[127:96];
                request.address <= segment[63:0] + {32'd0, next_offset};
                request.length <= rest < {19'd0, left} ? rest : {19'd0, left};
                if (rest == 32'd0) begin
                    next_number <= next_number + 1'b1;
                    next_offset <= '0;
                    step <= LOOK;
                end else step <= REQUEST;
            end
            REQUEST: if (request_ready) step <= ANSWER;
            ANSWER: if (answer_valid) begin
                piece <= answer;
                fault <= answer_fault != 3'd0;
                step <= answer_fault != 3'd0 ? DONE : PUT;
            end
            PUT: if (place_ready) begin
                if (!piece.last) step <= ANSWER;
                else begin
                    left <= left - part;
                    next_offset <= next_offset + {19'd0, part};
                    step <= left == part ? DONE : LOOK;
                end
            end
            DONE: step <= IDLE;
            default: step <= IDLE;
        endcase
        if (rst) step <= IDLE;
    end

    always_ff @(posedge clk) begin
        if (!rst && step == IDLE && start_valid) assert (bytes != 13'd0);
        if (!rst && step == PUT) assert (piece.bytes <= part && part <= left);
    end
endmodule

`default_nettype wire

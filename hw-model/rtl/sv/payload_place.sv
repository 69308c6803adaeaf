// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Finds the places for the payload of one packet: a remote range (WRITE), or the segments of a
// receive WQE from an offset on (SEND). Each range goes through memory_unit, and its pieces go to
// scatter.
//
// Ports: start_valid begins, when no packet is in work, with the packet's `bytes` (never 0) and their
// destination. The pieces wait for `puts`; `done` comes with the last one, or with `fault`: a range was refused,
// and the run of pieces is not ended. `next_number` and `next_offset` are the place in the receive WQE after
// the packet, with `done`. segment_* is receive_segments.
// Invariants: only the last piece of the last range has `last`; at most 16 segments are read.
module payload_place (
    input  logic                      clk,
    input  logic                      rst,

    input  logic                      start_valid,
    input  logic                      puts,
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
    typedef enum logic [2:0] {IDLE, LOOK, LOOKED, REQUEST, ANSWER, FAULT} step_t;
    step_t step;

    logic [12:0] left, part;               // of the packet, of the range
    logic [4:0]  number;                   // the place in the receive WQE
    logic [31:0] offset;
    logic [31:0] rest;                     // of the segment
    assign rest = segment[95:64] - offset;

    logic is_refused, ends_range;
    assign is_refused = answer_fault != 3'd0;
    assign ends_range = step == ANSWER && puts && answer_valid && place_ready && answer.last;
    assign segment_number = number[3:0];
    assign request_valid = step == REQUEST;
    assign answer_ready = step == ANSWER && puts && (place_ready || is_refused);
    assign place_valid = step == ANSWER && puts && answer_valid && !is_refused;
    always_comb begin
        place = answer;
        place.last = answer.last && left == part;
    end
    assign fault = step == FAULT || is_refused;
    assign done = puts && (step == FAULT || (step == ANSWER && answer_valid && is_refused) || (ends_range && left == part));
    assign next_number = number;
    assign next_offset = offset + {19'd0, part};

    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                left <= bytes;
                part <= bytes;
                number <= first_number;
                offset <= first_offset;
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
            // No segment is left: impossible, because the WQE has room for the packet.
            LOOK: step <= number[4] ? FAULT : LOOKED;
            LOOKED: begin
                part <= rest < {19'd0, left} ? rest[12:0] : left;
                request.key <= segment[127:96];
                request.address <= segment[63:0] + {32'd0, offset};
                request.length <= rest < {19'd0, left} ? rest : {19'd0, left};
                if (rest == 32'd0) begin
                    number <= number + 1'b1;
                    offset <= '0;
                    step <= LOOK;
                end else step <= REQUEST;
            end
            REQUEST: if (request_ready) step <= ANSWER;
            ANSWER: if (ends_range) begin
                left <= left - part;
                offset <= next_offset;
                step <= LOOK;
            end
            default: ;
        endcase
        if (done) step <= IDLE;
        if (rst) step <= IDLE;
    end

    always_ff @(posedge clk) begin
        if (!rst && step == IDLE && start_valid) assert (bytes != 13'd0);
        if (!rst && place_valid) assert (place.bytes <= part && part <= left);
    end
endmodule

`default_nettype wire

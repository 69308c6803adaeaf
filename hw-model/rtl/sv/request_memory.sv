// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Handles the memory accesses of a request: the check of a whole message, the address of an atomic, and the pieces of
// a packet's payload. The payload of a packet without pieces is dropped.
//
// Ports: `step` and the data of the job, as in request_engine. request_*, answer_* are memory_unit's,
// place_* goes to scatter, segment_* reads receive_segments. `starts_early`, in the step PSN: the packet will
// come to the step PLACE, and its range is known. `placed` ends the step PLACE,
// `place_fault` with it; `next_number` and `next_offset` are the place in the receive WQE then.
// `access_refused`, with an answer in the step ACCESS_WAIT: a fault, or an atomic that is not aligned in memory;
// `atomic_iova` is its address. `has_payload`: of this packet, and not placed yet. `done`: no payload is left to be
// dropped.
// Invariant: a packet with payload has one run of pieces that ends with `last`.
module request_memory (
    input  logic                      clk,
    input  logic                      rst,
    input  card_pkg::request_step_t   step,
    input  logic                      takes_payload,   // the packet that is taken has some
    input  logic [7:0]                job_qp,
    input  card_pkg::rx_packet_t      p,               // fields that do not concern memory
    input  card_pkg::qp_t             q,
    input  card_pkg::request_kind_t   kind,
    input  card_pkg::receive_state_t  c,
    input  logic                      starts_early,

    output logic                      placed,
    output logic                      place_fault,
    output logic [4:0]                next_number,
    output logic [31:0]               next_offset,
    output logic                      has_payload,
    output logic                      done,
    output logic                      access_refused,
    output logic [63:0]               atomic_iova,

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
    output card_pkg::piece_t          place,
    output logic                      place_drop
);
    wire unused_inputs = &{1'b0, p, q, kind, c};
    logic place_request_valid, place_answer_ready, piece_valid;
    card_pkg::memory_request_t place_request, access_request;
    card_pkg::piece_t piece;
    // In the step PSN the context does not have the place of a new message yet.
    logic takes_reth;
    assign takes_reth = step == card_pkg::AT_PSN && kind.starts;
    payload_place placer (
        .clk, .rst, .start_valid(step == card_pkg::AT_PLACE || (step == card_pkg::AT_PSN && starts_early)),
        .puts(step == card_pkg::AT_PLACE), .is_send(kind.is_send), .qp_index(job_qp), .pd(q.pd),
        .key(takes_reth ? p.r_key : c.key), .address(takes_reth ? p.address : c.address), .bytes(p.payload_bytes), .first_number(c.number), .first_offset(c.offset),
        .done(placed), .fault(place_fault), .next_number, .next_offset, .segment_number, .segment,
        .request_valid(place_request_valid), .request_ready, .request(place_request), .answer_valid,
        .answer_ready(place_answer_ready), .answer, .answer_fault, .place_valid(piece_valid), .place_ready,
        .place(piece)
    );

    // ----------------------------------------------------------------------- one port of memory_unit
    always_comb begin
        access_request.key = p.r_key;
        access_request.pd = q.pd;
        access_request.qpn = card_pkg::QPN_BASE | {16'd0, job_qp};
        if (kind.is_atomic) access_request.rights = 4'd1 << ferroce_pkg::ACCESS_RIGHTS_REMOTE_ATOMIC_LSB;
        else if (kind.is_read) access_request.rights = 4'd1 << ferroce_pkg::ACCESS_RIGHTS_REMOTE_READ_LSB;
        else access_request.rights = 4'd1 << ferroce_pkg::ACCESS_RIGHTS_REMOTE_WRITE_LSB;
        access_request.address = p.address;
        access_request.length = kind.is_atomic ? 32'(card_pkg::ATOMIC_BYTES) : p.length;
        access_request.check_only = !kind.is_atomic;
    end
    // The address of an atomic is aligned, but its region need not be: then it may even cross the end of a page.
    logic is_unaligned;
    assign is_unaligned = answer.bytes != 13'(card_pkg::ATOMIC_BYTES) || answer.iova[2:0] != 3'd0;
    assign access_refused = answer_fault != 3'd0 || (kind.is_atomic && is_unaligned);
    always_ff @(posedge clk) if (step == card_pkg::AT_ACCESS_WAIT) atomic_iova <= answer.iova;
    assign request_valid = step == card_pkg::AT_ACCESS || place_request_valid;
    assign request = step == card_pkg::AT_ACCESS ? access_request : place_request;
    assign answer_ready = step == card_pkg::AT_ACCESS_WAIT || place_answer_ready;

    // -------------------------------------------------------------------- payload that goes nowhere
    logic drop_pending;
    assign done = !drop_pending;
    always_ff @(posedge clk) begin
        case (step)
            card_pkg::AT_IDLE: begin
                drop_pending <= 1'b0;
                has_payload <= takes_payload;
            end
            card_pkg::AT_PSN: drop_pending <= has_payload;
            card_pkg::AT_PLACE: if (placed && !place_fault) {has_payload, drop_pending} <= '0;
            card_pkg::AT_FINISH: if (place_ready) drop_pending <= 1'b0;
            default: ;
        endcase
    end
    always_comb begin
        place = piece;
        place_valid = piece_valid;
        place_drop = step == card_pkg::AT_FINISH;
        if (step == card_pkg::AT_FINISH) begin
            place = '0;
            place.last = 1'b1;
            place_valid = drop_pending;
        end
    end
endmodule

`default_nettype wire

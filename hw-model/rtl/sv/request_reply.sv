// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The answer to a request, for response_engine: an ACK, a NAK, or the responses of a READ or an atomic.
//
// Ports: `step` and the data of the job, as in request_engine. reply_* is handed over in the step
// FINISH; `answers` and `reads` (READs and atomics) pulse in the step that decides on such an answer (`repeats`: a
// duplicate READ), for the counts of the QP. `original` is the result of an atomic in the step EXECUTE, or the one
// found for a duplicate in the last cycle of SEARCH. `done`: the answer is handed over.
// Invariant: a packet has at most one answer, a datagram none.
module request_reply (
    input  logic                     clk,
    input  card_pkg::request_step_t  step,
    input  card_pkg::refusal_t       refusal,
    input  card_pkg::rx_packet_t     p,        // only parts of these four are used
    input  card_pkg::qp_t            q,
    input  card_pkg::request_kind_t  kind,
    input  card_pkg::receive_state_t c,
    input  logic                     is_ahead,
    input  logic                     is_repeatable,
    input  logic                     lacks_receive,
    input  logic                     is_found,
    input  logic [63:0]              original,

    output logic                     answers,
    output logic                     reads,
    output logic                     repeats,

    output logic                     reply_valid,
    input  logic                     reply_ready,
    output card_pkg::reply_t         reply,
    output logic                     done
);
    wire unused_inputs = &{1'b0, p, q, kind, c};
    localparam logic [7:0] ACK = 8'h1f;    // without credits: RNR NAKs limit the peer
    localparam logic [7:0] RNR_NAK = 8'h20, NAK_SEQUENCE = 8'h60, NAK_INVALID_REQUEST = 8'h61,
                           NAK_REMOTE_ACCESS = 8'h62, NAK_REMOTE_OPERATION = 8'h63;

    logic        replies, reply_reads, reply_repeats, reply_atomic, reply_ends_qp;
    logic [63:0] result;
    logic [31:0] reply_length;             // of an atomic's response: no memory is read
    logic [23:0] reply_psn, reply_msn;
    logic [7:0]  reply_syndrome;
    assign reply_valid = step == card_pkg::AT_FINISH && replies;
    assign done = !replies || reply_ready;
    assign reply_length = reply_atomic ? '0 : p.length;
    assign reply = {reply_reads, reply_repeats, reply_atomic, reply_ends_qp, reply_psn, reply_syndrome, reply_msn,
                    p.number, reply_atomic ? result : p.address, p.r_key, reply_length};

    // ------------------------------------------------------------------------------ is there an answer
    assign reads = step == card_pkg::AT_EXECUTE && (kind.is_read || kind.is_atomic);
    assign repeats = step == card_pkg::AT_DUPLICATE && is_repeatable;
    always_comb begin
        case (step)
            card_pkg::AT_PSN: answers = !c.failed && is_ahead && !c.awaiting;
            card_pkg::AT_DUPLICATE: answers = kind.is_send || kind.is_write || is_repeatable;
            card_pkg::AT_SEARCH: answers = is_found;
            card_pkg::AT_CHECK: answers = lacks_receive;
            card_pkg::AT_EXECUTE: answers = reads;
            // A key that cannot be invalidated is an error only at this end (IBTA vol 1, 9.9.3, class
            // J).
            card_pkg::AT_EXECUTED: answers = p.ack_request && !kind.invalidates;
            card_pkg::AT_REFUSE: answers = 1'b1;
            default: answers = 1'b0;
        endcase
        if (q.is_datagram) answers = 1'b0;
    end
    always_ff @(posedge clk) begin
        if (step == card_pkg::AT_IDLE || (reply_valid && reply_ready)) replies <= 1'b0;
        if (answers) replies <= 1'b1;
    end

    // -------------------------------------------------------------------------------- what it says
    logic [7:0] refused;
    always_comb begin
        case (refusal)
            card_pkg::REMOTE_ACCESS: refused = NAK_REMOTE_ACCESS;
            card_pkg::RECEIVE_PROTECTION, card_pkg::RECEIVE_QUEUE: refused = NAK_REMOTE_OPERATION;
            default: refused = NAK_INVALID_REQUEST;
        endcase
    end
    always_ff @(posedge clk) begin
        case (step)
            card_pkg::AT_PSN: begin
                // For an unexpected packet. An RNR NAK also has the expected PSN.
                {reply_reads, reply_repeats, reply_atomic, reply_ends_qp} <= '0;
                {reply_psn, reply_syndrome, reply_msn} <= {c.expected, NAK_SEQUENCE, c.msn};
            end
            card_pkg::AT_DUPLICATE: begin
                reply_psn <= kind.is_read || kind.is_atomic ? p.psn : c.expected - 24'd1;
                reply_syndrome <= ACK;
                {reply_reads, reply_repeats} <= {2{kind.is_read}};
            end
            card_pkg::AT_SEARCH: begin
                reply_atomic <= 1'b1;
                result <= original;
            end
            card_pkg::AT_CHECK: if (lacks_receive) reply_syndrome <= RNR_NAK | {3'd0, q.min_rnr_timer};
            card_pkg::AT_EXECUTE: if (reads) begin
                reply_reads <= 1'b1;
                reply_atomic <= kind.is_atomic;
                result <= original;
                {reply_psn, reply_syndrome, reply_msn} <= {p.psn, ACK, c.msn + 24'd1};
            end
            card_pkg::AT_EXECUTED: begin
                {reply_psn, reply_syndrome} <= {p.psn, ACK};
                reply_msn <= kind.ends ? c.msn + 24'd1 : c.msn;
            end
            card_pkg::AT_REFUSE: begin
                reply_ends_qp <= 1'b1;
                {reply_psn, reply_syndrome} <= {p.psn, refused};
            end
            default: ;
        endcase
    end
endmodule

`default_nettype wire

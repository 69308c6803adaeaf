// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Draining send queues: raises SEND_QUEUE_DRAINED when a QP that went to SQD and requested the event
// has no request left.
//
// Ports: `begins` pulses when such a QP goes to SQD, `ends` when the state of a QP is written in
// another way or it fails; `progress` when a request may have been retired. ask_* is a CONTROL_QUERY
// to the requester, whose `drained` comes with ready; event_* is the event.
// Invariants: a QP is queried once for each progress; an event is raised once for each `begins`.
module drain_watch (
    input  logic               clk,
    input  logic               rst,
    input  logic [23:8]        qpn_base,
    input  logic               begins,
    input  logic               ends,
    input  logic [card_pkg::LOG_QPS-1:0] index,
    input  logic [1:0]         fail_valid,
    input  logic [2*card_pkg::LOG_QPS-1:0] fail_qp,
    input  logic               progress,
    input  logic               is_busy,        // another block queries the requester
    output logic               ask_valid,
    input  logic               ask_ready,
    output logic [card_pkg::LOG_QPS-1:0] ask_qp,
    input  logic               drained,
    output logic               event_valid,
    input  logic               event_ready,
    output card_pkg::event_t   event_data,
    output logic               idle
);
    localparam int BITS = card_pkg::LOG_QPS;
    localparam int QPS = 1 << BITS;

    typedef enum logic [1:0] {IDLE, ASK, RAISE} step_t;
    step_t           step;
    logic [QPS-1:0]  draining, unasked;
    logic [BITS-1:0] first;
    always_comb begin
        first = '0;
        for (int n = QPS - 1; n >= 0; n--)
            if (unasked[n]) first = BITS'(n);
    end

    assign ask_valid = step == ASK;
    assign event_valid = step == RAISE;
    always_comb begin
        event_data.eqn = '0;
        event_data.event_type = ferroce_pkg::EVENT_TYPE_SEND_QUEUE_DRAINED;
        event_data.number = ask_qp == card_pkg::GSI_INDEX ? ferroce_pkg::CONTEXT_GSI_QPN[23:0] : {qpn_base, ask_qp};
    end
    assign idle = step == IDLE && unasked == '0;

    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                ask_qp <= first;
                if (unasked != '0 && !is_busy) step <= ASK;
            end
            ASK: if (ask_ready) step <= drained && draining[ask_qp] ? RAISE : IDLE;
            default: if (event_ready) step <= IDLE;
        endcase
        if (rst) step <= IDLE;
    end

    always_ff @(posedge clk) begin
        if (step == ASK) begin
            unasked[ask_qp] <= 1'b0;
            if (ask_ready && drained) draining[ask_qp] <= 1'b0;
        end
        if (progress) unasked <= draining;
        for (int n = 0; n < 2; n++)
            if (fail_valid[n]) begin
                draining[fail_qp[BITS*n +: BITS]] <= 1'b0;
                unasked[fail_qp[BITS*n +: BITS]] <= 1'b0;
            end
        if (begins || ends) begin
            draining[index] <= begins;
            unasked[index] <= begins;
        end
        if (rst) begin
            draining <= '0;
            unasked <= '0;
        end
    end
endmodule

`default_nettype wire

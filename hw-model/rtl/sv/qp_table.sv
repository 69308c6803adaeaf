// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The QP context table: the attributes of all QPs that MODIFY_QP sets.
//
// Ports: reader n gives its part of `index` and has the context in its part of `qps` (a card_pkg::qp_t
// each) one cycle later. write_* sets a whole context, of a QP that was in the state `write_from`. fail_*: a QP goes to
// ERR, or if only its send queue fails (`fail_sends`) to SQE, unless it is in RESET. wake_*: a pulse for a QP whose
// state was written; the pulses of several QPs come in
// sequence.
// Invariants: after a reset no QP exists; only a write of RESET leaves ERR, and a write of another state leaves SQE
// only if it is from SQE, so that a failure during a MODIFY_QP is not lost.
module qp_table #(
    parameter int READERS = 6,
    parameter int FAILERS = 2
) (
    input  logic                                  clk,
    input  logic                                  rst,
    input  logic [READERS*card_pkg::LOG_QPS-1:0]  index,
    output logic [READERS*card_pkg::QP_BITS-1:0]   qps,
    input  logic                                  write_valid,
    input  logic [card_pkg::LOG_QPS-1:0]          write_index,
    input  card_pkg::qp_t                         write_qp,
    input  logic [2:0]                            write_from,
    input  logic [FAILERS-1:0]                    fail_valid,
    input  logic [FAILERS-1:0]                    fail_sends,
    input  logic [FAILERS*card_pkg::LOG_QPS-1:0]  fail_qp,
    output logic                                  wake_valid,
    output logic [card_pkg::LOG_QPS-1:0]          wake_qp,
    output logic                                  idle
);
    localparam int BITS = card_pkg::LOG_QPS;
    localparam int QPS = 1 << BITS;
    localparam int QP_BITS = card_pkg::QP_BITS;
    localparam int REST_BITS = QP_BITS - 4;   // the highest members are `exists` and `state`
    localparam logic [2:0] RESET = 3'(ferroce_pkg::QP_STATE_CODE_RESET), ERR = 3'(ferroce_pkg::QP_STATE_CODE_ERR),
                           SQE = 3'(ferroce_pkg::QP_STATE_CODE_SQE);

    logic                 new_exists;
    logic [2:0]           new_state;
    logic [REST_BITS-1:0] new_rest;
    logic [REST_BITS-1:0] contexts [QPS];
    logic [2:0]           states [QPS];
    logic [QPS-1:0]       exists, woken;
    assign {new_exists, new_state, new_rest} = write_qp;

    always_ff @(posedge clk) begin
        if (write_valid) contexts[write_index] <= new_rest;
    end
    always_ff @(posedge clk) begin
        if (write_valid) exists[write_index] <= new_exists;
        if (rst) exists <= '0;
    end

    // ---------------------------------------------------------------------------------------- states
    logic               keeps_error;
    logic [FAILERS-1:0] is_overruled;      // by a write
    always_comb begin
        for (int n = 0; n < FAILERS; n++)
            is_overruled[n] = write_valid && write_index == fail_qp[BITS*n +: BITS]
                && (new_state == RESET || (fail_sends[n] && new_state == ERR));
    end
    assign keeps_error = new_state != RESET && (states[write_index] == ERR
                      || (states[write_index] == SQE && write_from != SQE && new_state != ERR));
    always_ff @(posedge clk) begin
        if (write_valid && !keeps_error) states[write_index] <= new_state;
        for (int n = 0; n < FAILERS; n++)
            if (fail_valid[n] && !is_overruled[n] && exists[fail_qp[BITS*n +: BITS]]
                && states[fail_qp[BITS*n +: BITS]] != RESET)
                states[fail_qp[BITS*n +: BITS]] <= fail_sends[n] && states[fail_qp[BITS*n +: BITS]] != ERR ? SQE : ERR;
    end

    always_comb begin
        wake_qp = '0;
        for (int n = QPS - 1; n >= 0; n--)
            if (woken[n]) wake_qp = BITS'(n);
    end
    assign wake_valid = woken != '0;
    assign idle = !wake_valid;
    always_ff @(posedge clk) begin
        if (wake_valid) woken[wake_qp] <= 1'b0;
        if (write_valid) woken[write_index] <= 1'b1;
        for (int n = 0; n < FAILERS; n++)
            if (fail_valid[n]) woken[fail_qp[BITS*n +: BITS]] <= 1'b1;
        if (rst) woken <= '0;
    end

    // ----------------------------------------------------------------------------------------- reads
    for (genvar n = 0; n < READERS; n++) begin : g_reader
        logic [REST_BITS-1:0] rest;
        logic                 is_there;
        logic [2:0]           state;
        always_ff @(posedge clk) begin
            rest <= contexts[index[BITS*n +: BITS]];
            is_there <= exists[index[BITS*n +: BITS]];
            state <= states[index[BITS*n +: BITS]];
        end
        assign qps[QP_BITS*n +: QP_BITS] = {is_there, state, rest};
    end
endmodule

`default_nettype wire

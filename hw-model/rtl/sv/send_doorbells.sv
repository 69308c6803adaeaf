// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Doorbells of send queues: the last rung producer index of each (contract, chapter 5).
//
// Ports: doorbell_*: see CARD.md; the index is checked against `producer` and against `fetched`,
// which the requester keeps: `state_at` is answered a cycle later. `doorbell_error` pulses for an
// index that goes back or is more than a ring ahead; `rung_*` pulses for the others. qp_table is read
// in a cycle without `table_busy`. `producer` belongs to QP `requester_at`, a cycle later; `forget`
// zeroes it.
// Invariant: a producer index only goes forward, until the QP is forgotten.
module send_doorbells (
    input  logic         clk,
    input  logic         rst,
    output logic         idle,
    input  logic         doorbell_valid,
    output logic         doorbell_ready,
    input  card_pkg::doorbell_t doorbell,
    output logic         doorbell_error,
    output logic         rung_valid,
    output logic [7:0]   rung_qp,

    input  logic         table_busy,
    input  logic [2:0]   state,                // of the QP of the previous cycle
    input  logic [4:0]   log_send_blocks,
    output logic [7:0]   state_at,
    input  logic [31:0]  fetched,

    input  logic [7:0]   requester_at,
    output logic [31:0]  producer,
    input  logic         forget
);
    typedef enum logic [1:0] {INIT, IDLE, READ, CHECK} step_t;
    step_t step;

    logic [7:0] sweep, write_at;
    logic [31:0] rung, ahead, write_data;
    logic [31:0] forward;                  // only its sign is used
    wire unused_forward = &{1'b0, forward};
    logic is_right, write_valid;
    assign forward = doorbell.index - rung;
    assign ahead = doorbell.index - fetched;
    // A doorbell that has waited here during a reset of its QP must not affect the restarted QP.
    assign is_right = !forward[31] && ahead <= (32'd1 << log_send_blocks)
                   && state != 3'(ferroce_pkg::QP_STATE_CODE_RESET);

    assign state_at = doorbell.qp;
    assign doorbell_ready = step == CHECK && !forget;
    assign write_valid = step == INIT || forget || (step == CHECK && is_right);
    assign write_at = step == INIT ? sweep : forget ? requester_at : doorbell.qp;
    assign write_data = step == INIT || forget ? '0 : doorbell.index;
    assign idle = step == IDLE && !doorbell_valid;
    ram_1w1r #(.BITS(32), .LOG_DEPTH(card_pkg::LOG_QPS)) producers (
        .clk, .write_valid, .write_at, .write_data, .read_at(doorbell.qp), .read_data(rung)
    );
    ram_1w1r #(.BITS(32), .LOG_DEPTH(card_pkg::LOG_QPS)) producers_of_requester (
        .clk, .write_valid, .write_at, .write_data, .read_at(requester_at), .read_data(producer)
    );

    always_ff @(posedge clk) begin
        rung_valid <= 1'b0;
        doorbell_error <= 1'b0;
        case (step)
            INIT: begin
                sweep <= sweep + 1'b1;
                if (sweep == '1) step <= IDLE;
            end
            IDLE: if (doorbell_valid) step <= READ;
            READ: if (!table_busy) step <= CHECK;
            CHECK: if (forget) step <= READ;
            else begin
                rung_valid <= is_right;
                rung_qp <= doorbell.qp;
                doorbell_error <= !is_right;
                step <= IDLE;
            end
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= INIT;
            sweep <= '0;
        end
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Doorbells: checks a write to BAR2, and passes it to the engine of its queue.
//
// Ports: doorbell_* is a write of 8 bytes to a slot. slot_*: the command engine sets the slots of a
// QP (send queue, receive queue) or of a CQ, or removes a CQ's slots. `qp_index` addresses qp_table,
// and `qp` is its context in the next cycle. send_*, receive_*, arm_* go to requester, responder and
// completion_writer. count_doorbell and count_error pulse.
// Invariants: a doorbell is passed on only if slot, number and kind match and the QP is not in RESET;
// the doorbells of a queue stay in order.
module doorbell_table (
    input  logic                         clk,
    input  logic                         rst,
    input  logic [23:8]                  qpn_base,

    input  logic                         doorbell_valid,
    output logic                         doorbell_ready,
    input  logic [18:0]                  doorbell_slot,
    input  logic [63:0]                  doorbell_value,

    input  logic                         slot_valid,
    input  card_pkg::slot_t              slot_write,

    output logic [card_pkg::LOG_QPS-1:0] qp_index,
    input  card_pkg::qp_t                qp,             // whether it exists, and its state

    output logic                         send_valid,
    input  logic                         send_ready,
    output logic                         receive_valid,
    input  logic                         receive_ready,
    output card_pkg::doorbell_t          ring,
    output logic                         arm_valid,
    input  logic                         arm_ready,
    output card_pkg::arm_t               arm,

    output logic                         count_doorbell,
    output logic                         count_error,
    output logic                         idle
);
    wire unused_inputs = &{1'b0, qp};
    localparam int LOG_FIFO = 4;
    localparam int SLOT_BITS = card_pkg::LOG_SLOTS + 1;

    // ------------------------------------------------------------------------ the doorbell that is next
    logic        next_valid, next_ready;
    logic [82:0] next_word;
    fifo #(.BITS(83), .LOG_DEPTH(LOG_FIFO)) landed (
        .clk, .rst, .s_valid(doorbell_valid), .s_ready(doorbell_ready), .s_data({doorbell_slot, doorbell_value}),
        .m_valid(next_valid), .m_ready(next_ready), .m_data(next_word)
    );
    ferroce_pkg::doorbell_value_t value;
    logic [18:0]                  slot;
    assign slot = next_word[82:64];
    assign value = next_word[63:0];

    // ------------------------------------------------------------------------------------------ slots
    logic [2*SLOT_BITS-1:0] qp_slots [1 << card_pkg::LOG_QPS];
    logic [SLOT_BITS-1:0]   cq_slots [1 << card_pkg::LOG_CQS];
    logic [2*SLOT_BITS-1:0] qp_slot;
    logic [SLOT_BITS-1:0]   cq_slot;
    logic [(1 << card_pkg::LOG_CQS)-1:0] cq_exists;
    logic                   is_cq_there;
    always_ff @(posedge clk) begin
        if (slot_valid && !slot_write.is_cq) qp_slots[slot_write.number] <= {slot_write.receive, slot_write.send};
        qp_slot <= qp_slots[value.number[7:0]];
    end
    always_ff @(posedge clk) begin
        if (slot_valid && slot_write.is_cq) cq_slots[slot_write.number] <= slot_write.send;
        cq_slot <= cq_slots[value.number[7:0]];
    end
    always_ff @(posedge clk) begin
        if (slot_valid && slot_write.is_cq) cq_exists[slot_write.number] <= slot_write.exists;
        is_cq_there <= cq_exists[value.number[7:0]];
        if (rst) cq_exists <= '0;
    end

    // --------------------------------------------------------------------------------- is it allowed?
    typedef enum logic [1:0] {LOOK, JUDGE, GIVE} step_t;
    step_t step;
    logic  is_slot, is_own, is_qp, is_cq, is_send, is_receive, is_arm;
    assign qp_index = value.number[7:0];
    assign is_slot = slot[18:card_pkg::LOG_SLOTS] == '0 && slot[8:3] != '0;
    assign is_own = value.number[23:0] == ferroce_pkg::CONTEXT_GSI_QPN[23:0]
                 || (value.number[23:8] == qpn_base && value.number[7:0] >= 8'(card_pkg::RESERVED_QPS));
    assign is_qp = is_own && qp.exists
                && qp.state != 3'(ferroce_pkg::QP_STATE_CODE_RESET);
    assign is_cq = value.number[23:8] == '0 && is_cq_there
                && cq_slot == {1'b0, slot[card_pkg::LOG_SLOTS-1:0]};
    assign is_send = value.kind == ferroce_pkg::DOORBELL_KIND_SEND_QUEUE && is_qp
                  && qp_slot[SLOT_BITS-1:0] == {1'b0, slot[card_pkg::LOG_SLOTS-1:0]};
    assign is_receive = value.kind == ferroce_pkg::DOORBELL_KIND_RECEIVE_QUEUE && is_qp
                     && qp_slot[2*SLOT_BITS-1:SLOT_BITS] == {1'b0, slot[card_pkg::LOG_SLOTS-1:0]};
    assign is_arm = (value.kind == ferroce_pkg::DOORBELL_KIND_CQ_ARM
                  || value.kind == ferroce_pkg::DOORBELL_KIND_CQ_ARM_SOLICITED) && is_cq;

    assign ring.qp = value.number[7:0];
    assign ring.index = value.index;
    assign arm.cqn = value.number[7:0];
    assign arm.consumer = value.index;
    assign arm.solicited = value.kind == ferroce_pkg::DOORBELL_KIND_CQ_ARM_SOLICITED;

    logic is_taken;
    assign is_taken = (send_valid && send_ready) || (receive_valid && receive_ready) || (arm_valid && arm_ready);
    assign next_ready = step == GIVE && (is_taken || !(send_valid || receive_valid || arm_valid));
    assign idle = !next_valid;

    always_ff @(posedge clk) begin
        count_doorbell <= 1'b0;
        count_error <= 1'b0;
        case (step)
            LOOK: if (next_valid) step <= JUDGE;
            JUDGE: begin
                send_valid <= is_slot && is_send;
                receive_valid <= is_slot && is_receive;
                arm_valid <= is_slot && is_arm;
                count_doorbell <= 1'b1;
                count_error <= !(is_slot && (is_send || is_receive || is_arm));
                step <= GIVE;
            end
            default: if (next_ready) begin
                send_valid <= 1'b0;
                receive_valid <= 1'b0;
                arm_valid <= 1'b0;
                step <= LOOK;
            end
        endcase
        if (rst) begin
            step <= LOOK;
            send_valid <= 1'b0;
            receive_valid <= 1'b0;
            arm_valid <= 1'b0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst) assert (2'(send_valid) + 2'(receive_valid) + 2'(arm_valid) <= 2'd1);
        if (!rst && step == GIVE) assert (next_valid);
    end
endmodule

`default_nettype wire

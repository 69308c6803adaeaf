// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// CREATE_QP: checks a QpContext, and extracts the values for qp_table and doorbell_table.
// Combinational.
module qp_create (
    input  logic [2047:0] context_,        // what MODIFY_QP sets
    input  logic [(1 << card_pkg::LOG_CQS)-1:0] cq_exists,
    output logic [7:0]    status,
    output logic [31:0]   syndrome,
    output card_pkg::qp_t fresh,
    output logic [card_pkg::LOG_SLOTS:0] slot_send,
    output logic [card_pkg::LOG_SLOTS:0] slot_receive,
    output logic          is_gsi
);
    wire unused_inputs = &{1'b0, context_};
    localparam logic [7:0] LOG_RING = 8'(card_pkg::LOG_RING), LOG_STRIDE_MIN = 8'd4, LOG_STRIDE_MAX = 8'd8;
    localparam logic [31:0] RESERVED_MASK = 32'h1f8;   // slots 0 to 7 of a page have no such bit
    ferroce_pkg::qp_context_t asked;
    wire unused_asked = &{1'b0, asked};
    assign asked = context_;

    // Slots of queues begin after the reserved ones of each page.
    function automatic logic is_slot(input [31:0] slot);
        is_slot = slot[31:card_pkg::LOG_SLOTS] == '0 && (slot & RESERVED_MASK) != '0;
    endfunction
    function automatic logic is_cq(input [31:0] cqn);
        is_cq = cqn[31:card_pkg::LOG_CQS] == '0 && cq_exists[cqn[card_pkg::LOG_CQS-1:0]];
    endfunction

    logic is_bad, is_datagram, is_known;
    assign is_datagram = asked.service == ferroce_pkg::SERVICE_CODE_UNRELIABLE_DATAGRAM
                      || asked.service == ferroce_pkg::SERVICE_CODE_GSI;
    assign is_known = (is_datagram || asked.service == ferroce_pkg::SERVICE_CODE_RELIABLE_CONNECTED) && !asked.shape.uses_srq;
    assign status = !is_known ? ferroce_pkg::COMMAND_STATUS_NOT_SUPPORTED
                  : is_bad ? ferroce_pkg::COMMAND_STATUS_BAD_PARAMETER : ferroce_pkg::COMMAND_STATUS_SUCCESS;
    always_comb begin
        is_bad = 1'b1;
        syndrome = '0;
        if (asked.shape.log_send_blocks > LOG_RING || asked.shape.log_receives > LOG_RING
            || asked.shape.log_receive_stride < LOG_STRIDE_MIN || asked.shape.log_receive_stride > LOG_STRIDE_MAX)
            syndrome = 32'(ferroce_pkg::QP_CONTEXT_SHAPE_OFFSET);
        else if (asked.send_base[5:0] != '0) syndrome = 32'(ferroce_pkg::QP_CONTEXT_SEND_BASE_OFFSET);
        else if (asked.receive_base[5:0] != '0) syndrome = 32'(ferroce_pkg::QP_CONTEXT_RECEIVE_BASE_OFFSET);
        else if (!is_slot(asked.send_doorbell_slot)) syndrome = 32'(ferroce_pkg::QP_CONTEXT_SEND_DOORBELL_SLOT_OFFSET);
        else if (!is_slot(asked.receive_doorbell_slot))
            syndrome = 32'(ferroce_pkg::QP_CONTEXT_RECEIVE_DOORBELL_SLOT_OFFSET);
        else if (!is_cq(asked.send_cqn)) syndrome = 32'(ferroce_pkg::QP_CONTEXT_SEND_CQN_OFFSET);
        else if (!is_cq(asked.receive_cqn)) syndrome = 32'(ferroce_pkg::QP_CONTEXT_RECEIVE_CQN_OFFSET);
        else is_bad = 1'b0;
        if (!is_known) syndrome = '0;
    end

    assign is_gsi = asked.service == ferroce_pkg::SERVICE_CODE_GSI;
    assign slot_send = {1'b0, asked.send_doorbell_slot[card_pkg::LOG_SLOTS-1:0]};
    assign slot_receive = {1'b0, asked.receive_doorbell_slot[card_pkg::LOG_SLOTS-1:0]};
    always_comb begin
        fresh = '0;
        fresh.exists = 1'b1;
        fresh.is_datagram = is_datagram;
        fresh.pd = asked.pd[23:0];
        fresh.send_cqn = asked.send_cqn[7:0];
        fresh.receive_cqn = asked.receive_cqn[7:0];
        fresh.send_base = asked.send_base;
        fresh.receive_base = asked.receive_base;
        fresh.log_send_blocks = asked.shape.log_send_blocks[4:0];
        fresh.log_receives = asked.shape.log_receives[4:0];
        fresh.log_receive_stride = asked.shape.log_receive_stride[3:0];
    end
endmodule

`default_nettype wire

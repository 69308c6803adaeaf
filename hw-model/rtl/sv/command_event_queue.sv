// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Commands on event queues: CREATE_EQ, QUERY_EQ, DESTROY_EQ, MODIFY_EQ.
//
// Ports: start .. answer as in command_queue; control_* goes to event_writer, which holds the
// contexts; `exists` has a bit for each queue.
// Invariant: event_writer changes and reads only existing queues.
module command_event_queue (
    input  logic         clk,
    input  logic         rst,
    input  logic         start,
    input  logic [15:0]  opcode,
    input  logic [63:0]  argument,
    input  logic [255:0] mail,
    output logic         done,
    output card_pkg::outcome_t outcome,
    output logic [255:0] answer,
    output logic [15:0]  exists,

    output logic         control_valid,
    input  logic         control_ready,
    output logic [1:0]   control_op,
    output logic [3:0]   control_number,
    output logic [511:0] control_context,
    input  logic [511:0] answer_context    // an EqContext is half of it
);
    wire unused_inputs = &{1'b0, answer_context};
    logic [7:0]  status;
    logic [31:0] syndrome;
    logic [63:0] result;
    assign outcome = {status, syndrome, result};
    localparam logic [1:0] CREATE = 2'd0, DESTROY = 2'd1, QUERY = 2'd2, MODIFY = 2'd3;
    localparam logic [7:0] LOG_MAX = 8'(card_pkg::LOG_RING);

    typedef enum logic [1:0] {IDLE, JUDGE, CONTROL, ANSWER} step_t;
    step_t step;
    ferroce_pkg::eq_context_t context_;    // what the device sets
    wire unused_context = &{1'b0, context_};
    logic  is_number, is_create, is_there;
    assign context_ = mail;
    assign is_number = argument[63:card_pkg::LOG_EQS] == '0;
    assign is_create = opcode == ferroce_pkg::COMMAND_OPCODE_CREATE_EQ;
    assign is_there = is_number && exists[argument[card_pkg::LOG_EQS-1:0]];

    logic [7:0]  judged;
    logic [31:0] judged_at;
    always_comb begin
        judged = ferroce_pkg::COMMAND_STATUS_SUCCESS;
        judged_at = '0;
        if (!is_create) begin
            if (!is_there) judged = ferroce_pkg::COMMAND_STATUS_NO_OBJECT;
        end else if (context_.log_size > LOG_MAX) begin
            judged = ferroce_pkg::COMMAND_STATUS_BAD_PARAMETER;
            judged_at = 32'(ferroce_pkg::EQ_CONTEXT_LOG_SIZE_OFFSET);
        end else if (context_.base[5:0] != '0) begin
            judged = ferroce_pkg::COMMAND_STATUS_BAD_PARAMETER;
            judged_at = 32'(ferroce_pkg::EQ_CONTEXT_BASE_OFFSET);
        end else if (context_.vector_ >= ferroce_pkg::VECTOR_COUNT) begin
            judged = ferroce_pkg::COMMAND_STATUS_BAD_PARAMETER;
            judged_at = 32'(ferroce_pkg::EQ_CONTEXT_VECTOR_OFFSET);
        end else if (!is_number) judged = ferroce_pkg::COMMAND_STATUS_NO_RESOURCES;
        else if (is_there) judged = ferroce_pkg::COMMAND_STATUS_BUSY;
    end

    assign control_valid = step == CONTROL;
    assign control_number = argument[card_pkg::LOG_EQS-1:0];
    assign control_context = {256'b0, mail};
    always_comb
        case (opcode)
            ferroce_pkg::COMMAND_OPCODE_CREATE_EQ: control_op = CREATE;
            ferroce_pkg::COMMAND_OPCODE_DESTROY_EQ: control_op = DESTROY;
            ferroce_pkg::COMMAND_OPCODE_QUERY_EQ: control_op = QUERY;
            default: control_op = MODIFY;
        endcase
    assign done = step == ANSWER;
    assign result = is_create ? argument : '0;

    always_ff @(posedge clk) begin
        case (step)
            IDLE: if (start) step <= JUDGE;
            JUDGE: begin
                status <= judged;
                syndrome <= judged_at;
                step <= judged == ferroce_pkg::COMMAND_STATUS_SUCCESS ? CONTROL : ANSWER;
            end
            CONTROL: if (control_ready) begin
                answer <= answer_context[255:0];
                if (control_op == CREATE) exists[control_number] <= 1'b1;
                if (control_op == DESTROY) exists[control_number] <= 1'b0;
                step <= ANSWER;
            end
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= IDLE;
            exists <= '0;
        end
    end
endmodule

`default_nettype wire

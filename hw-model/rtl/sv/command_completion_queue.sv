// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Commands on CQs: CREATE_CQ, QUERY_CQ, DESTROY_CQ, MODIFY_CQ. Also counts the QPs that use each CQ.
//
// Ports: start .. answer as in command_queue; control_* goes to completion_writer, which holds the
// contexts; slot_* sets the slot in doorbell_table; `eq_exists` has a bit for each event queue.
// user_*: a QP starts (`user_joins`) or stops using a CQ. `exists` has a bit for each CQ.
// Invariants: completion_writer changes and reads only existing CQs; a CQ with users is not
// destroyed.
module command_completion_queue (
    input  logic         clk,
    input  logic         rst,
    input  logic         start,
    input  logic [15:0]  opcode,
    input  logic [63:0]  argument,
    input  logic [511:0] mail,
    output logic         done,
    output card_pkg::outcome_t outcome,
    output logic [511:0] answer,
    output logic [(1 << card_pkg::LOG_CQS)-1:0] exists,
    input  logic         has_tables,
    input  logic [3:0]   log_cqs,
    input  logic [15:0]  eq_exists,
    input  logic         user_valid,
    input  logic         user_joins,
    input  logic [card_pkg::LOG_CQS-1:0] user_cqn,

    output logic         control_valid,
    input  logic         control_ready,
    output logic [1:0]   control_op,
    output logic [card_pkg::LOG_CQS-1:0] control_number,
    output logic [511:0] control_context,
    input  logic [511:0] answer_context,

    output logic         slot_valid,
    output logic         slot_exists,
    output logic [card_pkg::LOG_SLOTS:0] slot
);
    logic [7:0]  status;
    logic [31:0] syndrome;
    logic [63:0] result;
    assign outcome = {status, syndrome, result};
    localparam logic [1:0] CREATE = 2'd0, DESTROY = 2'd1, QUERY = 2'd2, MODIFY = 2'd3;
    localparam int BITS = card_pkg::LOG_CQS;
    localparam int USER_BITS = card_pkg::LOG_QPS + 2;   // a QP may use a CQ twice
    localparam logic [7:0] LOG_MAX = 8'(card_pkg::LOG_RING);

    typedef enum logic [2:0] {IDLE, NUMBER, COUNT, JUDGE, CONTROL, ANSWER} step_t;
    step_t step;
    ferroce_pkg::cq_context_t context_;    // what the device sets, and moderation
    wire unused_context = &{1'b0, context_};
    ferroce_pkg::cq_context_t found;
    logic            is_create, is_there, is_success;
    logic [BITS-1:0] number;
    assign context_ = mail;
    assign is_create = opcode == ferroce_pkg::COMMAND_OPCODE_CREATE_CQ;
    assign is_there = argument[63:BITS] == '0 && exists[argument[BITS-1:0]];

    // -------------------------------------------------------------------------------------- numbers
    logic            is_numbered, is_taken, is_given;
    logic [7:0]      number_status;
    logic [BITS-1:0] free_number;
    ferroce_pkg::new_number_t choice;      // its reserved bits
    wire unused_choice = &{1'b0, choice};
    assign choice = argument;
    assign is_success = step == CONTROL && control_ready;
    assign is_taken = is_success && control_op == CREATE;
    assign is_given = is_success && control_op == DESTROY;
    number_table #(.BITS(BITS)) numbers (
        .clk, .rst, .capacity(has_tables ? (BITS + 1)'(1) << log_cqs : '0), .ask(start && is_create),
        .chosen(choice.chosen), .wanted(choice.number), .answered(is_numbered), .status(number_status),
        .number(free_number), .take(is_taken), .give_valid(is_given), .give_number(number)
    );

    // ---------------------------------------------------------------------------------------- users
    logic [USER_BITS-1:0] users [1 << BITS];
    logic [USER_BITS-1:0] user_count;
    logic [BITS-1:0]      user_at;
    logic                 user_writes;
    assign user_at = user_valid ? user_cqn : number;
    assign user_writes = user_valid || is_taken;
    always_ff @(posedge clk) begin
        if (user_writes)
            users[user_at] <= is_taken ? '0 : user_joins ? users[user_at] + 1'b1 : users[user_at] - 1'b1;
        user_count <= users[number];
    end

    // ----------------------------------------------------------------------------------- the checks
    logic [7:0]  judged;
    logic [31:0] judged_at;
    always_comb begin
        judged = ferroce_pkg::COMMAND_STATUS_SUCCESS;
        judged_at = '0;
        if (!is_create && !is_there) judged = ferroce_pkg::COMMAND_STATUS_NO_OBJECT;
        else if (control_op == DESTROY) begin
            if (user_count != '0) judged = ferroce_pkg::COMMAND_STATUS_BUSY;
        end else if (control_op == QUERY) ;
        else if (control_op == MODIFY && context_.base != '0) judged = ferroce_pkg::COMMAND_STATUS_NOT_SUPPORTED;
        else begin
            judged = ferroce_pkg::COMMAND_STATUS_BAD_PARAMETER;
            if (context_.base[5:0] != '0) judged_at = 32'(ferroce_pkg::CQ_CONTEXT_BASE_OFFSET);
            else if (context_.log_size > LOG_MAX) judged_at = 32'(ferroce_pkg::CQ_CONTEXT_LOG_SIZE_OFFSET);
            else if (is_create && context_.consumer_record[1:0] != '0)
                judged_at = 32'(ferroce_pkg::CQ_CONTEXT_CONSUMER_RECORD_OFFSET);
            else if (is_create && (context_.eqn[31:card_pkg::LOG_EQS] != '0
                                   || !eq_exists[context_.eqn[card_pkg::LOG_EQS-1:0]]))
                judged_at = 32'(ferroce_pkg::CQ_CONTEXT_EQN_OFFSET);
            else judged = is_create ? number_status : ferroce_pkg::COMMAND_STATUS_SUCCESS;
        end
    end

    // ------------------------------------------------------------------------------------- execution
    assign control_valid = step == CONTROL;
    assign control_number = number;
    assign control_context = mail;
    always_comb
        case (opcode)
            ferroce_pkg::COMMAND_OPCODE_CREATE_CQ: control_op = CREATE;
            ferroce_pkg::COMMAND_OPCODE_DESTROY_CQ: control_op = DESTROY;
            ferroce_pkg::COMMAND_OPCODE_QUERY_CQ: control_op = QUERY;
            default: control_op = MODIFY;
        endcase
    assign slot_valid = is_taken || is_given;
    assign slot_exists = is_taken;
    assign slot = {context_.doorbell_slot[31:card_pkg::LOG_SLOTS] != '0,
                   context_.doorbell_slot[card_pkg::LOG_SLOTS-1:0]};
    assign done = step == ANSWER;
    assign result = is_create ? 64'(number) : '0;
    always_comb begin
        found = answer_context;
        found.users = 32'(user_count);
    end

    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                number <= argument[BITS-1:0];
                if (start) step <= is_create ? NUMBER : COUNT;
            end
            NUMBER: if (is_numbered) begin
                number <= free_number;
                step <= COUNT;
            end
            COUNT: step <= JUDGE;
            JUDGE: begin
                status <= judged;
                syndrome <= judged_at;
                step <= judged == ferroce_pkg::COMMAND_STATUS_SUCCESS ? CONTROL : ANSWER;
            end
            CONTROL: if (control_ready) begin
                answer <= found;
                if (control_op == CREATE) exists[number] <= 1'b1;
                if (control_op == DESTROY) exists[number] <= 1'b0;
                step <= ANSWER;
            end
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= IDLE;
            exists <= '0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && user_valid) assert (!is_taken && exists[user_cqn]);
    end
endmodule

`default_nettype wire

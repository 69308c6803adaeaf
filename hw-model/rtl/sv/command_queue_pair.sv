// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Commands on QPs: CREATE_QP, QUERY_QP, DESTROY_QP, MODIFY_QP.
//
// Ports: start .. answer as in command_queue; `mail` is the QpContext; for MODIFY_QP, `head` is the
// header of the ModifyQp before it. `index` addresses qp_table, and `qp` is its context in the next
// cycle; write_* sets a context there. user_* counts the users of CQs, slot_* sets the slots in
// doorbell_table. control_* goes to requester and responder, which answer a QUERY with their ready.
// `gid` is entry `gid_index`, in the same cycle. `begins` pulses with `index` when a QP goes to RTR,
// `drains` when it goes to SQD and requests the event.
// Invariants: the engines get START when qp_table has the new state, and FORGET when it has RESET; a
// number is free again when both engines have forgotten it; entry 1 is the GSI's, whose QPN is 1.
module command_queue_pair (
    input  logic          clk,
    input  logic          rst,
    input  logic [23:8]   qpn_base,
    input  logic          start,
    input  logic [15:0]   opcode,
    input  logic [63:0]   argument,
    input  logic [95:0]   head,
    input  logic [2047:0] mail,
    output logic          done,
    output card_pkg::outcome_t outcome,
    output logic [2047:0] answer,

    input  logic          has_tables,
    input  logic [3:0]    log_qps,
    input  logic [(1 << card_pkg::LOG_CQS)-1:0] cq_exists,
    output logic          user_valid,
    output logic          user_joins,
    output logic [card_pkg::LOG_CQS-1:0] user_cqn,

    output logic [card_pkg::LOG_QPS-1:0] index,
    input  card_pkg::qp_t qp,
    output logic          write_valid,
    output card_pkg::qp_t write_qp,
    output logic [2:0]    write_from,      // its state before
    output logic          slot_valid,
    output logic [card_pkg::LOG_SLOTS:0] slot_send,
    output logic [card_pkg::LOG_SLOTS:0] slot_receive,
    output logic [card_pkg::LOG_GIDS-1:0] gid_index,
    input  logic [127:0]  gid,
    output logic          begins,
    output logic          drains,

    output logic          requester_valid,
    input  logic          requester_ready,
    output logic          responder_valid,
    input  logic          responder_ready,
    output card_pkg::control_t control,
    input  card_pkg::send_query_t send_query,
    input  card_pkg::receive_query_t receive_query
);
    logic [7:0]  status;
    logic [31:0] syndrome;
    logic [63:0] result;
    assign outcome = {status, syndrome, result};
    localparam int BITS = card_pkg::LOG_QPS;
    localparam int RATE_AT = 8 * (ferroce_pkg::QP_CONTEXT_PATH_OFFSET + ferroce_pkg::ADDRESS_PATH_STATIC_RATE_OFFSET);
    localparam logic [2:0] RESET = 3'(ferroce_pkg::QP_STATE_CODE_RESET), RTR = 3'(ferroce_pkg::QP_STATE_CODE_RTR),
                           RTS = 3'(ferroce_pkg::QP_STATE_CODE_RTS), SQE = 3'(ferroce_pkg::QP_STATE_CODE_SQE);

    typedef enum logic [3:0] {
        IDLE, NUMBER, READ, LOOK, CHECK, USE_SEND, USE_RECEIVE, WRITE, REQUESTER, RESPONDER, LEAVE_SEND,
        LEAVE_RECEIVE, REMOVE, ANSWER
    } step_t;
    step_t step;

    logic is_create, is_query, is_destroy, is_modify, is_number, is_reset;
    assign is_create = opcode == ferroce_pkg::COMMAND_OPCODE_CREATE_QP;
    assign is_query = opcode == ferroce_pkg::COMMAND_OPCODE_QUERY_QP;
    assign is_destroy = opcode == ferroce_pkg::COMMAND_OPCODE_DESTROY_QP;
    assign is_modify = opcode == ferroce_pkg::COMMAND_OPCODE_MODIFY_QP;
    assign is_number = argument == 64'(ferroce_pkg::CONTEXT_GSI_QPN)
                    || (argument[63:24] == '0 && argument[23:BITS] == 16'(qpn_base)
                        && argument[BITS-1:0] >= BITS'(card_pkg::RESERVED_QPS));

    // ------------------------------------------------------------------- the parts of the work
    logic [7:0]            created, modified;
    logic [31:0]           created_at, modified_at;
    card_pkg::qp_t         fresh, changed, stored;
    logic [2047:0]         composed;
    // For QUERY_QP: what is stored here, and the requester's answer.
    logic [63:0]           slot_pair;
    logic [31:0]           rate, send_producer, send_fetched;
    logic [23:0]           send_psn, unacknowledged_psn;
    logic                  is_drained;
    logic                  creates_gsi, is_gsi;
    assign is_gsi = index == card_pkg::GSI_INDEX;
    qp_create creation (
        .context_(mail), .cq_exists, .status(created), .syndrome(created_at), .fresh, .slot_send, .slot_receive,
        .is_gsi(creates_gsi)
    );
    qp_modify modification (
        .head, .context_(mail), .qp(stored), .is_gsi, .gid_index, .gid, .status(modified), .syndrome(modified_at), .changed
    );
    qp_compose composition (
        .qp(stored), .is_gsi, .slots(slot_pair), .rate,
        .send_query({send_psn, unacknowledged_psn, send_producer, send_fetched, is_drained}), .receive_query,
        .context_(composed)
    );
    logic [63:0] slots [1 << BITS];
    logic [31:0] rates [1 << BITS];
    logic        rate_valid;
    assign rate_valid = step == WRITE
                     && (is_create || (is_modify && head[64 + ferroce_pkg::QP_ATTRIBUTE_MASK_PATH_LSB]));
    always_ff @(posedge clk) begin
        if (slot_valid) slots[index] <= mail[8*ferroce_pkg::QP_CONTEXT_SEND_DOORBELL_SLOT_OFFSET +: 64];
        slot_pair <= slots[index];
    end
    always_ff @(posedge clk) begin
        if (rate_valid) rates[index] <= is_create ? '0 : mail[RATE_AT +: 32];
        rate <= rates[index];
    end

    // --------------------------------------------------------------------------------------- numbers
    logic            is_numbered, is_given;
    logic [7:0]      number_status;
    logic [BITS-1:0] free_number;
    logic [31:0]     wanted;               // an index; a QPN of another card has none
    ferroce_pkg::new_number_t choice;      // its reserved bits
    wire unused_choice = &{1'b0, choice};
    assign choice = argument;
    assign wanted = {choice.number[31:BITS] == 24'(qpn_base) ? 24'd0 : 24'hff_ffff, choice.number[BITS-1:0]};
    assign is_given = step == REMOVE && !is_gsi;
    number_table #(.BITS(BITS), .FIRST(card_pkg::RESERVED_QPS)) numbers (
        .clk, .rst, .capacity(has_tables ? (BITS + 1)'(1) << log_qps : '0), .ask(start && is_create),
        .chosen(choice.chosen), .wanted, .answered(is_numbered), .status(number_status), .number(free_number),
        .take(slot_valid && !creates_gsi), .give_valid(is_given), .give_number(index)
    );

    // The GSI has its own number, which no other QP can choose.
    logic       is_gsi_taken;
    logic [7:0] gsi_status, new_status;
    always_comb begin
        gsi_status = ferroce_pkg::COMMAND_STATUS_SUCCESS;
        if (is_gsi_taken) gsi_status = choice.chosen ? ferroce_pkg::COMMAND_STATUS_BUSY
                                                     : ferroce_pkg::COMMAND_STATUS_NO_RESOURCES;
        if (!has_tables || (choice.chosen && choice.number != ferroce_pkg::CONTEXT_GSI_QPN))
            gsi_status = ferroce_pkg::COMMAND_STATUS_NO_RESOURCES;
    end
    assign is_gsi_taken = stored.exists;
    assign new_status = creates_gsi ? gsi_status : number_status;

    // ------------------------------------------------------------------------------- to other blocks
    logic [2:0]  to;
    logic [23:0] first_psn;
    logic        starts_responder, starts_requester, resumes;
    assign to = head[2:0];
    assign is_reset = is_destroy || (is_modify && to == RESET);
    assign starts_responder = is_modify && to == RTR;
    assign resumes = is_modify && to == RTS && stored.state == SQE;
    assign starts_requester = (is_modify && to == RTS && stored.state == RTR) || resumes;
    // A datagram QP expects no PSN.
    assign first_psn = starts_responder ? (stored.is_datagram ? '0 : mail[8*ferroce_pkg::QP_CONTEXT_RECEIVE_PSN_OFFSET +: 24])
                                        : mail[8*ferroce_pkg::QP_CONTEXT_SEND_PSN_OFFSET +: 24];
    assign slot_valid = step == WRITE && is_create;
    assign write_valid = step == WRITE || step == REMOVE;
    assign write_from = stored.state;
    always_comb begin
        write_qp = changed;
        if (is_create) write_qp = fresh;
        if (is_destroy) begin
            write_qp = stored;
            write_qp.exists = step != REMOVE;
            write_qp.state = RESET;
        end
    end
    assign user_valid = step == USE_SEND || step == USE_RECEIVE || step == LEAVE_SEND || step == LEAVE_RECEIVE;
    assign user_joins = step == USE_SEND || step == USE_RECEIVE;
    always_comb begin
        case (step)
            USE_SEND: user_cqn = fresh.send_cqn;
            USE_RECEIVE: user_cqn = fresh.receive_cqn;
            LEAVE_SEND: user_cqn = stored.send_cqn;
            default: user_cqn = stored.receive_cqn;
        endcase
    end
    assign requester_valid = step == REQUESTER;
    assign responder_valid = step == RESPONDER;
    always_comb begin
        control.op = card_pkg::CONTROL_START;
        if (is_reset) control.op = card_pkg::CONTROL_FORGET;
        if (resumes) control.op = card_pkg::CONTROL_RESUME;
        if (is_query) control.op = card_pkg::CONTROL_QUERY;
        control.qp = index;
        control.psn = first_psn;
    end
    assign begins = step == RESPONDER && responder_ready && starts_responder;
    assign drains = step == WRITE && is_modify && head[64 + ferroce_pkg::QP_ATTRIBUTE_MASK_DRAINED_EVENT_LSB];
    assign done = step == ANSWER;
    logic [23:0] qpn;
    assign qpn = is_gsi ? ferroce_pkg::CONTEXT_GSI_QPN[23:0] : {qpn_base, index};
    assign result = is_create ? {40'b0, qpn} : '0;

    // ----------------------------------------------------------------------------------- the machine
    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                status <= ferroce_pkg::COMMAND_STATUS_SUCCESS;
                syndrome <= '0;
                index <= argument[BITS-1:0];
                if (start) step <= is_create ? NUMBER : READ;
            end
            NUMBER: if (is_numbered) begin
                index <= creates_gsi ? card_pkg::GSI_INDEX : free_number;
                step <= READ;
            end
            READ: step <= LOOK;
            LOOK: begin
                stored <= qp;
                step <= CHECK;
                if (!is_create && !(is_number && qp.exists)) begin
                    status <= ferroce_pkg::COMMAND_STATUS_NO_OBJECT;
                    step <= ANSWER;
                end
            end
            CHECK: begin
                step <= WRITE;
                if (is_query) step <= REQUESTER;
                if (is_create) begin
                    status <= created;
                    syndrome <= created_at;
                    step <= USE_SEND;
                    if (created != ferroce_pkg::COMMAND_STATUS_SUCCESS) step <= ANSWER;
                    else if (new_status != ferroce_pkg::COMMAND_STATUS_SUCCESS) begin
                        status <= new_status;
                        step <= ANSWER;
                    end
                end
                if (is_modify) begin
                    status <= modified;
                    syndrome <= modified_at;
                    if (modified != ferroce_pkg::COMMAND_STATUS_SUCCESS) step <= ANSWER;
                end
            end
            USE_SEND: step <= USE_RECEIVE;
            USE_RECEIVE: step <= WRITE;
            WRITE: step <= is_reset || starts_requester ? REQUESTER : starts_responder ? RESPONDER : ANSWER;
            REQUESTER: if (requester_ready) step <= is_reset || is_query ? RESPONDER : ANSWER;
            RESPONDER: if (responder_ready) step <= is_destroy ? LEAVE_SEND : ANSWER;
            LEAVE_SEND: step <= LEAVE_RECEIVE;
            LEAVE_RECEIVE: step <= REMOVE;
            REMOVE: step <= ANSWER;
            default: step <= IDLE;
        endcase
        if (step == REQUESTER && requester_ready) begin
            send_psn <= send_query.send_psn;
            unacknowledged_psn <= send_query.unacknowledged_psn;
            send_producer <= send_query.producer;
            send_fetched <= send_query.fetched;
            is_drained <= send_query.drained;
        end
        if (step == RESPONDER && responder_ready) answer <= composed;
        if (rst) step <= IDLE;
    end

    always_ff @(posedge clk) begin
        if (!rst && slot_valid) assert (!qp.exists && (free_number == index || creates_gsi));
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The command engine: command_queue and the parts that execute, one for each kind of object.
//
// Ports: the parts' ports, and control_* of the blocks that hold contexts: eq_* (event_writer), cq_*
// (completion_writer), requester_*, responder_*, entry_* (memory_unit); qp_*, gid_*, slot_* are the
// tables.
// Invariant: one part works at a time.
module command_engine (
    input  logic         clk,
    input  logic         rst,
    input  logic [23:8]  qpn_base,
    input  logic         enabled,
    input  logic         hang,
    input  logic [63:0]  ring_base,
    input  logic [3:0]   ring_log,
    input  logic [31:0]  posted,
    output logic [31:0]  completed,
    output logic         fatal,
    output logic         idle,
    output logic         count_command,
    output logic         count_error,

    output card_pkg::read_t read,
    input  logic         read_ready,
    input  card_pkg::line_t line,
    output card_pkg::write_t write,
    input  logic         write_ready,
    input  logic         write_error,

    output logic         eq_control_valid,
    input  logic         eq_control_ready,
    output logic [1:0]   eq_control_op,
    output logic [3:0]   eq_control_number,
    output logic [511:0] eq_control_context,
    input  logic [511:0] eq_answer_context,
    output logic         cq_control_valid,
    input  logic         cq_control_ready,
    output logic [1:0]   cq_control_op,
    output logic [7:0]   cq_control_number,
    output logic [511:0] cq_control_context,
    input  logic [511:0] cq_answer_context,

    output logic         requester_valid,
    input  logic         requester_ready,
    output logic         responder_valid,
    input  logic         responder_ready,
    output card_pkg::control_t control,
    input  card_pkg::send_query_t send_query,
    input  card_pkg::receive_query_t receive_query,

    input  logic [1:0]   fail_valid,
    input  logic [15:0]  fail_qp,
    input  logic         progress,         // requests may have been retired
    output logic         event_valid,
    input  logic         event_ready,
    output card_pkg::event_t event_data,

    output logic         entry_valid,
    input  logic         entry_ready,
    output card_pkg::entry_t entry,
    input  logic         entry_done,
    input  logic [2:0]   entry_fault,
    input  logic [511:0] entry_answer,

    output logic [7:0]   qp_index,
    input  card_pkg::qp_t qp,
    output logic         qp_write,
    output card_pkg::qp_t qp_to_write,
    output logic [2:0]   qp_was,           // its state before
    output logic         qp_begins,
    output logic         slot_valid,
    output card_pkg::slot_t slot_write,
    output logic         gid_write,
    output logic [card_pkg::LOG_GIDS-1:0] gid_index,
    output card_pkg::address_t address,
    input  logic [127:0] gid,
    input  logic [47:0]  mac,
    input  logic [15:0]  vlan
);
    localparam int MAIL_LINES = 5, ANSWER_LINES = 4;
    localparam logic [2:0] DEVICE = 3'd0, EVENT_QUEUE = 3'd1, COMPLETION_QUEUE = 3'd2, QUEUE_PAIR = 3'd3, MEMORY = 3'd5;

    logic [15:0]   opcode;
    logic          queue_idle, watch_idle;
    assign idle = queue_idle && watch_idle;
    logic          known, start, done;
    logic [8:0]    wanted_in, wanted_out;
    logic [2:0]    part;
    logic [63:0]   argument;
    logic [512*MAIL_LINES-1:0]   mail;
    logic [512*ANSWER_LINES-1:0] answer;
    card_pkg::outcome_t outcome;
    command_decode decode (.opcode, .known, .wanted_in, .wanted_out, .part);
    command_queue #(.MAIL_LINES(MAIL_LINES), .ANSWER_LINES(ANSWER_LINES)) queue (
        .clk, .rst, .enabled, .hang, .ring_base, .ring_log, .posted, .completed, .fatal, .idle(queue_idle), .read,
        .read_ready, .line, .write, .write_ready, .write_error, .opcode, .known, .wanted_in, .wanted_out, .start,
        .argument, .mail, .done, .outcome, .answer, .count_command, .count_error
    );

    // ------------------------------------------------------------------------------------- the parts
    logic          has_tables, device_done, device_entry_valid;
    logic [3:0]    log_qps, log_cqs, log_mrs;
    logic [4:0]    log_mtts;
    card_pkg::outcome_t device_outcome;
    logic [63:0]   device_entry_base;
    logic [1023:0] device_answer;
    logic [2:0]    device_entry_op;
    logic [card_pkg::LOG_GIDS-1:0] device_gid_index, path_gid_index;
    command_device device (
        .clk, .rst, .qpn_base, .start(start && part == DEVICE), .opcode, .argument, .mail(mail[639:0]),
        .done(device_done), .outcome(device_outcome), .answer(device_answer), .has_tables, .log_qps, .log_cqs,
        .log_mrs, .log_mtts, .entry_valid(device_entry_valid), .entry_ready, .entry_op(device_entry_op),
        .entry_base(device_entry_base), .entry_log(entry.log), .entry_done, .gid_write, .gid_index(device_gid_index),
        .gid_to_write(address.gid), .mac_to_write(address.mac), .vlan_to_write(address.vlan), .gid, .mac, .vlan
    );
    assign gid_index = part == DEVICE ? device_gid_index : path_gid_index;

    logic         eq_done;
    card_pkg::outcome_t eq_outcome;
    logic [255:0] eq_answer;
    logic [15:0]  eq_exists;
    command_event_queue event_queue (
        .clk, .rst, .start(start && part == EVENT_QUEUE), .opcode, .argument, .mail(mail[255:0]), .done(eq_done),
        .outcome(eq_outcome), .answer(eq_answer), .exists(eq_exists), .control_valid(eq_control_valid),
        .control_ready(eq_control_ready), .control_op(eq_control_op), .control_number(eq_control_number),
        .control_context(eq_control_context), .answer_context(eq_answer_context)
    );

    logic         cq_done, user_valid, user_joins, cq_slot_valid;
    card_pkg::outcome_t cq_outcome;
    logic [7:0]   user_cqn;
    logic [511:0] cq_answer;
    logic [255:0] cq_exists;
    logic [card_pkg::LOG_SLOTS:0] cq_slot, qp_slot_send;
    command_completion_queue completion_queue (
        .clk, .rst, .start(start && part == COMPLETION_QUEUE), .opcode, .argument, .mail(mail[511:0]), .done(cq_done),
        .outcome(cq_outcome), .answer(cq_answer), .exists(cq_exists), .has_tables, .log_cqs, .eq_exists, .user_valid,
        .user_joins, .user_cqn, .control_valid(cq_control_valid), .control_ready(cq_control_ready),
        .control_op(cq_control_op), .control_number(cq_control_number), .control_context(cq_control_context),
        .answer_context(cq_answer_context), .slot_valid(cq_slot_valid), .slot_exists(slot_write.exists),
        .slot(cq_slot)
    );

    logic          qp_done, qp_slot_valid, qp_drains, command_asks, watch_asks;
    logic [7:0]    watched_qp;
    card_pkg::control_t qp_control;
    card_pkg::outcome_t qp_outcome;
    logic [2047:0] qp_answer;
    command_queue_pair queue_pair (
        .clk, .rst, .qpn_base, .start(start && part == QUEUE_PAIR), .opcode, .argument, .head(mail[95:0]),
        .mail(opcode == ferroce_pkg::COMMAND_OPCODE_MODIFY_QP ? mail[8*ferroce_pkg::MODIFY_QP_CONTEXT_OFFSET +: 2048] : mail[2047:0]),
        .done(qp_done), .outcome(qp_outcome), .answer(qp_answer), .has_tables, .log_qps, .cq_exists, .user_valid,
        .user_joins, .user_cqn, .index(qp_index), .qp, .write_valid(qp_write), .write_qp(qp_to_write),
        .write_from(qp_was),
        .slot_valid(qp_slot_valid), .slot_send(qp_slot_send), .slot_receive(slot_write.receive),
        .gid_index(path_gid_index), .gid, .begins(qp_begins), .drains(qp_drains), .requester_valid(command_asks),
        .requester_ready(requester_ready && !watch_asks), .responder_valid, .responder_ready, .control(qp_control),
        .send_query, .receive_query
    );
    drain_watch drains (
        .clk, .rst, .qpn_base, .begins(qp_drains), .ends(qp_write), .index(qp_index), .fail_valid, .fail_qp,
        .progress, .is_busy(command_asks), .ask_valid(watch_asks), .ask_ready(requester_ready), .ask_qp(watched_qp),
        .drained(send_query.drained), .event_valid, .event_ready, .event_data, .idle(watch_idle)
    );
    assign requester_valid = command_asks || watch_asks;
    always_comb begin
        control = qp_control;
        if (watch_asks) begin
            control.op = card_pkg::CONTROL_QUERY;
            control.qp = watched_qp;
        end
    end
    assign slot_valid = cq_slot_valid || qp_slot_valid;
    assign slot_write.is_cq = cq_slot_valid;
    assign slot_write.number = cq_slot_valid ? cq_control_number : qp_index;
    assign slot_write.send = cq_slot_valid ? cq_slot : qp_slot_send;

    logic         memory_done, memory_entry_valid;
    card_pkg::outcome_t memory_outcome;
    logic [63:0]  memory_entry_base;
    logic [511:0] memory_answer;
    logic [2:0]   memory_entry_op;
    command_memory memory (
        .clk, .rst, .start(start && part == MEMORY), .opcode, .argument, .mail(mail[511:0]), .done(memory_done),
        .outcome(memory_outcome), .answer(memory_answer), .has_tables, .log_mrs, .log_mtts,
        .entry_valid(memory_entry_valid), .entry_ready, .entry_op(memory_entry_op), .entry_key(entry.key),
        .entry_line(entry.line), .entry_base(memory_entry_base), .entry_done, .entry_fault, .entry_answer
    );
    assign entry_valid = device_entry_valid || memory_entry_valid;
    assign entry.op = device_entry_valid ? device_entry_op : memory_entry_op;
    assign entry.base = device_entry_valid ? device_entry_base : memory_entry_base;

    // ------------------------------------------------------------------------------------ the outcome
    assign done = device_done || eq_done || cq_done || qp_done || memory_done;
    always_comb begin
        outcome = device_outcome;
        answer = {1024'b0, device_answer};
        case (part)
            EVENT_QUEUE: begin
                outcome = eq_outcome;
                answer = {1792'b0, eq_answer};
            end
            COMPLETION_QUEUE: begin
                outcome = cq_outcome;
                answer = {1536'b0, cq_answer};
            end
            QUEUE_PAIR: begin
                outcome = qp_outcome;
                answer = qp_answer;
            end
            MEMORY: begin
                outcome = memory_outcome;
                answer = {1536'b0, memory_answer};
            end
            default: ;
        endcase
    end
endmodule

`default_nettype wire

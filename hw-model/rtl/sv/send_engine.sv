// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The send side of the transport: requester, completer, their timers, doorbells and memories.
//
// Ports: the ports of the blocks requester and completer of CARD.md; the prefixes `requester_*` and
// `completer_*` distinguish ports that both have. `wake_*` pulses when qp_table has written the state
// of a QP; `fail_sends`: only its send queue fails. `packet_done` pulses when an answer of steer has had its effect,
// and `left_done` when a sent datagram has. The completer's reads of
// the ring have the top bit of `read.index` set. `deadline_*` is the earliest timer when `idle`.
// `count_*` pulse.
// Invariant: completions of a QP are in the order of its WQEs.
module send_engine (
    input  logic         clk,
    input  logic         rst,
    input  logic [63:0]  now_ns,
    output logic         idle,
    output logic         deadline_valid,
    output logic [63:0]  deadline_ns,

    // The command engine and the tables.
    input  logic               control_valid,
    output logic               control_ready,
    input  card_pkg::control_t control,
    output card_pkg::send_query_t query,
    input  logic               doorbell_valid,
    output logic               doorbell_ready,
    input  card_pkg::doorbell_t  doorbell,
    output logic               doorbell_error,
    output logic [7:0]         requester_qp_index,
    input  card_pkg::qp_t      requester_qp,
    output logic [7:0]         completer_qp_index,
    input  card_pkg::qp_t      completer_qp,
    input  logic               wake_valid,
    input  logic [7:0]         wake_qp,
    output logic               fail_valid,
    output logic               fail_sends,
    output logic [7:0]         fail_qp,
    output logic [3:0]         gid_index,
    input  logic [127:0]       gid,

    // DMA of WQEs.
    output card_pkg::read_t    read,
    input  logic         read_ready,
    input  card_pkg::line_t    line,

    // memory_unit.
    output logic                      requester_request_valid,
    input  logic                      requester_request_ready,
    output card_pkg::memory_request_t requester_request,
    input  logic                      requester_answer_valid,
    output logic                      requester_answer_ready,
    input  card_pkg::piece_t          requester_answer,
    input  logic [2:0]                requester_answer_fault,
    output logic                      completer_request_valid,
    input  logic                      completer_request_ready,
    output card_pkg::memory_request_t completer_request,
    input  logic                      completer_answer_valid,
    output logic                      completer_answer_ready,
    input  card_pkg::piece_t          completer_answer,
    input  logic [2:0]                completer_answer_fault,

    // transmit.
    output logic                 packet_valid,
    input  logic                 packet_ready,
    output card_pkg::tx_packet_t packet,
    output logic                 piece_valid,
    input  logic                 piece_ready,
    output card_pkg::piece_t     piece,
    input  logic                 sent_valid,
    input  logic                 payload_error,
    input  logic                 payload_error_responder,
    input  logic [7:0]           payload_error_qp,

    // steer and scatter.
    input  logic                 answer_valid,
    output logic                 answer_ready,
    input  card_pkg::rx_packet_t answer,
    output logic                 answer_done,
    output logic                 left_done,
    output logic                 place_valid,
    input  logic                 place_ready,
    output card_pkg::piece_t     place,
    output logic                 place_drop,
    input  logic [15:0]          frames_done,

    // completion_writer.
    output logic                  completion_valid,
    input  logic                  completion_ready,
    output card_pkg::completion_t completion,

    output card_pkg::send_counts_t count
);
    localparam int LOG_ENTRIES = card_pkg::LOG_QPS + card_pkg::LOG_OUTSTANDING;
    localparam logic [1:0] TIMER_STOP = 2'd0, TIMER_START = 2'd1, TIMER_START_IF_STOPPED = 2'd2;

    // ------------------------------------------------------------------- whose turn, and what it has
    logic pick_valid, pick_ready, again_valid, answered_valid, rung_valid, set_empty;
    logic [7:0] pick_qp, again_qp, answered_qp, rung_qp;
    ready_set #(.SETS(4)) ready (
        .clk, .rst, .set_valid({again_valid, answered_valid, rung_valid, wake_valid}),
        .set_qp({again_qp, answered_qp, rung_qp, wake_qp}), .pick_valid, .pick_ready, .pick_qp, .empty(set_empty)
    );

    logic state_write, table_write, requester_wants_qp, forget_producer;
    logic [7:0] state_at, requester_at, completer_at, doorbell_at;
    logic [LOG_ENTRIES-1:0] table_at, completer_table_at;
    card_pkg::send_state_t state, sent;
    card_pkg::send_state_t doorbell_state;     // all fields except `fetched`
    wire unused_doorbell_state = &{1'b0, doorbell_state};
    card_pkg::outstanding_t table_entry, table_of_requester, table_of_completer;
    logic [31:0] producer;
    ram_1w1r #(.BITS($bits(state)), .LOG_DEPTH(card_pkg::LOG_QPS)) states_of_completer (
        .clk, .write_valid(state_write), .write_at(state_at), .write_data(state),
        .read_at(completer_at), .read_data(sent)
    );
    ram_1w1r #(.BITS($bits(state)), .LOG_DEPTH(card_pkg::LOG_QPS)) states_of_doorbells (
        .clk, .write_valid(state_write), .write_at(state_at), .write_data(state),
        .read_at(doorbell_at), .read_data(doorbell_state)
    );
    // The table of outstanding requests: the requester reads and writes at the same address.
    ram_1rw1r #(.BITS($bits(table_entry)), .LOG_DEPTH(LOG_ENTRIES)) entries (
        .clk, .write_valid(table_write), .at(table_at), .write_data(table_entry),
        .data(table_of_requester), .read_at(completer_table_at), .read_data(table_of_completer)
    );

    logic doorbells_idle;
    assign requester_qp_index = requester_wants_qp ? requester_at : doorbell_at;
    assign completer_qp_index = completer_at;
    send_doorbells doorbells (
        .clk, .rst, .idle(doorbells_idle), .doorbell_valid, .doorbell_ready, .doorbell, .doorbell_error, .rung_valid,
        .rung_qp, .table_busy(requester_wants_qp), .state(requester_qp.state),
        .log_send_blocks(requester_qp.log_send_blocks), .state_at(doorbell_at), .fetched(doorbell_state.fetched),
        .requester_at, .producer, .forget(forget_producer)
    );

    // -------------------------------------------------------------------------------------- timers
    logic [1:0] timer_valid, timer_ready;
    logic timer_start, expired_valid, expired_ready, timers_idle;
    logic [63:0] requester_deadline, completer_deadline;
    logic [7:0] expired_qp;
    timers timers_of_qps (
        .clk, .rst, .now_ns, .set_valid(timer_valid), .set_ready(timer_ready),
        .set_op({timer_start ? TIMER_START : TIMER_STOP, TIMER_START_IF_STOPPED}),
        .set_qp({completer_at, requester_at}), .set_deadline({completer_deadline, requester_deadline}),
        .expired_valid, .expired_ready, .expired_qp, .deadline_valid, .deadline_ns, .idle(timers_idle)
    );

    // ------------------------------------------------------------- one read port, one completion port
    localparam int TOP = card_pkg::LOG_READS - 1;
    card_pkg::read_t requester_read, completer_read;
    card_pkg::line_t requester_line, completer_line;
    logic [1:0] block_ready;
    logic chosen, last_chosen, is_held;
    assign chosen = is_held ? last_chosen : !requester_read.valid;
    assign block_ready = {read_ready && chosen, read_ready && !chosen};
    always_comb begin
        read = chosen ? completer_read : requester_read;
        read.index[TOP] = chosen;
        requester_line = line;
        requester_line.valid = line.valid && !line.index[TOP];
        completer_line = line;
        completer_line.valid = line.valid && line.index[TOP];
        completer_line.index[TOP] = 1'b0;
    end
    always_ff @(posedge clk) begin
        last_chosen <= chosen;
        is_held <= !rst && read.valid && !read_ready;
    end

    logic [1:0] ends_valid, ends_ready;
    card_pkg::completion_t requester_completion, completer_completion;
    logic [15:0] frame;
    assign ends_ready[1] = !completion_valid;
    assign ends_ready[0] = !completion_valid && !ends_valid[1];
    always_ff @(posedge clk) begin
        if (completion_ready) completion_valid <= 1'b0;
        if (!completion_valid && ends_valid != '0) begin
            completion_valid <= 1'b1;
            completion <= ends_valid[1] ? completer_completion : requester_completion;
        end
        if (rst) completion_valid <= 1'b0;
    end

    // -------------------------------------------------------------------------------- the two engines
    card_pkg::retire_state_t retired;
    logic is_going_back, is_waiting, is_errored, went_back, settle;
    logic flush_valid, flush_ready, reset_valid, reset_ready, requester_idle, completer_idle;
    logic [23:0] reset_psn, left_psn;
    logic left_valid, left_error, own_payload_error;
    logic [7:0] left_qp;
    assign own_payload_error = payload_error && !payload_error_responder;
    requester send (
        .clk, .rst, .now_ns, .idle(requester_idle), .control_valid, .control_ready, .control, .query, .pick_valid,
        .pick_ready, .pick_qp, .again_valid, .again_qp, .qp_wanted(requester_wants_qp), .at(requester_at),
        .qp(requester_qp), .producer, .forget_producer, .gid_index, .gid, .state_write, .state_at, .state,
        .table_write, .table_at, .table_entry, .table_read(table_of_requester), .retired, .is_going_back, .is_waiting,
        .is_errored, .went_back, .settle, .flush_valid, .flush_ready, .reset_valid, .reset_ready, .reset_psn,
        .timer_valid(timer_valid[0]), .timer_ready(timer_ready[0]), .timer_deadline(requester_deadline),
        .read(requester_read), .read_ready(block_ready[0]), .line(requester_line),
        .request_valid(requester_request_valid), .request_ready(requester_request_ready), .request(requester_request),
        .answer_valid(requester_answer_valid), .answer_ready(requester_answer_ready), .answer(requester_answer),
        .answer_fault(requester_answer_fault), .packet_valid, .packet_ready, .packet, .piece_valid, .piece_ready,
        .piece, .sent_valid, .sent_error(own_payload_error), .left_valid, .left_error, .left_qp, .left_psn,
        .completion_valid(ends_valid[0]), .completion_ready(ends_ready[0]),
        .completion(requester_completion), .completions_idle(!completion_valid), .frame,
        .count_retransmitted(count.retransmitted), .count_wqe_error(count.wqe_error)
    );
    completer retire (
        .clk, .rst, .now_ns, .idle(completer_idle), .packet_valid(answer_valid), .packet_ready(answer_ready),
        .packet(answer), .packet_done(answer_done), .at(completer_at), .qp(completer_qp), .sent,
        .table_at(completer_table_at), .table_read(table_of_completer), .requester_at, .retired, .is_going_back,
        .is_waiting, .is_errored, .went_back, .settle, .flush_valid, .flush_ready, .reset_valid, .reset_ready,
        .reset_psn, .again_valid(answered_valid), .again_qp(answered_qp),
        .payload_error(own_payload_error), .payload_error_qp, .left_valid, .left_error, .left_qp, .left_psn,
        .left_done, .timer_valid(timer_valid[1]),
        .timer_ready(timer_ready[1]), .timer_start, .timer_deadline(completer_deadline), .expired_valid,
        .expired_ready, .expired_qp, .read(completer_read), .read_ready(block_ready[1]), .line(completer_line),
        .request_valid(completer_request_valid), .request_ready(completer_request_ready), .request(completer_request),
        .answer_valid(completer_answer_valid), .answer_ready(completer_answer_ready), .answer(completer_answer),
        .answer_fault(completer_answer_fault), .place_valid, .place_ready, .place, .place_drop, .frames_done, .frame,
        .completion_valid(ends_valid[1]), .completion_ready(ends_ready[1]), .completion(completer_completion),
        .fail_valid, .fail_sends, .fail_qp, .count_timeout(count.timeout), .count_rnr_nak(count.rnr_nak),
        .count_sequence_nak(count.sequence_nak), .count_other_nak(count.other_nak), .count_refetch(count.refetch)
    );
    assign idle = set_empty && requester_idle && completer_idle && doorbells_idle && timers_idle
               && !completion_valid && !control_valid && !answer_valid && !rung_valid && !wake_valid;
endmodule

`default_nettype wire

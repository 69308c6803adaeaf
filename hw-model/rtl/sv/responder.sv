// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The receive side of all QPs: connects request_engine, receive_segments and response_engine, which
// share the port of qp_table, and the register of events.
//
// Ports: as in CARD.md. memory_unit has two clients here: request_*, answer_* for received packets,
// response_request_*, response_answer_* for READ responses. read_* and line_* are DMA of
// receive WQEs, atomic_* DMA of atomics. `sent_valid` is transmit's pulse for a packet of the responder, with
// payload_error_*. Counters are pulses.
// Invariant: `fail_valid` pulses once for each QP that fails here, after its event or completion was
// handed over.
module responder (
    input  logic                      clk,
    input  logic                      rst,

    input  logic                      packet_valid,
    output logic                      packet_ready,
    input  card_pkg::rx_packet_t      packet,
    input  card_pkg::qp_t             packet_qp,
    output logic                      done,
    output logic                      place_valid,
    input  logic                      place_ready,
    output card_pkg::piece_t          place,
    output logic                      place_drop,
    input  logic [15:0]               frames_done,

    input  logic                      control_valid,
    output logic                      control_ready,
    input  card_pkg::control_t        control,
    output card_pkg::receive_query_t  query,

    input  logic                      doorbell_valid,
    output logic                      doorbell_ready,
    input  card_pkg::doorbell_t       doorbell,
    output logic                      doorbell_error,
    input  logic                      wake_valid,
    input  logic [7:0]                wake_qp,

    output logic [7:0]                qp_index,
    input  card_pkg::qp_t             qp,
    output logic                      fail_valid,
    output logic [7:0]                fail_qp,

    output card_pkg::read_t           read,
    input  logic                      read_ready,
    input  card_pkg::line_t           line,

    output card_pkg::read_t           atomic_read,
    input  logic                      atomic_read_ready,
    input  card_pkg::line_t           atomic_line,
    output card_pkg::write_t          atomic_write,
    input  logic                      atomic_write_ready,
    input  logic                      atomic_write_error,

    output logic                      request_valid,
    input  logic                      request_ready,
    output card_pkg::memory_request_t request,
    input  logic                      answer_valid,
    output logic                      answer_ready,
    input  card_pkg::piece_t          answer,
    input  logic [2:0]                answer_fault,
    output logic                      response_request_valid,
    input  logic                      response_request_ready,
    output card_pkg::memory_request_t response_request,
    input  logic                      response_answer_valid,
    output logic                      response_answer_ready,
    input  card_pkg::piece_t          response_answer,
    input  logic [2:0]                response_answer_fault,

    output logic                      completion_valid,
    input  logic                      completion_ready,
    output card_pkg::completion_t     completion,
    output logic                      event_valid,
    input  logic                      event_ready,
    output card_pkg::event_t          event_data,

    output logic                      tx_packet_valid,
    input  logic                      tx_packet_ready,
    output card_pkg::tx_packet_t      tx_packet,
    output logic                      tx_piece_valid,
    input  logic                      tx_piece_ready,
    output card_pkg::piece_t          tx_piece,

    input  logic                      sent_valid,
    input  logic                      payload_error_valid,
    input  logic [7:0]                payload_error_qp,

    output card_pkg::receive_counts_t count,
    output logic                      idle
);
    logic requests_idle, responses_idle;
    assign idle = requests_idle && responses_idle && !event_valid && !completion_valid;

    // ------------------------------------------------------------------- the port of the QP table
    logic       response_look_valid;
    logic [7:0] look_qp, response_look_qp;
    assign qp_index = response_look_valid ? response_look_qp : look_qp;

    // -------------------------------------------------------------------------------------- engines
    logic         fetch_valid, fetch_ready, fetch_error, clear_valid;
    card_pkg::fetch_t fetch;
    logic [7:0]   job_qp;
    logic [3:0]   segment_number;
    logic [31:0]  fetch_capacity;
    logic [127:0] segment;
    receive_segments segments (
        .clk, .rst, .fetch_valid, .fetch_ready, .fetch, .fetch_error, .fetch_capacity, .clear_valid,
        .clear_qp(job_qp), .segment_qp(job_qp), .segment_number, .segment, .read, .read_ready, .line
    );

    card_pkg::reply_t reply;
    logic        reply_valid, reply_ready;
    logic [7:0]  counted_answers, counted_reads, event_type;
    logic        counted_repeats, clear_counts, all_frames_done;
    logic        request_event, request_fails, response_fails, response_fail_ready;
    logic [7:0]  response_fail_qp, handed_packets, sent_packets;
    logic        queue_valid, queue_ready;
    card_pkg::completion_t queue_data;
    request_engine requests (
        .clk, .rst, .packet_valid, .packet_ready, .packet, .packet_qp, .done, .place_valid, .place_ready, .place,
        .place_drop, .control_valid, .control_ready, .control, .query, .doorbell_valid, .doorbell_ready, .doorbell,
        .doorbell_error, .wake_valid, .wake_qp, .look_ready(!response_look_valid), .look_qp, .qp, .fetch_valid,
        .fetch_ready, .fetch, .fetch_error, .fetch_capacity, .segment_number, .segment, .request_valid,
        .request_ready, .request, .answer_valid, .answer_ready, .answer, .answer_fault, .atomic_read,
        .atomic_read_ready, .atomic_line, .atomic_write, .atomic_write_ready, .atomic_write_error,
        .completion_valid(queue_valid), .completion_ready(queue_ready), .completion(queue_data),
        .completion_written(completion_valid && completion_ready), .handed_packets, .sent_packets,
        .event_valid(request_event), .event_ready(!event_valid), .event_type, .fail_valid(request_fails), .job_qp,
        .reply_valid, .reply_ready, .reply, .counted_answers, .counted_reads, .counted_repeats, .clear_valid,
        .clear_counts, .frames_done, .all_frames_done, .count_q_key_violation(count.q_key_violation),
        .count_no_receive(count.no_receive), .count_duplicate(count.duplicate),
        .count_write_request(count.write_request), .count_read_request(count.read_request),
        .count_atomic(count.atomic),
        .count_receive_wqe(count.receive_wqe), .idle(requests_idle)
    );

    response_engine responses (
        .clk, .rst, .answer_valid(reply_valid), .answer_ready(reply_ready), .answer(reply), .answer_qp(job_qp),
        .frames_done, .all_frames_done, .count_qp(job_qp), .counted_answers, .counted_reads, .counted_repeats,
        .clear_valid, .clear_qp(job_qp), .clear_counts,
        .drop_valid(control_valid && control.op == card_pkg::CONTROL_FORGET), .drop_qp(control.qp),
        .look_valid(response_look_valid), .look_qp(response_look_qp), .qp, .request_valid(response_request_valid),
        .request_ready(response_request_ready), .request(response_request),
        .piece_answer_valid(response_answer_valid), .piece_answer_ready(response_answer_ready),
        .piece_answer(response_answer), .piece_answer_fault(response_answer_fault), .packet_valid(tx_packet_valid),
        .packet_ready(tx_packet_ready), .packet(tx_packet), .piece_valid(tx_piece_valid),
        .piece_ready(tx_piece_ready), .piece(tx_piece), .sent_valid, .payload_error(payload_error_valid),
        .payload_error_qp, .handed_packets, .sent_packets, .fail_valid(response_fails),
        .fail_ready(response_fail_ready), .fail_qp(response_fail_qp), .count_ack(count.ack),
        .count_rnr_nak(count.rnr_nak), .count_sequence_nak(count.sequence_nak), .count_other_nak(count.other_nak),
        .idle(responses_idle)
    );

    // A CQE may wait for its payload without delaying the next packets.
    localparam int LOG_COMPLETIONS = 2;
    fifo #(.BITS($bits(queue_data)), .LOG_DEPTH(LOG_COMPLETIONS)) completions (
        .clk, .rst, .s_valid(queue_valid), .s_ready(queue_ready), .s_data(queue_data),
        .m_valid(completion_valid), .m_ready(completion_ready), .m_data(completion)
    );

    // ------------------------------------------------------------------------------ events, failures
    assign response_fail_ready = !event_valid && !request_event && !request_fails;
    assign fail_valid = request_fails || (response_fails && response_fail_ready);
    assign fail_qp = request_fails ? job_qp : response_fail_qp;
    always_ff @(posedge clk) begin
        if (event_ready) event_valid <= 1'b0;
        if (!event_valid) begin
            event_valid <= request_event || (response_fails && response_fail_ready);
            event_data.eqn <= '0;
            event_data.event_type <= request_event ? event_type : ferroce_pkg::EVENT_TYPE_QP_ACCESS_ERROR[7:0];
            event_data.number <= card_pkg::QPN_BASE | {16'd0, request_event ? job_qp : response_fail_qp};
        end
        if (rst) event_valid <= 1'b0;
    end
endmodule

`default_nettype wire

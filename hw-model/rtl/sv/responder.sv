// The receive side of all QPs: wiring of request_engine, receive_segments and response_engine, which
// share the port of qp_table, and the register of events.
//
// Ports: as in CARD.md. memory_unit has two clients here: request_*, answer_* for what comes,
// response_request_*, response_answer_* for READ responses. `sent_valid` is transmit's pulse for a packet
// of ours, payload_error_* with it. Counters are pulses.
// Invariant: `fail_valid` is one cycle for each QP that fails here; its event or completion has been
// handed on before.
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
    output logic [23:0]               query_receive_psn,
    output logic [23:0]               query_message_sequence,
    output logic [31:0]               query_producer,
    output logic [31:0]               query_consumer,

    input  logic                      doorbell_valid,
    output logic                      doorbell_ready,
    input  logic [7:0]                doorbell_qp,
    input  logic [31:0]               doorbell_index,
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

    output logic                      count_duplicate,
    output logic                      count_receive_wqe,
    output logic                      count_ack,
    output logic                      count_rnr_nak,
    output logic                      count_sequence_nak,
    output logic                      count_other_nak,
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
    logic [7:0]   fetch_qp, job_qp;
    logic [63:0]  fetch_iova;
    logic [3:0]   fetch_log_stride, segment_number;
    logic [31:0]  fetch_capacity, fetch_slot;
    logic [2:0]   fetch_posted;
    logic [127:0] segment;
    receive_segments segments (
        .clk, .rst, .fetch_valid, .fetch_ready, .fetch_qp, .fetch_iova, .fetch_log_stride, .fetch_slot, .fetch_posted,
        .fetch_error, .fetch_capacity, .clear_valid, .clear_qp(job_qp), .segment_qp(job_qp), .segment_number,
        .segment, .read, .read_ready, .line
    );

    logic        reply_valid, reply_ready, reply_reads, reply_repeats, reply_ends_qp;
    logic [23:0] reply_psn, reply_msn;
    logic [7:0]  reply_syndrome, counted_answers, counted_reads, event_type;
    logic [15:0] reply_frame;
    logic [63:0] reply_address;
    logic [31:0] reply_key, reply_length;
    logic        counted_repeats, clear_counts, all_frames_done;
    logic        request_event, request_fails, response_fails, response_fail_ready;
    logic [7:0]  response_fail_qp, handed_packets, sent_packets;
    request_engine requests (
        .clk, .rst, .packet_valid, .packet_ready, .packet, .packet_qp, .done, .place_valid, .place_ready, .place,
        .place_drop, .control_valid, .control_ready, .control, .query_receive_psn, .query_message_sequence,
        .query_producer, .query_consumer, .doorbell_valid, .doorbell_ready, .doorbell_qp, .doorbell_index,
        .doorbell_error, .wake_valid, .wake_qp, .look_ready(!response_look_valid), .look_qp, .qp, .fetch_valid,
        .fetch_ready, .fetch_qp, .fetch_iova, .fetch_log_stride, .fetch_slot, .fetch_posted, .fetch_error,
        .fetch_capacity, .segment_number, .segment, .request_valid, .request_ready, .request, .answer_valid,
        .answer_ready, .answer, .answer_fault, .completion_valid(queue_valid), .completion_ready(queue_ready),
        .completion(queue_data), .completion_written(completion_valid && completion_ready), .handed_packets,
        .sent_packets, .event_valid(request_event), .event_ready(!event_valid), .event_type,
        .fail_valid(request_fails), .job_qp, .reply_valid, .reply_ready, .reply_reads, .reply_repeats, .reply_ends_qp,
        .reply_psn, .reply_syndrome, .reply_msn, .reply_frame, .reply_address, .reply_key, .reply_length,
        .counted_answers, .counted_reads, .counted_repeats, .clear_valid, .clear_counts, .frames_done,
        .all_frames_done, .count_duplicate, .count_receive_wqe, .idle(requests_idle)
    );

    response_engine responses (
        .clk, .rst, .answer_valid(reply_valid), .answer_ready(reply_ready), .answer_reads(reply_reads),
        .answer_repeats(reply_repeats), .ends_qp(reply_ends_qp), .answer_qp(job_qp), .answer_psn(reply_psn),
        .answer_syndrome(reply_syndrome), .answer_msn(reply_msn), .answer_frame(reply_frame),
        .answer_address(reply_address), .answer_key(reply_key), .answer_length(reply_length), .frames_done,
        .all_frames_done, .count_qp(job_qp), .counted_answers, .counted_reads, .counted_repeats, .clear_valid,
        .clear_qp(job_qp), .clear_counts, .drop_valid(control_valid && control.op == card_pkg::CONTROL_FORGET),
        .drop_qp(control.qp), .look_valid(response_look_valid), .look_qp(response_look_qp), .qp,
        .request_valid(response_request_valid), .request_ready(response_request_ready), .request(response_request),
        .piece_answer_valid(response_answer_valid), .piece_answer_ready(response_answer_ready),
        .piece_answer(response_answer), .piece_answer_fault(response_answer_fault), .packet_valid(tx_packet_valid),
        .packet_ready(tx_packet_ready), .packet(tx_packet), .piece_valid(tx_piece_valid),
        .piece_ready(tx_piece_ready), .piece(tx_piece), .sent_valid, .payload_error(payload_error_valid),
        .payload_error_qp, .handed_packets, .sent_packets, .fail_valid(response_fails),
        .fail_ready(response_fail_ready), .fail_qp(response_fail_qp), .count_ack, .count_rnr_nak, .count_sequence_nak,
        .count_other_nak, .idle(responses_idle)
    );

    // A CQE may wait for its payload; the next packets do not.
    localparam int LOG_COMPLETIONS = 2;
    logic queue_valid, queue_ready;
    card_pkg::completion_t queue_data;
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

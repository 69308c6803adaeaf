// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Checks and executes requests, in the order of chapter 14 of the contract, and handles the other
// changes of the receive side of a QP: doorbells, commands, the flush of receive WQEs in ERR. One job
// at a time. Its parts: receive_jobs (which job is next), request_steps (the order of its steps), and
// the effects of each step on the QP (request_context), memory (request_memory), the peer
// (request_reply) and software (receive_reports).
//
// Ports: packet_*, `packet_qp` and `done` are steer's, place_* go through it to scatter. control_*
// and query_* belong to the command engine. doorbell_* are receive queues' doorbells. wake_* pulses
// when the state of a QP was written. look_* reads qp_table: `qp` is the context of look_qp, one
// cycle after look_ready.
// request_* and answer_* are memory_unit, atomic_* DMA of atomics. completion_*, event_* are writers. reply_* queue answers in
// response_engine, whose counts (counted_*) show which of them are in progress. fail_valid: to ERR.
// Invariants: a packet ends with one run of pieces, if it has payload; an error is reported once; the
// context of a QP is written only at the end of a job.
module request_engine (
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

    input  logic                      look_ready,
    output logic [7:0]                look_qp,
    input  card_pkg::qp_t             qp,

    output logic                      fetch_valid,
    input  logic                      fetch_ready,
    output card_pkg::fetch_t          fetch,
    input  logic                      fetch_error,
    input  logic [31:0]               fetch_capacity,
    output logic [3:0]                segment_number,
    input  logic [127:0]              segment,

    output logic                      request_valid,
    input  logic                      request_ready,
    output card_pkg::memory_request_t request,
    input  logic                      answer_valid,
    output logic                      answer_ready,
    input  card_pkg::piece_t          answer,
    input  logic [2:0]                answer_fault,

    output card_pkg::read_t           atomic_read,
    input  logic                      atomic_read_ready,
    input  card_pkg::line_t           atomic_line,
    output card_pkg::write_t          atomic_write,
    input  logic                      atomic_write_ready,
    input  logic                      atomic_write_error,

    output logic                      completion_valid,
    input  logic                      completion_ready,
    output card_pkg::completion_t     completion,
    input  logic                      completion_written,   // the oldest one, a pulse
    output logic                      event_valid,
    input  logic                      event_ready,
    output logic [7:0]                event_type,
    output logic                      fail_valid,
    output logic [7:0]                job_qp,

    output logic                      reply_valid,
    input  logic                      reply_ready,
    output card_pkg::reply_t          reply,
    input  logic [7:0]                counted_answers,
    input  logic [7:0]                counted_reads,
    input  logic                      counted_repeats,
    input  logic [7:0]                handed_packets,   // to transmit
    input  logic [7:0]                sent_packets,
    output logic                      clear_valid,
    output logic                      clear_counts,

    input  logic [15:0]               frames_done,
    output logic                      all_frames_done,

    output logic                      count_q_key_violation,
    output logic                      count_no_receive,
    output logic                      count_duplicate,
    output logic                      count_write_request,
    output logic                      count_read_request,
    output logic                      count_atomic,
    output logic                      count_receive_wqe,
    output logic                      idle
);
    // ------------------------------------------------------------------------------ the job, its steps
    card_pkg::request_step_t  step;
    card_pkg::refusal_t       refusal;
    card_pkg::receive_job_t   job;
    card_pkg::rx_packet_t     p;
    card_pkg::qp_t            q;
    card_pkg::request_kind_t  kind;
    card_pkg::receive_state_t c;
    logic        takes_packet, takes_other, in_error, is_flushed, jobs_idle;
    logic [7:0]  chosen_qp;
    logic [31:0] rung;
    receive_jobs jobs (
        .clk, .rst, .step, .packet_valid, .packet, .packet_qp, .doorbell_valid, .doorbell_ready, .doorbell,
        .control_valid, .control_qp(control.qp), .wake_valid, .wake_qp, .qp, .is_flushed, .takes_packet, .takes_other,
        .chosen_qp, .job, .job_qp, .p, .q, .rung, .in_error, .idle(jobs_idle)
    );
    assign packet_ready = step == card_pkg::AT_IDLE && takes_packet;
    assign look_qp = job_qp;
    assign idle = step == card_pkg::AT_IDLE && jobs_idle;

    logic is_expected, is_ahead, is_behind, is_dropped, fetches, is_refused, lacks_receive, needs_access, may_forget, establishes;
    logic has_payload, placed, place_fault, raises, fails, is_finished;
    logic access_refused, searched, executed, atomic_fault;
    request_steps steps (
        .clk, .rst, .is_last_qp(job_qp == '1), .takes_job(takes_packet || takes_other), .job, .look_ready,
        .control_op(control.op), .may_forget, .is_flushed, .has_failed(c.failed), .is_ahead, .is_behind, .establishes, .raises,
        .event_ready, .is_refused, .lacks_receive, .is_datagram(q.is_datagram), .is_dropped, .fetches, .kind,
        .needs_access, .fetch_ready, .fetch_error, .request_ready,
        .answer_valid, .answer_ends(answer.last), .answer_refuses(access_refused), .searched, .executed, .atomic_fault,
        .has_payload, .placed, .place_fault, .is_finished,
        .step, .refusal
    );

    // ------------------------------------------------------------------------- what a packet asks for
    request_checks checks (
        .opcode(p.opcode), .is_datagram(q.is_datagram), .payload_bytes(p.payload_bytes), .place(p.address[2:0]),
        .length(p.length), .access(q.access),
        .path_mtu(q.path_mtu), .in_send(c.in_send), .in_write(c.in_write), .received(c.so_far), .room(c.rest),
        .rest(c.rest), .kind
    );
    logic [23:0] distance;
    logic [23:0] psn;                      // PSNs of datagrams are not checked
    assign psn = q.is_datagram ? c.expected : p.psn;
    psn_compare compare (.psn, .expected(c.expected), .is_expected, .is_ahead, .is_behind, .distance);
    logic has_receive, has_room, is_repeatable;
    logic [7:0] reads_open;
    assign has_receive = c.producer != c.consumer;
    assign reads_open = c.reads - counted_reads;
    assign has_room = reads_open < {3'd0, q.max_dest_rd_atomic};
    // One repetition at a time, and none that exceeds the original request.
    assign is_repeatable = kind.is_read && kind.is_allowed && !kind.is_length_wrong && kind.packets <= distance
        && c.repeats == counted_repeats;
    assign is_refused = !kind.in_sequence || !kind.is_allowed || ((kind.is_read || kind.is_atomic) && !has_room);
    logic is_key_wrong;
    assign is_key_wrong = q.is_datagram && p.address[63:32] != q.q_key;
    assign is_dropped = is_key_wrong || (q.is_datagram && kind.is_length_wrong);
    assign lacks_receive = !is_refused && !is_dropped && kind.takes_receive && !has_receive && !c.receive_used;
    assign fetches = kind.takes_receive && kind.is_send && !c.receive_used;
    // A message of one packet is checked with its pieces.
    assign needs_access = kind.is_atomic || (p.length != 32'd0 && (kind.is_read || (kind.is_write && kind.starts && !kind.ends)));
    assign establishes = !c.established && !q.is_datagram && q.state == ferroce_pkg::QP_STATE_CODE_RTR[2:0];
    // Nothing but the range itself can be refused, and it depends on no receive WQE that has to be fetched.
    logic starts_early;
    assign starts_early = is_expected && !c.failed && has_payload && !is_refused && !lacks_receive && !kind.is_length_wrong
        && !kind.is_too_long && !needs_access && (kind.is_write || (kind.is_send && !kind.starts));
    assign is_flushed = !in_error || (!c.receive_used && !has_receive);

    // --------------------------------------------------------------------------------- the QP's context
    logic        saves, answers, reads, repeats;
    logic [4:0]  next_number;
    logic [31:0] next_offset;
    assign saves = step == card_pkg::AT_CLEAR || (step == card_pkg::AT_FINISH && is_finished);
    request_context context_of_qp (
        .clk, .step, .saves, .chosen_qp, .job_qp, .p, .q, .kind, .control, .may_forget, .rung, .is_flushed,
        .is_expected, .is_ahead, .raises, .event_ready, .lacks_receive, .is_checked(!is_refused && !lacks_receive && !is_dropped),
        .fetch_ready, .fetch_error, .fetch_capacity, .placed, .next_number, .next_offset, .answers, .reads, .repeats,
        .c, .clear_valid, .doorbell_error, .count_receive_wqe
    );
    assign clear_counts = step == card_pkg::AT_CLEAR;
    assign query.receive_psn = c.expected;
    assign query.message_sequence = c.msn;
    assign query.producer = c.producer;
    assign query.consumer = c.consumer;
    logic is_checked;                      // the memory is checked next
    assign is_checked = step == card_pkg::AT_LENGTH && !kind.is_length_wrong;
    always_ff @(posedge clk) begin
        count_q_key_violation <= step == card_pkg::AT_CHECK && is_key_wrong;
        count_no_receive <= q.is_datagram && ((step == card_pkg::AT_CHECK && lacks_receive)
                                              || (step == card_pkg::AT_LENGTH && kind.is_too_long));
        count_duplicate <= step == card_pkg::AT_PSN && is_behind && !c.failed;
        count_write_request <= is_checked && kind.is_write && kind.ends && (!kind.starts || p.length != 32'd0);
        count_read_request <= is_checked && kind.is_read && p.length != 32'd0;
        count_atomic <= step == card_pkg::AT_ATOMIC && executed && !atomic_fault;
    end

    // ---------------------------------------------------------------------- receive WQEs and memory
    logic [31:0] ring_mask, behind, slot;
    assign slot = c.consumer - 32'd1;
    assign fetch.slot = slot;
    assign behind = c.producer - c.consumer;
    assign fetch.posted = behind >= 32'd3 ? 3'd4 : 3'd1 + {1'b0, behind[1:0]};
    assign ring_mask = (32'd1 << q.log_receives) - 32'd1;
    assign fetch_valid = step == card_pkg::AT_FETCH;
    assign fetch.qp = job_qp;
    assign fetch.iova = q.receive_base + ({32'd0, slot & ring_mask} << q.log_receive_stride);
    assign fetch.log_stride = q.log_receive_stride;

    logic        memory_done;
    logic [63:0] atomic_iova;
    request_memory memory (
        .clk, .rst, .step, .takes_payload(packet.payload_bytes != 13'd0), .job_qp, .p, .q, .kind, .c,
        .starts_early, .placed, .place_fault, .next_number, .next_offset, .has_payload, .done(memory_done),
        .access_refused, .atomic_iova, .segment_number, .segment,
        .request_valid, .request_ready, .request, .answer_valid, .answer_ready, .answer, .answer_fault, .place_valid,
        .place_ready, .place, .place_drop
    );

    // ------------------------------------------------------------------------------------------ atomics
    logic        is_swap, is_found;
    logic [63:0] swap_add, original, found_original;
    logic [4:0]  repeatable;               // newest READs and atomics that may be repeated
    assign is_swap = p.opcode[4:0] == card_pkg::COMPARE_SWAP;
    assign swap_add = {p.length, p.aeth};
    assign repeatable = c.saved < q.max_dest_rd_atomic ? c.saved : q.max_dest_rd_atomic;
    // Earlier WRITEs are in memory first.
    atomic_unit execute (
        .clk, .rst, .start(step == card_pkg::AT_ATOMIC && all_frames_done), .iova(atomic_iova), .is_swap, .swap_add,
        .compare(p.compare), .done(executed), .fault(atomic_fault), .original, .read(atomic_read),
        .read_ready(atomic_read_ready), .line(atomic_line), .write(atomic_write), .write_ready(atomic_write_ready),
        .write_error(atomic_write_error)
    );
    atomic_results results (
        .clk, .rst, .qp(job_qp), .number(c.reads), .psn(p.psn), .is_atomic(kind.is_atomic), .is_swap,
        .address(p.address), .key(p.r_key), .swap_add, .compare(p.compare), .save(reads), .result(original),
        .search(step == card_pkg::AT_SEARCH), .saved(repeatable), .done(searched), .found(is_found),
        .original(found_original)
    );

    // ------------------------------------------------------------------- what the peer and software get
    logic reply_done, reports_done;
    request_reply answer_to_peer (
        .clk, .step, .refusal, .p, .q, .kind, .c, .is_ahead, .is_repeatable, .lacks_receive,
        .is_found(is_found && searched), .original(step == card_pkg::AT_SEARCH ? found_original : original), .answers, .reads,
        .repeats, .reply_valid, .reply_ready, .reply, .done(reply_done)
    );
    receive_reports reports (
        .clk, .step, .refusal, .job_qp, .p, .q, .kind, .c, .is_expected, .is_flushed, .frames_done, .completion_valid,
        .completion_ready, .completion, .event_valid, .event_ready, .event_type, .raises, .fails, .done(reports_done)
    );
    assign is_finished = reports_done && reply_done && memory_done;
    assign fail_valid = step == card_pkg::AT_FINISH && is_finished && fails;
    assign done = step == card_pkg::AT_FINISH && is_finished && job == card_pkg::JOB_PACKET;
    assign control_ready = step == card_pkg::AT_FINISH && is_finished && job == card_pkg::JOB_CONTROL;

    receive_forget forgetting (
        .clk, .rst, .forgets(control_valid && control.op == card_pkg::CONTROL_FORGET),
        .asks(step == card_pkg::AT_CONTROL), .is_answered(c.answers == counted_answers), .ends(control_ready),
        .may_forget, .taken_valid(packet_valid && packet_ready), .taken_frame(packet.number), .frames_done,
        .all_frames_done, .completion_queued(completion_valid && completion_ready), .completion_written,
        .handed_packets, .sent_packets
    );

    always_ff @(posedge clk) begin
        if (!rst && step == card_pkg::AT_PSN) assert (is_expected || is_ahead || is_behind);
        if (!rst && step == card_pkg::AT_FINISH && fails) assert (c.failed);
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The completer: handles answers, and missing answers, of the requests that were begun (contract,
// chapter 14; IBTA vol 1, 9.7.5 and 9.7.6).
//
// Ports: packet_* takes an answer from steer, `packet_done` pulses at its end; place_* gives the
// places of its payload; request_*, answer_*, completion_*, fail_*: see CARD.md. `at` is the QP of
// the current job: `sent` is the requester's state of it, and `table_read` the request at `table_at`,
// both a cycle later. `retired` and the next three bits belong to the QP at `requester_at`. settle,
// flush_* and reset_* are the requester's orders, timer_* and expired_* its timer. `again_*` gives a
// QP another turn. left_* is a datagram that has been sent, with `left_error` if its payload could not be read;
// `left_done` pulses when its requests are done. `count_*` pulse.
// Invariants: requests are retired in order, each with at most one completion; every answer with
// payload gives exactly one run of places that ends with `last`; a QP with PSNs in flight has a
// running timer, if it has a local ACK timeout.
module completer (
    input  logic         clk,
    input  logic         rst,
    input  logic [63:0]  now_ns,
    output logic         idle,

    input  logic         packet_valid,
    output logic         packet_ready,
    input  card_pkg::rx_packet_t packet,       // of a request: not used
    output logic         packet_done,
    output logic [7:0]   at,
    input  card_pkg::qp_t qp,                  // of the responder: not used
    input  card_pkg::send_state_t sent,        // its cursor
    output logic [card_pkg::LOG_QPS+card_pkg::LOG_OUTSTANDING-1:0] table_at,
    input  card_pkg::outstanding_t table_read,

    input  logic [7:0]   requester_at,
    output card_pkg::retire_state_t retired,
    output logic         is_going_back,
    output logic         is_waiting,
    output logic         is_errored,
    input  logic         went_back,
    input  logic         settle,
    input  logic         flush_valid,
    output logic         flush_ready,
    input  logic         reset_valid,
    output logic         reset_ready,
    input  logic [23:0]  reset_psn,
    output logic         again_valid,
    output logic [7:0]   again_qp,
    input  logic         payload_error,
    input  logic [7:0]   payload_error_qp,
    input  logic         left_valid,           // a datagram
    input  logic         left_error,
    input  logic [7:0]   left_qp,
    input  logic [23:0]  left_psn,
    output logic         left_done,

    output logic         timer_valid,
    input  logic         timer_ready,
    output logic         timer_start,          // else it stops
    output logic [63:0]  timer_deadline,
    input  logic         expired_valid,
    output logic         expired_ready,
    input  logic [7:0]   expired_qp,

    output card_pkg::read_t read,
    input  logic         read_ready,
    input  card_pkg::line_t line,

    output logic                      request_valid,
    input  logic                      request_ready,
    output card_pkg::memory_request_t request,
    input  logic                      answer_valid,
    output logic                      answer_ready,
    input  card_pkg::piece_t          answer,
    input  logic [2:0]                answer_fault,

    output logic             place_valid,
    input  logic             place_ready,
    output card_pkg::piece_t place,
    output logic             place_drop,
    input  logic [15:0]      frames_done,
    output logic [15:0]      frame,            // that completions wait for

    output logic                  completion_valid,
    input  logic                  completion_ready,
    output card_pkg::completion_t completion,
    output logic                  fail_valid,
    output logic                  fail_sends,  // only the send queue fails
    output logic [7:0]            fail_qp,

    output logic                  count_timeout,
    output logic                  count_rnr_nak,
    output logic                  count_sequence_nak,
    output logic                  count_other_nak,
    output logic                  count_refetch
);
    wire unused_inputs = &{1'b0, packet, qp, sent};
    localparam logic [7:0] READ_FIRST = 8'h0d, READ_LAST = 8'h0f, READ_ONLY = 8'h10, ACK = 8'h11;
    localparam logic [7:0] ATOMIC_ACK = card_pkg::ATOMIC_ACKNOWLEDGE;
    localparam logic [2:0] KIND_ACK = 3'b000, KIND_RNR_NAK = 3'b001, KIND_NAK = 3'b011;
    localparam logic [4:0] SEQUENCE_ERROR = 5'd0;
    localparam logic [2:0] ENDLESS = 3'd7;
    localparam logic [3:0] LOCAL_WRITE = 4'b0001;

    typedef enum logic [2:0] {RESET, FLUSH, EXPIRED, SETTLE, LEFT, ANSWER} job_t;
    typedef enum logic [4:0] {
        INIT, IDLE, LOAD, LOADED, DECIDE, HEAD_READ, HEAD, COMPLETE, RETIRE, ANSWERED, PLACE, FETCH,
        FETCHING, FETCHED, WALK, PLACED, RETRY, BACK_OFF, FAIL, FAILED, TIMER, STOPPED, RECHECK, STORE,
        DROP, END
    } step_t;
    job_t job;
    step_t step;

    // -------------------------------------------------------------------------- what a job is about
    card_pkg::qp_t q;
    card_pkg::rx_packet_t p;
    wire unused_q = &{1'b0, q, p};
    card_pkg::retire_state_t c, loaded;
    card_pkg::outstanding_t h;             // the oldest request
    assign h = table_read;
    logic [23:0] count;                    // PSNs to acknowledge
    logic [7:0] status;                    // of the completion
    logic is_placed;                       // the answer has had all of its effect
    logic is_last_placed;                  // scatter has the last piece of the frame
    logic progressed, goes_back, fails, wakes;
    logic [23:0] left_to;                  // PSN of the newest datagram that was sent
    logic lost;                            // the payload of the next one could not be read

    // --------------------------------------------------------------------- what is known of each QP
    logic [255:0] going_back;              // no packet has left since the order to go back
    logic [255:0] waiting;                 // for the time of an RNR NAK
    logic [255:0] errored;                 // a request has failed, qp_table may not show it yet
    logic [255:0] payload_failed;          // payload of a packet could not be read
    assign is_going_back = going_back[requester_at];
    assign is_waiting = waiting[requester_at];
    assign is_errored = errored[requester_at];

    logic settle_valid, settle_ready;
    logic [7:0] settle_qp;
    logic settle_empty;
    ready_set #(.SETS(1)) settling (
        .clk, .rst, .set_valid(settle), .set_qp(requester_at), .pick_valid(settle_valid), .pick_ready(settle_ready),
        .pick_qp(settle_qp), .empty(settle_empty)
    );

    // Datagrams that were sent count as acknowledged, up to one whose payload could not be read.
    logic leaving_valid, leaving_ready, leaving_empty, newest_write, is_payload_lost;
    logic [7:0] leaving_qp, newest_at;
    logic [23:0] newest_left, newest_data;
    ready_set #(.SETS(1)) leaving (
        .clk, .rst, .set_valid(left_valid), .set_qp(left_qp), .pick_valid(leaving_valid), .pick_ready(leaving_ready),
        .pick_qp(leaving_qp), .empty(leaving_empty)
    );
    logic resets;
    assign resets = job == RESET && step == DECIDE;
    assign newest_write = resets || (left_valid && !left_error && !payload_failed[left_qp]);
    assign newest_at = resets ? at : left_qp;
    assign newest_data = resets ? reset_psn - 24'd1 : left_psn;
    ram_1w1r #(.BITS(24), .LOG_DEPTH(card_pkg::LOG_QPS)) newest_datagrams (
        .clk, .write_valid(newest_write), .write_at(newest_at), .write_data(newest_data), .read_at(at),
        .read_data(newest_left)
    );
    always_ff @(posedge clk) is_payload_lost <= payload_failed[at];   // at the time of `newest_left`

    logic state_write;
    logic [7:0] sweep, state_at;
    card_pkg::retire_state_t state;
    assign state_write = step == STORE || step == INIT;
    assign state_at = step == INIT ? sweep : at;
    assign state = step == INIT ? '0 : c;
    ram_1w1r #(.BITS($bits(c)), .LOG_DEPTH(card_pkg::LOG_QPS)) states (
        .clk, .write_valid(state_write), .write_at(state_at), .write_data(state),
        .read_at(at), .read_data(loaded)
    );
    ram_1w1r #(.BITS($bits(c)), .LOG_DEPTH(card_pkg::LOG_QPS)) states_of_requester (
        .clk, .write_valid(state_write), .write_at(state_at), .write_data(state),
        .read_at(requester_at), .read_data(retired)
    );

    // ------------------------------------------------------------------------------------ the answer
    logic [23:0] distance, in_flight, left;
    logic [2:0] kind;
    logic [4:0] code;
    logic is_ack, is_positive, is_kind_known, is_live, is_empty, is_read, is_atomic, is_idle_qp, implies_nak;
    assign distance = (job == LEFT ? left_to : p.psn) - c.oldest_psn;
    assign in_flight = sent.newest_psn - c.oldest_psn;
    assign left = h.last_psn + 24'd1 - c.oldest_psn;
    assign kind = p.aeth[31:29];
    assign code = p.aeth[28:24];
    assign is_ack = p.opcode == ACK;
    assign is_positive = job == LEFT || (is_ack && kind == KIND_ACK);
    assign is_kind_known = job == LEFT || !is_ack || kind == KIND_ACK || kind == KIND_NAK || kind == KIND_RNR_NAK;
    assign is_idle_qp = errored[at] || (q.state != 3'(ferroce_pkg::QP_STATE_CODE_RTS)
                                        && q.state != 3'(ferroce_pkg::QP_STATE_CODE_SQD));
    assign is_live = is_kind_known && distance < in_flight;
    assign is_empty = c.head == sent.tail;
    assign is_read = h.opcode == ferroce_pkg::CQE_OPCODE_RDMA_READ;
    assign is_atomic = h.opcode == ferroce_pkg::CQE_OPCODE_COMPARE_SWAP || h.opcode == ferroce_pkg::CQE_OPCODE_FETCH_ADD;
    // Its data is missing: this counts as a NAK for its first PSN (IBTA vol 1, 9.7.5.2).
    assign implies_nak = !is_empty && job != FLUSH && h.status == ferroce_pkg::CQE_STATUS_SUCCESS
                      && !h.is_local && count != '0 && (is_read || is_atomic);
    assign table_at = {at, c.head[card_pkg::LOG_OUTSTANDING-1:0]};

    // ------------------------------------------------------------------ responses of READs and atomics
    logic [3:0] log_mtu;
    logic [12:0] mtu, expected_bytes;
    logic [31:0] offset, bytes_left;
    logic [23:0] position;
    logic is_response, ends, fits, fits_read, fits_atomic;
    logic [12:0] placed_bytes;
    assign log_mtu = {1'b0, q.path_mtu} + 4'd7;
    assign mtu = 13'd1 << log_mtu;
    assign position = c.oldest_psn - h.first_psn;
    assign offset = {8'b0, position} << log_mtu;
    assign bytes_left = h.length - offset;
    assign expected_bytes = bytes_left < {19'b0, mtu} ? bytes_left[12:0] : mtu;
    assign is_response = p.opcode >= READ_FIRST && p.opcode <= READ_ONLY;
    assign ends = p.opcode == READ_LAST || p.opcode == READ_ONLY || p.opcode == ATOMIC_ACK;
    // After a retry a response may start anywhere: First counts as Middle, and Only as Last.
    assign fits_read = is_response && is_read && p.payload_bytes == expected_bytes && ends == (c.oldest_psn == h.last_psn);
    // The payload is the AtomicAckETH; bytes after it are ignored.
    assign fits_atomic = p.opcode == ATOMIC_ACK && is_atomic;
    assign fits = !is_empty && (fits_read || fits_atomic);
    assign placed_bytes = is_atomic ? 13'(card_pkg::ATOMIC_BYTES) : p.payload_bytes;

    // ------------------------------------------------------------------- the WQE of a READ or an atomic
    logic have_wqe;
    logic [7:0] wqe_qp;
    logic [31:0] wqe_index;
    card_pkg::wqe_t wqe;                   // only the fields that identify the request
    wire unused_wqe = &{1'b0, wqe};
    logic decode_begin, decoded, is_same;
    logic [3:0] segment_number;
    card_pkg::segment_t segment;
    assign decode_begin = step == FETCH;
    // WQEs of requests that were begun: the card's.
    logic reads_ahead, lines_idle;
    assign reads_ahead = job == ANSWER && step != INIT && step != IDLE && step != LOAD && step != LOADED;
    wqe_decode decode (
        .clk, .rst, .begin_valid(decode_begin), .begin_qp(at), .begin_index(h.index),
        .begin_available(ferroce_pkg::WQE_MAX_BLOCKS), .done(decoded), .ring_base(q.send_base),
        .log_ring_blocks(q.log_send_blocks), .is_datagram(1'b0), .forget(resets), .ahead_valid(reads_ahead), .ahead_qp(at),
        .ahead_block(sent.fetched), .lines_idle, .read, .read_ready, .line, .wqe, .segment_number, .segment
    );
    logic [7:0] send_opcode;
    always_comb begin
        case (h.opcode)
            ferroce_pkg::CQE_OPCODE_COMPARE_SWAP: send_opcode = ferroce_pkg::SEND_OPCODE_COMPARE_SWAP;
            ferroce_pkg::CQE_OPCODE_FETCH_ADD: send_opcode = ferroce_pkg::SEND_OPCODE_FETCH_ADD;
            default: send_opcode = ferroce_pkg::SEND_OPCODE_RDMA_READ;
        endcase
    end
    assign is_same = wqe.status == ferroce_pkg::CQE_STATUS_SUCCESS && wqe.length == h.length && !wqe.is_inline
                  && wqe.opcode == send_opcode;

    logic walk_start, walked, walk_valid, walk_ready;
    logic [2:0] walk_fault;
    card_pkg::piece_t walk_piece;
    logic [23:0] qpn;
    assign qpn = card_pkg::QPN_BASE + {16'b0, at};
    assign walk_start = (step == FETCHED && is_same);
    segment_walk walk (
        .clk, .rst, .start(walk_start), .offset, .bytes(placed_bytes), .done(walked), .fault(walk_fault),
        .pd(q.pd), .qpn, .rights(LOCAL_WRITE), .is_inline(1'b0), .inline_at('0), .wqe_index, .ring_base(q.send_base),
        .log_ring_blocks(q.log_send_blocks), .segments(wqe.segments), .segment_number, .segment, .request_valid,
        .request_ready, .request, .answer_valid, .answer_ready, .answer, .answer_fault, .piece_valid(walk_valid),
        .piece_ready(walk_ready), .piece(walk_piece)
    );
    assign walk_ready = place_ready;
    assign place_valid = step == DROP || walk_valid;
    assign place_drop = step == DROP;
    always_comb begin
        place = walk_piece;
        if (step == DROP) begin
            place = '0;
            place.last = 1'b1;
        end
    end

    // Completions wait until the newest placed payload is in memory. They do not wait for the payload
    // of an answer that is not placed yet, because its place may wait for earlier completions.
    logic is_frame_pending;
    logic [15:0] last_frame, frames_ahead;
    assign frames_ahead = last_frame - frames_done;
    assign frame = is_frame_pending ? last_frame : frames_done;
    always_ff @(posedge clk) begin
        if (frames_ahead == '0 || frames_ahead[15]) is_frame_pending <= 1'b0;
        if (step == WALK && walked && walk_fault == '0) begin
            last_frame <= p.number;
            is_frame_pending <= 1'b1;
        end
        if (rst) is_frame_pending <= 1'b0;
    end

    always_comb begin
        completion = '0;
        completion.cqn = q.send_cqn;
        completion.frame = frame;
        completion.qpn = qpn;
        completion.wqe_index = h.index;
        completion.byte_count = h.length;
        completion.opcode = h.opcode;
        completion.status = status;
    end
    assign completion_valid = step == COMPLETE;

    // -------------------------------------------------------------------------------------- the timer
    // Time of an RNR NAK in units of 10 us: 1, 2, 3, 4, 6, 8, 12, ..; code 0 is the longest (table 45).
    function automatic logic [16:0] rnr_units(input logic [4:0] timer);
        if (timer == 5'd0) rnr_units = 17'd65536;
        else if (timer == 5'd1) rnr_units = 17'd1;
        else if (timer[0]) rnr_units = 17'd3 << (timer[4:1] - 4'd1);
        else rnr_units = 17'd1 << timer[4:1];
    endfunction
    logic is_back_off;
    logic [63:0] timeout_ns, rnr_ns;
    assign timeout_ns = 64'd4096 << q.timeout;
    assign rnr_ns = 64'd10000 * {47'b0, rnr_units(code)};
    assign timer_valid = step == TIMER;
    assign timer_start = is_back_off || (in_flight != '0 && q.timeout != '0 && !fails
                                         && job != RESET && job != FLUSH);
    // A deadline may change while it waits to be handled.
    assign timer_deadline = now_ns + (is_back_off ? rnr_ns : timeout_ns);

    assign reset_ready = step == END && job == RESET;
    assign flush_ready = step == END && job == FLUSH;
    assign packet_done = step == END && job == ANSWER;
    assign again_valid = step == END && wakes;
    assign again_qp = at;
    assign fail_valid = step == END && fails;
    assign fail_qp = at;
    assign fail_sends = q.is_datagram;
    assign left_done = step == END && job == LEFT;
    assign expired_ready = step == IDLE && !reset_valid && !flush_valid;
    assign settle_ready = expired_ready && !expired_valid;
    assign leaving_ready = settle_ready && !settle_valid;
    assign packet_ready = leaving_ready && !leaving_valid;
    assign idle = step == IDLE && settle_empty && leaving_empty && lines_idle && !is_frame_pending;

    always_ff @(posedge clk) begin
        case (step)
            INIT: begin
                sweep <= sweep + 1'b1;
                if (sweep == '1) step <= IDLE;
            end
            IDLE: begin
                progressed <= 1'b0;
                goes_back <= 1'b0;
                is_back_off <= 1'b0;
                fails <= 1'b0;
                wakes <= 1'b0;
                is_placed <= 1'b0;
                is_last_placed <= 1'b1;
                count <= '0;
                step <= LOAD;
                if (reset_valid || flush_valid) begin
                    job <= reset_valid ? RESET : FLUSH;
                    at <= requester_at;
                end else if (expired_valid) begin
                    job <= EXPIRED;
                    at <= expired_qp;
                end else if (settle_valid) begin
                    job <= SETTLE;
                    at <= settle_qp;
                end else if (leaving_valid) begin
                    job <= LEFT;
                    at <= leaving_qp;
                end else if (packet_valid) begin
                    job <= ANSWER;
                    at <= packet.dest_qpn[7:0];
                    p <= packet;
                    is_last_placed <= packet.payload_bytes == '0;
                end else step <= IDLE;
            end
            LOAD: step <= LOADED;
            LOADED: begin
                q <= qp;
                c <= loaded;
                left_to <= newest_left;
                lost <= is_payload_lost;
                step <= DECIDE;
            end

            DECIDE: begin
                step <= STORE;
                if (job == RESET) begin
                    c <= '0;
                    c.oldest_psn <= reset_psn;
                    have_wqe <= 1'b0;
                    step <= lines_idle ? TIMER : DECIDE;
                end else if (job == FLUSH) step <= HEAD_READ;
                else if (is_idle_qp) step <= STORE;
                else if (job == EXPIRED) begin
                    if (waiting[at]) begin
                        wakes <= 1'b1;
                        step <= TIMER;
                    end else if (in_flight != '0) begin
                        // A pass that has not begun yet has lost no packet.
                        c.implied_nak <= 1'b0;
                        step <= going_back[at] ? TIMER : RETRY;
                    end
                end else if (job == SETTLE) step <= HEAD_READ;
                else if (job == LEFT && !is_live) step <= lost ? HEAD_READ : STORE;
                else if (is_live) begin
                    count <= is_positive ? distance + 24'd1 : distance;
                    step <= HEAD_READ;
                end
            end

            // ------------------------------------------------------------- requests that are done
            HEAD_READ: step <= HEAD;
            HEAD: begin
                status <= ferroce_pkg::CQE_STATUS_SUCCESS;
                if (is_empty) begin
                    if (job == FLUSH) c.oldest_psn <= sent.newest_psn;
                    step <= job == FLUSH ? TIMER : ANSWERED;
                end else if (job == FLUSH) begin
                    status <= ferroce_pkg::CQE_STATUS_WR_FLUSH;
                    step <= COMPLETE;
                end else if (h.status != ferroce_pkg::CQE_STATUS_SUCCESS) begin
                    status <= h.status;
                    step <= FAIL;
                end else if (h.is_local) step <= h.signaled ? COMPLETE : RETIRE;
                else if (count == '0) step <= ANSWERED;
                else if (implies_nak) begin
                    c.implied_nak <= 1'b1;
                    step <= c.implied_nak ? TIMER : RETRY;
                end else begin
                    c.retries <= '0;
                    c.rnr_retries <= '0;
                    c.implied_nak <= 1'b0;
                    progressed <= 1'b1;
                    wakes <= 1'b1;
                    if (left <= count) begin
                        c.oldest_psn <= h.last_psn + 24'd1;
                        count <= count - left;
                        step <= h.signaled ? COMPLETE : RETIRE;
                    end else begin
                        c.oldest_psn <= c.oldest_psn + count;
                        count <= '0;
                        step <= ANSWERED;
                    end
                end
            end
            COMPLETE: if (completion_ready) step <= fails ? FAILED : RETIRE;
            RETIRE: begin
                c.head <= c.head + 1'b1;
                wakes <= 1'b1;
                step <= HEAD_READ;
            end

            // ---------------------------------------------------------- what the answer itself says
            ANSWERED: begin
                step <= progressed ? TIMER : STORE;
                if (job == LEFT && lost) begin
                    status <= ferroce_pkg::CQE_STATUS_LOCAL_PROTECTION;
                    step <= FAIL;
                end else if (job == ANSWER && !is_placed && !is_positive) begin
                    if (!is_ack) begin
                        status <= ferroce_pkg::CQE_STATUS_BAD_RESPONSE;
                        step <= !fits ? FAIL : p.payload_bytes == '0 ? PLACED : PLACE;
                    end else if (kind == KIND_RNR_NAK) begin
                        if (!going_back[at]) step <= BACK_OFF;
                    end else if (code == SEQUENCE_ERROR) begin
                        if (!going_back[at]) step <= RETRY;
                    end else begin
                        case (code)
                            5'd1, 5'd4: status <= ferroce_pkg::CQE_STATUS_REMOTE_INVALID_REQUEST;
                            5'd2: status <= ferroce_pkg::CQE_STATUS_REMOTE_ACCESS;
                            5'd3: status <= ferroce_pkg::CQE_STATUS_REMOTE_OPERATION;
                            default: status <= ferroce_pkg::CQE_STATUS_BAD_RESPONSE;
                        endcase
                        step <= FAIL;
                    end
                end
            end

            // ----------------------------------------------------------------- data of READ responses
            PLACE: step <= have_wqe && wqe_qp == at && wqe_index == h.index ? FETCHED : FETCH;
            FETCH: begin
                wqe_qp <= at;
                wqe_index <= h.index;
                have_wqe <= 1'b1;
                step <= FETCHING;
            end
            FETCHING: if (decoded) step <= FETCHED;
            FETCHED: begin
                status <= ferroce_pkg::CQE_STATUS_LOCAL_QP_OPERATION;
                step <= is_same ? WALK : FAIL;
            end
            WALK: if (walked) begin
                status <= ferroce_pkg::CQE_STATUS_LOCAL_PROTECTION;
                is_last_placed <= walk_fault == '0;
                step <= walk_fault == '0 ? PLACED : FAIL;
            end
            PLACED: begin
                is_placed <= 1'b1;
                progressed <= 1'b1;
                wakes <= 1'b1;
                c.oldest_psn <= c.oldest_psn + 24'd1;
                c.retries <= '0;
                c.rnr_retries <= '0;
                c.implied_nak <= 1'b0;
                status <= ferroce_pkg::CQE_STATUS_SUCCESS;
                step <= TIMER;
                if (ends) begin
                    c.reads_done <= c.reads_done + 1'b1;
                    have_wqe <= 1'b0;
                    step <= h.signaled ? COMPLETE : RETIRE;
                end
            end

            // ------------------------------------------------------------------- retries and failures
            RETRY: begin
                status <= payload_failed[at] ? ferroce_pkg::CQE_STATUS_LOCAL_PROTECTION
                                             : ferroce_pkg::CQE_STATUS_RETRY_EXCEEDED;
                step <= FAIL;
                if (!payload_failed[at] && c.retries != q.retry_count) begin
                    c.retries <= c.retries + 1'b1;
                    goes_back <= 1'b1;
                    wakes <= 1'b1;
                    step <= TIMER;
                end
            end
            BACK_OFF: begin
                status <= ferroce_pkg::CQE_STATUS_RNR_RETRY_EXCEEDED;
                step <= FAIL;
                if (q.rnr_retry == ENDLESS || c.rnr_retries != q.rnr_retry) begin
                    if (q.rnr_retry != ENDLESS) c.rnr_retries <= c.rnr_retries + 1'b1;
                    goes_back <= 1'b1;
                    is_back_off <= 1'b1;
                    step <= TIMER;
                end
            end
            FAIL: begin
                fails <= 1'b1;
                wakes <= 1'b1;
                step <= is_empty ? TIMER : COMPLETE;
            end
            FAILED: begin
                c.head <= c.head + 1'b1;
                have_wqe <= 1'b0;
                step <= TIMER;
            end

            // The requester starts a stopped timer after it has written `newest_psn`. If the timer
            // was stopped during that write, it is started here.
            TIMER: if (timer_ready) step <= timer_start || fails || job == RESET || job == FLUSH ? STORE : STOPPED;
            STOPPED: step <= RECHECK;
            RECHECK: step <= timer_start ? TIMER : STORE;
            STORE: step <= is_last_placed ? END : DROP;
            DROP: if (place_ready) step <= END;
            END: step <= IDLE;
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= INIT;
            sweep <= '0;
            have_wqe <= 1'b0;
        end
    end

    // A NAK that repeats an earlier one is not counted; a response that is missing is a NAK for it.
    logic obeys_nak;
    assign obeys_nak = step == ANSWERED && job == ANSWER && !is_placed && is_ack && kind != KIND_ACK;
    assign count_timeout = step == DECIDE && job == EXPIRED && !is_idle_qp && !waiting[at] && in_flight != '0
                        && !going_back[at];
    assign count_rnr_nak = obeys_nak && kind == KIND_RNR_NAK && !going_back[at];
    assign count_sequence_nak = (obeys_nak && kind == KIND_NAK && code == SEQUENCE_ERROR && !going_back[at])
                             || (step == HEAD && implies_nak && !c.implied_nak);
    assign count_other_nak = obeys_nak && kind == KIND_NAK && code != SEQUENCE_ERROR;
    assign count_refetch = step == FETCH;

    always_ff @(posedge clk) begin
        if (went_back) going_back[requester_at] <= 1'b0;
        if (payload_error) payload_failed[payload_error_qp] <= 1'b1;
        if (step == DECIDE && job == EXPIRED) waiting[at] <= 1'b0;
        if (step == END) begin
            if (progressed) waiting[at] <= 1'b0;
            if (is_back_off) waiting[at] <= 1'b1;
            if (goes_back) going_back[at] <= 1'b1;
            if (fails) errored[at] <= 1'b1;
            if (job == RESET) begin
                going_back[at] <= 1'b0;
                waiting[at] <= 1'b0;
                errored[at] <= 1'b0;
                payload_failed[at] <= 1'b0;
            end
        end
        if (rst) begin
            going_back <= '0;
            waiting <= '0;
            errored <= '0;
            payload_failed <= '0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && step == HEAD && job != FLUSH && !is_empty) assert (count <= in_flight);
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The requester: takes QPs in turn, begins their WQEs and sends request packets (contract, chapter 14).
//
// Ports: control_*, query_*, packet_*, piece_*, request_*, answer_*, gid_*: see CARD.md. pick_* is
// the next QP with work, `again_*` gives it another turn. `qp_index` reads qp_table in the cycle of
// `qp_wanted`. read_* and line_* fetch WQEs from the ring (wqe_decode). state_* and table_* are the
// memories that the requester writes and the completer reads; `retired` is the completer's current
// state of QP `at`. `sent_valid`: transmit has sent a packet of the requester. `went_back`: the first
// packet of a pass has left. flush_* makes the completer flush the requests that were begun, reset_*
// makes it forget the QP; left_* is a datagram that transmit has sent, with `left_error` if its payload could not
// be read. `settle`: the oldest request may be one that completes without an answer.
// `count_*` pulse.
// Invariants: a request is in the table before its first packet leaves; `next_psn` never passes
// `newest_psn`; the cursor stays on a request that has failed. A turn has at most 16 packets.
module requester (
    input  logic         clk,
    input  logic         rst,
    input  logic [63:0]  now_ns,
    output logic         idle,

    input  logic               control_valid,
    output logic               control_ready,
    input  card_pkg::control_t control,
    output card_pkg::send_query_t query,

    input  logic         pick_valid,
    output logic         pick_ready,
    input  logic [7:0]   pick_qp,
    output logic         again_valid,
    output logic [7:0]   again_qp,

    output logic          qp_wanted,
    output logic [7:0]    at,
    input  card_pkg::qp_t qp,
    input  logic [31:0]   producer,        // of QP `at`
    output logic          forget_producer,
    output logic [3:0]    gid_index,
    input  logic [127:0]  gid,

    output logic          state_write,
    output logic [7:0]    state_at,
    output card_pkg::send_state_t state,
    output logic          table_write,
    output logic [card_pkg::LOG_QPS+card_pkg::LOG_OUTSTANDING-1:0] table_at,
    output card_pkg::outstanding_t table_entry,
    input  card_pkg::outstanding_t table_read,

    input  card_pkg::retire_state_t retired,   // its retries
    input  logic          is_going_back,
    input  logic          is_waiting,
    input  logic          is_errored,
    output logic          went_back,
    output logic          settle,
    output logic          flush_valid,
    input  logic          flush_ready,
    output logic          reset_valid,
    input  logic          reset_ready,
    output logic [23:0]   reset_psn,

    output logic          timer_valid,
    input  logic          timer_ready,
    output logic [63:0]   timer_deadline,

    output card_pkg::read_t read,
    input  logic          read_ready,
    input  card_pkg::line_t line,

    output logic                      request_valid,
    input  logic                      request_ready,
    output card_pkg::memory_request_t request,
    input  logic                      answer_valid,
    output logic                      answer_ready,
    input  card_pkg::piece_t          answer,
    input  logic [2:0]                answer_fault,

    output logic                 packet_valid,
    input  logic                 packet_ready,
    output card_pkg::tx_packet_t packet,
    output logic                 piece_valid,
    input  logic                 piece_ready,
    output card_pkg::piece_t     piece,
    input  logic                 sent_valid,
    input  logic                 sent_error,
    output logic                 left_valid,
    output logic                 left_error,
    output logic [7:0]           left_qp,
    output logic [23:0]          left_psn,

    output logic                  completion_valid,
    input  logic                  completion_ready,
    output card_pkg::completion_t completion,
    input  logic                  completions_idle,
    input  logic [15:0]           frame,   // that completions wait for

    output logic                  count_retransmitted,
    output logic                  count_wqe_error
);
    wire unused_inputs = &{1'b0, retired};
    localparam int TURN_PACKETS = 16;
    localparam int ACK_REQUEST_INTERVAL = 16;
    localparam int LOG_WINDOW_PACKETS = 8; // packets in flight: far fewer than half of all PSNs
    localparam logic [24:0] HALF_OF_PSNS = 25'h80_0000;

    typedef enum logic [4:0] {
        INIT, IDLE, LOAD, LOADED, DECIDE, ENTRY, RESUME, FETCH, FETCHING, FETCHED, BEGIN, APPEND,
        REWRITE, SETTLE, MESSAGE, WALK, SEND, YIELD, STORE, FLUSH, FLUSH_NEXT, FLUSH_CQE,
        CONTROL_LOAD, CONTROL_LOADED, CONTROL_DRAIN, CONTROL_RESET, CONTROL_STORE, CONTROL_DONE
    } step_t;
    step_t step;

    // ------------------------------------------------------------------------- what a turn is about
    card_pkg::qp_t q;                      // at the start of the turn; only parts are used
    wire unused_q = &{1'b0, q};
    card_pkg::send_state_t s, loaded;
    card_pkg::outstanding_t e;             // the request at the cursor
    logic [4:0] budget;                    // remaining packets of the turn
    logic new_pass;                        // it went back, and no packet has left since
    logic flushing;
    logic resuming;                        // the fetched WQE was begun before
    logic just_sent;                       // a packet, in the previous cycle

    // --------------------------------------------------------------------------------------- the WQE
    logic have_wqe;                        // wqe_decode holds the WQE of QP `wqe_qp` at `wqe_index`
    logic [7:0] wqe_qp;
    logic [31:0] wqe_index, wanted_index, wanted_available;
    logic reads_ahead, lines_idle;
    card_pkg::wqe_t wqe;
    logic decode_begin, decoded;
    logic [3:0] segment_number;
    card_pkg::segment_t segment;
    logic may_begin, holds_next, begins_next, resumes;
    assign begins_next = step == DECIDE && may_begin && !holds_next;
    assign decode_begin = step == FETCH || begins_next;
    assign resumes = resuming && step != DECIDE;
    assign wanted_index = resumes ? e.index : s.fetched;
    assign wanted_available = resumes ? ferroce_pkg::WQE_MAX_BLOCKS : producer - s.fetched;

    wqe_ahead decode (
        .clk, .rst, .begin_valid(decode_begin), .begin_qp(at), .begin_index(wanted_index),
        .begin_available(wanted_available), .done(decoded), .ring_base(q.send_base),
        .log_ring_blocks(q.log_send_blocks), .is_datagram(q.is_datagram), .forget(step == CONTROL_RESET),
        .ahead_valid(reads_ahead), .ahead_qp(at),
        .ahead_block(producer), .lines_idle, .read, .read_ready, .line, .wqe, .segment_number, .segment
    );
    // ------------------------------------------------------------------------------------ the packet
    logic [23:0] qpn;
    assign qpn = card_pkg::QPN_BASE + {16'b0, at};
    logic [7:0] packet_opcode, cqe_opcode;
    logic is_atomic, fetches, takes_receive, is_first, is_last;
    logic [3:0] log_mtu;
    logic [12:0] mtu, payload_bytes;
    logic [23:0] position, psns_left;
    logic [31:0] offset, bytes_left;
    assign log_mtu = q.is_datagram ? 4'($clog2(card_pkg::MAX_DATAGRAM_BYTES)) : {1'b0, q.path_mtu} + 4'd7;
    assign mtu = 13'd1 << log_mtu;
    assign position = s.next_psn - e.first_psn;
    assign psns_left = e.last_psn - s.next_psn + 24'd1;
    assign offset = {8'b0, position} << log_mtu;
    assign bytes_left = e.length - offset;
    assign payload_bytes = fetches ? '0 : bytes_left < {19'b0, mtu} ? bytes_left[12:0] : mtu;
    assign is_first = position == '0;
    assign is_last = fetches || s.next_psn == e.last_psn;
    send_opcode of_opcode (
        .opcode(wqe.opcode), .is_datagram(q.is_datagram), .is_first, .is_last, .packet_opcode, .cqe_opcode,
        .is_atomic, .fetches, .takes_receive
    );

    // A datagram has its own destination. The high bit of its Q_Key selects the QP's; the GSI has no other (IBTA
    // vol 1, 10.2.5), and sets AckReq, as Linux does.
    logic is_gsi;
    logic [31:0] q_key;
    card_pkg::path_t path;
    assign is_gsi = q.is_datagram && at == card_pkg::GSI_INDEX;
    assign q_key = is_gsi || wqe.q_key[31] ? q.q_key : wqe.q_key;
    assign path = q.is_datagram ? wqe.path : q.path;

    logic is_invalidate;
    assign is_invalidate = wqe.opcode == ferroce_pkg::SEND_OPCODE_SEND_INVALIDATE;
    always_comb begin
        packet.path = path;
        packet.opcode = packet_opcode;
        packet.solicited = wqe.solicited && is_last && takes_receive;
        packet.ack_request = q.is_datagram ? is_gsi
                                           : is_last || s.since_ack_request == 4'(ACK_REQUEST_INTERVAL - 1);
        packet.dest_qpn = q.is_datagram ? wqe.dest_qpn : q.dest_qpn;
        packet.psn = s.next_psn;
        packet.address = fetches ? wqe.remote_address + {32'b0, offset} : wqe.remote_address;
        if (q.is_datagram) packet.address = {q_key, 8'b0, qpn};
        packet.r_key = wqe.remote_key;
        packet.length = is_atomic ? wqe.swap_add[63:32] : fetches ? bytes_left : e.length;
        packet.compare = packet_opcode[4:0] == card_pkg::COMPARE_SWAP ? wqe.compare : '0;
        // A key is a little-endian number in the WQE and a big-endian one on the wire.
        packet.immediate = is_invalidate
            ? {wqe.immediate[7:0], wqe.immediate[15:8], wqe.immediate[23:16], wqe.immediate[31:24]} : wqe.immediate;
        packet.aeth = is_atomic ? wqe.swap_add[31:0] : '0;
        packet.payload_bytes = payload_bytes;
        packet.qp = at;
    end
    assign packet_valid = step == SEND && !timer_valid;

    logic is_sent, walk_start, walked, walk_valid, walk_ready, pieces_idle;
    logic [2:0] walk_fault;
    card_pkg::piece_t walk_piece;
    segment_walk walk (
        .clk, .rst, .start(walk_start), .offset, .bytes(payload_bytes), .done(walked), .fault(walk_fault), .pd(q.pd),
        .qpn, .rights('0), .is_inline(wqe.is_inline), .inline_at(wqe.inline_at), .wqe_index, .ring_base(q.send_base),
        .log_ring_blocks(q.log_send_blocks), .segments(wqe.segments), .segment_number, .segment, .request_valid,
        .request_ready, .request, .answer_valid, .answer_ready, .answer, .answer_fault, .piece_valid(walk_valid),
        .piece_ready(walk_ready), .piece(walk_piece)
    );
    packet_pieces pieces (
        .clk, .rst, .s_valid(walk_valid), .s_ready(walk_ready), .s_piece(walk_piece),
        .commit(walked && walk_fault == '0), .rollback(walked && walk_fault != '0), .m_valid(piece_valid),
        .m_ready(piece_ready), .m_piece(piece), .idle(pieces_idle)
    );

    // Packets that transmit has not sent yet: their payload may still be read.
    logic [9:0] unsent;
    always_ff @(posedge clk) begin
        unsent <= unsent + {9'b0, packet_valid && packet_ready} - {9'b0, sent_valid};
        if (rst) unsent <= '0;
    end
    // Transmit sends them in order. A datagram is done when it has been sent.
    localparam int LOG_UNSENT = 5;         // more than transmit can hold
    logic is_datagram_sent, has_room, is_unsent;
    fifo #(.BITS(1 + 8 + 24), .LOG_DEPTH(LOG_UNSENT)) handed (
        .clk, .rst, .s_valid(packet_valid && packet_ready), .s_ready(has_room), .s_data({q.is_datagram, at, s.next_psn}),
        .m_valid(is_unsent), .m_ready(sent_valid), .m_data({is_datagram_sent, left_qp, left_psn})
    );
    assign left_valid = sent_valid && is_datagram_sent;
    assign left_error = sent_error;

    // ----------------------------------------------------------------------------------- the window
    logic [card_pkg::LOG_OUTSTANDING:0] outstanding;
    logic [23:0] in_flight, to_newest, oldest_to_newest, psns;
    logic [7:0] reads_in_flight;
    logic is_overtaken, has_to_rewind, is_window_full, is_read_limited, fits;
    assign outstanding = s.tail - retired.head;
    assign in_flight = s.next_psn - retired.oldest_psn;
    assign to_newest = s.newest_psn - s.next_psn;
    assign oldest_to_newest = s.newest_psn - retired.oldest_psn;
    // The peer has acknowledged packets of an earlier pass that this pass has not sent yet.
    assign is_overtaken = to_newest > oldest_to_newest;
    assign has_to_rewind = is_overtaken || (is_going_back && !new_pass);
    assign is_window_full = in_flight[23:LOG_WINDOW_PACKETS] != '0;
    assign reads_in_flight = s.reads_sent - retired.reads_done;
    assign is_read_limited = fetches && reads_in_flight >= {3'b0, q.max_rd_atomic};
    logic [31:0] last_packet;              // 24 bits of it
    wire unused_last_packet = &{1'b0, last_packet};
    assign last_packet = wqe.length == '0 ? '0 : (wqe.length - 32'd1) >> log_mtu;
    assign psns = last_packet[23:0] + 24'd1;
    assign fits = !is_window_full && !is_read_limited
               && {1'b0, in_flight} + {1'b0, psns} <= HALF_OF_PSNS;

    localparam logic [95:0] IPV4_PREFIX = {16'hffff, 80'b0};   // ::ffff:0:0, first octet in the lowest bits
    logic has_gid, has_route, is_too_long, is_nop, is_rts, is_err, has_work;
    assign gid_index = path.source_gid_index[3:0];
    assign has_gid = gid != '0 && path.source_gid_index[7:card_pkg::LOG_GIDS] == '0;
    // MODIFY_QP has checked the path of a connected QP.
    assign has_route = has_gid && (!q.is_datagram || (path.dest_gid != '0
                       && (gid[95:0] == IPV4_PREFIX) == (path.dest_gid[95:0] == IPV4_PREFIX)));
    assign is_too_long = q.is_datagram && wqe.length > 32'(card_pkg::MAX_DATAGRAM_BYTES);
    assign is_nop = wqe.opcode == ferroce_pkg::SEND_OPCODE_NOP;
    assign is_rts = q.state == 3'(ferroce_pkg::QP_STATE_CODE_RTS);
    assign is_err = q.state == 3'(ferroce_pkg::QP_STATE_CODE_ERR) || q.state == 3'(ferroce_pkg::QP_STATE_CODE_SQE);
    assign has_work = s.fetched != producer;
    assign may_begin = is_rts && has_work && !outstanding[card_pkg::LOG_OUTSTANDING] && s.cursor == s.tail && !is_errored
                    && !has_to_rewind && !is_waiting;
    assign holds_next = have_wqe && wqe_qp == at && wqe_index == s.fetched;

    logic is_same;                         // equals the request in the table
    assign is_same = wqe.status == ferroce_pkg::CQE_STATUS_SUCCESS && wqe.length == e.length
                  && cqe_opcode == e.opcode;
    logic [7:0] begin_status;              // SUCCESS, or why the WQE fails
    always_comb begin
        begin_status = wqe.status;
        if (wqe.status == ferroce_pkg::CQE_STATUS_SUCCESS && !is_nop) begin
            if (!has_route || (fetches && q.max_rd_atomic == '0))
                begin_status = ferroce_pkg::CQE_STATUS_LOCAL_QP_OPERATION;
            if (is_too_long) begin_status = ferroce_pkg::CQE_STATUS_LOCAL_LENGTH;
        end
    end

    // -------------------------------------------------------------------------- memories and answers
    logic [7:0] sweep;                     // after a reset: every QP is empty
    ram_1w1r #(.BITS($bits(s)), .LOG_DEPTH(card_pkg::LOG_QPS)) states (
        .clk, .write_valid(state_write), .write_at(state_at), .write_data(state),
        .read_at(at), .read_data(loaded)
    );
    logic is_in_turn;
    assign is_in_turn = step != IDLE && step != LOAD && step != LOADED && step != CONTROL_LOAD
                     && step != CONTROL_LOADED && step != CONTROL_DONE;
    // In a turn, `producer` belongs to the QP; after a command the ring may be different.
    assign reads_ahead = is_in_turn && step != INIT && !control_valid;
    assign state_write = is_in_turn;
    assign state_at = step == INIT ? sweep : at;
    assign state = step == INIT ? '0 : s;
    assign table_write = step == APPEND || step == REWRITE;
    assign table_at = {at, s.cursor[card_pkg::LOG_OUTSTANDING-1:0]};
    assign table_entry = e;

    assign pick_ready = step == IDLE && !control_valid;
    assign again_valid = step == YIELD || step == CONTROL_STORE;
    assign again_qp = at;
    assign qp_wanted = step == LOAD || step == CONTROL_LOAD;
    assign walk_start = (step == MESSAGE || (step == APPEND && is_sent)) && !has_to_rewind && !is_errored && !is_waiting
                     && budget != '0 && !is_window_full && payload_bytes != '0;
    // A new request has packets.
    assign is_sent = e.status == ferroce_pkg::CQE_STATUS_SUCCESS && !e.is_local;
    assign went_back = new_pass && (just_sent || (step == STORE && !timer_valid && s.cursor == s.tail));
    assign settle = step == SETTLE;
    assign flush_valid = step == FLUSH;
    assign reset_valid = step == CONTROL_RESET;
    logic resumes_queue;
    assign resumes_queue = control.op == card_pkg::CONTROL_RESUME;
    always_comb begin
        case (control.op)
            card_pkg::CONTROL_START: reset_psn = control.psn;
            card_pkg::CONTROL_RESUME: reset_psn = s.newest_psn;
            default: reset_psn = '0;
        endcase
    end
    assign forget_producer = step == CONTROL_STORE && control.op == card_pkg::CONTROL_FORGET;
    assign control_ready = step == CONTROL_DONE;
    assign query.send_psn = s.newest_psn;
    assign query.unacknowledged_psn = retired.oldest_psn;
    assign query.producer = producer;
    assign query.fetched = s.fetched;
    assign query.drained = s.tail == retired.head;
    assign idle = step == IDLE && pieces_idle && lines_idle;

    always_comb begin
        completion = '0;                   // of a WQE that was never begun
        completion.cqn = q.send_cqn;
        completion.frame = frame;
        completion.qpn = qpn;
        completion.wqe_index = s.fetched;
        completion.byte_count = wqe.rejected ? '0 : wqe.length;
        completion.opcode = wqe.rejected ? ferroce_pkg::CQE_OPCODE_SEND : cqe_opcode;
        completion.status = ferroce_pkg::CQE_STATUS_WR_FLUSH;
    end
    assign completion_valid = step == FLUSH_CQE;

    logic [23:0] packet_psns;              // of the packet that is sent
    assign packet_psns = fetches ? psns_left : 24'd1;
    assign count_retransmitted = packet_valid && packet_ready && to_newest >= packet_psns;
    assign count_wqe_error = step == BEGIN && wqe.status != ferroce_pkg::CQE_STATUS_SUCCESS;

    always_ff @(posedge clk) begin
        // The timer of a packet starts in the cycle that writes `newest_psn`, or later.
        just_sent <= packet_valid && packet_ready;
        if (timer_ready) timer_valid <= 1'b0;
        if (just_sent) new_pass <= 1'b0;
        if (decode_begin) begin
            wqe_qp <= at;
            wqe_index <= wanted_index;
            have_wqe <= 1'b1;
        end
        case (step)
            INIT: begin
                sweep <= sweep + 1'b1;
                if (sweep == '1) step <= IDLE;
            end
            IDLE: begin
                budget <= 5'(TURN_PACKETS);
                new_pass <= 1'b0;
                flushing <= 1'b0;
                if (control_valid) begin
                    at <= control.qp;
                    step <= CONTROL_LOAD;
                end else if (pick_valid) begin
                    at <= pick_qp;
                    step <= LOAD;
                end
            end
            LOAD: step <= LOADED;
            LOADED: begin
                q <= qp;
                s <= loaded;
                step <= DECIDE;
            end

            DECIDE: begin
                resuming <= s.cursor != s.tail;
                if (is_err || is_errored) step <= timer_valid ? DECIDE : FLUSH;
                else if (!is_rts && q.state != 3'(ferroce_pkg::QP_STATE_CODE_SQD)) step <= STORE;
                else if (has_to_rewind) begin
                    s.next_psn <= retired.oldest_psn;
                    s.cursor <= retired.head;
                    s.reads_sent <= retired.reads_done;
                    // The first packet of the new pass requests an acknowledge.
                    s.since_ack_request <= 4'(ACK_REQUEST_INTERVAL - 1);
                    new_pass <= is_going_back && !just_sent;
                end else if (is_waiting) step <= STORE;
                else if (s.cursor != s.tail) step <= ENTRY;
                else if (!may_begin) step <= STORE;
                else step <= holds_next ? BEGIN : FETCHING;
            end
            ENTRY: begin
                e <= table_read;
                step <= RESUME;
            end
            RESUME: begin
                if (e.status != ferroce_pkg::CQE_STATUS_SUCCESS) step <= STORE;
                else if (e.is_local) begin
                    s.cursor <= s.cursor + 1'b1;
                    step <= DECIDE;
                end else step <= have_wqe && wqe_qp == at && wqe_index == e.index ? FETCHED : FETCH;
            end

            FETCH: step <= FETCHING;
            FETCHING: if (decoded) step <= flushing ? FLUSH_CQE : resuming ? FETCHED : BEGIN;
            // A WQE that was begun is unchanged, unless software has overwritten it.
            FETCHED: begin
                if (is_same) step <= MESSAGE;
                else begin
                    e.status <= ferroce_pkg::CQE_STATUS_LOCAL_QP_OPERATION;
                    step <= REWRITE;
                end
            end

            BEGIN: begin
                e.index <= s.fetched;
                e.first_psn <= s.next_psn;
                e.last_psn <= s.next_psn + psns - 24'd1;
                e.length <= wqe.rejected ? '0 : wqe.length;
                e.opcode <= wqe.rejected ? ferroce_pkg::CQE_OPCODE_SEND : cqe_opcode;
                e.status <= begin_status;
                e.is_local <= is_nop;
                e.signaled <= wqe.signaled;
                if (begin_status != ferroce_pkg::CQE_STATUS_SUCCESS) step <= APPEND;
                else if (wqe.fence && reads_in_flight != '0) step <= STORE;
                else step <= is_nop || fits ? APPEND : STORE;
            end
            APPEND: begin
                s.fetched <= wqe.rejected ? producer : s.fetched + {28'b0, wqe.blocks};
                s.tail <= s.tail + 1'b1;
                if (e.status != ferroce_pkg::CQE_STATUS_SUCCESS) step <= SETTLE;
                else if (e.is_local) begin
                    s.cursor <= s.cursor + 1'b1;
                    step <= SETTLE;
                end else step <= walk_start ? WALK : MESSAGE;
            end
            REWRITE: step <= SETTLE;
            SETTLE: step <= e.status != ferroce_pkg::CQE_STATUS_SUCCESS ? STORE : DECIDE;

            MESSAGE: begin
                if (has_to_rewind || is_errored || is_waiting) step <= DECIDE;
                else if (budget == '0) step <= YIELD;
                else if (is_window_full || is_read_limited) step <= STORE;
                else step <= payload_bytes == '0 ? SEND : WALK;
            end
            WALK: if (walked) begin
                if (walk_fault != '0) e.status <= ferroce_pkg::CQE_STATUS_LOCAL_PROTECTION;
                step <= walk_fault != '0 ? REWRITE : SEND;
            end
            SEND: if (packet_ready) begin
                s.next_psn <= s.next_psn + packet_psns;
                if (!count_retransmitted) s.newest_psn <= s.next_psn + packet_psns;
                s.since_ack_request <= packet.ack_request ? '0 : s.since_ack_request + 1'b1;
                if (fetches) s.reads_sent <= s.reads_sent + 1'b1;
                if (is_last) s.cursor <= s.cursor + 1'b1;
                budget <= budget - 1'b1;
                timer_deadline <= now_ns + (64'd4096 << q.timeout);
                timer_valid <= q.timeout != '0;
                step <= !is_last ? MESSAGE : budget == 5'd1 ? YIELD : DECIDE;
            end
            YIELD: step <= STORE;
            STORE: if (!timer_valid) step <= IDLE;

            FLUSH: if (flush_ready) begin
                s.cursor <= s.tail;
                s.next_psn <= s.newest_psn;
                flushing <= 1'b1;
                resuming <= 1'b0;
                step <= FLUSH_NEXT;
            end
            FLUSH_NEXT: step <= has_work ? FETCH : STORE;
            FLUSH_CQE: if (completion_ready) begin
                s.fetched <= wqe.rejected ? producer : s.fetched + {28'b0, wqe.blocks};
                step <= YIELD;
            end

            CONTROL_LOAD: step <= CONTROL_LOADED;
            CONTROL_LOADED: begin
                s <= loaded;
                step <= control.op == card_pkg::CONTROL_QUERY ? CONTROL_DONE : CONTROL_DRAIN;
            end
            CONTROL_DRAIN: if (pieces_idle && lines_idle && completions_idle && unsent == '0) step <= CONTROL_RESET;
            CONTROL_RESET: if (reset_ready) begin
                s <= '0;
                if (control.op == card_pkg::CONTROL_START || resumes_queue) s.fetched <= s.fetched;
                s.next_psn <= reset_psn;
                s.newest_psn <= reset_psn;
                have_wqe <= 1'b0;
                step <= CONTROL_STORE;
            end
            CONTROL_STORE: step <= CONTROL_DONE;
            CONTROL_DONE: step <= IDLE;
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= INIT;
            sweep <= '0;
            have_wqe <= 1'b0;
            {timer_valid, just_sent} <= '0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && step == SEND) begin
            assert (e.status == ferroce_pkg::CQE_STATUS_SUCCESS && !e.is_local);
            assert (psns_left != '0 && psns_left <= HALF_OF_PSNS[23:0]);
            assert (to_newest <= HALF_OF_PSNS[23:0]);
        end
        if (!rst && step == APPEND) assert (s.cursor == s.tail);
        if (!rst && sent_valid) assert (unsent != '0 && is_unsent);
        if (!rst && packet_valid && packet_ready) assert (has_room);
    end
endmodule

`default_nettype wire

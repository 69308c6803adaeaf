// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Answers of the responder: ACKs, NAKs and responses of READs and atomics, in the order in which they were queued.
//
// Ports: `answer` is queued: an ACK or NAK with its syndrome, or with `answer.reads` the
// responses of a READ, which wait until the payload of frame answer.frame is written; with `answer.is_atomic` the
// response of an atomic, `answer.reads` with the first one.
// `answer.ends_qp`: the QP goes to ERR with it. look_* reads qp_table, one cycle later; look_valid
// must be served immediately. count_qp queries how many answers (and READs) of a QP have ended, one
// cycle later. clear_* forgets a QP that is started or reset; drop_* ends its answers. fail_*
// requests the QP's transition to ERR, with the event, when a READ cannot be executed; `fail_ready`
// ends it. sent_valid is a pulse for each packet that has left transmit, in order; with payload_error
// its payload could not be read.
// Invariants: a packet is sent only when all its pieces are known; a QP in ERR sends only the answers
// up to the one that caused the error; after a failed READ, its QP sends nothing more.
module response_engine #(
    parameter int LOG_DEPTH = 6
) (
    input  logic                      clk,
    input  logic                      rst,

    input  logic                      answer_valid,
    output logic                      answer_ready,
    input  card_pkg::reply_t          answer,
    input  logic [7:0]                answer_qp,

    input  logic [15:0]               frames_done,
    input  logic                      all_frames_done,

    input  logic [7:0]                count_qp,
    output logic [7:0]                counted_answers,
    output logic [7:0]                counted_reads,
    output logic                      counted_repeats,  // their number, modulo 2
    input  logic                      clear_valid,
    input  logic [7:0]                clear_qp,
    input  logic                      clear_counts,     // after a reset
    input  logic                      drop_valid,
    input  logic [7:0]                drop_qp,

    output logic                      look_valid,
    output logic [7:0]                look_qp,
    input  card_pkg::qp_t             qp,

    output logic                      request_valid,
    input  logic                      request_ready,
    output card_pkg::memory_request_t request,
    input  logic                      piece_answer_valid,
    output logic                      piece_answer_ready,
    input  card_pkg::piece_t          piece_answer,
    input  logic [2:0]                piece_answer_fault,

    output logic                      packet_valid,
    input  logic                      packet_ready,
    output card_pkg::tx_packet_t      packet,
    output logic                      piece_valid,
    input  logic                      piece_ready,
    output card_pkg::piece_t          piece,

    input  logic                      sent_valid,       // the oldest packet in transmit has left
    input  logic                      payload_error,    // with wrong payload
    input  logic [7:0]                payload_error_qp,
    output logic [7:0]                handed_packets,   // to transmit so far, modulo 2^8
    output logic [7:0]                sent_packets,

    output logic                      fail_valid,
    input  logic                      fail_ready,
    output logic [7:0]                fail_qp,

    output logic                      count_ack,
    output logic                      count_rnr_nak,
    output logic                      count_sequence_nak,
    output logic                      count_other_nak,
    output logic                      idle
);
    localparam logic [7:0] READ_FIRST = 8'h0d, READ_MIDDLE = 8'h0e, READ_LAST = 8'h0f, READ_ONLY = 8'h10,
                           ACKNOWLEDGE = 8'h11, ATOMIC_ACKNOWLEDGE = card_pkg::ATOMIC_ACKNOWLEDGE;
    localparam logic [7:0] NAK_SEQUENCE = 8'h60, NAK_REMOTE_ACCESS = 8'h62;
    localparam int QPS = 1 << card_pkg::LOG_QPS;
    localparam int LOG_FLIGHT = 5;         // maximum number of packets in transmit

    typedef struct packed {
        logic        reads;
        logic        repeats;
        logic        is_atomic;
        logic [7:0]  qp;
        logic [23:0] psn;
        logic [7:0]  syndrome;
        logic [23:0] msn;
        logic [15:0] frame;
        logic [63:0] address;
        logic [31:0] key;
        logic [31:0] length;
    } entry_t;

    typedef enum logic [3:0] {
        IDLE, TAKE, LOOK, JUDGE, WAIT, REQUEST, ANSWER, SEND, NEXT, FAIL, REFUSE, LATE, LATE_JUDGE, END
    } step_t;
    step_t step;
    logic       is_late, late_valid;       // a failure that transmit has reported
    logic [7:0] late_qp;
    logic       may_send, in_error, was_in_error, has_failed;

    // ------------------------------------------------------------------------------------ the queue
    localparam int ENTRY_BITS = 1 + 1 + 1 + 8 + 24 + 8 + 24 + 16 + 64 + 32 + 32;
    logic [ENTRY_BITS-1:0] entries [1 << LOG_DEPTH];
    logic [LOG_DEPTH:0] producer, consumer;
    logic [ENTRY_BITS-1:0] oldest;
    entry_t queued, entry;
    assign answer_ready = producer != {!consumer[LOG_DEPTH], consumer[LOG_DEPTH-1:0]};
    always_comb begin
        queued.reads = answer.reads;
        queued.repeats = answer.repeats;
        queued.is_atomic = answer.is_atomic;
        queued.qp = answer_qp;
        queued.psn = answer.psn;
        queued.syndrome = answer.syndrome;
        queued.msn = answer.msn;
        queued.frame = answer.frame;
        queued.address = answer.address;
        queued.key = answer.key;
        queued.length = answer.length;
    end
    always_ff @(posedge clk) begin
        if (answer_valid && answer_ready) entries[producer[LOG_DEPTH-1:0]] <= queued;
    end
    always_ff @(posedge clk) oldest <= entries[consumer[LOG_DEPTH-1:0]];

    // ------------------------------------------------------------------------------ ends, by the QP
    logic [16:0] counts [QPS];
    logic [16:0] count, counted;
    logic [7:0]  count_at;
    logic [16:0] count_next;
    assign count_at = clear_counts ? clear_qp : entry.qp;
    always_comb begin
        count_next[7:0] = count[7:0] + 8'd1;
        count_next[15:8] = count[15:8] + {7'd0, entry.reads && !entry.repeats};
        count_next[16] = count[16] ^ (entry.reads && entry.repeats);
        if (clear_counts) count_next = '0;
    end
    always_ff @(posedge clk) begin
        if ((step == END && !is_late) || clear_counts) counts[count_at] <= count_next;
    end
    always_ff @(posedge clk) begin
        count <= counts[entry.qp];
        counted <= counts[count_qp];
    end
    assign {counted_repeats, counted_reads, counted_answers} = counted;

    // The QP's last answer is in the queue; it sends no further ones.
    logic [QPS-1:0] ending, silent;
    always_ff @(posedge clk) begin
        if (answer_valid && answer_ready && answer.ends_qp) ending[answer_qp] <= 1'b1;
        if (has_failed) silent[entry.qp] <= 1'b1;
        if (late_valid) silent[late_qp] <= 1'b1;
        if (step == JUDGE && !may_send && entry.reads) silent[entry.qp] <= 1'b1;
        if (clear_valid) begin
            ending[clear_qp] <= 1'b0;
            silent[clear_qp] <= 1'b0;
        end
    end

    assign in_error = qp.state == ferroce_pkg::QP_STATE_CODE_ERR[2:0];
    always_comb begin
        may_send = qp.exists && qp.state >= ferroce_pkg::QP_STATE_CODE_RTR[2:0] && !silent[entry.qp];
        if (in_error && (entry.reads || entry.is_atomic) && !ending[entry.qp]) may_send = 1'b0;
        if (drop_valid && drop_qp == entry.qp) may_send = 1'b0;
    end

    // ----------------------------------------------------------------- packets that are in transmit
    // One failure is kept until its NAK is sent. A second failure meanwhile has the effect of a lost
    // packet.
    logic [47:0] flight [1 << LOG_FLIGHT];
    logic [47:0] left_last, late;          // PSN, MSN
    logic        late_found, has_place;
    logic [7:0]  in_transmit;
    assign in_transmit = handed_packets - sent_packets;
    assign has_place = in_transmit != 8'd1 << LOG_FLIGHT;
    always_ff @(posedge clk) begin
        if (packet_valid && packet_ready) begin
            flight[handed_packets[LOG_FLIGHT-1:0]] <= {entry.psn, entry.msn};
        end
    end
    always_ff @(posedge clk) left_last <= flight[sent_packets[LOG_FLIGHT-1:0]];
    always_ff @(posedge clk) begin
        if (packet_valid && packet_ready) handed_packets <= handed_packets + 1'b1;
        if (sent_valid) sent_packets <= sent_packets + 1'b1;
        late_found <= sent_valid && payload_error && !late_found && !late_valid;
        if (sent_valid && payload_error && !late_found && !late_valid) late_qp <= payload_error_qp;
        if (late_found) begin
            late_valid <= !silent[late_qp];
            late <= left_last;
        end else if (step == IDLE || (clear_valid && clear_qp == late_qp)) late_valid <= 1'b0;
        if (rst) {handed_packets, sent_packets, late_valid, late_found} <= '0;
    end

    // ------------------------------------------------------------------------------- READ responses
    logic        sends_data, is_first, is_last, is_written;
    logic [31:0] left;
    logic [12:0] mtu, part;
    logic [15:0] behind;
    card_pkg::qp_t qp_held;                // nothing reads the send side
    wire unused_behind = &{1'b0, behind, qp_held};
    card_pkg::piece_t pieces [2];          // of a packet: two pages at most
    logic [1:0]  held;
    logic        packet_pending;
    assign mtu = 13'd128 << qp_held.path_mtu;
    assign is_last = left <= {19'd0, mtu};
    assign part = is_last ? left[12:0] : mtu;
    assign behind = frames_done - entry.frame;
    assign is_written = all_frames_done || !behind[15];

    always_comb begin
        request.key = entry.key;
        request.pd = qp_held.pd;
        request.qpn = card_pkg::QPN_BASE | {16'd0, entry.qp};
        request.rights = 4'd1 << ferroce_pkg::ACCESS_RIGHTS_REMOTE_READ_LSB;
        request.address = entry.address;
        request.length = {19'd0, part};
        request.check_only = 1'b0;
    end
    always_comb begin
        packet = '0;
        packet.path = qp_held.path;
        packet.dest_qpn = qp_held.dest_qpn;
        packet.psn = entry.psn;
        packet.aeth = {entry.syndrome, entry.msn};
        packet.qp = entry.qp;
        packet.payload_bytes = sends_data ? part : 13'd0;
        packet.address = entry.address;    // the result of an atomic
        if (entry.is_atomic) packet.opcode = ATOMIC_ACKNOWLEDGE;
        else if (!sends_data) packet.opcode = ACKNOWLEDGE;
        else if (is_first) packet.opcode = is_last ? READ_ONLY : READ_FIRST;
        else packet.opcode = is_last ? READ_LAST : READ_MIDDLE;
    end
    assign packet_valid = step == SEND && packet_pending && has_place;
    assign piece_valid = step == SEND && held != 2'd0;
    assign piece = pieces[0];

    assign look_valid = step == LOOK || step == LATE;
    assign look_qp = entry.qp;
    assign has_failed = step == ANSWER && piece_answer_valid && piece_answer_fault != 3'd0;
    assign request_valid = step == REQUEST;
    assign piece_answer_ready = step == ANSWER;
    assign fail_valid = step == FAIL;
    assign fail_qp = entry.qp;
    assign idle = step == IDLE && producer == consumer && in_transmit == 8'd0 && !late_found && !late_valid;

    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                is_late <= late_valid;
                if (late_valid) begin
                    entry.qp <= late_qp;
                    {entry.psn, entry.msn} <= late;
                    entry.is_atomic <= 1'b0;
                    step <= LATE;
                end else if (producer != consumer) step <= TAKE;
            end
            LATE: step <= LATE_JUDGE;
            LATE_JUDGE: begin
                qp_held <= qp;
                if (!qp.exists || qp.state < ferroce_pkg::QP_STATE_CODE_RTR[2:0]) step <= END;
                else step <= in_error ? REFUSE : FAIL;
            end
            TAKE: begin
                entry <= oldest;
                is_first <= 1'b1;
                sends_data <= oldest[ENTRY_BITS-1] && !oldest[ENTRY_BITS-3];
                step <= LOOK;
            end
            LOOK: begin
                left <= entry.length;
                step <= JUDGE;
            end
            JUDGE: begin
                qp_held <= qp;
                was_in_error <= in_error;
                packet_pending <= 1'b1;
                held <= '0;
                if (!may_send) step <= END;
                else step <= WAIT;
            end
            // Applies to ACKs, too: the requester's software may read the data when the ACK arrives.
            WAIT: if (is_written) step <= !entry.reads || left == 32'd0 ? SEND : REQUEST;
            REQUEST: if (request_ready) step <= ANSWER;
            ANSWER: if (piece_answer_valid) begin
                pieces[held[0]] <= piece_answer;
                held <= held + 1'b1;
                // The transition to ERR is reported once.
                if (has_failed) step <= was_in_error || ending[entry.qp] ? REFUSE : FAIL;
                else if (piece_answer.last) step <= SEND;
            end
            SEND: begin
                if (packet_valid && packet_ready) packet_pending <= 1'b0;
                if (piece_valid && piece_ready) begin
                    pieces[0] <= pieces[1];
                    held <= held - 1'b1;
                end
                if (!packet_pending && held == 2'd0) step <= sends_data && !is_last ? NEXT : END;
            end
            NEXT: begin
                is_first <= 1'b0;
                entry.psn <= entry.psn + 1'b1;
                entry.address <= entry.address + {51'd0, part};
                entry.length <= entry.length - {19'd0, part};
                step <= LOOK;
            end
            FAIL: if (fail_ready) step <= REFUSE;
            REFUSE: begin
                sends_data <= 1'b0;
                entry.syndrome <= NAK_REMOTE_ACCESS;
                packet_pending <= 1'b1;
                held <= '0;
                step <= SEND;
            end
            END: begin
                if (!is_late) consumer <= consumer + 1'b1;
                step <= IDLE;
            end
            default: step <= IDLE;
        endcase
        if (answer_valid && answer_ready) producer <= producer + 1'b1;
        if (rst) begin
            step <= IDLE;
            {producer, consumer} <= '0;
        end
    end

    always_comb begin
        {count_ack, count_rnr_nak, count_sequence_nak, count_other_nak} = '0;
        if (packet_valid && packet_ready && !sends_data && !entry.is_atomic) begin
            if (entry.syndrome[6:5] == 2'b00) count_ack = 1'b1;
            else if (entry.syndrome[6:5] == 2'b01) count_rnr_nak = 1'b1;
            else if (entry.syndrome == NAK_SEQUENCE) count_sequence_nak = 1'b1;
            else count_other_nak = 1'b1;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && step == ANSWER && piece_answer_valid) assert (held < 2'd2);
    end
endmodule

`default_nettype wire

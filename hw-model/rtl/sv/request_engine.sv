// The checks and the execution of requests, in the order of chapter 14 of the contract, and what else
// changes the receive side of a QP: doorbells, commands, the flush of receive WQEs in ERR. One job at
// a time; packets take turns with the others.
//
// Ports: packet_*, `packet_qp` and `done` are steer's, place_* go through it to scatter. control_* and
// query_* belong to the command engine. doorbell_* are receive queues' doorbells. wake_* says that
// the state of a QP was written. look_* reads qp_table: `qp` is that of look_qp one
// cycle after look_ready.
// request_* and answer_* are memory_unit. completion_*, event_* are writers. reply_* queue answers in
// response_engine, whose counts (counted_*) tell which of them are under way. fail_valid: to ERR.
// Invariants: a packet ends with one run of pieces, if it has payload; an error is reported once; the
// context of a QP is written at the end of a job alone.
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

    input  logic                      look_ready,
    output logic [7:0]                look_qp,
    input  card_pkg::qp_t             qp,

    output logic                      fetch_valid,
    input  logic                      fetch_ready,
    output logic [7:0]                fetch_qp,
    output logic [63:0]               fetch_iova,
    output logic [3:0]                fetch_log_stride,
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
    output logic                      reply_reads,
    output logic                      reply_repeats,
    output logic                      reply_ends_qp,
    output logic [23:0]               reply_psn,
    output logic [7:0]                reply_syndrome,
    output logic [23:0]               reply_msn,
    output logic [15:0]               reply_frame,
    output logic [63:0]               reply_address,
    output logic [31:0]               reply_key,
    output logic [31:0]               reply_length,
    input  logic [7:0]                counted_answers,
    input  logic [7:0]                counted_reads,
    input  logic                      counted_repeats,
    input  logic [7:0]                handed_packets,   // to transmit
    input  logic [7:0]                sent_packets,
    output logic                      clear_valid,
    output logic                      clear_counts,

    input  logic [15:0]               frames_done,
    output logic                      all_frames_done,

    output logic                      count_duplicate,
    output logic                      count_receive_wqe,
    output logic                      idle
);
    localparam int QPS = 1 << card_pkg::LOG_QPS;
    localparam logic [7:0] ACK = 8'h1f;    // without credits: RNR NAKs limit the peer
    localparam logic [7:0] RNR_NAK = 8'h20, NAK_SEQUENCE = 8'h60, NAK_INVALID_REQUEST = 8'h61,
                           NAK_REMOTE_ACCESS = 8'h62, NAK_REMOTE_OPERATION = 8'h63;

    typedef struct packed {
        logic        failed;               // a request was refused: nothing more is taken
        logic        awaiting;             // a NAK asks for the expected packet
        logic        established;
        logic        in_send;              // a message is open
        logic        in_write;
        logic        receive_used;         // by the open message: the WQE before `consumer`
        logic [23:0] expected;
        logic [23:0] msn;
        logic [31:0] key;                  // WRITE: where the next packet goes
        logic [63:0] address;
        logic [31:0] so_far;               // bytes of the open message
        logic [31:0] rest;                 // of the WRITE, or of the receive WQE
        logic [4:0]  number;               // place in the receive WQE
        logic [31:0] offset;
        logic [31:0] producer;
        logic [31:0] consumer;
        logic [7:0]  answers;              // queued so far; modulo their widths
        logic [7:0]  reads;
        logic        repeats;
    } context_t;
    localparam int CONTEXT_BITS = 6 + 24 + 24 + 32 + 64 + 32 + 32 + 5 + 32 + 32 + 32 + 17;

    typedef enum logic [4:0] {
        CLEAR, IDLE, LOAD, LOOK, LOOKED, CONTROL, DOORBELL, FLUSH, PSN, DUPLICATE, ESTABLISH, CHECK,
        FETCH, LENGTH, ACCESS, ACCESS_WAIT, EXECUTE, PLACE, EXECUTED, REFUSE, FINISH
    } step_t;
    step_t step;

    typedef enum logic [1:0] {JOB_PACKET, JOB_DOORBELL, JOB_CONTROL, JOB_FLUSH} job_t;
    job_t job;

    typedef enum logic [2:0] {
        INVALID_REQUEST, RECEIVE_TOO_SHORT, REMOTE_ACCESS, RECEIVE_PROTECTION, RECEIVE_QUEUE
    } refusal_t;
    refusal_t refusal;

    // --------------------------------------------------------------------------------- the next job
    logic [QPS-1:0] flush_pending;
    logic [7:0]     scan, chosen_qp;
    logic           was_packet, takes_packet, takes_other, takes_doorbell, takes_control, flush_found;
    logic [1:0]     turn;                  // the job that is first among the others
    assign flush_found = flush_pending[scan];
    assign takes_packet = packet_valid && !(was_packet && (doorbell_valid || control_valid || flush_found));
    assign takes_other = !takes_packet && (doorbell_valid || control_valid || flush_found);
    always_comb begin
        takes_doorbell = doorbell_valid && (turn == 2'd0 || !flush_found && (turn == 2'd2 || !control_valid));
        takes_control = control_valid && !takes_doorbell && (turn != 2'd2 || !flush_found);
        if (takes_packet) chosen_qp = packet.dest_qpn[7:0];
        else if (takes_doorbell) chosen_qp = doorbell_qp;
        else if (takes_control) chosen_qp = control.qp;
        else chosen_qp = scan;
    end
    assign packet_ready = step == IDLE && takes_packet;
    assign doorbell_ready = step == IDLE && takes_other && takes_doorbell;
    assign idle = step == IDLE && !packet_valid && !doorbell_valid && !control_valid
        && flush_pending == '0 && !wake_valid;

    // ------------------------------------------------------------------------- contexts of all QPs
    logic [CONTEXT_BITS-1:0] contexts [QPS];
    logic [CONTEXT_BITS-1:0] loaded;
    context_t c;
    logic saves, is_finished;
    always_ff @(posedge clk) begin
        if (saves) contexts[job_qp] <= step == CLEAR ? '0 : c;
    end
    always_ff @(posedge clk) loaded <= contexts[chosen_qp];
    assign saves = step == CLEAR || (step == FINISH && is_finished);

    // ------------------------------------------------------------------------------------ the packet
    /* verilator lint_off UNUSEDSIGNAL */
    card_pkg::rx_packet_t p;               // steer has looked at its addresses
    card_pkg::qp_t        q;
    /* verilator lint_on UNUSEDSIGNAL */
    logic [31:0] payload;
    assign payload = {19'd0, p.payload_bytes};

    logic is_send, is_write, is_read, starts, ends, has_immediate, invalidates;
    logic in_sequence, is_allowed, takes_receive, is_length_wrong, is_too_long;
    logic [23:0] packets;
    request_checks checks (
        .opcode(p.opcode), .payload_bytes(p.payload_bytes), .length(p.length), .access(q.access),
        .path_mtu(q.path_mtu), .in_send(c.in_send), .in_write(c.in_write), .received(c.so_far),
        .room(c.rest), .rest(c.rest), .is_send(is_send), .is_write(is_write), .is_read(is_read),
        .starts(starts), .ends(ends), .has_immediate(has_immediate), .invalidates(invalidates),
        .in_sequence(in_sequence), .is_allowed(is_allowed), .takes_receive(takes_receive),
        .is_length_wrong(is_length_wrong), .is_too_long(is_too_long), .packets(packets)
    );

    logic is_expected, is_ahead, is_behind;
    logic [23:0] distance;
    psn_compare compare (
        .psn(p.psn), .expected(c.expected), .is_expected(is_expected), .is_ahead(is_ahead),
        .is_behind(is_behind), .distance(distance)
    );

    logic has_receive, has_room, is_repeatable, needs_access;
    logic [7:0] reads_open;
    assign has_receive = c.producer != c.consumer;
    assign reads_open = c.reads - counted_reads;
    assign has_room = reads_open < {3'd0, q.max_dest_rd_atomic};
    // One repetition at a time, and none that goes on behind what was asked for.
    assign is_repeatable = is_read && is_allowed && !is_length_wrong && packets <= distance
        && c.repeats == counted_repeats;
    // The check of a message in one packet is that of its pieces.
    assign needs_access = p.length != 32'd0 && (is_read || (is_write && starts && !ends));

    // ------------------------------------------------------------------------------ receive WQEs
    logic [31:0] slot, ring;
    assign slot = c.consumer - 32'd1;
    assign ring = (32'd1 << q.log_receives) - 32'd1;
    assign fetch_valid = step == FETCH;
    assign fetch_qp = job_qp;
    assign fetch_iova = q.receive_base + ({32'd0, slot & ring} << q.log_receive_stride);
    assign fetch_log_stride = q.log_receive_stride;

    // ------------------------------------------------------------------------------ memory, pieces
    logic placed, place_fault, places, place_request_valid, place_answer_ready, piece_valid;
    logic [4:0] next_number;
    logic [31:0] next_offset;
    card_pkg::memory_request_t place_request, access_request;
    card_pkg::piece_t piece;
    assign places = step == PLACE;
    payload_place placer (
        .clk(clk), .rst(rst), .start_valid(places), .is_send(is_send), .qp_index(job_qp), .pd(q.pd),
        .key(c.key), .address(c.address), .bytes(p.payload_bytes), .first_number(c.number),
        .first_offset(c.offset), .done(placed), .fault(place_fault), .next_number(next_number),
        .next_offset(next_offset), .segment_number(segment_number), .segment(segment),
        .request_valid(place_request_valid), .request_ready(request_ready), .request(place_request),
        .answer_valid(answer_valid), .answer_ready(place_answer_ready), .answer(answer),
        .answer_fault(answer_fault), .place_valid(piece_valid), .place_ready(place_ready), .place(piece)
    );
    always_comb begin
        access_request.key = p.r_key;
        access_request.pd = q.pd;
        access_request.qpn = card_pkg::QPN_BASE | {16'd0, job_qp};
        access_request.rights = is_read ? 4'd1 << ferroce_pkg::ACCESS_RIGHTS_REMOTE_READ_LSB
                                        : 4'd1 << ferroce_pkg::ACCESS_RIGHTS_REMOTE_WRITE_LSB;
        access_request.address = p.address;
        access_request.length = p.length;
        access_request.check_only = 1'b1;
    end
    assign request_valid = step == ACCESS || place_request_valid;
    assign request = step == ACCESS ? access_request : place_request;
    assign answer_ready = step == ACCESS_WAIT || place_answer_ready;

    logic drop_pending;
    always_comb begin
        place = piece;
        place_valid = piece_valid;
        place_drop = step == FINISH;
        if (step == FINISH) begin
            place = '0;
            place.last = 1'b1;
            place_valid = drop_pending;
        end
    end

    // --------------------------------------------------------------------------- what a job causes
    logic completes, raises, replies, fails, run_open;
    assign completion_valid = step == FINISH && completes;
    assign event_valid = raises && (step == FINISH || step == ESTABLISH);
    assign reply_valid = step == FINISH && replies;
    assign is_finished = !completes && !raises && !replies && !drop_pending;
    assign fail_valid = saves && fails && step == FINISH;
    assign done = step == FINISH && is_finished && job == JOB_PACKET;
    assign control_ready = step == FINISH && is_finished && job == JOB_CONTROL;
    assign query_receive_psn = c.expected;
    assign query_message_sequence = c.msn;
    assign query_producer = c.producer;
    assign query_consumer = c.consumer;
    assign look_qp = job_qp;
    assign clear_counts = step == CLEAR;

    assign reply_frame = p.number;
    assign reply_address = p.address;
    assign reply_key = p.r_key;
    assign reply_length = p.length;

    // ---------------------------------------------------------------- frames that are not yet placed
    /* verilator lint_off UNUSEDSIGNAL */
    logic [15:0] newest, behind_newest, forget_frame, behind_forget;
    /* verilator lint_on UNUSEDSIGNAL */
    logic placing;
    assign behind_newest = frames_done - newest;
    assign all_frames_done = !placing;
    always_ff @(posedge clk) begin
        if (packet_valid && packet_ready) begin
            newest <= packet.number;
            placing <= 1'b1;
        end else if (!behind_newest[15]) placing <= 1'b0;
        if (rst) placing <= 1'b0;
    end

    // A QP is forgotten when its answers have left the queue, and then everything that had been handed
    // on at that time (of any QP) has come to its end.
    logic        forgets, is_drained, is_placed, is_sent, is_written, may_forget;
    logic [7:0]  completions, written, forget_completions, forget_packets;
    /* verilator lint_off UNUSEDSIGNAL */
    logic [7:0]  behind_completions, behind_packets;
    /* verilator lint_on UNUSEDSIGNAL */
    assign forgets = control_valid && control.op == card_pkg::CONTROL_FORGET;
    assign behind_forget = frames_done - forget_frame;
    assign behind_packets = sent_packets - forget_packets;
    assign behind_completions = written - forget_completions;
    assign may_forget = is_drained && is_placed && is_sent && is_written;
    always_ff @(posedge clk) begin
        completions <= completions + {7'd0, completion_valid && completion_ready};
        written <= written + {7'd0, completion_written};
        if (!behind_forget[15]) is_placed <= 1'b1;
        if (!behind_packets[7]) is_sent <= 1'b1;
        if (!behind_completions[7]) is_written <= 1'b1;
        if (!forgets || control_ready) is_drained <= 1'b0;
        else if (step == CONTROL && job == JOB_CONTROL && !is_drained && c.answers == counted_answers) begin
            is_drained <= 1'b1;
            forget_frame <= newest;
            forget_packets <= handed_packets;
            forget_completions <= completions;
            is_placed <= !placing;
            {is_sent, is_written} <= '0;
        end
        if (rst) {completions, written, is_drained} <= '0;
    end

    logic [31:0] rung;                     // a doorbell's index
    logic [31:0] ahead, ahead_before;
    assign ahead = rung - c.consumer;
    assign ahead_before = c.producer - c.consumer;

    // ------------------------------------------------------------------------------------- the steps
    always_ff @(posedge clk) begin
        doorbell_error <= 1'b0;
        count_duplicate <= 1'b0;
        count_receive_wqe <= 1'b0;
        clear_valid <= step == CLEAR;
        case (step)
            CLEAR: begin
                job_qp <= job_qp + 1'b1;
                if (job_qp == '1) step <= IDLE;
            end
            IDLE: begin
                job_qp <= chosen_qp;
                rung <= doorbell_index;
                {completes, raises, replies, fails, drop_pending} <= '0;
                run_open <= packet.payload_bytes != 13'd0;
                if (takes_packet) begin
                    p <= packet;
                    q <= packet_qp;
                    job <= JOB_PACKET;
                end else job <= takes_doorbell ? JOB_DOORBELL : takes_control ? JOB_CONTROL : JOB_FLUSH;
                if (takes_packet || takes_other) begin
                    was_packet <= takes_packet;
                    step <= LOAD;
                end
                if (takes_other) turn <= takes_doorbell ? 2'd1 : takes_control ? 2'd2 : 2'd0;
                if (!flush_found) scan <= scan + {7'd0, flush_pending != '0};
            end
            LOAD: begin
                c <= loaded;
                case (job)
                    JOB_PACKET: step <= PSN;
                    JOB_CONTROL: step <= CONTROL;
                    default: step <= LOOK;
                endcase
            end
            LOOK: if (look_ready) step <= LOOKED;
            LOOKED: begin
                q <= qp;
                step <= job == JOB_DOORBELL ? DOORBELL : FLUSH;
            end

            CONTROL: begin
                step <= FINISH;
                if (control.op == card_pkg::CONTROL_FORGET && !may_forget) step <= IDLE;
                else if (control.op != card_pkg::CONTROL_QUERY) begin
                    clear_valid <= 1'b1;
                    c <= '0;
                    c.expected <= control.psn;
                    {c.answers, c.reads, c.repeats} <= {c.answers, c.reads, c.repeats};
                    if (control.op == card_pkg::CONTROL_START) begin
                        {c.producer, c.consumer} <= {c.producer, c.consumer};
                    end else c.expected <= '0;
                end
            end
            DOORBELL: begin
                step <= FINISH;
                if (!q.exists || q.state == ferroce_pkg::QP_STATE_CODE_RESET[2:0]
                    || ahead > ring + 32'd1 || ahead < ahead_before) doorbell_error <= 1'b1;
                else c.producer <= rung;
            end
            FLUSH: begin
                step <= FINISH;
                c.in_send <= 1'b0;
                c.in_write <= 1'b0;
                c.receive_used <= 1'b0;
                if (is_flushed) step <= IDLE;
                else begin
                    completes <= 1'b1;
                    if (!c.receive_used) c.consumer <= c.consumer + 32'd1;
                    completion.wqe_index <= c.receive_used ? slot : c.consumer;
                end
            end

            // ------------------------------------------------------------------------------ packets
            PSN: begin
                drop_pending <= run_open;
                count_duplicate <= is_behind && !c.failed;
                if (c.failed) step <= FINISH;
                else if (is_behind) step <= DUPLICATE;
                else if (is_ahead) begin
                    if (!c.awaiting) begin
                        replies <= 1'b1;
                        c.awaiting <= 1'b1;
                        c.answers <= c.answers + 1'b1;
                    end
                    step <= FINISH;
                end else begin
                    c.awaiting <= 1'b0;
                    raises <= !c.established && q.state == ferroce_pkg::QP_STATE_CODE_RTR[2:0];
                    step <= ESTABLISH;
                end
                reply_psn <= c.expected;
                reply_msn <= c.msn;
                reply_syndrome <= NAK_SEQUENCE;
                {reply_reads, reply_repeats, reply_ends_qp} <= '0;
            end
            DUPLICATE: begin
                reply_psn <= is_read ? p.psn : c.expected - 24'd1;
                reply_syndrome <= ACK;
                {reply_reads, reply_repeats} <= {2{is_read}};
                if (is_send || is_write || is_repeatable) begin
                    replies <= 1'b1;
                    c.answers <= c.answers + 1'b1;
                    c.repeats <= c.repeats ^ is_read;
                end
                step <= FINISH;
            end
            ESTABLISH: if (!raises || event_ready) begin
                c.established <= c.established || raises;
                step <= CHECK;
            end
            CHECK: begin
                refusal <= INVALID_REQUEST;
                c.number <= starts ? 5'd0 : c.number;
                c.offset <= starts ? 32'd0 : c.offset;
                if (!in_sequence || !is_allowed || (is_read && !has_room)) step <= REFUSE;
                else if (takes_receive && !has_receive) begin
                    c.awaiting <= 1'b1;
                    c.answers <= c.answers + 1'b1;
                    replies <= 1'b1;
                    reply_syndrome <= RNR_NAK | {3'd0, q.min_rnr_timer};
                    step <= FINISH;
                end else begin
                    if (takes_receive) begin
                        c.receive_used <= 1'b1;
                        c.consumer <= c.consumer + 32'd1;
                        count_receive_wqe <= has_immediate && is_write;
                    end
                    step <= takes_receive && is_send ? FETCH : LENGTH;
                end
            end
            FETCH: if (fetch_ready) begin
                refusal <= fetch_error ? RECEIVE_QUEUE : INVALID_REQUEST;
                c.rest <= fetch_capacity;
                count_receive_wqe <= !fetch_error;
                if (fetch_error) begin
                    // It was not taken: it is flushed as the others, and the event reports it.
                    c.receive_used <= 1'b0;
                    c.consumer <= slot;
                end
                step <= fetch_error ? REFUSE : LENGTH;
            end
            LENGTH: begin
                if (is_too_long) refusal <= RECEIVE_TOO_SHORT;
                if (starts && is_write) begin
                    {c.key, c.address, c.rest} <= {p.r_key, p.address, p.length};
                end
                if (is_too_long || is_length_wrong) step <= REFUSE;
                else step <= needs_access ? ACCESS : EXECUTE;
            end
            ACCESS: if (request_ready) step <= ACCESS_WAIT;
            ACCESS_WAIT: if (answer_valid) begin
                refusal <= REMOTE_ACCESS;
                step <= answer_fault != 3'd0 ? REFUSE : EXECUTE;
            end
            EXECUTE: begin
                refusal <= is_send ? RECEIVE_PROTECTION : REMOTE_ACCESS;
                if (is_read) begin
                    replies <= 1'b1;
                    reply_reads <= 1'b1;
                    reply_psn <= p.psn;
                    reply_syndrome <= ACK;
                    reply_msn <= c.msn + 24'd1;
                    c.answers <= c.answers + 1'b1;
                    c.reads <= c.reads + 1'b1;
                    c.expected <= c.expected + packets;
                    c.msn <= c.msn + 24'd1;
                    step <= FINISH;
                end else step <= run_open ? PLACE : EXECUTED;
            end
            PLACE: if (placed) begin
                if (!place_fault) {run_open, drop_pending} <= '0;
                c.number <= next_number;
                c.offset <= next_offset;
                step <= place_fault ? REFUSE : EXECUTED;
            end
            EXECUTED: begin
                c.expected <= invalidates ? c.expected : c.expected + 24'd1;
                c.so_far <= ends ? '0 : c.so_far + payload;
                c.rest <= c.rest - payload;
                c.address <= c.address + {32'd0, payload};
                c.in_send <= is_send && !ends;
                c.in_write <= is_write && !ends;
                c.msn <= ends ? c.msn + 24'd1 : c.msn;
                c.receive_used <= c.receive_used && !ends;
                // A region cannot be invalidated by a peer: an error of ours alone (IBTA vol 1, 9.9.3).
                c.failed <= invalidates;
                fails <= invalidates;
                completes <= ends && c.receive_used;
                completion.wqe_index <= slot;
                replies <= p.ack_request || invalidates;
                if (p.ack_request || invalidates) c.answers <= c.answers + 1'b1;
                reply_ends_qp <= invalidates;
                reply_psn <= p.psn;
                reply_msn <= ends ? c.msn + 24'd1 : c.msn;
                reply_syndrome <= ACK;
                step <= FINISH;
            end
            REFUSE: begin
                c.failed <= 1'b1;
                {c.in_send, c.in_write, c.receive_used} <= '0;
                {fails, replies, reply_ends_qp} <= '1;
                completes <= c.receive_used;
                raises <= !c.receive_used;
                completion.wqe_index <= slot;
                c.answers <= c.answers + 1'b1;
                reply_psn <= p.psn;
                case (refusal)
                    REMOTE_ACCESS: reply_syndrome <= NAK_REMOTE_ACCESS;
                    RECEIVE_PROTECTION, RECEIVE_QUEUE: reply_syndrome <= NAK_REMOTE_OPERATION;
                    default: reply_syndrome <= NAK_INVALID_REQUEST;
                endcase
                step <= FINISH;
            end

            FINISH: begin
                if (completion_ready) completes <= 1'b0;
                if (event_ready) raises <= 1'b0;
                if (reply_ready) replies <= 1'b0;
                if (place_ready) drop_pending <= 1'b0;
                if (is_finished) step <= IDLE;
            end
            default: step <= IDLE;
        endcase
        if (step == ESTABLISH && event_ready) raises <= 1'b0;
        if (rst) begin
            step <= CLEAR;
            {job_qp, scan, was_packet, turn} <= '0;
        end
    end

    // ----------------------------------------------------------------------- completions and events
    always_ff @(posedge clk) begin
        if (step == FLUSH || step == EXECUTED || step == REFUSE) begin
            completion.cqn <= q.receive_cqn;
            completion.qpn <= card_pkg::QPN_BASE | {16'd0, job_qp};
            completion.opcode <= has_immediate && is_write && step == EXECUTED
                ? ferroce_pkg::CQE_OPCODE_RECEIVE_RDMA_IMMEDIATE[7:0] : ferroce_pkg::CQE_OPCODE_RECEIVE[7:0];
            completion.frame <= step == FLUSH ? frames_done : p.number;
            completion.vendor_error <= '0;
            completion.with_invalidate <= 1'b0;
            completion.byte_count <= '0;
            completion.immediate <= '0;
            {completion.with_immediate, completion.solicited} <= '0;
        end
        if (step == EXECUTED) begin
            completion.status <= ferroce_pkg::CQE_STATUS_SUCCESS[7:0];
            if (invalidates) completion.status <= ferroce_pkg::CQE_STATUS_REMOTE_INVALID_REQUEST[7:0];
            else begin
                completion.byte_count <= c.so_far + payload;
                completion.immediate <= has_immediate ? p.immediate : '0;
                completion.with_immediate <= has_immediate;
                completion.solicited <= p.solicited;
            end
        end
        if (step == FLUSH) completion.status <= ferroce_pkg::CQE_STATUS_WR_FLUSH[7:0];
        if (step == PSN) event_type <= ferroce_pkg::EVENT_TYPE_COMMUNICATION_ESTABLISHED[7:0];
        if (step == REFUSE) case (refusal)
            REMOTE_ACCESS: begin
                completion.status <= ferroce_pkg::CQE_STATUS_LOCAL_ACCESS[7:0];
                event_type <= ferroce_pkg::EVENT_TYPE_QP_ACCESS_ERROR[7:0];
            end
            RECEIVE_PROTECTION: begin
                completion.status <= ferroce_pkg::CQE_STATUS_LOCAL_PROTECTION[7:0];
                event_type <= ferroce_pkg::EVENT_TYPE_QP_FATAL[7:0];
            end
            RECEIVE_QUEUE: event_type <= ferroce_pkg::EVENT_TYPE_QP_FATAL[7:0];
            RECEIVE_TOO_SHORT: begin
                completion.status <= ferroce_pkg::CQE_STATUS_LOCAL_LENGTH[7:0];
                event_type <= ferroce_pkg::EVENT_TYPE_QP_REQUEST_ERROR[7:0];
            end
            default: begin
                completion.status <= ferroce_pkg::CQE_STATUS_REMOTE_INVALID_REQUEST[7:0];
                event_type <= ferroce_pkg::EVENT_TYPE_QP_REQUEST_ERROR[7:0];
            end
        endcase
    end

    // ------------------------------------------------------------- QPs whose receive WQEs are flushed
    logic in_error, is_flushed;
    assign in_error = q.exists && q.state == ferroce_pkg::QP_STATE_CODE_ERR[2:0];
    assign is_flushed = !in_error || (!c.receive_used && !has_receive);
    always_ff @(posedge clk) begin
        if (step == FLUSH && is_flushed) flush_pending[job_qp] <= 1'b0;
        if (step == DOORBELL && in_error) flush_pending[job_qp] <= 1'b1;
        if (wake_valid) flush_pending[wake_qp] <= 1'b1;
        if (rst) flush_pending <= '0;
    end

    always_ff @(posedge clk) begin
        if (!rst && step == PSN) assert (is_expected || is_ahead || is_behind);
        if (!rst && step == FINISH && fails) assert (c.failed);
    end
endmodule

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Completion queues: writes CQEs into their rings, and raises the event of a CQ that is armed. One
// request at a time, round robin: control, arming, completions of two engines, due moderation.
//
// Ports: control_* is the command engine's, done with ready: CREATE (`control_context` is a CqContext;
// what the device sets is ignored), DESTROY, QUERY (`answer_context`, `users` zero), MODIFY
// (moderation only). arm_* is a checked doorbell. A completion waits until `frames_done` has reached
// its frame; its ready is set when its CQE, if it has one, is written and its event is handed over.
// read_* and line_* read the consumer record. count_* pulse, `count_error` with count_cqe. While
// `idle`, nothing happens before `deadline_ns`, if valid.
// Invariants: each CQE is one write of 32 bytes; completions of a port stay in order; an overrun or
// an error stops the CQ and raises CQ_ERROR once; no event announces CQEs that another event has
// announced.
module completion_writer (
    input  logic         clk,
    input  logic         rst,
    input  logic [63:0]  now_ns,
    input  logic [15:0]  frames_done,

    input  logic         control_valid,
    output logic         control_ready,
    input  logic [1:0]   control_op,
    input  logic [7:0]   control_number,
    input  logic [511:0] control_context,
    output logic [511:0] answer_context,

    input  logic         arm_valid,
    output logic         arm_ready,
    input  card_pkg::arm_t arm,

    input  logic         requester_completion_valid,
    output logic         requester_completion_ready,
    input  card_pkg::completion_t requester_completion,
    input  logic         responder_completion_valid,
    output logic         responder_completion_ready,
    input  card_pkg::completion_t responder_completion,

    output card_pkg::read_t read,
    input  logic         read_ready,
    input  card_pkg::line_t line,

    output card_pkg::write_t write,
    input  logic         write_ready,
    input  logic         write_error,

    output logic         event_valid,
    input  logic         event_ready,
    output card_pkg::event_t event_data,

    output logic         count_cqe,
    output logic         count_overrun,
    output card_pkg::completion_counts_t count_error,
    output logic         deadline_valid,
    output logic [63:0]  deadline_ns,
    output logic         idle
);
    wire unused_inputs = &{1'b0, control_context};
    localparam logic [1:0] CREATE = 2'd0, DESTROY = 2'd1, QUERY = 2'd2;
    localparam logic [3:0] ASYNC_EQN = 4'd0;
    localparam logic [7:0] ARMED_ANY = 8'd1, ARMED_SOLICITED = 8'd2, STATE_ERROR = 8'd1;

    typedef enum logic [2:0] { CONTROL, ARM, REQUESTER, RESPONDER, EXPIRE } kind_t;
    typedef enum logic [3:0] {
        IDLE, FETCH, LOOK, CHECK, READ, RECORD, WRITE, WRITTEN, MODERATE, FIRE, FAIL, STORE, EVENT, DONE
    } step_t;
    step_t step;
    kind_t kind;

    logic [7:0]             cqn;
    card_pkg::completion_t  entry;         // its frame and CQN were checked before
    wire unused_entry = &{1'b0, entry};
    ferroce_pkg::cq_context_t cq;          // with what the request changes
    logic [63:0]            deadline;      // of its event, if it is moderated
    logic                   exists, has_event, has_record;

    // The fields that CREATE and MODIFY use.
    ferroce_pkg::cq_context_t asked;
    wire unused_asked = &{1'b0, asked};
    ferroce_pkg::cq_context_t created;
    assign asked = control_context;
    always_comb begin
        created = '0;
        created.base = asked.base;
        created.consumer_record = asked.consumer_record;
        created.log_size = asked.log_size;
        created.eqn = asked.eqn;
        created.doorbell_slot = asked.doorbell_slot;
        created.moderation_count = asked.moderation_count;
        created.moderation_us = asked.moderation_us;
    end

    // --------------------------------------------------------------------------------- the contexts
    logic                     loaded_exists;
    ferroce_pkg::cq_context_t loaded;
    logic [63:0]              loaded_deadline;
    context_table #(.BITS(512 + 64), .LOG_ENTRIES(card_pkg::LOG_CQS)) contexts (
        .clk, .rst, .index(cqn), .exists(loaded_exists), .word({loaded, loaded_deadline}), .write(step == STORE),
        .write_exists(exists), .write_word({cq, deadline})
    );

    // ---------------------------------------------------------------------- completions that are due
    logic        requester_due, responder_due, responder_first;
    logic [15:0] requester_ahead, responder_ahead;   // only the sign
    wire unused_requester_ahead = &{1'b0, requester_ahead, responder_ahead};
    assign requester_ahead = frames_done - requester_completion.frame;
    assign responder_ahead = frames_done - responder_completion.frame;
    assign requester_due = requester_completion_valid && !requester_ahead[15];
    assign responder_due = responder_completion_valid && !responder_ahead[15];

    // ------------------------------------------------------------- events that wait for more CQEs
    // `earliest` is a lower bound of their times; when it has come, a pass over all CQs raises the
    // due events and computes it again.
    logic [255:0] waits;
    logic         earliest_valid, passing, earliest_due;
    logic [63:0]  earliest, new_deadline;
    logic [7:0]   pass_cqn;
    assign new_deadline = now_ns + {38'b0, cq.moderation_us, 10'b0} - {44'b0, cq.moderation_us, 4'b0}
                        - {45'b0, cq.moderation_us, 3'b0};   // * 1000
    assign earliest_due = earliest_valid && now_ns >= earliest;

    // ----------------------------------------------------------------------------- what is decided
    function automatic is_ahead(input [31:0] difference);   // modulo 2^32
        is_ahead = !difference[31] && difference != 32'd0;
    endfunction

    logic        is_full, is_urgent, is_moderated, fires, is_waiting;
    logic [31:0] waiting, stands_for, newest;
    logic        taken_unnoticed;
    always_comb begin
        waiting = cq.producer - cq.consumer;
        is_full = waiting >= 32'd1 << cq.log_size[4:0];
        is_urgent = entry.solicited || entry.status != ferroce_pkg::CQE_STATUS_SUCCESS;
        is_moderated = cq.moderation_count > 16'd1 && cq.moderation_us != 16'd0;
        fires = cq.armed == ARMED_ANY || (cq.armed == ARMED_SOLICITED && is_urgent);
        stands_for = cq.producer - cq.notified_producer;
        // For an arm doorbell: true if there is a CQE that software has not taken and no event has
        // announced.
        newest = arm.solicited ? cq.solicited_producer : cq.producer;
        taken_unnoticed = is_ahead(arm.consumer - cq.notified_producer);
        is_waiting = is_ahead(newest - arm.consumer) && is_ahead(newest - cq.notified_producer);
    end

    // --------------------------------------------------------------------------------------- the CQE
    logic [31:0] lap;                      // only its lowest bit
    logic [63:0] place;                    // 32 bytes aligned
    wire unused_lap = &{1'b0, lap, place};
    logic [31:0] slot;
    assign lap = cq.producer >> cq.log_size[4:0];
    assign slot = cq.producer & ((32'd1 << cq.log_size[4:0]) - 32'd1);
    assign place = cq.base + {27'b0, slot, 5'b0};
    ferroce_pkg::cqe_word_t word;
    ferroce_pkg::cqe_t      cqe;
    always_comb begin
        word = '0;
        word.opcode = entry.opcode;
        word.status = entry.status;
        word.vendor_error = entry.vendor_error;
        word.with_immediate = entry.with_immediate;
        word.with_invalidate = entry.with_invalidate;
        word.solicited = entry.solicited;
        word.with_grh = entry.with_grh;
        word.ipv4 = entry.is_ipv4;
        word.owner = !lap[0];
        cqe = '0;
        cqe.qpn = {8'b0, entry.qpn};
        cqe.wqe_index = entry.wqe_index;
        cqe.byte_count = entry.byte_count;
        cqe.immediate = entry.immediate;
        cqe.timestamp = now_ns;
        cqe.source_qpn = {8'b0, entry.source_qpn};
        cqe.word = word;
    end

    assign read.valid = step == READ;
    assign read.index = '0;
    assign read.iova = {cq.consumer_record[63:6], 6'b0};
    logic [63:0]  write_iova, write_strobe;
    logic [511:0] write_line;
    logic         write_valid;
    assign write_valid = step == WRITE;
    assign write = {write_valid, write_iova, write_line, write_strobe};
    assign event_valid = step == EVENT;
    assign control_ready = step == DONE && kind == CONTROL;
    assign answer_context = cq;
    assign arm_ready = step == DONE && kind == ARM;
    assign requester_completion_ready = step == DONE && kind == REQUESTER;
    assign responder_completion_ready = step == DONE && kind == RESPONDER;
    assign count_cqe = write_valid && write_ready && !write_error;
    assign count_overrun = step == FAIL;
    logic is_error, of_requester, of_responder;
    assign is_error = count_cqe && entry.status != ferroce_pkg::CQE_STATUS_SUCCESS;
    assign of_requester = is_error && kind == REQUESTER;
    assign of_responder = is_error && kind == RESPONDER;
    always_comb begin
        count_error.requester_error = of_requester;
        count_error.requester_flush = of_requester && entry.status == ferroce_pkg::CQE_STATUS_WR_FLUSH;
        count_error.requester_access = of_requester && entry.status == ferroce_pkg::CQE_STATUS_REMOTE_ACCESS;
        count_error.requester_invalid = of_requester
            && entry.status == ferroce_pkg::CQE_STATUS_REMOTE_INVALID_REQUEST;
        count_error.requester_rnr = of_requester && entry.status == ferroce_pkg::CQE_STATUS_RNR_RETRY_EXCEEDED;
        count_error.requester_retries = of_requester && entry.status == ferroce_pkg::CQE_STATUS_RETRY_EXCEEDED;
        count_error.responder_error = of_responder;
        count_error.responder_flush = of_responder && entry.status == ferroce_pkg::CQE_STATUS_WR_FLUSH;
        count_error.responder_length = of_responder && entry.status == ferroce_pkg::CQE_STATUS_LOCAL_LENGTH;
    end
    assign deadline_valid = earliest_valid;
    assign deadline_ns = earliest;
    assign idle = step == IDLE && !control_valid && !arm_valid && !requester_completion_valid
               && !responder_completion_valid && !passing && !earliest_due;

    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                has_event <= 1'b0;
                has_record <= 1'b0;
                step <= FETCH;
                if (control_valid) begin
                    kind <= CONTROL;
                    cqn <= control_number;
                end else if (arm_valid) begin
                    kind <= ARM;
                    cqn <= arm.cqn;
                end else if (requester_due && !(responder_due && responder_first)) begin
                    kind <= REQUESTER;
                    cqn <= requester_completion.cqn;
                    entry <= requester_completion;
                    responder_first <= 1'b1;
                end else if (responder_due) begin
                    kind <= RESPONDER;
                    cqn <= responder_completion.cqn;
                    entry <= responder_completion;
                    responder_first <= 1'b0;
                end else if (passing) begin
                    kind <= EXPIRE;
                    cqn <= pass_cqn;
                end else begin
                    step <= IDLE;
                    if (earliest_due) begin
                        passing <= 1'b1;
                        pass_cqn <= 8'd0;
                        earliest_valid <= 1'b0;
                    end
                end
            end
            FETCH: step <= LOOK;
            LOOK: begin
                cq <= loaded;
                deadline <= loaded_deadline;
                exists <= loaded_exists;
                step <= CHECK;
            end

            CHECK: begin
                step <= DONE;
                case (kind)
                    CONTROL: if (control_op == CREATE) begin
                        cq <= created;
                        exists <= 1'b1;
                        step <= STORE;
                    end else if (control_op == DESTROY) begin
                        exists <= 1'b0;
                        waits[cqn] <= 1'b0;
                        step <= STORE;
                    end else if (control_op != QUERY) begin
                        cq.moderation_count <= asked.moderation_count;
                        cq.moderation_us <= asked.moderation_us;
                        step <= STORE;
                    end
                    ARM: if (exists) begin
                        cq.consumer <= arm.consumer;
                        cq.armed <= arm.solicited ? ARMED_SOLICITED : ARMED_ANY;
                        if (taken_unnoticed) cq.notified_producer <= arm.consumer;
                        if (!is_waiting) waits[cqn] <= 1'b0;
                        step <= !is_waiting ? STORE : is_moderated ? MODERATE : FIRE;
                    end
                    EXPIRE: if (waits[cqn] && now_ns >= deadline) begin
                        waits[cqn] <= 1'b0;
                        if (cq.armed != 8'd0 && stands_for != 32'd0) step <= FIRE;
                    end else if (waits[cqn] && (!earliest_valid || deadline < earliest)) begin
                        earliest_valid <= 1'b1;
                        earliest <= deadline;
                    end
                    default: if (exists && cq.state != STATE_ERROR) begin
                        if (!is_full) step <= WRITE;
                        else step <= has_record ? FAIL : READ;
                    end
                endcase
                write_iova <= {place[63:6], 6'b0};
                write_line <= {cqe, cqe};
                write_strobe <= place[5] ? {32'hffff_ffff, 32'h0} : {32'h0, 32'hffff_ffff};
            end

            READ: if (read_ready) step <= RECORD;
            RECORD: if (line.valid) begin
                has_record <= 1'b1;
                if (!line.error) cq.consumer <= line.data[{cq.consumer_record[5:2], 5'b0} +: 32];
                step <= line.error ? FAIL : CHECK;
            end

            WRITE: if (write_ready) begin
                if (write_error) step <= FAIL;
                else begin
                    cq.producer <= cq.producer + 32'd1;
                    if (is_urgent) cq.solicited_producer <= cq.producer + 32'd1;
                    step <= WRITTEN;
                end
            end
            WRITTEN: begin
                if (!is_moderated) step <= fires ? FIRE : STORE;
                else step <= fires || waits[cqn] ? MODERATE : STORE;
            end
            // An event was requested: it is raised for enough CQEs, or waits for more.
            MODERATE: begin
                step <= STORE;
                if (stands_for >= {16'b0, cq.moderation_count}) begin
                    waits[cqn] <= 1'b0;
                    step <= FIRE;
                end else if (!waits[cqn]) begin
                    waits[cqn] <= 1'b1;
                    deadline <= new_deadline;
                    if (!earliest_valid || new_deadline < earliest) begin
                        earliest_valid <= 1'b1;
                        earliest <= new_deadline;
                    end
                end
            end
            FIRE: begin
                cq.armed <= 8'd0;
                cq.notified_producer <= cq.producer;
                event_data.eqn <= cq.eqn[3:0];
                event_data.event_type <= ferroce_pkg::EVENT_TYPE_COMPLETION;
                event_data.number <= {16'b0, cqn};
                has_event <= 1'b1;
                step <= STORE;
            end
            FAIL: begin
                cq.state <= STATE_ERROR;
                event_data.eqn <= ASYNC_EQN;
                event_data.event_type <= ferroce_pkg::EVENT_TYPE_CQ_ERROR;
                event_data.number <= {16'b0, cqn};
                has_event <= 1'b1;
                step <= STORE;
            end
            STORE: step <= has_event ? EVENT : DONE;
            EVENT: if (event_ready) step <= DONE;
            DONE: begin
                if (kind == EXPIRE) begin
                    pass_cqn <= pass_cqn + 8'd1;
                    passing <= pass_cqn != 8'hff;
                end
                step <= IDLE;
            end
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= IDLE;
            waits <= '0;
            earliest_valid <= 1'b0;
            passing <= 1'b0;
            responder_first <= 1'b0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && line.valid) assert (line.index == '0);   // one read at a time
        if (!rst && step == CHECK && kind == REQUESTER) assert (requester_completion_valid);
        if (!rst && step == CHECK && kind == RESPONDER) assert (responder_completion_valid);
        if (!rst && step == STORE && exists) assert (cq.log_size < 8'd32 && cq.base[5:0] == 6'd0);
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Event queues: writes EQEs into their rings, and interrupts for a queue that is armed.
//
// Ports: control_* is the command engine's, done with ready: CREATE (`control_context` begins with an
// EqContext; what the device sets is ignored), DESTROY, QUERY (`answer_context`), MODIFY
// (moderation). event_* are taken into a FIFO. doorbell_* updates the consumer index, and arms; it is
// always taken, and may replace a waiting doorbell of the same queue. An interrupt is offered when
// the write of its EQE has been taken. While `idle`, nothing happens before `deadline_ns`, if valid.
// `count_eqe` pulses. Events of a full queue are parked, at most 2^LOG_PARKED in total, until its
// doorbell comes. `fatal`, until reset: an EQE could not be written, or an event could not be parked;
// no further EQE is written.
// Invariants: events of a queue stay in order; an EQE is one write; there is one interrupt for each
// arming, at least `moderation_us` after the previous one.
module event_writer #(
    parameter int LOG_PARKED = 9
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [63:0]  now_ns,

    input  logic         control_valid,
    output logic         control_ready,
    input  logic [1:0]   control_op,
    input  logic [3:0]   control_number,
    input  logic [511:0] control_context,
    output logic [511:0] answer_context,

    input  logic         event_valid,
    output logic         event_ready,
    input  card_pkg::event_t event_data,

    input  logic         doorbell_valid,
    output logic         doorbell_ready,
    input  card_pkg::event_doorbell_t doorbell,

    output card_pkg::write_t write,
    input  logic         write_ready,
    input  logic         write_error,

    output logic         interrupt_valid,
    input  logic         interrupt_ready,
    output logic [3:0]   interrupt_vector,

    output logic         fatal,
    output logic         count_eqe,
    output logic         deadline_valid,
    output logic [63:0]  deadline_ns,
    output logic         idle
);
    wire unused_inputs = &{1'b0, control_context};
    localparam logic [1:0] CREATE = 2'd0, DESTROY = 2'd1, QUERY = 2'd2;
    localparam int LOG_EVENTS = 4;         // events in the FIFO
    localparam int LOG_EQS = 4;
    localparam int EVENT_BITS = $bits(event_data);

    typedef enum logic [2:0] { CONTROL, DOORBELL, NEW, PARKED, TIMER } kind_t;
    typedef enum logic [3:0] {
        IDLE, FETCH, LOOK, CHECK, WRITE, ANNOUNCE, INTERRUPT, PARK, STORE, DONE
    } step_t;
    step_t step;
    kind_t kind;

    logic [3:0]               eqn;
    card_pkg::event_t         entry;
    logic [23:0]              entry_consumer; // of a doorbell
    logic                     entry_arm;
    ferroce_pkg::eq_context_t eq;          // with what the request changes
    logic [63:0]              next_ns;     // its next interrupt may come then
    logic                     exists;

    // The fields that CREATE and MODIFY use.
    ferroce_pkg::eq_context_t asked;
    wire unused_asked = &{1'b0, asked};
    ferroce_pkg::eq_context_t created;
    assign asked = control_context[255:0];
    always_comb begin
        created = '0;
        created.base = asked.base;
        created.log_size = asked.log_size;
        created.vector_ = asked.vector_;
        created.moderation_us = asked.moderation_us;
    end

    // --------------------------------------------------------------------------------- the contexts
    logic                     loaded_exists;
    ferroce_pkg::eq_context_t loaded;
    logic [63:0]              loaded_next_ns;
    context_table #(.BITS(256 + 64), .LOG_ENTRIES(LOG_EQS)) contexts (
        .clk, .rst, .index(eqn), .exists(loaded_exists), .word({loaded, loaded_next_ns}), .write(step == STORE),
        .write_exists(exists), .write_word({eq, next_ns})
    );

    // ------------------------------------------------------------------- events, new and parked ones
    logic             new_valid, parked_valid, park_ready, takes_new, takes_parked;
    card_pkg::event_t newest, parked;
    fifo #(.BITS(EVENT_BITS), .LOG_DEPTH(LOG_EVENTS)) events (
        .clk, .rst, .s_valid(event_valid), .s_ready(event_ready), .s_data(event_data), .m_valid(new_valid),
        .m_ready(takes_new), .m_data(newest)
    );
    /* verilator lint_off PINCONNECTEMPTY */   // events may stay parked while the block is idle
    block_fifo #(.BITS(EVENT_BITS), .LOG_DEPTH(LOG_PARKED)) parking (
        .clk, .rst, .s_valid(step == PARK), .s_ready(park_ready), .s_data(entry), .m_valid(parked_valid),
        .m_ready(takes_parked), .m_data(parked), .idle()
    );
    /* verilator lint_on PINCONNECTEMPTY */
    // A pass takes each parked event once; events of `pass_eqn` are written if there is room, all
    // others are parked again, in the same order.
    logic [15:0]         has_parked, rung; // EQs with parked events, with a doorbell
    logic [3:0]          pass_eqn;
    logic [LOG_PARKED:0] parked_count, pass_left;
    assign takes_parked = step == IDLE && pass_left != '0;
    assign takes_new = step == IDLE && pass_left == '0 && !control_valid && rung == '0;

    // ------------------------------------------------------------------- the newest doorbell of each
    logic [15:0] rung_arm;
    logic [23:0] rung_consumer [16];
    logic [3:0]  first_rung;
    assign doorbell_ready = 1'b1;
    always_comb begin
        first_rung = '0;
        for (int i = 15; i >= 0; i--) if (rung[i]) first_rung = 4'(i);
    end
    always_ff @(posedge clk) begin
        if (doorbell_valid) rung_consumer[doorbell.eqn] <= doorbell.consumer;
    end

    // -------------------------------------------------------------- interrupts that wait
    // (moderation) `earliest` is a lower bound of their times; when it has come, a pass over all EQs
    // raises the due interrupts and computes it again.
    logic [15:0] waits;
    logic        earliest_valid, timing, earliest_due;
    logic [63:0] earliest;
    logic [3:0]  timer_eqn;
    assign earliest_due = earliest_valid && now_ns >= earliest;

    // ----------------------------------------------------------------------------- what is decided
    logic        is_full;
    logic [31:0] waiting;
    logic [23:0] behind;                   // of the producer, the doorbell's index
    assign waiting = eq.producer - eq.consumer;
    assign is_full = waiting >= 32'd1 << eq.log_size[4:0];
    assign behind = eq.producer[23:0] - entry_consumer;

    // --------------------------------------------------------------------------------------- the EQE
    ferroce_pkg::eqe_word_t word;
    ferroce_pkg::eqe_t      eqe;
    logic [31:0] lap;                      // only its lowest bit
    logic [63:0] place;                    // 16 bytes aligned
    wire unused_lap = &{1'b0, lap, place};
    logic [31:0] slot;
    assign lap = eq.producer >> eq.log_size[4:0];
    assign slot = eq.producer & ((32'd1 << eq.log_size[4:0]) - 32'd1);
    assign place = eq.base + {28'b0, slot, 4'b0};
    always_comb begin
        word = '0;
        word.event_ = entry.event_type;
        word.owner = !lap[0];
        eqe = '0;
        eqe.number = {8'b0, entry.number};
        eqe.sequence_ = eq.producer;
        eqe.word = word;
    end

    logic [63:0]  write_iova, write_strobe;
    logic [511:0] write_line;
    logic         write_valid;
    assign write_valid = step == WRITE;
    assign write = {write_valid, write_iova, write_line, write_strobe};
    assign interrupt_valid = step == INTERRUPT;
    assign interrupt_vector = eq.vector_[3:0];
    assign control_ready = step == DONE && kind == CONTROL;
    assign answer_context = {256'b0, eq};
    assign count_eqe = write_valid && write_ready && !write_error;
    assign deadline_valid = earliest_valid;
    assign deadline_ns = earliest;
    assign idle = step == IDLE && !control_valid && !event_valid && !new_valid && !doorbell_valid
               && rung == '0 && pass_left == '0 && !timing && !earliest_due;

    always_ff @(posedge clk) begin
        if (doorbell_valid) begin
            rung[doorbell.eqn] <= 1'b1;
            rung_arm[doorbell.eqn] <= doorbell.arm;
        end
        case (step)
            IDLE: begin
                step <= FETCH;
                if (pass_left != '0) begin
                    kind <= PARKED;
                    eqn <= parked.eqn;
                    entry <= parked;
                    if (!parked_valid) step <= IDLE;
                    else begin
                        pass_left <= pass_left - 1'b1;
                        parked_count <= parked_count - 1'b1;
                        if (parked.eqn != pass_eqn) step <= PARK;
                    end
                end else if (control_valid) begin
                    kind <= CONTROL;
                    eqn <= control_number;
                end else if (rung != '0) begin
                    kind <= DOORBELL;
                    eqn <= first_rung;
                    entry_consumer <= rung_consumer[first_rung];
                    entry_arm <= rung_arm[first_rung];
                    if (!(doorbell_valid && doorbell.eqn == first_rung)) rung[first_rung] <= 1'b0;
                end else if (new_valid) begin
                    kind <= NEW;
                    eqn <= newest.eqn;
                    entry <= newest;
                end else if (timing) begin
                    kind <= TIMER;
                    eqn <= timer_eqn;
                end else begin
                    step <= IDLE;
                    if (earliest_due) begin
                        timing <= 1'b1;
                        timer_eqn <= '0;
                        earliest_valid <= 1'b0;
                    end
                end
            end
            FETCH: step <= LOOK;
            LOOK: begin
                eq <= loaded;
                next_ns <= loaded_next_ns;
                exists <= loaded_exists;
                step <= CHECK;
            end

            CHECK: begin
                step <= DONE;
                case (kind)
                    CONTROL: if (control_op == CREATE || control_op == DESTROY) begin
                        eq <= created;
                        next_ns <= '0;
                        exists <= control_op == CREATE;
                        waits[eqn] <= 1'b0;
                        rung[eqn] <= 1'b0;
                        step <= STORE;
                    end else if (control_op != QUERY) begin
                        eq.moderation_us <= asked.moderation_us;
                        step <= STORE;
                    end
                    DOORBELL: if (exists && !fatal) begin
                        if ({8'b0, behind} <= waiting) eq.consumer <= eq.producer - {8'b0, behind};
                        eq.armed <= {7'b0, entry_arm};
                        waits[eqn] <= 1'b0;
                        step <= ANNOUNCE;
                    end
                    // A queue with parked events is full: a pass follows its doorbell immediately.
                    NEW, PARKED: if (exists && !fatal) step <= is_full ? PARK : WRITE;
                    default: if (!fatal && waits[eqn] && now_ns >= next_ns) step <= ANNOUNCE;
                    else if (waits[eqn] && (!earliest_valid || next_ns < earliest)) begin
                        earliest_valid <= 1'b1;
                        earliest <= next_ns;
                    end
                endcase
                write_iova <= {place[63:6], 6'b0};
                write_line <= {4{eqe}};
                write_strobe <= 64'hffff << {place[5:4], 4'b0};
            end

            WRITE: if (write_ready) begin
                fatal <= write_error;
                if (!write_error) eq.producer <= eq.producer + 32'd1;
                step <= write_error ? DONE : ANNOUNCE;
            end
            ANNOUNCE: begin
                step <= STORE;
                if (eq.armed[0] && waiting != '0) begin
                    if (now_ns >= next_ns) step <= INTERRUPT;
                    else begin
                        waits[eqn] <= 1'b1;
                        if (!earliest_valid || next_ns < earliest) begin
                            earliest_valid <= 1'b1;
                            earliest <= next_ns;
                        end
                    end
                end
            end
            INTERRUPT: if (interrupt_ready) begin
                eq.armed <= '0;
                waits[eqn] <= 1'b0;
                next_ns <= now_ns + {22'b0, eq.moderation_us, 10'b0} - {28'b0, eq.moderation_us, 4'b0}
                         - {29'b0, eq.moderation_us, 3'b0};   // * 1000
                step <= STORE;
            end
            PARK: begin
                if (park_ready) begin
                    parked_count <= parked_count + 1'b1;
                    has_parked[entry.eqn] <= 1'b1;
                end else fatal <= 1'b1;
                step <= DONE;
            end
            STORE: step <= DONE;
            DONE: begin
                if (kind == TIMER) begin
                    timer_eqn <= timer_eqn + 4'd1;
                    timing <= timer_eqn != 4'hf;
                end
                // There may be room now; events of a destroyed queue are dropped.
                if ((kind == DOORBELL || (kind == CONTROL && !exists)) && has_parked[eqn]) begin
                    pass_eqn <= eqn;
                    pass_left <= parked_count;
                    has_parked[eqn] <= 1'b0;
                end
                step <= IDLE;
            end
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= IDLE;
            rung <= '0;
            waits <= '0;
            has_parked <= '0;
            parked_count <= '0;
            pass_left <= '0;
            earliest_valid <= 1'b0;
            timing <= 1'b0;
            fatal <= 1'b0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && step == STORE && exists) assert (eq.log_size < 8'd32 && eq.base[5:0] == 6'd0);
        if (!rst && step == PARK && kind == PARKED) assert (park_ready);
        if (!rst && step == WRITE && kind == NEW) assert (!has_parked[eqn]);
    end
endmodule

`default_nettype wire

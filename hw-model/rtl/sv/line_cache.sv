// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// A set-associative cache of a table of 64-byte entries in host memory: the cache of MPT and MTT. One
// request at a time; replacement is round robin within a set.
//
// Ports: s_* is a request, taken with s_ready:
//   OP_LOOKUP  answers with the entry, read by DMA if it is not cached
//   OP_CHANGE  the same, and marks it: it is written back when it is replaced
//   OP_UPDATE  puts `s_line` in the place of an entry that is cached (after OP_CHANGE)
//   OP_STORE   writes `s_line` to host memory, then caches it
//   OP_DROP    forgets an entry, without writing it back
//   OP_CLEAR   forgets all entries and turns; the table now begins at `s_base`
// look_* is a second way to entries that are cached: `look_line` is the entry of `look_index`, three
// cycles with `look_move` later, if `look_hit`; requests meanwhile make it wrong.
// m_valid ends each request for one cycle, with `m_line` of the first two and `m_error`: a DMA
// failed, or OP_UPDATE found nothing. read_* and write_* are DMA of whole lines; write_error comes
// with write_ready. `hit` and `miss` count OP_LOOKUP and OP_CHANGE.
// Invariants: no two ways of a set hold the same entry; nothing is cached after a failed DMA; an
// entry that was marked leaves the cache only after it was written.
module line_cache #(
    parameter int LOG_SETS = 9,
    parameter int WAYS = 4,
    parameter int INDEX_BITS = 24,
    parameter bit WRITE_BACK = 1
) (
    input  logic                  clk,
    input  logic                  rst,

    input  logic                  s_valid,
    output logic                  s_ready,
    input  logic [2:0]            s_op,
    input  logic [INDEX_BITS-1:0] s_index,
    input  logic [511:0]          s_line,
    input  logic [63:0]           s_base,

    input  logic                  look_move,
    input  logic [INDEX_BITS-1:0] look_index,
    output logic                  look_hit,
    output logic [511:0]          look_line,

    output logic                  m_valid,
    output logic                  m_error,
    output logic [511:0]          m_line,

    output card_pkg::read_t       read,
    input  logic                  read_ready,
    input  card_pkg::line_t       line,

    output card_pkg::write_t      write,
    input  logic                  write_ready,
    input  logic                  write_error,

    output logic                  hit,
    output logic                  miss
);
    localparam logic [2:0] OP_LOOKUP = 3'd0, OP_CHANGE = 3'd1, OP_UPDATE = 3'd2, OP_STORE = 3'd3,
                           OP_DROP = 3'd4, OP_CLEAR = 3'd5;
    localparam int LOG_WAYS = $clog2(WAYS);
    localparam int SETS = 1 << LOG_SETS;
    localparam int TAG_BITS = INDEX_BITS - LOG_SETS;
    localparam int VALID_BIT = TAG_BITS;
    localparam int DIRTY_BIT = TAG_BITS + 1;
    localparam int KEY_BITS = TAG_BITS + (WRITE_BACK ? 2 : 1);

    typedef enum logic [3:0] {
        CLEAR, IDLE, THROUGH, KEYS, COMPARE, READ, FILL, EVICT_LINE, EVICT, PUT, LINE, ANSWER
    } step_t;
    step_t step;

    // ------------------------------------------------------------------------- what a request holds
    logic [63:0]           base;
    logic [2:0]            op;
    logic [INDEX_BITS-1:0] index;
    logic [511:0]          new_line;
    logic [LOG_SETS-1:0]   set, clear_at;
    logic [TAG_BITS-1:0]   tag;
    logic [LOG_WAYS-1:0]   way;
    logic                  replaces;

    assign set = index[LOG_SETS-1:0];
    assign tag = index[INDEX_BITS-1:LOG_SETS];

    // --------------------------------------------------------------------------------------- memories
    logic [WAYS*KEY_BITS-1:0] keys [SETS];
    logic [LOG_WAYS-1:0]      victims [SETS];
    logic [511:0]             lines [SETS << LOG_WAYS];
    logic [WAYS*KEY_BITS-1:0] key_word, key_write;
    logic [LOG_WAYS-1:0]      last_victim;
    logic                     key_we, victim_we, line_we;
    logic [LOG_WAYS-1:0]      new_victim;
    logic [LOG_SETS-1:0]      key_at;

    always_ff @(posedge clk) begin
        if (key_we) keys[key_at] <= key_write;
        key_word <= keys[key_at];
    end
    always_ff @(posedge clk) begin
        if (victim_we) victims[key_at] <= new_victim;
        last_victim <= victims[set];
    end
    always_ff @(posedge clk) begin
        if (line_we) lines[{set, way}] <= new_line;
        m_line <= lines[{set, way}];
    end

    // ---------------------------------------------------------------------- the second way: no misses
    logic [WAYS*KEY_BITS-1:0]      look_keys;
    logic [INDEX_BITS-1:0]         looked1;
    logic [LOG_SETS+LOG_WAYS-1:0]  looked2;
    logic [WAYS-1:0]               look_match;
    logic [LOG_WAYS-1:0]           look_way;
    logic                          look_hit2;
    always_comb begin
        look_way = '0;
        for (int w = 0; w < WAYS; w++) begin
            look_match[w] = look_keys[w*KEY_BITS + VALID_BIT]
                         && look_keys[w*KEY_BITS +: TAG_BITS] == looked1[INDEX_BITS-1:LOG_SETS];
            if (look_match[w]) look_way = LOG_WAYS'(w);
        end
    end
    always_ff @(posedge clk) begin
        if (look_move) look_keys <= keys[look_index[LOG_SETS-1:0]];
    end
    always_ff @(posedge clk) begin
        if (look_move) look_line <= lines[looked2];
    end
    always_ff @(posedge clk) begin
        if (look_move) begin
            looked1 <= look_index;
            looked2 <= {looked1[LOG_SETS-1:0], look_way};
            look_hit2 <= look_match != '0;
            look_hit <= look_hit2;
        end
    end

    // ------------------------------------------------------------------------------------ the set
    logic [WAYS-1:0]     valid, match, dirty;
    logic [LOG_WAYS-1:0] chosen;
    logic                found, full;
    logic [TAG_BITS-1:0] old_tag;
    for (genvar w = 0; w < WAYS; w++) begin : g_way
        assign valid[w] = key_word[w*KEY_BITS + VALID_BIT];
        assign match[w] = valid[w] && key_word[w*KEY_BITS +: TAG_BITS] == tag;
        if (WRITE_BACK) begin : g_dirty
            assign dirty[w] = key_word[w*KEY_BITS + DIRTY_BIT];
        end else begin : g_clean
            assign dirty[w] = 1'b0;
        end
    end
    cache_way #(.WAYS(WAYS)) choice (.valid, .match, .last_victim, .hit(found), .replaces(full), .way(chosen));
    always_comb begin
        old_tag = '0;
        for (int w = 0; w < WAYS; w++)
            if (way == LOG_WAYS'(w)) old_tag = key_word[w*KEY_BITS +: TAG_BITS];
    end

    logic arrives, must_write_back;
    assign must_write_back = WRITE_BACK && replaces && dirty[way];
    assign arrives = step == FILL && line.valid && !line.error;

    // The next step, with an entry to be stored in `way`.
    function automatic step_t placing(input logic write_back);
        placing = write_back ? EVICT_LINE : PUT;
    endfunction

    always_comb begin
        key_we = 1'b0;
        key_at = set;
        key_write = key_word;
        line_we = step == PUT;
        // The round-robin counter advances when an entry is stored, or when a read entry arrives.
        victim_we = (arrives && replaces) || (step == COMPARE && op == OP_STORE && full);
        new_victim = step == COMPARE ? chosen : way;
        case (step)
            CLEAR: begin
                key_at = clear_at;
                key_we = 1'b1;
                key_write = '0;
                victim_we = 1'b1;
                new_victim = '0;
            end
            COMPARE: begin
                key_we = found && (op == OP_DROP || op == OP_CHANGE);
                for (int w = 0; w < WAYS; w++)
                    if (match[w]) begin
                        if (op == OP_DROP) key_write[w*KEY_BITS + VALID_BIT] = 1'b0;
                        if (WRITE_BACK && op == OP_CHANGE) key_write[w*KEY_BITS + KEY_BITS-1] = 1'b1;
                    end
            end
            PUT: begin
                key_we = op != OP_UPDATE;
                for (int w = 0; w < WAYS; w++)
                    if (way == LOG_WAYS'(w)) begin
                        key_write[w*KEY_BITS + VALID_BIT] = 1'b1;
                        key_write[w*KEY_BITS +: TAG_BITS] = tag;
                        if (WRITE_BACK) key_write[w*KEY_BITS + KEY_BITS-1] = op == OP_CHANGE;
                    end
            end
            default: ;
        endcase
    end

    function automatic [63:0] place_of(input [63:0] first, input [INDEX_BITS-1:0] at);
        place_of = first + {{(58 - INDEX_BITS){1'b0}}, at, 6'b0};
    endfunction

    assign s_ready = step == IDLE;
    assign m_valid = step == ANSWER;
    assign read.valid = step == READ;
    assign read.index = '0;
    assign read.iova = place_of(base, index);
    assign write.valid = step == THROUGH || step == EVICT;
    assign write.iova = place_of(base, step == EVICT ? {old_tag, set} : index);
    assign write.strobe = '1;
    assign write.line = step == EVICT ? m_line : new_line;

    always_ff @(posedge clk) begin
        hit <= 1'b0;
        miss <= 1'b0;
        case (step)
            CLEAR: begin
                clear_at <= clear_at + 1'b1;
                if (&clear_at) step <= ANSWER;
            end
            IDLE: begin
                clear_at <= '0;
                m_error <= 1'b0;
                if (s_valid) begin
                    op <= s_op;
                    index <= s_index;
                    new_line <= s_line;
                    case (s_op)
                        OP_CLEAR: begin
                            base <= s_base;
                            step <= CLEAR;
                        end
                        OP_STORE: step <= THROUGH;
                        default: step <= KEYS;
                    endcase
                end
            end
            THROUGH: if (write_ready) begin
                m_error <= write_error;
                step <= write_error ? ANSWER : KEYS;
            end
            KEYS: step <= COMPARE;
            COMPARE: begin
                way <= chosen;
                replaces <= full;
                case (op)
                    OP_LOOKUP, OP_CHANGE: begin
                        hit <= found;
                        miss <= !found;
                        step <= found ? LINE : READ;
                    end
                    OP_UPDATE: begin
                        m_error <= !found;
                        step <= found ? PUT : ANSWER;
                    end
                    OP_STORE: step <= placing(WRITE_BACK && full && dirty[chosen]);
                    default: step <= ANSWER;
                endcase
            end
            READ: if (read_ready) step <= FILL;
            FILL: if (line.valid) begin
                new_line <= line.data;
                m_error <= line.error;
                step <= line.error ? ANSWER : placing(must_write_back);
            end
            EVICT_LINE: step <= EVICT;
            EVICT: if (write_ready) begin
                m_error <= write_error;
                step <= write_error ? ANSWER : PUT;
            end
            PUT: step <= LINE;
            LINE: step <= ANSWER;
            ANSWER: step <= IDLE;
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= CLEAR;
            clear_at <= '0;
            m_error <= 1'b0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && line.valid) assert (line.index == '0);   // one read at a time
        if (!rst && step == COMPARE) assert ((match & (match - 1'b1)) == '0);   // at most one
        if (!rst && step == PUT) assert ({1'b0, way} < WAYS[LOG_WAYS:0]);
    end
endmodule

`default_nettype wire

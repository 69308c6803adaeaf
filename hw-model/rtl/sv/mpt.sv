// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Memory protection table: key to region, with protection domain, rights and bounds, through a cache
// in front of the table in host memory. One request at a time.
//
// Ports: s_* is a request, taken with s_ready:
//   OP_CHECK 0   may the access (s_key, s_pd, s_qpn, s_rights, s_address, s_length) be done?
//   OP_ENTRY 1   the valid entry at the place of s_key, for a change: OP_UPDATE follows
//   OP_UPDATE 2  puts `s_line` in the place of that entry
//   OP_STORE 3   a new entry, `s_line`, at the place of s_key
//   OP_REMOVE 4  makes the entry at the place of s_key invalid
//   OP_TABLE 5   the table now begins at `s_base` and has 2^s_log_entries entries; a base of 0: none
// m_valid ends each for one cycle: `m_fault` says why not, `m_line` is the region.
// look_* is line_cache's, `look_entries` the size of the table: memory_pipe uses them.
// read_* and write_* are DMA of whole entries. `hit` and `miss` count entries that were cached or not.
// Invariants: faults are found in the order key, protection domain, window, rights, bounds (IBTA vol
// 1, 10.6.3); no entry outside of the table is read or written.
module mpt #(
    parameter int LOG_SETS = 9,
    parameter int WAYS = 4
) (
    input  logic         clk,
    input  logic         rst,

    input  logic         s_valid,
    output logic         s_ready,
    input  logic [2:0]   s_op,
    input  logic [31:0]  s_key,
    input  logic [31:0]  s_pd,
    input  logic [31:0]  s_qpn,
    input  logic [31:0]  s_rights,
    input  logic [63:0]  s_address,
    input  logic [63:0]  s_length,
    input  logic [511:0] s_line,
    input  logic [63:0]  s_base,
    input  logic [4:0]   s_log_entries,

    input  logic         look_move,
    input  logic [23:0]  look_index,
    output logic         look_hit,
    output logic [511:0] look_line,
    output logic [24:0]  look_entries,

    output logic         m_valid,
    output logic [2:0]   m_fault,
    output logic [511:0] m_line,

    output card_pkg::read_t read,
    input  logic         read_ready,
    input  card_pkg::line_t line,

    output card_pkg::write_t write,
    input  logic         write_ready,
    input  logic         write_error,

    output logic         hit,
    output logic         miss
);
    // Each operation maps to an OP_* of line_cache; OP_REMOVE stores, then drops.
    localparam logic [2:0] OP_CHECK = 3'd0, OP_ENTRY = 3'd1, OP_STORE = 3'd3, OP_REMOVE = 3'd4,
                           OP_TABLE = 3'd5, CACHE_DROP = 3'd4;
    localparam logic [2:0] FAULT_NONE = 3'd0, FAULT_KEY = 3'd1, FAULT_PD = 3'd2, FAULT_QP = 3'd3,
                           FAULT_RIGHTS = 3'd4, FAULT_BOUNDS = 3'd5, FAULT_DMA = 3'd6;
    localparam int INDEX_BITS = 24;
    localparam int KEY_VARIANT_BITS = 8;

    typedef enum logic [3:0] {
        IDLE, BOUND, CACHE, CACHED, DROP, DROPPED, ENTRY, JUDGE, ANSWER
    } step_t;
    step_t step;

    // ------------------------------------------------------------------------- what a request holds
    logic [2:0]          op;
    logic [31:0]         key, pd, qpn, rights;
    logic [63:0]         address, access_length, base;
    logic [511:0]        new_line;
    logic [INDEX_BITS:0] entries;          // of the table; 0: there is none

    // ------------------------------------------------------------------------------------ the cache
    logic       cache_valid, cache_ready, cached, cache_error;
    logic [2:0] cache_op;
    assign cache_valid = step == CACHE || step == DROP;
    assign cache_op = step == DROP ? CACHE_DROP : op == OP_REMOVE ? OP_STORE : op;

    line_cache #(
        .LOG_SETS(LOG_SETS), .WAYS(WAYS), .INDEX_BITS(INDEX_BITS), .WRITE_BACK(1)
    ) cache (
        .clk, .rst, .s_valid(cache_valid), .s_ready(cache_ready), .s_op(cache_op), .s_index(key[31:KEY_VARIANT_BITS]),
        .s_line(op == OP_REMOVE ? '0 : new_line), .s_base(base), .look_move, .look_index, .look_hit, .look_line,
        .m_valid(cached), .m_error(cache_error), .m_line, .read, .read_ready, .line, .write, .write_ready,
        .write_error, .hit, .miss
    );
    assign look_entries = entries;

    // ---------------------------------------------------------------- what the entry says of the access
    logic [31:0] word, entry_key, entry_pd, entry_access, entry_qpn;
    logic [63:0] start, length;
    logic        is_remote, is_closed_window, is_foreign_window;
    assign word = m_line[8*ferroce_pkg::MEMORY_ENTRY_WORD_OFFSET +: 32];
    assign entry_key = m_line[8*ferroce_pkg::MEMORY_ENTRY_KEY_OFFSET +: 32];
    assign entry_pd = m_line[8*ferroce_pkg::MEMORY_ENTRY_PD_OFFSET +: 32];
    assign entry_access = m_line[8*ferroce_pkg::MEMORY_ENTRY_ACCESS_OFFSET +: 32];
    assign start = m_line[8*ferroce_pkg::MEMORY_ENTRY_START_OFFSET +: 64];
    assign length = m_line[8*ferroce_pkg::MEMORY_ENTRY_LENGTH_OFFSET +: 64];
    assign entry_qpn = m_line[8*ferroce_pkg::MEMORY_ENTRY_QPN_OFFSET +: 32];

    // Local accesses never reach memory through a window (IBTA vol 1, 10.6.7.2).
    assign is_remote = rights[ferroce_pkg::ACCESS_RIGHTS_REMOTE_WRITE_LSB] || rights[ferroce_pkg::ACCESS_RIGHTS_REMOTE_READ_LSB]
                    || rights[ferroce_pkg::ACCESS_RIGHTS_REMOTE_ATOMIC_LSB];
    assign is_closed_window = word[ferroce_pkg::MEMORY_ENTRY_WORD_WINDOW_LSB]
                           && (!word[ferroce_pkg::MEMORY_ENTRY_WORD_BOUND_LSB] || !is_remote);
    assign is_foreign_window = word[ferroce_pkg::MEMORY_ENTRY_WORD_WINDOW_LSB]
                            && word[ferroce_pkg::MEMORY_ENTRY_WORD_WINDOW_TYPE_2_LSB] && entry_qpn != qpn;

    // The bounds, in three steps of one adder each.
    logic [64:0] offset, room;               // bit 64: below zero
    logic [64:0] access_end;                 // bit 64: beyond the last address
    wire unused_access_end = &{1'b0, access_end};
    logic        is_too_long;
    assign is_too_long = access_length > room[63:0];

    assign s_ready = step == IDLE;
    assign m_valid = step == ANSWER;

    always_ff @(posedge clk) begin
        offset <= {1'b0, address} - {1'b0, start};
        access_end <= {1'b0, address} + {1'b0, access_length};
        room <= {1'b0, length} - {1'b0, offset[63:0]};
        case (step)
            IDLE: begin
                m_fault <= FAULT_NONE;
                if (s_valid) begin
                    {op, key, pd, qpn, rights} <= {s_op, s_key, s_pd, s_qpn, s_rights};
                    {address, access_length, new_line} <= {s_address, s_length, s_line};
                    step <= BOUND;
                    if (s_op == OP_TABLE) begin
                        base <= s_base;
                        entries <= s_base == '0 ? '0 : 25'd1 << s_log_entries;
                        step <= CACHE;
                    end
                end
            end
            BOUND: begin
                m_fault <= FAULT_KEY;
                step <= ANSWER;
                if ({1'b0, key[31:KEY_VARIANT_BITS]} < entries) begin
                    m_fault <= FAULT_NONE;
                    step <= CACHE;
                end
            end
            CACHE: if (cache_ready) step <= CACHED;
            CACHED: if (cached) begin
                m_fault <= cache_error ? FAULT_DMA : FAULT_NONE;
                step <= ANSWER;
                if (!cache_error && op == OP_REMOVE) step <= DROP;
                if (!cache_error && (op == OP_CHECK || op == OP_ENTRY)) step <= ENTRY;
            end
            DROP: if (cache_ready) step <= DROPPED;
            DROPPED: if (cached) step <= ANSWER;
            ENTRY: begin
                if (!word[ferroce_pkg::MEMORY_ENTRY_WORD_VALID_LSB]) m_fault <= FAULT_KEY;
                step <= op == OP_ENTRY ? ANSWER : JUDGE;
            end
            JUDGE: begin
                if (m_fault != FAULT_NONE || entry_key != key) m_fault <= FAULT_KEY;
                else if (entry_pd != pd) m_fault <= FAULT_PD;
                else if (is_closed_window) m_fault <= FAULT_KEY;
                else if (is_foreign_window) m_fault <= FAULT_QP;
                else if ((entry_access & rights) != rights) m_fault <= FAULT_RIGHTS;
                else if (offset[64] || room[64] || access_end[64] || is_too_long) m_fault <= FAULT_BOUNDS;
                step <= ANSWER;
            end
            ANSWER: step <= IDLE;
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= IDLE;
            entries <= '0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && cache_valid && op != OP_TABLE) assert ({1'b0, key[31:KEY_VARIANT_BITS]} < entries);
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Memory translation table: virtual address in a region to IOVA, page by page, through a cache of
// lines of eight TranslationEntry in front of the table in host memory. One request at a time.
//
// Ports: table_* sets the address of the table and clears the cache; drop_* drops the lines of
// `drop_count` entries from `drop_first` on; s_* requests the translation of an address, with the
// fields of the region's MemoryEntry; m_* answers with the IOVA and the bytes to the end of the page,
// or a fault. look_* is line_cache's, `look_entries` the size of the table: memory_pipe uses them.
// read_* is DMA of one line. `hit` and `miss` count lines that were found in the cache,
// and not.
// Invariants: a region without translation (`s_direct`) needs no DMA; no line outside of the table is
// read; an answer holds until m_ready.
module mtt #(
    parameter int LOG_SETS = 11,
    parameter int WAYS = 4,
    parameter int LOG_MAX_ENTRIES = 26
) (
    input  logic         clk,
    input  logic         rst,

    input  logic         table_valid,
    output logic         table_ready,
    input  logic [63:0]  table_base,
    input  logic [4:0]   table_log_entries,
    input  logic         table_present,

    input  logic         drop_valid,
    output logic         drop_ready,
    input  logic [LOG_MAX_ENTRIES:0] drop_first,
    input  logic [LOG_MAX_ENTRIES:0] drop_count,

    input  logic         s_valid,
    output logic         s_ready,
    input  logic [63:0]  s_address,
    input  logic [63:0]  s_start,
    input  logic [63:0]  s_length,
    input  logic [63:0]  s_translation,
    input  logic [63:0]  s_first_page_offset,
    input  logic [7:0]   s_log_page_size,
    input  logic         s_direct,

    input  logic         look_move,
    input  logic [LOG_MAX_ENTRIES-4:0] look_index,
    output logic         look_hit,
    output logic [511:0] look_line,
    output logic [LOG_MAX_ENTRIES:0] look_entries,

    output logic         m_valid,
    input  logic         m_ready,
    output logic [63:0]  m_iova,
    output logic [63:0]  m_length,
    output logic         m_page_fault,
    output logic         m_dma_fault,

    output card_pkg::read_t read,
    input  logic         read_ready,
    input  card_pkg::line_t line,

    output logic         hit,
    output logic         miss
);
    localparam logic [2:0] OP_LOOKUP = 3'd0, OP_DROP = 3'd4, OP_CLEAR = 3'd5;
    localparam int ENTRY_BITS = LOG_MAX_ENTRIES + 1;
    localparam int LINE_BITS = LOG_MAX_ENTRIES - 3;
    localparam int LINES = WAYS << LOG_SETS;
    localparam int PAGE_SHIFT = ferroce_pkg::TRANSLATION_ENTRY_PAGE_NUMBER_LSB;

    typedef enum logic [3:0] {
        IDLE, OFFSET, POSITION, INDEX, BOUND, LOOK_UP, LOOKED_UP, PICK, ANSWER, DROP_BOUND, DROP,
        DROPPED, CLEAR, CLEARED
    } step_t;
    step_t step;

    // ------------------------------------------------------------------------- what a request holds
    logic [63:0]           base, offset, position, index;
    logic [ENTRY_BITS-1:0] entries;        // of the table; 0: there is none
    logic [63:0]           address, start, length, translation, first_page_offset;
    logic [7:0]            log_page_size;
    logic                  direct;
    logic [LINE_BITS-1:0]  line_number;
    logic [2:0]            entry_number;
    logic [ENTRY_BITS-1:0] first;
    logic [ENTRY_BITS:0]   behind;         // first entry that is not dropped
    logic [LINE_BITS-1:0]  last_line;

    // ------------------------------------------------------------------------------------ the cache
    logic         cache_valid, cache_ready, cached, cache_error;
    logic [2:0]   cache_op;
    logic [511:0] cached_line;
    assign cache_valid = step == LOOK_UP || step == DROP || step == CLEAR;
    assign cache_op = step == LOOK_UP ? OP_LOOKUP : step == DROP ? OP_DROP : OP_CLEAR;

    /* verilator lint_off PINCONNECTEMPTY */   // a cache that is only read
    line_cache #(
        .LOG_SETS(LOG_SETS), .WAYS(WAYS), .INDEX_BITS(LINE_BITS), .WRITE_BACK(0)
    ) cache (
        .clk, .rst, .s_valid(cache_valid), .s_ready(cache_ready), .s_op(cache_op), .s_index(line_number), .s_line('0),
        .s_base(base), .look_move, .look_index, .look_hit, .look_line, .m_valid(cached), .m_error(cache_error),
        .m_line(cached_line), .read, .read_ready, .line,
        .write(), .write_ready(1'b0), .write_error(1'b0), .hit, .miss
    );
    /* verilator lint_on PINCONNECTEMPTY */

    assign look_entries = entries;

    // ------------------------------------------------------------------------------- pages and lines
    logic [63:0] page_mask, page, in_page, entry_page;
    logic is_page_size;
    always_comb begin
        is_page_size = 1'b1;
        case (log_page_size)
            8'd12: {page_mask, page} = {64'hfff, position >> 12};
            8'd21: {page_mask, page} = {64'h1f_ffff, position >> 21};
            8'd30: {page_mask, page} = {64'h3fff_ffff, position >> 30};
            default: begin
                {page_mask, page} = {64'hfff, position >> 12};
                is_page_size = 1'b0;
            end
        endcase
        in_page = position & page_mask;
    end
    logic [63:0] entry;                   // its reserved bits
    logic [ENTRY_BITS:0] last_dropped;    // its place in its line
    wire unused_entry = &{1'b0, entry, last_dropped};
    logic [LINE_BITS-1:0] lines_dropped;  // but the last
    logic is_outside;
    assign entry = cached_line[{entry_number, 6'b0} +: 64];
    // Pages are aligned to their size: an OR, no adder.
    assign entry_page = {entry[63:PAGE_SHIFT], {PAGE_SHIFT{1'b0}}} & ~page_mask;
    assign last_dropped = behind - 1'b1;
    assign lines_dropped = last_dropped[LOG_MAX_ENTRIES-1:3] - first[LOG_MAX_ENTRIES-1:3];
    assign is_outside = index[63:ENTRY_BITS] != '0 || index[ENTRY_BITS-1:0] >= entries;

    assign table_ready = step == IDLE;
    assign drop_ready = step == IDLE && !table_valid;
    assign s_ready = step == IDLE && !table_valid && !drop_valid;
    assign m_valid = step == ANSWER;

    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                {m_page_fault, m_dma_fault} <= 2'b00;
                if (table_valid) begin
                    base <= table_base;
                    entries <= table_present ? ENTRY_BITS'(1) << table_log_entries : '0;
                    step <= CLEAR;
                end else if (drop_valid) begin
                    first <= drop_first;
                    behind <= {1'b0, drop_first} + {1'b0, drop_count};
                    step <= DROP_BOUND;
                end else if (s_valid) begin
                    {address, start, length, translation} <= {s_address, s_start, s_length, s_translation};
                    {first_page_offset, log_page_size, direct} <= {s_first_page_offset, s_log_page_size, s_direct};
                    step <= OFFSET;
                end
            end

            OFFSET: begin
                offset <= address - start;
                step <= POSITION;
            end
            POSITION: begin
                position <= first_page_offset + offset;
                m_iova <= translation + offset;
                m_length <= length - offset;
                step <= direct ? ANSWER : INDEX;
            end
            INDEX: begin
                index <= translation + page;
                step <= BOUND;
            end
            BOUND: begin
                line_number <= index[LOG_MAX_ENTRIES-1:3];
                entry_number <= index[2:0];
                m_page_fault <= is_outside || !is_page_size;
                step <= is_outside || !is_page_size ? ANSWER : LOOK_UP;
            end
            LOOK_UP: if (cache_ready) step <= LOOKED_UP;
            LOOKED_UP: if (cached) begin
                m_dma_fault <= cache_error;
                step <= cache_error ? ANSWER : PICK;
            end
            PICK: begin
                m_iova <= entry_page | in_page;
                m_length <= page_mask + 64'd1 - in_page;
                m_page_fault <= !entry[ferroce_pkg::TRANSLATION_ENTRY_PRESENT_LSB];
                step <= ANSWER;
            end
            ANSWER: if (m_ready) step <= IDLE;

            DROP_BOUND: begin
                line_number <= first[LOG_MAX_ENTRIES-1:3];
                last_line <= last_dropped[LOG_MAX_ENTRIES-1:3];
                if (behind > {1'b0, entries}) behind <= {1'b0, entries};
                else if ({1'b0, first} >= behind) step <= IDLE;
                // For a region larger than the cache, keeping other lines is of no use.
                else if ({{(32-LINE_BITS){1'b0}}, lines_dropped} >= LINES) step <= CLEAR;
                else step <= DROP;
            end
            DROP: if (cache_ready) step <= DROPPED;
            DROPPED: if (cached) begin
                line_number <= line_number + 1'b1;
                step <= line_number == last_line ? IDLE : DROP;
            end
            CLEAR: if (cache_ready) step <= CLEARED;
            CLEARED: if (cached) step <= IDLE;
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= IDLE;
            entries <= '0;
        end
    end

    logic was_answering;
    logic [63:0] last_iova;
    always_ff @(posedge clk) begin
        was_answering <= !rst && m_valid && !m_ready;
        last_iova <= m_iova;
        if (!rst && was_answering) assert (m_valid && m_iova == last_iova);
        if (!rst && s_valid && s_ready) assert (s_address >= s_start);
    end
endmodule

`default_nettype wire

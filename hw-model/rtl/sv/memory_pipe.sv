// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The short way of memory_unit: ranges whose region and page are cached, one per cycle. Everything else,
// faults too, is left to the long way.
//
// Ports: s_* is a range (`s_rest`: its first bytes have had their piece); ten cycles later m_* has its
// first piece if `m_hit`. `move` advances all stages, `flush` empties them. `entry_*` and `page_*` are
// the look-ups of the caches of mpt and mtt: the line of an index, three cycles later. `entries` and
// `pages` are the sizes of the tables. `m_counts_page`: mtt was used.
// Invariants: a hit is a range that mpt and mtt allow, with the piece that memory_walk would give; at
// most one page of a range is looked up.
module memory_pipe #(
    parameter int CLIENT_BITS = 2,
    parameter int ENTRY_BITS = 24,         // of an index
    parameter int PAGE_BITS = 23
) (
    input  logic                       clk,
    input  logic                       rst,
    input  logic                       move,
    input  logic                       flush,

    input  logic                       s_valid,
    input  logic [CLIENT_BITS-1:0]     s_client,
    input  card_pkg::memory_request_t s_request,
    input  logic                       s_rest,

    input  logic [ENTRY_BITS:0]        entries,
    output logic [ENTRY_BITS-1:0]      entry_index,
    input  logic                       entry_hit,
    input  logic [511:0]               entry_line,
    input  logic [PAGE_BITS+3:0]       pages,
    output logic [PAGE_BITS-1:0]       page_index,
    input  logic                       page_hit,
    input  logic [511:0]               page_line,

    output logic                       m_valid,
    output logic [CLIENT_BITS-1:0]     m_client,
    output logic                       m_hit,
    output logic                       m_rest,
    output logic                       m_counts_page,
    output card_pkg::piece_t           m_piece,
    output logic                       idle
);
    localparam int STAGES = 9;             // before the result
    localparam int KEY_VARIANT_BITS = 8;
    localparam int TABLE_BITS = PAGE_BITS + 4;   // of a number of pages
    localparam int PAGE_SHIFT = ferroce_pkg::TRANSLATION_ENTRY_PAGE_NUMBER_LSB;

    // ------------------------------------------------------------ which stages hold a range, and whose
    logic [STAGES:1]                   valid, rest;
    logic [STAGES*CLIENT_BITS-1:0]     clients;
    assign idle = valid == '0 && !m_valid;
    always_ff @(posedge clk) begin
        if (move) begin
            valid <= {valid[STAGES-1:1], s_valid};
            m_valid <= valid[STAGES];
            rest <= {rest[STAGES-1:1], s_rest};
            m_rest <= rest[STAGES];
            clients <= {clients[(STAGES-1)*CLIENT_BITS-1:0], s_client};
            m_client <= clients[(STAGES-1)*CLIENT_BITS +: CLIENT_BITS];
        end
        if (rst || flush) begin
            valid <= '0;
            m_valid <= 1'b0;
        end
    end

    // ------------------------------------------------------- 1 to 3: the entry of the key is looked up
    card_pkg::memory_request_t r1, r2, r3;
    wire unused_r3 = &{1'b0, r3};
    logic known2, known3;
    assign entry_index = s_request.key[31:KEY_VARIANT_BITS];
    always_ff @(posedge clk) begin
        if (move) begin
            r1 <= s_request;
            r2 <= r1;
            r3 <= r2;
            known2 <= {1'b0, r1.key[31:KEY_VARIANT_BITS]} < entries;
            known3 <= known2;
        end
    end

    // ----------------------------------- 3 to 6: what the entry says, in the order of mpt's operators
    logic [31:0] word, key, pd, access, qpn;
    logic [63:0] start;
    logic        is_remote, is_closed_window, is_foreign_window, is_allowed;
    wire unused_entry_line = &{1'b0, entry_line, word};
    assign word = entry_line[8*ferroce_pkg::MEMORY_ENTRY_WORD_OFFSET +: 32];
    assign key = entry_line[8*ferroce_pkg::MEMORY_ENTRY_KEY_OFFSET +: 32];
    assign pd = entry_line[8*ferroce_pkg::MEMORY_ENTRY_PD_OFFSET +: 32];
    assign access = entry_line[8*ferroce_pkg::MEMORY_ENTRY_ACCESS_OFFSET +: 32];
    assign qpn = entry_line[8*ferroce_pkg::MEMORY_ENTRY_QPN_OFFSET +: 32];
    assign start = entry_line[8*ferroce_pkg::MEMORY_ENTRY_START_OFFSET +: 64];
    assign is_remote = r3.rights[ferroce_pkg::ACCESS_RIGHTS_REMOTE_WRITE_LSB]
                    || r3.rights[ferroce_pkg::ACCESS_RIGHTS_REMOTE_READ_LSB]
                    || r3.rights[ferroce_pkg::ACCESS_RIGHTS_REMOTE_ATOMIC_LSB];
    assign is_closed_window = word[ferroce_pkg::MEMORY_ENTRY_WORD_WINDOW_LSB]
                           && (!word[ferroce_pkg::MEMORY_ENTRY_WORD_BOUND_LSB] || !is_remote);
    assign is_foreign_window = word[ferroce_pkg::MEMORY_ENTRY_WORD_WINDOW_LSB]
                            && word[ferroce_pkg::MEMORY_ENTRY_WORD_WINDOW_TYPE_2_LSB] && qpn != {8'b0, r3.qpn};
    assign is_allowed = entry_hit && known3 && word[ferroce_pkg::MEMORY_ENTRY_WORD_VALID_LSB]
        && !word[ferroce_pkg::MEMORY_ENTRY_WORD_NULL_LSB] && !word[ferroce_pkg::MEMORY_ENTRY_WORD_DEVICE_MEMORY_LSB]
        && key == r3.key && pd == {8'b0, r3.pd} && !is_closed_window && !is_foreign_window
        && (access & {28'b0, r3.rights}) == {28'b0, r3.rights} && r3.length != '0;

    logic [64:0] offset4, room5;           // bit 64: below zero
    logic [63:0] region_length4, translation4, translation5, first4, position5, iova5;
    logic [31:0] length4, length5;
    logic [7:0]  log_page4, log_page5;
    logic        allowed4, allowed5, allowed6, wraps4, direct4, direct5, once4, once5;
    logic [64:0] range_end;                // bit 64: beyond the last address
    wire unused_range_end = &{1'b0, range_end};
    assign range_end = {1'b0, r3.address} + {33'b0, r3.length};
    always_ff @(posedge clk) begin
        if (move) begin
            allowed4 <= is_allowed;
            wraps4 <= range_end[64];
            offset4 <= {1'b0, r3.address} - {1'b0, start};
            region_length4 <= entry_line[8*ferroce_pkg::MEMORY_ENTRY_LENGTH_OFFSET +: 64];
            translation4 <= entry_line[8*ferroce_pkg::MEMORY_ENTRY_TRANSLATION_OFFSET +: 64];
            first4 <= entry_line[8*ferroce_pkg::MEMORY_ENTRY_FIRST_PAGE_OFFSET_OFFSET +: 64];
            log_page4 <= word[ferroce_pkg::MEMORY_ENTRY_WORD_LOG_PAGE_SIZE_LSB +: 8];
            direct4 <= word[ferroce_pkg::MEMORY_ENTRY_WORD_DIRECT_LSB];
            {length4, once4} <= {r3.length, r3.check_only};

            allowed5 <= allowed4 && !offset4[64] && !wraps4;
            room5 <= {1'b0, region_length4} - {1'b0, offset4[63:0]};
            position5 <= first4 + offset4[63:0];
            iova5 <= translation4 + offset4[63:0];
            {translation5, log_page5, direct5, length5, once5} <= {translation4, log_page4, direct4, length4, once4};

            allowed6 <= allowed5 && !room5[64] && {32'b0, length5} <= room5[63:0];
        end
    end

    // ------------------------------------------------------------ 6 to 9: its page is looked up
    logic [63:0] page_mask, page, index6;
    logic        is_page_size, page_size6, in_table7, in_table8, in_table9;
    always_comb begin
        is_page_size = 1'b1;
        case (log_page5)
            8'd12: {page_mask, page} = {64'hfff, position5 >> 12};
            8'd21: {page_mask, page} = {64'h1f_ffff, position5 >> 21};
            8'd30: {page_mask, page} = {64'h3fff_ffff, position5 >> 30};
            default: begin
                {page_mask, page} = {64'hfff, position5 >> 12};
                is_page_size = 1'b0;
            end
        endcase
    end
    logic [63:0] iova6, iova7, iova8, iova9;       // of a direct region, or the place in the page
    logic [1:0]  large6, large7, large8, large9;   // pages of 2 MiB, of 1 GiB
    logic [12:0] bytes7, bytes8, bytes9, in_page6;
    logic [31:0] length6;
    logic        direct6, direct7, direct8, direct9, once6, once7, once8, once9;
    logic        last7, last8, last9, allowed7, allowed8, allowed9;
    logic [2:0]  number7, number8, number9;        // of the entry in its line
    assign page_index = index6[PAGE_BITS+2:3];
    assign in_page6 = 13'd4096 - {1'b0, iova6[11:0]};
    always_ff @(posedge clk) begin
        if (move) begin
            index6 <= translation5 + page;
            page_size6 <= is_page_size;
            iova6 <= direct5 ? iova5 : position5 & page_mask;
            large6 <= {log_page5 == 8'd30, log_page5 == 8'd21};
            {direct6, length6, once6} <= {direct5, length5, once5};

            in_table7 <= page_size6 && index6[63:TABLE_BITS] == '0 && index6[TABLE_BITS-1:0] < pages;
            bytes7 <= length6 < {19'b0, in_page6} ? length6[12:0] : in_page6;
            last7 <= length6 <= {19'b0, in_page6};
            {number7, iova7, large7, direct7, once7, allowed7} <= {index6[2:0], iova6, large6, direct6, once6, allowed6};

            {number8, iova8, large8, direct8, once8, allowed8} <= {number7, iova7, large7, direct7, once7, allowed7};
            {bytes8, last8, in_table8} <= {bytes7, last7, in_table7};
            {number9, iova9, large9, direct9, once9, allowed9} <= {number8, iova8, large8, direct8, once8, allowed8};
            {bytes9, last9, in_table9} <= {bytes8, last8, in_table8};
        end
    end

    // ------------------------------------------------------------------------------------ the piece
    logic [63:0] entry, in_page;
    logic        is_present, starts_page;
    wire unused_entry = &{1'b0, entry};
    assign entry = page_line[{number9, 6'b0} +: 64];
    assign is_present = page_hit && in_table9 && entry[ferroce_pkg::TRANSLATION_ENTRY_PRESENT_LSB];
    // Pages are aligned to their size: an OR, no adder.
    assign in_page = {34'b0, large9[1] ? 30'h3fff_ffff : large9[0] ? 30'h1f_ffff : 30'hfff};
    assign starts_page = (iova9 & in_page) == '0;
    always_ff @(posedge clk) begin
        if (move) begin
            m_hit <= allowed9 && (once9 || direct9 || is_present);
            // memory_walk looks up each page once.
            m_counts_page <= !once9 && !direct9 && (!rest[STAGES] || starts_page);
            m_piece.iova <= once9 ? '0 : direct9 ? iova9 : ({entry[63:PAGE_SHIFT], {PAGE_SHIFT{1'b0}}} & ~in_page) | iova9;
            m_piece.bytes <= once9 ? '0 : bytes9;
            m_piece.last <= once9 || last9;
        end
    end

endmodule

`default_nettype wire

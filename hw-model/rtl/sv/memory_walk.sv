// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Second half of memory_unit: converts a checked range of a region to pieces, page by page through
// mtt.
//
// Ports: s_* is a range with the region's fields of MemoryEntry. A nonzero `s_fault`, or `s_once`, is
// answered immediately, without a look-up of pages. m_* answers with pieces, in order, the last one
// with `last`; a fault is one answer with `last`. table_* and drop_* go to mtt; ready is high only
// while no range is in progress.
// Invariants: a piece has bytes, unless it is the only one; it does not cross 4 KiB.
module memory_walk #(
    parameter int LOG_SETS = 11,
    parameter int WAYS = 4
) (
    input  logic         clk,
    input  logic         rst,

    input  logic         table_valid,
    output logic         table_ready,
    input  logic [63:0]  table_base,
    input  logic [4:0]   table_log_entries,
    input  logic         drop_valid,
    output logic         drop_ready,
    input  logic [26:0]  drop_first,
    input  logic [26:0]  drop_count,

    input  logic         s_valid,
    output logic         s_ready,
    input  logic [1:0]   s_client,
    input  logic [2:0]   s_fault,
    input  logic         s_once,
    input  logic [63:0]  s_address,
    input  logic [31:0]  s_length,
    input  logic [511:0] s_region,

    input  logic         look_move,
    input  logic [22:0]  look_index,
    output logic         look_hit,
    output logic [511:0] look_line,
    output logic [26:0]  look_entries,

    output logic [3:0]   m_valid,
    input  logic [3:0]   m_ready,
    output card_pkg::piece_t m_piece,
    output logic [2:0]   m_fault,

    output card_pkg::read_t read,
    input  logic         read_ready,
    input  card_pkg::line_t line,

    output logic         hit,
    output logic         miss
);
    localparam logic [2:0] FAULT_NONE = 3'd0, FAULT_DMA = 3'd6, FAULT_PAGE = 3'd7;

    typedef enum logic [2:0] { IDLE, ASK, ASKED, CUT, ANSWER } step_t;
    step_t step;

    // ------------------------------------------------------------------------- what a range holds
    logic [1:0]   client;
    logic [63:0]  address;                 // of the next byte
    logic [31:0]  left;                    // bytes without an answer
    logic [63:0]  start, length, translation, first_page_offset;
    logic [7:0]   log_page_size;
    logic         direct;
    logic [63:0]  iova;
    logic [31:0]  run;                     // bytes that lie together from there on

    logic         asked_ready, found, page_fault, dma_fault;
    logic [63:0]  found_iova, found_length;
    mtt #(.LOG_SETS(LOG_SETS), .WAYS(WAYS)) pages (
        .clk, .rst, .table_valid(table_valid && step == IDLE), .table_ready, .table_base, .table_log_entries,
        .table_present(table_base != '0), .drop_valid(drop_valid && step == IDLE), .drop_ready, .drop_first,
        .drop_count, .s_valid(step == ASK), .s_ready(asked_ready), .s_address(address), .s_start(start),
        .s_length(length), .s_translation(translation), .s_first_page_offset(first_page_offset),
        .s_log_page_size(log_page_size), .s_direct(direct), .look_move, .look_index, .look_hit, .look_line,
        .look_entries, .m_valid(found), .m_ready(step == ASKED),
        .m_iova(found_iova), .m_length(found_length), .m_page_fault(page_fault), .m_dma_fault(dma_fault), .read,
        .read_ready, .line, .hit, .miss
    );

    // ---------------------------------------------------------------------------------- a piece A
    // run ends at the end of a page, or of the range if the region is direct.
    logic [31:0] in_page, bytes;
    assign in_page = 32'd4096 - {20'b0, iova[11:0]};
    assign bytes = left < in_page ? left : in_page;

    logic taken;
    assign taken = step == ANSWER && m_ready[client];
    assign s_ready = step == IDLE;
    assign m_valid = step == ANSWER ? 4'd1 << client : 4'd0;

    always_ff @(posedge clk) begin
        case (step)
            IDLE: if (s_valid) begin
                client <= s_client;
                {address, left} <= {s_address, s_length};
                start <= s_region[8*ferroce_pkg::MEMORY_ENTRY_START_OFFSET +: 64];
                length <= s_region[8*ferroce_pkg::MEMORY_ENTRY_LENGTH_OFFSET +: 64];
                translation <= s_region[8*ferroce_pkg::MEMORY_ENTRY_TRANSLATION_OFFSET +: 64];
                first_page_offset <= s_region[8*ferroce_pkg::MEMORY_ENTRY_FIRST_PAGE_OFFSET_OFFSET +: 64];
                log_page_size <= s_region[ferroce_pkg::MEMORY_ENTRY_WORD_LOG_PAGE_SIZE_LSB +: 8];
                direct <= s_region[ferroce_pkg::MEMORY_ENTRY_WORD_DIRECT_LSB];
                m_piece.iova <= '0;
                m_piece.bytes <= '0;
                m_piece.last <= 1'b1;
                m_fault <= s_fault;
                step <= s_fault != FAULT_NONE || s_once ? ANSWER : ASK;
            end
            ASK: if (asked_ready) step <= ASKED;
            ASKED: if (found) begin
                iova <= found_iova;
                run <= found_length[63:32] == '0 ? found_length[31:0] : '1;
                m_piece.iova <= '0;
                m_piece.bytes <= '0;
                m_piece.last <= 1'b1;
                m_fault <= dma_fault ? FAULT_DMA : page_fault ? FAULT_PAGE : FAULT_NONE;
                step <= dma_fault || page_fault ? ANSWER : CUT;
            end
            CUT: begin
                m_piece.iova <= iova;
                m_piece.bytes <= bytes[12:0];
                m_piece.last <= bytes == left;
                iova <= iova + {32'b0, bytes};
                address <= address + {32'b0, bytes};
                left <= left - bytes;
                run <= run - bytes;
                step <= ANSWER;
            end
            ANSWER: if (taken) step <= m_piece.last ? IDLE : run == '0 ? ASK : CUT;
            default: step <= IDLE;
        endcase
        if (rst) step <= IDLE;
    end

    always_ff @(posedge clk) begin
        if (!rst && step == CUT) assert (bytes != '0 && bytes <= run);
        if (!rst && s_valid && s_ready) assert (s_fault != FAULT_NONE || s_once || s_length != '0);
        if (!rst && (table_valid || drop_valid)) assert (step == IDLE);
    end
endmodule

`default_nettype wire

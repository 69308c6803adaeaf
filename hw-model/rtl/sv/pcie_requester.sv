// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Converts the card's lines to PCIe requests, on the 512-bit AXI4-Streams of AMD's hard blocks (RQ
// and RC of UltraScale+ PG213 and Versal PG343: dword-aligned, straddle options on, user-managed tags,
// sequence numbers).
//
// Ports: dma_* connect to `card`, rq_* to s_axis_rq, rc_* to m_axis_rc, sequence_* to pcie_rq_seq_num,
// cfg_* to the block's outputs of the same names. A posted write has no answer: no write error.
// `written` and `passed` count lines: a completion that has to follow the first `written` lines may
// leave when `passed` has reached this value. `idle`: no write is waiting, no tag is in use.
// Invariants: a read does not pass a write that was taken before it. Each read returns one line; an
// unexpected completion returns none. Without bus mastering, writes are dropped and reads are errors.
module pcie_requester #(
    parameter int LOG_TAGS = 8,            // 5 to 8
    parameter int LOG_TIMEOUT = 24,
    parameter int COUNT_BITS = 12
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [1:0]   cfg_max_payload,
    input  logic [2:0]   cfg_max_read_req,
    input  logic         cfg_ext_tag,
    input  logic         bus_master,

    input  logic         dma_read_valid,
    output logic         dma_read_ready,
    input  logic [63:0]  dma_read_iova,
    input  logic [card_pkg::TAG_BITS-1:0] dma_read_tag,
    output logic         dma_line_valid,
    output logic         dma_line_error,
    output logic [card_pkg::TAG_BITS-1:0] dma_line_tag,
    output logic [511:0] dma_line,
    input  logic         dma_write_valid,
    output logic         dma_write_ready,
    input  logic [63:0]  dma_write_iova,
    input  logic [511:0] dma_write_line,
    input  logic [63:0]  dma_write_strobe,

    output logic         rq_valid,
    input  logic         rq_ready,
    output logic [511:0] rq_data,
    output logic [15:0]  rq_keep,
    output logic         rq_last,
    output logic [136:0] rq_user,
    input  logic [1:0]   sequence_valid,
    input  logic [5:0]   sequence_0,
    input  logic [5:0]   sequence_1,
    input  logic         rc_valid,
    output logic         rc_ready,
    input  logic [511:0] rc_data,
    input  logic [160:0] rc_user,

    output logic [COUNT_BITS-1:0] written,
    output logic [COUNT_BITS-1:0] passed,
    output logic         idle
);
    logic         beat_valid, beat_ready, beat_first, beat_last, writes_idle, reads_idle;
    logic [511:0] beat_data;
    logic [4:0]   beat_dwords;
    logic [7:0]   beat_enables;
    logic [3:0]   beat_lines;
    pcie_write_requests #(.COUNT_BITS(COUNT_BITS)) writes (
        .clk, .rst, .cfg_max_payload, .write_valid(dma_write_valid), .write_ready(dma_write_ready),
        .write_iova(dma_write_iova), .write_line(dma_write_line), .write_strobe(dma_write_strobe), .written,
        .idle(writes_idle), .beat_valid, .beat_ready, .beat_data, .beat_dwords, .beat_first, .beat_last, .beat_enables,
        .beat_lines
    );

    logic                name_valid, begin_valid, done_valid, read_valid, read_ready, refuse_valid, refuse_ready;
    logic [LOG_TAGS+2:0] name_at;
    logic [card_pkg::TAG_BITS-1:0] name_tag;
    logic [LOG_TAGS-1:0] begin_tag, done_tag, read_tag, refuse_tag;
    logic [3:0]          begin_lines, read_lines;
    logic [63:6]         read_address;
    logic [COUNT_BITS-1:0] read_after;
    pcie_read_requests #(.LOG_TAGS(LOG_TAGS), .COUNT_BITS(COUNT_BITS)) reads (
        .clk, .rst, .cfg_max_read_req, .cfg_ext_tag, .read_valid(dma_read_valid), .read_ready(dma_read_ready),
        .read_iova(dma_read_iova), .read_tag(dma_read_tag), .written, .idle(reads_idle), .line_valid(name_valid),
        .line_at(name_at), .line_tag(name_tag), .begin_valid, .begin_tag, .begin_lines, .done_valid, .done_tag,
        .request_valid(read_valid), .request_ready(read_ready), .request_address(read_address),
        .request_lines(read_lines), .request_tag(read_tag), .request_after(read_after)
    );

    pcie_request_stream #(.LOG_TAGS(LOG_TAGS), .COUNT_BITS(COUNT_BITS)) stream (
        .clk, .rst, .bus_master, .beat_valid, .beat_ready, .beat_data, .beat_dwords, .beat_first, .beat_last,
        .beat_enables, .beat_lines, .read_valid, .read_ready, .read_address, .read_lines, .read_tag, .read_after,
        .refuse_valid, .refuse_ready, .refuse_tag, .rq_valid, .rq_ready, .rq_data, .rq_keep, .rq_last, .rq_user,
        .sequence_valid, .sequence_0, .sequence_1, .passed
    );

    pcie_read_completions #(.LOG_TAGS(LOG_TAGS), .LOG_TIMEOUT(LOG_TIMEOUT)) completions (
        .clk, .rst, .name_valid, .name_at, .name_tag, .begin_valid, .begin_tag, .begin_lines, .done_valid, .done_tag,
        .refuse_valid, .refuse_ready, .refuse_tag, .rc_valid, .rc_ready, .rc_data, .rc_user, .dma_line_valid,
        .dma_line_error, .dma_line_tag, .dma_line
    );
    assign idle = writes_idle && reads_idle && !rq_valid;
endmodule

`default_nettype wire

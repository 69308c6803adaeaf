// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Lines of completions until the verdict about their TLP, and the card's tag of each.
//
// Ports: name_* stores the card's tag of a line of a PCIe tag. store_* takes a line with its PCIe tag
// and its number; without `store_is_line` the entry only frees the tag, as one with `store_frees`
// does after its line. commit_*, in the cycle of the last line or later, is the verdict about all
// lines that were stored since the last one. done_* pulses when a tag is free.
// Invariants: lines leave in order, one a cycle, after their verdict; a name is read before its tag
// is free.
module pcie_completion_lines #(
    parameter int LOG_TAGS = 8
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         name_valid,
    input  logic [LOG_TAGS+2:0] name_at,
    input  logic [card_pkg::TAG_BITS-1:0] name_tag,

    input  logic         store_valid,
    input  logic [LOG_TAGS-1:0] store_tag,
    input  logic [2:0]   store_number,
    input  logic [511:0] store_line,
    input  logic         store_is_line,
    input  logic         store_frees,
    input  logic         commit_valid,
    input  logic         commit_error,

    output logic         done_valid,
    output logic [LOG_TAGS-1:0] done_tag,
    output logic         dma_line_valid,
    output logic         dma_line_error,
    output logic [card_pkg::TAG_BITS-1:0] dma_line_tag,
    output logic [511:0] dma_line
);
    // A TLP has up to 8 lines. When it is committed, at most 8 others are waiting, and one leaves in
    // each cycle.
    localparam int LOG_LINES = 5;
    localparam int BITS = LOG_TAGS + 3 + 2;

    logic [LOG_LINES:0]    producer, committed, consumer;   // free-running
    logic [LOG_LINES:0]    stored;         // with the one of this cycle
    logic [BITS-1:0]       entries [1 << LOG_LINES];
    logic [(1 << LOG_LINES)-1:0] is_bad;
    assign stored = producer + (LOG_LINES + 1)'(store_valid);
    always_ff @(posedge clk) begin
        if (store_valid)
            entries[producer[LOG_LINES-1:0]] <= {store_tag, store_number, store_is_line, store_frees};
    end

    logic                leaves, is_line, frees;
    logic [LOG_TAGS-1:0] tag;
    logic [2:0]          number;
    assign leaves = consumer != committed;
    assign {tag, number, is_line, frees} = entries[consumer[LOG_LINES-1:0]];
    ram_1w1r #(.BITS(512), .LOG_DEPTH(LOG_LINES)) lines (
        .clk, .write_valid(store_valid), .write_at(producer[LOG_LINES-1:0]), .write_data(store_line),
        .read_at(consumer[LOG_LINES-1:0]), .read_data(dma_line)
    );
    ram_1w1r #(.BITS(card_pkg::TAG_BITS), .LOG_DEPTH(LOG_TAGS + 3)) names (
        .clk, .write_valid(name_valid), .write_at(name_at), .write_data(name_tag), .read_at({tag, number}),
        .read_data(dma_line_tag)
    );
    always_ff @(posedge clk) begin
        producer <= stored;
        if (commit_valid) committed <= stored;
        for (int n = 0; n < 1 << LOG_LINES; n++)
            if (commit_valid && LOG_LINES'(n) - committed[LOG_LINES-1:0] < LOG_LINES'(stored - committed))
                is_bad[n] <= commit_error;
        consumer <= consumer + (LOG_LINES + 1)'(leaves);
        dma_line_valid <= leaves && is_line;
        dma_line_error <= is_bad[consumer[LOG_LINES-1:0]];
        done_valid <= leaves && frees;
        done_tag <= tag;
        if (rst) begin
            producer <= '0;
            committed <= '0;
            consumer <= '0;
            dma_line_valid <= 1'b0;
            done_valid <= 1'b0;
        end
    end

    logic [LOG_LINES:0] occupied;
    assign occupied = producer - consumer;
    always_ff @(posedge clk) begin
        if (!rst && store_valid) assert (!occupied[LOG_LINES]);
    end
endmodule

`default_nettype wire

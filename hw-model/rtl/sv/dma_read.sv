// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// DMA reads of whole lines, of several clients.
//
// Ports: client n has bit n of read_valid and read_ready, its IOVA and the index of the line among
// its reads; it gets its lines with its bit of line_valid, in any order, and always takes them.
// Outside, dma_* has one tag per read: card_pkg::read_tag_t. `rst` is the power-on reset, `reset` the
// reset of the function. `drained`: the reset may end.
// Invariants: clients begin reads in round-robin order; none is begun in a reset or while `stopped`;
// a line whose tag belongs to an earlier epoch is dropped; no tag is reused before its line has come,
// because a reset waits for the reads from before the previous reset.
module dma_read #(
    parameter int CLIENTS = 8
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic                  reset,
    input  logic                  stopped,
    output logic                  drained,

    input  logic [CLIENTS-1:0]    read_valid,
    output logic [CLIENTS-1:0]    read_ready,
    input  logic [64*CLIENTS-1:0] read_iova,
    input  logic [card_pkg::LOG_READS*CLIENTS-1:0] read_index,
    output logic [CLIENTS-1:0]    line_valid,
    output logic                  line_error,
    output logic [card_pkg::LOG_READS-1:0] line_index,
    output logic [511:0]          line,

    output logic                  dma_read_valid,
    input  logic                  dma_read_ready,
    output logic [63:0]           dma_read_iova,
    output logic [card_pkg::TAG_BITS-1:0] dma_read_tag,
    input  logic                  dma_line_valid,
    input  logic                  dma_line_error,
    input  logic [card_pkg::TAG_BITS-1:0] dma_line_tag,
    input  logic [511:0]          dma_line
);
    localparam int LOG_CLIENTS = $clog2(CLIENTS);
    localparam int OUT_BITS = card_pkg::LOG_READS + 4;          // outstanding reads of an epoch: each has a tag

    logic                   epoch;
    logic [LOG_CLIENTS-1:0] client;
    logic                   is_any, begins;
    turns #(.CLIENTS(CLIENTS)) arbiter (
        .clk, .rst(reset), .wants(read_valid), .taken(begins), .chosen(client), .is_any
    );

    assign dma_read_valid = is_any && !reset && !stopped;
    assign dma_read_iova = {read_iova[64*client + 6 +: 58], 6'b0};
    assign dma_read_tag = {epoch, 3'(client), read_index[card_pkg::LOG_READS*client +: card_pkg::LOG_READS]};
    assign begins = dma_read_valid && dma_read_ready;
    always_comb begin
        read_ready = '0;
        read_ready[client] = begins;
    end

    // ------------------------------------------------------------------------------ lines that come
    card_pkg::read_tag_t came;
    assign came = dma_line_tag;            // a struct of vectors, so no cast to an enum is needed
    assign line_error = dma_line_error;
    assign line_index = came.index;
    assign line = dma_line;
    always_comb begin
        line_valid = '0;
        line_valid[LOG_CLIENTS'(came.client)] = dma_line_valid && came.epoch == epoch && !reset;
    end

    // ---------------------------------------------------------------------------------------- epochs
    logic [OUT_BITS-1:0] out [2];
    logic                was_reset;
    assign drained = was_reset && out[epoch] == '0;
    always_ff @(posedge clk) begin
        was_reset <= reset;
        if (reset && !was_reset) epoch <= !epoch;
        for (int n = 0; n < 2; n++)
            out[n] <= out[n] + OUT_BITS'(begins && epoch == 1'(n))
                             - OUT_BITS'(dma_line_valid && came.epoch == 1'(n));
        if (rst) begin
            epoch <= 1'b0;
            was_reset <= 1'b1;
            out[0] <= '0;
            out[1] <= '0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && dma_line_valid) assert (out[came.epoch] != '0);
        if (!rst && dma_read_valid) assert (out[epoch] != '1);
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// A memory with one write port and one read port.
//
// Ports: `read_data` is the word at `read_at` of the previous cycle; a word that is written in that
// cycle is read with its old value. Contents after power-on are not defined.
module ram_1w1r #(
    parameter int BITS = 64,
    parameter int LOG_DEPTH = 8
) (
    input  logic                 clk,
    input  logic                 write_valid,
    input  logic [LOG_DEPTH-1:0] write_at,
    input  logic [BITS-1:0]      write_data,
    input  logic [LOG_DEPTH-1:0] read_at,
    output logic [BITS-1:0]      read_data
);
    logic [BITS-1:0] words [1 << LOG_DEPTH];

    always_ff @(posedge clk) begin
        if (write_valid) words[write_at] <= write_data;
    end
    always_ff @(posedge clk) read_data <= words[read_at];
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// A memory with two ports: one that writes and reads at the same address, and one that reads.
//
// Ports: `data` is the word at `at` of the previous cycle, `read_data` the word at `read_at`; a word
// that is written in that cycle is read with its old value. Contents after power-on are not defined.
module ram_1rw1r #(
    parameter int BITS = 64,
    parameter int LOG_DEPTH = 8
) (
    input  logic                 clk,
    input  logic                 write_valid,
    input  logic [LOG_DEPTH-1:0] at,
    input  logic [BITS-1:0]      write_data,
    output logic [BITS-1:0]      data,
    input  logic [LOG_DEPTH-1:0] read_at,
    output logic [BITS-1:0]      read_data
);
    logic [BITS-1:0] words [1 << LOG_DEPTH];

    always_ff @(posedge clk) begin
        if (write_valid) words[at] <= write_data;
    end
    always_ff @(posedge clk) begin
        data <= words[at];
        read_data <= words[read_at];
    end
endmodule

`default_nettype wire

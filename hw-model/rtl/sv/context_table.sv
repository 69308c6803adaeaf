// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Contexts of queues on the chip: a RAM with a registered read, and a bit for each existing queue.
//
// Ports: `word` and `exists` belong to `index` of the previous cycle. `write` replaces the context of
// `index`. Nothing exists after a reset.
module context_table #(
    parameter int BITS = 64,
    parameter int LOG_ENTRIES = 4
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic [LOG_ENTRIES-1:0] index,
    output logic                   exists,
    output logic [BITS-1:0]        word,
    input  logic                   write,
    input  logic                   write_exists,
    input  logic [BITS-1:0]        write_word
);
    logic [BITS-1:0]            words [1 << LOG_ENTRIES];
    logic [(1<<LOG_ENTRIES)-1:0] created;

    always_ff @(posedge clk) begin
        if (write) words[index] <= write_word;
    end
    always_ff @(posedge clk) word <= words[index];
    always_ff @(posedge clk) begin
        exists <= created[index];
        if (write) created[index] <= write_exists;
        if (rst) created <= '0;
    end
endmodule

`default_nettype wire

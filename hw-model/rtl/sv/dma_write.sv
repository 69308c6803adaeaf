// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Posted writes of several clients: DMA writes of parts of a line, and MSI-X messages, in the order
// in which they were taken.
//
// Ports: client n has its write_t in `client_writes` and bit n of write_ready; its line is whole and
// aligned to 64 bytes. `write_error` comes with write_ready: the host has no memory there. A message
// is a write of four bytes with its vector. Outside, dma_* has `dma_write_message` for one.
// Client LAST may still write while `stopped`: event queue 0 reports why the function stopped.
// Invariants: clients take turns; nothing is written in a reset; an offered write does not change
// before it is taken. `ready` follows dma_write_ready in the same cycle, so that the error does.
module dma_write #(
    parameter int CLIENTS = 5,
    parameter int LAST = CLIENTS - 1
) (
    input  logic                   clk,
    input  logic                   reset,
    input  logic                   stopped,

    input  logic [card_pkg::WRITE_BITS*CLIENTS-1:0] client_writes,   // a write_t each
    output logic [CLIENTS-1:0]     write_ready,
    output logic                   write_error,

    input  logic                   message_valid,
    output logic                   message_ready,
    input  logic [63:0]            message_address,   // a multiple of four
    input  logic [31:0]            message_data,
    input  logic [3:0]             message_vector,

    output logic                   dma_write_valid,
    input  logic                   dma_write_ready,
    input  logic                   dma_write_error,
    output logic [63:0]            dma_write_iova,
    output logic [511:0]           dma_write_line,
    output logic [63:0]            dma_write_strobe,
    output logic                   dma_write_message,
    output logic [3:0]             dma_write_vector
);
    wire unused_inputs = &{1'b0, message_address};
    localparam int LOG_ALL = $clog2(CLIENTS + 1);

    logic [CLIENTS-1:0]     write_valid;
    logic [64*CLIENTS-1:0]  write_iova, write_strobe;
    logic [512*CLIENTS-1:0] write_line;
    always_comb begin
        for (int n = 0; n < CLIENTS; n++)
            {write_valid[n], write_iova[64*n +: 64], write_line[512*n +: 512], write_strobe[64*n +: 64]} =
                client_writes[card_pkg::WRITE_BITS*n +: card_pkg::WRITE_BITS];
    end

    logic [LOG_ALL-1:0] chosen;
    logic [CLIENTS:0]   wants;             // the last one: a message
    logic               is_any, taken;
    always_comb begin
        wants = {message_valid, write_valid};
        for (int n = 0; n < CLIENTS; n++)
            if (stopped && n != LAST) wants[n] = 1'b0;
    end
    turns #(.CLIENTS(CLIENTS + 1)) arbiter (.clk, .rst(reset || stopped), .wants, .taken, .chosen, .is_any);
    // The arbiter may still hold the turn of a client that stopped.
    assign dma_write_valid = is_any && wants[chosen] && !reset;
    assign taken = dma_write_valid && dma_write_ready;
    assign write_error = dma_write_error;
    assign message_ready = taken && dma_write_message;
    assign dma_write_vector = message_vector;

    // A message is a write of four bytes at any place in a line.
    logic [511:0] message_line;
    logic [63:0]  message_strobe;
    always_comb begin
        message_line = {16{message_data}};
        message_strobe = '0;
        message_strobe[{message_address[5:2], 2'b00} +: 4] = '1;
    end

    always_comb begin
        write_ready = '0;
        dma_write_message = chosen == LOG_ALL'(CLIENTS);
        dma_write_iova = {message_address[63:6], 6'b0};
        dma_write_line = message_line;
        dma_write_strobe = message_strobe;
        for (int n = 0; n < CLIENTS; n++)
            if (chosen == LOG_ALL'(n)) begin
                write_ready[n] = taken;
                dma_write_iova = {write_iova[64*n + 6 +: 58], 6'b0};
                dma_write_line = write_line[512*n +: 512];
                dma_write_strobe = write_strobe[64*n +: 64];
            end
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// First in, first out, in a block RAM: one clock, 2^LOG_DEPTH words and a registered read.
//
// Ports: s_* takes a word, m_* gives the oldest one, both with ready and valid, as in fifo. A word is
// available two cycles after it was taken. `idle`: it is empty.
// Invariants: words leave unchanged, in order, each once; no word is taken when it is full; m_data
// holds while m_valid waits for m_ready.
module block_fifo #(
    parameter int BITS = 64,
    parameter int LOG_DEPTH = 5
) (
    input  logic            clk,
    input  logic            rst,
    input  logic            s_valid,
    output logic            s_ready,
    input  logic [BITS-1:0] s_data,
    output logic            m_valid,
    input  logic            m_ready,
    output logic [BITS-1:0] m_data,
    output logic            idle
);
    logic [BITS-1:0]    words [1 << LOG_DEPTH];
    logic [LOG_DEPTH:0] producer, consumer, next_consumer;   // free-running

    assign idle = producer == consumer;
    assign s_ready = producer != {!consumer[LOG_DEPTH], consumer[LOG_DEPTH-1:0]};
    assign next_consumer = m_valid && m_ready ? consumer + 1'b1 : consumer;

    always_ff @(posedge clk) begin
        if (s_valid && s_ready) words[producer[LOG_DEPTH-1:0]] <= s_data;
    end
    always_ff @(posedge clk) m_data <= words[next_consumer[LOG_DEPTH-1:0]];
    always_ff @(posedge clk) begin
        if (s_valid && s_ready) producer <= producer + 1'b1;
        consumer <= next_consumer;
        m_valid <= next_consumer != producer;
        if (rst) begin
            producer <= '0;
            consumer <= '0;
            m_valid <= 1'b0;
        end
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// First in, first out: one clock, 2^LOG_DEPTH words.
//
// Ports: s_* takes a word, m_* gives the oldest one, both with ready and valid. A word that was taken
// is available in the next cycle.
// Invariants (proved in formal/fifo.sv): words leave unchanged, in order, each once; no word is taken
// when it is full; m_data holds while m_valid waits for m_ready.
module fifo #(
    parameter int BITS = 64,
    parameter int LOG_DEPTH = 4
) (
    input  logic            clk,
    input  logic            rst,
    input  logic            s_valid,
    output logic            s_ready,
    input  logic [BITS-1:0] s_data,
    output logic            m_valid,
    input  logic            m_ready,
    output logic [BITS-1:0] m_data
);
    logic [BITS-1:0]    words [1 << LOG_DEPTH];
    logic [LOG_DEPTH:0] producer, consumer;   // free-running; one bit more than a place

    logic is_full;
    assign is_full = producer == {!consumer[LOG_DEPTH], consumer[LOG_DEPTH-1:0]};
    assign s_ready = !is_full;
    assign m_valid = producer != consumer;
    assign m_data = words[consumer[LOG_DEPTH-1:0]];

    always_ff @(posedge clk) begin
        if (s_valid && s_ready) words[producer[LOG_DEPTH-1:0]] <= s_data;
    end
    always_ff @(posedge clk) begin
        if (s_valid && s_ready) producer <= producer + 1'b1;
        if (m_valid && m_ready) consumer <= consumer + 1'b1;
        if (rst) begin
            producer <= '0;
            consumer <= '0;
        end
    end
endmodule

`default_nettype wire

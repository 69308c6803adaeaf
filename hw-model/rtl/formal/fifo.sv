// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Goal: words leave unchanged, in order, each once. Method: the solver chooses a position in the
// sequence of all words, and the word that enters there must leave there. There are enough steps for
// the indices to wrap.
module proof (
    input logic       clk,
    input logic       rst,
    input logic       s_valid,
    input logic [1:0] s_data,
    input logic       m_ready
);
    logic       s_ready, m_valid;
    logic [1:0] m_data;
    fifo #(.BITS(2), .LOG_DEPTH(1)) dut (.clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);

    (* anyconst *) logic [4:0] chosen;
    logic       started = 1'b0;
    logic [4:0] taken, given;      // words so far
    logic [1:0] kept, last_data;
    logic       was_waiting;
    always @(posedge clk) begin
        started <= 1'b1;
        assume (started || rst);
        was_waiting <= !rst && m_valid && !m_ready;
        last_data <= m_data;
        if (rst) begin
            taken <= '0;
            given <= '0;
        end else begin
            assume (taken != 5'h1f);       // the counters of the proof do not wrap
            if (s_valid && s_ready) begin
                taken <= taken + 1'b1;
                if (taken == chosen) kept <= s_data;
            end
            if (m_valid && m_ready) given <= given + 1'b1;
        end
        if (started && !rst) begin
            assert (taken - given <= 5'd2);
            assert (s_ready == (taken - given < 5'd2));
            assert (m_valid == (taken != given));
            if (m_valid && given == chosen) assert (m_data == kept);
            if (was_waiting) assert (m_valid && m_data == last_data);
        end
    end
endmodule

`default_nettype wire

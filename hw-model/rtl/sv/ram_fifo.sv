// First in, first out, as fifo.sv, with a memory that is read with a register: block RAM. A word that
// was taken is given two cycles later.
//
// Ports: s_* takes a word, m_* gives the oldest one, both with ready and valid; `idle`: it is empty.
// Invariants: words leave as they came, in order, each once; no word is taken when it is full; m_data
// holds while m_valid waits for m_ready.
module ram_fifo #(
    parameter int BITS = 64,
    parameter int LOG_DEPTH = 6
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
    logic [LOG_DEPTH:0] producer, consumer;   // free-running; one bit more than a place
    logic               reads;

    assign s_ready = producer != {!consumer[LOG_DEPTH], consumer[LOG_DEPTH-1:0]};
    assign idle = producer == consumer && !m_valid;
    assign reads = producer != consumer && (!m_valid || m_ready);

    always_ff @(posedge clk) begin
        if (s_valid && s_ready) words[producer[LOG_DEPTH-1:0]] <= s_data;
    end
    always_ff @(posedge clk) begin
        if (reads) m_data <= words[consumer[LOG_DEPTH-1:0]];
    end
    always_ff @(posedge clk) begin
        if (s_valid && s_ready) producer <= producer + 1'b1;
        if (reads) consumer <= consumer + 1'b1;
        if (reads || m_ready) m_valid <= reads;
        if (rst) begin
            producer <= '0;
            consumer <= '0;
            m_valid <= 1'b0;
        end
    end
endmodule

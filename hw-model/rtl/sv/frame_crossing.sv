// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// A FIFO of whole frames between two clocks, as of the card and a MAC. The count of each side reaches
// the other side in Gray code, two cycles of that side's clock later: only one bit changes at a time,
// so a value in transition is the old or the new count.
//
// Ports: s_* takes beats, m_* gives them. `s_drop` abandons the frame that is being taken: the next
// beat begins another one. `rst` may change at any time; each side leaves its reset with its clock,
// after at least two edges, and no clock has to run before.
// Invariants: frames leave unchanged, in order, each once, and only after all of their beats have come:
// m_valid does not fall inside a frame. m_data holds while m_valid waits for m_ready. With WAITS, a
// beat that is not taken waits; without it, a frame that does not fit is dropped whole. A frame is not
// longer than 2^LOG_DEPTH beats.
module frame_crossing #(
    parameter int BITS = 512,
    parameter int LOG_DEPTH = 9,
    parameter bit WAITS = 1'b1
) (
    input  logic            rst,
    input  logic            s_clk,
    input  logic            s_drop,
    input  logic            s_valid,
    output logic            s_ready,
    input  logic [BITS-1:0] s_data,
    input  logic            s_last,
    input  logic            m_clk,
    output logic            m_valid,
    input  logic            m_ready,
    output logic [BITS-1:0] m_data,
    output logic            m_last
);
    localparam int COUNT_BITS = LOG_DEPTH + 1;   // of free-running counts: a bit more than an index
    localparam logic [COUNT_BITS-1:0] DEPTH = COUNT_BITS'(1 << LOG_DEPTH);

    logic [BITS:0] beats [1 << LOG_DEPTH];
    logic [COUNT_BITS-1:0] frames_gray, read_gray;   // whole frames that were taken; beats that were read

    // ------------------------------------------------------------------------------- the taking side
    logic [1:0] s_reset;
    always_ff @(posedge s_clk or posedge rst) begin
        if (rst) s_reset <= '1;
        else s_reset <= {s_reset[0], 1'b0};
    end
    logic [COUNT_BITS-1:0] read_first, read_seen, read_count, written, committed, frames, next_frames;
    always_comb begin
        for (int n = 0; n < COUNT_BITS; n++) read_count[n] = ^(read_seen >> n);
    end
    logic   skips, takes, overflows;
    assign s_ready = !s_reset[1] && written - read_count != DEPTH;
    assign next_frames = frames + 1'b1;
    assign takes = s_valid && s_ready && !skips && !s_drop;
    assign overflows = !WAITS && s_valid && !s_ready && !skips;
    always_ff @(posedge s_clk) begin
        if (takes) beats[written[LOG_DEPTH-1:0]] <= {s_last, s_data};
    end
    always_ff @(posedge s_clk) begin
        read_first <= read_gray;
        read_seen <= read_first;
        if (takes) written <= written + 1'b1;
        if (takes && s_last) begin
            committed <= written + 1'b1;
            frames <= next_frames;
            frames_gray <= next_frames ^ (next_frames >> 1);
        end
        if (overflows || s_drop) written <= committed;
        skips <= (skips || overflows) && !(s_valid && s_last) && !s_drop;
        if (s_reset[1]) begin
            read_first <= '0;
            read_seen <= '0;
            written <= '0;
            committed <= '0;
            frames <= '0;
            frames_gray <= '0;
            // A source that does not wait may be inside a frame when the reset ends.
            skips <= !WAITS && !s_drop && (s_valid ? !s_last : skips);
        end
    end

    // ------------------------------------------------------------------------------- the giving side
    // m_last of the beat before says whether the next one begins a frame.
    logic [1:0] m_reset;
    always_ff @(posedge m_clk or posedge rst) begin
        if (rst) m_reset <= '1;
        else m_reset <= {m_reset[0], 1'b0};
    end
    logic [COUNT_BITS-1:0] frames_first, frames_seen, read, next_read, begun, begun_gray;
    logic   reads;
    assign begun_gray = begun ^ (begun >> 1);
    assign next_read = read + 1'b1;
    assign reads = (!m_valid || m_ready) && (!m_last || begun_gray != frames_seen);
    always_ff @(posedge m_clk) begin
        if (m_reset[1]) {m_last, m_data} <= {1'b1, BITS'(0)};
        else if (reads) {m_last, m_data} <= beats[read[LOG_DEPTH-1:0]];
    end
    always_ff @(posedge m_clk) begin
        frames_first <= frames_gray;
        frames_seen <= frames_first;
        if (m_ready) m_valid <= 1'b0;
        if (reads) begin
            m_valid <= 1'b1;
            read <= next_read;
            read_gray <= next_read ^ (next_read >> 1);
            if (m_last) begun <= begun + 1'b1;
        end
        if (m_reset[1]) begin
            frames_first <= '0;
            frames_seen <= '0;
            m_valid <= 1'b0;
            read <= '0;
            read_gray <= '0;
            begun <= '0;
        end
    end

    always_ff @(posedge s_clk) begin
        if (!s_reset[1] && takes) assert (written - committed != DEPTH);
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Joins lines that the card writes to memory write TLPs of at most MPS, and gives them as beats: the
// descriptor of PG213's requester request interface in the first four dwords, then the payload.
//
// Ports: write_* takes lines; `written` is the number of lines that were taken, modulo 2^COUNT_BITS.
// beat_* gives the TLPs; beat_lines is the number of lines in the TLP, beat_dwords the number of valid
// dwords in the beat, beat_enables the last and the first byte enables.
// Invariants: bytes leave in the order in which they came, each once; a TLP does not cross 4 KiB and
// is not longer than MPS; after the first beat of a TLP there is no gap, because PG213 forbids it. A
// line waits at most HOLD cycles for the next one if no other TLP is waiting.
module pcie_write_requests #(
    parameter int COUNT_BITS = 12,
    parameter int HOLD = 2
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [1:0]   cfg_max_payload,  // of Device Control: 128, 256, 512, 1024 bytes

    input  logic         write_valid,
    output logic         write_ready,
    input  logic [63:0]  write_iova,
    input  logic [511:0] write_line,
    input  logic [63:0]  write_strobe,
    output logic [COUNT_BITS-1:0] written,
    output logic         idle,

    output logic         beat_valid,
    input  logic         beat_ready,
    output logic [511:0] beat_data,
    output logic [4:0]   beat_dwords,
    output logic         beat_first,
    output logic         beat_last,
    output logic [7:0]   beat_enables,
    output logic [3:0]   beat_lines
);
    wire unused_inputs = &{1'b0, write_iova};
    localparam int DWORDS = 16;            // of a line
    localparam int LOG_LINES = 5;          // of the buffer: more than two TLPs
    localparam int LOG_REQUESTS = 3;
    localparam int DWORDS_MAX = 128;       // of a TLP

    // ---------------------------------------------------------------- the line that is joined next
    logic [DWORDS-1:0] is_written;
    logic [3:0]        first, last;        // dwords with a written byte
    always_comb begin
        for (int n = 0; n < DWORDS; n++) is_written[n] = |write_strobe[4*n +: 4];
        first = '0;
        last = '0;
        for (int n = DWORDS - 1; n >= 0; n--)
            if (is_written[n]) first = 4'(n);
        for (int n = 0; n < DWORDS; n++)
            if (is_written[n]) last = 4'(n);
    end

    logic         held, joins, takes;
    logic [63:6]  held_address;
    logic [511:0] held_line;
    logic [3:0]   held_first;
    logic [4:0]   held_dwords;
    logic [7:0]   held_enables;            // of its last dword, of its first dword
    logic         held_from_start, held_to_end;
    assign write_ready = !rst && (!held || joins);
    assign takes = write_valid && write_ready && is_written != '0;
    always_ff @(posedge clk) begin
        if (joins) held <= 1'b0;
        if (takes) begin
            held <= 1'b1;
            written <= written + 1'b1;
            held_address <= write_iova[63:6];
            held_line <= write_line;
            held_first <= first;
            held_dwords <= {1'b0, last} - {1'b0, first} + 1'b1;
            held_enables <= {write_strobe[{last, 2'b0} +: 4], write_strobe[{first, 2'b0} +: 4]};
            held_from_start <= write_strobe[0];
            held_to_end <= write_strobe[63];
        end
        if (rst) begin
            held <= 1'b0;
            written <= '0;
        end
    end

    // ------------------------------------------------------------------------------ the open request
    logic        open, grows, continues, closes;
    logic [63:2] address;
    logic [63:6] next;                     // address of the line that may follow
    logic [7:0]  dwords, dwords_max;
    logic [7:0]  enables;
    logic [3:0]  lines;
    logic [1:0]  waited;
    logic        line_ready, request_ready, request_valid, is_full;
    assign dwords_max = cfg_max_payload[1] ? 8'(DWORDS_MAX) : 8'd32 << cfg_max_payload[0];
    assign continues = open && grows && held_address == next && held_from_start && dwords + 8'(held_dwords) <= dwords_max;
    assign is_full = !grows || dwords >= dwords_max;
    // It stays open while others wait, because a longer TLP costs the link less.
    assign closes = open && request_ready
                    && (held ? !continues : is_full || (waited == 2'(HOLD) && !request_valid));
    assign joins = held && line_ready && (!open || continues || closes);
    always_ff @(posedge clk) begin
        if (closes) open <= 1'b0;
        if (!held && waited != 2'(HOLD)) waited <= waited + 1'b1;
        if (joins) begin
            open <= 1'b1;
            waited <= '0;
            // Only whole lines in the middle, and no line after the end of 4 KiB.
            grows <= held_to_end && held_address[11:6] != '1;
            next <= held_address + 1'b1;
            enables[7:4] <= held_enables[7:4];
            if (continues) begin
                dwords <= dwords + 8'(held_dwords);
                lines <= lines + 1'b1;
            end else begin
                address <= {held_address, held_first};
                dwords <= 8'(held_dwords);
                lines <= 4'd1;
                enables[3:0] <= held_enables[3:0];
            end
        end
        if (rst) open <= 1'b0;
    end

    logic         line_valid, line_taken, lines_idle, request_taken;
    logic [511:0] line;
    logic [63:2]  request_address;
    logic [7:0]   request_dwords, request_enables;
    logic [3:0]   request_lines;
    block_fifo #(.BITS(512), .LOG_DEPTH(LOG_LINES)) line_buffer (
        .clk, .rst, .s_valid(joins), .s_ready(line_ready), .s_data(held_line), .m_valid(line_valid),
        .m_ready(line_taken), .m_data(line), .idle(lines_idle)
    );
    // A request of one dword has no last byte enables (PCIe base specification, 2.2.5).
    fifo #(.BITS(62 + 8 + 8 + 4), .LOG_DEPTH(LOG_REQUESTS)) requests (
        .clk, .rst, .s_valid(closes), .s_ready(request_ready),
        .s_data({address, dwords, dwords == 8'd1 ? 4'b0 : enables[7:4], enables[3:0], lines}),
        .m_valid(request_valid), .m_ready(request_taken),
        .m_data({request_address, request_dwords, request_enables, request_lines})
    );
    assign idle = !held && !open && !request_valid && lines_idle && !beat_valid;

    // ------------------------------------------------------------------------------------- its beats
    // Dword n of the TLP is dword n + first - 4 of its lines, so that a beat has parts of two lines.
    // When the first written dword is one of the first four of a line, they are the line of the beat
    // and the one before; else they are the line of the beat, which is loaded ahead, and the next one.
    logic          begun, loaded, loads, gives, has_line;
    logic [3:0]    lines_left, lines_now, shift;
    logic [8:0]    left, left_now;         // dwords
    logic [511:0]  previous, beat;
    logic [127:0]  descriptor;
    assign lines_now = begun || loaded ? lines_left : request_lines;
    assign left_now = begun ? left : {1'b0, request_dwords} + 9'd4;
    assign has_line = lines_now != '0;
    assign loads = request_valid && request_address[5:4] != '0 && !begun && !loaded && line_valid;
    assign gives = request_valid && (request_address[5:4] == '0 || loaded) && (line_valid || !has_line)
                   && (!beat_valid || beat_ready);
    assign line_taken = loads || (gives && has_line);
    assign request_taken = gives && left_now <= 9'(DWORDS);
    assign shift = request_address[5:2] - 4'd4;
    assign beat = 512'({line, previous} >> {shift, 5'b0});
    always_comb begin
        descriptor = '0;
        descriptor[63:2] = request_address;
        descriptor[74:64] = {3'b0, request_dwords};
        descriptor[78:75] = 4'd1;          // memory write
    end
    always_ff @(posedge clk) begin
        if (beat_ready) beat_valid <= 1'b0;
        if (line_taken) begin
            previous <= line;
            lines_left <= lines_now - 1'b1;
        end
        if (loads) loaded <= 1'b1;
        if (gives) begin
            beat_valid <= 1'b1;
            beat_data <= {beat[511:128], begun ? beat[127:0] : descriptor};
            beat_dwords <= request_taken ? left_now[4:0] : 5'(DWORDS);
            beat_first <= !begun;
            beat_last <= request_taken;
            beat_enables <= request_enables;
            beat_lines <= request_lines;
            begun <= !request_taken;
            if (request_taken) loaded <= 1'b0;
            left <= left_now - 9'(DWORDS);
        end
        if (rst) begin
            beat_valid <= 1'b0;
            begun <= 1'b0;
            loaded <= 1'b0;
        end
    end

    // Lines are aligned. The bytes of a write are contiguous, because byte enables of a TLP with
    // three or more dwords cannot express more.
    logic [63:0] above;
    assign above = (write_strobe | (write_strobe - 1'b1)) + 1'b1;
    always_ff @(posedge clk) begin
        if (takes) assert (write_iova[5:0] == '0 && (above & write_strobe) == '0);
        if (!rst && begun) assert (request_valid && (line_valid || !has_line));
        if (!rst && request_taken) assert (lines_now == 4'(has_line));
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// A FIFO between two clocks. Each side sees the position of the other one in Gray code, two cycles
// of its own clock late: only one bit changes at a time, so a value in transition is the old or the
// new position.
//
// An item is written in a cycle with `write_valid` and `write_ready`, and read in one with
// `read_valid` and `read_ready`. The power-on state is an empty FIFO.
module clock_crossing #(
    parameter int LOG_ITEMS = 4
) (
    input  wire logic            write_clk,
    input  wire logic            write_valid,
    output logic                 write_ready,
    input  wire item_pkg::item_t write_item,
    input  wire logic            read_clk,
    output logic                 read_valid,
    input  wire logic            read_ready,
    output item_pkg::item_t      read_item
);
    // One bit more than an index: a full FIFO differs from an empty one.
    typedef logic [LOG_ITEMS:0] position_t;

    function automatic position_t gray(input position_t position);
        return position ^ (position >> 1);
    endfunction

    item_pkg::item_t items [2**LOG_ITEMS];

    position_t written = '0, written_gray = '0;
    position_t read = '0, read_gray = '0;
    position_t written_first = '0, written_seen = '0; // in the clock of the reader
    position_t read_first = '0, read_seen = '0;       // in the clock of the writer

    // Full: the writer is one turn ahead. In Gray code, the two highest bits differ then.
    localparam position_t TURN = position_t'(3) << (LOG_ITEMS - 1);
    assign write_ready = written_gray != (read_seen ^ TURN);
    assign read_valid = read_gray != written_seen;
    assign read_item = items[read[LOG_ITEMS-1:0]];

    always_ff @(posedge write_clk) begin
        {read_seen, read_first} <= {read_first, read_gray};
        if (write_valid && write_ready) begin
            items[written[LOG_ITEMS-1:0]] <= write_item;
            written <= written + 1'b1;
            written_gray <= gray(written + 1'b1);
        end
    end

    always_ff @(posedge read_clk) begin
        {written_seen, written_first} <= {written_first, written_gray};
        if (read_valid && read_ready) begin
            read <= read + 1'b1;
            read_gray <= gray(read + 1'b1);
        end
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Counts the frames between the wire and host memory. A wire that can wait, such as a simulated one,
// sends no frame while `room` is low; then the receive buffer drops none.
//
// Ports: `comes` pulses with the last beat of a frame, `dropped` for a dropped frame; `frames_done`
// is scatter's.
// Invariant: each frame is dropped or done, once.
module rx_credits #(
    parameter int FRAMES = 8               // the longest ones fit into the receive buffer
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        comes,
    input  logic        dropped,
    input  logic [15:0] frames_done,
    output logic        room
);
    localparam int BITS = $clog2(FRAMES) + 2;
    logic [BITS-1:0] held;
    logic [15:0]     last_done;
    assign room = held < BITS'(FRAMES);
    always_ff @(posedge clk) begin
        last_done <= frames_done;
        held <= held + BITS'(comes) - BITS'(dropped) - BITS'(frames_done - last_done);
        if (rst) begin
            held <= '0;
            last_done <= '0;
        end
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Passes events of several sources to event_writer in round-robin order, and the event that reports
// that the function has stopped.
//
// Ports: source n has bit n of event_valid and event_ready, and its part of `events` (a card_pkg::event_t
// each). `stops` is a pulse.
// Invariant: an offered event does not change before it is taken.
module event_turns #(
    parameter int SOURCES = 2
) (
    input  logic               clk,
    input  logic               rst,
    input  logic [SOURCES-1:0] event_valid,
    output logic [SOURCES-1:0] event_ready,
    input  logic [SOURCES*card_pkg::EVENT_BITS-1:0] events,
    input  logic               stops,
    output logic               next_valid,
    input  logic               next_ready,
    output card_pkg::event_t   next_event,
    output logic               idle
);
    localparam int BITS = card_pkg::EVENT_BITS;
    localparam int LOG_ALL = $clog2(SOURCES + 1);

    logic               has_stopped, taken;
    logic [LOG_ALL-1:0] chosen;
    turns #(.CLIENTS(SOURCES + 1)) arbiter (
        .clk, .rst, .wants({has_stopped, event_valid}), .taken, .chosen, .is_any(next_valid)
    );
    assign taken = next_valid && next_ready;
    assign idle = !next_valid;
    always_comb begin
        event_ready = '0;
        next_event = '0;
        next_event.event_type = ferroce_pkg::EVENT_TYPE_DEVICE_FATAL;
        for (int n = 0; n < SOURCES; n++)
            if (chosen == LOG_ALL'(n)) begin
                event_ready[n] = taken;
                next_event = events[BITS*n +: BITS];
            end
    end
    always_ff @(posedge clk) begin
        if (taken && chosen == LOG_ALL'(SOURCES)) has_stopped <= 1'b0;
        if (stops) has_stopped <= 1'b1;
        if (rst) has_stopped <= 1'b0;
    end
endmodule

`default_nettype wire

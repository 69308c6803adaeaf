// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Free numbers: FIRST to `capacity` - 1 after a reset. The number that was free for longest is
// allocated next, so that a late access to an old object finds none.
//
// Ports: `free_valid` and `free_number` offer a number, `take` takes it; give_* gives one back.
// Invariant: no number is allocated again before it was freed.
module free_list #(
    parameter int BITS = 8,
    parameter int FIRST = 0
) (
    input  logic            clk,
    input  logic            rst,
    input  logic [BITS:0]   capacity,
    output logic            free_valid,
    output logic [BITS-1:0] free_number,
    input  logic            take,
    input  logic            give_valid,
    input  logic [BITS-1:0] give_number
);
    // Numbers that were never allocated come first; freed numbers wait in a ring.
    logic [BITS:0]   unused, producer, consumer;
    logic [BITS-1:0] ring [1 << BITS];
    logic            is_fresh;
    assign is_fresh = unused < capacity;
    assign free_valid = is_fresh || producer != consumer;
    assign free_number = is_fresh ? unused[BITS-1:0] : ring[consumer[BITS-1:0]];
    always_ff @(posedge clk) begin
        if (give_valid) ring[producer[BITS-1:0]] <= give_number;
    end
    always_ff @(posedge clk) begin
        if (give_valid) producer <= producer + 1'b1;
        if (take && is_fresh) unused <= unused + 1'b1;
        if (take && !is_fresh) consumer <= consumer + 1'b1;
        if (rst) begin
            unused <= (BITS + 1)'(FIRST);
            producer <= '0;
            consumer <= '0;
        end
    end

    always_ff @(posedge clk) begin
        if (!rst && take) assert (free_valid);
        if (!rst && give_valid) assert (producer != {!consumer[BITS], consumer[BITS-1:0]});
    end
endmodule

`default_nettype wire

// Where a PSN stands as seen from an expected one: PSNs are numbers modulo 2^24, of which the lower
// half of the circle is new and the upper half is old (IBTA vol 1, 9.7.2).
//
// Ports: exactly one of the three outputs is set; `distance` is how far `psn` is ahead, or behind.
// Combinational.
// Invariants (proved in formal/psn_compare.sv): the answer depends on the difference alone; what is
// new seen from one side is old seen from the other, but half the circle away.
module psn_compare (
    input  logic [23:0] psn,
    input  logic [23:0] expected,
    output logic        is_expected,
    output logic        is_ahead,
    output logic        is_behind,
    output logic [23:0] distance
);
    logic [23:0] ahead;
    assign ahead = psn - expected;
    assign is_expected = ahead == '0;
    assign is_behind = ahead[23];
    assign is_ahead = !is_expected && !is_behind;
    assign distance = is_behind ? 24'd0 - ahead : ahead;
endmodule

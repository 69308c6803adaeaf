// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Compares a PSN with the expected one: PSNs are numbers modulo 2^24; the half of the circle after
// the expected PSN is new, the other half is old (IBTA vol 1, 9.7.2).
//
// Ports: exactly one of the three outputs is set; `distance` is how far `psn` is ahead, or behind.
// Combinational.
// Invariants (proved in formal/psn_compare.sv): the answer depends only on the difference; if one PSN
// is new for the other, the other is old for it, except at a distance of half the circle.
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

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// CRC-32 of Ethernet (reflected) of 64 bytes, from the state zero: 32 parities of 512 bits.
//
// Ports: byte i of the beat is data[8*i +: 8], byte 0 first. Combinational.
// Invariants used elsewhere: the CRC is linear; zero bytes leave the state zero; the state before a
// beat may be XORed into the first four bytes that are covered. So a CRC that begins anywhere in a
// beat needs no shifter.
module crc32_512 (
    input  logic [511:0] data,
    output logic [31:0]  crc
);
    localparam logic [31:0] POLYNOMIAL = 32'hedb88320;

    // Returns the data bits that contribute to bit j of the result. Data bit p contributes the
    // polynomial, advanced by the bits after it.
    function automatic [511:0] row(input [4:0] j);
        logic [31:0] contribution;
        contribution = POLYNOMIAL;
        for (int p = 511; p >= 0; p--) begin
            row[p] = contribution[j];
            contribution = contribution[0] ? (contribution >> 1) ^ POLYNOMIAL : contribution >> 1;
        end
    endfunction

    for (genvar j = 0; j < 32; j++) begin : g_row
        localparam logic [511:0] ROW = row(5'(j));
        assign crc[j] = ^(data & ROW);
    end
endmodule

`default_nettype wire

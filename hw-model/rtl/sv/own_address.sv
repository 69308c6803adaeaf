// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Whether a frame is for this card: compares its destination with the GID table.
//
// Ports: `mac` is the board's, a plain number; `gids` and `gid_macs` are all entries, first octets in
// the lowest bits. `destination` is as roce_rx gives it. `to_gid[n]`: the frame is for the address of
// entry n, at its MAC address or the board's. Combinational.
// Invariant: an entry without an address is no destination.
module own_address (
    input  logic [47:0]  mac,
    input  logic [card_pkg::GIDS*128-1:0] gids,
    input  logic [card_pkg::GIDS*48-1:0]  gid_macs,

    input  logic [47:0]  destination_mac,  // first octet in bits 7:0
    input  logic         is_v6,
    input  logic [127:0] destination,
    output logic [card_pkg::GIDS-1:0] to_gid
);
    logic [127:0] address;                 // as in the GID table: IPv4 is ::ffff:a.b.c.d
    logic [47:0]  board_mac;
    always_comb begin
        for (int i = 0; i < 16; i++) begin
            if (is_v6) address[8*i +: 8] = destination[8*(15-i) +: 8];
            else if (i < 10) address[8*i +: 8] = 8'h00;
            else if (i < 12) address[8*i +: 8] = 8'hff;
            else address[8*i +: 8] = destination[8*(15-i) +: 8];
        end
        for (int i = 0; i < 6; i++) board_mac[8*i +: 8] = mac[8*(5-i) +: 8];
        for (int n = 0; n < card_pkg::GIDS; n++) begin
            to_gid[n] = gids[128*n +: 128] == address && address != '0
                && (destination_mac == board_mac || destination_mac == gid_macs[48*n +: 48]);
        end
    end
endmodule

`default_nettype wire

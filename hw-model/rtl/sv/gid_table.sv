// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The GID table: source addresses of the function.
//
// Ports: write_* sets an entry; reader n gives its part of `index` and gets GID, MAC and VLAN in the
// same cycle, first octets in the lowest bits. `all_gids` and `all_macs` are all entries.
// Invariant: after a reset no entry has an address.
module gid_table #(
    parameter int READERS = 3
) (
    input  logic                                clk,
    input  logic                                rst,
    input  logic                                write_valid,
    input  logic [card_pkg::LOG_GIDS-1:0]       write_index,
    input  card_pkg::address_t                  write_address,
    input  logic [READERS*card_pkg::LOG_GIDS-1:0] index,
    output logic [READERS*128-1:0]              gid,
    output logic [READERS*48-1:0]               mac,
    output logic [READERS*16-1:0]               vlan,
    output logic [card_pkg::GIDS*128-1:0]       all_gids,
    output logic [card_pkg::GIDS*48-1:0]        all_macs
);
    localparam int BITS = card_pkg::LOG_GIDS;
    localparam int ENTRIES = card_pkg::GIDS;
    logic [127:0] gids [ENTRIES];
    logic [47:0]  macs [ENTRIES];
    logic [15:0]  vlans [ENTRIES];
    for (genvar n = 0; n < READERS; n++) begin : g_reader
        assign gid[128*n +: 128] = gids[index[BITS*n +: BITS]];
        assign mac[48*n +: 48] = macs[index[BITS*n +: BITS]];
        assign vlan[16*n +: 16] = vlans[index[BITS*n +: BITS]];
    end
    for (genvar n = 0; n < ENTRIES; n++) begin : g_entry
        assign all_gids[128*n +: 128] = gids[n];
        assign all_macs[48*n +: 48] = macs[n];
    end
    always_ff @(posedge clk) begin
        for (int n = 0; n < ENTRIES; n++)
            if (rst || (write_valid && write_index == BITS'(n))) begin
                gids[n] <= rst ? '0 : write_address.gid;
                macs[n] <= rst ? '0 : write_address.mac;
                vlans[n] <= rst ? '0 : write_address.vlan;
            end
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// What the FIFO holds.
package item_pkg;
    typedef struct packed {
        logic [7:0] source;
        logic       last;
    } tag_t;

    typedef struct packed {
        tag_t        tag;
        logic [47:0] address;
        logic [23:0] bytes;
    } item_t;
endpackage

`default_nettype wire

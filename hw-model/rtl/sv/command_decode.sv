// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Decodes an opcode: whether the card has the command, the bytes of its mailboxes, and the part of
// the engine that executes it: `part` is the kind of object, bits 6:4 of the opcode. Combinational.
module command_decode (
    input  logic [15:0] opcode,
    output logic        known,
    output logic [8:0]  wanted_in,
    output logic [8:0]  wanted_out,
    output logic [2:0]  part
);
    always_comb begin
        known = 1'b1;
        wanted_in = '0;
        wanted_out = '0;
        part = opcode[6:4];
        case (opcode)
            ferroce_pkg::COMMAND_OPCODE_NOP, ferroce_pkg::COMMAND_OPCODE_DESTROY_EQ,
            ferroce_pkg::COMMAND_OPCODE_DESTROY_CQ, ferroce_pkg::COMMAND_OPCODE_DESTROY_QP,
            ferroce_pkg::COMMAND_OPCODE_DESTROY_MR: ;
            ferroce_pkg::COMMAND_OPCODE_QUERY_DEVICE: wanted_out = 9'(ferroce_pkg::OUTPUT_BYTES_QUERY_DEVICE);
            ferroce_pkg::COMMAND_OPCODE_SET_CONTEXT_TABLES:
                wanted_in = 9'(ferroce_pkg::INPUT_BYTES_SET_CONTEXT_TABLES);
            ferroce_pkg::COMMAND_OPCODE_SET_ADDRESS: wanted_in = 9'(ferroce_pkg::INPUT_BYTES_SET_ADDRESS);
            ferroce_pkg::COMMAND_OPCODE_QUERY_ADDRESS: wanted_out = 9'(ferroce_pkg::OUTPUT_BYTES_QUERY_ADDRESS);
            ferroce_pkg::COMMAND_OPCODE_CREATE_EQ, ferroce_pkg::COMMAND_OPCODE_MODIFY_EQ:
                wanted_in = 9'(ferroce_pkg::INPUT_BYTES_CREATE_EQ);
            ferroce_pkg::COMMAND_OPCODE_QUERY_EQ: wanted_out = 9'(ferroce_pkg::OUTPUT_BYTES_QUERY_EQ);
            ferroce_pkg::COMMAND_OPCODE_CREATE_CQ, ferroce_pkg::COMMAND_OPCODE_MODIFY_CQ:
                wanted_in = 9'(ferroce_pkg::INPUT_BYTES_CREATE_CQ);
            ferroce_pkg::COMMAND_OPCODE_QUERY_CQ: wanted_out = 9'(ferroce_pkg::OUTPUT_BYTES_QUERY_CQ);
            ferroce_pkg::COMMAND_OPCODE_CREATE_QP: wanted_in = 9'(ferroce_pkg::INPUT_BYTES_CREATE_QP);
            ferroce_pkg::COMMAND_OPCODE_MODIFY_QP: wanted_in = 9'(ferroce_pkg::INPUT_BYTES_MODIFY_QP);
            ferroce_pkg::COMMAND_OPCODE_QUERY_QP: wanted_out = 9'(ferroce_pkg::OUTPUT_BYTES_QUERY_QP);
            ferroce_pkg::COMMAND_OPCODE_CREATE_MR, ferroce_pkg::COMMAND_OPCODE_MODIFY_MR:
                wanted_in = 9'(ferroce_pkg::INPUT_BYTES_CREATE_MR);
            ferroce_pkg::COMMAND_OPCODE_QUERY_MR: wanted_out = 9'(ferroce_pkg::OUTPUT_BYTES_QUERY_MR);
            default: known = 1'b0;
        endcase
    end
endmodule

`default_nettype wire

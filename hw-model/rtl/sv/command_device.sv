// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Commands on the function: NOP, QUERY_DEVICE, SET_CONTEXT_TABLES, SET_ADDRESS, QUERY_ADDRESS.
//
// Ports: start .. answer as in command_queue. log_* are the sizes of the context tables, zero before
// SET_CONTEXT_TABLES; `has_tables` is set after it. entry_* passes memory_unit its two tables. gid_*
// writes and reads gid_table.
// Invariant: the context tables are set once.
module command_device (
    input  logic          clk,
    input  logic          rst,
    input  logic [23:8]   qpn_base,
    input  logic          start,
    input  logic [15:0]   opcode,
    input  logic [63:0]   argument,
    input  logic [639:0]  mail,
    output logic          done,
    output card_pkg::outcome_t outcome,
    output logic [1023:0] answer,

    output logic          has_tables,
    output logic [3:0]    log_qps,
    output logic [3:0]    log_cqs,
    output logic [3:0]    log_mrs,
    output logic [4:0]    log_mtts,

    output logic          entry_valid,
    input  logic          entry_ready,
    output logic [2:0]    entry_op,
    output logic [63:0]   entry_base,
    output logic [4:0]    entry_log,
    input  logic          entry_done,

    output logic                         gid_write,
    output logic [card_pkg::LOG_GIDS-1:0] gid_index,
    output logic [127:0]                 gid_to_write,
    output logic [47:0]                  mac_to_write,
    output logic [15:0]                  vlan_to_write,
    input  logic [127:0]                 gid,
    input  logic [47:0]                  mac,
    input  logic [15:0]                  vlan
);
    logic [7:0]  status;
    logic [31:0] syndrome;
    logic [63:0] result;
    assign outcome = {status, syndrome, result};
    localparam logic [2:0] OP_TABLE = 3'd5, OP_PAGES_TABLE = 3'd6;   // of memory_unit
    localparam logic [7:0] LOG_TABLE_MIN = 8'd2;
    localparam logic [127:0] FIRMWARE = "ltr-0.1.0";                 // first octet in the lowest bits
    localparam logic [7:0] LOCAL_ACK_DELAY = 8'd4;                   // 4.096 us x 2^4: a busy host
    localparam int PAGE_SIZES = (1 << 12) | (1 << 21) | (1 << 30);

    ferroce_pkg::context_tables_t tables;
    ferroce_pkg::address_entry_t  address;
    wire unused_tables = &{1'b0, tables, address};
    ferroce_pkg::address_entry_t  present;
    assign tables = mail;
    assign address = mail[255:0];

    // ------------------------------------------------------------------------------------- constants
    ferroce_pkg::device_capabilities_t capabilities;
    always_comb begin
        capabilities = '0;
        capabilities.firmware_version = FIRMWARE;
        capabilities.qpn_base = {8'b0, qpn_base, 8'b0};
        capabilities.reserved_qps = 32'(card_pkg::RESERVED_QPS);
        capabilities.max_message_length = ferroce_pkg::WQE_MAX_MESSAGE_LENGTH;
        capabilities.max_mr_length = 64'd1 << (card_pkg::LOG_MTTS + 12);
        capabilities.page_sizes = 64'(PAGE_SIZES);
        capabilities.log_max_qps = 8'(card_pkg::LOG_QPS);
        capabilities.log_max_cqs = 8'(card_pkg::LOG_CQS);
        capabilities.log_max_mrs = 8'(card_pkg::LOG_MRS);
        capabilities.log_max_mtts = 8'(card_pkg::LOG_MTTS);
        capabilities.log_max_send_blocks = 8'(card_pkg::LOG_RING);
        capabilities.log_max_receives = 8'(card_pkg::LOG_RING);
        capabilities.log_max_cqes = 8'(card_pkg::LOG_RING);
        capabilities.log_max_eqes = 8'(card_pkg::LOG_RING);
        capabilities.max_data_segments = 8'(card_pkg::MAX_SEGMENTS);
        capabilities.max_send_blocks = 8'(ferroce_pkg::WQE_MAX_BLOCKS);
        capabilities.processing_units = 8'd1;
        capabilities.max_inline = 16'(ferroce_pkg::WQE_MAX_INLINE);
        capabilities.max_gids = 16'd1 << card_pkg::LOG_GIDS;
        capabilities.max_rd_atomic = 8'(card_pkg::MAX_RD_ATOMIC);
        capabilities.max_dest_rd_atomic = 8'(card_pkg::MAX_RD_ATOMIC);
        capabilities.local_ack_delay = LOCAL_ACK_DELAY;
        capabilities.max_path_mtu = ferroce_pkg::PATH_MTU_CODE_MTU_4096;
        capabilities.features[ferroce_pkg::DEVICE_FEATURES_RELIABLE_CONNECTED_LSB] = 1'b1;
        capabilities.features[ferroce_pkg::DEVICE_FEATURES_ATOMICS_LSB] = 1'b1;
        capabilities.features[ferroce_pkg::DEVICE_FEATURES_UNRELIABLE_DATAGRAM_LSB] = 1'b1;
        capabilities.features[ferroce_pkg::DEVICE_FEATURES_GENERAL_SERVICE_INTERFACE_LSB] = 1'b1;
        capabilities.features[ferroce_pkg::DEVICE_FEATURES_CHOSEN_NUMBERS_LSB] = 1'b1;
        capabilities.log_resident_qps = 8'(card_pkg::LOG_QPS);
    end
    always_comb begin
        present = '0;
        present.gid = gid;
        present.mac = mac;
        present.vlan = vlan;
    end

    // ---------------------------------------------------------------------------- sizes of the tables
    function automatic logic is_size(input [7:0] log_size, input [7:0] log_max);
        is_size = log_size >= LOG_TABLE_MIN && log_size <= log_max;
    endfunction
    logic [31:0] bad_size;                 // offset of the first size that cannot be; zero: none
    always_comb begin
        bad_size = '0;
        if (tables.log_srqs != '0) bad_size = 32'(ferroce_pkg::CONTEXT_TABLES_LOG_SRQS_OFFSET);
        if (!is_size(tables.log_mtts, 8'(card_pkg::LOG_MTTS)))
            bad_size = 32'(ferroce_pkg::CONTEXT_TABLES_LOG_MTTS_OFFSET);
        if (!is_size(tables.log_mrs, 8'(card_pkg::LOG_MRS))) bad_size = 32'(ferroce_pkg::CONTEXT_TABLES_LOG_MRS_OFFSET);
        if (!is_size(tables.log_cqs, 8'(card_pkg::LOG_CQS))) bad_size = 32'(ferroce_pkg::CONTEXT_TABLES_LOG_CQS_OFFSET);
        if (!is_size(tables.log_qps, 8'(card_pkg::LOG_QPS))) bad_size = 32'(ferroce_pkg::CONTEXT_TABLES_LOG_QPS_OFFSET);
    end

    typedef enum logic [2:0] {IDLE, JUDGE, MPT, MPT_SET, MTT, MTT_SET, ANSWER} step_t;
    step_t step;
    logic  is_gid;
    assign is_gid = argument < 64'd1 << card_pkg::LOG_GIDS;
    assign gid_index = argument[card_pkg::LOG_GIDS-1:0];
    assign gid_to_write = address.gid;
    assign mac_to_write = address.mac;
    assign vlan_to_write = address.vlan;
    assign gid_write = step == JUDGE && opcode == ferroce_pkg::COMMAND_OPCODE_SET_ADDRESS && is_gid;
    assign entry_valid = step == MPT || step == MTT;
    assign entry_op = step == MPT ? OP_TABLE : OP_PAGES_TABLE;
    assign entry_base = step == MPT ? tables.mpt_base : tables.mtt_base;
    assign entry_log = step == MPT ? tables.log_mrs[4:0] : tables.log_mtts[4:0];
    assign done = step == ANSWER;
    assign result = argument;
    assign answer = opcode == ferroce_pkg::COMMAND_OPCODE_QUERY_DEVICE ? capabilities : {768'b0, present};

    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                status <= ferroce_pkg::COMMAND_STATUS_SUCCESS;
                syndrome <= '0;
                if (start) step <= JUDGE;
            end
            JUDGE: begin
                step <= ANSWER;
                case (opcode)
                    ferroce_pkg::COMMAND_OPCODE_SET_ADDRESS, ferroce_pkg::COMMAND_OPCODE_QUERY_ADDRESS:
                        if (!is_gid) status <= ferroce_pkg::COMMAND_STATUS_NO_OBJECT;
                    ferroce_pkg::COMMAND_OPCODE_SET_CONTEXT_TABLES:
                        if (has_tables) status <= ferroce_pkg::COMMAND_STATUS_BAD_STATE;
                        else if (bad_size != '0) begin
                            status <= ferroce_pkg::COMMAND_STATUS_BAD_PARAMETER;
                            syndrome <= bad_size;
                        end else step <= MPT;
                    default: ;
                endcase
            end
            MPT: if (entry_ready) step <= MPT_SET;
            MPT_SET: if (entry_done) step <= MTT;
            MTT: if (entry_ready) step <= MTT_SET;
            MTT_SET: if (entry_done) begin
                has_tables <= 1'b1;
                log_qps <= tables.log_qps[3:0];
                log_cqs <= tables.log_cqs[3:0];
                log_mrs <= tables.log_mrs[3:0];
                log_mtts <= tables.log_mtts[4:0];
                step <= ANSWER;
            end
            default: step <= IDLE;
        endcase
        if (rst) begin
            step <= IDLE;
            has_tables <= 1'b0;
        end
    end
endmodule

`default_nettype wire

// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// MODIFY_QP: checks a ModifyQp against the current QP, and computes the new QP. Combinational.
//
// Ports: `head` is the header (state, current_state, mask), `context_` the attributes. `gid` is entry
// `gid_index` of the GID table. `is_gsi`: the QP is the GSI.
module qp_modify (
    input  logic [95:0]   head,
    input  logic [2047:0] context_,        // what CREATE_QP sets
    input  card_pkg::qp_t qp,
    input  logic          is_gsi,
    output logic [card_pkg::LOG_GIDS-1:0] gid_index,
    input  logic [127:0]  gid,
    output logic [7:0]    status,
    output logic [31:0]   syndrome,
    output card_pkg::qp_t changed
);
    wire unused_inputs = &{1'b0, context_};
    localparam logic [95:0] IPV4_PREFIX = {16'hffff, 80'b0};   // ::ffff:0:0, first octet in the lowest bits

    logic [31:0] to, current;
    logic        legal, complete;
    ferroce_pkg::qp_attribute_mask_t mask;
    ferroce_pkg::qp_context_t        asked;
    ferroce_pkg::address_path_t      path;
    wire unused_mask = &{1'b0, mask, asked, path};
    assign to = head[31:0];
    assign current = head[63:32];
    assign mask = head[95:64];
    assign asked = context_;
    assign path = asked.path;
    qp_transition transition (.is_datagram(qp.is_datagram), .from(qp.state), .to, .mask(head[79:64]), .legal, .complete);

    // ----------------------------------------------------------------------------------------- values
    logic is_path, is_mtu;
    assign gid_index = path.source_gid_index[card_pkg::LOG_GIDS-1:0];
    assign is_path = path.source_gid_index[15:card_pkg::LOG_GIDS] == '0 && gid != '0 && path.dest_gid != '0
                  && (gid[95:0] == IPV4_PREFIX) == (path.dest_gid[95:0] == IPV4_PREFIX);
    assign is_mtu = asked.path_mtu >= ferroce_pkg::PATH_MTU_CODE_MTU_256
                 && asked.path_mtu <= ferroce_pkg::PATH_MTU_CODE_MTU_4096;
    logic [31:0] bad_at;                   // of the first value that cannot be; zero: none
    always_comb begin
        bad_at = '0;
        if (mask.max_dest_rd_atomic && asked.max_dest_rd_atomic > 8'(card_pkg::MAX_RD_ATOMIC))
            bad_at = 32'(ferroce_pkg::MODIFY_QP_CONTEXT_OFFSET + ferroce_pkg::QP_CONTEXT_MAX_DEST_RD_ATOMIC_OFFSET);
        if (mask.max_rd_atomic && asked.max_rd_atomic > 8'(card_pkg::MAX_RD_ATOMIC))
            bad_at = 32'(ferroce_pkg::MODIFY_QP_CONTEXT_OFFSET + ferroce_pkg::QP_CONTEXT_MAX_RD_ATOMIC_OFFSET);
        if (mask.q_key && is_gsi && asked.q_key != ferroce_pkg::CONTEXT_GSI_Q_KEY)
            bad_at = 32'(ferroce_pkg::MODIFY_QP_CONTEXT_OFFSET + ferroce_pkg::QP_CONTEXT_Q_KEY_OFFSET);
        if (mask.path_mtu && !is_mtu)
            bad_at = 32'(ferroce_pkg::MODIFY_QP_CONTEXT_OFFSET + ferroce_pkg::QP_CONTEXT_PATH_MTU_OFFSET);
        if (mask.p_key && asked.p_key_index != '0)
            bad_at = 32'(ferroce_pkg::MODIFY_QP_CONTEXT_OFFSET + ferroce_pkg::QP_CONTEXT_P_KEY_INDEX_OFFSET);
        if (mask.port && asked.port != 8'd1)
            bad_at = 32'(ferroce_pkg::MODIFY_QP_CONTEXT_OFFSET + ferroce_pkg::QP_CONTEXT_PORT_OFFSET);
        if (mask.path && !is_path)
            bad_at = 32'(ferroce_pkg::MODIFY_QP_CONTEXT_OFFSET + ferroce_pkg::QP_CONTEXT_PATH_OFFSET);
    end
    always_comb begin
        status = ferroce_pkg::COMMAND_STATUS_SUCCESS;
        syndrome = '0;
        if (current != ferroce_pkg::COMMAND_ANY_STATE && current != 32'(qp.state)) begin
            status = ferroce_pkg::COMMAND_STATUS_BAD_TRANSITION;
            syndrome = current;
        end else if (!complete) begin
            status = ferroce_pkg::COMMAND_STATUS_BAD_PARAMETER;
            syndrome = head[95:64];
        end else if (!legal) begin
            status = ferroce_pkg::COMMAND_STATUS_BAD_TRANSITION;
            syndrome = to;
        end else if (bad_at != '0) begin
            status = ferroce_pkg::COMMAND_STATUS_BAD_PARAMETER;
            syndrome = bad_at;
        end
    end

    // ------------------------------------------------------------------------------- the QP it becomes
    always_comb begin
        changed = qp;
        changed.state = to[2:0];
        if (mask.access) changed.access = {asked.access.remote_atomic, asked.access.remote_read,
                                           asked.access.remote_write, 1'b0};
        if (mask.path_mtu) changed.path_mtu = asked.path_mtu[2:0];
        if (mask.q_key) changed.q_key = asked.q_key;
        if (mask.timeout) changed.timeout = asked.retry.timeout;
        if (mask.retry_count) changed.retry_count = asked.retry.retry_count;
        if (mask.rnr_retry) changed.rnr_retry = asked.retry.rnr_retry;
        if (mask.min_rnr_timer) changed.min_rnr_timer = asked.retry.min_rnr_timer;
        if (mask.max_rd_atomic) changed.max_rd_atomic = asked.max_rd_atomic[4:0];
        if (mask.max_dest_rd_atomic) changed.max_dest_rd_atomic = asked.max_dest_rd_atomic[4:0];
        if (mask.dest_qpn) changed.dest_qpn = asked.dest_qpn[23:0];
        if (mask.path) begin
            changed.path.dest_gid = path.dest_gid;
            changed.path.dest_mac = path.dest_mac;
            changed.path.vlan = path.vlan;
            changed.path.source_gid_index = path.source_gid_index[7:0];
            changed.path.udp_source_port = path.udp_source_port;
            changed.path.traffic_class = path.traffic_class;
            changed.path.hop_limit = path.hop_limit;
            changed.path.service_level = path.service_level[3:0];
            changed.path.flow_label = path.flow_label[19:0];
        end
        if (to[2:0] == 3'(ferroce_pkg::QP_STATE_CODE_RESET)) begin
            changed.access = '0;
            changed.q_key = '0;
            changed.path_mtu = '0;
            changed.timeout = '0;
            changed.retry_count = '0;
            changed.rnr_retry = '0;
            changed.min_rnr_timer = '0;
            changed.max_rd_atomic = '0;
            changed.max_dest_rd_atomic = '0;
            changed.dest_qpn = '0;
            changed.path = '0;
        end
    end
endmodule

`default_nettype wire

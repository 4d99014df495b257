// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Outcome, Phase, Receipt, StructHashes} from "../src/libraries/Types.sol";
import {Certificates} from "./Certificates.sol";

/// @title What everybody does to disputes beside voting, allowed or not
abstract contract CourtActions is Certificates {
    /// @dev At once: enough for the breaker, few enough that a look at all of them is cheap; and in one run.
    uint256 private constant MOST_LIVE = 6;
    uint256 private constant MOST_DISPUTES = 40;

    /// @dev One step of one dispute, at the right time or not.
    function meddle(uint256 what, uint256 which, uint256 who) external step {
        what = spread(what) % 8;
        bytes32 id = pick(which);
        if (what == 0) {
            _post(which, who);
        } else if (what == 1) {
            _open(which, who, uint8(spread(who)));
        } else if (what == 2) {
            may(personAt(who), address(settlement), 0, abi.encodeCall(settlement.payOut, (id)), "payOut");
        } else if (id == 0) {
            return;
        } else if (what == 3) {
            _draw(id, who, who % 6);
        } else if (what == 4) {
            _rearm(id, rarely(who));
        } else if (what == 5) {
            _appeal(id, who);
        } else if (what == 6) {
            _finalize(id, who, rarely(who));
        } else {
            _settleSeats(id, spread(who), who);
        }
    }

    /// @dev A receipt and somebody who questions it at once.
    function accuse(uint256 who, uint256 by, uint8 expects) external step {
        if (_crowded() || !_post(who, 2)) return;
        _open(receipts.length - 1, by, expects);
    }

    function _crowded() internal view returns (bool) {
        return live.length >= MOST_LIVE || ids.length >= MOST_DISPUTES;
    }

    function _post(uint256 who, uint256 value) internal returns (bool ok) {
        address operator = operatorOf(who);
        Receipt memory r = receipt(operator, anchor.lastSeq(operator) + 1, ENVIRONMENT);
        r.keyEpoch = epochs.activeEpoch();
        // One in four lies about its tokens and keeps the true outHash.
        if (r.seq % 4 == 3) r.tokensHash = "altered";
        bytes32 id = anchor.receiptId(r);
        bytes32 leaf = StructHashes.batchLeaf(id, r.seq);
        uint64 batchId = anchor.batchCount();
        // More than the fee comes back, less is refused.
        uint256 fee = market.feeFor(1) + value % 3 - 1;
        // Before the call: what it locks is counted in it.
        unreleased.push(receipts.length);
        placeOf[id] = receipts.length;
        receipts.push(Anchored(r, signature(r), batchId));
        ok = may(operator, address(anchor), fee, abi.encodeCall(anchor.post, (headerOf(r, 1, leaf))), "post");
        if (ok) return true;
        receipts.pop();
        unreleased.pop();
    }

    function _open(uint256 which, uint256 who, uint8 expects) internal {
        if (receipts.length == 0 || _crowded()) return;
        Anchored memory a = receipts[which % receipts.length];
        address by = who % 7 == 0 ? personAt(who) : challengerAt(who);
        bytes32 id = disputes.disputeId(anchor.receiptId(a.r));
        bytes32 alt = disputes.altCommitOf(id, by, _expected(id, expects), "salt");
        bytes memory data = abi.encodeCall(disputes.open, (a.r, a.sig, a.batchId, none(), alt));
        may(by, address(disputes), params.requiredBond(anchor.batch(a.batchId).paramsVersion), data, "open");
    }

    // --- draw ---

    /// @dev The header of a dispute's seed block; as somebody imagines it, of a block that is not over or forgotten.
    function _headerOf(bytes32 id, uint256 salt) internal returns (bytes memory) {
        uint256 number = roundOf(id).seedBlock;
        bool known = block.number > number && block.number <= number + 256;
        if (known && saltOf[number] == 0) saltOf[number] = keccak256(abi.encode("mix", salt));
        // Each time: what forge is told of a block lasts for one action.
        return known ? minted(number, saltOf[number]) : header(number, saltOf[number]);
    }

    function _draw(bytes32 id, uint256 who, uint256 count) internal {
        bytes memory rlp = _headerOf(id, who);
        if (rarely(who)) {
            // Who dislikes a seed brings another one.
            bytes memory other = header(roundOf(id).seedBlock, "another");
            bytes memory forged = abi.encodeCall(disputes.draw, (id, count, other));
            that(!_tries(personAt(who), address(disputes), forged), "a seed that is not of the chain");
        }
        may(personAt(who), address(disputes), 0, abi.encodeCall(disputes.draw, (id, count, rlp)), "draw");
    }

    function _rearm(bytes32 id, bool wait) internal {
        if (wait && _waits(id)) reach(uint256(roundOf(id).seedBlock) + EPOCH_BLOCKS);
        may(personAt(uint256(id)), address(disputes), 0, abi.encodeCall(disputes.rearm, (id)), "rearm");
    }

    // --- after the votes ---

    function _settle(bytes32 id, uint256 who, bool wait) internal {
        if (wait && disputes.phaseOf(id) == Phase.REVEAL) until(uint256(roundOf(id).revealEnd) + 1);
        may(personAt(who), address(disputes), 0, abi.encodeCall(disputes.settle, (id)), "settle");
    }

    function _appeal(bytes32 id, uint256 who) internal {
        Phase phase = disputes.phaseOf(id);
        if ((phase != Phase.APPEAL && phase != Phase.AIRGAP) || looks[id].level == parameters().committee.rounds) {
            return;
        }
        uint256 bond = disputes.appealBond(id);
        may(personAt(who), address(disputes), bond, abi.encodeCall(disputes.appeal, (id)), "appeal");
    }

    function _openAlt(bytes32 id, uint256 who) internal {
        may(personAt(who), address(disputes), 0, abi.encodeCall(disputes.openAlt, (id, "salt")), "openAlt");
    }

    function _finalize(bytes32 id, uint256 who, bool wait) internal {
        Phase phase = disputes.phaseOf(id);
        if (wait && (phase == Phase.APPEAL || phase == Phase.AIRGAP)) {
            until(uint256(disputes.dispute(id).airgapEnd) + 1);
        }
        bytes memory data = abi.encodeCall(disputes.finalize, (id));
        if (phase < Phase.APPEAL) {
            return that(!_tries(personAt(who), address(disputes), data), "ends before it is decided");
        }
        may(personAt(who), address(disputes), 0, data, "finalize");
    }

    function _settleSeats(bytes32 id, uint256 round, uint256 count) internal {
        uint16 last = disputes.roundsOf(id);
        round = last == 0 ? 0 : 1 + round % last;
        bytes memory data = abi.encodeCall(settlement.settleSeats, (id, uint16(round), count % 8));
        may(personAt(count), address(settlement), 0, data, "settleSeats");
    }

    /// @dev The answer that a challenger expects: what the dispute is prone to, or those that most convictions find.
    function _expected(bytes32 id, uint8 expects) private pure returns (bytes32) {
        uint256 own = luck(id, 0, 0, "mood");
        if (own % 2 == 0 && expects >= 64) {
            Act memory act = choice(uint8(own >> 8));
            bytes32 out = act.outcome == Outcome.EXECUTED ? StructHashes.outHash(act.tokens, act.trace) : bytes32(0);
            return keccak256(abi.encode(act.outcome, act.code, out));
        }
        expects %= 4;
        if (expects == 0) return keccak256(abi.encode(Outcome.INVALID, uint8(1), bytes32(0)));
        if (expects == 1) return keccak256(abi.encode(Outcome.UNAVAILABLE, uint8(0), bytes32(0)));
        return keccak256(abi.encode(Outcome.EXECUTED, uint8(0), StructHashes.outHash("a", TRACE)));
    }

    function _waits(bytes32 id) internal view returns (bool) {
        Phase phase = disputes.phaseOf(id);
        return phase == Phase.SEED || phase == Phase.DRAWING;
    }
}

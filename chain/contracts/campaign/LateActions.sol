// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EmptyLeaf, Receipt, StructHashes} from "../src/libraries/Types.sol";
import {Onward} from "./Onward.sol";

/// @title Receipts that were given out and not anchored, and what may become of them
abstract contract LateActions is Onward {
    /// @dev One is demanded, once its promise is over, of some late because the pool stood still or something was closed.
    ///      Meanwhile the pool may stand still, something may be closed, the operator may leave; then it answers, or skips the
    ///      number, or does nothing, and whoever likes reports it and ends the demand, twice.
    function demandAnchor(uint256 which, uint256 who) internal {
        Receipt memory r = _late(which, who);
        bytes32 subject = demands.anchorSubject(anchor.receiptId(r));
        uint256 fate = uint256(keccak256(abi.encode(which, who, "fate")));
        _losesTime(fate);
        uint256 bond = params.money(params.version()).demandBond;
        bytes memory data = abi.encodeCall(demands.demandAnchor, (r, signature(r)));
        if (!may(personAt(who), address(demands), bond, data, "demandAnchor") || spread(who) % 3 == 0) return;
        uint256 stops = fate % 3 == 0 ? _quitAll() : 0;
        bool answers = fate >> 48 & 3 == 0;
        if (fate >> 8 & 3 != 0 && !answers) _shut(true, fate >> 16);
        if (fate >> 24 & 3 == 0 && !answers) _goHome(r.operator);
        pass(fate >> 32 & 4095);
        data = abi.encodeCall(demands.expire, (subject));
        may(personAt(fate), address(demands), 0, data, "expireEarly");
        bool skips = !answers && fate >> 96 & 1 == 0;
        // While the pool stands still too, and after what was closed has drained.
        if (skips && fate >> 99 & 1 == 0) pass(1 hours);
        if (skips) _skip(r, fate);
        _joinAll(stops);
        if (answers) _answerAnchor(r);
        until(uint256(demands.demand(subject).deadline) + 1);
        may(personAt(fate), address(demands), 0, data, "expireAnchor");
        _shut(false, fate >> 16);
        may(personAt(fate), address(demands), 0, data, "expireAgain");
    }

    /// @dev The promise of a receipt runs out while the pool stands still, or environment or model is closed, or neither, or
    ///      both.
    function _losesTime(uint256 fate) private {
        uint256 stops = fate >> 56 & 3 == 0 ? _quitAll() : 0;
        (bool shut, uint256 item) = (fate >> 80 & 3 == 0, fate >> 82 & 2);
        if (shut) _shut(true, item);
        pass(601 + (stops == 0 && !shut ? 0 : fate >> 64 & 16_383));
        _joinAll(stops);
        if (shut) _shut(false, item);
    }

    /// @dev Under the next number or the one after it, by the key of the time.
    function _late(uint256 which, uint256 who) private view returns (Receipt memory r) {
        address operator = operatorOf(which);
        r = receipt(operator, anchor.lastSeq(operator) + 1 + (rarely(who) ? 1 : 0), ENVIRONMENT);
        r.keyEpoch = epochs.activeEpoch();
        r.tokensHash = "given out";
    }

    /// @dev Verifiers leave until the pool cannot judge: a mask of those who did.
    function _quitAll() private returns (uint256 gone) {
        for (uint256 i = 0; i < VERIFIERS && registry.isSeatable(POOL); ++i) {
            bool ok = may(verifierOf(i), address(registry), 0, abi.encodeCall(registry.quit, ()), "quit for a demand");
            if (ok) gone |= 1 << i;
        }
    }

    function _joinAll(uint256 gone) private {
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            if (gone & (1 << i) == 0) continue;
            bytes memory data = abi.encodeCall(registry.join, (POOL, keccak256(abi.encode("platform", i)), MEASUREMENT));
            may(verifierOf(i), address(registry), 0, data, "rejoin");
        }
    }

    /// @dev Environment or model, or for good the key, which may have been stolen.
    function _shut(bool shut, uint256 what) private {
        bytes32 item = what % 4 < 2 ? ENVIRONMENT : MODEL;
        if (what % 4 == 3) {
            if (!shut) return;
            uint64 key = epochs.activeEpoch();
            bytes memory data =
                what >> 2 & 3 == 0 ? abi.encodeCall(epochs.compromise, (key)) : abi.encodeCall(epochs.drain, (key));
            may(address(this), address(epochs), 0, data, "end a key for good");
        } else if (shut) {
            may(address(this), address(registry), 0, abi.encodeCall(registry.close, (item)), "close");
        } else {
            may(address(this), address(registry), 0, abi.encodeCall(registry.activate, (item)), "reopen");
        }
    }

    /// @dev With all it has, if nothing keeps it.
    function _goHome(address operator) private {
        uint256 stake_ = vault.stakeOf(operator);
        may(operator, address(vault), 0, abi.encodeCall(vault.requestUnbond, (stake_)), "leaves a demand");
        until(uint256(guardian.clock()) + params.times(params.version()).unbondDelay + 1 hours);
        may(operator, address(vault), 0, abi.encodeCall(vault.finishUnbond, ()), "left a demand");
    }

    /// @dev The operator anchors the number as an empty leaf, and somebody shows the receipt; it may do so before or after the
    ///      demand ends.
    function _skip(Receipt memory r, uint256 fate) private {
        uint64 batchId = anchor.batchCount();
        bytes memory sig = signature(r);
        bytes32 empty = anchor.emptyLeafId(EmptyLeaf(r.operator, r.seq, block.chainid));
        if (!_postLate(r, StructHashes.batchLeaf(empty, r.seq))) return;
        if (fate >> 97 & 1 == 0) {
            until(uint256(demands.demand(demands.anchorSubject(anchor.receiptId(r))).deadline) + 1);
        }
        bytes memory data = abi.encodeCall(demands.expire, (demands.anchorSubject(anchor.receiptId(r))));
        if (fate >> 98 & 1 == 0) may(personAt(fate), address(demands), 0, data, "expireAnchor");
        data = abi.encodeCall(demands.reportSkipped, (r, sig, batchId, none()));
        may(personAt(fate >> 8), address(demands), 0, data, "reportSkipped");
        may(personAt(fate >> 8), address(demands), 0, data, "reportSkippedAgain");
    }

    function _answerAnchor(Receipt memory r) private {
        uint64 batchId = anchor.batchCount();
        bytes memory sig = signature(r);
        if (!_postLate(r, StructHashes.batchLeaf(anchor.receiptId(r), r.seq))) return;
        bytes memory data = abi.encodeCall(demands.answerAnchor, (r, sig, batchId, none()));
        may(r.operator, address(demands), 0, data, "answerAnchor");
    }

    /// @dev A batch of one leaf under the number of a receipt.
    function _postLate(Receipt memory r, bytes32 leaf) private returns (bool) {
        // Before the call: what it binds is counted in it.
        unreleased.push(receipts.length);
        placeOf[anchor.receiptId(r)] = receipts.length;
        receipts.push(Anchored(r, signature(r), anchor.batchCount()));
        bytes memory data = abi.encodeCall(anchor.post, (headerOf(r, 1, leaf)));
        if (may(r.operator, address(anchor), market.feeFor(1), data, "post late")) return true;
        receipts.pop();
        unreleased.pop();
        return false;
    }
}

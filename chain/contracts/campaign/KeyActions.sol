// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Vm} from "../test/Vm.sol";
import {AuditResult, StructHashes} from "../src/libraries/Types.sol";
import {IAudits} from "../src/interfaces/IAudits.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {Phase, Verdict} from "../src/libraries/Types.sol";
import {ShareActions} from "./ShareActions.sol";

/// @title Light audits and key epochs, and books of both
/// @dev Checks I32 VOUCHED, I33 BOUNTY.
abstract contract KeyActions is ShareActions {
    bytes32 private constant SALT = "audit";
    /// @dev Few, so that some of them find much in one hour.
    uint256 private constant AUDITORS = 6;

    /// @notice An audit as its events told it.
    struct Told {
        uint8 result;
        bytes32 commitment;
        bytes32 outHash; // 0 until opened
        bool paid;
    }

    mapping(bytes32 receiptId => mapping(address verifier => Told)) private _audits;
    mapping(bytes32 receiptId => mapping(bytes32 outHash => uint256)) private _agreeing;
    mapping(address verifier => mapping(uint256 hour => uint256)) private _bounties;
    mapping(uint64 epoch => IKeyEpochs.EpochState) private _states;
    mapping(uint64 epoch => uint256) private _endedAt;
    /// @dev Whether enough shards signed for shares of it, by events.
    mapping(uint64 epoch => bool) private _vouched;
    uint64 private _newest = 1;

    /// @dev Audits of the newest receipts; opened, paid; now and then another key.
    function lookAt(uint256 what, uint256 which, uint256 who) external step {
        if (what % 8 == 7) return rarely(which) ? _dealEnded(who) : deal(uint64(1 + which % _newest), who);
        if (what % 8 > 4) return _rekey(which, who);
        if (receipts.length == 0) return;
        if (what % 8 == 4 && spread(which) % 8 == 0) {
            _withhold(who);
        } else if (what % 8 == 4 && spread(which) % 4 == 2) {
            _changeMind(who);
        } else if (what % 8 == 4 && spread(which) % 4 == 1) {
            _copyVotes(who);
        } else if (what % 8 == 4) {
            may(personAt(who), address(audits), 0.01 ether, abi.encodeCall(audits.feed, ()), "feed");
        } else if (what % 8 < 2) {
            // One of the newest: the chain still knows its beacon.
            uint256 i = receipts.length - 1 - spread(which) % (receipts.length < 3 ? receipts.length : 3);
            for (uint256 k = 0; k < 4; ++k) {
                _audit(i, verifierOf((who / 2 + k) % AUDITORS));
            }
        } else {
            for (uint256 k = 0; k < receipts.length && k < 16; ++k) {
                _collect(receipts[(spread(which) + k) % receipts.length], who);
            }
        }
    }

    /// @dev The list of a batch that was audited is withheld, and its bounties are asked for all the same: nothing else would
    ///      often bring the two together. What the void batch costs its operator comes back, or soon nobody could anchor.
    function _withhold(uint256 who) private {
        may(operatorOf(who), address(vault), 15 ether, abi.encodeCall(vault.deposit, ()), "deposit");
        may(personAt(who), address(audits), 0.01 ether, abi.encodeCall(audits.feed, ()), "feed");
        if (!_post(who, 2)) return;
        uint256 i = receipts.length - 1;
        Anchored memory one = receipts[i];
        bytes32 id = anchor.receiptId(one.r);
        for (uint256 k = 0; k < AUDITORS; ++k) {
            _audit(i, verifierOf(k));
        }
        if (!_isAudited(id)) return;
        demandList(i, who);
        until(uint256(guardian.clock()) + parameters().times.cure + 1);
        bytes memory data = abi.encodeCall(demands.expire, (demands.listSubject(one.batchId)));
        may(personAt(who), address(demands), 0, data, "expire");
        until(uint256(anchor.windowEnd(id, one.batchId)) + 1);
        _collect(one, who);
    }

    /// @dev Whoever brought a result brings another one beside a dispute.
    function _changeMind(uint256 who) private {
        if (_crowded() || !(_post(who, 2) || _post(who % 3 + 1, 2) || _post(who % 3 + 2, 2))) return;
        uint256 i = receipts.length - 1;
        (bytes32 id, uint64 batchId) = (anchor.receiptId(receipts[i].r), receipts[i].batchId);
        address v = verifierOf(who % AUDITORS);
        _bring(id, batchId, v, v, SALT);
        _open(i, who, uint8(who));
        _bring(id, batchId, v, v, "another");
    }

    function _isAudited(bytes32 id) private view returns (bool) {
        uint256 count = 0;
        for (uint256 k = 0; k < AUDITORS; ++k) {
            if (_audits[id][verifierOf(k)].result == 1) ++count;
        }
        return count > 1;
    }

    /// @dev Most agree with the operator; what the others found, some of them found too. Some say the contrary of it.
    function _found(bytes32 id, address who) private view returns (bytes32 tokens, uint8 result) {
        uint256 own = uint256(keccak256(abi.encode(id, who, "audit")));
        bool lies = receipts[placeOf[id]].r.tokensHash != TOKENS;
        (tokens, result) = own % 3 == 0 ? (bytes32("a"), 2) : (TOKENS, lies ? 2 : 1);
        // Of those that lie half are called a match: it is the outHash that they found.
        if (own % 8 == 0 || (lies && own % 2 == 0)) result = 3 - result;
    }

    function _audit(uint256 i, address who) private {
        Anchored memory one = receipts[i];
        bytes32 id = anchor.receiptId(one.r);
        // Only the verifier itself may bring another one later.
        _bring(id, one.batchId, who, uint256(id) % 2 == 0 ? who : personAt(i), SALT);
    }

    /// @dev Anybody may bring a result, and say that the receipt is in this batch.
    function _bring(bytes32 receiptId, uint64 batchId, address who, address by, bytes32 salt) private {
        AuditResult memory a;
        a.receiptId = receiptId;
        a.verifier = who;
        bytes32 tokens;
        (tokens, a.result) = _found(a.receiptId, who);
        a.commitment = audits.commitmentOf(a.receiptId, who, tokens, TRACE, salt);
        a.auditedAt = uint64(block.timestamp);
        reach(anchor.batch(batchId).blockNumber + 3);
        bytes memory data = abi.encodeCall(audits.post, (a, signed(secretOf[who], audits.hashAudit(a)), batchId));
        may(by, address(audits), 0, data, "audit");
    }

    /// @dev Whatever was posted is opened and claimed.
    function _collect(Anchored memory one, uint256 who) private {
        bytes32 id = anchor.receiptId(one.r);
        for (uint256 i = 0; i < AUDITORS; ++i) {
            address v = verifierOf(i);
            // Seldom once more.
            if (_audits[id][v].result == 0 || (_audits[id][v].paid && !rarely(who))) continue;
            (bytes32 tokens,) = _found(id, v);
            bytes memory data = abi.encodeCall(audits.open, (id, v, tokens, TRACE, SALT));
            may(personAt(who), address(audits), 0, data, "openAudit");
            data = abi.encodeCall(audits.claim, (one.r, one.sig, none(), v));
            may(personAt(who), address(audits), 0, data, "claim");
        }
        if (rarely(who ^ uint256(id))) _again(id, who);
    }

    /// @dev Whoever has seen votes on a receipt brings their result, and says that a batch that has just begun holds it.
    function _copyVotes(uint256 who) private {
        bytes32 dispute = pick(who);
        if (said[dispute][1].length == 0 || !_post(who, 2)) return;
        bytes32 id = receiptIdOf[dispute];
        for (uint256 i = 0; i < AUDITORS; ++i) {
            address v = verifierOf(who % AUDITORS + i);
            if (_audits[id][v].result == 0) _bring(id, receipts[receipts.length - 1].batchId, v, v, SALT);
        }
    }

    /// @dev What is open stays, also where a batch that has just begun is said to hold the receipt.
    function _again(bytes32 id, uint256 who) private {
        for (uint256 i = 0; i < AUDITORS; ++i) {
            address v = verifierOf(who % AUDITORS + i);
            if (_audits[id][v].outHash == 0) continue;
            if (_post(who, 2)) _bring(id, receipts[receipts.length - 1].batchId, v, v, SALT);
            return;
        }
    }

    /// @dev A new key follows, an old one ends. The network is never long without one.
    function _rekey(uint256 which, uint256 who) private {
        uint64 active = epochs.activeEpoch();
        address by = who % 4 == 0 ? personAt(who) : address(this);
        uint64 some = uint64(1 + which % _newest);
        bytes memory data =
            rarely(which) ? abi.encodeCall(epochs.activate, (some)) : abi.encodeCall(epochs.retire, (some));
        if (active == 0 || spread(who) % 4 == 0) {
            data = _next(rarely(which) ? some : _newest + 1, who);
        } else if (rarely(who)) {
            data = rarely(which) ? abi.encodeCall(epochs.compromise, (some)) : abi.encodeCall(epochs.drain, (some));
        }
        that(!may(by, address(epochs), 0, data, "rekey") || by == address(this), "who rules keys");
        // Or hours later, before it may.
        for (uint64 epoch = 1; epoch <= _newest; ++epoch) {
            bool draining = _states[epoch] == IKeyEpochs.EpochState.DRAINING;
            if (!draining || guardian.clock() <= _endedAt[epoch] + 1 hours) continue;
            may(address(this), address(epochs), 0, abi.encodeCall(epochs.retire, (epoch)), "retire");
        }
        // Who wants a key gone tries at once, while disputes need it.
        bool over = active != 0 && epochs.activeEpoch() != active;
        if (over && live.length > 2) {
            may(address(this), address(epochs), 0, abi.encodeCall(epochs.retire, (active)), "retire");
        }
    }

    /// @dev The newest key, once enough signed for it; now and then governance does not wait for that. Or the next is announced.
    function _next(uint64 other, uint256 who) private returns (bytes memory data) {
        if (_states[_newest] != IKeyEpochs.EpochState.PENDING) return _opening(other);
        data = abi.encodeCall(epochs.activate, (_newest));
        if (_vouched[_newest]) return data;
        if (spread(who) >> 16 & 1 == 1) may(address(this), address(epochs), 0, data, "activate at once");
        confirm(_newest, who);
    }

    /// @dev A key that was never in use ends and is dealt: by chance alone few that have ended are, and with everybody's word.
    function _dealEnded(uint256 salt) private {
        if (!may(address(this), address(epochs), 0, _opening(_newest + 1), "open a key")) return;
        may(address(this), address(epochs), 0, abi.encodeCall(epochs.compromise, (_newest)), "end a key");
        for (uint256 k = 0; k < 4; ++k) {
            deal(_newest, salt ^ k);
        }
    }

    function _opening(uint64 epoch) private view returns (bytes memory) {
        IKeyEpochs.Epoch memory e = epochs.epochInfo(1);
        return abi.encodeCall(
            epochs.openEpoch, (epoch, e.publicKey, e.commitments, e.shards, e.threshold, e.assurance, e.policyDigest)
        );
    }

    // --- books ---

    function _ofOthers(Vm.Log memory e) internal override {
        if (e.emitter == address(audits)) _ofAudits(e);
        else if (e.emitter == address(epochs)) _ofEpochs(e);
    }

    /// @dev Paid once, for what another verifier found too and what was said before, and no more than allowed an hour.
    function _ofAudits(Vm.Log memory e) private {
        if (e.topics.length < 3) return;
        (bytes32 id, address who) = (e.topics[1], address(uint160(uint256(e.topics[2]))));
        Told storage told = _audits[id][who];
        if (e.topics[0] == IAudits.AuditPosted.selector) {
            that(told.outHash == 0, "audited again after it was opened");
            (uint8 result, bytes32 commitment,,) = abi.decode(e.data, (uint8, bytes32, uint64, bytes));
            // The same, of another batch, shows nothing new.
            if (result != told.result || commitment != told.commitment) _unseen(id, told.result != 0);
            (told.result, told.commitment) = (result, commitment);
        } else if (e.topics[0] == IAudits.AuditOpened.selector) {
            that(told.result != 0 && told.outHash == 0, "opened what was not posted");
            told.outHash = abi.decode(e.data, (bytes32));
            _agreeing[id][told.outHash] += 1;
        } else {
            that(!told.paid && told.outHash != 0 && _agreeing[id][told.outHash] > 1, "paid without agreement");
            bool matches =
                told.outHash == StructHashes.outHash(TOKENS, TRACE) && receipts[placeOf[id]].r.tokensHash == TOKENS;
            that(matches == (told.result == 1), "paid for the contrary");
            _right(id, told.outHash, matches);
            that(!anchor.batch(audits.audit(id, who).batchId).isVoid, "paid for a receipt of a void batch");
            told.paid = true;
            uint256 count = ++_bounties[who][guardian.clock() / 3600];
            that(count <= params.shares(params.version()).auditsPerHour, "too many bounties an hour");
        }
    }

    /// @dev While the court is asked nobody knows; what it convicted nobody found right.
    function _right(bytes32 id, bytes32 found, bool matches) private view {
        (, Phase phase, Verdict verdict, bytes32 replacement) = disputes.receiptStatus(id);
        that(phase == Phase.NONE || phase == Phase.FINAL, "paid while the court is asked");
        that(verdict != Verdict.INVALID && verdict != Verdict.UNAVAILABLE, "paid for what the court convicted");
        that(verdict == Verdict.OVERTURNED ? found == replacement : matches, "paid for what is not right");
    }

    /// @dev Nobody can have copied a vote: none was shown yet, and who brought a result before brings no other.
    function _unseen(bytes32 id, bool again) private view {
        (bytes32 dispute, Phase phase,,) = disputes.receiptStatus(id);
        that(!again || phase == Phase.NONE, "another result beside a dispute");
        that(phase < Phase.REVEAL && said[dispute][1].length == 0, "a result after votes");
    }

    /// @dev PENDING, ACTIVE, DRAINING, RETIRED, each only after the one before, or COMPROMISED; one is active at most, none
    ///      that nobody vouched for, and none is retired that a dispute still needs.
    function _ofEpochs(Vm.Log memory e) private {
        if (e.topics.length < 2) return;
        uint64 epoch = uint64(uint256(e.topics[1]));
        if (e.topics[0] == IKeyEpochs.EpochOpened.selector) {
            that(_states[epoch] == IKeyEpochs.EpochState.NONE, "an epoch is opened twice");
            _states[epoch] = IKeyEpochs.EpochState.PENDING;
            if (epoch > _newest) _newest = epoch;
            return;
        }
        if (e.topics[0] != IKeyEpochs.EpochMoved.selector) {
            _vouched[epoch] = true;
            return;
        }
        (IKeyEpochs.EpochState from, IKeyEpochs.EpochState to) =
            abi.decode(e.data, (IKeyEpochs.EpochState, IKeyEpochs.EpochState));
        that(_states[epoch] == from && from != IKeyEpochs.EpochState.NONE, "an epoch moves from where it is not");
        that(uint8(to) == uint8(from) + 1 || to == IKeyEpochs.EpochState.COMPROMISED, "an epoch leaves its path");
        that(to != IKeyEpochs.EpochState.ACTIVE || _vouched[epoch], "a key in force that nobody vouched for");
        if (to == IKeyEpochs.EpochState.DRAINING) _endedAt[epoch] = guardian.clock();
        if (to == IKeyEpochs.EpochState.RETIRED) _retired(epoch);
        _states[epoch] = to;
    }

    function _retired(uint64 epoch) private view {
        for (uint256 i = 0; i < live.length; ++i) {
            Phase phase = disputes.phaseOf(live[i]);
            IDisputes.Dispute memory d = disputes.dispute(live[i]);
            // Who waits only for somebody to end it asks for no further round, and nobody waits for who is past all its time.
            bool open = phase != Phase.AIRGAP && phase != Phase.FINAL
                && guardian.clock() <= uint256(openedAt[live[i]]) + params.longestDispute(d.paramsVersion);
            that(!open || d.keyEpoch != epoch, "a dispute needs the key");
        }
        that(guardian.clock() >= _endedAt[epoch] + parameters().times.keyRetention, "a key is gone too early");
    }
}
